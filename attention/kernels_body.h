/* kernels_body.h - the bodies of kernels.h, written once.
 *
 * Included by kernels_<set>.c, each built with its own -m flags, after it has
 * defined
 *   LANES         floats of the set's widest vector: 4, 8 or 16.  The type is the
 *                 compiler's generic vector of exactly that width: a wider one
 *                 would be kept in memory, at a tenth of the speed.
 *   BLOCK_ROWS    rows of a block of sums, and
 *   BLOCK_PANELS  panels of 16 outputs beside them, that fit into the registers;
 *   SCORE_ROWS    the same for scores, beside 4 keys;
 *   BYTE_ROWS     the same for quantised weights.
 *
 * No sum here depends on the size of a block: it only decides which rows are in
 * registers together.
 */
#include "attention/kernels.h"

#include "base/element.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Every function that takes a vector is inlined, so how one is passed does not
 * matter; compilers warn about it all the same. */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t veci __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t vecu __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#if defined(HAS_TILES)
#define BF16_UNIT TILE_INPUTS
#define ROW_UNIT TILE_ROWS
#elif defined(HAS_BF16_DOT)
#define BF16_UNIT 2
#define ROW_UNIT 1
#else
#define BF16_UNIT 0
#define ROW_UNIT 1
#endif
/* What int8 weights are more than they stand for, when they are multiplied and as they are stored. */
#ifdef HAS_BYTE_DOT
#define BYTE_OFFSET 128
#else
#define BYTE_OFFSET 0
#endif
#ifdef HAS_TILES
#define INT8_OFFSET 0
#else
#define INT8_OFFSET BYTE_OFFSET
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
#undef SCORE_ROWS
#undef BYTE_ROWS
#define BLOCK_ROWS 2
#define BLOCK_PANELS 1
#define SCORE_ROWS 2
#define BYTE_ROWS 2
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(HAS_BF16_DOT) || defined(HAS_BYTE_DOT) || defined(HAS_BYTE_PAIRS)
#include "attention/kernels_intrinsics.h"
#endif

INLINE vec splat(float x)
{
#if LANES == 16
    return (vec){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x };
#elif LANES == 8
    return (vec){ x, x, x, x, x, x, x, x };
#else
    return (vec){ x, x, x, x };
#endif
}

INLINE vec load_vec(const float *p)
{
    return *(const vec *)p;
}

INLINE void store_vec(float *p, vec v)
{
    *(vec *)p = v;
}

/* The first n lanes (0 <= n <= LANES), the rest zero. */
INLINE vec load_some(const float *p, int n)
{
    float lanes[LANES] = { 0 };
    memcpy(lanes, p, (size_t)n * sizeof *p);
    return load_vec(lanes);
}

/* The same of any n, also below 0 and above LANES. */
INLINE vec load_first(const float *p, int n)
{
    return n >= LANES ? load_vec(p) : n > 0 ? load_some(p, n) : splat(0);
}

INLINE void store_some(float *p, vec v, int n)
{
    float lanes[LANES];
    store_vec(lanes, v);
    memcpy(p, lanes, (size_t)n * sizeof *p);
}

typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));

/* The lanes of a vector are added in halves: lane i + lane i + LANES / 2, and so
 * on down to one. */
#if LANES == 16
INLINE v4 quarter_sums(vec v)
{
    v8 a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
         + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
}

