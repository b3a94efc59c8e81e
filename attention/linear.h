/* linear.h - y = x W^T + b for one rank's part of a weight matrix.
 *
 * Weights are packed once, at load, for the kernel that reads them: panels of
 * 16 outputs, each panel one sequential stream.
 *
 *   f32    panel [input][16 outputs]
 *   bf16   panel [input / 2][16 outputs][2 inputs]   (the pairs of vdpbf16ps)
 *   int8   panel [group] of { [unit][16 quads][16 outputs][4 inputs] bytes, [16] bf16
 *          scales, 32 bytes of nothing }
 *   int4   panel [group] of { [unit][8 quads][16 outputs][4 inputs] bytes, [unit][16] factors,
 *          [16] bf16 scales, nothing to the next line }: halves of bytes, see kernels.h
 *
 * A bf16 panel is a run of tiles as they stand, 16 pairs of inputs each, and an int8
 * unit of 64 inputs is one tile.  Panels are filled up with zeros at leaves (kernels.h).
 *
 * int8 has one scale for 256 inputs of an output, or for 128 or 64 where leaves would have to be filled up for
 * more (8.13 to 8.5 bits a weight).  int4 has the same scales, and for every 32 inputs a factor of 1 to 16 that its
 * steps take (4.25 to 4.5 bits): a step times its factor is a byte, and from there on int4 is int8.
 * Inputs are rounded to int8 by groups too, so the products are exact integers.
 *
 * Rows of W come from several matrices (gate and up, or one head's rows out of
 * a larger matrix), columns from a run of segments: a row-parallel layer holds
 * the columns of its leaves (base/reduce_tree.h) and yields one partial sum per
 * node; every other layer has one leaf and one node.
 *
 * BitLinear (Ma et al., "The Era of 1-bit LLMs", 2024; as in the library that
 * MLRA's small models come from): the weight is stored as -1, 0, 1; the input
 * is layer-normed without weights (eps 1e-5) and rounded to int8 by its largest
 * magnitude; out_scale and the input's scale are applied to the exact sum.
 *
 * Owner: the rank that created it; read-only afterwards.  Memory: the arena.
 */
#ifndef ATTENTION_LINEAR_H
#define ATTENTION_LINEAR_H

#include "attention/kernels.h"
#include "base/arena.h"
#include "base/element.h"

enum weight_type { WEIGHT_F32, WEIGHT_BF16, WEIGHT_INT8, WEIGHT_INT4 };

/* Rows of inputs as the kernel wants them, while it runs.  One of a rank serves
 * all its layers; a call with more rows than fit is done in parts. */
struct linear_scratch {
    char *bytes;                    /* of max_rows packed rows, to a multiple of 16 */
    size_t capacity;
    float *scales;                  /* of groups, see struct gemm */
    int32_t *sums;
    int32_t *share_sums;            /* of int4 */
    size_t n_groups, n_shares;      /* there is room for */
};

struct linear {
    int n_outputs, n_inputs;        /* of this rank's part */
    enum weight_type type;
    void *panels;                   /* NULL when n_outputs is 0 */
    size_t panel_bytes;
    const float *bias;              /* [n_outputs] or NULL; not for several nodes */
    struct reduce_part part;
    int leaf_end[REDUCE_MAX_LEAVES];            /* filled up as the panels are */
    int leaf_inputs_end[REDUCE_MAX_LEAVES];     /* in inputs that exist */
    float out_scale;                /* BitLinear: 1 / s of the weight; else 1 */
    struct linear_scratch *scratch; /* NULL: the kernel takes the inputs as they are */
    size_t packed_row_bytes;
    int n_padded;                   /* the last leaf_end */
    int group;                      /* inputs that share a scale; 0 if not quantised */
    int n_gated;                    /* outputs of linear_apply_gated; 0: not made for it */
};

