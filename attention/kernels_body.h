/* kernels_body.h - the bodies of kernels.h, written once.
 *
 * Included by kernels_<set>.c, each built with its own -m flags, after it has
 * defined BLOCK_ROWS and BLOCK_PANELS: how many rows times 16-lane vectors of
 * sums fit into the registers.  The 16-lane type is the compiler's generic
 * vector; narrower machines split it.
 *
 * No sum here depends on BLOCK_ROWS: a block only decides which rows are in
 * registers together.
 */
#include "attention/kernels.h"

#include "base/element.h"

#include <math.h>
#include <string.h>

/* Every function that takes a vector is inlined, so how one is passed does not
 * matter; compilers warn about it all the same. */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t v16i __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t v16u __attribute__((vector_size(64), aligned(4), may_alias));

#ifdef HAS_BF16_DOT
#define HAS_BF16_INPUTS 1
#else
#define HAS_BF16_INPUTS 0
#endif

#define INLINE static inline __attribute__((always_inline))
/* With a sanitizer's check at every access the unrolled bodies take minutes to
 * compile; small blocks, not unrolled, are the same sums and checked as well. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED
#endif
#ifdef IS_SANITIZED
#undef BLOCK_ROWS
#undef BLOCK_PANELS
#define BLOCK_ROWS 2
#define BLOCK_PANELS 2
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(HAS_BF16_DOT) || defined(HAS_BYTE_DOT)
#include "attention/kernels_intrinsics.h"
#endif

INLINE v16 splat(float x)
{
    return (v16){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x };
}

INLINE v16 load16(const float *p)
{
    return *(const v16 *)p;
}

INLINE void store16(float *p, v16 v)
{
    *(v16 *)p = v;
}

/* The first n lanes (0 < n < 16), the rest zero. */
INLINE v16 load_some(const float *p, int n)
{
    float lanes[16] = { 0 };
    memcpy(lanes, p, (size_t)n * sizeof *p);
    return load16(lanes);
}

INLINE void store_some(float *p, v16 v, int n)
{
    float lanes[16];
    store16(lanes, v);
    memcpy(p, lanes, (size_t)n * sizeof *p);
}

typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));

/* Lane i + lane i+8, then +4, +2, +1. */
INLINE float sum_lanes(v16 v)
{
    v8 a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
         + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    v4 b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
    return (b[0] + b[2]) + (b[1] + b[3]);
}

#if BLOCK_PANELS == 4
/* The same sums of four vectors at once: two of them share a vector from the
 * first step on, all four from the second. */
