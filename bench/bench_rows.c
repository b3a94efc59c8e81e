#include "bench/bench_kernel.h"

#include "base/clock.h"
#include "base/rng.h"

#include <string.h>

/* A latent row of 512 with a rope key of 64, 16 heads, a block of 32 keys, or of
 * bf16 rows a chunk; vectors of 2048.  All of it together is 500 KiB. */
enum {
    ROWS = 16, KEYS = 32, CHUNK = MAX_VALUE_KEYS, KEY_WIDTH = 576, VALUE_WIDTH = 512, VECTOR = 2048,
    SAMPLE_NS = 2000000,
};

struct rows {
    const struct bench_rows_spec *spec;
    const struct kernels *k;
    enum peak_kind kind;            /* of the case that runs */
    float *queries, *keys, *weights, *sums, *a, *b, *c, *query_scales;
    uint16_t *halves;
    char *chunk, *packed_queries;
    int8_t *bytes;
    float sink;
};

static void run_score(struct rows *r)
{
    struct score_block b = {
        .queries = r->queries, .query_stride = KEY_WIDTH, .keys = r->keys, .key_stride = KEY_WIDTH,
        .scores = r->weights, .score_stride = KEYS, .n_rows = ROWS, .n_keys = KEYS, .width = KEY_WIDTH,
    };
    r->k->score(&b);
}

static void run_values(struct rows *r)
{
    struct value_block b = {
        .weights = r->weights, .weight_stride = KEYS, .values = r->keys, .value_stride = KEY_WIDTH,
        .sums = r->sums, .sum_stride = VALUE_WIDTH, .n_rows = ROWS, .n_keys = KEYS, .width = VALUE_WIDTH,
    };
    r->k->add_values(&b);
}

/* Cached rows; those of int8 carry the scales of their two segments. */
static size_t row_bytes(enum peak_kind kind)
{
    return kind == PEAK_INT8 ? KEY_WIDTH + 2 * sizeof(float) : KEY_WIDTH * sizeof(uint16_t);
}

static const struct row_kernels *cached_rows(const struct rows *r)
{
    return r->kind == PEAK_INT8 ? r->k->int8_rows : r->k->bf16_rows;
}

static void run_pack_queries(struct rows *r)
{
    cached_rows(r)->pack_queries(r->packed_queries, r->query_scales, r->queries, KEY_WIDTH, ROWS, KEY_WIDTH);
}

static void run_row_scores(struct rows *r)
{
    struct row_scores b = {
        .packed_queries = r->packed_queries, .query_scales = r->query_scales, .keys = r->chunk,
        .key_scales = r->chunk + KEY_WIDTH, .key_stride = row_bytes(r->kind), .scores = r->weights,
        .score_stride = CHUNK, .n_rows = ROWS, .n_keys = CHUNK, .width = KEY_WIDTH,
    };
    cached_rows(r)->score(&b);
}

static void run_row_values(struct rows *r)
{
    const char *rows[CHUNK];
    for (int i = 0; i < CHUNK; i++)
        rows[i] = r->chunk + (size_t)i * row_bytes(r->kind);
    struct row_values b = {
        .weights = r->weights, .weight_stride = CHUNK, .rows = rows, .scale_at = KEY_WIDTH, .sums = r->sums,
        .sum_stride = VALUE_WIDTH, .n_rows = ROWS, .n_keys = CHUNK, .width = VALUE_WIDTH,
    };
    cached_rows(r)->add_values(&b);
}

static void run_softmax(struct rows *r)
{
    float max;
    r->sink += r->k->softmax_part(r->a, VECTOR, 0.1f, &max);
}

static void run_norm(struct rows *r)
{
    r->k->rms_norm(r->c, r->b, r->b, VECTOR, 1e-6f, 1);
}

static void run_silu(struct rows *r)
{
    r->k->silu_multiply(r->a, r->keys, VECTOR);
}

/* In place again and again, numbers would become too small for a processor's fast path. */
static void run_sigmoid(struct rows *r)
{
    memcpy(r->a, r->c, VECTOR * sizeof *r->a);
    r->k->sigmoid_multiply(r->a, r->b, VECTOR);
}

static void run_add(struct rows *r)
{
    r->k->add(r->c, r->b, VECTOR);
}

