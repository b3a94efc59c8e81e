#include "bench/verify_case.h"

#include "model/attention_bind.h"
#include "model/attention_json.h"
#include "model/layer.h"
#include "model/model.h"
#include "parallel/team.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 8, MAX_BATCH = 16, MAX_DEGREE = 8, N_DEGREES = 5 };

static const int degrees[N_DEGREES] = { 1, 2, 3, 4, 8 };
static const int chunk_sizes[] = { 1, 3, 7, 16 };

/* What the file says. */
struct golden {
    struct attention_config config;
    struct attention_weights weights;
    int batch, length, source_length;
    float *x;                   /* [batch][length][H] */
    float *memory;              /* [batch][source_length][H], or NULL */
    float *want;                /* [batch][length][H] */
    double tolerance;
};

/* One rank of one degree. */
struct rank_part {
    struct arena weights, scratch;
    struct layer_shared shared;
    struct attention *attention;
    struct latent_store store;
    float *out;                 /* [batch * length][H] of the current step */
};

/* One degree: its team, its ranks, and the step they are doing. */
struct run {
    const struct golden *golden;
    const struct kernels *kernels;
    struct team *team;
    int n_ranks;
    int by_chunk;               /* MLA: cache sharded by chunk instead of replicated */
    struct rank_part ranks[MAX_DEGREE];
    int32_t *blocks;            /* [batch][blocks of a sequence] */
    struct span spans[MAX_BATCH];
    struct attention_step step;
    const float *step_x;        /* rows of the step */
    float *rows;                /* scratch for step_x */
    int appends, queries;       /* what the step does */
    float *result;              /* [batch][length][H] of the current path */
};

/* ---- reading ---- */

static enum status read_all(const struct safetensors *set, const char *name, const int64_t want[3],
                            float **out, struct arena *arena, struct error *err)
{
    const struct tensor *t;
    TRY(safetensors_need(set, name, &t, err));
    for (int d = 0; d < 3; d++)
        if (t->n_dims != 3 || (want[d] >= 0 && t->dims[d] != want[d]))
            return fail(err, STATUS_BAD_MODEL, "tensor %s of the case must have three dimensions (batch, "
                        "sequence, hidden) that agree with the others", name);
    TRY(ARENA_ARRAY(arena, (size_t)t->n_elements, out, err));
    return tensor_to_f32(t, 0, (size_t)t->n_elements, *out, err);
}

static enum status read_config(const struct safetensors *set, const char *path, struct golden *g,
                               struct verify_result *result, struct error *err)
{
    const char *kind = safetensors_metadata(set, "kind"), *config = safetensors_metadata(set, "config");
    const char *mode = safetensors_metadata(set, "mode"), *tol = safetensors_metadata(set, "tol");
    if (kind == NULL || config == NULL || mode == NULL || tol == NULL)
        return fail(err, STATUS_BAD_MODEL, "%s: a case needs kind, config, mode and tol in its metadata", path);
    snprintf(result->kind, sizeof result->kind, "%s", kind);
    g->tolerance = result->tolerance = atof(tol);
    json_error_t where;
    json_t *json = json_loads(config, 0, &where);
    if (!json_is_object(json)) {
        json_decref(json);
        return fail(err, STATUS_BAD_MODEL, "%s: the config in the metadata is not a JSON object", path);
    }
    struct json_reader r = { json, "config", STATUS_BAD_MODEL };
    struct attention_defaults defaults = { .causal = strcmp(mode, "decoder") == 0 };
    enum status s = attention_from_json(kind, &r, &defaults, &g->config, err);
    json_decref(json);
    return s;
}

