#include "model/layer.h"

#include <assert.h>
#include <string.h>

/* ---- shapes of the exchanges ---- */

int layer_mlp_ranks_valid(int n_ranks)
{
    return n_ranks >= 1 && n_ranks <= MLP_LEAVES;
}

static int mlp_leaf(int n_ranks, int rank)
{
    return MLP_LEAVES * rank / n_ranks;
}

static int most_nodes(int n_leaves, int n_parts)
{
    int most = 1;
    for (int p = 0; p < n_parts; p++) {
        struct reduce_part part;
        reduce_part_init(&part, n_leaves, n_leaves * p / n_parts, n_leaves * (p + 1) / n_parts);
        most = part.n_nodes > most ? part.n_nodes : most;
    }
    return most;
}

size_t layer_max_exchange(const struct attention_config *attention, int hidden, int n_ranks, int max_rows,
                          int by_chunk)
{
    int nodes = most_nodes(attention_output_leaves(attention), n_ranks);
    int mlp_nodes = most_nodes(MLP_LEAVES, n_ranks);
    size_t sum = (size_t)hidden * (size_t)(nodes > mlp_nodes ? nodes : mlp_nodes);
    size_t heads = (size_t)attention->n_heads * (size_t)attention->value_dim;
    size_t most = sum > heads ? sum : heads;
    for (int rank = 0; by_chunk && rank < n_ranks; rank++) {
        size_t nodes_of_row = attention_chunk_node_floats(attention, n_ranks, rank);
        size_t queries = (size_t)attention->n_heads * (size_t)(attention->latent_dim + attention->rope_dim);
        most = nodes_of_row > most ? nodes_of_row : most;
        most = queries > most ? queries : most;
    }
    return (size_t)max_rows * most;
}

/* Do some rank's finished heads differ from the heads it computes? */
static int needs_branch_exchange(const struct attention_config *c, int n_ranks)
{
    int ranks[4];
    for (int head = 0; head < c->n_heads; head++)
        if (attention_branch_ranks(c, n_ranks, head, ranks) > 1)
            return 1;
    for (int rank = 0; rank < n_ranks; rank++) {
        struct head_range a = attention_rank_heads(c, n_ranks, rank);
        struct head_range b = attention_output_heads(c, n_ranks, rank);
        if (a.begin != b.begin || a.end != b.end)
            return 1;
    }
    return 0;
}

/* ---- create ---- */

static void plan_sum(struct reduce_plan *plan, int n_leaves, int n_ranks)
{
    int begin[REDUCE_MAX_LEAVES + 1];
    for (int r = 0; r <= n_ranks; r++)
        begin[r] = n_leaves * r / n_ranks;
    reduce_plan_init(plan, n_leaves, n_ranks, begin);
}

enum status layer_shared_create(struct layer_shared *s, const struct attention_config *attention,
                                const struct attention_options *options, int hidden, int intermediate,
                                float norm_eps, struct comm *comm, struct arena *scratch, struct error *err)
{
    *s = (struct layer_shared){
        .attention = *attention, .options = *options, .hidden = hidden, .intermediate = intermediate,
        .norm_eps = norm_eps, .comm = comm,
        .exchanges_branches = needs_branch_exchange(attention, options->n_ranks),
    };
    plan_sum(&s->attention_plan, attention_output_leaves(attention), options->n_ranks);
    plan_sum(&s->mlp_plan, MLP_LEAVES, options->n_ranks);
    size_t rows = (size_t)options->max_rows;
    size_t heads = (size_t)attention->n_heads * (size_t)attention->value_dim;
    int own = intermediate / options->n_ranks + intermediate / MLP_LEAVES + 4;
    TRY(arena_take(scratch, rows, (size_t)hidden * 4, (void **)&s->normed, err));
    TRY(arena_take(scratch, rows, (size_t)own * 4, (void **)&s->gated, err));
    TRY(ARENA_ARRAY(scratch, GATED_FLOATS, &s->between, err));
    TRY(arena_take(scratch, rows, (size_t)hidden * 4, (void **)&s->sum, err));
    return arena_take(scratch, rows, heads * 4, (void **)&s->all_heads, err);
}

