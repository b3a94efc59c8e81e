/* test_linear - every weight type against a plain double sum; any ranks and rows give the same bits. */
#include "attention/linear.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const tables[] = { "ref", "avx2", "avx512", "avx512bf16", "amx" };

struct layer {
    int inputs, outputs;
    float *w;                   /* [outputs][inputs] */
    struct arena arena;
};

static float random_float(struct rng *rng)
{
    return (float)(rng_uniform(rng) * 2 - 1);
}

static void open_layer(struct layer *l, struct rng *rng, int inputs, int outputs)
{
    *l = (struct layer){ .inputs = inputs, .outputs = outputs };
    l->w = malloc((size_t)inputs * (size_t)outputs * sizeof *l->w);
    for (int i = 0; i < inputs * outputs; i++)
        l->w[i] = random_float(rng) * (i % 97 == 0 ? 4 : 1);
    arena_init(&l->arena);
}

static void close_layer(struct layer *l)
{
    free(l->w);
    arena_clear(&l->arena);
}

static struct matrix view(const struct layer *l)
{
    return (struct matrix){ l->w, ELEMENT_F32, l->outputs, l->inputs, l->inputs, 1 };
}

/* Half a step of the type's rounding, for the weights and the inputs of one
 * output: what the sum may be off by, with each term's error at its largest. */
static double allowed_error(const struct layer *l, const float *x, int output, const struct linear *linear, int bf16_in)
{
    double error = 0;
    enum weight_type type = linear->type;
    int group = linear->group > 0 ? linear->group : 1;
    for (int first = 0; first < l->inputs; first += group) {
        int n = l->inputs - first < group ? l->inputs - first : group;
        double most_w = 0, most_x = 0;
        for (int i = first; i < first + n; i++) {
            most_w = fmax(most_w, fabs((double)l->w[output * l->inputs + i]));
            most_x = fmax(most_x, fabs((double)x[i]));
        }
        for (int i = first; i < first + n; i++) {
            double w = fabs((double)l->w[output * l->inputs + i]), xi = fabs((double)x[i]);
            double dw = type == WEIGHT_F32 ? 0 : type == WEIGHT_BF16 ? w / 256
                      : type == WEIGHT_INT8 ? most_w / 127 * 0.6 : most_w / 8 * 0.6 + most_w / 8;
            double dx = type >= WEIGHT_INT8 ? most_x / 127 * 0.51 : bf16_in ? xi / 256 : 0;
            error += dw * xi + dx * (w + dw) + 1e-6 * w * xi;
        }
    }
    return error + 1e-6;
}

static void check_type(const struct kernels *k, enum weight_type type, int inputs, int outputs, int rows)
{
    struct rng rng;
    rng_seed(&rng, (uint64_t)(inputs * 131 + outputs * 7 + (int)type));
    struct layer l;
    open_layer(&l, &rng, inputs, outputs);
    struct matrix m = view(&l);
    struct linear_spec spec = { .type = type, .rows = &m, .n_parts = 1, .kernels = k };
    struct linear linear;
    assert_int_equal(linear_create(&linear, &spec, &l.arena, NULL), STATUS_OK);
    float *x = malloc((size_t)(rows * (inputs + 3)) * 4), *y = malloc((size_t)(rows * (outputs + 5)) * 4);
    float *alone = malloc((size_t)outputs * 4);
    for (int i = 0; i < rows * (inputs + 3); i++)
        x[i] = random_float(&rng);
    linear_apply(&linear, k, x, (size_t)inputs + 3, rows, y, (size_t)outputs + 5, 0);
    for (int r = 0; r < rows; r++) {
        for (int o = 0; o < outputs; o++) {
            double want = 0;
            for (int i = 0; i < inputs; i++)
                want += (double)l.w[o * inputs + i] * (double)x[r * (inputs + 3) + i];
            double error = fabs((double)y[r * (outputs + 5) + o] - want);
            double limit = allowed_error(&l, x + r * (inputs + 3), o, &linear, k->bf16_unit > 0);
            if (!(error <= limit))
                fail_msg("%s %s %dx%d row %d output %d: off by %g, allowed %g", k->name, weight_type_name(type),
                         inputs, outputs, r, o, error, limit);
        }
        linear_apply(&linear, k, x + r * (inputs + 3), 0, 1, alone, 0, 0);
        assert_memory_equal(alone, y + r * (outputs + 5), (size_t)outputs * 4);
    }
    free(x);
    free(y);
    free(alone);
    close_layer(&l);
}

