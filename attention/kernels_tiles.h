/* kernels_tiles.h - the loops that run on tile registers (AMX).  Included by
 * kernels_amx.c after kernels_body.h.
 *
 * A tile of a packed panel is the right factor of a product of tiles as it stands.
 * For bf16 the even and the odd inputs of a tile are summed apart, then both sums are
 * added; a row of sums depends on its own row of inputs alone.
 *
 * The registers are given numbers here, once:
 *     0 1 2 3   sums          4 5   rows (a)         6 7   weights (b)
 * and a call leaves them empty, so that a switch of threads need not save them.
 */
#ifndef ATTENTION_KERNELS_TILES_H
#define ATTENTION_KERNELS_TILES_H

#include "attention/tile_instructions.h"

/* ---- linear layers, bf16 ---- */

enum {
    MANY_ROWS = MAX_TILE_ROWS,      /* rows of a block when there are that many */
    TILE_PANELS = 4,                /* panels of a block of 16 rows */
    MAX_BLOCK_FLOATS = TILE_PANELS * TILE_FLOATS,
    PAIR = 2,                       /* panels of a block of 32 rows */
    PANELS_BYTES = 1 << 19,         /* of panels, while rows pass */
    PASS_ROWS = 256,                /* that pass together, at most */
    PIECE_TILES = 8,                /* of a panel: a pair's stay in the nearest cache while rows pass */
};

/* What is asked for while tiles are multiplied: with lines 0, the weights two steps on, into the nearest
 * cache; else the piece that all rows will read after this one, into the second, `lines` of each panel a step. */
struct ahead {
    const char *at;                 /* of the first panel */
    int lines;
};

INLINE void prefetch_piece(struct ahead *ahead, size_t panel_bytes)
{
    for (int i = 0; i < ahead->lines; i++, ahead->at += TILE_LINE) {
        __builtin_prefetch(ahead->at, 0, 2);
        __builtin_prefetch(ahead->at + panel_bytes, 0, 2);
    }
}

/* The type is a constant where this is used. */
#define TILE_DOT(is_int8, c, a, b)                                             \
    do {                                                                       \
        if (is_int8)                                                           \
            TILE_DOT_INT8(c, a, b);                                            \
        else                                                                   \
            TILE_DOT_BF16(c, a, b);                                            \
    } while (0)

INLINE void zero_sums(void)
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}

/* The tiles of weights two steps on, into the nearest cache.  A line of each panel in turn: all
 * lines of one first gain a third of what this does. */
INLINE void prefetch_tiles(const char *b, size_t panel_bytes, const int panels)
{
    enum { STEPS = 2 };
    for (int line = 0; line < TILE_BYTES / TILE_LINE; line++)
        for (int p = 0; p < panels; p++)
            __builtin_prefetch(b + (size_t)p * panel_bytes + STEPS * TILE_BYTES + line * TILE_LINE, 0, 3);
}

/* n steps of a tile of inputs; sums in 0 to 3: of 16 rows and up to 4 panels */
INLINE void steps_16_rows(const int is_int8, const char *a, const char *b, size_t panel_bytes, int n, const int panels)
{
    for (int k = 0; k < n; k++, a += TILE_BYTES, b += TILE_BYTES) {
        prefetch_tiles(b, panel_bytes, panels);
        TILE_LOAD(4, a, TILE_LINE);
        TILE_LOAD(6, b, TILE_LINE);
        TILE_DOT(is_int8, 0, 4, 6);
        if (panels > 1) {
            TILE_LOAD(7, b + panel_bytes, TILE_LINE);
            TILE_DOT(is_int8, 1, 4, 7);
        }
        if (panels > 2) {
            TILE_LOAD(6, b + 2 * panel_bytes, TILE_LINE);
            TILE_DOT(is_int8, 2, 4, 6);
        }
        if (panels > 3) {
            TILE_LOAD(7, b + 3 * panel_bytes, TILE_LINE);
            TILE_DOT(is_int8, 3, 4, 7);
        }
    }
}

/* of 32 rows, the second 16 next_rows bytes on, and up to 2 panels: sum 2 r + p is
 * row tile r, panel p */