/* Four vectors at once: two of them share a vector from the first step on. */
INLINE v4 sum_lanes_4(vec v0, vec v1, vec v2, vec v3)
{
    vec ab = __builtin_shufflevector(v0, v1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
           + __builtin_shufflevector(v0, v1, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    vec cd = __builtin_shufflevector(v2, v3, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
           + __builtin_shufflevector(v2, v3, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    vec all = __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
            + __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    v8 two = __builtin_shufflevector(all, all, 0, 1, 4, 5, 8, 9, 12, 13)
           + __builtin_shufflevector(all, all, 2, 3, 6, 7, 10, 11, 14, 15);
    return __builtin_shufflevector(two, two, 0, 2, 4, 6) + __builtin_shufflevector(two, two, 1, 3, 5, 7);
}
#elif LANES == 8
INLINE v4 quarter_sums(vec v)
{
    return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
}

INLINE v4 sum_lanes_4(vec v0, vec v1, vec v2, vec v3)
{
    vec ab = __builtin_shufflevector(v0, v1, 0, 1, 2, 3, 8, 9, 10, 11)
           + __builtin_shufflevector(v0, v1, 4, 5, 6, 7, 12, 13, 14, 15);
    vec cd = __builtin_shufflevector(v2, v3, 0, 1, 2, 3, 8, 9, 10, 11)
           + __builtin_shufflevector(v2, v3, 4, 5, 6, 7, 12, 13, 14, 15);
    vec two = __builtin_shufflevector(ab, cd, 0, 1, 4, 5, 8, 9, 12, 13)
            + __builtin_shufflevector(ab, cd, 2, 3, 6, 7, 10, 11, 14, 15);
    return __builtin_shufflevector(two, two, 0, 2, 4, 6) + __builtin_shufflevector(two, two, 1, 3, 5, 7);
}
#else
INLINE v4 quarter_sums(vec v)
{
    return v;
}

INLINE v4 sum_lanes_4(vec v0, vec v1, vec v2, vec v3)
{
    vec ab = __builtin_shufflevector(v0, v1, 0, 1, 4, 5) + __builtin_shufflevector(v0, v1, 2, 3, 6, 7);
    vec cd = __builtin_shufflevector(v2, v3, 0, 1, 4, 5) + __builtin_shufflevector(v2, v3, 2, 3, 6, 7);
    return __builtin_shufflevector(ab, cd, 0, 2, 4, 6) + __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
}
#endif

INLINE float sum_lanes(vec v)
{
    v4 b = quarter_sums(v);
    return (b[0] + b[2]) + (b[1] + b[3]);
}

/* ---- linear layers ---- */

/* A panel of 16 outputs is PARTS vectors; vector v of a block is part v % PARTS of
 * its panel v / PARTS.  One row is a matter of memory and takes SINGLE_PANELS
 * panels, so that there are several streams. */
enum {
    PARTS = PANEL_WIDTH / LANES,
    SINGLE_PANELS = BLOCK_PANELS > 4 ? BLOCK_PANELS : 4,
    MAX_VECTORS = SINGLE_PANELS * PARTS,
};

/* Where vector v's first output lies, in panels that start at `panel`, `at` bytes
 * into each; an output takes 4 bytes there (a float, a pair, a quad). */
INLINE const char *vector_at(const struct gemm *g, const char *panel, int v, size_t at)
{
    return panel + (size_t)(v / PARTS) * g->panel_bytes + at + (size_t)(v % PARTS) * LANES * 4;
}

/* What the loops will come to is asked for: products that wait for a line of the
 * second cache are started anew when it comes, and take the place of others. */
INLINE void prefetch_panels(const struct gemm *g, const char *panel, size_t at, const int vectors)
{
    enum { LINE = 64, AHEAD = 32 };
    UNROLL
    for (int v = 0; v < vectors; v += PARTS)
        __builtin_prefetch(vector_at(g, panel, v, at + AHEAD * LINE), 0, 3);
}

/* The sums of one leaf, added to nothing: acc = x[first..end) W.  A panel of
 * f32 is [input][16]; of bf16 [input / 2][16][2], an odd last input padded
 * with zero. */
INLINE void leaf_f32(vec acc[BLOCK_ROWS][MAX_VECTORS], const struct gemm *g, int row, const char *panel,
                     int first, int end, const int rows, const int vectors)
{
    const float *x = g->x + (size_t)row * g->x_stride;
    for (int k = first; k < end; k++) {
        vec w[MAX_VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++)
            w[v] = *(const vec *)vector_at(g, panel, v, (size_t)k * 64);
        prefetch_panels(g, panel, (size_t)k * 64, vectors);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vec xk = splat(x[(size_t)r * g->x_stride + (size_t)k]);
            UNROLL
            for (int v = 0; v < vectors; v++)
                acc[r][v] += xk * w[v];
        }
    }
}

#ifndef HAS_BF16_DOT
INLINE void leaf_bf16(vec acc[BLOCK_ROWS][MAX_VECTORS], const struct gemm *g, int row, const char *panel,
                      int first, int end, const int rows, const int vectors)
{
    const float *x = g->x + (size_t)row * g->x_stride;
    for (int k = first; k < end; k += 2) {
        vec low[MAX_VECTORS], high[MAX_VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++) {
            vecu pairs = *(const vecu *)vector_at(g, panel, v, (size_t)k * 32);
            low[v] = (vec)(pairs << 16);
            high[v] = (vec)(pairs & 0xffff0000u);
        }
        prefetch_panels(g, panel, (size_t)k * 32, vectors);
        int has_second = k + 1 < end;
        UNROLL
        for (int r = 0; r < rows; r++) {
            const float *pair = x + (size_t)r * g->x_stride + (size_t)k;
            vec first_x = splat(pair[0]);
            vec second_x = splat(has_second ? pair[1] : 0);
            UNROLL
            for (int v = 0; v < vectors; v++) {
                acc[r][v] += first_x * low[v];
                acc[r][v] += second_x * high[v];
            }
        }
    }
}
#endif

typedef void leaf_body(vec acc[BLOCK_ROWS][MAX_VECTORS], const struct gemm *g, int row, const char *panel,
                       int first, int end, const int rows, const int vectors);

INLINE void store_node(const struct gemm *g, vec acc[BLOCK_ROWS][MAX_VECTORS], int node, int row,
                       int panel, const int rows, const int vectors)
{
    UNROLL
    for (int r = 0; r < rows; r++) {
        float *y = g->y + (size_t)node * g->node_stride + (size_t)(row + r) * g->y_stride;
        UNROLL
        for (int v = 0; v < vectors; v++) {
            int output = panel * PANEL_WIDTH + v * LANES;
            int left = g->n_outputs - output;
            if (left >= LANES)
                store_vec(y + output, acc[r][v]);
            else if (left > 0)
                store_some(y + output, acc[r][v], left);
        }
    }
}

INLINE void gemm_block(const struct gemm *g, leaf_body *leaf, int row, int panel, const int rows,
                       const int panels)
{
    const int vectors = panels * PARTS;
    /* Sums of finished leaves that wait to be merged; most sums are one leaf
     * and never touch it. */
    vec waiting[REDUCE_MAX_DEPTH][BLOCK_ROWS][MAX_VECTORS];
    int n_waiting = 0, node = 0, first = 0;
    const char *w = (const char *)g->panels + (size_t)panel * g->panel_bytes;
    int n_leaves = g->part->end - g->part->begin;
    for (int i = 0; i < n_leaves; i++) {
        vec acc[BLOCK_ROWS][MAX_VECTORS];
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int v = 0; v < vectors; v++)
                acc[r][v] = splat(0);
        leaf(acc, g, row, w, first, g->leaf_end[i], rows, vectors);
        first = g->leaf_end[i];
        for (int m = 0; m < g->part->n_merges[i]; m++) {
            n_waiting--;
            UNROLL
            for (int r = 0; r < rows; r++)
                UNROLL
                for (int v = 0; v < vectors; v++)
                    acc[r][v] = waiting[n_waiting][r][v] + acc[r][v];
        }
        if (g->part->node_done[i]) {
            store_node(g, acc, node++, row, panel, rows, vectors);
        } else {
            UNROLL
            for (int r = 0; r < rows; r++)
                UNROLL
                for (int v = 0; v < vectors; v++)
                    waiting[n_waiting][r][v] = acc[r][v];
            n_waiting++;
        }
    }
}

/* bf16 inputs: a 32-bit word is a pair of inputs, multiplied at once. */
#if defined(HAS_BF16_DOT) && !defined(HAS_TILES)
INLINE void leaf_bf16_pairs(vec acc[BLOCK_ROWS][MAX_VECTORS], const struct gemm *g, int row, const char *panel,
                            int first, int end, const int rows, const int vectors)
{
    size_t stride = (size_t)g->leaf_end[g->part->end - g->part->begin - 1] * 2;
    const char *words = (const char *)g->packed_x + (size_t)row * stride;
    for (int k = first; k < end; k += 2) {
        veci w[MAX_VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++)
            w[v] = *(const veci *)vector_at(g, panel, v, (size_t)k * 32);
        prefetch_panels(g, panel, (size_t)k * 32, vectors);
        UNROLL
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, words + (size_t)r * stride + (size_t)k * 2, sizeof pair);
            UNROLL
            for (int v = 0; v < vectors; v++)
                acc[r][v] = dot_bf16_pairs(acc[r][v], pair, w[v]);
        }
    }
}
#endif

