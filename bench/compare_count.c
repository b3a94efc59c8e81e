#include "bench/compare_count.h"

#include "model/layer.h"

#include <stdio.h>

const char compare_part_choices[] = "kernel attention layer model";

const char *compare_part_name(enum compare_part part)
{
    static const char *const names[] = { "kernel", "attention", "layer", "model" };
    return names[part];
}

enum status compare_check_ranks(const struct compare_formulation *f, int n_ranks, struct error *err)
{
    if (n_ranks > COMPARE_MAX_RANKS)
        return fail(err, STATUS_BAD_OPTION, "at most %d ranks can be compared, got %d", COMPARE_MAX_RANKS, n_ranks);
    TRY(attention_check_ranks(&f->attention, n_ranks, err));
    if (f->by_chunk && !attention_may_shard_by_chunk(&f->attention, n_ranks))
        return fail(err, STATUS_BAD_OPTION, "%s: the cache cannot be sharded by chunk over %d ranks, at most %d",
                    f->name, n_ranks, ATTEND_LANES);
    return STATUS_OK;
}

static int is_kv_kind(const struct attention_config *c)
{
    return c->kind == ATTENTION_CCA || c->kind == ATTENTION_GQA;
}

int64_t compare_own_positions(const struct compare_formulation *f, int n_ranks, int rank, int64_t context)
{
    if (!f->by_chunk || n_ranks == 1)
        return context;
    int64_t own = 0;
    for (int64_t first = 0; first < context; first += ATTEND_MAX_CHUNK) {
        int64_t n = context - first < ATTEND_MAX_CHUNK ? context - first : ATTEND_MAX_CHUNK;
        own += attend_owner(n_ranks, ATTEND_MAX_CHUNK, (int)first) == rank ? n : 0;
    }
    return own;
}

/* ---- one layer's attention ---- */

struct latent_sums {
    int64_t absorb, value_up;   /* weights of W_UK and W_UV held */
    int64_t per_cached_row;     /* multiply-adds of scores and values */
};

static int holds(const int *latents, int n, int latent)
{
    for (int i = 0; i < n; i++)
        if (latents[i] == latent)
            return 1;
    return 0;
}

static struct latent_sums sum_branches(const struct attention_config *c, int n_ranks, int rank)
{
    struct latent_sums sums = { 0 };
    int latents[ATTENTION_MAX_LATENTS];
    int n = attention_rank_latents(c, n_ranks, rank, latents);
    struct head_range heads = attention_rank_heads(c, n_ranks, rank);
    for (int head = heads.begin; head < heads.end; head++)
        for (int branch = 0; branch < c->n_branches; branch++) {
            int last, first = attention_branch_latent(c, head, branch, &last);
            if (!holds(latents, n, first))
                continue;
            int64_t width = (int64_t)(last - first + 1) * c->latent_dim;
            sums.value_up += c->value_dim * width;
            if (c->rope == ROPE_DECOMPRESSED) {
                sums.per_cached_row += c->nope_dim + width;
                continue;
            }
            sums.absorb += c->nope_dim * width;
            sums.per_cached_row += 2 * width + c->rope_dim;
        }
    if (c->rope == ROPE_DECOMPRESSED) {     /* one key up-projection of each KV head, per cached row */
        int group = c->n_heads / c->n_kv_heads;
        int64_t keys = (int64_t)((heads.end - 1) / group - heads.begin / group + 1) * c->nope_dim * c->latent_dim;
        sums.absorb += keys;
        sums.per_cached_row += keys;
    }
    return sums;
}

/* Weights of everything before the cache: query and cached row.  *small are
 * added the convolutions' among them. */
