#include "bench/compare_rank.h"

#include "base/clock.h"
#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Rotary tables are made for so many positions only: the query's own position
 * does not change what a step costs, and tables for a million positions would be
 * larger than the cache.  Decompressed keys are rotated at theirs and need all. */
enum { ROTARY_POSITIONS = 4096, MLP_MINIMUM = MLP_LEAVES };

struct compare_rank {
    struct compare_rank_spec spec;
    struct arena weights, scratch;
    struct layer_shared shared;
    struct layer layer;             /* with a token MLP when the part has none */
    struct linear head;
    struct linear wide_output;      /* in place of the layer's own, when W_O is replicated */
    struct latent_store store;
    int64_t n_blocks;
    int32_t *blocks;                /* [batch][blocks of a sequence] */
    struct span *spans;             /* [batch] */
    struct attention_step step;
    float *x;                       /* [batch][H] */
    float *heads;                   /* [batch][N * V]: what the exchange of branches yields */
    float *partials;                /* [nodes][batch][H] */
    float *nodes;                   /* by chunk: own partials */
    float *logits;                  /* [batch][own vocabulary] */
};

/* ---- create ---- */

static int has_mlp(const struct compare_rank *r)
{
    return r->spec.point.part >= COMPARE_LAYER;
}

static int rotary_positions(const struct compare_point *p)
{
    if (p->formulation->attention.rope == ROPE_DECOMPRESSED || p->context < ROTARY_POSITIONS)
        return (int)p->context;
    return ROTARY_POSITIONS;
}

static int has_wide_output(const struct compare_rank *r)
{
    return r->spec.point.formulation->replicated_output;
}

static enum status create_wide_output(struct compare_rank *r, struct error *err)
{
    const struct compare_point *p = &r->spec.point;
    const struct attention_config *c = &p->formulation->attention;
    struct head_range heads = compare_output_heads(p->formulation, p->n_ranks, r->spec.rank);
    assert(!c->gated && !c->bitnet);
    struct matrix rows = compare_matrix(r->spec.pool, c->hidden, (int64_t)(heads.end - heads.begin) * c->value_dim);
    struct linear_spec spec = { .type = p->weight_type, .rows = &rows, .n_parts = 1, .kernels = r->spec.kernels };
    return linear_create(&r->wide_output, &spec, &r->weights, err);
}

static enum status create_layer(struct compare_rank *r, struct error *err)
{
    const struct compare_point *p = &r->spec.point;
    const struct attention_config *c = &p->formulation->attention;
    int intermediate = has_mlp(r) ? p->formulation->intermediate : MLP_MINIMUM;
    struct attention_options options = {
        .kernels = r->spec.kernels, .weight_type = p->weight_type, .n_ranks = p->n_ranks, .rank = r->spec.rank,
        .max_rows = p->batch, .n_positions = rotary_positions(p),
        .by_chunk = p->formulation->by_chunk && p->n_ranks > 1, .chunk = ATTEND_MAX_CHUNK,
    };
    TRY(layer_shared_create(&r->shared, c, &options, c->hidden, intermediate, 1e-6f, r->spec.comm, &r->scratch, err));
    struct layer_weights weights;
    compare_fill_layer(r->spec.pool, c, intermediate, &weights);
    TRY(layer_create(&r->layer, &r->shared, &weights, &r->weights, &r->scratch, err));
    if (has_wide_output(r))
        TRY(create_wide_output(r, err));
    if (p->part < COMPARE_MODEL)
        return STATUS_OK;
    struct compare_work work;
    compare_count(p, r->spec.rank, &work);
    struct matrix rows = compare_matrix(r->spec.pool, work.head_weights / c->hidden, c->hidden);
    struct linear_spec head = { .type = p->weight_type, .rows = &rows, .n_parts = 1, .kernels = r->spec.kernels };
    return linear_create(&r->head, &head, &r->weights, err);
}

