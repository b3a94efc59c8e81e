#ifdef __x86_64__
#define VECTOR_BYTES 64
#define HAS_TILES
#include "bench/peak_body.h"

const struct peak_set peak_amx = PEAK_SET("amx");
#else
typedef int no_peak_amx;            /* ISO C wants a declaration in every file */
#endif
