#ifdef __x86_64__
#define LANES 16
#define BLOCK_ROWS 6
#define BLOCK_PANELS 4
#define SCORE_ROWS 6
#define BYTE_ROWS 6
#define HAS_BF16_DOT
#define HAS_BYTE_DOT
#define HAS_TILES
#include "attention/kernels_body.h"
#include "attention/kernels_sets.h"
#include "attention/kernels_tiles.h"
#include "attention/kernels_tile_rows.h"

const struct kernels kernels_amx = {
    KERNELS_COMMON("amx"),
    .gemm_bf16 = tiles_gemm_bf16, .gemm_int8 = tiles_gemm_int8, .gemm_int4 = tiles_gemm_int4, .pack_bf16 = tiles_pack_bf16,
    .gates_above = MANY_ROWS, .bf16_rows = &tile_bf16_rows, .int8_rows = &tile_int8_rows,
};
#else
typedef int no_amx_here;            /* ISO C wants a declaration in every file */
#endif