INLINE v4 sum_lanes_4(v16 v0, v16 v1, v16 v2, v16 v3)
{
    v16 ab = __builtin_shufflevector(v0, v1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
           + __builtin_shufflevector(v0, v1, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    v16 cd = __builtin_shufflevector(v2, v3, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
           + __builtin_shufflevector(v2, v3, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    v16 all = __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
            + __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    v8 two = __builtin_shufflevector(all, all, 0, 1, 4, 5, 8, 9, 12, 13)
           + __builtin_shufflevector(all, all, 2, 3, 6, 7, 10, 11, 14, 15);
    return __builtin_shufflevector(two, two, 0, 2, 4, 6) + __builtin_shufflevector(two, two, 1, 3, 5, 7);
}
#endif

/* ---- linear layers ---- */

/* The sums of one leaf, added to nothing: acc = x[first..end) W.  A panel of
 * f32 is [input][16]; of bf16 [input / 2][16][2], an odd last input padded
 * with zero. */
INLINE void leaf_f32(v16 acc[BLOCK_ROWS][BLOCK_PANELS], const struct gemm *g, const float *x,
                     const char *panel, int first, int end, const int rows, const int panels)
{
    for (int k = first; k < end; k++) {
        v16 w[BLOCK_PANELS];
        UNROLL
        for (int p = 0; p < panels; p++)
            w[p] = load16((const float *)(panel + (size_t)p * g->panel_bytes) + (size_t)k * 16);
        UNROLL
        for (int r = 0; r < rows; r++) {
            v16 xk = splat(x[(size_t)r * g->x_stride + (size_t)k]);
            UNROLL
            for (int p = 0; p < panels; p++)
                acc[r][p] += xk * w[p];
        }
    }
}

INLINE void leaf_bf16(v16 acc[BLOCK_ROWS][BLOCK_PANELS], const struct gemm *g, const float *x,
                      const char *panel, int first, int end, const int rows, const int panels)
{
    for (int k = first; k < end; k += 2) {
        v16 low[BLOCK_PANELS], high[BLOCK_PANELS];
        UNROLL
        for (int p = 0; p < panels; p++) {
            v16u pairs = *(const v16u *)(panel + (size_t)p * g->panel_bytes + (size_t)k * 32);
            low[p] = (v16)(pairs << 16);
            high[p] = (v16)(pairs & 0xffff0000u);
        }
        int has_second = k + 1 < end;
        UNROLL
        for (int r = 0; r < rows; r++) {
            const float *pair = x + (size_t)r * g->x_stride + (size_t)k;
            v16 first_x = splat(pair[0]);
            v16 second_x = splat(has_second ? pair[1] : 0);
            UNROLL
            for (int p = 0; p < panels; p++) {
                acc[r][p] += first_x * low[p];
                acc[r][p] += second_x * high[p];
            }
        }
    }
}

typedef void leaf_body(v16 acc[BLOCK_ROWS][BLOCK_PANELS], const struct gemm *g, const float *x,
                       const char *panel, int first, int end, const int rows, const int panels);

INLINE void store_node(const struct gemm *g, v16 acc[BLOCK_ROWS][BLOCK_PANELS], int node, int row,
                       int panel, const int rows, const int panels)
{
    UNROLL
    for (int r = 0; r < rows; r++) {
        float *y = g->y + (size_t)node * g->node_stride + (size_t)(row + r) * g->y_stride;
        UNROLL
        for (int p = 0; p < panels; p++) {
            int output = (panel + p) * PANEL_WIDTH;
            int left = g->n_outputs - output;
            if (left >= PANEL_WIDTH)
                store16(y + output, acc[r][p]);
            else
                store_some(y + output, acc[r][p], left);
        }
    }
}

INLINE void gemm_block(const struct gemm *g, leaf_body *leaf, int row, int panel, const int rows,
                       const int panels)
{
    /* Sums of finished leaves that wait to be merged; most sums are one leaf
     * and never touch it. */
    v16 waiting[REDUCE_MAX_DEPTH][BLOCK_ROWS][BLOCK_PANELS];
    int n_waiting = 0, node = 0, first = 0;
    const float *x = g->packed_x != NULL
        ? (const float *)(const void *)((const char *)g->packed_x + (size_t)row * g->packed_stride)
        : g->x + (size_t)row * g->x_stride;
    const char *w = (const char *)g->panels + (size_t)panel * g->panel_bytes;
    int n_leaves = g->part->end - g->part->begin;
    for (int i = 0; i < n_leaves; i++) {
        v16 acc[BLOCK_ROWS][BLOCK_PANELS];
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int p = 0; p < panels; p++)
                acc[r][p] = splat(0);
        leaf(acc, g, x, w, first, g->leaf_end[i], rows, panels);
        first = g->leaf_end[i];
        for (int m = 0; m < g->part->n_merges[i]; m++) {
            n_waiting--;
            UNROLL
            for (int r = 0; r < rows; r++)
                UNROLL
                for (int p = 0; p < panels; p++)
                    acc[r][p] = waiting[n_waiting][r][p] + acc[r][p];
        }
        if (g->part->node_done[i]) {
            store_node(g, acc, node++, row, panel, rows, panels);
        } else {
            UNROLL
            for (int r = 0; r < rows; r++)
                UNROLL
                for (int p = 0; p < panels; p++)
                    waiting[n_waiting][r][p] = acc[r][p];
            n_waiting++;
        }
    }
}

/* bf16 inputs: a 32-bit word is a pair of inputs, multiplied at once. */
#ifdef HAS_BF16_DOT
INLINE void leaf_bf16_pairs(v16 acc[BLOCK_ROWS][BLOCK_PANELS], const struct gemm *g, const float *x,
                            const char *panel, int first, int end, const int rows, const int panels)
{
    const char *words = (const char *)x;
    for (int k = first; k < end; k += 2) {
        v16i w[BLOCK_PANELS];
        UNROLL
        for (int p = 0; p < panels; p++)
            w[p] = *(const v16i *)(panel + (size_t)p * g->panel_bytes + (size_t)k * 32);
        UNROLL
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, words + (size_t)r * g->packed_stride + (size_t)k * 2, sizeof pair);
            UNROLL
            for (int p = 0; p < panels; p++)
                acc[r][p] = dot_bf16_pairs(acc[r][p], pair, w[p]);
        }
    }
}
#endif

#if BLOCK_ROWS >= 6
#define REST_CASES(block) case 3: block(3); break; case 4: block(4); break; case 5: block(5); break;
#else
#define REST_CASES(block)
#endif

/* All rows against panels [panel, panel + panels): the panels stay in the
 * nearest cache while the rows pass by. */
INLINE void gemm_panels(const struct gemm *g, leaf_body *leaf, int panel, const int panels)
{
#define BLOCK(n) gemm_block(g, leaf, row, panel, n, panels)
    int row = 0;
    for (; row + BLOCK_ROWS <= g->n_rows; row += BLOCK_ROWS)
        BLOCK(BLOCK_ROWS);
    switch (g->n_rows - row) {
    case 1: BLOCK(1); break;
    case 2: BLOCK(2); break;
    REST_CASES(BLOCK)
    default: break;
    }
#undef BLOCK
}

INLINE void gemm_all(const struct gemm *g, leaf_body *leaf)
{
    int n_panels = (g->n_outputs + PANEL_WIDTH - 1) / PANEL_WIDTH;
    int panel = 0;
    for (; panel + BLOCK_PANELS <= n_panels; panel += BLOCK_PANELS)
        gemm_panels(g, leaf, panel, BLOCK_PANELS);
    for (; panel < n_panels; panel++)
        gemm_panels(g, leaf, panel, 1);
}

static void gemm_f32(const struct gemm *g)
{
    gemm_all(g, leaf_f32);
}

static void gemm_bf16(const struct gemm *g)
{
#ifdef HAS_BF16_DOT
    gemm_all(g, leaf_bf16_pairs);
#else
    gemm_all(g, leaf_bf16);
#endif
}

/* ---- quantised linear layers ---- */

#ifndef HAS_BYTE_DOT
/* acc[o] += sum of 4 products of unsigned bytes of w[o] with signed bytes of x. */
INLINE v16i dot_bytes(v16i acc, v16u w, int32_t x)
{
    UNROLL
    for (int b = 0; b < 4; b++) {
        v16i weight = (v16i)(w >> (8 * b) & 255u);
        acc += weight * (int32_t)(int8_t)(x >> (8 * b));
    }
    return acc;
}
#endif

/* Where the parts of a packed row of inputs are. */
struct packed_row {
    const char *bytes;
    const float *scales;
    const int32_t *sums;
};

INLINE struct packed_row packed_row(const struct gemm *g, const char *row)
{
    size_t n_groups = g->packed_stride / (GROUP_INPUTS + 8);
    return (struct packed_row){
        .bytes = row,
        .scales = (const float *)(const void *)(row + n_groups * GROUP_INPUTS),
        .sums = (const int32_t *)(const void *)(row + n_groups * (GROUP_INPUTS + 4)),
    };
}

INLINE v16 load_scales(const char *at)
{
    typedef uint16_t v16h __attribute__((vector_size(32), aligned(2), may_alias));
    v16u wide = __builtin_convertvector(*(const v16h *)at, v16u);
    return (v16)(wide << 16);
}

/* One quad of inputs of a panel's group, a byte per weight. */
INLINE v16u weight_quad(const char *group, int quad, const int bits)
{
    if (bits == 8)
        return *(const v16u *)(group + quad * 64);
    /* Low halves of the bytes are quads 0 to 3, high halves 4 to 7. */
    v16u both = *(const v16u *)(group + quad % (GROUP_QUADS / 2) * 64);
    return (quad < GROUP_QUADS / 2 ? both : both >> 4) & 0x0f0f0f0fu;
}

INLINE void leaf_quantised(v16 acc[BLOCK_ROWS][BLOCK_PANELS], const struct gemm *g, const float *x,
                           const char *panel, int first, int end, const int rows, const int panels,
                           const int bits)
{
    const size_t group_bytes = (size_t)GROUP_INPUTS * 2 * (size_t)bits + 32;
    struct packed_row in[BLOCK_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        in[r] = packed_row(g, (const char *)x + (size_t)r * g->packed_stride);
    for (int k = first; k < end; k++) {
        const char *group = panel + (size_t)k * group_bytes;
        v16i sum[BLOCK_ROWS][BLOCK_PANELS];
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int p = 0; p < panels; p++)
                sum[r][p] = (v16i){ 0 } - in[r].sums[k] * (bits == 8 ? 128 : 8);
        UNROLL
        for (int q = 0; q < GROUP_QUADS; q++) {
            v16u w[BLOCK_PANELS];
            UNROLL
            for (int p = 0; p < panels; p++)
                w[p] = weight_quad(group + (size_t)p * g->panel_bytes, q, bits);
            UNROLL
            for (int r = 0; r < rows; r++) {
                int32_t quad;
                memcpy(&quad, in[r].bytes + (size_t)k * GROUP_INPUTS + q * 4, sizeof quad);
                UNROLL
                for (int p = 0; p < panels; p++)
                    sum[r][p] = dot_bytes(sum[r][p], w[p], quad);
            }
        }
        UNROLL
        for (int p = 0; p < panels; p++) {
            v16 scale = load_scales(group + (size_t)p * g->panel_bytes + group_bytes - 32);
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r][p] += __builtin_convertvector(sum[r][p], v16) * (scale * in[r].scales[k]);
        }
    }
}