static enum status read_golden(const struct safetensors *set, const char *path, struct golden *g,
                               struct verify_result *result, struct arena *arena, struct error *err)
{
    TRY(read_config(set, path, g, result, err));
    struct binder binder = { .set = set };
    TRY(attention_bind(&binder, &g->config, &g->weights, err));
    const struct tensor *x, *memory = safetensors_find(set, "memory");
    TRY(safetensors_need(set, "x", &x, err));
    if (x->n_dims != 3 || x->dims[0] < 1 || x->dims[0] > MAX_BATCH || x->dims[1] < 1 || x->dims[1] > 65536)
        return fail(err, STATUS_BAD_MODEL, "%s: x must be (batch of 1 to %d, sequence, hidden)", path, MAX_BATCH);
    int64_t shape[3] = { x->dims[0], x->dims[1], g->config.hidden };
    g->batch = (int)shape[0];
    g->length = g->source_length = (int)shape[1];
    TRY(read_all(set, "x", shape, &g->x, arena, err));
    TRY(read_all(set, "out", shape, &g->want, arena, err));
    if (memory == NULL)
        return STATUS_OK;
    shape[1] = -1;
    TRY(read_all(set, "memory", shape, &g->memory, arena, err));
    g->source_length = (int)memory->dims[1];
    return STATUS_OK;
}

/* ---- one degree ---- */

static int blocks_per_sequence(const struct golden *g)
{
    int longest = g->length > g->source_length ? g->length : g->source_length;
    return (longest + BLOCK_SIZE - 1) / BLOCK_SIZE;
}

static enum status create_rank(struct run *run, int rank, struct error *err)
{
    const struct golden *g = run->golden;
    struct rank_part *part = &run->ranks[rank];
    int longest = g->length > g->source_length ? g->length : g->source_length;
    struct attention_options options = {
        .kernels = run->kernels, .weight_type = WEIGHT_F32, .n_ranks = run->n_ranks, .rank = rank,
        .max_rows = g->batch * longest, .n_positions = longest, .by_chunk = run->by_chunk,
        .chunk = ATTEND_MAX_CHUNK,
    };
    TRY(layer_shared_create(&part->shared, &g->config, &options, g->config.hidden, MLP_LEAVES, 1e-6f,
                            team_comm(run->team), &part->scratch, err));
    TRY(attention_create(&part->attention, &g->config, &g->weights, &options, &part->weights,
                         &part->scratch, err));
    struct cache_shape shape;
    struct cache_layout layout;
    attention_cache_shape(&g->config, run->n_ranks, rank, &shape);
    cache_layout_init(&layout, CACHE_F32, BLOCK_SIZE, &shape);
    TRY(latent_store_create(&part->store, &layout, 1, g->batch * blocks_per_sequence(g), err));
    size_t rows = (size_t)(g->batch * longest);
    return arena_take(&part->scratch, rows, (size_t)g->config.hidden * sizeof(float), (void **)&part->out, err);
}

/* A sequence's blocks, deliberately not in order. */
static void deal_blocks(struct run *run)
{
    int per_sequence = blocks_per_sequence(run->golden), n = run->golden->batch * per_sequence;
    for (int i = 0; i < n; i++)
        run->blocks[i] = n - 1 - i;
}

static enum status create_run(struct run *run, struct arena *arena, struct error *err)
{
    const struct golden *g = run->golden;
    int longest = g->length > g->source_length ? g->length : g->source_length;
    struct team_options options = {
        .n_ranks = run->n_ranks,
        .max_floats = layer_max_exchange(&g->config, g->config.hidden, run->n_ranks, g->batch * longest, run->by_chunk),
    };
    TRY(team_create(&run->team, &options, err));
    for (int rank = 0; rank < run->n_ranks; rank++) {
        arena_init(&run->ranks[rank].weights);
        arena_init(&run->ranks[rank].scratch);
    }
    for (int rank = 0; rank < run->n_ranks; rank++)
        TRY(create_rank(run, rank, err));
    size_t floats = (size_t)g->batch * (size_t)longest * (size_t)g->config.hidden;
    TRY(ARENA_ARRAY(arena, (size_t)(g->batch * blocks_per_sequence(g)), &run->blocks, err));
    TRY(ARENA_ARRAY(arena, floats, &run->rows, err));
    TRY(ARENA_ARRAY(arena, floats, &run->result, err));
    deal_blocks(run);
    return STATUS_OK;
}

