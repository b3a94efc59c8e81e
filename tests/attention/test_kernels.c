/* test_kernels - every kernel of every table against a plain double loop, for small lengths and odd strides. */
#include "attention/kernels.h"

#include "base/element.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 96 };

static const char *const names[] = { "ref", "avx2", "avx512", "avx512bf16", "amx" };

static float random_float(struct rng *rng)
{
    return (float)(rng_uniform(rng) * 2 - 1);
}

static void fill(struct rng *rng, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = random_float(rng);
}

static void assert_near(double got, double want, double size)
{
    if (!(fabs(got - want) <= 4e-6 * (size + 1)))
        fail_msg("got %.9g, want %.9g", got, want);
}

/* Run test(kernels) for every table this processor has. */
static void for_each_table(void (*test)(const struct kernels *k))
{
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct kernels *k = kernels_select(names[i]);
        if (k == NULL)
            continue;
        assert_string_equal(k->name, names[i]);
        test(k);
        n++;
    }
    assert_true(n >= 1);
}

/* ---- linear layers ---- */

struct shape {
    int rows, inputs, outputs, n_leaves, begin, end;
};

struct problem {
    struct shape shape;
    struct reduce_part part;
    int leaf_end[REDUCE_MAX_LEAVES];
    size_t x_stride, y_stride, node_stride;
    float *x, *w, *y;
    char *panels, *packed;
    struct gemm gemm;
};

/* Leaf boundaries: even inputs, as bf16 pairs need. */
static int leaf_inputs(const struct shape *s, int leaf)
{
    int at = s->inputs * (leaf + 1) / (s->end - s->begin);
    return leaf + 1 == s->end - s->begin ? s->inputs : at & ~1;
}

/* Rows [first, first + n) packed leaf by leaf, as tables that multiply bf16 want it;
 * the inputs are bf16 numbers here, so nothing is lost. */
static char *pack_inputs(const struct problem *p, const struct kernels *k, int first, int n)
{
    const struct shape *s = &p->shape;
    int n_leaves = s->end - s->begin, unit = k->bf16_unit, together = k->row_unit;
    int n_units = p->leaf_end[n_leaves - 1] / unit;
    uint16_t *out = calloc((size_t)((n + together) * n_units * unit + 1), sizeof *out);
    for (int r = 0; r < n; r++)
        for (int l = 0, from = 0; l < n_leaves; from = leaf_inputs(s, l++)) {
            int at = (l > 0 ? p->leaf_end[l - 1] : 0) / unit;
            k->pack_bf16(out + ((r / together * n_units + at) * together + r % together) * unit,
                         p->x + (size_t)(first + r) * p->x_stride + from, leaf_inputs(s, l) - from);
        }
    return (char *)out;
}

/* Where input i is in a panel whose leaves are filled up. */
static size_t place_of_input(const struct problem *p, int i)
{
    int leaf = 0;
    while (i >= leaf_inputs(&p->shape, leaf))
        leaf++;
    int first = leaf > 0 ? leaf_inputs(&p->shape, leaf - 1) : 0;
    return (size_t)((leaf > 0 ? p->leaf_end[leaf - 1] : 0) + i - first);
}