/* The rows that a block leaves over, as one smaller block. */
#define REST(n_left, size, block)                                              \
    switch (n_left) {                                                          \
    case 1: block(1); break;                                                   \
    case 2: if (size > 2) block(2); break;                                     \
    case 3: if (size > 3) block(3); break;                                     \
    case 4: if (size > 4) block(4); break;                                     \
    case 5: if (size > 5) block(5); break;                                     \
    default: break;                                                            \
    }

/* All rows, `rows` at a time, against panels [panel, panel + panels): the panels
 * stay in the nearest cache while the rows pass by. */
INLINE void gemm_panels(const struct gemm *g, leaf_body *leaf, int panel, const int panels, const int rows)
{
#define BLOCK(n) gemm_block(g, leaf, row, panel, n, panels)
    int row = 0;
    for (; row + rows <= g->n_rows; row += rows)
        BLOCK(rows);
    REST(g->n_rows - row, rows, BLOCK)
#undef BLOCK
}

INLINE void gemm_all(const struct gemm *g, leaf_body *leaf, const int panels, const int rows)
{
    int n_panels = (g->n_outputs + PANEL_WIDTH - 1) / PANEL_WIDTH;
    int panel = 0;
    for (; g->n_rows == 1 && panel + SINGLE_PANELS <= n_panels; panel += SINGLE_PANELS)
        gemm_block(g, leaf, 0, panel, 1, SINGLE_PANELS);
    for (; panel + panels <= n_panels; panel += panels)
        gemm_panels(g, leaf, panel, panels, rows);
    for (; panel < n_panels; panel++)
        gemm_panels(g, leaf, panel, 1, rows);
}