/* Random rows into the first blocks, which are then copied to all others. */
static enum status fill_store(struct compare_rank *r, struct error *err)
{
    const struct cache_layout *layout = &r->store.layout;
    float *row;
    TRY(ARENA_ARRAY(&r->scratch, (size_t)layout->row_width, &row, err));
    struct rng rng;
    rng_seed(&rng, (uint64_t)r->spec.rank + 1);
    int64_t n_random = r->n_blocks < 16 ? r->n_blocks : 16;
    for (int64_t b = 0; b < n_random; b++)
        for (int slot = 0; slot < layout->block_size; slot++) {
            for (int i = 0; i < layout->row_width; i++)
                row[i] = (float)rng_uniform(&rng) - 0.5f;
            cache_row_store(layout, r->store.bytes + (size_t)b * layout->block_bytes
                                        + (size_t)slot * layout->row_bytes, row);
        }
    for (int64_t b = n_random; b < r->n_blocks; b++)
        memcpy(r->store.bytes + (size_t)b * layout->block_bytes,
               r->store.bytes + (size_t)(b % n_random) * layout->block_bytes, layout->block_bytes);
    return STATUS_OK;
}

static enum status create_store(struct compare_rank *r, struct error *err)
{
    const struct compare_point *p = &r->spec.point;
    struct cache_shape shape;
    struct cache_layout layout;
    attention_cache_shape(&p->formulation->attention, p->n_ranks, r->spec.rank, &shape);
    cache_layout_init(&layout, p->cache_type, p->block_size, &shape);
    /* One block more for every sequence, whose last block need not be full. */
    int64_t tokens = compare_own_positions(p->formulation, p->n_ranks, r->spec.rank, r->spec.max_tokens);
    tokens += p->formulation->by_chunk ? (int64_t)p->batch * ATTEND_MAX_CHUNK : 0;
    r->n_blocks = tokens / p->block_size + p->batch + 1;
    TRY(latent_store_create(&r->store, &layout, 1, (int32_t)r->n_blocks, err));
    TRY(fill_store(r, err));
    size_t table = (size_t)(r->spec.max_tokens / p->block_size + p->batch + 1);
    TRY(ARENA_ARRAY(&r->scratch, table, &r->blocks, err));
    return ARENA_ARRAY(&r->scratch, (size_t)p->batch, &r->spans, err);
}

static enum status create_rows(struct compare_rank *r, struct error *err)
{
    const struct compare_point *p = &r->spec.point;
    const struct attention_config *c = &p->formulation->attention;
    size_t batch = (size_t)p->batch, hidden = (size_t)c->hidden;
    TRY(ARENA_ARRAY(&r->scratch, batch * hidden, &r->x, err));
    TRY(ARENA_ARRAY(&r->scratch, batch * (size_t)c->n_heads * (size_t)c->value_dim, &r->heads, err));
    TRY(ARENA_ARRAY(&r->scratch, batch * hidden * REDUCE_MAX_NODES, &r->partials, err));
    TRY(ARENA_ARRAY(&r->scratch, batch * (size_t)(r->head.n_outputs + 1), &r->logits, err));
    if (r->shared.options.by_chunk)
        TRY(ARENA_ARRAY(&r->scratch, batch * attention_chunk_node_floats(c, p->n_ranks, r->spec.rank), &r->nodes,
                        err));
    struct rng rng;
    rng_seed(&rng, 7);
    for (size_t i = 0; i < batch * hidden; i++)
        r->x[i] = (float)(2 * rng_uniform(&rng) - 1);
    if (has_mlp(r))
        layer_begin(&r->layer, p->batch, r->x);
    return STATUS_OK;
}