/* unit: leaves are filled up to a multiple of it. */
static void make_problem(struct problem *p, const struct shape *s, struct rng *rng, int is_bf16, int unit)
{
    *p = (struct problem){ .shape = *s };
    reduce_part_init(&p->part, s->n_leaves, s->begin, s->end);
    int n_padded = 0;
    for (int l = 0, first = 0; l < s->end - s->begin; first = leaf_inputs(s, l++)) {
        n_padded += (leaf_inputs(s, l) - first + unit - 1) / unit * unit;
        p->leaf_end[l] = n_padded;
    }
    p->x_stride = (size_t)s->inputs + 3;
    p->y_stride = (size_t)s->outputs + 5;
    p->node_stride = p->y_stride * (size_t)s->rows + 7;
    size_t pairs = ((size_t)n_padded + 1) / 2, n_panels = ((size_t)s->outputs + 15) / 16;
    size_t panel = pairs * 2 * 16 * (is_bf16 ? 2 : 4);
    p->x = malloc((p->x_stride * (size_t)s->rows + 1) * 4);
    p->w = malloc(((size_t)s->outputs * (size_t)s->inputs + 1) * 4);
    p->y = malloc((p->node_stride * REDUCE_MAX_NODES + 1) * 4);
    p->panels = calloc(n_panels * panel + 64, 1);
    for (size_t i = 0; i < p->x_stride * (size_t)s->rows; i++)
        p->x[i] = bf16_to_f32(f32_to_bf16(random_float(rng)));
    for (int o = 0; o < s->outputs; o++)
        for (int i = 0; i < s->inputs; i++) {
            float w = bf16_to_f32(f32_to_bf16(random_float(rng)));
            p->w[(size_t)o * (size_t)s->inputs + (size_t)i] = w;
            char *at = p->panels + (size_t)(o / 16) * panel;
            size_t lane = (size_t)(o % 16), k = place_of_input(p, i);
            if (is_bf16)
                ((uint16_t *)(void *)at)[(k / 2 * 16 + lane) * 2 + k % 2] = f32_to_bf16(w);
            else
                ((float *)(void *)at)[k * 16 + lane] = w;
        }
    p->gemm = (struct gemm){
        .x = p->x, .x_stride = p->x_stride, .n_rows = s->rows, .panels = p->panels, .panel_bytes = panel,
        .n_outputs = s->outputs, .leaf_end = p->leaf_end, .part = &p->part, .y = p->y,
        .y_stride = p->y_stride, .node_stride = p->node_stride,
    };
}

static void free_problem(struct problem *p)
{
    free(p->x);
    free(p->w);
    free(p->y);
    free(p->panels);
    free(p->packed);
}

/* The nodes together are the whole sum. */
static void check_problem(const struct problem *p)
{
    const struct shape *s = &p->shape;
    for (int r = 0; r < s->rows; r++)
        for (int o = 0; o < s->outputs; o++) {
            double want = 0, size = 0, got = 0;
            for (int i = 0; i < s->inputs; i++) {
                double term = (double)p->x[(size_t)r * p->x_stride + (size_t)i]
                            * (double)p->w[(size_t)o * (size_t)s->inputs + (size_t)i];
                want += term;
                size += fabs(term);
            }
            for (int node = 0; node < p->part.n_nodes; node++)
                got += (double)p->y[(size_t)node * p->node_stride + (size_t)r * p->y_stride + (size_t)o];
            assert_near(got, want, size);
        }
}

/* A row alone has the bits it has among others. */
static void check_rows_alone(const struct problem *p, const struct kernels *k, void (*gemm)(const struct gemm *g))
{
    const struct shape *s = &p->shape;
    float *alone = malloc((p->node_stride * REDUCE_MAX_NODES + 1) * 4);
    for (int r = 0; r < s->rows; r++) {
        struct gemm one = p->gemm;
        one.x += (size_t)r * p->x_stride;
        char *packed = one.packed_x != NULL ? pack_inputs(p, k, r, 1) : NULL;
        one.packed_x = packed;
        one.n_rows = 1;
        one.y = alone;
        gemm(&one);
        free(packed);
        for (int node = 0; node < p->part.n_nodes; node++)
            assert_memory_equal(alone + (size_t)node * p->node_stride,
                                p->y + (size_t)node * p->node_stride + (size_t)r * p->y_stride,
                                (size_t)s->outputs * 4);
    }
    free(alone);
}

static void run_shape(const struct kernels *k, const struct shape *s, struct rng *rng)
{
    for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
        struct problem p;
        make_problem(&p, s, rng, is_bf16, is_bf16 && k->bf16_unit > 0 ? k->bf16_unit : 1);
        if (is_bf16 && k->bf16_unit > 0)
            p.gemm.packed_x = p.packed = pack_inputs(&p, k, 0, s->rows);
        void (*gemm)(const struct gemm *) = is_bf16 ? k->gemm_bf16 : k->gemm_f32;
        gemm(&p.gemm);
        check_problem(&p);
        check_rows_alone(&p, k, gemm);
        free_problem(&p);
    }
}

static void gemm_table(const struct kernels *k)
{
    struct rng rng;
    rng_seed(&rng, 1);
    for (int inputs = 1; inputs <= 40; inputs++)
        for (int rows = 1; rows <= 8; rows++) {
            struct shape s = { rows, inputs, 1 + (int)rng_below(&rng, 70), 1, 0, 1 };
            run_shape(k, &s, &rng);
        }
    for (int rows = 9; rows <= 70; rows++) {
        struct shape s = { rows, 1 + (int)rng_below(&rng, 100), 1 + (int)rng_below(&rng, 70), 1, 0, 1 };
        run_shape(k, &s, &rng);
    }
    for (int outputs = 1; outputs <= 82; outputs++) {
        struct shape s = { 1 + (int)rng_below(&rng, 14), 1 + (int)rng_below(&rng, 90), outputs, 1, 0, 1 };
        run_shape(k, &s, &rng);
    }
}

