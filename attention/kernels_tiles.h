/* kernels_tiles.h - linear layers on tile registers (AMX).  Included by
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
    ROW_LINES = PAIR * PANEL_WIDTH * 4 / TILE_LINE,     /* of the sums of a row of such a block */
    PANELS_BYTES = 1 << 19,         /* of panels, while rows pass */
    PASS_BLOCKS = MOST_ROWS_IN_CACHE / MANY_ROWS,       /* that pass together, at most */
    PIECE_TILES = 16,               /* of a panel, at most: a pair's stay in the nearest cache while rows pass */
    ALL_TILES = 1 << 24,            /* more than a panel has */
    LEAVING_BYTES = 1 << 20,        /* of outputs, that go past the caches */
};

/* The sums of leaves and of what was added of them, [rows][panels * 16] each; above them those of a leaf
 * that has begun. */
struct sum_stack {
    int top, node;                  /* how many there are; the next node to be written */
    int keeps;                      /* the last node stays: sums[0] */
    float *fresh;                   /* [MAX_BLOCK_FLOATS], of a leaf that is added at once: the same for all blocks */
    _Alignas(TILE_LINE) float sums[REDUCE_MAX_DEPTH + 1][MAX_BLOCK_FLOATS];
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* What goes to and from memory while rows pass, a little in each step, as neither may wait for the other: the pieces
 * that the rows will pass next are asked for, and the outputs of the pair before are stored. */
struct traffic {
    const char *next;               /* of the first panel */
    size_t panel_bytes;
    int n_next;                     /* lines, of either panel, in each half of a step */
    const struct sum_stack *done;   /* [PASS_BLOCKS] */
    int line, n_lines;              /* of the outputs: two of a row, or of gated ones one */
    int at_once;                    /* lines in a step */
    int n_gated;                    /* 0, or columns of the outputs, of which a line has up to 16 */
    int leave;                      /* past the caches */
    float *y;
    size_t y_stride;
};

INLINE void ask_ahead(struct traffic *t, const int panel)
{
    const char *from = t->next + (panel > 0 ? t->panel_bytes : 0);
    for (int i = 0; i < t->n_next; i++)
        __builtin_prefetch(from + i * TILE_LINE, 0, 2);
    if (panel > 0)
        t->next += t->n_next * TILE_LINE;
}

INLINE void put_line(const struct traffic *t, int line)
{
    int row = t->n_gated > 0 ? line : line / ROW_LINES, column = t->n_gated > 0 ? 0 : line % ROW_LINES * LANES;
    const float *from = t->done[row / MANY_ROWS].sums[0] + row % MANY_ROWS * PAIR * PANEL_WIDTH + column;
    float *to = t->y + (size_t)row * t->y_stride + column;
    vec out = load_vec(from);
    if (t->n_gated > 0)
        out = silu_times(out, load_vec(from + PANEL_WIDTH));
    if (t->leave)
        _mm512_stream_ps(to, (__m512)out);
    else
        store_some(to, out, least(t->n_gated, LANES));
}

INLINE void put_outputs(struct traffic *t, int n)
{
    for (int end = least(t->line + n, t->n_lines); t->line < end; t->line++)
        put_line(t, t->line);
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

/* n steps of a tile of inputs; sums in 0 to 3: of 16 rows and up to 4 panels.  Tiles of int4 have just been made. */
INLINE void steps_16_rows(const int bits, const char *a, const char *b, size_t panel_bytes, int n, const int panels)
{
    for (int k = 0; k < n; k++, a += TILE_BYTES, b += TILE_BYTES) {
        if (bits != 4)
            prefetch_tiles(b, panel_bytes, panels);
        TILE_LOAD(4, a, TILE_LINE);
        TILE_LOAD(6, b, TILE_LINE);
        TILE_DOT(bits < 16, 0, 4, 6);
        if (panels > 1) {
            TILE_LOAD(7, b + panel_bytes, TILE_LINE);
            TILE_DOT(bits < 16, 1, 4, 7);
        }
        if (panels > 2) {
            TILE_LOAD(6, b + 2 * panel_bytes, TILE_LINE);
            TILE_DOT(bits < 16, 2, 4, 6);
        }
        if (panels > 3) {
            TILE_LOAD(7, b + 3 * panel_bytes, TILE_LINE);
            TILE_DOT(bits < 16, 3, 4, 7);
        }
    }
}

/* of 32 rows, the second 16 next_rows bytes on, and up to 2 panels: sum 2 r + p is
 * row tile r, panel p */
INLINE void steps_32_rows(const int bits, const char *a, size_t next_rows, const char *b, size_t panel_bytes, int n,
                          const int panels)
{
    for (int k = 0; k < n; k++, a += TILE_BYTES, b += TILE_BYTES) {
        TILE_LOAD(4, a, TILE_LINE);
        TILE_LOAD(5, a + next_rows, TILE_LINE);
        TILE_LOAD(6, b, TILE_LINE);
        if (bits != 4)
            prefetch_tiles(b, panel_bytes, panels);
        TILE_DOT(bits < 16, 0, 4, 6);
        TILE_DOT(bits < 16, 2, 5, 6);
        if (panels > 1) {
            TILE_LOAD(7, b + panel_bytes, TILE_LINE);
            TILE_DOT(bits < 16, 1, 4, 7);
            TILE_DOT(bits < 16, 3, 5, 7);
        }
    }
}

/* The same of two panels whose tiles stay in the nearest cache. */
INLINE void steps_passing(const int bits, const char *a, size_t next_rows, const char *b, size_t panel_bytes, int n,
                          struct traffic *traffic)
{
    for (int k = 0; k < n; k++, a += TILE_BYTES, b += TILE_BYTES) {
        TILE_LOAD_ONCE(4, a, TILE_LINE);
        TILE_LOAD(6, b, TILE_LINE);
        ask_ahead(traffic, 0);
        TILE_DOT(bits < 16, 0, 4, 6);
        TILE_LOAD_ONCE(5, a + next_rows, TILE_LINE);
        ask_ahead(traffic, 1);
        TILE_DOT(bits < 16, 2, 5, 6);
        TILE_LOAD(7, b + panel_bytes, TILE_LINE);
        ask_ahead(traffic, 0);
        put_outputs(traffic, traffic->at_once);
        TILE_DOT(bits < 16, 1, 4, 7);
        ask_ahead(traffic, 1);
        TILE_DOT(bits < 16, 3, 5, 7);
    }
}

/* Of a block: `traffic` is there when its rows pass. */
INLINE void steps(const int bits, const char *a, size_t next_rows, const char *b, size_t panel_bytes, int n,
                  struct traffic *traffic, const int rows, const int panels)
{
    if (traffic != NULL)
        steps_passing(bits, a, next_rows, b, panel_bytes, n, traffic);
    else if (rows > TILE_ROWS)
        steps_32_rows(bits, a, next_rows, b, panel_bytes, n, panels);
    else
        steps_16_rows(bits, a, b, panel_bytes, n, panels);
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

/* Where leaf i goes when it ends. */
INLINE float *leaf_sums(const struct gemm *g, int i, struct sum_stack *s)
{
    return g->part->n_merges[i] > 0 ? s->fresh : s->sums[s->top];
}

/* Leaf i, which is at `leaf`: adds what is complete and writes nodes that are. */
INLINE void end_leaf(const struct gemm *g, const struct tile_block *b, int i, const float *leaf, struct sum_stack *s,
                     const int rows, const int panels)
{
    const int stride = panels * PANEL_WIDTH;
    int n = g->part->n_merges[i];
    for (int f = 0; f < rows * stride && n > 0; f += LANES) {
        vec sum = load_vec(leaf + f);
        for (int m = 1; m <= n; m++)
            sum = load_vec(s->sums[s->top - m] + f) + sum;
        store_vec(s->sums[s->top - n] + f, sum);
    }
    s->top += 1 - n;
    if (g->part->node_done[i] && !s->keeps)
        copy_sums(g, b, s->node++, s->sums[--s->top], (size_t)stride);
}

/* Tiles [first, first + n) of a panel, all of one leaf. */
struct piece {
    int leaf, first, n;
    int begins, ends;               /* the leaf */
    const char *tiles;              /* of int4: as int8 has them, [panel][PIECE_TILES] */
};

INLINE void piece_bf16(const struct gemm *g, const struct tile_block *b, const struct piece *p, struct sum_stack *s,
                       struct traffic *traffic, const int rows, const int panels)
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
    steps(16, x, next_rows, w, g->panel_bytes, p->n, traffic, rows, panels);
    int n_leaves = g->part->end - g->part->begin;
    if (p->ends && n_leaves == 1 && !s->keeps && b->n_rows == rows && b->n_outputs == stride) {
        store_sums(g->y + (size_t)b->row * g->y_stride + b->panel * PANEL_WIDTH, g->y_stride, rows, panels);
        return;
    }
    float *sums = p->ends ? leaf_sums(g, p->leaf, s) : s->sums[s->top];
    store_sums(sums, (size_t)stride, rows, panels);
    if (p->ends)
        end_leaf(g, b, p->leaf, sums, s, rows, panels);
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

/* ---- linear layers, int8 and int4 ---- */

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
    const char *w;                  /* tiles of the first panel */
    size_t next_tiles;              /* bytes between the panels' */
    int units;                      /* of a group */
    size_t gap;                     /* bytes between the tiles of a group and of the next */
    const char *weight_scales;      /* [16] bf16 of the first panel, those of a group group_bytes on */
    size_t panel_bytes, group_bytes;
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

INLINE void multiply_unit(const int bits, struct int8_leaf *in, struct traffic *traffic, const int rows,
                          const int panels)
{
    steps(bits, in->x, in->next_rows, in->w, in->next_tiles, 1, traffic, rows, panels);
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
INLINE void add_groups(const int bits, struct int8_leaf *in, struct traffic *traffic, int n, float *sums,
                       const int rows, const int panels)
{
    _Alignas(TILE_LINE) int32_t products[4][TILE_FLOATS];
    const int n_tiles = rows / TILE_ROWS * panels;
    for (int k = 0; k <= n; k++) {
        int unit = 0, units = k < n ? in->units : 0;
        zero_sums();
        UNROLL
        for (int t = 0; t < n_tiles; t++) {
            if (unit < units) {
                multiply_unit(bits, in, traffic, rows, panels);
                unit++;
            }
            if (k > 0)
                scale_tile(in, (const int32_t (*)[TILE_FLOATS])products, sums, t / panels, t % panels, rows, panels);
        }
        for (; unit < units; unit++)
            multiply_unit(bits, in, traffic, rows, panels);
        if (k > 0) {
            in->weight_scales += in->group_bytes;
            in->scales += TILE_ROWS;
        }
        if (k < n) {
            store_products(products, rows, panels);
            in->w += in->gap;
        }
    }
}

INLINE void piece_quantised(const int bits, const struct gemm *g, const struct tile_block *b, const struct piece *p,
                            struct sum_stack *s, struct traffic *traffic, const int rows, const int panels)
{
    int has_two = b->n_rows > TILE_ROWS;        /* else as in piece_bf16 */
    int units = g->group / INT8_UNIT, first_group = p->first / units;
    const char *w = (const char *)g->panels + (size_t)b->panel * g->panel_bytes
                  + (size_t)first_group * group_bytes(g->group, bits);
    struct int8_leaf in = {
        .x = (const char *)g->packed_x + first_piece(g, b->row, INT8_UNIT) * INT8_UNIT + (size_t)p->first * TILE_BYTES,
        .next_rows = has_two ? first_piece(g, TILE_ROWS, INT8_UNIT) * INT8_UNIT : 0,
        .w = bits == 4 ? p->tiles : w, .next_tiles = bits == 4 ? PIECE_TILES * TILE_BYTES : g->panel_bytes,
        .units = units, .gap = bits == 4 ? 0 : group_bytes(g->group, 8) - (size_t)units * TILE_BYTES,
        .weight_scales = w + group_scales_at(g->group, bits), .panel_bytes = g->panel_bytes,
        .group_bytes = group_bytes(g->group, bits),
        .scales = g->group_scales + first_piece(g, b->row, g->group) + (size_t)(first_group * TILE_ROWS),
        .next_scales = has_two ? first_piece(g, TILE_ROWS, g->group) : 0,
    };
    float *sums = p->begins && p->ends ? leaf_sums(g, p->leaf, s) : s->sums[s->top];
    if (p->begins)
        memset(sums, 0, (size_t)(rows * panels * PANEL_WIDTH) * sizeof *sums);
    add_groups(bits, &in, traffic, p->n / units, sums, rows, panels);
    if (p->ends)
        end_leaf(g, b, p->leaf, sums, s, rows, panels);
}

/* What makes bytes of the halves of bytes of one share, for all weights of a lane: bytes times `times`, plus `plus`.
 * As products of bytes stay below 256, those of two are one of 16 bits. */
typedef uint16_t vec16 __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint8_t vec8 __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

struct widening {
    vecu times, plus;
};

INLINE struct widening widening_of(const char *factors, const int half)
{
    vecu factor = (vecu)load_factors(factors, half), pair = factor | factor << 16, all = pair | pair << 8;
    return (struct widening){ pair, (vecu)((vec8){ 0 } - (vec8)(all << 3)) };
}

INLINE vecu widen_quad(vecu both, const int half, const struct widening *w)
{
    vecu bytes = both >> (half * 4) & 0x0f0f0f0fu;
    return (vecu)((vec8)((vec16)bytes * (vec16)w->times) + (vec8)w->plus);
}

/* An int4 piece of `panels` panels as int8. */
INLINE void widen_piece(const struct gemm *g, int panel, int panels, const struct piece *p, char *out)
{
    enum { HALF = TILE_ROWS / 2, AHEAD = 32 };
    int units = g->group / INT8_UNIT;
    for (int i = 0; i < panels; i++)
        for (int t = 0; t < p->n; t++) {
            int group = (p->first + t) / units, unit = (p->first + t) % units;
            const char *from = (const char *)g->panels + (size_t)(panel + i) * g->panel_bytes
                             + (size_t)group * group_bytes(g->group, 4);
            const char *bytes = from + (size_t)unit * unit_bytes(4);
            const char *factors = from + (size_t)units * unit_bytes(4) + unit * PANEL_WIDTH;
            struct widening low = widening_of(factors, 0), high = widening_of(factors, 1);
            char *tile = out + (size_t)(i * PIECE_TILES + t) * TILE_BYTES;
            UNROLL
            for (int q = 0; q < HALF; q++) {
                vecu both = *(const vecu *)(bytes + q * TILE_LINE);
                __builtin_prefetch(bytes + (q + AHEAD) * TILE_LINE, 0, 3);
                *(vecu *)(tile + q * TILE_LINE) = widen_quad(both, 0, &low);
                *(vecu *)(tile + (q + HALF) * TILE_LINE) = widen_quad(both, 1, &high);
            }
        }
}

/* ---- linear layers, all types ---- */

INLINE void one_piece(const int bits, const struct gemm *g, const struct tile_block *b, const struct piece *p,
                      struct sum_stack *s, struct traffic *traffic, const int rows, const int panels)
{
    if (bits < 16)
        piece_quantised(bits, g, b, p, s, traffic, rows, panels);
    else
        piece_bf16(g, b, p, s, traffic, rows, panels);
}

INLINE void any_piece(const int bits, const struct gemm *g, const struct tile_block *b, const struct piece *p,
                      struct sum_stack *s, const int rows, int panels)
{
    switch (panels) {
    case 1: one_piece(bits, g, b, p, s, NULL, rows, 1); break;
    case 2: one_piece(bits, g, b, p, s, NULL, rows, 2); break;
    case 3: if (rows == TILE_ROWS) one_piece(bits, g, b, p, s, NULL, rows, 3); break;
    case 4: if (rows == TILE_ROWS) one_piece(bits, g, b, p, s, NULL, rows, 4); break;
    default: break;
    }
}

/* The next piece of at most `most` tiles, 0 after the last.  Those of a leaf are about as long as each other: whole
 * groups, if there are groups. */
INLINE int next_piece(const int bits, const struct gemm *g, struct piece *p, int most)
{
    int inputs = bits < 16 ? INT8_UNIT : TILE_INPUTS, unit = bits < 16 ? g->group / INT8_UNIT : 1;
    p->first += p->n;
    p->leaf += p->ends;
    p->begins = p->ends;
    if (p->leaf == g->part->end - g->part->begin)
        return 0;
    int left = g->leaf_end[p->leaf] / inputs - p->first, n_pieces = (left + most - 1) / most;
    p->n = least(((left + n_pieces - 1) / n_pieces + unit - 1) / unit * unit, left);
    p->ends = p->n == left;
    return 1;
}

static const struct piece before_first = { .leaf = -1, .ends = 1 };

/* A block, leaf by leaf; of int4, group by group. */
INLINE void whole_block(const int bits, const struct gemm *g, struct tile_block *b, const int rows, int panels)
{
    _Alignas(TILE_LINE) char tiles[TILE_PANELS * PIECE_TILES * TILE_BYTES];
    _Alignas(TILE_LINE) float fresh[MAX_BLOCK_FLOATS];
    struct sum_stack stack;
    struct piece p = before_first;
    p.tiles = tiles;
    stack.fresh = fresh;
    stack.top = stack.node = stack.keeps = 0;
    b->n_outputs = least(g->n_outputs - b->panel * PANEL_WIDTH, panels * PANEL_WIDTH);
    while (next_piece(bits, g, &p, bits == 4 ? MAX_GROUP / INT8_UNIT : ALL_TILES)) {
        if (bits == 4)
            widen_piece(g, b->panel, panels, &p, tiles);
        any_piece(bits, g, b, &p, &stack, rows, panels);
    }
}

INLINE void few_rows(const int bits, const struct gemm *g, int n_panels)
{
    struct tile_block b = { .n_rows = g->n_rows };
    /* Products of int8 are stored whole. */
    tiles_open(bits < 16 ? TILE_ROWS : g->n_rows);
    for (; b.panel < n_panels; b.panel += TILE_PANELS)
        whole_block(bits, g, &b, TILE_ROWS, least(n_panels - b.panel, TILE_PANELS));
    tiles_close();
}

/* All rows against panels that stay in the second cache together: a block of rows is
 * done with before the next, so that what it writes lies together. */
INLINE void many_rows_few_panels(const int bits, const struct gemm *g, int n_panels)
{
    struct tile_block b = { 0 };
    for (; b.row < g->n_rows; b.row += MANY_ROWS) {
        b.n_rows = least(g->n_rows - b.row, MANY_ROWS);
        for (b.panel = 0; b.panel < n_panels; b.panel += PAIR)
            whole_block(bits, g, &b, MANY_ROWS, least(n_panels - b.panel, PAIR));
    }
}

/* Bytes of the first n tiles of a panel. */
INLINE size_t tiles_bytes(const int bits, const struct gemm *g, int n)
{
    return bits < 16 ? (size_t)(n / (g->group / INT8_UNIT)) * group_bytes(g->group, bits) : (size_t)n * TILE_BYTES;
}

/* While rows pass p, what is needed after it is asked for: of the next pair, after the last piece of this one. */
INLINE void expect_piece(const int bits, const struct gemm *g, const struct piece *p, int most, int panel, int n_steps,
                         struct traffic *traffic)
{
    struct piece next = *p;
    if (!next_piece(bits, g, &next, most)) {
        next = before_first;
        next_piece(bits, g, &next, most);
        panel += PAIR;
    }
    size_t n_lines = tiles_bytes(bits, g, next.n) / TILE_LINE;
    int halves = 2 * n_steps;
    traffic->next = (const char *)g->panels + (size_t)panel * g->panel_bytes + tiles_bytes(bits, g, next.first);
    traffic->n_next = (panel + 1) * PANEL_WIDTH < g->n_outputs ? ((int)n_lines + halves - 1) / halves : 0;
}

/* Rows [first, end) against a pair of panels, piece by piece: a piece stays in the nearest cache while the rows pass
 * by, and meanwhile the next one is fetched. */
INLINE void rows_pass(const int bits, const struct gemm *g, int first, int end, struct tile_block b,
                      struct traffic *traffic, struct sum_stack stacks[PASS_BLOCKS])
{
    int n_blocks = (end - first + MANY_ROWS - 1) / MANY_ROWS;
    _Alignas(TILE_LINE) char tiles[PAIR * PIECE_TILES * TILE_BYTES];
    struct piece p = before_first;
    /* The fewer the rows, the more is fetched for each, and the more evenly it has to be. */
    int most = n_blocks > PASS_BLOCKS / 2 ? PIECE_TILES : PIECE_TILES / 2;
    p.tiles = tiles;
    b.n_outputs = least(g->n_outputs - b.panel * PANEL_WIDTH, PAIR * PANEL_WIDTH);
    for (int i = 0; i < n_blocks; i++)
        stacks[i].top = stacks[i].node = 0;
    while (next_piece(bits, g, &p, most)) {
        expect_piece(bits, g, &p, most, b.panel, n_blocks * p.n, traffic);
        if (bits == 4)
            widen_piece(g, b.panel, PAIR, &p, tiles);
        for (int i = 0; i < n_blocks; i++) {
            b.row = first + i * MANY_ROWS;
            b.n_rows = least(end - b.row, MANY_ROWS);
            one_piece(bits, g, &b, &p, &stacks[i], traffic, MANY_ROWS, PAIR);
        }
    }
}

/* Do the outputs go past the caches? */
INLINE int outputs_leave(const struct gemm *g)
{
    int n = g->n_gated > 0 ? g->n_gated : g->n_outputs;
    return (size_t)g->n_rows * (size_t)n * 4 > LEAVING_BYTES && g->part->n_nodes == 1
        && ((uintptr_t)g->y | g->y_stride * 4) % TILE_LINE == 0;
}

/* The outputs of a pair are put while the next is at work: those that leave, and gated ones. */
INLINE int are_put(const struct gemm *g, int panel, int leave)
{
    return g->n_gated > 0 || (leave && (panel + PAIR) * PANEL_WIDTH <= g->n_outputs);
}

/* Those of rows [first, end) and a pair are next. */
INLINE void start_putting(const struct gemm *g, const struct sum_stack *done, int first, int end, int panel, int leave,
                          struct traffic *t)
{
    int column = g->n_gated > 0 ? panel / PAIR * PANEL_WIDTH : panel * PANEL_WIDTH;
    t->done = done;
    t->line = 0;
    t->n_lines = are_put(g, panel, leave) ? (end - first) * (g->n_gated > 0 ? 1 : ROW_LINES) : 0;
    t->n_gated = g->n_gated > 0 ? g->n_gated - column : 0;
    t->leave = leave && (g->n_gated == 0 || t->n_gated >= LANES);
    t->y = g->y + (size_t)first * g->y_stride + column;
}

/* Rows [first, end) against all pairs of panels. */
INLINE void pairs_passed(const int bits, const struct gemm *g, int first, int end, int n_pairs)
{
    struct sum_stack stacks[2][PASS_BLOCKS];        /* of a pair, and of the one before */
    _Alignas(TILE_LINE) float fresh[MAX_BLOCK_FLOATS];
    struct traffic traffic = { .panel_bytes = g->panel_bytes, .y_stride = g->y_stride };
    int leave = outputs_leave(g), n_steps = all_inputs(g) / (bits < 16 ? INT8_UNIT : TILE_INPUTS);
    traffic.at_once = (MANY_ROWS * ROW_LINES + n_steps - 1) / n_steps;
    for (int pair = 0; pair < n_pairs; pair++) {
        struct tile_block b = { .panel = pair * PAIR };
        for (int i = 0; i < PASS_BLOCKS; i++) {
            stacks[pair % 2][i].keeps = are_put(g, b.panel, leave);
            stacks[pair % 2][i].fresh = fresh;
        }
        rows_pass(bits, g, first, end, b, &traffic, stacks[pair % 2]);
        put_outputs(&traffic, traffic.n_lines);
        start_putting(g, stacks[pair % 2], first, end, b.panel, leave, &traffic);
    }
    put_outputs(&traffic, traffic.n_lines);
    if (leave)
        _mm_sfence();
}

INLINE void many_rows(const int bits, const struct gemm *g, int n_panels)
{
    int row_bytes = bits < 16 ? all_inputs(g) : all_inputs(g) * 2;
    int most = rows_in_cache((size_t)row_bytes), n_passes = (g->n_rows + most - 1) / most;
    for (int first = 0, end; first < g->n_rows; first = end, n_passes--) {
        int even = (g->n_rows - first + n_passes - 1) / n_passes;
        end = least(first + (even + MANY_ROWS - 1) / MANY_ROWS * MANY_ROWS, g->n_rows);
        int n_pairs = end - first > MANY_ROWS || g->n_gated > 0 ? n_panels / PAIR : 0;
        pairs_passed(bits, g, first, end, n_pairs);
        for (struct tile_block b = { .panel = n_pairs * PAIR }; b.panel < n_panels; b.panel += PAIR)
            for (b.row = first; b.row < end; b.row += MANY_ROWS) {
                b.n_rows = least(end - b.row, MANY_ROWS);
                whole_block(bits, g, &b, MANY_ROWS, least(n_panels - b.panel, PAIR));
            }
    }
}

INLINE void tiles_gemm(const int bits, const struct gemm *g)
{
    int n_panels = (g->n_outputs + PANEL_WIDTH - 1) / PANEL_WIDTH;
    if (g->n_rows <= TILE_ROWS && g->n_gated == 0) {
        few_rows(bits, g, n_panels);
        return;
    }
    tiles_open(TILE_ROWS);
    if ((size_t)n_panels * g->panel_bytes <= PANELS_BYTES && g->n_gated == 0)
        many_rows_few_panels(bits, g, n_panels);
    else
        many_rows(bits, g, n_panels);
    tiles_close();
}

static void tiles_gemm_bf16(const struct gemm *g)
{
    tiles_gemm(16, g);
}

/* A few rows are a matter of memory and go through the byte products; as all sums
 * of a group are exact, both ways have the same bits. */
static void tiles_gemm_int8(const struct gemm *g)
{
    if (g->n_rows <= FEW_ROWS_INT8 && g->n_gated == 0)
        gemm_int8(g);
    else
        tiles_gemm(8, g);
}

static void tiles_gemm_int4(const struct gemm *g)
{
    if (g->n_rows <= FEW_ROWS_INT8 && g->n_gated == 0)
        gemm_int4(g);
    else
        tiles_gemm(4, g);
}

#endif