static enum status create_mlp(struct layer *layer, const struct layer_weights *w, struct arena *weights,
                              struct error *err)
{
    const struct layer_shared *s = layer->shared;
    int first_leaf = mlp_leaf(s->options.n_ranks, s->options.rank);
    int end_leaf = mlp_leaf(s->options.n_ranks, s->options.rank + 1);
    int first = linear_leaf_column(s->intermediate, MLP_LEAVES, first_leaf);
    int n = linear_leaf_column(s->intermediate, MLP_LEAVES, end_leaf) - first;
    struct matrix rows[2] = { matrix_rows(w->gate, first, n), matrix_rows(w->up, first, n) };
    struct linear_spec spec = {
        .type = s->options.weight_type, .rows = rows, .n_parts = 2, .gated = 1,
        .kernels = s->options.kernels, .scratch = s->options.scratch,
    };
    TRY(linear_create(&layer->gate_up, &spec, weights, err));
    struct matrix columns = matrix_columns(w->down, first, n);
    spec = (struct linear_spec){
        .type = s->options.weight_type, .rows = &columns, .n_parts = 1, .n_leaves = MLP_LEAVES,
        .leaf_begin = first_leaf, .leaf_end = end_leaf, .total_inputs = s->intermediate,
        .kernels = s->options.kernels, .scratch = s->options.scratch,
    };
    return linear_create(&layer->down, &spec, weights, err);
}

static enum status read_norm(const struct matrix *vector, struct arena *arena, const float **out,
                             struct error *err)
{
    float *copy;
    TRY(ARENA_ARRAY(arena, (size_t)vector->n_columns, &copy, err));
    matrix_read_row(vector, 0, copy);
    *out = copy;
    return STATUS_OK;
}

enum status layer_create(struct layer *layer, struct layer_shared *shared, const struct layer_weights *weights,
                         struct arena *weight_arena, struct arena *scratch_arena, struct error *err)
{
    *layer = (struct layer){ .shared = shared };
    TRY(read_norm(&weights->input_norm, weight_arena, &layer->input_norm, err));
    TRY(read_norm(&weights->post_norm, weight_arena, &layer->post_norm, err));
    TRY(attention_create(&layer->attention, &shared->attention, &weights->attention, &shared->options,
                         weight_arena, scratch_arena, err));
    return create_mlp(layer, weights, weight_arena, err);
}

/* ---- sums across ranks ---- */

/* sum[row] += from[row], both with their own strides, as wide as a head. */
static void add_heads(const struct kernels *k, float *to, size_t to_stride, const float *from,
                      size_t from_stride, int n_rows, int width, int first)
{
    for (int r = 0; r < n_rows; r++) {
        float *t = to + (size_t)r * to_stride;
        const float *f = from + (size_t)r * from_stride;
        if (first)
            memcpy(t, f, (size_t)width * sizeof *t);
        else
            k->add(t, f, width);
    }
}

/* Head `head` of rank's outbox, as [n_rows][stride]. */
static const float *peer_head(const struct layer_shared *s, int peer, int head, size_t *stride)
{
    const struct attention_config *c = &s->attention;
    struct head_range heads = attention_rank_heads(c, s->options.n_ranks, peer);
    *stride = (size_t)((heads.end - heads.begin) * c->value_dim);
    return comm_inbox(s->comm, s->options.rank, peer) + (head - heads.begin) * c->value_dim;
}

/* to = the sum over a head's branches: parts of 1, 2 or 4 ranks as a tree.
 * half [n_rows][V] is scratch for the second pair of four. */
static void sum_branches(struct layer_shared *s, int head, int n_rows, float *to, size_t to_stride)
{
    const struct attention_config *c = &s->attention;
    const struct kernels *k = s->options.kernels;
    int ranks[4], n = attention_branch_ranks(c, s->options.n_ranks, head, ranks);
    size_t width = (size_t)c->value_dim, stride;
    for (int pair = 0; pair < n; pair += 2) {
        float *sum = pair == 0 ? to : s->sum;
        size_t sum_stride = pair == 0 ? to_stride : width;
        for (int i = pair; i < pair + 2 && i < n; i++) {
            const float *from = peer_head(s, ranks[i], head, &stride);
            add_heads(k, sum, sum_stride, from, stride, n_rows, c->value_dim, i == pair);
        }
    }
    if (n > 2)
        add_heads(k, to, to_stride, s->sum, width, n_rows, c->value_dim, 0);
}