static void gemm_is_the_plain_sum(void **state)
{
    (void)state;
    for_each_table(gemm_table);
}

static void leaves_table(const struct kernels *k)
{
    struct rng rng;
    rng_seed(&rng, 2);
    for (int n_leaves = 1; n_leaves <= 16; n_leaves++)
        for (int begin = 0; begin < n_leaves; begin++)
            for (int end = begin + 1; end <= n_leaves; end++) {
                struct shape s = { 1 + (int)rng_below(&rng, n_leaves % 4 == 0 ? 40 : 7), 64 + (int)rng_below(&rng, 32),
                                   1 + (int)rng_below(&rng, 40), n_leaves, begin, end };
                run_shape(k, &s, &rng);
            }
}

static void gemm_over_leaves_is_the_plain_sum(void **state)
{
    (void)state;
    for_each_table(leaves_table);
}

/* Cutting the columns among ranks and adding their nodes as the plan says gives
 * the bits of one rank. */
static void split_table(const struct kernels *k)
{
    struct rng rng;
    rng_seed(&rng, 3);
    enum { N_LEAVES = 12, INPUTS = N_LEAVES * 6, OUTPUTS = 21 };
    struct shape whole = { 3, INPUTS, OUTPUTS, N_LEAVES, 0, N_LEAVES };
    struct problem p;
    make_problem(&p, &whole, &rng, 0, 1);
    k->gemm_f32(&p.gemm);
    for (int n_parts = 1; n_parts <= N_LEAVES; n_parts++) {
        int begin[REDUCE_MAX_LEAVES + 1];
        for (int i = 0; i <= n_parts; i++)
            begin[i] = N_LEAVES * i / n_parts;
        struct reduce_plan plan;
        reduce_plan_init(&plan, N_LEAVES, n_parts, begin);
        struct problem parts[N_LEAVES];
        for (int i = 0; i < n_parts; i++) {
            struct shape s = { 3, (begin[i + 1] - begin[i]) * 6, OUTPUTS, N_LEAVES, begin[i], begin[i + 1] };
            make_problem(&parts[i], &s, &rng, 0, 1);
            size_t skip = (size_t)begin[i] * 6;
            parts[i].gemm.x = p.x + skip;
            parts[i].gemm.x_stride = p.x_stride;
            parts[i].gemm.panels = p.panels + skip * 64;
            parts[i].gemm.panel_bytes = p.gemm.panel_bytes;
            k->gemm_f32(&parts[i].gemm);
        }
        for (int r = 0; r < 3; r++)
            for (int o = 0; o < OUTPUTS; o++) {
                float stack[REDUCE_MAX_DEPTH + 1];
                int top = 0;
                for (int i = 0; i < plan.n_steps; i++) {
                    const struct problem *from = &parts[plan.steps[i].part];
                    stack[top++] = from->y[plan.steps[i].node * from->node_stride
                                           + (size_t)r * from->y_stride + (size_t)o];
                    for (int m = 0; m < plan.steps[i].n_merges; m++, top--)
                        stack[top - 2] += stack[top - 1];
                }
                assert_int_equal(top, 1);
                assert_memory_equal(stack, &p.y[(size_t)r * p.y_stride + (size_t)o], 4);
            }
        for (int i = 0; i < n_parts; i++)
            free_problem(&parts[i]);
    }
    free_problem(&p);
}

static void any_number_of_ranks_adds_to_the_same_bits(void **state)
{
    (void)state;
    for_each_table(split_table);
}

/* ---- attention ---- */