INLINE void leaf_int8(v16 acc[BLOCK_ROWS][BLOCK_PANELS], const struct gemm *g, const float *x,
                      const char *panel, int first, int end, const int rows, const int panels)
{
    leaf_quantised(acc, g, x, panel, first, end, rows, panels, 8);
}

INLINE void leaf_int4(v16 acc[BLOCK_ROWS][BLOCK_PANELS], const struct gemm *g, const float *x,
                      const char *panel, int first, int end, const int rows, const int panels)
{
    leaf_quantised(acc, g, x, panel, first, end, rows, panels, 4);
}

/* Sums of integers and of floats share the registers: half as many panels, unless
 * there is one row, which is a matter of memory and wants many streams. */
INLINE void gemm_quantised(const struct gemm *g, leaf_body *leaf)
{
    enum { PANELS = BLOCK_PANELS > 1 ? BLOCK_PANELS / 2 : 1 };
    int n_panels = (g->n_outputs + PANEL_WIDTH - 1) / PANEL_WIDTH;
    int panel = 0;
    for (; g->n_rows == 1 && panel + BLOCK_PANELS <= n_panels; panel += BLOCK_PANELS)
        gemm_block(g, leaf, 0, panel, 1, BLOCK_PANELS);
    for (; panel + PANELS <= n_panels; panel += PANELS)
        gemm_panels(g, leaf, panel, PANELS);
    for (; panel < n_panels; panel++)
        gemm_panels(g, leaf, panel, 1);
}