static void every_type_is_the_plain_sum_within_its_rounding(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        const struct kernels *k = kernels_select(tables[t]);
        for (int type = WEIGHT_F32; k != NULL && type <= (int)WEIGHT_INT4; type++) {
            for (int inputs = 1; inputs <= 70; inputs++)
                check_type(k, (enum weight_type)type, inputs, 1 + inputs * 5 % 40, 1 + inputs % 9);
            check_type(k, (enum weight_type)type, 512, 130, 20);
            check_type(k, (enum weight_type)type, 384, 50, 33);
            check_type(k, (enum weight_type)type, 1100, 500, 70);      /* too large to stay in a cache */
            for (int rows = 15; rows <= 80; rows += rows < 18 ? 1 : 15)
                check_type(k, (enum weight_type)type, 200, 90, rows);
        }
    }
}

/* gate and up apart, then the formula. */
static void check_gated(const struct kernels *k, enum weight_type type, int inputs, int outputs, int rows)
{
    struct rng rng;
    rng_seed(&rng, (uint64_t)(inputs + outputs));
    struct layer part[2];
    struct matrix rows_of[2];
    struct linear gated, apart[2];
    for (int p = 0; p < 2; p++) {
        open_layer(&part[p], &rng, inputs, outputs);
        rows_of[p] = view(&part[p]);
        struct linear_spec spec = { .type = type, .rows = &rows_of[p], .n_parts = 1, .kernels = k };
        assert_int_equal(linear_create(&apart[p], &spec, &part[p].arena, NULL), STATUS_OK);
    }
    struct linear_scratch scratch;
    assert_int_equal(linear_scratch_create(&scratch, rows, inputs, &part[0].arena, NULL), STATUS_OK);
    struct linear_spec spec = {
        .type = type, .rows = rows_of, .n_parts = 2, .gated = 1, .kernels = k, .scratch = &scratch,
    };
    assert_int_equal(linear_create(&gated, &spec, &part[0].arena, NULL), STATUS_OK);
    assert_int_equal(gated.n_gated, outputs);
    /* Where the width allows it rows are aligned, so that outputs may go past the caches. */
    size_t stride = outputs % 16 == 0 ? (size_t)outputs : (size_t)outputs + 3, n = (size_t)rows * stride;
    float *x = malloc((size_t)(rows * inputs) * 4), *between = malloc(GATED_FLOATS * 4);
    float *y = aligned_alloc(64, (n * 4 + 63) / 64 * 64), *gate = malloc(n * 4), *up = malloc(n * 4);
    for (int i = 0; i < rows * inputs; i++)
        x[i] = random_float(&rng);
    for (size_t i = 0; i < n; i++)
        y[i] = 77;
    linear_apply(&apart[0], k, x, (size_t)inputs, rows, gate, stride, 0);
    linear_apply(&apart[1], k, x, (size_t)inputs, rows, up, stride, 0);
    linear_apply_gated(&gated, k, x, (size_t)inputs, rows, between, y, stride);
    for (size_t i = 0; i < n; i++) {
        if (i % stride >= (size_t)outputs) {
            assert_true(y[i] == 77);
            continue;
        }
        double want = (double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i];
        assert_true(fabs((double)y[i] - want) <= 1e-6 * (1 + fabs(want)));
    }
    memcpy(gate, y, n * 4);
    for (int r = 0; r < rows; r++) {
        linear_apply_gated(&gated, k, x + (size_t)r * (size_t)inputs, 0, 1, between, up, stride);
        assert_memory_equal(up, gate + (size_t)r * stride, (size_t)outputs * 4);
    }
    free(x);
    free(between);
    free(y);
    free(gate);
    free(up);
    close_layer(&part[0]);
    close_layer(&part[1]);
}