static void score_table(const struct kernels *k)
{
    struct rng rng;
    rng_seed(&rng, 4);
    static float q[32 * 200], keys[64 * 200], got[32 * 80], alone[80];
    for (int width = 1; width <= 150; width++) {
        int rows = 1 + (int)rng_below(&rng, 14), n_keys = 1 + (int)rng_below(&rng, 40);
        fill(&rng, q, sizeof q / 4);
        fill(&rng, keys, sizeof keys / 4);
        struct score_block b = { q, 157, keys, 161, got, 77, rows, n_keys, width, 0 };
        k->score(&b);
        for (int r = 0; r < rows; r++) {
            for (int s = 0; s < n_keys; s++) {
                double want = 0, size = 0;
                for (int d = 0; d < width; d++) {
                    double t = (double)q[r * 157 + d] * (double)keys[s * 161 + d];
                    want += t;
                    size += fabs(t);
                }
                assert_near((double)got[r * 77 + s], want, size);
            }
            struct score_block one = b;
            one.queries += r * 157;
            one.n_rows = 1;
            one.scores = alone;
            k->score(&one);
            assert_memory_equal(alone, got + r * 77, (size_t)n_keys * 4);
        }
        float before = got[0];
        b.accumulate = 1;
        k->score(&b);
        assert_near((double)got[0], 2 * (double)before, fabs((double)before));
    }
}

static void scores_are_dot_products(void **state)
{
    (void)state;
    for_each_table(score_table);
}

static void value_table(const struct kernels *k)
{
    struct rng rng;
    rng_seed(&rng, 5);
    static float weights[32 * 64], values[64 * 200], got[32 * 200], start[32 * 200], alone[200];
    for (int width = 1; width <= 150; width++) {
        int rows = 1 + (int)rng_below(&rng, 14), n_keys = 1 + (int)rng_below(&rng, 50);
        fill(&rng, weights, sizeof weights / 4);
        fill(&rng, values, sizeof values / 4);
        fill(&rng, start, sizeof start / 4);
        memcpy(got, start, sizeof got);
        struct value_block b = { weights, 53, values, 163, got, 171, rows, n_keys, width };
        k->add_values(&b);
        for (int r = 0; r < rows; r++) {
            for (int d = 0; d < width; d++) {
                double want = (double)start[r * 171 + d], size = fabs(want);
                for (int s = 0; s < n_keys; s++) {
                    double t = (double)weights[r * 53 + s] * (double)values[s * 163 + d];
                    want += t;
                    size += fabs(t);
                }
                assert_near((double)got[r * 171 + d], want, size);
            }
            assert_memory_equal(got + r * 171 + width, start + r * 171 + width, 4);
            memcpy(alone, start + r * 171, sizeof alone);
            struct value_block one = { weights + r * 53, 53, values, 163, alone, 171, 1, n_keys, width };
            k->add_values(&one);
            assert_memory_equal(alone, got + r * 171, (size_t)width * 4);
        }
    }
}

static void values_are_weighted_sums(void **state)
{
    (void)state;
    for_each_table(value_table);
}

/* n bf16 numbers and the same as floats. */
static void fill_bf16(struct rng *rng, uint16_t *halves, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        halves[i] = f32_to_bf16(random_float(rng));
        x[i] = bf16_to_f32(halves[i]);
    }
}

enum { TILE_STRIDE = 203, TILE_WIDTH = 200, TILE_KEYS = 112 };

/* Cached rows of bf16 or int8, and what they stand for. */
struct cached {
    int is_int8;
    char rows[MAX_VALUE_KEYS * TILE_STRIDE * 2];
    float values[MAX_VALUE_KEYS * TILE_STRIDE];
};

static size_t cached_stride(const struct cached *c)
{
    return c->is_int8 ? TILE_STRIDE + 1 : TILE_STRIDE * 2;
}

/* An int8 row's last four bytes are its scale; 200 columns are left. */
static void fill_cached(struct rng *rng, struct cached *c)
{
    for (int s = 0; s < MAX_VALUE_KEYS; s++) {
        char *row = c->rows + (size_t)s * cached_stride(c);
        float *values = c->values + s * TILE_STRIDE;
        if (!c->is_int8) {
            fill_bf16(rng, (uint16_t *)(void *)row, values, TILE_STRIDE);
            continue;
        }
        float scale = (float)rng_uniform(rng);
        for (int d = 0; d < TILE_WIDTH; d++) {
            row[d] = (char)((int)rng_below(rng, 255) - 127);
            values[d] = (float)(int8_t)row[d] * scale;
        }
        memcpy(row + TILE_WIDTH, &scale, sizeof scale);
    }
}