static void destroy_run(struct run *run)
{
    for (int rank = 0; rank < run->n_ranks; rank++) {
        latent_store_destroy(&run->ranks[rank].store);
        arena_clear(&run->ranks[rank].weights);
        arena_clear(&run->ranks[rank].scratch);
    }
    team_destroy(run->team);
}

static enum status step_rank(void *context, int rank)
{
    struct run *run = context;
    struct rank_part *part = &run->ranks[rank];
    struct attention_step step = run->step;
    step.store = &part->store;
    if (run->appends)
        attention_append(part->attention, &step, run->step_x);
    if (!run->queries)
        return STATUS_OK;
    return layer_attention(&part->shared, part->attention, &step, run->step_x, part->out);
}

/* Rows [position, position + n) of every sequence of `from` in one step. */
static enum status run_step(struct run *run, const float *from, int from_length, int position, int n)
{
    const struct golden *g = run->golden;
    size_t hidden = (size_t)g->config.hidden;
    for (int b = 0; b < g->batch; b++) {
        memcpy(run->rows + (size_t)(b * n) * hidden, from + (size_t)(b * from_length + position) * hidden,
               (size_t)n * hidden * sizeof(float));
        run->spans[b] = (struct span){
            .first_row = b * n, .n_rows = n, .first_position = position,
            .length = g->config.causal ? position + n : g->source_length, .causal = g->config.causal,
            .blocks = run->blocks + b * blocks_per_sequence(g),
        };
    }
    run->step = (struct attention_step){ .spans = run->spans, .n_spans = g->batch, .n_rows = g->batch * n };
    run->step_x = run->rows;
    TRY(team_step(run->team, step_rank, run));
    for (int b = 0; b < g->batch && run->queries; b++)
        memcpy(run->result + (size_t)(b * g->length + position) * hidden,
               run->ranks[0].out + (size_t)(b * n) * hidden, (size_t)n * hidden * sizeof(float));
    return STATUS_OK;
}

/* The rows in runs of the given sizes, the last one repeated; leaves the output
 * in run->result. */
static enum status run_path(struct run *run, const int *sizes, int n_sizes)
{
    const struct golden *g = run->golden;
    const float *source = g->memory != NULL ? g->memory : g->x;
    run->appends = run->queries = 1;
    if (!g->config.causal && (g->memory != NULL || sizes[0] < g->length)) {
        run->queries = 0;
        TRY(run_step(run, source, g->source_length, 0, g->source_length));
        run->appends = 0;
        run->queries = 1;
    }
    for (int position = 0, i = 0; position < g->length; i++) {
        int n = sizes[i < n_sizes ? i : n_sizes - 1];
        n = n < g->length - position ? n : g->length - position;
        TRY(run_step(run, g->x, g->length, position, n));
        position += n;
    }
    return STATUS_OK;
}

/* ---- judging ---- */

struct verification {
    const struct golden *golden;
    const struct kernels *kernels;
    struct verify_result *result;
    struct run *run;
    float *first;               /* the output of the first path of the first degree */
    int has_first;
};

static double relative_error(const float *got, const float *want, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        difference += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    double e = sqrt(difference / (norm > 0 ? norm : 1));
    return isfinite(e) ? e : INFINITY;
}

static void judge(struct verification *v, const char *path)
{
    const struct golden *g = v->golden;
    struct verify_result *out = v->result;
    size_t n = (size_t)g->batch * (size_t)g->length * (size_t)g->config.hidden;
    double e = relative_error(v->run->result, g->want, n);
    out->relative_error = e > out->relative_error ? e : out->relative_error;
    if (!v->has_first)
        memcpy(v->first, v->run->result, n * sizeof(float));
    v->has_first = 1;
    if (e > g->tolerance && out->ok)
        snprintf(out->reason, sizeof out->reason, "%s on %d ranks is off by %.3g", path, v->run->n_ranks, e);
    else if (memcmp(v->first, v->run->result, n * sizeof(float)) != 0 && out->ok)
        snprintf(out->reason, sizeof out->reason, "%s on %d ranks differs in bits from the full forward on 1",
                 path, v->run->n_ranks);
    else
        return;
    out->ok = 0;
}