static void gemm_f32(const struct gemm *g)
{
    gemm_all(g, leaf_f32, BLOCK_PANELS, BLOCK_ROWS);
}

#ifndef HAS_TILES
static void gemm_bf16(const struct gemm *g)
{
#ifdef HAS_BF16_DOT
    gemm_all(g, leaf_bf16_pairs, BLOCK_PANELS, BLOCK_ROWS);
#else
    gemm_all(g, leaf_bf16, BLOCK_PANELS, BLOCK_ROWS);
#endif
}
#endif

/* ---- quantised linear layers ---- */

#if !defined(HAS_BYTE_DOT) && !defined(HAS_BYTE_PAIRS)
/* acc[o] += sum of 4 products of bytes of w[o] and x[o] */
INLINE veci add_quad(veci acc, vecu w, veci x, const int bits)
{
    (void)bits;
    UNROLL
    for (int b = 0; b < 4; b++)
        acc += ((veci)(w << (24 - 8 * b)) >> 24) * (x << (24 - 8 * b) >> 24);
    return acc;
}
#endif

/* Inputs of all leaves, filled up. */
INLINE int all_inputs(const struct gemm *g)
{
    return g->leaf_end[g->part->end - g->part->begin - 1];
}

/* Where the first of a row's pieces (units, groups) is among packed inputs, in pieces; the
 * next is ROW_UNIT further. */
INLINE size_t first_piece(const struct gemm *g, int row, const int inputs)
{
    size_t n_pieces = (size_t)(all_inputs(g) / inputs);
    return (size_t)(row / ROW_UNIT) * n_pieces * ROW_UNIT + (size_t)(row % ROW_UNIT);
}

/* LANES bf16 numbers. */
INLINE vec load_scales(const char *at)
{
    typedef uint16_t halves __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
    vecu wide = __builtin_convertvector(*(const halves *)at, vecu);
    return (vec)(wide << 16);
}

/* Inputs that share a factor, and the quads of them that a vector of int4 holds in either half of its bytes. */
enum { SHARE_QUADS = INT4_SHARE / 4 };

/* Of int4 the products of a share are those of 0 to 15 first; 8 times its inputs less, times its factor, they are
 * what they stand for. */
INLINE veci start_share(int32_t sum)
{
#ifdef HAS_BYTE_PAIRS
    (void)sum;
    return (veci){ 0 };
#else
    return (veci){ 0 } - 8 * sum;
#endif
}

INLINE veci end_share(veci products, veci factor, int32_t sum)
{
#ifdef HAS_BYTE_PAIRS
    return add_pairs(products, (vecu)(factor | factor << 16)) - factor * (8 * sum);
#else
    (void)sum;
    return products * factor;
#endif
}

/* The factors of a share: the low halves of bytes are those of the first in a unit. */
INLINE veci load_factors(const char *factors, const int half)
{
    typedef uint8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
    vecu both = __builtin_convertvector(*(const bytes *)factors, vecu);
    return (veci)((both >> (half * 4) & 15u) + 1u);
}

/* A quad of inputs of each row in every lane. */
INLINE veci spread_quad(const char *x)
{
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return (veci){ 0 } + quad;
}

/* whole[r][v] += the products of one unit of int8 */
INLINE void add_int8_unit(veci whole[BLOCK_ROWS][MAX_VECTORS], const struct gemm *g, const char *const x[BLOCK_ROWS],
                          const char *unit, const int rows, const int vectors)
{
    UNROLL
    for (int q = 0; q < INT8_UNIT / 4; q++) {
        vecu w[MAX_VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++) {
            w[v] = *(const vecu *)vector_at(g, unit, v, (size_t)q * 64);
            if (INT8_OFFSET != BYTE_OFFSET)
                w[v] ^= 0x80808080u;
        }
        prefetch_panels(g, unit, (size_t)q * 64, vectors);
        UNROLL
        for (int r = 0; r < rows; r++) {
            veci inputs = spread_quad(x[r] + q * 4);
            UNROLL
            for (int v = 0; v < vectors; v++)
                whole[r][v] = add_quad(whole[r][v], w[v], inputs, 8);
        }
    }
}