/* What rounding may cost, as a multiple of the sum of magnitudes: bf16 numbers lose nothing here, the whole
 * numbers of int8 half a unit of 15 bits each, on average far less. */
static void check_sum(const struct cached *c, double got, double want, double size, double largest)
{
    if (!c->is_int8)
        assert_near(got, want, size);
    else if (!(fabs(got - want) <= largest * 0.51 / (127 * 128) + 1e-6 * size))
        fail_msg("got %g, want %g, largest %g", got, want, largest);
}

static const struct row_kernels *rows_of(const struct kernels *k, int is_int8)
{
    return is_int8 ? k->int8_rows : k->bf16_rows;
}

static void check_scores(const struct kernels *k, struct cached *c)
{
    struct rng rng;
    rng_seed(&rng, 8);
    static float q[MAX_TILE_ROWS * TILE_STRIDE], got[MAX_TILE_ROWS * TILE_KEYS], before[MAX_TILE_ROWS * TILE_KEYS];
    static uint16_t unused[MAX_TILE_ROWS * TILE_STRIDE];
    float scales[MAX_TILE_ROWS];
    void *packed = malloc(packed_query_bytes(TILE_WIDTH));
    for (int width = 1; width <= TILE_WIDTH; width++) {
        int rows = 1 + (int)rng_below(&rng, MAX_TILE_ROWS), n_keys = 1 + (int)rng_below(&rng, TILE_KEYS);
        fill_bf16(&rng, unused, q, sizeof q / 4);
        fill_cached(&rng, c);
        fill(&rng, before, sizeof before / 4);
        memcpy(got, before, sizeof got);
        rows_of(k, c->is_int8)->pack_queries(packed, scales, q, TILE_STRIDE, rows, width);
        struct row_scores b = {
            .packed_queries = packed, .query_scales = scales, .keys = c->rows, .key_scales = c->rows + TILE_WIDTH,
            .key_stride = cached_stride(c), .scores = got, .score_stride = TILE_KEYS, .n_rows = rows,
            .n_keys = n_keys, .width = width, .accumulate = width % 2,
        };
        rows_of(k, c->is_int8)->score(&b);
        for (int r = 0; r < MAX_TILE_ROWS; r++)
            for (int s = 0; s < TILE_KEYS; s++) {
                int at = r * TILE_KEYS + s;
                if (r >= rows || s >= n_keys) {         /* nothing but scores is written */
                    assert_memory_equal(&got[at], &before[at], 4);
                    continue;
                }
                double want = width % 2 ? (double)before[at] : 0, size = fabs(want), most_q = 0, keys = 0;
                for (int d = 0; d < width; d++) {
                    double x = (double)q[r * TILE_STRIDE + d], y = (double)c->values[s * TILE_STRIDE + d];
                    want += x * y;
                    size += fabs(x * y);
                    most_q = fmax(most_q, fabs(x));
                    keys += fabs(y);
                }
                check_sum(c, (double)got[at], want, size, most_q * keys);
            }
    }
    free(packed);
}

static void check_values(const struct kernels *k, struct cached *c)
{
    struct rng rng;
    rng_seed(&rng, 9);
    static float weights[MAX_TILE_ROWS * MAX_VALUE_KEYS];
    static float got[MAX_TILE_ROWS * TILE_STRIDE], start[MAX_TILE_ROWS * TILE_STRIDE];
    static uint16_t unused[MAX_TILE_ROWS * MAX_VALUE_KEYS];
    enum { FIRST = 20 };
    for (int width = 1; width <= TILE_WIDTH - FIRST; width++) {
        int rows = 1 + (int)rng_below(&rng, MAX_TILE_ROWS), n_keys = 1 + (int)rng_below(&rng, MAX_VALUE_KEYS);
        fill_bf16(&rng, unused, weights, sizeof weights / 4);
        fill_cached(&rng, c);
        fill(&rng, start, sizeof start / 4);
        memcpy(got, start, sizeof got);
        const char *of_key[MAX_VALUE_KEYS];
        for (int s = 0; s < n_keys; s++)
            of_key[s] = c->rows + (size_t)(s * 7 % n_keys) * cached_stride(c);
        struct row_values b = {
            .weights = weights, .weight_stride = MAX_VALUE_KEYS, .rows = of_key,
            .column = FIRST * (c->is_int8 ? 1 : 2), .scale_at = TILE_WIDTH, .sums = got, .sum_stride = TILE_STRIDE,
            .n_rows = rows, .n_keys = n_keys, .width = width,
        };
        rows_of(k, c->is_int8)->add_values(&b);
        for (int r = 0; r < rows; r++) {
            double most = 0;
            for (int s = 0; s < n_keys; s++)
                most = fmax(most, fabs((double)weights[r * MAX_VALUE_KEYS + s]));
            for (int d = 0; d < width; d++) {
                double want = 0, size = 0, values = 0;
                for (int s = 0; s < n_keys; s++) {
                    double v = (double)c->values[s * 7 % n_keys * TILE_STRIDE + FIRST + d];
                    double t = (double)weights[r * MAX_VALUE_KEYS + s] * v;
                    want += t;
                    size += fabs(t);
                    values += c->is_int8 ? 127 : fabs(v);      /* a weight is rounded with its key's scale in it */
                }
                check_sum(c, (double)got[r * TILE_STRIDE + d], want, size, most * values);
            }
            assert_memory_equal(got + r * TILE_STRIDE + width, start + r * TILE_STRIDE + width, 4);
        }
    }
}