static int64_t front_weights(const struct attention_config *c, int n_ranks, int rank, int64_t *small)
{
    struct head_range heads = attention_rank_heads(c, n_ranks, rank);
    int64_t n_heads = heads.end - heads.begin, hidden = c->hidden;
    if (is_kv_kind(c)) {
        struct head_range kv = attention_rank_kv_heads(c, n_ranks, rank);
        int64_t n_kv = kv.end - kv.begin;
        int64_t fronts = c->kind == ATTENTION_CCA ? n_kv * (c->n_heads / c->n_kv_heads) : n_heads;
        int64_t channels = (fronts + n_kv) * c->nope_dim;
        int64_t conv = c->kind != ATTENTION_CCA ? 0
                     : (c->n_conv >= 1 ? channels * c->conv_kernel_seq : 0)
                     + (c->n_conv >= 2 ? channels * c->nope_dim * c->conv_kernel_ch : 0);
        *small += conv;
        return (channels + n_kv * c->value_dim) * hidden + conv;
    }
    int latents[ATTENTION_MAX_LATENTS];
    int64_t row = (int64_t)attention_rank_latents(c, n_ranks, rank, latents) * c->latent_dim + c->rope_dim;
    int64_t query = n_heads * (c->nope_dim + c->rope_dim);
    int64_t lq = c->query_latent_dim;
    return row * hidden + (lq > 0 ? lq * hidden + query * lq : query * hidden);
}

struct head_range compare_output_heads(const struct compare_formulation *f, int n_ranks, int rank)
{
    return f->replicated_output ? attention_rank_heads(&f->attention, n_ranks, rank)
                                : attention_output_heads(&f->attention, n_ranks, rank);
}

static int64_t output_weights(const struct compare_formulation *f, int n_ranks, int rank)
{
    const struct attention_config *c = &f->attention;
    struct head_range out = compare_output_heads(f, n_ranks, rank);
    return (int64_t)(out.end - out.begin) * c->value_dim * c->hidden * (c->gated ? 2 : 1);
}

static void count_attention(const struct compare_point *p, int rank, struct compare_work *w)
{
    const struct attention_config *c = &p->formulation->attention;
    struct head_range heads = attention_rank_heads(c, p->n_ranks, rank);
    int64_t own = compare_own_positions(p->formulation, p->n_ranks, rank, p->context) * p->batch;
    w->n_heads = heads.end - heads.begin;
    int64_t per_cached_row, kernel_weights = 0;
    if (is_kv_kind(c)) {
        struct head_range kv = attention_rank_kv_heads(c, p->n_ranks, rank);
        w->n_latents = kv.end - kv.begin;
        per_cached_row = (int64_t)w->n_heads * (c->nope_dim + c->value_dim);
    } else {
        int latents[ATTENTION_MAX_LATENTS];
        w->n_latents = attention_rank_latents(c, p->n_ranks, rank, latents);
        struct latent_sums sums = sum_branches(c, p->n_ranks, rank);
        per_cached_row = sums.per_cached_row * (p->formulation->by_chunk ? p->n_ranks : 1);
        kernel_weights = sums.value_up;
        w->small_weights = sums.absorb + kernel_weights;
    }
    w->attend_macs = per_cached_row * own;
    w->projection_weights = w->small_weights + output_weights(p->formulation, p->n_ranks, rank);
    w->projection_weights += front_weights(c, p->n_ranks, rank, &w->small_weights);
    if (p->part == COMPARE_KERNEL)
        w->projection_weights = w->small_weights = kernel_weights;
    /* Keys are decompressed inside the kernel; their weights are read there, once. */
    w->projection_macs = w->projection_weights * p->batch;

    struct cache_shape shape;
    struct cache_layout layout;
    attention_cache_shape(c, p->n_ranks, rank, &shape);
    cache_layout_init(&layout, p->cache_type, p->block_size, &shape);
    int64_t row_bytes = (int64_t)cache_layout_token_bytes(&layout);
    int share = p->formulation->by_chunk ? p->n_ranks : 1;
    w->cache_bytes_per_token = (row_bytes + share - 1) / share;
    w->cache_bytes_read = row_bytes * own;
    int writes = !p->formulation->by_chunk || attend_owner(p->n_ranks, ATTEND_MAX_CHUNK, (int)(p->context - 1)) == rank;
    w->cache_bytes_written = p->part == COMPARE_KERNEL || !writes ? 0 : row_bytes * p->batch;
}

