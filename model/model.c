#include "model/model.h"

#include "parallel/team.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One rank: its weights, its cache, its scratch. */
struct rank_model {
    struct arena weights, scratch;
    struct linear_scratch linear_scratch;
    struct layer_shared shared;
    struct layer *layers;               /* [n_layers] */
    struct linear head;                 /* rows [head_begin, ..) of the vocabulary */
    int head_begin;
    const float *final_norm;
    struct latent_store own_store;
    struct latent_store *store;         /* by chunk: rank 0's, of which each rank uses its chunks */
    size_t weight_bytes;
    int64_t multiply_adds_per_row, multiply_adds_per_cached_row;

    float *x;                           /* [max_rows][H], the residual */
    float *normed;                      /* [max_rows][H] */
    float *logit_inputs;                /* [max_logit_rows][H] */

    /* counters: written by the rank, read by anyone */
    _Atomic uint64_t steps, rows, cached_rows_read;

    struct error failure;               /* of loading */
};

struct model {
    struct model_config config;
    struct model_options options;
    const struct kernels *kernels;
    struct safetensors *set;
    struct model_weights bound;
    struct team *team;
    struct rank_model *ranks;           /* [n_ranks] */
    float *logits;                      /* [max_logit_rows][vocab] */
    struct arena arena;                 /* logits and ranks */
    const struct batch *batch;          /* of the current step */
    _Atomic size_t loaded;              /* bytes, for progress */
    size_t to_load;
};

/* ---- sizes ---- */

static size_t cache_block_bytes(const struct model *m, int rank)
{
    struct cache_shape shape;
    struct cache_layout layout;
    attention_cache_shape(&m->config.attention, m->options.n_ranks, rank, &shape);
    cache_layout_init(&layout, m->options.cache_type, m->options.block_size, &shape);
    size_t bytes = layout.block_bytes * (size_t)m->config.n_layers;
    size_t n = (size_t)m->options.n_ranks;
    return m->options.mla_by_chunk ? (bytes + n - 1) / n : bytes;
}

/* Blocks that rank has room for beside its weights. */
static enum status blocks_that_fit(const struct model *m, int rank, int64_t *out, struct error *err)
{
    size_t weights = m->ranks[rank].weights.used, block = cache_block_bytes(m, rank);
    size_t room = m->options.device_memory > weights ? m->options.device_memory - weights : 0;
    *out = (int64_t)(room / block);
    if (*out < 1)
        return fail(err, STATUS_BAD_OPTION, "device memory of %zu bytes cannot hold the %zu bytes of weights of "
                    "rank %d and one cache block of %zu bytes", m->options.device_memory, weights, rank, block);
    return STATUS_OK;
}

static enum status choose_blocks(struct model *m, struct error *err)
{
    const struct model_options *o = &m->options;
    int64_t n = INT32_MAX;
    if (o->n_blocks > 0)
        n = o->n_blocks;
    else if (o->max_cache_sequences > 0)
        n = (int64_t)o->max_cache_sequences * ((o->max_length + o->block_size - 1) / o->block_size);
    size_t all_ranks = 0;
    for (int rank = 0; rank < o->n_ranks; rank++) {
        all_ranks += cache_block_bytes(m, rank);
        int64_t fits = INT32_MAX;
        if (o->device_memory > 0)
            TRY(blocks_that_fit(m, rank, &fits, err));
        n = fits < n ? fits : n;
    }
    int64_t most = o->max_cache_bytes > 0 ? (int64_t)(o->max_cache_bytes / all_ranks) : INT32_MAX;
    n = most < n ? most : n;
    if (n < 1 || n > INT32_MAX)
        return fail(err, STATUS_BAD_OPTION, "the cache would have %lld blocks of %zu bytes; give the number of "
                    "blocks or a bound of memory", (long long)n, all_ranks);
    m->options.n_blocks = (int)n;
    return STATUS_OK;
}

/* ---- loading ---- */

enum status model_select_kernels(const char *name, const struct kernels **out, struct error *err)
{
    *out = kernels_select(name);
    if (*out == NULL)
        return fail(err, STATUS_BAD_OPTION, "kernels '%.20s' are not in this build or not for this processor; "
                    "it has %s", name, kernels_names());
    return STATUS_OK;
}

