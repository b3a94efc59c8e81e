#include "bench/bench_model.h"

#include "base/clock.h"
#include "base/rng.h"
#include "bench/bench_affinity.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { TOKENS_SEED = 7 };

struct bench_model {
    struct bench_model_options options;
    struct bench_affinity affinity;
    struct model *model;
    int32_t *tokens;            /* [max_rows] */
    int32_t *logit_rows;        /* [n_sequences] */
    int32_t *blocks;            /* [n_blocks], in order */
    int64_t n_blocks;
    int64_t blocks_each;        /* of a sequence, now */
    struct span *spans;         /* [n_sequences] */
    double n_parameters;        /* that a row is multiplied with, the head not counted */
};

/* ---- life ---- */

static enum status take_memory(struct bench_model *m, struct error *err)
{
    const struct bench_model_options *o = &m->options;
    size_t n = (size_t)o->n_sequences;
    m->tokens = calloc((size_t)o->max_rows, sizeof *m->tokens);
    m->logit_rows = calloc(n, sizeof *m->logit_rows);
    m->blocks = calloc((size_t)m->n_blocks, sizeof *m->blocks);
    m->spans = calloc(n, sizeof *m->spans);
    if (m->tokens == NULL || m->logit_rows == NULL || m->blocks == NULL || m->spans == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for %d sequences of %d positions", o->n_sequences, o->length);
    for (int64_t i = 0; i < m->n_blocks; i++)
        m->blocks[i] = (int32_t)i;
    return STATUS_OK;
}

static enum status count_parameters(struct bench_model *m, struct error *err)
{
    struct safetensors *set;
    TRY(safetensors_open(&set, m->options.dir, err));
    const struct model_config *c = model_config(m->model);
    double table = (double)c->vocab * c->hidden;
    m->n_parameters = (double)model_parameter_count(set) - (c->tied ? table : 2 * table);
    safetensors_close(set);
    return STATUS_OK;
}

int64_t bench_model_blocks(int length, int block_size)
{
    return (length + block_size - 1) / block_size;
}

void bench_model_aim(struct bench_model *m, int length)
{
    assert(length <= m->options.length);
    m->blocks_each = bench_model_blocks(length, m->options.block_size);
}

static enum status load(struct bench_model *m, struct error *err)
{
    const struct bench_model_options *o = &m->options;
    m->blocks_each = bench_model_blocks(o->length, o->block_size);
    m->n_blocks = o->n_blocks > 0 ? o->n_blocks : o->n_sequences * m->blocks_each;
    if (m->n_blocks > INT32_MAX)
        return fail(err, STATUS_BAD_OPTION, "%d sequences of %d positions are more than a cache can hold",
                    o->n_sequences, o->length);
    struct model_options options = {
        .n_ranks = o->n_ranks, .weight_type = o->weight_type, .cache_type = o->cache_type,
        .block_size = o->block_size, .mla_by_chunk = o->mla_by_chunk, .n_blocks = (int)m->n_blocks,
        .max_rows = o->max_rows, .max_logit_rows = o->n_sequences, .max_length = o->length,
        .kernels = o->kernels, .bind_ranks = 1,
    };
    TRY(model_load(&m->model, o->dir, &options, err));
    TRY(count_parameters(m, err));
    TRY(take_memory(m, err));
    struct rng rng;
    rng_seed(&rng, TOKENS_SEED);
    for (int i = 0; i < o->max_rows; i++)
        m->tokens[i] = (int32_t)rng_below(&rng, (uint64_t)model_config(m->model)->vocab);
    return STATUS_OK;
}

enum status bench_model_create(struct bench_model **out, const struct bench_model_options *options,
                               struct error *err)
{
    struct bench_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a benchmark");
    m->options = *options;
    bench_affinity_take(&m->affinity);
    enum status s = load(m, err);
    if (s != STATUS_OK) {
        bench_model_destroy(m);
        return s;
    }
    *out = m;
    return STATUS_OK;
}

void bench_model_destroy(struct bench_model *m)
{
    if (m == NULL)
        return;
    model_destroy(m->model);
    bench_affinity_restore(&m->affinity);
    free(m->tokens);
    free(m->logit_rows);
    free(m->blocks);
    free(m->spans);
    free(m);
}

struct model *bench_model_model(const struct bench_model *m)
{
    return m->model;
}

/* Every pair of bytes becomes a small bf16 number.  Two of them are a small f32
 * number, and four of them any int8 values or a small scale: all cache types get
 * what is finite, whatever lies where in a block. */
void bench_model_fill(struct bench_model *m, uint64_t seed)
{
    size_t n = model_block_bytes(m->model) / sizeof(uint16_t);
    uint16_t *block = malloc(n * sizeof *block);
    if (block == NULL)
        return;             /* zeros cost the same */
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t i = 0; i < n; i++)
        block[i] = f32_to_bf16((float)rng_uniform(&rng) - 0.5f);
    for (int32_t b = 0; b < m->n_blocks; b++)
        model_write_block(m->model, b, block);
    free(block);
}

/* ---- steps ---- */

enum status bench_model_run(struct bench_model *m, enum status (*lead)(void *context), void *context)
{
    return model_run(m->model, lead, context);
}

