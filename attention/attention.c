#include "attention/attention_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum status attention_vector(const struct matrix *vector, struct arena *arena, const float **out,
                             struct error *err)
{
    *out = NULL;
    if (vector->data == NULL)
        return STATUS_OK;
    float *copy;
    TRY(ARENA_ARRAY(arena, (size_t)vector->n_columns, &copy, err));
    matrix_read_row(vector, 0, copy);
    *out = copy;
    return STATUS_OK;
}

enum status attention_project_create(struct linear *out, const struct attention *a,
                                     const struct matrix *rows, const struct matrix *bias, int n_parts,
                                     const struct matrix *whole, struct arena *arena, struct error *err)
{
    struct linear_spec spec = {
        .type = a->options.weight_type, .rows = rows, .bias = bias, .n_parts = n_parts,
        .ternary = a->config.bitnet, .kernels = a->options.kernels, .scratch = a->options.scratch,
    };
    if (a->config.bitnet) {
        struct arena scratch;
        arena_init(&scratch);
        float *row;
        TRY(ARENA_ARRAY(&scratch, (size_t)whole->n_columns, &row, err));
        spec.ternary_mean = linear_mean_magnitude(whole, row);
        arena_clear(&scratch);
    }
    return linear_create(out, &spec, arena, err);
}

void attention_project(const struct attention *a, const struct linear *linear, const float *x,
                       size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    if (a->config.bitnet)
        linear_apply_bit(linear, a->options.kernels, x, x_stride, n_rows, y, y_stride, a->row_scratch);
    else
        linear_apply(linear, a->options.kernels, x, x_stride, n_rows, y, y_stride, 0);
}

/* W_O: the columns of this rank's output heads, one leaf per run of heads.
 * BitLinear quantises whole rows, so there it is cut by rows instead. */
static enum status create_output(struct attention *a, const struct attention_weights *w,
                                 struct arena *weights, struct error *err)
{
    const struct attention_config *c = &a->config;
    TRY(attention_vector(&w->output_bias, weights, &a->output_bias, err));
    if (c->bitnet) {
        struct head_range rows = attention_output_rows(a);
        struct matrix part = matrix_rows(w->output, rows.begin, rows.end - rows.begin);
        return attention_project_create(&a->output, a, &part, NULL, 1, &w->output, weights, err);
    }
    int n_leaves = attention_output_leaves(c), per_leaf = c->n_heads / n_leaves;
    struct head_range own = a->output_heads;
    struct matrix columns = matrix_columns(w->output, own.begin * c->value_dim,
                                           (own.end - own.begin) * c->value_dim);
    struct linear_spec spec = {
        .type = a->options.weight_type, .rows = &columns, .n_parts = 1,
        .n_leaves = n_leaves, .leaf_begin = own.begin / per_leaf, .leaf_end = own.end / per_leaf,
        .total_inputs = (int64_t)c->n_heads * c->value_dim,
        .kernels = a->options.kernels, .scratch = a->options.scratch,
    };
    return linear_create(&a->output, &spec, weights, err);
}

static enum status create_gate(struct attention *a, const struct attention_weights *w,
                               struct arena *weights, struct arena *scratch, struct error *err)
{
    if (!a->config.gated)
        return STATUS_OK;
    int width = (a->output_heads.end - a->output_heads.begin) * a->config.value_dim;
    struct matrix rows = matrix_rows(w->gate, a->output_heads.begin * a->config.value_dim, width);
    struct linear_spec spec = {
        .type = a->options.weight_type, .rows = &rows, .n_parts = 1,
        .kernels = a->options.kernels, .scratch = a->options.scratch,
    };
    TRY(linear_create(&a->gate, &spec, weights, err));
    return arena_take(scratch, (size_t)a->options.max_rows * (size_t)width, sizeof *a->gates,
                      (void **)&a->gates, err);
}

