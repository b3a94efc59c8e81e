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

#include <math.h>
#include <string.h>

/* Every function that takes a vector is inlined, so how one is passed does not
 * matter; compilers warn about it all the same. */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t v16i __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t v16u __attribute__((vector_size(64), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

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

/* Lane i + lane i+8, then +4, +2, +1. */
INLINE float sum_lanes(v16 v)
{
    float lane[16];
    store16(lane, v);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

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
    const float *x = g->x + (size_t)row * g->x_stride;
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
    gemm_all(g, leaf_bf16);
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
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int s = 0; s < keys; s++) {
            float *out = b->scores + (size_t)(row + r) * b->score_stride + (key + s);
            float sum = sum_lanes(acc[r][s]);
            *out = b->accumulate ? *out + sum : sum;
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
        .score = score, .add_values = add_values,                              \
        .softmax_part = softmax_part, .rms_norm = rms_norm,                    \
        .silu_multiply = silu_multiply, .sigmoid_multiply = sigmoid_multiply,  \
        .add = add, .scale_add = scale_add,                                    \
        .widen_bf16 = widen_bf16, .widen_int8 = widen_int8                     \
    }