enum status compare_rank_create(struct compare_rank **out, const struct compare_rank_spec *spec, struct error *err)
{
    struct compare_rank *r = calloc(1, sizeof *r);
    if (r == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for rank %d of %s", spec->rank, spec->point.formulation->name);
    r->spec = *spec;
    arena_init(&r->weights);
    arena_init(&r->scratch);
    enum status s = create_layer(r, err);
    if (s == STATUS_OK)
        s = create_store(r, err);
    if (s == STATUS_OK)
        s = create_rows(r, err);
    if (s != STATUS_OK) {
        compare_rank_destroy(r);
        return s;
    }
    compare_rank_aim(r, spec->max_tokens / spec->point.batch < spec->point.context
                            ? spec->max_tokens / spec->point.batch : spec->point.context, spec->point.batch);
    *out = r;
    return STATUS_OK;
}

void compare_rank_destroy(struct compare_rank *r)
{
    if (r == NULL)
        return;
    latent_store_destroy(&r->store);
    arena_clear(&r->weights);
    arena_clear(&r->scratch);
    free(r);
}

/* What the wide W_O has more than the layer's own, which is packed but not read. */
static size_t extra_output_bytes(const struct compare_rank *r)
{
    if (!has_wide_output(r))
        return 0;
    const struct attention_config *c = &r->shared.attention;
    struct head_range own = attention_output_heads(c, r->shared.options.n_ranks, r->shared.options.rank);
    size_t inputs = (size_t)(own.end - own.begin) * (size_t)c->value_dim;
    return linear_bytes(&r->wide_output) * ((size_t)r->wide_output.n_inputs - inputs) / (size_t)r->wide_output.n_inputs;
}

size_t compare_rank_weight_bytes(const struct compare_rank *r)
{
    size_t bytes = has_mlp(r) ? layer_weight_bytes(&r->layer) + linear_bytes(&r->head)
                              : attention_cost(r->layer.attention).weight_bytes;
    return bytes + extra_output_bytes(r);
}

int64_t compare_rank_attend_macs(const struct compare_rank *r)
{
    return attention_cost(r->layer.attention).multiply_adds_per_cached_row;
}

/* ---- a step ---- */

/* Give every position that this rank holds a place of its own.  By chunk the
 * other positions are never looked at; their table entries name block 0. */
void compare_rank_aim(struct compare_rank *r, int64_t context, int batch)
{
    const struct compare_point *p = &r->spec.point;
    int64_t per_sequence = (context + p->block_size - 1) / p->block_size, next = 0;
    assert(context * batch <= r->spec.max_tokens && batch <= p->batch);
    for (int s = 0; s < batch; s++) {
        int32_t *table = r->blocks + s * per_sequence;
        for (int64_t b = 0; b < per_sequence; b++) {
            int own = !r->shared.options.by_chunk
                   || attend_owner(p->n_ranks, ATTEND_MAX_CHUNK, (int)(b * p->block_size)) == r->spec.rank;
            table[b] = own ? (int32_t)next : 0;
            next += own;
        }
        int rotary = r->shared.options.n_positions;
        r->spans[s] = (struct span){
            .first_row = s, .n_rows = 1, .length = (int)context, .causal = 0, .blocks = table,
            .first_position = (int)context - 1 < rotary ? (int)context - 1 : rotary - 1,
        };
    }
    assert(next <= r->n_blocks);
    r->step = (struct attention_step){ .spans = r->spans, .n_spans = batch, .n_rows = batch, .store = &r->store };
}

static void attend(struct compare_rank *r)
{
    struct attention *a = r->layer.attention;
    if (!r->shared.options.by_chunk) {
        attention_attend(a, &r->step);
        return;
    }
    int width, n = r->shared.options.n_ranks;
    const float *peers[ATTEND_LANES];
    for (int peer = 0; peer < n; peer++)
        peers[peer] = attention_queries(a, &width);
    attention_attend_chunks(a, &r->step, peers, r->nodes);
    for (int peer = 0; peer < n; peer++)
        peers[peer] = r->nodes;
    attention_merge_chunks(a, &r->step, peers);
}

/* Branches are not summed before W_O; their factor is applied to each. */
static void output_replicated(struct compare_rank *r)
{
    size_t n = (size_t)r->step.n_rows * (size_t)r->wide_output.n_inputs;
    const float *heads = attention_heads(r->layer.attention);
    for (size_t i = 0; i < n; i++)
        r->heads[i] = heads[i] * (float)r->shared.attention.branch_factor;
    linear_apply(&r->wide_output, r->spec.kernels, r->heads, (size_t)r->wide_output.n_inputs, r->step.n_rows,
                 r->partials, (size_t)r->shared.hidden, 0);
}

static void output(struct compare_rank *r)
{
    if (has_wide_output(r)) {
        output_replicated(r);
        return;
    }
    const struct attention_config *c = &r->shared.attention;
    struct attention *a = r->layer.attention;
    if (c->bitnet) {
        attention_output_bitnet(a, &r->step, r->heads, r->partials);
        return;
    }
    /* It scales the heads in place, so it gets fresh ones every time. */
    struct head_range own = attention_output_heads(c, r->shared.options.n_ranks, r->shared.options.rank);
    size_t n = (size_t)r->step.n_rows * (size_t)(own.end - own.begin) * (size_t)c->value_dim;
    memcpy(r->heads, attention_heads(a), n * sizeof *r->heads);
    attention_output(a, &r->step, r->heads, r->partials, (size_t)r->step.n_rows * (size_t)c->hidden);
}

static void norm(struct compare_rank *r, const float *weight)
{
    for (int row = 0; row < r->step.n_rows; row++) {
        size_t at = (size_t)row * (size_t)r->shared.hidden;
        r->spec.kernels->rms_norm(r->shared.normed + at, r->x + at, weight, r->shared.hidden, 1e-6f, 1);
    }
}

static int64_t lap(int64_t *since)
{
    int64_t now = clock_thread_cpu_ns(), spent = now - *since;
    *since = now;
    return spent;
}

void compare_rank_step(struct compare_rank *r, int64_t phases[COMPARE_N_PHASES])
{
    enum compare_part part = r->spec.point.part;
    int64_t layers = part == COMPARE_MODEL ? r->spec.point.formulation->n_layers : 1;
    int64_t at = clock_thread_cpu_ns();
    memset(phases, 0, COMPARE_N_PHASES * sizeof *phases);
    norm(r, r->layer.input_norm);
    attention_append(r->layer.attention, &r->step, r->shared.normed);
    attention_query(r->layer.attention, &r->step, r->shared.normed);
    phases[COMPARE_PROJECT] = lap(&at) * (part == COMPARE_KERNEL ? 0 : layers);
    attend(r);
    phases[COMPARE_ATTEND] = lap(&at) * layers;
    if (part == COMPARE_KERNEL)
        return;
    output(r);
    phases[COMPARE_OUTPUT] = lap(&at) * layers;
    if (part < COMPARE_LAYER)
        return;
    norm(r, r->layer.post_norm);
    layer_mlp(&r->layer, r->step.n_rows, r->partials);
    phases[COMPARE_MLP] = lap(&at) * layers;
    if (part < COMPARE_MODEL)
        return;
    linear_apply(&r->head, r->spec.kernels, r->shared.normed, (size_t)r->shared.hidden, r->step.n_rows, r->logits,
                 (size_t)r->head.n_outputs, 0);
    phases[COMPARE_HEAD] = lap(&at);
}

enum status compare_rank_team_step(struct compare_rank *r)
{
    if (r->spec.point.part >= COMPARE_LAYER)
        return layer_run(&r->layer, &r->layer, &r->step, r->x);
    norm(r, r->layer.input_norm);
    attention_append(r->layer.attention, &r->step, r->shared.normed);
    return layer_attention(&r->shared, r->layer.attention, &r->step, r->shared.normed, r->shared.sum);
}