static void gemm_int8(const struct gemm *g)
{
    gemm_quantised(g, leaf_int8);
}

static void gemm_int4(const struct gemm *g)
{
    gemm_quantised(g, leaf_int4);
}

static void pack_bf16(uint16_t *out, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = f32_to_bf16(x[i]);
    if (n % 2 != 0)
        out[n] = 0;
}

static void pack_int8(int8_t *out, float *scale, int32_t *sum, const float *x, int n)
{
    float padded[GROUP_INPUTS] = { 0 };
    memcpy(padded, x, (size_t)n * sizeof *x);
    float largest = 0;
    for (int i = 0; i < GROUP_INPUTS; i++) {
        float size = fabsf(padded[i]);
        largest = size > largest ? size : largest;
    }
    float inverse = largest > 0 ? 127 / largest : 0;
    int32_t total = 0;
    for (int i = 0; i < GROUP_INPUTS; i++) {
        /* 1.5 * 2^23 rounds to the nearest whole number. */
        float rounded = padded[i] * inverse + 12582912.0f;
        int32_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        int32_t value = bits - 0x4b400000;
        out[i] = (int8_t)value;
        total += value;
    }
    *scale = largest / 127;
    *sum = total;
}

/* ---- attention over rows ---- */

/* One score: 16 partial sums over the width, added lane by lane, then what is
 * left of the width. */
