#ifdef __x86_64__
#define LANES 16
#define BLOCK_ROWS 6
#define BLOCK_PANELS 4
#define SCORE_ROWS 6
#define BYTE_ROWS 6
#define HAS_BF16_DOT
#define HAS_BYTE_DOT
#include "attention/kernels_body.h"
#include "attention/kernels_sets.h"

const struct kernels kernels_avx512bf16 = KERNELS_TABLE("avx512bf16");
#else
typedef int no_avx512bf16_here;     /* ISO C wants a declaration in every file */
#endif
