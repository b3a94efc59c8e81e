#ifdef __x86_64__
#define BLOCK_ROWS 3
#define BLOCK_PANELS 2
#include "attention/kernels_body.h"
#include "attention/kernels_sets.h"

const struct kernels kernels_avx2 = KERNELS_TABLE("avx2");
#else
typedef int no_avx2_here;       /* ISO C wants a declaration in every file */
#endif