const char *model_kernels_name(const struct model *m)
{
    return m->kernels->name;
}

/* Any rank loads; one of them tells. */
static void count_loaded(struct model *m, int rank, size_t bytes)
{
    size_t loaded = atomic_fetch_add(&m->loaded, bytes) + bytes;
    if (rank == 0 && m->options.progress != NULL)
        m->options.progress(m->options.progress_context, loaded, m->to_load);
}

static enum status create_layers(struct model *m, struct rank_model *r, int rank, struct error *err)
{
    TRY(ARENA_ARRAY(&r->weights, (size_t)m->config.n_layers, &r->layers, err));
    /* One layer after the other is computed: all have the same scratch, which stays in
     * the caches. */
    struct arena_mark scratch = arena_mark(&r->scratch);
    for (int layer = 0; layer < m->config.n_layers; layer++) {
        struct layer_weights weights;
        arena_rewind(&r->scratch, scratch);
        TRY(model_bind_layer(m->set, &m->config, layer, &weights, err));
        size_t before = r->weights.used;
        TRY(layer_create(&r->layers[layer], &r->shared, &weights, &r->weights, &r->scratch, err));
        struct attention_cost cost = attention_cost(r->layers[layer].attention);
        r->weight_bytes += layer_weight_bytes(&r->layers[layer]);
        r->multiply_adds_per_cached_row += cost.multiply_adds_per_cached_row;
        count_loaded(m, rank, r->weights.used - before);
    }
    return STATUS_OK;
}

/* First row of rank's share of the vocabulary: whole panels. */
static int head_row(const struct model *m, int rank)
{
    int n_panels = (m->config.vocab + PANEL_WIDTH - 1) / PANEL_WIDTH;
    int row = n_panels * rank / m->options.n_ranks * PANEL_WIDTH;
    return row < m->config.vocab ? row : m->config.vocab;
}

static enum status create_head(struct model *m, struct rank_model *r, int rank, struct error *err)
{
    r->head_begin = head_row(m, rank);
    int n = head_row(m, rank + 1) - r->head_begin;
    struct matrix rows = matrix_rows(m->bound.head, r->head_begin, n);
    /* The head's errors are not averaged by layers behind it: 8 bits at the least. */
    enum weight_type type = (enum weight_type)m->options.weight_type;
    struct linear_spec spec = {
        .type = type == WEIGHT_INT4 ? WEIGHT_INT8 : type, .rows = &rows, .n_parts = 1,
        .kernels = m->kernels, .scratch = &r->linear_scratch,
    };
    TRY(linear_create(&r->head, &spec, &r->weights, err));
    r->weight_bytes += linear_bytes(&r->head);
    count_loaded(m, rank, linear_bytes(&r->head));
    float *norm;
    TRY(ARENA_ARRAY(&r->weights, (size_t)m->config.hidden, &norm, err));
    matrix_read_row(&m->bound.final_norm, 0, norm);
    r->final_norm = norm;
    return STATUS_OK;
}

static int widest_input(const struct model *m)
{
    int heads = m->config.attention.n_heads * m->config.attention.value_dim;
    int widest = m->config.hidden > m->config.intermediate ? m->config.hidden : m->config.intermediate;
    return heads > widest ? heads : widest;
}

static enum status create_rank(struct model *m, int rank, struct error *err)
{
    struct rank_model *r = &m->ranks[rank];
    size_t rows = (size_t)m->options.max_rows, hidden = (size_t)m->config.hidden;
    struct attention_options options = {
        .kernels = m->kernels, .weight_type = (enum weight_type)m->options.weight_type,
        .n_ranks = m->options.n_ranks, .rank = rank, .scratch = &r->linear_scratch,
        .max_rows = m->options.max_rows, .n_positions = m->options.max_length, .by_chunk = m->options.mla_by_chunk,
        .chunk = m->options.attention_chunk,
    };
    TRY(linear_scratch_create(&r->linear_scratch, m->options.max_rows, widest_input(m), &r->scratch, err));
    TRY(layer_shared_create(&r->shared, &m->config.attention, &options, m->config.hidden,
                            m->config.intermediate, m->config.norm_eps, team_comm(m->team), &r->scratch, err));
    TRY(create_layers(m, r, rank, err));
    TRY(create_head(m, r, rank, err));
    double bits = weight_type_bits((enum weight_type)m->options.weight_type);
    r->multiply_adds_per_row = (int64_t)((double)r->weight_bytes * 8 / bits);
    TRY(ARENA_ARRAY(&r->scratch, rows * hidden, &r->x, err));
    TRY(ARENA_ARRAY(&r->scratch, rows * hidden, &r->normed, err));
    return ARENA_ARRAY(&r->scratch, (size_t)m->options.max_logit_rows * hidden, &r->logit_inputs, err);
}