INLINE void steps_32_rows(const int is_int8, const char *a, size_t next_rows, const char *b, size_t panel_bytes, int n,
                          const int panels, struct ahead *ahead)
{
    for (int k = 0; k < n; k++, a += TILE_BYTES, b += TILE_BYTES) {
        TILE_LOAD(4, a, TILE_LINE);
        TILE_LOAD(5, a + next_rows, TILE_LINE);
        TILE_LOAD(6, b, TILE_LINE);
        if (ahead->lines == 0)
            prefetch_tiles(b, panel_bytes, panels);
        else
            prefetch_piece(ahead, panel_bytes);
        TILE_DOT(is_int8, 0, 4, 6);
        TILE_DOT(is_int8, 2, 5, 6);
        if (panels > 1) {
            TILE_LOAD(7, b + panel_bytes, TILE_LINE);
            TILE_DOT(is_int8, 1, 4, 7);
            TILE_DOT(is_int8, 3, 5, 7);
        }
    }
}

/* Sums 0 to 3 of 32 rows, as store_sums left them. */
INLINE void load_sums(const float *from, size_t stride, const int panels)
{
    TILE_LOAD(0, from, stride * 4);
    TILE_LOAD(2, from + TILE_ROWS * stride, stride * 4);
    if (panels > 1) {
        TILE_LOAD(1, from + PANEL_WIDTH, stride * 4);
        TILE_LOAD(3, from + TILE_ROWS * stride + PANEL_WIDTH, stride * 4);
    }
}

/* The sums of a block, [rows][panels * 16] floats. */
INLINE void store_sums(float *out, size_t stride, const int rows, const int panels)
{
    if (rows > TILE_ROWS) {
        TILE_STORE(0, out, stride * 4);
        TILE_STORE(2, out + TILE_ROWS * stride, stride * 4);
        if (panels > 1) {
            TILE_STORE(1, out + PANEL_WIDTH, stride * 4);
            TILE_STORE(3, out + TILE_ROWS * stride + PANEL_WIDTH, stride * 4);
        }
        return;
    }
    TILE_STORE(0, out, stride * 4);
    if (panels > 1)
        TILE_STORE(1, out + PANEL_WIDTH, stride * 4);
    if (panels > 2)
        TILE_STORE(2, out + 2 * PANEL_WIDTH, stride * 4);
    if (panels > 3)
        TILE_STORE(3, out + 3 * PANEL_WIDTH, stride * 4);
}

/* Where a block stands among rows and outputs, and how much of it exists. */
struct tile_block {
    int row, panel, n_rows, n_outputs;
};

/* [n_rows][stride] sums to where they belong. */
static void copy_sums(const struct gemm *g, const struct tile_block *b, int node, const float *sums, size_t stride)
{
    float *y = g->y + (size_t)node * g->node_stride + (size_t)b->row * g->y_stride + b->panel * PANEL_WIDTH;
    for (int r = 0; r < b->n_rows; r++, y += g->y_stride, sums += stride) {
        int o = 0;
        for (; o + LANES <= b->n_outputs; o += LANES)
            store_vec(y + o, load_vec(sums + o));
        if (o < b->n_outputs)
            store_some(y + o, load_vec(sums + o), b->n_outputs - o);
    }
}

/* The sums of leaves and of what was added of them, [rows][panels * 16] each; above them those of a leaf
 * that has begun. */
struct sum_stack {
    int top, node;                  /* how many there are; the next node to be written */
    _Alignas(TILE_LINE) float sums[REDUCE_MAX_DEPTH + 1][MAX_BLOCK_FLOATS];
};

/* Leaf i is the last of the stack: adds what is complete and writes nodes that are. */
INLINE void end_leaf(const struct gemm *g, const struct tile_block *b, int i, struct sum_stack *s, const int rows,
                     const int panels)
{
    const int stride = panels * PANEL_WIDTH;
    for (int m = 0; m < g->part->n_merges[i]; m++, s->top--)
        for (int f = 0; f < rows * stride; f += LANES)
            store_vec(s->sums[s->top - 2] + f, load_vec(s->sums[s->top - 2] + f) + load_vec(s->sums[s->top - 1] + f));
    if (g->part->node_done[i])
        copy_sums(g, b, s->node++, s->sums[--s->top], (size_t)stride);
}

/* Tiles [first, first + n) of a panel, all of one leaf. */
struct piece {
    int leaf, first, n;
    int begins, ends;               /* the leaf */
};