static enum status create_step_scratch(struct attention *a, struct arena *scratch, struct error *err)
{
    size_t rows = (size_t)a->options.max_rows;
    size_t heads = (size_t)(a->heads.end - a->heads.begin) * (size_t)a->config.value_dim;
    for (int g = 0; g < a->n_groups; g++) {
        struct attend_group *group = &a->groups[g];
        group->query_begin = a->query_floats;
        group->sum_begin = a->sum_floats;
        a->query_floats += (size_t)group->n_queries * (size_t)group->query_width;
        a->sum_floats += (size_t)group->n_queries * (size_t)group->value_width;
    }
    TRY(arena_take(scratch, rows, a->query_floats * sizeof(float), (void **)&a->queries, err));
    TRY(arena_take(scratch, rows, a->sum_floats * sizeof(float), (void **)&a->sums, err));
    TRY(arena_take(scratch, rows, heads * sizeof(float), (void **)&a->head_values, err));
    return arena_take(scratch, attend_scratch_floats(a->groups, a->n_groups), sizeof(float),
                      (void **)&a->attend_scratch, err);
}

int attention_may_shard_by_chunk(const struct attention_config *c, int n_ranks)
{
    return c->kind == ATTENTION_MLA && c->rope != ROPE_DECOMPRESSED && c->causal && !c->bitnet
        && n_ranks <= ATTEND_LANES;
}

size_t attention_chunk_node_floats(const struct attention_config *c, int n_ranks, int rank)
{
    struct reduce_part part;
    attend_rank_lanes(n_ranks, rank, &part);
    return (size_t)c->n_heads * (size_t)part.n_nodes * ((size_t)c->latent_dim + 2);
}

static enum status create_chunks(struct attention *a, struct arena *scratch, struct error *err)
{
    if (!a->options.by_chunk)
        return STATUS_OK;
    assert(attention_may_shard_by_chunk(&a->config, a->options.n_ranks) && a->n_groups == 1);
    attend_rank_lanes(a->options.n_ranks, a->options.rank, &a->own_lanes);
    attend_lane_plan(a->options.n_ranks, &a->lane_plan);
    a->chunk_group = a->groups[0];
    a->chunk_group.n_queries = a->config.n_heads;
    /* A block of one slot is the largest per position: at most a multiple of 64 bytes,
     * whatever the cache type. */
    size_t slot_bytes = ((size_t)(a->config.latent_dim + a->config.rope_dim) * sizeof(float) + 63) / 64 * 64;
    int n_slots = GATHERED_POSITIONS + CACHE_MAX_BLOCK_SIZE;
    TRY(arena_take(scratch, (size_t)n_slots, slot_bytes, (void **)&a->gathered_blocks, err));
    TRY(ARENA_ARRAY(scratch, (size_t)n_slots, &a->gathered_table, err));
    for (int i = 0; i < n_slots; i++)
        a->gathered_table[i] = i;
    return ARENA_ARRAY(scratch, (size_t)ATTEND_LANES * ((size_t)a->config.latent_dim + 2), &a->node_scratch, err);
}

static enum status build(struct attention *a, const struct attention_weights *w, struct arena *weights,
                         struct arena *scratch, struct error *err)
{
    const struct attention_config *c = &a->config;
    int widest = c->hidden > c->n_heads * c->value_dim ? c->hidden : c->n_heads * c->value_dim;
    widest = c->latent_dim > widest ? c->latent_dim : widest;
    TRY(ARENA_ARRAY(scratch, (size_t)widest, &a->row_scratch, err));
    if (c->kind == ATTENTION_CCA || c->kind == ATTENTION_GQA)
        TRY(kv_front_create(a, w, weights, scratch, err));
    else
        TRY(latent_front_create(a, w, weights, scratch, err));
    TRY(create_output(a, w, weights, err));
    TRY(create_gate(a, w, weights, scratch, err));
    TRY(create_chunks(a, scratch, err));
    return create_step_scratch(a, scratch, err);
}

enum status attention_create(struct attention **out, const struct attention_config *config,
                             const struct attention_weights *weights,
                             const struct attention_options *options, struct arena *weight_arena,
                             struct arena *scratch_arena, struct error *err)
{
    assert(attention_ranks_valid(config, options->n_ranks));
    struct attention *a;
    TRY(ARENA_ARRAY(weight_arena, 1, &a, err));
    a->config = *config;
    a->options = *options;
    a->heads = attention_rank_heads(config, options->n_ranks, options->rank);
    a->output_heads = attention_output_heads(config, options->n_ranks, options->rank);
    TRY(build(a, weights, weight_arena, scratch_arena, err));
    *out = a;
    return STATUS_OK;
}

void attention_append(struct attention *a, const struct attention_step *step, const float *x)
{
    assert(step->n_rows <= a->options.max_rows);
    if (a->latent != NULL)
        latent_front_append(a, step, x);
    else
        kv_front_append(a, step, x);
}