/* ---- collectives of one layer ---- */

static void add_exchange(struct compare_work *w, int64_t sent, int64_t read, int64_t link)
{
    w->exchanges[w->n_exchanges++] = (struct compare_exchange){ sent, read, link, 1 };
}

static int64_t sum_nodes(int n_leaves, int n_ranks, int rank, int *own)
{
    int64_t all = 0;
    for (int r = 0; r < n_ranks; r++) {
        struct reduce_part part;
        reduce_part_init(&part, n_leaves, n_leaves * r / n_ranks, n_leaves * (r + 1) / n_ranks);
        all += part.n_nodes;
        if (r == rank)
            *own = part.n_nodes;
    }
    return all;
}

/* Sum of partials [batch][H], whose tree has n_leaves leaves. */
static void add_all_reduce(const struct compare_point *p, int rank, int n_leaves, struct compare_work *w)
{
    int own = 1;
    int64_t nodes = sum_nodes(n_leaves, p->n_ranks, rank, &own);
    int64_t count = (int64_t)p->batch * p->formulation->attention.hidden;
    add_exchange(w, count * own, count * nodes, 2 * count * (p->n_ranks - 1) / p->n_ranks);
}

/* The same of partials that are one sum each, branches included. */
static void add_plain_all_reduce(const struct compare_point *p, struct compare_work *w)
{
    int64_t count = (int64_t)p->batch * p->formulation->attention.hidden;
    add_exchange(w, count, count * p->n_ranks, 2 * count * (p->n_ranks - 1) / p->n_ranks);
}

/* Heads whose branches lie on several ranks: reduce-scatter over heads. */
static void add_branch_exchange(const struct compare_point *p, int rank, struct compare_work *w)
{
    const struct attention_config *c = &p->formulation->attention;
    struct head_range own = attention_rank_heads(c, p->n_ranks, rank);
    struct head_range out = attention_output_heads(c, p->n_ranks, rank);
    int ranks[4];
    int64_t parts = 0, row = (int64_t)p->batch * c->value_dim;
    for (int head = out.begin; head < out.end; head++)
        parts += attention_branch_ranks(c, p->n_ranks, head, ranks);
    if (parts == out.end - out.begin && own.begin == out.begin && own.end == out.end)
        return;
    int64_t sent = row * (own.end - own.begin);
    add_exchange(w, sent, row * parts, sent - row * (out.end - out.begin));
}

/* By chunk: the queries of all heads, then the partials of the own heads. */
static void add_chunk_exchanges(const struct compare_point *p, int rank, struct compare_work *w)
{
    const struct attention_config *c = &p->formulation->attention;
    int64_t queries = (int64_t)p->batch * c->n_heads * (c->latent_dim + c->rope_dim), nodes = 0;
    for (int r = 0; r < p->n_ranks; r++)
        nodes += (int64_t)attention_chunk_node_floats(c, p->n_ranks, r) * p->batch;
    int64_t own_nodes = (int64_t)attention_chunk_node_floats(c, p->n_ranks, rank) * p->batch;
    int64_t others = p->n_ranks - 1;
    add_exchange(w, queries / p->n_ranks, queries, queries / p->n_ranks * others);
    add_exchange(w, own_nodes, nodes / p->n_ranks, own_nodes / p->n_ranks * others);
}

static void count_exchanges(const struct compare_point *p, int rank, struct compare_work *w)
{
    if (p->n_ranks == 1)
        return;
    if (p->formulation->by_chunk)
        add_chunk_exchanges(p, rank, w);
    if (p->part == COMPARE_KERNEL)
        return;
    if (p->formulation->replicated_output) {
        add_plain_all_reduce(p, w);
    } else {
        add_branch_exchange(p, rank, w);
        add_all_reduce(p, rank, attention_output_leaves(&p->formulation->attention), w);
    }
    if (p->part >= COMPARE_LAYER)
        add_all_reduce(p, rank, MLP_LEAVES, w);
}