/* The same of int4: its two shares side by side, as they lie in the bytes. */
INLINE void add_int4_unit(veci whole[BLOCK_ROWS][MAX_VECTORS], const struct gemm *g, const char *const x[BLOCK_ROWS],
                          const int32_t *const share_sums[BLOCK_ROWS], const char *unit, const char *factors,
                          const int rows, const int vectors)
{
    veci low[BLOCK_ROWS][MAX_VECTORS], high[BLOCK_ROWS][MAX_VECTORS];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++) {
            low[r][v] = start_share(share_sums[r][0]);
            high[r][v] = start_share(share_sums[r][ROW_UNIT]);
        }
    UNROLL
    for (int q = 0; q < SHARE_QUADS; q++) {
        vecu w[MAX_VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++)
            w[v] = *(const vecu *)vector_at(g, unit, v, (size_t)q * 64);
        prefetch_panels(g, unit, (size_t)q * 64, vectors);
        UNROLL
        for (int r = 0; r < rows; r++) {
            veci first = spread_quad(x[r] + q * 4), second = spread_quad(x[r] + INT4_SHARE + q * 4);
            UNROLL
            for (int v = 0; v < vectors; v++) {
                low[r][v] = add_quad(low[r][v], w[v] & 0x0f0f0f0fu, first, 4);
                high[r][v] = add_quad(high[r][v], w[v] >> 4 & 0x0f0f0f0fu, second, 4);
            }
        }
    }
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const char *own = factors + (size_t)(v / PARTS) * g->panel_bytes + (size_t)(v % PARTS) * LANES;
        veci of_low = load_factors(own, 0), of_high = load_factors(own, 1);
        UNROLL
        for (int r = 0; r < rows; r++)
            whole[r][v] += end_share(low[r][v], of_low, share_sums[r][0])
                         + end_share(high[r][v], of_high, share_sums[r][ROW_UNIT]);
    }
}

INLINE void leaf_quantised(vec acc[BLOCK_ROWS][MAX_VECTORS], const struct gemm *g, int row, const char *panel,
                           int first, int end, const int rows, const int vectors, const int bits)
{
    const int n_units = g->group / INT8_UNIT;
    const size_t step = group_bytes(g->group, bits);
    int first_unit = first / INT8_UNIT, first_group = first / g->group;
    const char *weights = panel + (size_t)first_group * step;
    const char *x[BLOCK_ROWS];
    const float *scales[BLOCK_ROWS];
    const int32_t *sums[BLOCK_ROWS], *share_sums[BLOCK_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        size_t at = first_piece(g, row + r, g->group) + (size_t)first_group * ROW_UNIT;
        x[r] = (const char *)g->packed_x
             + (first_piece(g, row + r, INT8_UNIT) + (size_t)first_unit * ROW_UNIT) * INT8_UNIT;
        scales[r] = g->group_scales + at;
        sums[r] = g->group_sums + at;
        share_sums[r] = bits == 4 ? g->share_sums + first_piece(g, row + r, INT4_SHARE)
                                    + (size_t)(first / INT4_SHARE) * ROW_UNIT : NULL;
    }
    for (int k = 0; k < (end - first) / g->group; k++, weights += step) {
        veci sum[BLOCK_ROWS][MAX_VECTORS];
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = (veci){ 0 };
        const char *factors = weights + (size_t)n_units * unit_bytes(bits);
        for (int n = 0; n < n_units; n++) {
            const char *unit = weights + (size_t)n * unit_bytes(bits);
            if (bits == 8)
                add_int8_unit(sum, g, x, unit, rows, vectors);
            else
                add_int4_unit(sum, g, x, share_sums, unit, factors + n * PANEL_WIDTH, rows, vectors);
            UNROLL
            for (int r = 0; r < rows; r++) {
                x[r] += ROW_UNIT * INT8_UNIT;
                share_sums[r] += bits == 4 ? 2 * ROW_UNIT : 0;
            }
        }
        const char *weight_scales = weights + group_scales_at(g->group, bits);
        UNROLL
        for (int v = 0; v < vectors; v++) {
            vec scale = load_scales(weight_scales + (size_t)(v / PARTS) * g->panel_bytes
                                    + (size_t)(v % PARTS) * LANES * 2);
            UNROLL
            for (int r = 0; r < rows; r++) {
                veci whole = sum[r][v] - (bits == 8 ? sums[r][k * ROW_UNIT] * BYTE_OFFSET : 0);
                acc[r][v] += __builtin_convertvector(whole, vec) * (scale * scales[r][k * ROW_UNIT]);
            }
        }
    }
}