/* Publish own heads, then take [begin, end) complete into all_heads. */
static enum status exchange_heads(struct layer_shared *s, struct attention *attention, int n_rows,
                                  struct head_range want)
{
    const struct attention_config *c = &s->attention;
    struct head_range own = attention_rank_heads(c, s->options.n_ranks, s->options.rank);
    size_t n = (size_t)n_rows * (size_t)((own.end - own.begin) * c->value_dim);
    memcpy(comm_outbox(s->comm, s->options.rank), attention_heads(attention), n * sizeof(float));
    TRY(comm_publish(s->comm, s->options.rank, n));
    size_t stride = (size_t)((want.end - want.begin) * c->value_dim);
    for (int head = want.begin; head < want.end; head++)
        sum_branches(s, head, n_rows, s->all_heads + (head - want.begin) * c->value_dim, stride);
    return STATUS_OK;
}

/* BitLinear's W_O: all heads to everyone, rows of the result back. */
static enum status bitnet_output(struct layer_shared *s, struct attention *attention,
                                 const struct attention_step *step, float *out)
{
    int rank = s->options.rank, n_ranks = s->options.n_ranks;
    TRY(exchange_heads(s, attention, step->n_rows, (struct head_range){ 0, s->attention.n_heads }));
    struct head_range rows = attention_output_rows(attention);
    attention_output_bitnet(attention, step, s->all_heads, comm_outbox(s->comm, rank));
    TRY(comm_publish(s->comm, rank, (size_t)step->n_rows * (size_t)(rows.end - rows.begin)));
    for (int peer = 0; peer < n_ranks; peer++) {
        int begin = s->hidden * peer / n_ranks, end = s->hidden * (peer + 1) / n_ranks;
        const float *from = comm_inbox(s->comm, rank, peer);
        for (int r = 0; r < step->n_rows; r++)
            memcpy(out + (size_t)r * (size_t)s->hidden + begin, from + (size_t)r * (size_t)(end - begin),
                   (size_t)(end - begin) * sizeof *out);
    }
    return STATUS_OK;
}

/* A cache sharded by chunk, few positions: their rows to everyone, own heads over all. */
static enum status attend_gathered(struct layer_shared *s, struct attention *attention,
                                   const struct attention_step *step)
{
    int rank = s->options.rank;
    const float *peers[ATTEND_LANES];
    TRY(comm_publish(s->comm, rank, attention_put_rows(attention, step, comm_outbox(s->comm, rank))));
    for (int peer = 0; peer < s->options.n_ranks; peer++)
        peers[peer] = comm_inbox(s->comm, rank, peer);
    attention_attend_rows(attention, step, peers);
    return STATUS_OK;
}

/* Many positions: queries to everyone, all heads over own chunks, partials to
 * everyone.  The queries are read where their ranks wrote them, while the nodes go into
 * the other outbox. */
static enum status attend_by_chunk(struct layer_shared *s, struct attention *attention,
                                   const struct attention_step *step)
{
    int rank = s->options.rank, n_ranks = s->options.n_ranks, width;
    const float *peers[ATTEND_LANES], *own = attention_queries(attention, &width);
    size_t n_queries = (size_t)step->n_rows * (size_t)(s->attention.n_heads / n_ranks * width);
    memcpy(comm_outbox(s->comm, rank), own, n_queries * sizeof *own);
    TRY(comm_publish(s->comm, rank, n_queries));
    for (int peer = 0; peer < n_ranks; peer++)
        peers[peer] = comm_inbox(s->comm, rank, peer);
    attention_attend_chunks(attention, step, peers, comm_outbox(s->comm, rank));
    TRY(comm_publish(s->comm, rank, (size_t)step->n_rows
                                        * attention_chunk_node_floats(&s->attention, n_ranks, rank)));
    for (int peer = 0; peer < n_ranks; peer++)
        peers[peer] = comm_inbox(s->comm, rank, peer);
    attention_merge_chunks(attention, step, peers);
    return STATUS_OK;
}

/* Own nodes of the sum over W_O's inputs to everyone. */
static enum status publish_output(struct layer_shared *s, struct attention *attention, const struct attention_step *step)
{
    float *heads = attention_heads(attention);
    int rank = s->options.rank;
    if (s->exchanges_branches) {
        TRY(exchange_heads(s, attention, step->n_rows,
                           attention_output_heads(&s->attention, s->options.n_ranks, rank)));
        heads = s->all_heads;
    }
    size_t count = (size_t)step->n_rows * (size_t)s->hidden;
    int n_nodes = attention_output(attention, step, heads, comm_outbox(s->comm, rank), count);
    return comm_publish(s->comm, rank, count * (size_t)n_nodes);
}