INLINE void score_tile(const struct score_block *b, int row, int key, const int rows, const int keys)
{
    v16 acc[BLOCK_ROWS][BLOCK_PANELS];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int s = 0; s < keys; s++)
            acc[r][s] = splat(0);
    const float *q = b->queries + (size_t)row * b->query_stride;
    const float *k = b->keys + (size_t)key * b->key_stride;
    int n_full = b->width & ~15, n_left = b->width & 15;
    for (int d = 0; d < n_full; d += 16) {
        v16 kd[BLOCK_PANELS];
        UNROLL
        for (int s = 0; s < keys; s++)
            kd[s] = load16(k + (size_t)s * b->key_stride + d);
        UNROLL
        for (int r = 0; r < rows; r++) {
            v16 qd = load16(q + (size_t)r * b->query_stride + d);
            UNROLL
            for (int s = 0; s < keys; s++)
                acc[r][s] += qd * kd[s];
        }
    }
    if (n_left > 0) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            v16 qd = load_some(q + (size_t)r * b->query_stride + n_full, n_left);
            UNROLL
            for (int s = 0; s < keys; s++)
                acc[r][s] += qd * load_some(k + (size_t)s * b->key_stride + n_full, n_left);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        float *out = b->scores + (size_t)(row + r) * b->score_stride + key;
#if BLOCK_PANELS == 4
        if (keys == 4) {
            v4 sum = sum_lanes_4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
            if (b->accumulate)
                sum += *(v4 *)out;
            *(v4 *)out = sum;
            continue;
        }
#endif
        UNROLL
        for (int s = 0; s < keys; s++) {
            float sum = sum_lanes(acc[r][s]);
            out[s] = b->accumulate ? out[s] + sum : sum;
        }
    }
}

INLINE void score_rows(const struct score_block *b, int row, const int rows)
{
    int key = 0;
    for (; key + BLOCK_PANELS <= b->n_keys; key += BLOCK_PANELS)
        score_tile(b, row, key, rows, BLOCK_PANELS);
    for (; key < b->n_keys; key++)
        score_tile(b, row, key, rows, 1);
}

static void score(const struct score_block *b)
{
    int row = 0;
    for (; row + BLOCK_ROWS <= b->n_rows; row += BLOCK_ROWS)
        score_rows(b, row, BLOCK_ROWS);
    for (; row < b->n_rows; row++)
        score_rows(b, row, 1);
}

INLINE void value_tile(const struct value_block *b, int row, int d, const int rows, const int vectors)
{
    v16 acc[BLOCK_ROWS][BLOCK_PANELS];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++)
            acc[r][v] = load16(b->sums + (size_t)(row + r) * b->sum_stride + d + v * 16);
    for (int s = 0; s < b->n_keys; s++) {
        const float *value = b->values + (size_t)s * b->value_stride + d;
        v16 x[BLOCK_PANELS];
        UNROLL
        for (int v = 0; v < vectors; v++)
            x[v] = load16(value + v * 16);
        UNROLL
        for (int r = 0; r < rows; r++) {
            v16 weight = splat(b->weights[(size_t)(row + r) * b->weight_stride + (size_t)s]);
            UNROLL
            for (int v = 0; v < vectors; v++)
                acc[r][v] += weight * x[v];
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++)
            store16(b->sums + (size_t)(row + r) * b->sum_stride + d + v * 16, acc[r][v]);
}

/* The last width % 16 columns of one row. */
static void value_left(const struct value_block *b, int row, int d, int n)
{
    float *sums = b->sums + (size_t)row * b->sum_stride + d;
    v16 acc = load_some(sums, n);
    for (int s = 0; s < b->n_keys; s++)
        acc += splat(b->weights[(size_t)row * b->weight_stride + (size_t)s])
             * load_some(b->values + (size_t)s * b->value_stride + d, n);
    store_some(sums, acc, n);
}

INLINE void value_rows(const struct value_block *b, int row, const int rows)
{
    int d = 0;
    for (; d + BLOCK_PANELS * 16 <= b->width; d += BLOCK_PANELS * 16)
        value_tile(b, row, d, rows, BLOCK_PANELS);
    for (; d + 16 <= b->width; d += 16)
        value_tile(b, row, d, rows, 1);
    if (d < b->width)
        for (int r = 0; r < rows; r++)
            value_left(b, row + r, d, b->width - d);
}

static void add_values(const struct value_block *b)
{
    int row = 0;
    for (; row + BLOCK_ROWS <= b->n_rows; row += BLOCK_ROWS)
        value_rows(b, row, BLOCK_ROWS);
    for (; row < b->n_rows; row++)
        value_rows(b, row, 1);
}