/* Each rank packs its own shard, so that its memory is first touched by it. */
static enum status load_rank(void *context, int rank)
{
    struct model *m = context;
    return create_rank(m, rank, &m->ranks[rank].failure);
}

static enum status load_ranks(void *context)
{
    return team_step(((struct model *)context)->team, load_rank, context);
}

static enum status create_ranks(struct model *m, struct error *err)
{
    TRY(ARENA_ARRAY(&m->arena, (size_t)m->options.n_ranks, &m->ranks, err));
    enum status s = team_run(m->team, load_ranks, m);
    if (s == STATUS_OK)
        return s;
    for (int rank = 0; rank < m->options.n_ranks; rank++)
        if (m->ranks[rank].failure.code != STATUS_OK)
            return fail(err, m->ranks[rank].failure.code, "%s", m->ranks[rank].failure.text);
    return fail(err, s, "the system gave fewer threads than the %d ranks", m->options.n_ranks);
}

static enum status create_stores(struct model *m, struct error *err)
{
    TRY(choose_blocks(m, err));
    for (int rank = 0; rank < m->options.n_ranks; rank++) {
        struct cache_shape shape;
        struct cache_layout layout;
        m->ranks[rank].store = &m->ranks[m->options.mla_by_chunk ? 0 : rank].own_store;
        if (m->options.mla_by_chunk && rank > 0)
            continue;
        attention_cache_shape(&m->config.attention, m->options.n_ranks, rank, &shape);
        cache_layout_init(&layout, m->options.cache_type, m->options.block_size, &shape);
        TRY(latent_store_create(m->ranks[rank].store, &layout, m->config.n_layers, m->options.n_blocks, err));
    }
    return STATUS_OK;
}

static void settle_options(struct model *m)
{
    m->options.mla_by_chunk = m->options.mla_by_chunk && m->options.n_ranks > 1
                           && attention_may_shard_by_chunk(&m->config.attention, m->options.n_ranks);
    if (m->options.weight_type == MODEL_WEIGHTS_AUTO)
        m->options.weight_type = m->bound.embedding.type == ELEMENT_F32 ? WEIGHT_F32 : WEIGHT_BF16;
    if (m->options.attention_chunk == 0)
        m->options.attention_chunk = ATTEND_MAX_CHUNK;
    if (m->options.max_length == 0)
        m->options.max_length = m->config.max_positions;
    if (m->options.max_logit_rows == 0)
        m->options.max_logit_rows = m->options.max_rows;
    double bits = weight_type_bits((enum weight_type)m->options.weight_type);
    m->to_load = (size_t)((double)model_parameter_count(m->set) * bits / 8);
}

static enum status load(struct model *m, const char *dir, struct error *err)
{
    TRY(model_select_kernels(m->options.kernels, &m->kernels, err));
    TRY(safetensors_open(&m->set, dir, err));
    TRY(model_config_load(dir, m->set, &m->config, err));
    TRY(model_bind(m->set, &m->config, &m->bound, err));
    TRY(model_check_ranks(&m->config, m->options.n_ranks, err));
    settle_options(m);
    struct team_options team = {
        .n_ranks = m->options.n_ranks, .bind = m->options.bind_ranks,
        .max_floats = layer_max_exchange(&m->config.attention, m->config.hidden, m->options.n_ranks,
                                         m->options.max_rows, m->options.mla_by_chunk),
    };
    TRY(team_create(&m->team, &team, err));
    TRY(create_ranks(m, err));
    TRY(create_stores(m, err));
    return arena_take(&m->arena, (size_t)m->options.max_logit_rows * (size_t)m->config.vocab, sizeof(float),
                      (void **)&m->logits, err);
}