void attention_query(struct attention *a, const struct attention_step *step, const float *x)
{
    assert(step->n_rows <= a->options.max_rows);
    if (a->latent != NULL)
        latent_front_query(a, step, x);
    else
        kv_front_query(a, step, x);
    if (a->gate.n_outputs > 0)
        linear_apply(&a->gate, a->options.kernels, x, (size_t)a->config.hidden, step->n_rows, a->gates,
                     (size_t)a->gate.n_outputs, 0);
}

static struct attend_job own_heads_job(const struct attention *a, const struct attention_step *step)
{
    return (struct attend_job){
        .kernels = a->options.kernels, .groups = a->groups, .n_groups = a->n_groups,
        .n_rows = step->n_rows, .queries = a->queries, .sums = a->sums,
        .scale = (float)a->config.score_scale, .chunk = a->options.chunk, .scratch = a->attend_scratch,
    };
}

void attention_attend(struct attention *a, const struct attention_step *step)
{
    struct attend_job job = own_heads_job(a, step);
    for (int s = 0; s < step->n_spans; s++) {
        struct cache_view view = latent_store_view(step->store, step->layer, step->spans[s].blocks);
        if (a->latent != NULL)
            latent_front_attend(a, &job, &step->spans[s], &view);
        else
            attend_span(&job, &step->spans[s], &view);
    }
    if (a->latent != NULL)
        latent_front_heads(a, step);
    else
        kv_front_heads(a, step);
}

/* ---- a cache by chunk: gathering its rows ---- */

static size_t row_floats(const struct cache_layout *layout)
{
    return (layout->row_bytes + sizeof(float) - 1) / sizeof(float);
}

/* What a step would send otherwise is at least a node of every head; what is sent then
 * fits into an outbox, and so does this. */
int attention_gathers_rows(const struct attention *a, const struct attention_step *step)
{
    size_t positions = 0;
    for (int s = 0; s < step->n_spans; s++) {
        if (step->spans[s].length > GATHERED_POSITIONS)
            return 0;
        positions += (size_t)step->spans[s].length;
    }
    size_t node_floats = (size_t)a->config.n_heads * ((size_t)a->config.latent_dim + 2);
    return positions * row_floats(&step->store->layout) <= (size_t)step->n_rows * node_floats;
}

size_t attention_put_rows(const struct attention *a, const struct attention_step *step, float *out)
{
    const struct cache_layout *layout = &step->store->layout;
    size_t stride = row_floats(layout), n = 0;
    for (int s = 0; s < step->n_spans; s++) {
        struct cache_view view = latent_store_view(step->store, step->layer, step->spans[s].blocks);
        for (int position = 0; position < step->spans[s].length; position++)
            if (attend_owner(a->options.n_ranks, a->options.chunk, position) == a->options.rank)
                memcpy(out + n++ * stride, cache_view_row(&view, position), layout->row_bytes);
    }
    return n * stride;
}

void attention_attend_rows(struct attention *a, const struct attention_step *step, const float *const *peer_rows)
{
    const struct cache_layout *layout = &step->store->layout;
    const float *next[ATTEND_LANES];
    struct cache_view view = { .layout = layout, .blocks_base = a->gathered_blocks, .blocks = a->gathered_table };
    struct attend_job job = own_heads_job(a, step);
    memcpy(next, peer_rows, (size_t)a->options.n_ranks * sizeof *next);
    for (int s = 0; s < step->n_spans; s++) {
        for (int position = 0; position < step->spans[s].length; position++) {
            const float **from = &next[attend_owner(a->options.n_ranks, a->options.chunk, position)];
            memcpy(cache_view_row(&view, position), *from, layout->row_bytes);
            *from += row_floats(layout);
        }
        latent_front_attend(a, &job, &step->spans[s], &view);
    }
    latent_front_heads(a, step);
}

/* ---- a cache by chunk: sending queries ---- */

const float *attention_queries(const struct attention *a, int *floats_per_head)
{
    *floats_per_head = a->groups[0].query_width;
    return a->queries;
}