INLINE void piece_bf16(const struct gemm *g, const struct tile_block *b, const struct piece *p, struct sum_stack *s,
                       struct ahead *ahead, const int rows, const int panels)
{
    const int stride = panels * PANEL_WIDTH;
    const char *x = (const char *)g->packed_x + first_piece(g, b->row, TILE_INPUTS) * TILE_LINE;
    const char *w = (const char *)g->panels + (size_t)b->panel * g->panel_bytes;
    /* Where there is no second row tile, the first stands in for it. */
    size_t next_rows = b->n_rows > TILE_ROWS ? first_piece(g, TILE_ROWS, TILE_INPUTS) * TILE_LINE : 0;
    x += (size_t)p->first * TILE_BYTES;
    w += (size_t)p->first * TILE_BYTES;
    if (p->begins || rows <= TILE_ROWS)
        zero_sums();
    else
        load_sums(s->sums[s->top], (size_t)stride, panels);
    if (rows > TILE_ROWS)
        steps_32_rows(0, x, next_rows, w, g->panel_bytes, p->n, panels, ahead);
    else
        steps_16_rows(0, x, w, g->panel_bytes, p->n, panels);
    int n_leaves = g->part->end - g->part->begin;
    if (p->ends && n_leaves == 1 && b->n_rows == rows && b->n_outputs == stride) {
        store_sums(g->y + (size_t)b->row * g->y_stride + b->panel * PANEL_WIDTH, g->y_stride, rows, panels);
        return;
    }
    store_sums(s->sums[s->top], (size_t)stride, rows, panels);
    if (!p->ends)
        return;
    s->top++;
    end_leaf(g, b, p->leaf, s, rows, panels);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

INLINE vec load_first(const float *p, int n)
{
    return n >= LANES ? load_vec(p) : n > 0 ? load_some(p, n) : splat(0);
}

/* 32 floats as bf16, in the lanes of a vector. */
INLINE vec round_to_bf16(vec low, vec high)
{
    return (vec)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
}

static void tiles_pack_bf16(uint16_t *out, const float *x, int n)
{
    for (; n > 0; n -= TILE_INPUTS, x += TILE_INPUTS, out += TILE_BYTES / 2)
        store_vec((float *)(void *)out, round_to_bf16(load_first(x, n), load_first(x + LANES, n - LANES)));
}

/* ---- linear layers, int8 ---- */

enum { FEW_ROWS_INT8 = 4 };

/* sums[r] += products[r] * scales, as leaf_quantised does it; rows of sums are stride
 * floats apart. */
INLINE void add_group(float *sums, const int stride, const int32_t products[TILE_FLOATS], vec scale,
                      const float row_scales[TILE_ROWS])
{
    UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        vec sum = load_vec(sums + r * stride);
        sum += __builtin_convertvector(*(const veci *)(products + r * PANEL_WIDTH), vec) * (scale * row_scales[r]);
        store_vec(sums + r * stride, sum);
        /* One row after the other: all at once need more registers than there are. */
        __asm__ volatile("" ::: "memory");
    }
}

/* A block's inputs, with tile 2 r + p (of 16 rows: p) the products of row tile r and
 * panel p. */
struct int8_leaf {
    const char *x;
    size_t next_rows;               /* bytes between the row tiles */
    const char *w;
    size_t panel_bytes;
    int units;                      /* of a group */
    size_t group_bytes;
    const char *weight_scales;      /* [16] bf16 of the first panel, those of a group group_bytes on */
    const float *scales;            /* [group][16] of the first rows */
    size_t next_scales;             /* floats between those of the row tiles */
};

INLINE void store_products(int32_t products[4][TILE_FLOATS], const int rows, const int panels)
{
    TILE_STORE(0, products[0], TILE_LINE);
    if (panels > 1)
        TILE_STORE(1, products[1], TILE_LINE);
    if (rows > TILE_ROWS || panels > 2)
        TILE_STORE(2, products[2], TILE_LINE);
    if ((rows > TILE_ROWS && panels > 1) || panels > 3)
        TILE_STORE(3, products[3], TILE_LINE);
}

INLINE void multiply_unit(struct int8_leaf *in, struct ahead *ahead, const int rows, const int panels)
{
    if (rows > TILE_ROWS)
        steps_32_rows(1, in->x, in->next_rows, in->w, in->panel_bytes, 1, panels, ahead);
    else
        steps_16_rows(1, in->x, in->w, in->panel_bytes, 1, panels);
    in->x += TILE_BYTES;
    in->w += TILE_BYTES;
}

/* Panel p of row tile r of the group before. */
INLINE void scale_tile(const struct int8_leaf *in, const int32_t products[4][TILE_FLOATS], float *sums, const int r,
                       const int p, const int rows, const int panels)
{
    const int stride = panels * PANEL_WIDTH, per_row = rows > TILE_ROWS ? 2 : 4;
    vec scale = load_scales(in->weight_scales + (size_t)p * in->panel_bytes);
    add_group(sums + r * TILE_ROWS * stride + p * PANEL_WIDTH, stride, products[r * per_row + p], scale,
              in->scales + (size_t)r * in->next_scales);
}