static void gated_is_silu_of_the_gate_times_up(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        const struct kernels *k = kernels_select(tables[t]);
        for (int type = WEIGHT_F32; k != NULL && type <= (int)WEIGHT_INT4; type++) {
            for (int outputs = 1; outputs <= 50; outputs += 7)
                check_gated(k, (enum weight_type)type, 40 + outputs, outputs, 1 + outputs % 19);
            check_gated(k, (enum weight_type)type, 64, 850, 70);        /* panels in several parts */
            check_gated(k, (enum weight_type)type, 6000, 20, 70);       /* rows in several */
            check_gated(k, (enum weight_type)type, 70, 50, 33);         /* one more than a block of tiles */
            check_gated(k, (enum weight_type)type, 70, 912, 300);       /* too much for the caches */
        }
    }
}

/* int8 sums are exact, so every table agrees but for the order of float rounding. */
static void int8_agrees_between_tables(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 77);
    struct layer l;
    open_layer(&l, &rng, 320, 50);
    float x[320], first[50], y[50];
    for (int i = 0; i < 320; i++)
        x[i] = random_float(&rng);
    int n = 0;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        const struct kernels *k = kernels_select(tables[t]);
        if (k == NULL)
            continue;
        struct matrix m = view(&l);
        struct linear_spec spec = { .type = WEIGHT_INT8, .rows = &m, .n_parts = 1, .kernels = k };
        struct linear linear;
        assert_int_equal(linear_create(&linear, &spec, &l.arena, NULL), STATUS_OK);
        linear_apply(&linear, k, x, 0, 1, y, 0, 0);
        for (int o = 0; o < 50 && n > 0; o++)
            assert_true(fabsf(y[o] - first[o]) <= 4e-6f * (1 + fabsf(first[o])));
        if (n++ == 0)
            memcpy(first, y, sizeof y);
    }
    close_layer(&l);
}

/* All weights and inputs at the ends of their ranges, the sums of products of bytes as large as
 * they get: +-127 by +-127 of int8, -8 or 7 by +-127 of int4.  All of it is exact but for the scales. */
static void the_largest_sums_are_whole(void **state)
{
    (void)state;
    enum { INPUTS = 256, OUTPUTS = 20, ROWS = 7 };
    struct layer l;
    struct rng rng;
    rng_seed(&rng, 5);
    open_layer(&l, &rng, INPUTS, OUTPUTS);
    float x[ROWS * INPUTS], y[ROWS * OUTPUTS];
    for (int type = WEIGHT_INT8; type <= (int)WEIGHT_INT4; type++) {
        /* The first weight that shares a factor of int4 takes the step that only negative ones have. */
        float rest = type == WEIGHT_INT4 ? 7.0f / 8 : 1;
        for (int o = 0; o < OUTPUTS; o++)
            for (int i = 0; i < INPUTS; i++)
                l.w[o * INPUTS + i] = i % INT4_SHARE == 0 ? -1 : rest * (float)(o % 2 == 0 || i % 2 != 0 ? 1 : -1);
        for (int i = 0; i < ROWS * INPUTS; i++)
            x[i] = i / INPUTS % 2 == 0 ? 1 : -1;
        for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
            const struct kernels *k = kernels_select(tables[t]);
            if (k == NULL)
                continue;
            struct matrix m = view(&l);
            struct linear_spec spec = { .type = (enum weight_type)type, .rows = &m, .n_parts = 1, .kernels = k };
            struct linear linear;
            assert_int_equal(linear_create(&linear, &spec, &l.arena, NULL), STATUS_OK);
            linear_apply(&linear, k, x, INPUTS, ROWS, y, OUTPUTS, 0);
            for (int at = 0; at < ROWS * OUTPUTS; at++) {
                double want = 0, size = 0;
                for (int i = 0; i < INPUTS; i++) {
                    want += (double)l.w[at % OUTPUTS * INPUTS + i] * (double)x[at / OUTPUTS * INPUTS + i];
                    size += fabs((double)l.w[at % OUTPUTS * INPUTS + i]);
                }
                /* A scale is bf16. */
                if (!(fabs((double)y[at] - want) <= size / 256))
                    fail_msg("%s %s output %d: %g, not %g", k->name, weight_type_name((enum weight_type)type),
                             at % OUTPUTS, (double)y[at], want);
            }
        }
    }
    close_layer(&l);
}