/* ---- all of it ---- */

static int64_t mlp_weights(const struct compare_formulation *f, int n_ranks, int rank)
{
    int first = linear_leaf_column(f->intermediate, MLP_LEAVES, MLP_LEAVES * rank / n_ranks);
    int end = linear_leaf_column(f->intermediate, MLP_LEAVES, MLP_LEAVES * (rank + 1) / n_ranks);
    return (int64_t)(end - first) * f->attention.hidden * 3;
}

/* The head is cut in whole panels; the first rank's share is the smallest. */
static int64_t head_weights(const struct compare_formulation *f, int n_ranks, int rank)
{
    int64_t n_panels = (f->vocab + PANEL_WIDTH - 1) / PANEL_WIDTH;
    int64_t first = n_panels * rank / n_ranks * PANEL_WIDTH, end = n_panels * (rank + 1) / n_ranks * PANEL_WIDTH;
    end = end < f->vocab ? end : f->vocab;
    return (end - first) * f->attention.hidden;
}

static void multiply_by_layers(struct compare_work *w, int n_layers)
{
    int64_t *const numbers[] = { &w->cache_bytes_read, &w->cache_bytes_written, &w->projection_weights,
                                 &w->small_weights, &w->mlp_weights, &w->projection_macs, &w->attend_macs, &w->mlp_macs };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *numbers[i] *= n_layers;
    for (int i = 0; i < w->n_exchanges; i++)
        w->exchanges[i].repeats = n_layers;
}

void compare_count(const struct compare_point *p, int rank, struct compare_work *out)
{
    *out = (struct compare_work){ 0 };
    count_attention(p, rank, out);
    count_exchanges(p, rank, out);
    if (p->part >= COMPARE_LAYER) {
        out->mlp_weights = mlp_weights(p->formulation, p->n_ranks, rank);
        out->mlp_macs = out->mlp_weights * p->batch;
    }
    if (p->part < COMPARE_MODEL)
        return;
    multiply_by_layers(out, p->formulation->n_layers);
    out->head_weights = head_weights(p->formulation, p->n_ranks, rank);
    out->head_macs = out->head_weights * p->batch;
}

int64_t compare_projection_bytes(const struct compare_point *p, const struct compare_work *w)
{
    double large = weight_type_bits(p->weight_type) / 8, small = weight_type_bits(weight_type_of_small(p->weight_type)) / 8;
    return (int64_t)((double)(w->projection_weights - w->small_weights) * large + (double)w->small_weights * small);
}

int64_t compare_weight_bytes(const struct compare_point *p, const struct compare_work *w)
{
    double bytes = weight_type_bits(p->weight_type) / 8;
    return compare_projection_bytes(p, w) + (int64_t)((double)(w->mlp_weights + w->head_weights) * bytes);
}

int64_t compare_macs(const struct compare_work *w)
{
    return w->projection_macs + w->attend_macs + w->mlp_macs + w->head_macs;
}

int64_t compare_collective_bytes(const struct compare_work *w)
{
    int64_t bytes = 0;
    for (int i = 0; i < w->n_exchanges; i++)
        bytes += w->exchanges[i].sent * w->exchanges[i].repeats * (int64_t)sizeof(float);
    return bytes;
}

int64_t compare_tokens_that_fit(const struct compare_point *point, int64_t device_memory)
{
    struct compare_point whole = *point;
    whole.part = COMPARE_MODEL;
    int64_t least = INT64_MAX;
    for (int rank = 0; rank < point->n_ranks; rank++) {
        struct compare_work w;
        compare_count(&whole, rank, &w);
        int64_t room = device_memory - compare_weight_bytes(&whole, &w);
        int64_t tokens = room > 0 ? room / (w.cache_bytes_per_token * point->formulation->n_layers) : 0;
        least = tokens < least ? tokens : least;
    }
    return least;
}