/* sums[rows][panels * 16] += those of the next n groups.  Between the units of a group the products
 * of the one before are scaled, tile by tile, so that the processor has both to do. */
INLINE void add_groups(struct int8_leaf *in, struct ahead *ahead, int n, float *sums, const int rows,
                       const int panels)
{
    _Alignas(TILE_LINE) int32_t products[4][TILE_FLOATS];
    const int n_tiles = rows / TILE_ROWS * panels;
    for (int k = 0; k <= n; k++) {
        int unit = 0, units = k < n ? in->units : 0;
        zero_sums();
        UNROLL
        for (int t = 0; t < n_tiles; t++) {
            if (unit < units) {
                multiply_unit(in, ahead, rows, panels);
                unit++;
            }
            if (k > 0)
                scale_tile(in, (const int32_t (*)[TILE_FLOATS])products, sums, t / panels, t % panels, rows, panels);
        }
        for (; unit < units; unit++)
            multiply_unit(in, ahead, rows, panels);
        if (k > 0) {
            in->weight_scales += in->group_bytes;
            in->scales += TILE_ROWS;
        }
        if (k < n) {
            store_products(products, rows, panels);
            in->w += in->group_bytes - (size_t)in->units * TILE_BYTES;
        }
    }
}

INLINE void piece_int8(const struct gemm *g, const struct tile_block *b, const struct piece *p, struct sum_stack *s,
                       struct ahead *ahead, const int rows, const int panels)
{
    int has_two = b->n_rows > TILE_ROWS;        /* else as in piece_bf16 */
    int units = g->group / INT8_UNIT, first_group = p->first / units;
    const char *w = (const char *)g->panels + (size_t)b->panel * g->panel_bytes
                  + (size_t)first_group * group_bytes(g->group, 8);
    struct int8_leaf in = {
        .x = (const char *)g->packed_x + first_piece(g, b->row, INT8_UNIT) * INT8_UNIT + (size_t)p->first * TILE_BYTES,
        .next_rows = has_two ? first_piece(g, TILE_ROWS, INT8_UNIT) * INT8_UNIT : 0,
        .w = w, .panel_bytes = g->panel_bytes, .units = units,
        .group_bytes = group_bytes(g->group, 8), .weight_scales = w + (size_t)g->group * PANEL_WIDTH,
        .scales = g->group_scales + first_piece(g, b->row, g->group) + (size_t)(first_group * TILE_ROWS),
        .next_scales = has_two ? first_piece(g, TILE_ROWS, g->group) : 0,
    };
    float *sums = s->sums[s->top];
    if (p->begins)
        memset(sums, 0, (size_t)(rows * panels * PANEL_WIDTH) * sizeof *sums);
    add_groups(&in, ahead, p->n / units, sums, rows, panels);
    if (!p->ends)
        return;
    s->top++;
    end_leaf(g, b, p->leaf, s, rows, panels);
}

/* ---- linear layers, both types ---- */

INLINE void one_piece(const int is_int8, const struct gemm *g, const struct tile_block *b, const struct piece *p,
                      struct sum_stack *s, struct ahead *ahead, const int rows, const int panels)
{
    if (is_int8)
        piece_int8(g, b, p, s, ahead, rows, panels);
    else
        piece_bf16(g, b, p, s, ahead, rows, panels);
}

INLINE void any_piece(const int is_int8, const struct gemm *g, const struct tile_block *b, const struct piece *p,
                      struct sum_stack *s, struct ahead *ahead, const int rows, int panels)
{
    switch (panels) {
    case 1: one_piece(is_int8, g, b, p, s, ahead, rows, 1); break;
    case 2: one_piece(is_int8, g, b, p, s, ahead, rows, 2); break;
    case 3: if (rows == TILE_ROWS) one_piece(is_int8, g, b, p, s, ahead, rows, 3); break;
    case 4: if (rows == TILE_ROWS) one_piece(is_int8, g, b, p, s, ahead, rows, 4); break;
    default: break;
    }
}

/* The next piece of at most `most` tiles, 0 after the last. */
INLINE int next_piece(const struct gemm *g, struct piece *p, const int inputs, int most)
{
    p->first += p->n;
    p->leaf += p->ends;
    p->begins = p->ends;
    if (p->leaf == g->part->end - g->part->begin)
        return 0;
    int end = g->leaf_end[p->leaf] / inputs;
    p->n = least(end - p->first, most);
    p->ends = p->first + p->n == end;
    return 1;
}