/* ---- elementwise ---- */

/* exp(x) for x <= 88: 2^n * p(r) with r in [-ln2/2, ln2/2] and a polynomial of
 * degree 6; relative error below 2e-7.  Below -87 the result is 0. */
INLINE v16 exp16(v16 x)
{
    const v16 low = splat(-87.0f);
    v16i in_range = x >= low;
    x = (v16)((v16i)x & in_range);
    v16 rounded = x * 1.44269504f + 12582912.0f;    /* 1.5 * 2^23: rounds to an integer */
    v16i n = (v16i)rounded - (v16i)splat(12582912.0f);
    v16 whole = rounded - 12582912.0f;
    v16 r = x - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    v16 p = splat(1.38888889e-3f);
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    v16i bits = (v16i)p + (n << 23);
    return (v16)(bits & in_range);
}

static float softmax_part(float *scores, int n, float scale, float *max)
{
    int padded = (n + 15) & ~15;
    for (int i = n; i < padded; i++)
        scores[i] = -INFINITY;
    v16 best = load16(scores) * scale;
    store16(scores, best);
    for (int i = 16; i < padded; i += 16) {
        v16 x = load16(scores + i) * scale;
        store16(scores + i, x);
        v16i larger = x > best;
        best = (v16)(((v16i)x & larger) | ((v16i)best & ~larger));
    }
    float m = best[0];
    for (int i = 1; i < 16; i++)
        m = best[i] > m ? best[i] : m;
    v16 sum = splat(0);
    for (int i = 0; i < padded; i += 16) {
        v16 e = exp16(load16(scores + i) - m);
        store16(scores + i, e);
        sum += e;
    }
    *max = m;
    return sum_lanes(sum);
}

static void rms_norm(float *out, const float *x, const float *weight, int n, float eps, float factor)
{
    v16 squares = splat(0);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 xi = load16(x + i);
        squares += xi * xi;
    }
    if (i < n) {
        v16 xi = load_some(x + i, n - i);
        squares += xi * xi;
    }
    float scale = factor / sqrtf(sum_lanes(squares) / (float)n + eps);
    for (i = 0; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

INLINE v16 sigmoid16(v16 x)
{
    /* exp16 takes at most 88; beyond it the sigmoid is 0 to the last bit. */
    v16 minus = -x;
    v16i small = minus < splat(88.0f);
    minus = (v16)(((v16i)minus & small) | ((v16i)splat(88.0f) & ~small));
    return 1.0f / (1.0f + exp16(minus));
}

static void silu_multiply(float *gate, const float *up, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 g = load16(gate + i);
        store16(gate + i, g * sigmoid16(g) * load16(up + i));
    }
    if (i < n) {
        v16 g = load_some(gate + i, n - i);
        store_some(gate + i, g * sigmoid16(g) * load_some(up + i, n - i), n - i);
    }
}

static void sigmoid_multiply(float *x, const float *gate, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16)
        store16(x + i, load16(x + i) * sigmoid16(load16(gate + i)));
    if (i < n)
        store_some(x + i, load_some(x + i, n - i) * sigmoid16(load_some(gate + i, n - i)), n - i);
}

static void add(float *sum, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        sum[i] += x[i];
}

static void scale_add(float *sum, const float *x, float a, int n)
{
    for (int i = 0; i < n; i++)
        sum[i] += a * x[i];
}

static void widen_bf16(float *out, const uint16_t *in, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)in[i] << 16;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

static void widen_int8(float *out, const int8_t *in, float scale, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = (float)in[i] * scale;
}

#define KERNELS_TABLE(set)                                                     \
    {                                                                          \
        .name = set, .gemm_f32 = gemm_f32, .gemm_bf16 = gemm_bf16,             \
        .gemm_int8 = gemm_int8, .gemm_int4 = gemm_int4,                        \
        .has_bf16_inputs = HAS_BF16_INPUTS,                                    \
        .pack_bf16 = pack_bf16, .pack_int8 = pack_int8,                        \
        .score = score, .add_values = add_values,                              \
        .softmax_part = softmax_part, .rms_norm = rms_norm,                    \
        .silu_multiply = silu_multiply, .sigmoid_multiply = sigmoid_multiply,  \
        .add = add, .scale_add = scale_add,                                    \
        .widen_bf16 = widen_bf16, .widen_int8 = widen_int8                     \
    }
