#ifdef __x86_64__
#define VECTOR_BYTES 64
#define HAS_BYTE_PAIRS
#include "bench/peak_body.h"

const struct peak_set peak_avx512 = PEAK_SET("avx512");
#else
typedef int no_peak_avx512;     /* ISO C wants a declaration in every file */
#endif