enum status model_load(struct model **out, const char *dir, const struct model_options *options,
                       struct error *err)
{
    assert(options->n_ranks >= 1 && options->max_rows >= 1 && options->block_size >= 1);
    struct model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a model");
    m->options = *options;
    arena_init(&m->arena);
    enum status s = load(m, dir, err);
    if (s != STATUS_OK) {
        model_destroy(m);
        return s;
    }
    *out = m;
    return STATUS_OK;
}

void model_destroy(struct model *m)
{
    if (m == NULL)
        return;
    for (int rank = 0; m->ranks != NULL && rank < m->options.n_ranks; rank++) {
        latent_store_destroy(&m->ranks[rank].own_store);
        arena_clear(&m->ranks[rank].weights);
        arena_clear(&m->ranks[rank].scratch);
    }
    team_destroy(m->team);
    safetensors_close(m->set);
    arena_clear(&m->arena);
    free(m);
}

const struct model_config *model_config(const struct model *m)
{
    return &m->config;
}

const struct model_options *model_options(const struct model *m)
{
    return &m->options;
}

/* ---- a step ---- */

static void embed(const struct model *m, struct rank_model *r)
{
    const struct batch *b = m->batch;
    size_t hidden = (size_t)m->config.hidden;
    float multiplier = (float)m->config.embedding_multiplier;
    for (int row = 0; row < b->n_rows; row++) {
        float *x = r->x + (size_t)row * hidden;
        matrix_read_row(&m->bound.embedding, b->tokens[row], x);
        for (size_t i = 0; i < hidden; i++)
            x[i] *= multiplier;
    }
}

static void run_head(const struct model *m, struct rank_model *r)
{
    const struct batch *b = m->batch;
    size_t hidden = (size_t)m->config.hidden;
    for (int row = 0; row < b->n_rows; row++)
        m->kernels->rms_norm(r->normed + (size_t)row * hidden, r->x + (size_t)row * hidden,
                                     r->final_norm, m->config.hidden, m->config.norm_eps, 1);
    for (int i = 0; i < b->n_logit_rows; i++)
        memcpy(r->logit_inputs + (size_t)i * hidden, r->normed + (size_t)b->logit_rows[i] * hidden,
               hidden * sizeof(float));
    linear_apply(&r->head, m->kernels, r->logit_inputs, hidden, b->n_logit_rows,
                 m->logits + r->head_begin, (size_t)m->config.vocab, 0);
}

static void count_step(struct rank_model *r, const struct batch *b)
{
    uint64_t cached = 0;
    for (int s = 0; s < b->n_spans; s++)
        for (int i = 0; i < b->spans[s].n_rows; i++)
            cached += (uint64_t)(b->spans[s].causal ? b->spans[s].first_position + i + 1 : b->spans[s].length);
    atomic_fetch_add_explicit(&r->steps, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->rows, (uint64_t)b->n_rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->cached_rows_read, cached, memory_order_relaxed);
}

/* A shared store is copied by rank 0 while the others wait: the copy of a block
 * would overwrite what its new owner writes next. */
static enum status copy_blocks(struct model *m, int rank)
{
    const struct batch *b = m->batch;
    int shared = m->options.mla_by_chunk;
    for (int i = 0; i < b->n_copies && (!shared || rank == 0); i++)
        latent_store_copy_block(m->ranks[rank].store, b->copies[i].source, b->copies[i].destination);
    return shared && b->n_copies > 0 ? comm_barrier(team_comm(m->team), rank) : STATUS_OK;
}

/* What a test wants to go wrong here. */
static enum status commit_fault(const struct model *m, int rank)
{
    const struct model_fault *f = &m->options.fault;
    if (f->kind == MODEL_FAULT_NONE || f->rank != rank || f->step != atomic_load(&m->ranks[rank].steps))
        return STATUS_OK;
    while (f->kind == MODEL_FAULT_STALL)
        pause();
    return STATUS_INTERNAL;
}

