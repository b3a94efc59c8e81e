#ifdef __x86_64__
#define VECTOR_BYTES 32
#define HAS_BYTE_PAIRS
#include "bench/peak_body.h"

const struct peak_set peak_avx2 = PEAK_SET("avx2");
#else
typedef int no_peak_avx2;     /* ISO C wants a declaration in every file */
#endif