static void run_scale_add(struct rows *r)
{
    r->k->scale_add(r->c, r->b, 0.5f, VECTOR);
}

static void run_widen_bf16(struct rows *r)
{
    r->k->widen_bf16(r->c, r->halves, VECTOR);
}

static void run_widen_int8(struct rows *r)
{
    r->k->widen_int8(r->c, r->bytes, 0.5f, VECTOR);
}

static void run_pack_bf16(struct rows *r)
{
    r->k->pack_bf16(r->halves, r->b, VECTOR);
}

static void run_pack_int8(struct rows *r)
{
    float scale;
    int32_t sum;
    for (int i = 0; i < VECTOR; i += MAX_GROUP)
        r->k->pack_int8(r->bytes, &scale, &sum, NULL, r->b + i, MAX_GROUP, MAX_GROUP);
    r->sink += scale;
}

/* Bytes are what is read and written; the block kernels count each operand once. */
static const struct {
    const char *name, *shape;
    void (*run)(struct rows *r);
    double bytes, macs;
    enum peak_kind kind;            /* what is multiplied; bf16 and int8: rows as they are cached */
} cases[] = {
    { "score", "16 x 32 keys x 576", run_score, 4.0 * (ROWS * KEY_WIDTH + KEYS * KEY_WIDTH + ROWS * KEYS),
      (double)ROWS * KEYS * KEY_WIDTH, PEAK_F32 },
    { "add_values", "16 x 32 keys x 512", run_values, 4.0 * (2 * ROWS * VALUE_WIDTH + KEYS * VALUE_WIDTH + ROWS * KEYS),
      (double)ROWS * KEYS * VALUE_WIDTH, PEAK_F32 },
    { "score_bf16", "16 x 256 keys x 576", run_row_scores,
      2.0 * (ROWS * KEY_WIDTH + CHUNK * KEY_WIDTH) + 4.0 * ROWS * CHUNK, (double)ROWS * CHUNK * KEY_WIDTH, PEAK_BF16 },
    { "add_values_bf16", "16 x 256 keys x 512", run_row_values,
      4.0 * (ROWS * VALUE_WIDTH + ROWS * CHUNK) + 2.0 * CHUNK * VALUE_WIDTH, (double)ROWS * CHUNK * VALUE_WIDTH, PEAK_BF16 },
    { "pack_queries_bf16", "16 x 576", run_pack_queries, 6.0 * ROWS * KEY_WIDTH, 0, PEAK_BF16 },
    /* Two digits of a query and of a weight: two products each. */
    { "score_int8", "16 x 256 keys x 576", run_row_scores,
      2.0 * ROWS * KEY_WIDTH + CHUNK * KEY_WIDTH + 4.0 * ROWS * CHUNK, 2.0 * ROWS * CHUNK * KEY_WIDTH, PEAK_INT8 },
    { "add_values_int8", "16 x 256 keys x 512", run_row_values,
      4.0 * (ROWS * VALUE_WIDTH + ROWS * CHUNK) + CHUNK * VALUE_WIDTH, 2.0 * ROWS * CHUNK * VALUE_WIDTH, PEAK_INT8 },
    { "pack_queries_int8", "16 x 576", run_pack_queries, 6.0 * ROWS * KEY_WIDTH, 0, PEAK_INT8 },
    { "softmax_part", "2048", run_softmax, 4.0 * VECTOR * 4, 0, PEAK_F32 },
    { "rms_norm", "2048", run_norm, 4.0 * VECTOR * 4, 0, PEAK_F32 },
    { "silu_multiply", "2048", run_silu, 4.0 * VECTOR * 3, 0, PEAK_F32 },
    { "sigmoid_multiply", "2048", run_sigmoid, 4.0 * VECTOR * 3, 0, PEAK_F32 },
    { "add", "2048", run_add, 4.0 * VECTOR * 3, 0, PEAK_F32 },
    { "scale_add", "2048", run_scale_add, 4.0 * VECTOR * 3, 0, PEAK_F32 },
    { "widen_bf16", "2048", run_widen_bf16, 6.0 * VECTOR, 0, PEAK_F32 },
    { "widen_int8", "2048", run_widen_int8, 5.0 * VECTOR, 0, PEAK_F32 },
    { "pack_bf16", "2048", run_pack_bf16, 6.0 * VECTOR, 0, PEAK_F32 },
    { "pack_int8", "2048", run_pack_int8, 5.0 * VECTOR, 0, PEAK_F32 },
};

