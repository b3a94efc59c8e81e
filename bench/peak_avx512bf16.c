#ifdef __x86_64__
#define VECTOR_BYTES 64
#define HAS_BF16_DOT
#define HAS_BYTE_DOT
#include "bench/peak_body.h"

const struct peak_set peak_avx512bf16 = PEAK_SET("avx512bf16");
#else
typedef int no_peak_avx512bf16;     /* ISO C wants a declaration in every file */
#endif