/* Attention, until finish_row has the rest: BitLinear's sums are in `sums`, others' nodes in the outboxes. */
static enum status attend(struct layer_shared *s, struct attention *attention, const struct attention_step *step,
                          const float *x, float *sums)
{
    attention_query(attention, step, x);
    if (s->options.by_chunk && attention_gathers_rows(attention, step))
        TRY(attend_gathered(s, attention, step));
    else if (s->options.by_chunk)
        TRY(attend_by_chunk(s, attention, step));
    else
        attention_attend(attention, step);
    return s->attention.bitnet ? bitnet_output(s, attention, step, sums) : publish_output(s, attention, step);
}

/* Of attention; NULL: the sums are there already. */
static const struct reduce_plan *output_plan(const struct layer_shared *s)
{
    return s->attention.bitnet ? NULL : &s->attention_plan;
}

/* sum[H] = row r of what all ranks have published (plan NULL: as it is), plus the bias if there is one. */
static void finish_row(const struct layer_shared *s, const struct reduce_plan *plan, const float *bias, int n_rows, int r,
                       float *sum)
{
    size_t hidden = (size_t)s->hidden;
    if (plan != NULL)
        comm_finish_sum(s->comm, s->options.rank, plan, (size_t)n_rows * hidden, (size_t)r * hidden, hidden, sum);
    if (bias != NULL)
        s->options.kernels->add(sum, bias, s->hidden);
}

enum status layer_attention(struct layer_shared *s, struct attention *attention,
                            const struct attention_step *step, const float *x, float *out)
{
    TRY(attend(s, attention, step, x, out));
    for (int r = 0; r < step->n_rows; r++)
        finish_row(s, output_plan(s), attention_output_bias(attention), step->n_rows, r,
                   out + (size_t)r * (size_t)s->hidden);
    return STATUS_OK;
}

static void norm_row(const struct layer_shared *s, const float *weight, const float *x, int r)
{
    size_t at = (size_t)r * (size_t)s->hidden;
    s->options.kernels->rms_norm(s->normed + at, x + at, weight, s->hidden, s->norm_eps, 1);
}

/* x += the sum, and its norm, a row at a time: each is read once while it is near. */
static void add_rows(const struct layer_shared *s, const struct reduce_plan *plan, const float *bias, const float *norm,
                     int n_rows, float *x)
{
    for (int r = 0; r < n_rows; r++) {
        size_t at = (size_t)r * (size_t)s->hidden;
        float *sum = plan == NULL ? s->sum + at : s->sum;
        finish_row(s, plan, bias, n_rows, r, sum);
        s->options.kernels->add(x + at, sum, s->hidden);
        if (norm != NULL)
            norm_row(s, norm, x, r);
    }
}

void layer_mlp(struct layer *layer, int n_rows, float *nodes)
{
    struct layer_shared *s = layer->shared;
    const struct kernels *k = s->options.kernels;
    size_t own = (size_t)layer->gate_up.n_gated, hidden = (size_t)s->hidden;
    linear_apply_gated(&layer->gate_up, k, s->normed, hidden, n_rows, s->between, s->gated, own);
    linear_apply(&layer->down, k, s->gated, own, n_rows, nodes, hidden, (size_t)n_rows * hidden);
}

void layer_begin(const struct layer *first, int n_rows, const float *x)
{
    for (int r = 0; r < n_rows; r++)
        norm_row(first->shared, first->input_norm, x, r);
}

enum status layer_run(struct layer *layer, const struct layer *next, const struct attention_step *step, float *x)
{
    struct layer_shared *s = layer->shared;
    int n_rows = step->n_rows;
    attention_append(layer->attention, step, s->normed);
    TRY(attend(s, layer->attention, step, s->normed, s->sum));
    add_rows(s, output_plan(s), attention_output_bias(layer->attention), layer->post_norm, n_rows, x);
    layer_mlp(layer, n_rows, comm_outbox(s->comm, s->options.rank));
    TRY(comm_publish(s->comm, s->options.rank, (size_t)(n_rows * layer->down.part.n_nodes) * (size_t)s->hidden));
    add_rows(s, &s->mlp_plan, NULL, next != NULL ? next->input_norm : NULL, n_rows, x);
    return STATUS_OK;
}

size_t layer_weight_bytes(const struct layer *layer)
{
    return attention_cost(layer->attention).weight_bytes + linear_bytes(&layer->gate_up)
         + linear_bytes(&layer->down);
}
