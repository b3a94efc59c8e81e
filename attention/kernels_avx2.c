#ifdef __x86_64__
#define LANES 8
#define BLOCK_ROWS 6
#define BLOCK_PANELS 1
#define SCORE_ROWS 3
#define BYTE_ROWS 4
#define HAS_BYTE_PAIRS
#include "attention/kernels_body.h"
#include "attention/kernels_sets.h"

const struct kernels kernels_avx2 = KERNELS_TABLE("avx2");
#else
typedef int no_avx2_here;       /* ISO C wants a declaration in every file */
#endif