INLINE void leaf_int8(vec acc[BLOCK_ROWS][MAX_VECTORS], const struct gemm *g, int row, const char *panel,
                      int first, int end, const int rows, const int vectors)
{
    leaf_quantised(acc, g, row, panel, first, end, rows, vectors, 8);
}

INLINE void leaf_int4(vec acc[BLOCK_ROWS][MAX_VECTORS], const struct gemm *g, int row, const char *panel,
                      int first, int end, const int rows, const int vectors)
{
    leaf_quantised(acc, g, row, panel, first, end, rows, vectors, 4);
}

/* Sums of integers and of floats share the registers: half as many panels. */
enum { BYTE_PANELS = BLOCK_PANELS > 1 ? BLOCK_PANELS / 2 : 1 };

static void gemm_int8(const struct gemm *g)
{
    gemm_all(g, leaf_int8, BYTE_PANELS, BYTE_ROWS);
}

static void gemm_int4(const struct gemm *g)
{
    gemm_all(g, leaf_int4, BYTE_PANELS, BYTE_ROWS);
}

#ifndef HAS_TILES
static void pack_bf16(uint16_t *out, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = f32_to_bf16(x[i]);
    if (n % 2 != 0)
        out[n] = 0;
}
#endif

typedef int32_t four __attribute__((vector_size(16), may_alias));

/* Of all lanes. */
INLINE int32_t lane_max(veci v)
{
    four most = *(const four *)&v;
    UNROLL
    for (int i = 1; i < LANES / 4; i++) {
        four other = ((const four *)&v)[i], larger = other > most;
        most = (other & larger) | (most & ~larger);
    }
    int32_t a = most[0] > most[1] ? most[0] : most[1], b = most[2] > most[3] ? most[2] : most[3];
    return a > b ? a : b;
}

INLINE veci larger_of(veci a, veci b)
{
    veci larger = a > b;
    return (a & larger) | (b & ~larger);
}

/* Of n numbers.  Compared as whole numbers: what is no number is the largest, and so is not lost.  A comparison takes
 * several cycles, so that four go on at a time. */
INLINE float largest_magnitude(const float *x, int n)
{
    veci most[4] = { { 0 } };
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        UNROLL
        for (int j = 0; j < 4; j++)
            most[j] = larger_of((veci)load_vec(x + i + j * LANES) & 0x7fffffff, most[j]);
    for (; i < n; i += LANES)
        most[0] = larger_of((veci)load_first(x + i, n - i) & 0x7fffffff, most[0]);
    int32_t bits = lane_max(larger_of(larger_of(most[0], most[1]), larger_of(most[2], most[3])));
    float largest;
    memcpy(&largest, &bits, sizeof largest);
    return largest;
}