struct linear_spec {
    enum weight_type type;
    const struct matrix *rows;      /* [n_parts], stacked; all with n_inputs columns */
    int n_parts;
    int gated;                      /* 1: two parts of as many rows, gate and up, for linear_apply_gated */
    const struct matrix *bias;      /* [n_parts] vectors, or NULL; an absent one is zero; none if gated */
    /* Row-parallel: the tree and this rank's leaves; leaf k covers the columns
     * [k * n / n_leaves, (k + 1) * n / n_leaves) of the whole matrix, and `rows`
     * are the columns of [begin, end) only.  n_leaves 0: not row-parallel. */
    int n_leaves, leaf_begin, leaf_end;
    int64_t total_inputs;           /* n above; ignored when n_leaves is 0 */
    int ternary;                    /* BitLinear: round to -1, 0, 1 by ternary_mean */
    double ternary_mean;            /* mean |w| of the whole tensor that all rows come from */
    const struct kernels *kernels;  /* that will be used: says whether inputs are packed */
    struct linear_scratch *scratch; /* of the rank; NULL: an own one for a few rows */
};

/* NO_MEMORY. */
MUST_CHECK enum status linear_create(struct linear *linear, const struct linear_spec *spec,
                                     struct arena *arena, struct error *err);

/* y[node][n_rows][y_stride] = x[n_rows][x_stride] W^T (+ b); see struct gemm. */
void linear_apply(const struct linear *linear, const struct kernels *kernels, const float *x,
                  size_t x_stride, int n_rows, float *y, size_t y_stride, size_t node_stride);

/* y[n_rows][y_stride] = silu(x W_gate^T) * (x W_up^T), n_gated wide (SwiGLU: Shazeer, "GLU
 * Variants Improve Transformer", 2020).  Panels of gate and of up take turns, and what comes of a
 * pair of them (kernels that gate many rows), or of a few (others, which use the scratch
 * between [GATED_FLOATS]), is multiplied before it leaves the second cache: the products of
 * long prompts would not fit there. */
enum { GATED_FLOATS = 1 << 16 };
void linear_apply_gated(const struct linear *linear, const struct kernels *kernels, const float *x, size_t x_stride,
                        int n_rows, float *between, float *y, size_t y_stride);

size_t linear_bytes(const struct linear *linear);       /* of the packed panels */

/* Scratch for max_rows rows of max_inputs inputs.  NO_MEMORY. */
MUST_CHECK enum status linear_scratch_create(struct linear_scratch *scratch, int max_rows, int max_inputs,
                                             struct arena *arena, struct error *err);

/* Pack spec's rows into linear->panels, whose leaf_end says how they are filled up
 * (linear_pack.c; called by linear_create).  NO_MEMORY. */
MUST_CHECK enum status linear_pack(struct linear *linear, const struct linear_spec *spec, struct arena *arena,
                                   struct error *err);

const char *weight_type_name(enum weight_type type);
double weight_type_bits(enum weight_type type);     /* a weight takes, scales included, in a large matrix */

/* The type of matrices that are a small part of a model and multiply what has
 * been multiplied before (W_UK, W_UV, convolutions): bf16 at the least. */
enum weight_type weight_type_of_small(enum weight_type type);

/* Mean |w| over a whole matrix, in double, row by row. */
double linear_mean_magnitude(const struct matrix *w, float *row_scratch);

/* First column of leaf k of n_leaves over n columns: whole units where they
 * divide, else rounded to an even column (bf16 panels hold inputs in pairs). */
int linear_leaf_column(int64_t n, int n_leaves, int leaf);

/* The same with x through BitLinear's quantiser: y is scaled to values, also
 * for several nodes.  scratch [n_inputs].  Not row-parallel: the quantiser needs
 * the whole row. */
void linear_apply_bit(const struct linear *linear, const struct kernels *kernels, const float *x,
                      size_t x_stride, int n_rows, float *y, size_t y_stride, float *scratch);

/* BitLinear's view of a weight row: -1, 0, 1; returns what to multiply them by. */
float linear_make_ternary(float *row, int n, double mean);

/* BitLinear's view of an input: out[i] is a whole number in [-128, 127];
 * returns 1 / s, so that out[i] * result is the value.  n >= 1. */
float linear_quantise_input(const float *x, int n, float *out);

#endif