enum status bench_model_step(struct bench_model *m, const struct bench_step *step)
{
    assert(step->n_rows * step->n_sequences <= m->options.max_rows);
    assert(step->position + step->n_rows <= m->blocks_each * m->options.block_size);
    assert((step->first_sequence + step->n_sequences) * m->blocks_each <= m->n_blocks);
    for (int i = 0; i < step->n_sequences; i++) {
        size_t sequence = (size_t)(step->first_sequence + i);
        m->spans[i] = (struct span){
            .first_row = i * step->n_rows, .n_rows = step->n_rows, .first_position = step->position,
            .length = step->position + step->n_rows, .causal = 1,
            .blocks = m->blocks + sequence * (size_t)m->blocks_each,
        };
        m->logit_rows[i] = (i + 1) * step->n_rows - 1;
    }
    struct batch batch = {
        .spans = m->spans, .n_spans = step->n_sequences, .tokens = m->tokens,
        .n_rows = step->n_rows * step->n_sequences,
        .logit_rows = m->logit_rows, .n_logit_rows = step->n_sequences,
    };
    return model_step(m->model, &batch);
}

/* ---- time ---- */

static int64_t busy_ns(const struct bench_model *m, int rank)
{
    struct device_report report;
    model_device_report(m->model, rank, &report);
    return report.busy_ns;
}

void bench_timer_start(struct bench_timer *timer, const struct bench_model *m)
{
    assert(m->options.n_ranks <= BENCH_MAX_RANKS);
    for (int rank = 0; rank < m->options.n_ranks; rank++)
        timer->busy_ns[rank] = busy_ns(m, rank);
    timer->wall_ns = clock_now_ns();
}

void bench_timer_stop(const struct bench_timer *timer, const struct bench_model *m, double *wall_s, double *busy_s)
{
    *wall_s = (double)(clock_now_ns() - timer->wall_ns) / 1e9;
    *busy_s = 0;
    for (int rank = 0; rank < m->options.n_ranks; rank++)
        *busy_s = fmax(*busy_s, (double)(busy_ns(m, rank) - timer->busy_ns[rank]) / 1e9);
}

/* ---- cost ---- */

static double multiply_adds(const struct bench_model *m)
{
    double n = 0;
    for (int rank = 0; rank < m->options.n_ranks; rank++) {
        struct device_report report;
        model_device_report(m->model, rank, &report);
        n += (double)report.multiply_adds;
    }
    return n;
}

/* A row at position 1 differs from one at position 0 by one cached row. */
static enum status attend_macs(struct bench_model *m, double *out)
{
    double counted[3];
    counted[0] = multiply_adds(m);
    for (int position = 0; position < 2; position++) {
        TRY(bench_model_step(m, &(struct bench_step){ .n_sequences = 1, .position = position, .n_rows = 1 }));
        counted[position + 1] = multiply_adds(m);
    }
    *out = (counted[2] - counted[1]) - (counted[1] - counted[0]);
    return STATUS_OK;
}

/* Of attention over rows that are widened first, f32's. */
static void find_attend_peak(const struct bench_model *m, struct bench_cost *out)
{
    enum cache_type type = m->options.cache_type;
    int decompresses = model_config(m->model)->attention.rope == ROPE_DECOMPRESSED;
    int as_cached = attend_row_kernels(kernels_select(m->options.kernels), type, decompresses) != NULL;
    out->attend_peak = !as_cached ? PEAK_F32 : type == CACHE_INT8 ? PEAK_INT8 : PEAK_BF16;
    out->attend_products = out->attend_peak == PEAK_INT8 ? 2 : 1;
}

enum status bench_model_cost(struct bench_model *m, struct bench_cost *out)
{
    const struct model_config *c = model_config(m->model);
    *out = (struct bench_cost){
        .row_macs = m->n_parameters, .logit_row_macs = (double)c->vocab * c->hidden,
    };
    find_attend_peak(m, out);
    for (int rank = 0; rank < m->options.n_ranks; rank++) {
        struct device_report report;
        model_device_report(m->model, rank, &report);
        out->step_bytes += (double)report.weight_bytes;
        out->cached_bytes += (double)report.cache_bytes_per_token;
    }
    return attend_macs(m, &out->cached_row_macs);
}

void bench_work_add(struct bench_work *work, const struct bench_step *step)
{
    double n = step->n_sequences, rows = step->n_rows, last = step->position + step->n_rows;
    work->steps += 1;
    work->rows += n * rows;
    work->logit_rows += n;
    work->cached_rows += n * (rows * step->position + rows * (rows + 1) / 2);
    work->streamed_rows += n * last;
}

double bench_work_bytes(const struct bench_work *work, const struct bench_cost *cost)
{
    return work->steps * cost->step_bytes + work->streamed_rows * cost->cached_bytes;
}

double bench_work_macs(const struct bench_work *work, const struct bench_cost *cost)
{
    return work->rows * cost->row_macs + work->logit_rows * cost->logit_row_macs
         + work->cached_rows * cost->cached_row_macs;
}

double bench_work_least_time(const struct bench_work *work, const struct bench_cost *cost,
                             const struct bench_limits *limits, int weight_type)
{
    enum peak_kind kind = weight_type == WEIGHT_F32 ? PEAK_F32 : weight_type == WEIGHT_BF16 ? PEAK_BF16 : PEAK_INT8;
    double attend = work->cached_rows * cost->cached_row_macs;
    double arithmetic = (bench_work_macs(work, cost) - attend) / limits->peak[kind]
                      + attend * cost->attend_products / limits->peak[cost->attend_peak];
    return fmax(arithmetic, bench_work_bytes(work, cost) / limits->read);
}