/* Seconds of one call, over so many calls that the clock does not matter. */
static double sample(struct rows *r, void (*run)(struct rows *r), int64_t n_calls)
{
    int64_t start = clock_thread_cpu_ns();
    for (int64_t i = 0; i < n_calls; i++)
        run(r);
    return (double)(clock_thread_cpu_ns() - start) / 1e9 / (double)n_calls;
}

/* Kernels that work in place would run off to zero or infinity. */
static void fill(struct rows *r)
{
    struct rng rng;
    rng_seed(&rng, 1);
    for (int i = 0; i < KEYS * KEY_WIDTH; i++)
        r->keys[i] = (float)rng_uniform(&rng) - 0.5f;
    for (int i = 0; i < ROWS * KEY_WIDTH; i++)
        r->queries[i] = (float)rng_uniform(&rng) - 0.5f;
    for (int i = 0; i < CHUNK * KEY_WIDTH; i++)
        ((uint16_t *)(void *)r->chunk)[i] = f32_to_bf16((float)rng_uniform(&rng) - 0.5f);
    for (int i = 0; i < ROWS * CHUNK; i++)
        r->weights[i] = 1e-3f;      /* so that sums stay finite however often they are added to */
    if (r->kind != PEAK_F32)
        run_pack_queries(r);
    for (int i = 0; i < VECTOR; i++) {
        r->a[i] = (float)rng_uniform(&rng) - 0.5f;
        r->b[i] = (float)rng_uniform(&rng) + 0.5f;
    }
}

static void run_case(struct rows *r, size_t i)
{
    struct load_series seconds;
    load_series_init(&seconds, (size_t)r->spec->repetitions);
    r->kind = cases[i].kind;
    fill(r);
    double once = sample(r, cases[i].run, 16);
    int64_t n_calls = once > 0 ? (int64_t)(SAMPLE_NS / 1e9 / once) + 1 : SAMPLE_NS;
    for (int k = 0; k < r->spec->repetitions; k++) {
        fill(r);
        load_series_push(&seconds, sample(r, cases[i].run, n_calls));
    }
    struct bench_kernel_result result = {
        .name = cases[i].name, .shape = cases[i].shape, .bytes = cases[i].bytes, .macs = cases[i].macs,
        .kind = cases[i].kind, .seconds = &seconds,
    };
    r->spec->on_result(r->spec->context, &result);
    load_series_clear(&seconds);
}

static enum status take_memory(struct rows *r, struct arena *arena, struct error *err)
{
    TRY(ARENA_ARRAY(arena, ROWS * KEY_WIDTH, &r->queries, err));
    TRY(ARENA_ARRAY(arena, KEYS * KEY_WIDTH, &r->keys, err));
    TRY(ARENA_ARRAY(arena, ROWS * CHUNK, &r->weights, err));
    TRY(ARENA_ARRAY(arena, CHUNK * row_bytes(PEAK_BF16), &r->chunk, err));
    TRY(ARENA_ARRAY(arena, packed_query_bytes(KEY_WIDTH), &r->packed_queries, err));
    TRY(ARENA_ARRAY(arena, MAX_TILE_ROWS, &r->query_scales, err));
    TRY(ARENA_ARRAY(arena, ROWS * VALUE_WIDTH, &r->sums, err));
    TRY(ARENA_ARRAY(arena, VECTOR, &r->a, err));
    TRY(ARENA_ARRAY(arena, VECTOR, &r->b, err));
    TRY(ARENA_ARRAY(arena, VECTOR, &r->c, err));
    TRY(ARENA_ARRAY(arena, VECTOR + 2, &r->halves, err));
    return ARENA_ARRAY(arena, VECTOR, &r->bytes, err);
}

enum status bench_rows_run(const struct bench_rows_spec *spec, struct error *err)
{
    struct rows r = { .spec = spec, .k = spec->kernels };
    struct arena arena;
    arena_init(&arena);
    enum status s = take_memory(&r, &arena, err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && s == STATUS_OK; i++)
        if (cases[i].kind == PEAK_F32 || r.k->bf16_rows != NULL)
            run_case(&r, i);
    arena_clear(&arena);
    return s;
}