/* Of all lanes. */
INLINE int32_t lane_sum(veci v)
{
    four sum = { 0 };
    UNROLL
    for (int i = 0; i < LANES / 4; i++)
        sum += ((const four *)&v)[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static void pack_int8(int8_t *out, float *scale, int32_t *sum, int32_t *share_sums, const float *x, int n, int group)
{
    typedef int8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
    float padded[MAX_GROUP];
    if (n < group) {
        memcpy(padded, x, (size_t)n * sizeof *x);
        memset(padded + n, 0, (size_t)(group - n) * sizeof *x);
        x = padded;
    }
    float largest = largest_magnitude(x, group);
    /* What is not finite makes the scale so, and zeros times that are no numbers either. */
    if (!(largest <= FLT_MAX)) {
        memset(padded, 0, sizeof padded);
        x = padded;
    }
    float inverse = largest > 0 ? 127 / largest : 0;
    veci total = { 0 };
    for (int unit = 0; unit < group; unit += INT8_UNIT, out += INT8_UNIT * ROW_UNIT) {
        veci own[INT8_UNIT / INT4_SHARE] = { { 0 } };
        UNROLL
        for (int i = 0; i < INT8_UNIT; i += LANES) {
            /* 1.5 * 2^23 rounds to the nearest whole number. */
            vec rounded = load_vec(x + unit + i) * inverse + 12582912.0f;
            veci value = (veci)rounded - 0x4b400000;
            *(bytes *)(out + i) = __builtin_convertvector(value, bytes);
            own[i / INT4_SHARE] += value;
        }
        for (int i = 0; i < INT8_UNIT / INT4_SHARE; i++) {
            total += own[i];
            if (share_sums != NULL)
                share_sums[(unit / INT4_SHARE + i) * ROW_UNIT] = lane_sum(own[i]);
        }
    }
    *scale = largest / 127;
    *sum = lane_sum(total);
}

/* ---- attention over rows ---- */

enum { SCORE_KEYS = 4, VALUE_VECTORS = BLOCK_PANELS * PARTS };

/* One score: LANES partial sums over the width, added lane by lane, then what is
 * left of the width. */
INLINE void score_tile(const struct score_block *b, int row, int key, const int rows, const int keys)
{
    vec acc[SCORE_ROWS][SCORE_KEYS];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int s = 0; s < keys; s++)
            acc[r][s] = splat(0);
    const float *q = b->queries + (size_t)row * b->query_stride;
    const float *k = b->keys + (size_t)key * b->key_stride;
    int n_full = b->width & ~(LANES - 1), n_left = b->width & (LANES - 1);
    for (int d = 0; d < n_full; d += LANES) {
        vec kd[SCORE_KEYS];
        UNROLL
        for (int s = 0; s < keys; s++)
            kd[s] = load_vec(k + (size_t)s * b->key_stride + d);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vec qd = load_vec(q + (size_t)r * b->query_stride + d);
            UNROLL
            for (int s = 0; s < keys; s++)
                acc[r][s] += qd * kd[s];
        }
    }
    if (n_left > 0) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            vec qd = load_some(q + (size_t)r * b->query_stride + n_full, n_left);
            UNROLL
            for (int s = 0; s < keys; s++)
                acc[r][s] += qd * load_some(k + (size_t)s * b->key_stride + n_full, n_left);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        float *out = b->scores + (size_t)(row + r) * b->score_stride + key;
        if (keys == SCORE_KEYS) {
            v4 sum = sum_lanes_4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
            if (b->accumulate)
                sum += *(v4 *)out;
            *(v4 *)out = sum;
            continue;
        }
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
    for (; key + SCORE_KEYS <= b->n_keys; key += SCORE_KEYS)
        score_tile(b, row, key, rows, SCORE_KEYS);
    for (; key < b->n_keys; key++)
        score_tile(b, row, key, rows, 1);
}

static void score(const struct score_block *b)
{
#define BLOCK(n) score_rows(b, row, n)
    int row = 0;
    for (; row + SCORE_ROWS <= b->n_rows; row += SCORE_ROWS)
        BLOCK(SCORE_ROWS);
    REST(b->n_rows - row, SCORE_ROWS, BLOCK)
#undef BLOCK
}

INLINE void value_tile(const struct value_block *b, int row, int d, const int rows, const int vectors)
{
    vec acc[BLOCK_ROWS][VALUE_VECTORS];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++)
            acc[r][v] = load_vec(b->sums + (size_t)(row + r) * b->sum_stride + d + v * LANES);
    for (int s = 0; s < b->n_keys; s++) {
        const float *value = b->values + (size_t)s * b->value_stride + d;
        vec x[VALUE_VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++)
            x[v] = load_vec(value + v * LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vec weight = splat(b->weights[(size_t)(row + r) * b->weight_stride + (size_t)s]);
            UNROLL
            for (int v = 0; v < vectors; v++)
                acc[r][v] += weight * x[v];
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++)
            store_vec(b->sums + (size_t)(row + r) * b->sum_stride + d + v * LANES, acc[r][v]);
}

/* The last width % LANES columns of one row. */
static void value_left(const struct value_block *b, int row, int d, int n)
{
    float *sums = b->sums + (size_t)row * b->sum_stride + d;
    vec acc = load_some(sums, n);
    for (int s = 0; s < b->n_keys; s++)
        acc += splat(b->weights[(size_t)row * b->weight_stride + (size_t)s])
             * load_some(b->values + (size_t)s * b->value_stride + d, n);
    store_some(sums, acc, n);
}

INLINE void value_rows(const struct value_block *b, int row, const int rows)
{
    int d = 0;
    for (; d + VALUE_VECTORS * LANES <= b->width; d += VALUE_VECTORS * LANES)
        value_tile(b, row, d, rows, VALUE_VECTORS);
    for (; d + LANES <= b->width; d += LANES)
        value_tile(b, row, d, rows, 1);
    if (d < b->width)
        for (int r = 0; r < rows; r++)
            value_left(b, row + r, d, b->width - d);
}

static void add_values(const struct value_block *b)
{
#define BLOCK(n) value_rows(b, row, n)
    int row = 0;
    for (; row + BLOCK_ROWS <= b->n_rows; row += BLOCK_ROWS)
        BLOCK(BLOCK_ROWS);
    REST(b->n_rows - row, BLOCK_ROWS, BLOCK)
#undef BLOCK
}