void attention_attend_chunks(struct attention *a, const struct attention_step *step,
                             const float *const *peer_queries, float *nodes)
{
    struct attend_job job = {
        .kernels = a->options.kernels, .groups = &a->chunk_group, .n_groups = 1,
        .n_rows = step->n_rows, .peer_queries = peer_queries, .n_peers = a->options.n_ranks,
        .lanes = &a->own_lanes, .nodes = nodes,
        .scale = (float)a->config.score_scale, .chunk = a->options.chunk, .scratch = a->attend_scratch,
    };
    for (int s = 0; s < step->n_spans; s++) {
        struct cache_view view = latent_store_view(step->store, step->layer, step->spans[s].blocks);
        attend_span(&job, &step->spans[s], &view);
    }
}

/* One head of one row: the nodes of all ranks into sum. */
static void merge_row_nodes(struct attention *a, const float *const *peer_nodes, size_t row, int head, float *sum)
{
    const struct attention_config *c = &a->config;
    int n_ranks = a->options.n_ranks;
    const float *parts[ATTEND_LANES];
    for (int p = 0; p < n_ranks; p++) {
        int rank = attend_part_rank(n_ranks, p);
        size_t row_floats = attention_chunk_node_floats(c, n_ranks, rank);
        parts[p] = peer_nodes[rank] + row * row_floats + (size_t)head * (row_floats / (size_t)c->n_heads);
    }
    attend_merge_nodes(a->options.kernels, &a->lane_plan, parts, c->latent_dim, a->node_scratch, sum);
}

void attention_merge_chunks(struct attention *a, const struct attention_step *step,
                            const float *const *peer_nodes)
{
    size_t width = (size_t)a->config.latent_dim;
    size_t own = (size_t)(a->heads.end - a->heads.begin);
    for (size_t row = 0; row < (size_t)step->n_rows; row++)
        for (int head = a->heads.begin; head < a->heads.end; head++)
            merge_row_nodes(a, peer_nodes, row, head,
                            a->sums + (row * own + (size_t)(head - a->heads.begin)) * width);
    latent_front_heads(a, step);
}

float *attention_heads(struct attention *a)
{
    return a->head_values;
}

/* What happens to a head's value between the sum of its branches and W_O. */
static void finish_heads(const struct attention *a, int n_rows, float *heads)
{
    int width = (a->output_heads.end - a->output_heads.begin) * a->config.value_dim;
    int n = n_rows * width;
    if (a->config.branch_factor != 1)
        for (int i = 0; i < n; i++)
            heads[i] *= (float)a->config.branch_factor;
    if (a->gate.n_outputs > 0)
        a->options.kernels->sigmoid_multiply(heads, a->gates, n);
}

int attention_output(struct attention *a, const struct attention_step *step, float *heads, float *out,
                      size_t node_stride)
{
    assert(!a->config.bitnet);
    finish_heads(a, step->n_rows, heads);
    linear_apply(&a->output, a->options.kernels, heads, (size_t)a->output.n_inputs, step->n_rows, out,
                 (size_t)a->config.hidden, node_stride);
    return a->output.part.n_nodes;
}

const float *attention_output_bias(const struct attention *a)
{
    return a->output_bias;
}

struct head_range attention_output_rows(const struct attention *a)
{
    int n = a->options.n_ranks, rank = a->options.rank, hidden = a->config.hidden;
    return (struct head_range){ hidden * rank / n, hidden * (rank + 1) / n };
}

void attention_output_bitnet(struct attention *a, const struct attention_step *step, const float *heads,
                             float *out)
{
    assert(a->config.bitnet);
    linear_apply_bit(&a->output, a->options.kernels, heads, (size_t)a->output.n_inputs, step->n_rows, out,
                     (size_t)a->output.n_outputs, a->row_scratch);
}

struct attention_cost attention_cost(const struct attention *a)
{
    struct attention_cost cost = { 0 };
    cost.weight_bytes = linear_bytes(&a->output) + (a->gate.n_outputs > 0 ? linear_bytes(&a->gate) : 0)
                      + (a->latent != NULL ? latent_front_bytes(a) : kv_front_bytes(a));
    cost.multiply_adds_per_row = (int64_t)((double)cost.weight_bytes * 8
                                           / weight_type_bits(a->options.weight_type));
    for (int g = 0; g < a->n_groups; g++) {
        const struct attend_group *group = &a->groups[g];
        cost.multiply_adds_per_cached_row +=
            (int64_t)group->n_queries * (group->query_width + group->value_width);
        if (group->decompress != NULL)
            cost.multiply_adds_per_cached_row += (int64_t)group->query_width * group->key_width[0];
    }
    return cost;
}