static void cached_rows_table(const struct kernels *k)
{
    static struct cached c;
    for (c.is_int8 = 0; k->bf16_rows != NULL && c.is_int8 < 2; c.is_int8++) {
        check_scores(k, &c);
        check_values(k, &c);
    }
}

static void scores_and_values_of_cached_rows_are_plain_sums(void **state)
{
    (void)state;
    for_each_table(cached_rows_table);
}

/* What is not finite must not become a number. */
static void unfit_queries_table(const struct kernels *k)
{
    static struct cached c = { .is_int8 = 1 };
    struct rng rng;
    rng_seed(&rng, 10);
    if (k->int8_rows == NULL)
        return;
    fill_cached(&rng, &c);
    void *packed = malloc(packed_query_bytes(TILE_WIDTH));
    for (int i = 0; i < 2 * TILE_WIDTH; i++) {
        float q[TILE_WIDTH], scales[1], scores[16];
        fill(&rng, q, TILE_WIDTH);
        q[i / 2] = i % 2 ? INFINITY : NAN;
        k->int8_rows->pack_queries(packed, scales, q, TILE_WIDTH, 1, TILE_WIDTH);
        struct row_scores b = {
            .packed_queries = packed, .query_scales = scales, .keys = c.rows, .key_scales = c.rows + TILE_WIDTH,
            .key_stride = cached_stride(&c), .scores = scores, .score_stride = 16, .n_rows = 1, .n_keys = 16,
            .width = TILE_WIDTH,
        };
        k->int8_rows->score(&b);
        for (int s = 0; s < 16; s++)
            if (isfinite(scores[s]))
                fail_msg("query %d, score %d: %g", i, s, (double)scores[s]);
    }
    free(packed);
}

static void scores_of_queries_that_are_not_finite_are_not_finite(void **state)
{
    (void)state;
    for_each_table(unfit_queries_table);
}

static void softmax_table(const struct kernels *k)
{
    struct rng rng;
    rng_seed(&rng, 6);
    for (int n = 1; n <= MAX; n++) {
        float scores[MAX + 16], copy[MAX + 16], max, scale = 0.37f;
        fill(&rng, scores, MAX + 16);
        for (int i = 0; i < n; i++)
            scores[i] *= n % 3 == 0 ? 400.0f : 8.0f;
        memcpy(copy, scores, sizeof copy);
        float sum = k->softmax_part(scores, n, scale, &max);
        double want_max = -INFINITY, want_sum = 0;
        for (int i = 0; i < n; i++)
            want_max = fmax(want_max, (double)(copy[i] * scale));
        assert_near((double)max, want_max, fabs(want_max));
        for (int i = 0; i < n; i++) {
            double want = exp((double)(copy[i] * scale) - (double)max);
            assert_near((double)scores[i], want, want);
            want_sum += want;
        }
        assert_near((double)sum, want_sum, want_sum);
        for (int i = n; i < ((n + 15) & ~15); i++)
            assert_true(scores[i] == 0);
    }
}

static void softmax_part_is_exp_minus_max(void **state)
{
    (void)state;
    for_each_table(softmax_table);
}

/* ---- elementwise ---- */

