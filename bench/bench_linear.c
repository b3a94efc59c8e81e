#include "bench/bench_kernel.h"

#include "base/clock.h"
#include "base/rng.h"

#include <stdlib.h>

enum { STREAM_BYTES = 192 << 20, MAX_LINEARS = 4096 };

struct linears {
    const struct bench_linear_spec *spec;
    struct arena arena;
    struct linear_scratch scratch;
    struct linear *all;             /* [n] */
    int n;
    float *x, *y;                   /* [max_rows][inputs], [max_rows][outputs] */
};

static int most_rows(const struct bench_linear_spec *spec)
{
    int most = 1;
    for (int i = 0; i < spec->rows->n; i++)
        most = spec->rows->at[i] > most ? (int)spec->rows->at[i] : most;
    return most;
}

static void fill(float *x, size_t n, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rng_uniform(&rng) - 0.5f;
}

/* All rows of all matrices are one row of the source: what is packed from it is
 * memory of its own. */
static enum status create_linears(struct linears *l, struct error *err)
{
    const struct bench_linear_spec *spec = l->spec;
    size_t max_rows = (size_t)most_rows(spec);
    double bytes = (double)spec->inputs * spec->outputs * weight_type_bits(spec->type) / 8;
    double wanted = STREAM_BYTES / bytes;
    l->n = wanted < 1 ? 1 : wanted > MAX_LINEARS ? MAX_LINEARS : (int)wanted;
    TRY(ARENA_ARRAY(&l->arena, (size_t)l->n, &l->all, err));
    TRY(ARENA_ARRAY(&l->arena, max_rows * (size_t)spec->inputs, &l->x, err));
    TRY(ARENA_ARRAY(&l->arena, max_rows * (size_t)spec->outputs, &l->y, err));
    TRY(linear_scratch_create(&l->scratch, (int)max_rows, spec->inputs, &l->arena, err));
    fill(l->x, max_rows * (size_t)spec->inputs, 1);
    struct matrix rows = {
        .data = l->x, .type = ELEMENT_F32, .n_rows = spec->outputs, .n_columns = spec->inputs,
        .row_stride = 0, .column_stride = 1,
    };
    struct linear_spec one = {
        .type = spec->type, .rows = &rows, .n_parts = 1, .kernels = spec->kernels, .scratch = &l->scratch,
    };
    for (int i = 0; i < l->n; i++)
        TRY(linear_create(&l->all[i], &one, &l->arena, err));
    return STATUS_OK;
}

static double sample(const struct linears *l, int n_rows)
{
    int64_t start = clock_thread_cpu_ns();
    for (int i = 0; i < l->n; i++)
        linear_apply(&l->all[i], l->spec->kernels, l->x, (size_t)l->spec->inputs, n_rows, l->y,
                     (size_t)l->spec->outputs, 0);
    return (double)(clock_thread_cpu_ns() - start) / 1e9 / l->n;
}

static void run_rows(const struct linears *l, int n_rows)
{
    const struct bench_linear_spec *spec = l->spec;
    char name[32], shape[64];
    snprintf(name, sizeof name, "linear %s", weight_type_name(spec->type));
    snprintf(shape, sizeof shape, "%d x %d x %d", n_rows, spec->inputs, spec->outputs);
    struct load_series seconds;
    load_series_init(&seconds, (size_t)spec->repetitions);
    sample(l, n_rows);
    for (int i = 0; i < spec->repetitions; i++)
        load_series_push(&seconds, sample(l, n_rows));
    struct bench_kernel_result result = {
        .name = name, .shape = shape, .from_memory = 1, .seconds = &seconds,
        .bytes = (double)linear_bytes(&l->all[0]), .macs = (double)n_rows * spec->inputs * spec->outputs,
        .kind = spec->type == WEIGHT_F32 ? PEAK_F32 : spec->type == WEIGHT_BF16 ? PEAK_BF16 : PEAK_INT8,
    };
    spec->on_result(spec->context, &result);
    load_series_clear(&seconds);
}

enum status bench_linear_run(const struct bench_linear_spec *spec, struct error *err)
{
    struct linears l = { .spec = spec };
    arena_init(&l.arena);
    enum status s = create_linears(&l, err);
    for (int i = 0; i < spec->rows->n && s == STATUS_OK; i++)
        run_rows(&l, (int)spec->rows->at[i]);
    arena_clear(&l.arena);
    return s;
}
