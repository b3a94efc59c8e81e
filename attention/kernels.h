/* kernels.h - the table of hot loops, one table per instruction set.
 *
 * The bodies stand once, in kernels_body.h; each kernels_<set>.c builds them
 * with its own flags.  kernels_select picks one table at start-up, fastest
 * first; every rank uses the same one.
 *
 * The promise all of them keep (design: arithmetic): what is computed for one
 * row never depends on how many rows are in the call.  A row's sums have one
 * stated order, whatever block of rows the loop happens to take.
 *
 * Threads: any; the tables are constant.  Memory: none.
 */
#ifndef ATTENTION_KERNELS_H
#define ATTENTION_KERNELS_H

#include "base/reduce_tree.h"

#include <stddef.h>
#include <stdint.h>

enum { PANEL_WIDTH = 16 };      /* outputs of a weight panel, lanes of a vector */

/* y = x W^T with W packed in panels of 16 outputs (linear.h has the picture).
 * The sum over n_inputs is cut into leaves; each leaf is summed in order, input by
 * input (quantised types: group by group; tiles: 32 inputs by 32), and the leaves
 * are added as `part` says.
 *
 * Packed inputs and panels are cut at the leaves: a leaf of either is filled up
 * with zeros to a multiple of bf16_unit, or of a group. */
struct gemm {
    const float *x;             /* [n_rows][x_stride], n_inputs used; gemm_f32, gemm_bf16 */
    size_t x_stride;
    const void *packed_x;       /* [n_rows / row_unit][unit][row_unit] units of inputs: what pack_bf16 or
                                   pack_int8 made; gemm_int8, gemm_int4, and gemm_bf16 where bf16_unit
                                   is not 0.  Rows up to a multiple of row_unit are readable */
    const float *group_scales;  /* gemm_int8, gemm_int4: [n_rows / row_unit][group][row_unit] */
    const int32_t *group_sums;  /* the same */
    const int32_t *share_sums;  /* gemm_int4: [n_rows / row_unit][share][row_unit], of INT4_SHARE inputs each */
    int n_rows;
    const void *panels;         /* [n_panels][panel_bytes] */
    size_t panel_bytes;
    int n_outputs;              /* of the last panel only the valid lanes are written */
    int group;                  /* inputs of a group; gemm_int8, gemm_int4 */
    const int *leaf_end;        /* [part->end - part->begin] input index, filled up as above */
    const struct reduce_part *part;
    float *y;                   /* node k of row r at y + k * node_stride + r * y_stride */
    size_t y_stride, node_stride;
    int n_gated;                /* 0, or y is [n_rows][n_gated], silu_multiply of the outputs; of one leaf, and
                                   where the table has gates_above */
};

/* Quantised weights and inputs come in groups of inputs, each with a scale and, of
 * inputs, the sum.  A group is one or more units; packed inputs are moved in units, one row
 * of a tile each.  A group of a panel (linear.h) is
 *     int8   [unit][16 quads][16 outputs][4 inputs] bytes, [16] bf16 scale
 *     int4   [unit][8 quads][16 outputs][4 inputs] bytes, [unit][16] factors, [16] bf16 scale
 * filled up to whole cache lines, so that no tile lies across one.  The low halves of int4's bytes are
 * quads 0 to 7, the high ones 8 to 15; a factor byte likewise has those of the two halves of a unit, less 1.
 * int4 is int8 for the products: half a byte less 8, times its factor (1 to 16).
 * int8 is stored plus int8_offset, where one operand of the byte products is unsigned; the sums take
 * that out again. */
enum { INT8_UNIT = 64, MAX_GROUP = 256, INT4_SHARE = 32, INT4_MAX_FACTOR = 16 };

/* Of the weights of a panel's unit, and of a group. */
static inline size_t unit_bytes(int bits)
{
    return (size_t)INT8_UNIT * PANEL_WIDTH * (size_t)bits / 8;
}

static inline size_t group_scales_at(int group, int bits)
{
    return (size_t)(group / INT8_UNIT) * (unit_bytes(bits) + (bits == 4 ? PANEL_WIDTH : 0));
}

static inline size_t group_bytes(int group, int bits)
{
    return (group_scales_at(group, bits) + PANEL_WIDTH * 2 + 63) / 64 * 64;
}

/* scores[r][s] = sum_d queries[r][d] * keys[s][d] */
struct score_block {
    const float *queries;       /* [n_rows][query_stride], width used */
    size_t query_stride;
    const float *keys;          /* [n_keys][key_stride] */
    size_t key_stride;
    float *scores;              /* [n_rows][score_stride], added to if accumulate */
    size_t score_stride;
    int n_rows, n_keys, width;
    int accumulate;             /* 1: scores already hold the sum over another segment */
};

/* sums[r][d] += sum_s weights[r][s] * values[s][d], s in order */
struct value_block {
    const float *weights;       /* [n_rows][weight_stride], n_keys used */
    size_t weight_stride;
    const float *values;        /* [n_keys][value_stride] */
    size_t value_stride;
    float *sums;                /* [n_rows][sum_stride], width used */
    size_t sum_stride;
    int n_rows, n_keys, width;
};

/* The same over rows as they are cached, for tables that have tiles: 16 rows and 16 keys at a time.  Of bf16, 32 columns
 * or keys are summed before they are added to the sum (the order that Intel's manual gives for TDPBF16PS). */
enum { TILE_ROWS = 16, TILE_INPUTS = 32, MAX_TILE_ROWS = 32 };