/* A single input of 1 gives back a column of the weights as they are stored. */
static void quantised_weights_lose_what_their_bits_cost(void **state)
{
    enum { INPUTS = 512, OUTPUTS = 40 };
    (void)state;
    struct rng rng;
    rng_seed(&rng, 6);
    struct layer l;
    open_layer(&l, &rng, INPUTS, OUTPUTS);
    for (int i = 0; i < INPUTS * OUTPUTS; i++) {    /* nearly normal, and groups of different sizes */
        float sum = 0;
        for (int k = 0; k < 12; k++)
            sum += (float)rng_uniform(&rng) - 0.5f;
        l.w[i] = sum * (float)(1 + i / 32 % 5);
    }
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        const struct kernels *k = kernels_select(tables[t]);
        for (int type = WEIGHT_INT8; k != NULL && type <= (int)WEIGHT_INT4; type++) {
            struct matrix m = view(&l);
            struct linear_spec spec = { .type = (enum weight_type)type, .rows = &m, .n_parts = 1, .kernels = k };
            struct linear linear;
            assert_int_equal(linear_create(&linear, &spec, &l.arena, NULL), STATUS_OK);
            double lost = 0, all = 0;
            for (int i = 0; i < INPUTS; i++) {
                float x[INPUTS] = { 0 }, y[OUTPUTS];
                x[i] = 1;
                linear_apply(&linear, k, x, 0, 1, y, 0, 0);
                for (int o = 0; o < OUTPUTS; o++) {
                    double w = (double)l.w[o * INPUTS + i];
                    lost += ((double)y[o] - w) * ((double)y[o] - w);
                    all += w * w;
                }
            }
            double limit = type == WEIGHT_INT8 ? 0.01 : 0.1;
            if (!(sqrt(lost / all) <= limit))
                fail_msg("%s %s loses %g", k->name, weight_type_name(linear.type), sqrt(lost / all));
        }
    }
    close_layer(&l);
}

/* Row-parallel over ranks: nodes of all ranks, added as planned, are one rank's. */
static void check_split(const struct kernels *k, enum weight_type type, int inputs, int n_leaves)
{
    enum { OUTPUTS = 37, ROWS = 35 };
    struct rng rng;
    rng_seed(&rng, (uint64_t)inputs);
    struct layer l;
    open_layer(&l, &rng, inputs, OUTPUTS);
    float *x = malloc((size_t)(ROWS * inputs) * 4);
    for (int i = 0; i < ROWS * inputs; i++)
        x[i] = random_float(&rng);
    float whole[ROWS * OUTPUTS];
    for (int n_ranks = 1; n_ranks <= n_leaves && n_ranks <= 8; n_ranks++) {
        static float nodes[8][REDUCE_MAX_NODES][ROWS * OUTPUTS];
        int begin[REDUCE_MAX_LEAVES + 1];
        for (int r = 0; r <= n_ranks; r++)
            begin[r] = n_leaves * r / n_ranks;
        for (int r = 0; r < n_ranks; r++) {
            int first = linear_leaf_column(inputs, n_leaves, begin[r]);
            int n = linear_leaf_column(inputs, n_leaves, begin[r + 1]) - first;
            struct matrix m = matrix_columns(view(&l), first, n);
            struct linear_spec spec = {
                .type = type, .rows = &m, .n_parts = 1, .n_leaves = n_leaves, .leaf_begin = begin[r],
                .leaf_end = begin[r + 1], .total_inputs = inputs, .kernels = k,
            };
            struct linear linear;
            assert_int_equal(linear_create(&linear, &spec, &l.arena, NULL), STATUS_OK);
            linear_apply(&linear, k, x + first, (size_t)inputs, ROWS, nodes[r][0], OUTPUTS, ROWS * OUTPUTS);
        }
        struct reduce_plan plan;
        reduce_plan_init(&plan, n_leaves, n_ranks, begin);
        for (int e = 0; e < ROWS * OUTPUTS; e++) {
            float stack[REDUCE_MAX_DEPTH + 1];
            int top = 0;
            for (int i = 0; i < plan.n_steps; i++) {
                stack[top++] = nodes[plan.steps[i].part][plan.steps[i].node][e];
                for (int m = 0; m < plan.steps[i].n_merges; m++, top--)
                    stack[top - 2] += stack[top - 1];
            }
            if (n_ranks == 1)
                whole[e] = stack[0];
            assert_memory_equal(&stack[0], &whole[e], 4);
        }
    }
    free(x);
    close_layer(&l);
}