static const struct piece before_first = { .leaf = -1, .ends = 1 };

/* A block, leaf by leaf. */
INLINE void whole_block(const int is_int8, const struct gemm *g, struct tile_block *b, const int rows, int panels)
{
    struct ahead none = { 0 };
    struct sum_stack stack;
    struct piece p = before_first;
    stack.top = stack.node = 0;
    b->n_outputs = least(g->n_outputs - b->panel * PANEL_WIDTH, panels * PANEL_WIDTH);
    while (next_piece(g, &p, is_int8 ? INT8_UNIT : TILE_INPUTS, INT32_MAX))
        any_piece(is_int8, g, b, &p, &stack, &none, rows, panels);
}

INLINE void few_rows(const int is_int8, const struct gemm *g, int n_panels)
{
    struct tile_block b = { .n_rows = g->n_rows };
    /* Products of int8 are stored whole. */
    tiles_open(is_int8 ? TILE_ROWS : g->n_rows);
    for (; b.panel < n_panels; b.panel += TILE_PANELS)
        whole_block(is_int8, g, &b, TILE_ROWS, least(n_panels - b.panel, TILE_PANELS));
    tiles_close();
}

/* All rows against panels that stay in the second cache together: a block of rows is
 * done with before the next, so that what it writes lies together. */
INLINE void many_rows_few_panels(const int is_int8, const struct gemm *g, int n_panels)
{
    struct tile_block b = { 0 };
    for (; b.row < g->n_rows; b.row += MANY_ROWS) {
        b.n_rows = least(g->n_rows - b.row, MANY_ROWS);
        for (b.panel = 0; b.panel < n_panels; b.panel += PAIR)
            whole_block(is_int8, g, &b, MANY_ROWS, least(n_panels - b.panel, PAIR));
    }
}

/* Bytes of the first n tiles of a panel. */
INLINE size_t tiles_bytes(const int is_int8, const struct gemm *g, int n)
{
    return is_int8 ? (size_t)(n / (g->group / INT8_UNIT)) * group_bytes(g->group, 8) : (size_t)n * TILE_BYTES;
}

/* Rows [first, end) against a pair of panels, piece by piece: a piece stays in the nearest cache while the rows pass
 * by, and meanwhile the next one is fetched, from the next pair after the last. */
INLINE void rows_pass(const int is_int8, const struct gemm *g, int first, int end, struct tile_block b, int panels,
                      struct sum_stack stacks[PASS_ROWS / MANY_ROWS])
{
    int n_blocks = (end - first + MANY_ROWS - 1) / MANY_ROWS;
    const char *panel = (const char *)g->panels + (size_t)b.panel * g->panel_bytes;
    struct piece p = before_first;
    for (int i = 0; i < n_blocks; i++)
        stacks[i].top = stacks[i].node = 0;
    while (next_piece(g, &p, is_int8 ? INT8_UNIT : TILE_INPUTS, n_blocks > 1 ? PIECE_TILES : INT32_MAX)) {
        size_t bytes = tiles_bytes(is_int8, g, p.n), next = tiles_bytes(is_int8, g, p.first + p.n);
        int is_last = next == g->panel_bytes && b.panel * PANEL_WIDTH + b.n_outputs == g->n_outputs;
        struct ahead ahead = { .at = panel + (next < g->panel_bytes ? next : PAIR * g->panel_bytes) };
        if (n_blocks > 1 && panels == PAIR && !is_last)
            ahead.lines = ((int)(bytes / TILE_LINE) + n_blocks * p.n - 1) / (n_blocks * p.n);
        for (int i = 0; i < n_blocks; i++) {
            b.row = first + i * MANY_ROWS;
            b.n_rows = least(end - b.row, MANY_ROWS);
            any_piece(is_int8, g, &b, &p, &stacks[i], &ahead, MANY_ROWS, panels);
        }
    }
}

INLINE void many_rows(const int is_int8, const struct gemm *g, int n_panels)
{
    struct sum_stack stacks[PASS_ROWS / MANY_ROWS];
    int row_bytes = is_int8 ? all_inputs(g) : all_inputs(g) * 2;
    int at_once = least(rows_in_cache((size_t)row_bytes), PASS_ROWS);
    for (int first = 0; first < g->n_rows; first += at_once)
        for (struct tile_block b = { 0 }; b.panel < n_panels; b.panel += PAIR) {
            int panels = least(n_panels - b.panel, PAIR);
            b.n_outputs = least(g->n_outputs - b.panel * PANEL_WIDTH, panels * PANEL_WIDTH);
            rows_pass(is_int8, g, first, least(first + at_once, g->n_rows), b, panels, stacks);
        }
}

