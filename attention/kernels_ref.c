#define LANES 4
#define BLOCK_ROWS 2
#define BLOCK_PANELS 1
#define SCORE_ROWS 2
#define BYTE_ROWS 2
#include "attention/kernels_body.h"
#include "attention/kernels_sets.h"

const struct kernels kernels_ref = KERNELS_TABLE("ref");