/* ---- elementwise ---- */

/* exp(x) for x <= 88: 2^n * p(r) with r in [-ln2/2, ln2/2] and a polynomial of
 * degree 6; relative error below 2e-7.  Below -87 the result is 0. */
INLINE vec exp_vec(vec x)
{
    const vec low = splat(-87.0f);
    veci in_range = x >= low;
    x = (vec)((veci)x & in_range);
    vec rounded = x * 1.44269504f + 12582912.0f;    /* 1.5 * 2^23: rounds to an integer */
    veci n = (veci)rounded - (veci)splat(12582912.0f);
    vec whole = rounded - 12582912.0f;
    vec r = x - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    vec p = splat(1.38888889e-3f);
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    veci bits = (veci)p + (n << 23);
    return (vec)(bits & in_range);
}

static float softmax_part(float *scores, int n, float scale, float *max)
{
    int padded = (n + 15) & ~15;
    for (int i = n; i < padded; i++)
        scores[i] = -INFINITY;
    vec best = load_vec(scores) * scale;
    store_vec(scores, best);
    for (int i = LANES; i < padded; i += LANES) {
        vec x = load_vec(scores + i) * scale;
        store_vec(scores + i, x);
        veci larger = x > best;
        best = (vec)(((veci)x & larger) | ((veci)best & ~larger));
    }
    float m = best[0];
    for (int i = 1; i < LANES; i++)
        m = best[i] > m ? best[i] : m;
    vec sum = splat(0);
    for (int i = 0; i < padded; i += LANES) {
        vec e = exp_vec(load_vec(scores + i) - m);
        store_vec(scores + i, e);
        sum += e;
    }
    *max = m;
    return sum_lanes(sum);
}

static void rms_norm(float *out, const float *x, const float *weight, int n, float eps, float factor)
{
    vec squares = splat(0);
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec xi = load_vec(x + i);
        squares += xi * xi;
    }
    if (i < n) {
        vec xi = load_some(x + i, n - i);
        squares += xi * xi;
    }
    float scale = factor / sqrtf(sum_lanes(squares) / (float)n + eps);
    for (i = 0; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

INLINE vec sigmoid_vec(vec x)
{
    /* exp_vec takes at most 88; beyond it the sigmoid is 0 to the last bit. */
    vec minus = -x;
    veci small = minus < splat(88.0f);
    minus = (vec)(((veci)minus & small) | ((veci)splat(88.0f) & ~small));
    return 1.0f / (1.0f + exp_vec(minus));
}

INLINE vec silu_times(vec gate, vec up)
{
    return gate * sigmoid_vec(gate) * up;
}

static void silu_multiply(float *out, const float *gate_up, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const float *gate = gate_up + i / PANEL_WIDTH * 2 * PANEL_WIDTH + i % PANEL_WIDTH;
        vec product = silu_times(load_vec(gate), load_vec(gate + PANEL_WIDTH));
        if (n - i >= LANES)
            store_vec(out + i, product);
        else
            store_some(out + i, product, n - i);
    }
}

static void sigmoid_multiply(float *x, const float *gate, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        store_vec(x + i, load_vec(x + i) * sigmoid_vec(load_vec(gate + i)));
    if (i < n)
        store_some(x + i, load_some(x + i, n - i) * sigmoid_vec(load_some(gate + i, n - i)), n - i);
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

static void blend(float *out, const float *x, float a, const float *y, float b, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = x[i] * a + y[i] * b;
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

/* What every set has from here; tiles have the rest of their own. */
#define KERNELS_COMMON(set)                                                    \
        .name = set, .gemm_f32 = gemm_f32,                                     \
        .bf16_unit = BF16_UNIT, .int8_offset = INT8_OFFSET, .row_unit = ROW_UNIT, \
        .pack_int8 = pack_int8,                                                \
        .score = score, .add_values = add_values,                              \
        .softmax_part = softmax_part, .rms_norm = rms_norm,                    \
        .silu_multiply = silu_multiply, .sigmoid_multiply = sigmoid_multiply,  \
        .add = add, .scale_add = scale_add, .blend = blend,                    \
        .widen_bf16 = widen_bf16, .widen_int8 = widen_int8

#define KERNELS_TABLE(set)                                                     \
    {                                                                          \
        KERNELS_COMMON(set), .gemm_bf16 = gemm_bf16, .gemm_int8 = gemm_int8,   \
        .gemm_int4 = gemm_int4,                                                \
        .pack_bf16 = pack_bf16                                                 \
    }