/* A front that makes queries and keys in one pass cannot query later. */
static int may_query_later(const struct attention_config *c)
{
    return c->causal || (c->kind != ATTENTION_CCA && c->kind != ATTENTION_GQA);
}

static enum status lead(void *context)
{
    struct verification *v = context;
    const struct golden *g = v->golden;
    TRY(run_path(v->run, &g->length, 1));
    judge(v, "the full forward");
    if (!may_query_later(&g->config))
        return STATUS_OK;
    int one = 1;
    TRY(run_path(v->run, &one, 1));
    judge(v, "token by token");
    for (size_t i = 0; i < sizeof chunk_sizes / sizeof chunk_sizes[0]; i++) {
        /* Chunks over the first half, then token by token. */
        int sizes[65536 / 2 + 2], n = 0;
        for (int done = 0; done + chunk_sizes[i] <= g->length / 2 && n < 32768; done += chunk_sizes[i])
            sizes[n++] = chunk_sizes[i];
        sizes[n++] = 1;
        TRY(run_path(v->run, sizes, n));
        judge(v, "prefill in chunks");
    }
    return STATUS_OK;
}

static enum status verify_degree(struct verification *v, int n_ranks, int by_chunk, struct arena *arena,
                                 struct error *err)
{
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to verify a case");
    run->golden = v->golden;
    run->kernels = v->kernels;
    run->n_ranks = n_ranks;
    run->by_chunk = by_chunk;
    v->run = run;
    enum status s = create_run(run, arena, err);
    if (s == STATUS_OK) {
        s = team_run(run->team, lead, v);
        if (s != STATUS_OK)
            fail(err, s, "the team of %d ranks failed", n_ranks);
    }
    destroy_run(run);
    free(run);
    return s;
}

static enum status verify_golden(struct verification *v, struct arena *arena, struct error *err)
{
    const struct golden *g = v->golden;
    size_t n = (size_t)g->batch * (size_t)g->length * (size_t)g->config.hidden;
    TRY(ARENA_ARRAY(arena, n, &v->first, err));
    char ran[64] = "", refused[64] = "";
    for (int d = 0; d < N_DEGREES; d++) {
        int valid = attention_ranks_valid(&g->config, degrees[d]);
        char *list = valid ? ran : refused;
        snprintf(list + strlen(list), sizeof ran - strlen(list), "%s%d", *list ? "," : "", degrees[d]);
        if (valid)
            TRY(verify_degree(v, degrees[d], 0, arena, err));
        if (valid && degrees[d] > 1 && attention_may_shard_by_chunk(&g->config, degrees[d]))
            TRY(verify_degree(v, degrees[d], 1, arena, err));
    }
    snprintf(v->result->paths, sizeof v->result->paths, "%s on %s ranks%s%s",
             may_query_later(&g->config) ? "full, step, chunks" : "full", ran,
             *refused ? "; refused " : "", refused);
    return STATUS_OK;
}

enum status verify_case(const char *path, const char *kernels, struct verify_result *out, struct error *err)
{
    *out = (struct verify_result){ .ok = 1 };
    const struct kernels *table;
    TRY(model_select_kernels(kernels, &table, err));
    struct safetensors *set;
    TRY(safetensors_open(&set, path, err));
    struct arena arena;
    arena_init(&arena);
    struct golden *golden;
    enum status s = ARENA_ARRAY(&arena, 1, &golden, err);
    if (s == STATUS_OK)
        s = read_golden(set, path, golden, out, &arena, err);
    if (s == STATUS_OK) {
        struct verification v = { .golden = golden, .kernels = table, .result = out };
        s = verify_golden(&v, &arena, err);
    }
    arena_clear(&arena);
    safetensors_close(set);
    return s;
}