static void any_ranks_add_up_to_the_same_bits(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        const struct kernels *k = kernels_select(tables[t]);
        for (int type = WEIGHT_F32; k != NULL && type <= (int)WEIGHT_INT4; type++) {
            check_split(k, (enum weight_type)type, 16 * 40, 16);
            check_split(k, (enum weight_type)type, 12 * 24, 12);
            check_split(k, (enum weight_type)type, 1001, 16);
            check_split(k, (enum weight_type)type, 8 * 256, 8);         /* int8: groups of 256 */
        }
    }
}

/* Leaves [begin, end) of 16 of a layer that no cache holds, many rows and each alone. */
static void check_passing(const struct kernels *k, enum weight_type type, int begin, int end, int rows, int outputs)
{
    enum { LEAVES = 16, INPUTS = LEAVES * 88 };
    struct rng rng;
    rng_seed(&rng, 11);
    struct layer l;
    open_layer(&l, &rng, INPUTS, outputs);
    struct linear_scratch scratch;
    assert_int_equal(linear_scratch_create(&scratch, rows, INPUTS, &l.arena, NULL), STATUS_OK);
    int first = linear_leaf_column(INPUTS, LEAVES, begin);
    struct matrix m = matrix_columns(view(&l), first, linear_leaf_column(INPUTS, LEAVES, end) - first);
    struct linear_spec spec = {
        .type = type, .rows = &m, .n_parts = 1, .n_leaves = LEAVES, .leaf_begin = begin, .leaf_end = end,
        .total_inputs = INPUTS, .kernels = k, .scratch = &scratch,
    };
    struct linear linear;
    assert_int_equal(linear_create(&linear, &spec, &l.arena, NULL), STATUS_OK);
    /* Aligned rows, so that outputs may go past the caches; what lies between them is not theirs. */
    size_t stride = ((size_t)outputs + 15) / 16 * 16, node = (size_t)rows * stride, n_nodes = (size_t)linear.part.n_nodes;
    float *x = malloc((size_t)(rows * INPUTS) * 4), *y = aligned_alloc(64, n_nodes * node * 4);
    float *alone = malloc(n_nodes * (size_t)outputs * 4);
    for (int i = 0; i < rows * INPUTS; i++)
        x[i] = random_float(&rng);
    for (size_t i = 0; i < n_nodes * node; i++)
        y[i] = -1;
    linear_apply(&linear, k, x, INPUTS, rows, y, stride, node);
    for (int r = 0; r < rows; r++) {
        linear_apply(&linear, k, x + (size_t)r * INPUTS, 0, 1, alone, 0, (size_t)outputs);
        for (size_t n = 0; n < n_nodes; n++) {
            const float *row = y + n * node + (size_t)r * stride;
            assert_memory_equal(alone + n * (size_t)outputs, row, (size_t)outputs * 4);
            for (size_t o = (size_t)outputs; o < stride; o++)
                assert_true(row[o] == -1);
        }
    }
    free(x);
    free(y);
    free(alone);
    close_layer(&l);
}

static void leaves_of_rows_that_pass_together_are_those_of_a_row_alone(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        const struct kernels *k = kernels_select(tables[t]);
        for (int type = WEIGHT_F32; k != NULL && type <= (int)WEIGHT_INT4; type++) {
            check_passing(k, (enum weight_type)type, 0, 16, 70, 490);
            check_passing(k, (enum weight_type)type, 3, 16, 40, 490);
        }
        for (int type = WEIGHT_BF16; k != NULL && k->row_unit > 1 && type <= (int)WEIGHT_INT4; type++) {
            check_passing(k, (enum weight_type)type, 1, 16, 290, 490);      /* more than pass together */
            check_passing(k, (enum weight_type)type, 0, 16, 290, 1050);     /* whose outputs go past the caches */
            check_passing(k, (enum weight_type)type, 0, 16, 290, 1056);     /* the last as well */
        }
    }
}