static enum status step_rank(void *context, int rank)
{
    struct model *m = context;
    struct rank_model *r = &m->ranks[rank];
    const struct batch *b = m->batch;
    TRY(commit_fault(m, rank));
    TRY(copy_blocks(m, rank));
    embed(m, r);
    struct attention_step step = {
        .spans = b->spans, .n_spans = b->n_spans, .n_rows = b->n_rows, .store = r->store,
    };
    layer_begin(r->layers, b->n_rows, r->x);
    for (step.layer = 0; step.layer < m->config.n_layers; step.layer++) {
        struct layer *layer = &r->layers[step.layer];
        TRY(layer_run(layer, step.layer + 1 < m->config.n_layers ? layer + 1 : NULL, &step, r->x));
    }
    run_head(m, r);
    count_step(r, b);
    return STATUS_OK;
}

enum status model_step(struct model *m, const struct batch *batch)
{
    assert(batch->n_rows <= m->options.max_rows && batch->n_logit_rows <= m->options.max_logit_rows);
    m->batch = batch;
    return team_step(m->team, step_rank, m);
}

enum status model_run(struct model *m, enum status (*lead)(void *context), void *context)
{
    return team_run(m->team, lead, context);
}

const float *model_logits(const struct model *m)
{
    return m->logits;
}

const float *model_hidden(const struct model *m)
{
    return m->ranks[0].normed;
}

void model_poison(struct model *m)
{
    team_poison(m->team);
}

/* ---- blocks, for saving and restoring ---- */

static int n_stores(const struct model *m)
{
    return m->options.mla_by_chunk ? 1 : m->options.n_ranks;
}

size_t model_block_bytes(const struct model *m)
{
    size_t n = 0;
    for (int i = 0; i < n_stores(m); i++)
        n += latent_store_block_bytes(m->ranks[i].store);
    return n;
}

void model_read_block(const struct model *m, int32_t block, void *out)
{
    char *at = out;
    for (int i = 0; i < n_stores(m); i++) {
        latent_store_read_block(m->ranks[i].store, block, at);
        at += latent_store_block_bytes(m->ranks[i].store);
    }
}

void model_write_block(struct model *m, int32_t block, const void *bytes)
{
    const char *at = bytes;
    for (int i = 0; i < n_stores(m); i++) {
        latent_store_write_block(m->ranks[i].store, block, at);
        at += latent_store_block_bytes(m->ranks[i].store);
    }
}

/* ---- what a device holds and has done ---- */

void model_device_report(const struct model *m, int rank, struct device_report *out)
{
    const struct rank_model *r = &m->ranks[rank];
    const struct attention_config *c = &m->config.attention;
    struct head_range heads = attention_rank_heads(c, m->options.n_ranks, rank);
    struct comm_counters comm = comm_counters(team_comm(m->team), rank);
    int latents[ATTENTION_MAX_LATENTS];
    int n_latents = attention_rank_latents(c, m->options.n_ranks, rank, latents);
    struct head_range kv = attention_rank_kv_heads(c, m->options.n_ranks, rank);
    uint64_t steps = atomic_load_explicit(&r->steps, memory_order_relaxed);
    uint64_t rows = atomic_load_explicit(&r->rows, memory_order_relaxed);
    uint64_t cached = atomic_load_explicit(&r->cached_rows_read, memory_order_relaxed);
    size_t per_token = cache_layout_token_bytes(&r->store->layout) * (size_t)m->config.n_layers;
    /* By chunk a device holds one token in n, so its share of each. */
    size_t share = m->options.mla_by_chunk ? (size_t)m->options.n_ranks : 1;
    per_token /= share;
    *out = (struct device_report){
        .heads_begin = heads.begin, .heads_end = heads.end,
        .n_latents = n_latents > 0 ? n_latents : kv.end - kv.begin,
        .first_latent = n_latents > 0 ? latents[0] : kv.begin,
        .weight_bytes = r->weight_bytes,
        .cache_bytes_per_token = per_token,
        .cache_bytes = r->store->mapped / share,
        .tokens_that_fit = (int64_t)m->options.n_blocks * m->options.block_size,
        .cache_bytes_read = cached * per_token,
        .cache_bytes_written = rows * per_token,
        .weight_bytes_read = steps * r->weight_bytes,
        .multiply_adds = rows * (uint64_t)r->multiply_adds_per_row
                       + cached * (uint64_t)r->multiply_adds_per_cached_row,
        .collective_bytes = comm.bytes_sent, .collectives = comm.meetings,
        .busy_ns = team_busy_ns(m->team, rank), .waited_ns = comm.waited_ns,
        .steps = steps,
    };
}