INLINE void tiles_gemm(const int is_int8, const struct gemm *g)
{
    int n_panels = (g->n_outputs + PANEL_WIDTH - 1) / PANEL_WIDTH;
    if (g->n_rows <= TILE_ROWS) {
        few_rows(is_int8, g, n_panels);
        return;
    }
    tiles_open(TILE_ROWS);
    if ((size_t)n_panels * g->panel_bytes <= PANELS_BYTES)
        many_rows_few_panels(is_int8, g, n_panels);
    else
        many_rows(is_int8, g, n_panels);
    tiles_close();
}

static void tiles_gemm_bf16(const struct gemm *g)
{
    tiles_gemm(0, g);
}

/* A few rows are a matter of memory and go through the byte products; as all sums
 * of a group are exact, both ways have the same bits. */
static void tiles_gemm_int8(const struct gemm *g)
{
    if (g->n_rows <= FEW_ROWS_INT8)
        gemm_int8(g);
    else
        tiles_gemm(1, g);
}

/* ---- attention over bf16 rows ---- */

/* in[r] lane c becomes out[c] lane r. */
INLINE void transpose_16(vec v[16])
{
    vec t[16];
    UNROLL
    for (int i = 0; i < 8; i++) {
        t[2 * i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        t[2 * i + 1] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    /* Now lane 4 q + 2 c + i of t[2 p + h] is column 4 q + 2 h + c of row 2 p + i. */
    UNROLL
    for (int i = 0; i < 4; i++) {
        UNROLL
        for (int h = 0; h < 2; h++) {
            vec a = t[4 * i + h], b = t[4 * i + 2 + h];
            v[4 * i + 2 * h] = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
            v[4 * i + 2 * h + 1] = __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        }
    }
    /* Lanes 4 q .. 4 q + 3 of v[4 p + c] are column 4 q + c of rows 4 p .. 4 p + 3: quarters move. */
    UNROLL
    for (int c = 0; c < 4; c++) {
        vec ab_low = __builtin_shufflevector(v[c], v[4 + c], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
        vec ab_high = __builtin_shufflevector(v[c], v[4 + c], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
        vec cd_low = __builtin_shufflevector(v[8 + c], v[12 + c], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
        vec cd_high = __builtin_shufflevector(v[8 + c], v[12 + c], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
        t[c] = __builtin_shufflevector(ab_low, cd_low, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        t[4 + c] = __builtin_shufflevector(ab_low, cd_low, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        t[8 + c] = __builtin_shufflevector(ab_high, cd_high, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        t[12 + c] = __builtin_shufflevector(ab_high, cd_high, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
    UNROLL
    for (int i = 0; i < 16; i++)
        v[i] = t[i];
}

/* [width / 32][row tile]: a tile of weights, the pairs of 16 query rows. */
static void tiles_pack_queries(uint16_t *out, const float *queries, size_t stride, int n_rows, int width)
{
    for (int d = 0; d < width; d += TILE_INPUTS)
        for (int row = 0; row < n_rows; row += TILE_ROWS) {
            vec pairs[TILE_ROWS];
            for (int r = 0; r < TILE_ROWS; r++) {
                const float *q = queries + (size_t)(row + r) * stride + d;
                pairs[r] = splat(0);
                if (row + r < n_rows)
                    pairs[r] = round_to_bf16(load_first(q, width - d), load_first(q + LANES, width - d - LANES));
            }
            transpose_16(pairs);
            uint16_t *tile = out + ((size_t)d / TILE_INPUTS * 2 + (size_t)row / TILE_ROWS) * (TILE_BYTES / 2);
            for (int p = 0; p < TILE_ROWS; p++)
                store_vec((float *)(void *)(tile + p * TILE_INPUTS), pairs[p]);
        }
}

/* Sums in a tile are [16 keys][16 rows]; scores are the other way round. */
INLINE void put_scores(const struct score_bf16_block *b, const float sums[TILE_FLOATS], int key, int row)
{
    vec v[TILE_ROWS];
    UNROLL
    for (int i = 0; i < TILE_ROWS; i++)
        v[i] = load_vec(sums + i * TILE_ROWS);
    transpose_16(v);
    int n = least(b->n_rows - row, TILE_ROWS);
    for (int r = 0; r < n; r++) {
        float *out = b->scores + (size_t)(row + r) * b->score_stride + key;
        if (b->accumulate)
            v[r] += load_vec(out);
        store_vec(out, v[r]);
    }
}

/* The last columns of 16 keys, filled up with zeros: beyond them may lie anything. */
static void copy_last_columns(const struct score_bf16_block *b, int key, int column, uint16_t out[TILE_BYTES / 2])
{
    memset(out, 0, TILE_BYTES);
    for (int i = 0; i < TILE_ROWS; i++)
        memcpy(out + i * TILE_INPUTS, b->keys + (size_t)(key + i) * b->key_stride + column,
               (size_t)(b->width - column) * sizeof *out);
}

/* The same tile of the 16 keys after these, while these are multiplied: its rows lie apart, so nobody
 * else sees that they will be wanted.  A second segment finds the first rows there. */
INLINE void prefetch_next_keys(const struct score_bf16_block *b, int key, int column)
{
    const uint16_t *at = b->keys + (size_t)(key + TILE_ROWS) * b->key_stride + column;
    for (int i = 0; i < TILE_ROWS; i++, at += b->key_stride)
        __builtin_prefetch(at, 0, 2);
}

static void tiles_score(const struct score_bf16_block *b)
{
    tiles_open(TILE_ROWS);
    int two = b->n_rows > TILE_ROWS;
    for (int key = 0; key < b->n_keys; key += TILE_ROWS) {
        _Alignas(TILE_LINE) float sums[2][TILE_FLOATS];
        const char *queries = (const char *)b->packed_queries;
        TILE_ZERO(0);
        TILE_ZERO(1);
        for (int d = 0; d < b->width; d += TILE_INPUTS, queries += 2 * TILE_BYTES) {
            const uint16_t *keys = b->keys + (size_t)key * b->key_stride + d;
            size_t stride = b->key_stride * 2;
            _Alignas(TILE_LINE) uint16_t last[TILE_BYTES / 2];
            if (d + TILE_INPUTS > b->width) {
                copy_last_columns(b, key, d, last);
                keys = last;
                stride = TILE_LINE;
            }
            TILE_LOAD(4, keys, stride);
            TILE_LOAD(6, queries, TILE_LINE);
            prefetch_next_keys(b, key, d);
            TILE_DOT_BF16(0, 4, 6);
            if (two) {
                TILE_LOAD(7, queries + TILE_BYTES, TILE_LINE);
                TILE_DOT_BF16(1, 4, 7);
            }
        }
        TILE_STORE(0, sums[0], TILE_LINE);
        TILE_STORE(1, sums[1], TILE_LINE);
        put_scores(b, sums[0], key, 0);
        if (two)
            put_scores(b, sums[1], key, TILE_ROWS);
    }
    tiles_close();
}

/* Columns [d, d + 32) of 32 rows as two tiles of weights, the words of two rows in turn.  Unpacking works
 * within quarters of a vector, so that quarter q of the first tile is columns 8 q .. 8 q + 3, of the second the
 * next four. */
INLINE void value_tiles(const uint16_t *const *rows, int d, __mmask32 columns, char *out)
{
    UNROLL
    for (int p = 0; p < TILE_ROWS; p++) {
        __m512i even = _mm512_maskz_loadu_epi16(columns, rows[2 * p] + d);
        __m512i odd = _mm512_maskz_loadu_epi16(columns, rows[2 * p + 1] + d);
        _mm512_storeu_si512(out + p * TILE_LINE, _mm512_unpacklo_epi16(even, odd));
        _mm512_storeu_si512(out + TILE_BYTES + p * TILE_LINE, _mm512_unpackhi_epi16(even, odd));
    }
}

/* A row of sums of both tiles, in the order of columns. */
INLINE void put_values(float *out, const float sums[TILE_INPUTS], int n)
{
    vec first = load_vec(sums), second = load_vec(sums + LANES);
    vec low = __builtin_shufflevector(first, second, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    vec high = __builtin_shufflevector(first, second, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    if (n >= LANES)
        store_vec(out, low);
    else if (n > 0)
        store_some(out, low, n);
    if (n >= TILE_INPUTS)
        store_vec(out + LANES, high);
    else if (n > LANES)
        store_some(out + LANES, high, n - LANES);
}

/* [row][32 keys of each step]: rows for tiles, zero where there is no row or key. */
static void pack_weights(const struct value_bf16_block *b, uint16_t out[MAX_TILE_ROWS][MAX_VALUE_KEYS])
{
    int n_tiles = (b->n_keys + TILE_INPUTS - 1) / TILE_INPUTS;
    for (int r = 0; r < MAX_TILE_ROWS; r++)
        for (int t = 0; t < n_tiles; t++) {
            vec words = splat(0);
            int n = b->n_keys - t * TILE_INPUTS;
            const float *w = b->weights + (size_t)r * b->weight_stride + t * TILE_INPUTS;
            if (r < b->n_rows)
                words = round_to_bf16(load_first(w, n), load_first(w + LANES, n - LANES));
            store_vec((float *)(void *)&out[r][t * TILE_INPUTS], words);
        }
}

static __mmask32 first_columns(int n)
{
    return n >= TILE_INPUTS ? 0xffffffffu : n > 0 ? (__mmask32)(1u << n) - 1 : 0;
}

/* Sums of columns [d, d + 32) in 0 and 1, and in 2 and 3 of 16 more rows (two_rows), or of the 32 columns that
 * follow: either way there are four to be added to in turn. */
INLINE void sum_values(const uint16_t weights[MAX_TILE_ROWS][MAX_VALUE_KEYS], const uint16_t *const *rows, int n_keys,
                       int d, int width, const int two_rows)
{
    enum { WEIGHT_STRIDE = MAX_VALUE_KEYS * 2 };
    _Alignas(TILE_LINE) char values[2][2 * TILE_BYTES];
    __mmask32 columns = first_columns(width - d), more = first_columns(width - d - TILE_INPUTS);
    zero_sums();
    for (int key = 0; key < n_keys; key += TILE_INPUTS) {
        value_tiles(rows + key, d, columns, values[0]);
        if (!two_rows && more != 0)
            value_tiles(rows + key, d + TILE_INPUTS, more, values[1]);
        TILE_LOAD(4, &weights[0][key], WEIGHT_STRIDE);
        TILE_LOAD(6, values[0], TILE_LINE);
        TILE_LOAD(7, values[0] + TILE_BYTES, TILE_LINE);
        TILE_DOT_BF16(0, 4, 6);
        TILE_DOT_BF16(1, 4, 7);
        if (two_rows) {
            TILE_LOAD(5, &weights[TILE_ROWS][key], WEIGHT_STRIDE);
            TILE_DOT_BF16(2, 5, 6);
            TILE_DOT_BF16(3, 5, 7);
        } else if (more != 0) {
            TILE_LOAD(6, values[1], TILE_LINE);
            TILE_LOAD(7, values[1] + TILE_BYTES, TILE_LINE);
            TILE_DOT_BF16(2, 4, 6);
            TILE_DOT_BF16(3, 4, 7);
        }
    }
}

static void tiles_add_values(const struct value_bf16_block *b)
{
    _Alignas(TILE_LINE) uint16_t weights[MAX_TILE_ROWS][MAX_VALUE_KEYS];
    const uint16_t *rows[MAX_VALUE_KEYS];
    pack_weights(b, weights);
    /* Keys that are not there have no weight; any row will do for them. */
    for (int key = 0; key < MAX_VALUE_KEYS; key++)
        rows[key] = b->rows[key < b->n_keys ? key : 0];
    tiles_open(TILE_ROWS);
    int two_rows = b->n_rows > TILE_ROWS;
    for (int d = 0; d < b->width; d += two_rows ? TILE_INPUTS : 2 * TILE_INPUTS) {
        _Alignas(TILE_LINE) float sums[MAX_TILE_ROWS][TILE_INPUTS];
        if (two_rows)
            sum_values((const uint16_t (*)[MAX_VALUE_KEYS])weights, rows, b->n_keys, d, b->width, 1);
        else
            sum_values((const uint16_t (*)[MAX_VALUE_KEYS])weights, rows, b->n_keys, d, b->width, 0);
        store_sums(sums[0], TILE_INPUTS, MAX_TILE_ROWS, 2);
        for (int r = 0; r < b->n_rows; r++) {
            float *out = b->sums + (size_t)r * b->sum_stride + d;
            put_values(out, sums[r], b->width - d);
            if (!two_rows)
                put_values(out + TILE_INPUTS, sums[TILE_ROWS + r], b->width - d - TILE_INPUTS);
        }
    }
    tiles_close();
}

static void int8_to_bf16(uint16_t *out, const int8_t *in, float scale, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = f32_to_bf16((float)in[i] * scale);
}

#endif