static void elementwise_table(const struct kernels *k)
{
    struct rng rng;
    rng_seed(&rng, 7);
    for (int n = 1; n <= MAX; n++) {
        float x[MAX], y[MAX], out[MAX], weight[MAX];
        fill(&rng, x, MAX);
        fill(&rng, y, MAX);
        fill(&rng, weight, MAX);
        double squares = 0;
        for (int i = 0; i < n; i++)
            squares += (double)x[i] * (double)x[i];
        k->rms_norm(out, x, weight, n, 1e-6f, 1.5f);
        for (int i = 0; i < n; i++)
            assert_near((double)out[i],
                        (double)x[i] / sqrt(squares / n + 1e-6) * (double)weight[i] * 1.5, 1);
        float gate[MAX], sum[MAX];
        for (int i = 0; i < n; i++)
            gate[i] = x[i] * (n % 4 == 0 ? 200.0f : 6.0f);
        float gate_up[2 * MAX];
        for (int i = 0; i < MAX; i++) {
            gate_up[i / PANEL_WIDTH * 2 * PANEL_WIDTH + i % PANEL_WIDTH] = i < n ? gate[i] : 0;
            gate_up[(i / PANEL_WIDTH * 2 + 1) * PANEL_WIDTH + i % PANEL_WIDTH] = y[i];
        }
        out[n % MAX] = 77;
        k->silu_multiply(out, gate_up, n);
        assert_true(n == MAX || out[n] == 77);
        memcpy(sum, y, sizeof sum);
        k->sigmoid_multiply(sum, gate, n);
        for (int i = 0; i < n; i++) {
            double sigmoid = 1 / (1 + exp(-(double)gate[i]));
            assert_near((double)out[i], (double)gate[i] * sigmoid * (double)y[i], fabs((double)gate[i]));
            assert_near((double)sum[i], (double)y[i] * sigmoid, 1);
        }
        memcpy(sum, x, sizeof sum);
        k->add(sum, y, n);
        k->scale_add(sum, y, -0.5f, n);
        for (int i = 0; i < n; i++)
            assert_near((double)sum[i], (double)x[i] + 0.5 * (double)y[i], 1);
        k->blend(sum, x, 0.3f, y, -1.7f, n);
        k->blend(out, x, 1, y, 0, n);
        k->blend(out, out, 0.3f, y, -1.7f, n);
        for (int i = 0; i < n; i++)
            assert_near((double)sum[i], (double)0.3f * (double)x[i] - (double)1.7f * (double)y[i], 1);
        assert_memory_equal(sum, out, (size_t)n * 4);
    }
}

static void elementwise_kernels_are_their_formulas(void **state)
{
    (void)state;
    for_each_table(elementwise_table);
}

static void widen_table(const struct kernels *k)
{
    struct rng rng;
    rng_seed(&rng, 8);
    for (int n = 1; n <= MAX; n++) {
        uint16_t half[MAX];
        int8_t small[MAX];
        float out[MAX];
        for (int i = 0; i < n; i++) {
            half[i] = f32_to_bf16(random_float(&rng));
            small[i] = (int8_t)(int)(rng_below(&rng, 256) - 128);
        }
        k->widen_bf16(out, half, n);
        for (int i = 0; i < n; i++)
            assert_true(out[i] == bf16_to_f32(half[i]));
        k->widen_int8(out, small, 0.25f, n);
        for (int i = 0; i < n; i++)
            assert_true(out[i] == (float)small[i] * 0.25f);
    }
}

static void widening_is_exact(void **state)
{
    (void)state;
    for_each_table(widen_table);
}

static void an_unknown_table_is_refused(void **state)
{
    (void)state;
    assert_null(kernels_select("sse9"));
    assert_non_null(kernels_select(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_is_the_plain_sum),
        cmocka_unit_test(gemm_over_leaves_is_the_plain_sum),
        cmocka_unit_test(any_number_of_ranks_adds_to_the_same_bits),
        cmocka_unit_test(scores_are_dot_products),
        cmocka_unit_test(values_are_weighted_sums),
        cmocka_unit_test(scores_and_values_of_cached_rows_are_plain_sums),
        cmocka_unit_test(scores_of_queries_that_are_not_finite_are_not_finite),
        cmocka_unit_test(softmax_part_is_exp_minus_max),
        cmocka_unit_test(elementwise_kernels_are_their_formulas),
        cmocka_unit_test(widening_is_exact),
        cmocka_unit_test(an_unknown_table_is_refused),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