/* What is not finite must not become a number on its way through whole numbers. */
static void outputs_of_inputs_that_are_not_finite_are_not_finite(void **state)
{
    enum { INPUTS = 300, OUTPUTS = 20, ROWS = 18 };
    (void)state;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        const struct kernels *k = kernels_select(tables[t]);
        for (int type = WEIGHT_F32; k != NULL && type <= (int)WEIGHT_INT4; type++) {
            struct rng rng;
            rng_seed(&rng, 12);
            struct layer l;
            open_layer(&l, &rng, INPUTS, OUTPUTS);
            struct matrix m = view(&l);
            struct linear_spec spec = { .type = (enum weight_type)type, .rows = &m, .n_parts = 1, .kernels = k };
            struct linear linear;
            assert_int_equal(linear_create(&linear, &spec, &l.arena, NULL), STATUS_OK);
            static float x[ROWS * INPUTS], y[ROWS * OUTPUTS];
            for (int i = 0; i < ROWS * INPUTS; i++)
                x[i] = random_float(&rng);
            for (int r = 0; r < ROWS; r += 2)
                x[r * INPUTS + r * 16] = r % 4 ? INFINITY : NAN;
            linear_apply(&linear, k, x, INPUTS, ROWS, y, OUTPUTS, 0);
            for (int i = 0; i < ROWS * OUTPUTS; i++)
                if (!isfinite(y[i]) != (i / OUTPUTS % 2 == 0))
                    fail_msg("%s %s row %d: %g", k->name, weight_type_name(linear.type), i / OUTPUTS, (double)y[i]);
            close_layer(&l);
        }
    }
}

static void bitlinear_is_exact(void **state)
{
    (void)state;
    const struct kernels *k = kernels_select(NULL);
    struct rng rng;
    rng_seed(&rng, 5);
    struct layer l;
    open_layer(&l, &rng, 48, 20);
    struct matrix m = view(&l);
    float row[48], x[48], quantised[48], y[20];
    double mean = linear_mean_magnitude(&m, row);
    for (int type = WEIGHT_F32; type <= (int)WEIGHT_INT4; type++) {
        struct linear_spec spec = {
            .type = (enum weight_type)type, .rows = &m, .n_parts = 1, .kernels = k, .ternary = 1, .ternary_mean = mean,
        };
        struct linear linear;
        assert_int_equal(linear_create(&linear, &spec, &l.arena, NULL), STATUS_OK);
        for (int i = 0; i < 48; i++)
            x[i] = random_float(&rng) * 3;
        linear_apply_bit(&linear, k, x, 48, 1, y, 20, row);
        float scale = linear_quantise_input(x, 48, quantised);
        for (int o = 0; o < 20; o++) {
            double sum = 0;
            for (int i = 0; i < 48; i++) {
                double t = nearbyint((double)l.w[o * 48 + i] / mean);
                sum += (double)quantised[i] * (t > 1 ? 1 : t < -1 ? -1 : t);
            }
            assert_true(fabs((double)y[o] - sum * (double)scale * mean) <= 1e-5);
        }
    }
    close_layer(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_the_plain_sum_within_its_rounding),
        cmocka_unit_test(gated_is_silu_of_the_gate_times_up),
        cmocka_unit_test(int8_agrees_between_tables),
        cmocka_unit_test(the_largest_sums_are_whole),
        cmocka_unit_test(quantised_weights_lose_what_their_bits_cost),
        cmocka_unit_test(any_ranks_add_up_to_the_same_bits),
        cmocka_unit_test(leaves_of_rows_that_pass_together_are_those_of_a_row_alone),
        cmocka_unit_test(outputs_of_inputs_that_are_not_finite_are_not_finite),
        cmocka_unit_test(bitlinear_is_exact),
    };
    return cmocka_run_group_tests_name("linear", tests, NULL, NULL);
}