/* Rows of inputs, whole blocks of tiles, that stay in the second cache while panels pass. */
enum { MOST_ROWS_IN_CACHE = 256 };
static inline int rows_in_cache(size_t row_bytes)
{
    enum { ROWS_BYTES = 9 << 17 };
    int n = (int)(ROWS_BYTES / row_bytes) & ~(MAX_TILE_ROWS - 1);
    return n > MOST_ROWS_IN_CACHE ? MOST_ROWS_IN_CACHE : n > MAX_TILE_ROWS ? n : MAX_TILE_ROWS;
}

/* Bytes of what pack_queries makes of rows of this width, of either type. */
static inline size_t packed_query_bytes(int width)
{
    return (size_t)(width + INT8_UNIT - 1) / INT8_UNIT * INT8_UNIT * MAX_TILE_ROWS * 2;
}

/* scores[r][s] = sum_d queries[r][d] * keys[s][d] * scale of key s */
struct row_scores {
    const void *packed_queries;     /* of pack_queries, n_rows and width as here */
    const float *query_scales;      /* [n_rows], of the same; int8 */
    const void *keys;               /* rows, key_stride bytes apart */
    const char *key_scales;         /* the first row's, a float; int8 */
    size_t key_stride;
    float *scores;                  /* [n_rows][score_stride], added to if accumulate */
    size_t score_stride;
    int n_rows, n_keys, width;      /* n_rows <= MAX_TILE_ROWS */
    int accumulate;
};

/* sums[r][d] = sum_s weights[r][s] * rows[s][d] * scale of row s */
struct row_values {
    const float *weights;           /* [n_rows][weight_stride], n_keys used */
    size_t weight_stride;
    const char *const *rows;        /* [n_keys] cached rows */
    size_t column, scale_at;        /* bytes from a row to its first column here, and to its scale (int8) */
    float *sums;                    /* [n_rows][sum_stride], width used */
    size_t sum_stride;
    int n_rows, n_keys, width;      /* n_keys <= MAX_VALUE_KEYS */
};
enum { MAX_VALUE_KEYS = 256 };

/* Attention over rows of one type as they are cached.  bf16: queries and weights are rounded to bf16.  int8: each of
 * their rows is rounded to whole numbers of 15 bits with one scale, and the sums of products are exact. */
struct row_kernels {
    /* out [packed_query_bytes(width)]; scales [n_rows], int8. */
    void (*pack_queries)(void *out, float *scales, const float *queries, size_t stride, int n_rows, int width);
    void (*score)(const struct row_scores *b);
    void (*add_values)(const struct row_values *b);
};

struct kernels {
    const char *name;
    void (*gemm_f32)(const struct gemm *g);     /* panels of f32 */
    void (*gemm_bf16)(const struct gemm *g);    /* panels of bf16 pairs */
    void (*gemm_int8)(const struct gemm *g);    /* panels of int8 groups */
    void (*gemm_int4)(const struct gemm *g);    /* panels of 4-bit groups */
    int bf16_unit;              /* 0: gemm_bf16 takes x; else packed_x: the processor multiplies bf16 */
    int int8_offset;            /* 128 or 0 */
    int row_unit;               /* 1, or TILE_ROWS */
    int gates_above;            /* gemm_bf16, gemm_int8 and gemm_int4 of more rows may be gated; 0: never */

    /* n inputs as bf16, filled up with zeros to a multiple of bf16_unit; each unit
     * begins row_unit units after the one before. */
    void (*pack_bf16)(uint16_t *out, const float *x, int n);
    /* One group: n <= group <= MAX_GROUP inputs (the rest is zero) to int8 by the
     * largest magnitude; *scale times a number of out is its input, *sum is the sum of out.
     * group is a multiple of INT8_UNIT; each unit begins row_unit units after the one before, and
     * each sum of a share row_unit sums.  share_sums may be NULL. */
    void (*pack_int8)(int8_t *out, float *scale, int32_t *sum, int32_t *share_sums, const float *x, int n, int group);
    void (*score)(const struct score_block *b);
    void (*add_values)(const struct value_block *b);

    /* NULL without tiles; then attention over bf16 and int8 rows widens them. */
    const struct row_kernels *bf16_rows, *int8_rows;

    /* scores[0..n) become exp(scores * scale - max); n is padded to a multiple
     * of 16 with zeros (the caller leaves room).  Returns the sum of the
     * exponentials, *max receives the maximum of the scaled scores.  n >= 1. */
    float (*softmax_part)(float *scores, int n, float scale, float *max);

    /* out = x / rms(x) * weight * factor, statistics over n.
     * Zhang, Sennrich, "Root Mean Square Layer Normalization", 2019. */
    void (*rms_norm)(float *out, const float *x, const float *weight, int n, float eps, float factor);

    /* out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]     (SwiGLU)
     * gate_up holds 16 gates, their 16 ups, the next 16 gates ..: whole panels. */
    void (*silu_multiply)(float *out, const float *gate_up, int n);
    /* x[i] *= 1 / (1 + exp(-gate[i])) */
    void (*sigmoid_multiply)(float *x, const float *gate, int n);
    void (*add)(float *sum, const float *x, int n);             /* sum += x */
    void (*scale_add)(float *sum, const float *x, float a, int n);   /* sum += a * x */
    void (*blend)(float *out, const float *x, float a, const float *y, float b, int n);  /* a x + b y; out may be x */

    /* Cached rows as floats; see cache/layout.h for what a row holds. */
    void (*widen_bf16)(float *out, const uint16_t *in, int n);
    void (*widen_int8)(float *out, const int8_t *in, float scale, int n);
};

/* The table called name, or with NULL the fastest this CPU runs.
 * NULL: no such table, or the CPU lacks its instructions. */
const struct kernels *kernels_select(const char *name);

/* "amx, avx512bf16, avx512, avx2, ref": what this build has, for help and errors. */
const char *kernels_names(void);

#endif
