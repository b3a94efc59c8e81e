#include "attention/attention_config.h"

#include "base/reduce_tree.h"

#include <assert.h>
#include <stdio.h>

/* ---- checks ---- */

static enum status check_sizes(const struct attention_config *c, struct error *err)
{
    if (c->n_heads < 1 || c->n_heads > ATTENTION_MAX_HEADS)
        return fail(err, STATUS_BAD_MODEL, "%s: number of heads must be between 1 and %d, got %d",
                    c->label, ATTENTION_MAX_HEADS, c->n_heads);
    if (c->hidden < 1 || c->nope_dim < 0 || c->value_dim < 1 || c->nope_dim + c->rope_dim < 1)
        return fail(err, STATUS_BAD_MODEL, "%s: hidden size %d, head width %d and value width %d must be positive",
                    c->label, c->hidden, c->nope_dim, c->value_dim);
    int rotated = c->rope == ROPE_DECOUPLED ? c->rope_dim : c->rope == ROPE_NONE ? 0 : c->nope_dim;
    if (rotated % 2 != 0)
        return fail(err, STATUS_BAD_MODEL, "%s: RoPE needs an even width, got %d", c->label, rotated);
    if (c->rope != ROPE_NONE && !(c->rope_base > 0))
        return fail(err, STATUS_BAD_MODEL, "%s: RoPE base must be positive, got %g", c->label, c->rope_base);
    if (c->n_kv_heads < 1 || c->n_heads % c->n_kv_heads != 0)
        return fail(err, STATUS_BAD_MODEL, "%s: number of KV heads must divide the %d heads, got %d",
                    c->label, c->n_heads, c->n_kv_heads);
    return STATUS_OK;
}

static enum status check_latents(const struct attention_config *c, struct error *err)
{
    if (c->n_latents < 1 || c->n_latents > ATTENTION_MAX_LATENTS || c->latent_dim < 1)
        return fail(err, STATUS_BAD_MODEL, "%s: needs 1 to %d latents of at least 1, got %d latents of %d",
                    c->label, ATTENTION_MAX_LATENTS, c->n_latents, c->latent_dim);
    if (c->kind == ATTENTION_GLA && c->n_heads % c->n_latents != 0)
        return fail(err, STATUS_BAD_MODEL, "%s: the %d latents must divide the %d heads", c->label,
                    c->n_latents, c->n_heads);
    if (c->kind == ATTENTION_MLRA && c->n_heads * c->nope_dim % c->n_latents != 0)
        return fail(err, STATUS_BAD_MODEL, "%s: num_heads*head_dim = %d must be divisible by "
                    "mlra_num_latent_heads = %d", c->label, c->n_heads * c->nope_dim, c->n_latents);
    if (c->kind == ATTENTION_MLRA_PAPER && (c->n_latents != 4 || c->n_heads % 2 != 0))
        return fail(err, STATUS_BAD_MODEL, "%s: needs 4 latents and an even number of heads, got %d and %d",
                    c->label, c->n_latents, c->n_heads);
    return STATUS_OK;
}

enum status attention_config_check(const struct attention_config *c, struct error *err)
{
    TRY(check_sizes(c, err));
    if (c->kind == ATTENTION_GQA)
        return STATUS_OK;
    if (c->kind != ATTENTION_CCA)
        return check_latents(c, err);
    if (c->conv_kernel_seq < 1 || c->conv_kernel_seq > ATTENTION_MAX_CONV
        || c->conv_kernel_ch < 1 || c->conv_kernel_ch > ATTENTION_MAX_CONV)
        return fail(err, STATUS_BAD_MODEL, "%s: convolution kernels must be between 1 and %d, got %d and %d",
                    c->label, ATTENTION_MAX_CONV, c->conv_kernel_seq, c->conv_kernel_ch);
    return STATUS_OK;
}

/* ---- degrees ---- */

/* Each sharing unit (latent or KV head) lies on one rank, or is shared by
 * several that split its heads. */
static int divides_units(int n_units, int n_heads, int n_ranks)
{
    if (n_units % n_ranks == 0)
        return n_heads % n_ranks == 0;
    return n_ranks % n_units == 0 && n_heads % n_ranks == 0;
}

/* Block-diagonal MLRA: no head's latents may cross a rank's border. */
static int mlra_borders_clean(const struct attention_config *c, int n_ranks)
{
    if (c->n_latents % n_ranks != 0)
        return 1;
    int per_rank = c->n_latents / n_ranks;
    for (int head = 0; head < c->n_heads; head++) {
        int last, first = attention_branch_latent(c, head, 0, &last);
        if (first / per_rank != last / per_rank)
            return 0;
    }
    return 1;
}

int attention_ranks_valid(const struct attention_config *c, int n_ranks)
{
    if (n_ranks < 1 || n_ranks > REDUCE_MAX_LEAVES || c->n_heads % n_ranks != 0
        || attention_output_leaves(c) % n_ranks != 0)
        return 0;
    switch (c->kind) {
    case ATTENTION_MLA:
    case ATTENTION_MLA_ROPE:
        return c->rope != ROPE_DECOMPRESSED || divides_units(c->n_kv_heads, c->n_heads, n_ranks);
    case ATTENTION_MLRA:
        return divides_units(c->n_latents, c->n_heads, n_ranks) && mlra_borders_clean(c, n_ranks);
    case ATTENTION_MLRA_PAPER:
        return 4 % n_ranks == 0
            || (n_ranks % 4 == 0 && c->n_heads * c->n_branches / 4 % (n_ranks / 4) == 0);
    case ATTENTION_GLA:
        return divides_units(c->n_latents, c->n_heads, n_ranks);
    case ATTENTION_CCA:
    case ATTENTION_GQA:
        return divides_units(c->n_kv_heads, c->n_heads, n_ranks);
    }
    return 0;
}

enum status attention_check_ranks(const struct attention_config *c, int n_ranks, struct error *err)
{
    if (attention_ranks_valid(c, n_ranks))
        return STATUS_OK;
    char list[80];
    int at = 0;
    for (int n = 1; n <= 16; n++)
        if (attention_ranks_valid(c, n))
            at += snprintf(list + at, sizeof list - (size_t)at, "%s%d", at > 0 ? ", " : "", n);
    return fail(err, STATUS_BAD_OPTION, "%s with %d heads, %d latents and %d KV heads cannot lie on %d ranks; "
                "valid degrees are %s", c->label, c->n_heads, c->n_latents, c->n_kv_heads, n_ranks, list);
}

/* ---- who holds what ---- */

int attention_branch_latent(const struct attention_config *c, int head, int branch, int *last)
{
    int latent = 0;
    switch (c->kind) {
    case ATTENTION_MLRA: {
        int rows_per_latent = c->n_heads * c->nope_dim / c->n_latents;
        *last = ((head + 1) * c->nope_dim - 1) / rows_per_latent;
        return head * c->nope_dim / rows_per_latent;
    }
    case ATTENTION_GLA:
        latent = head / (c->n_heads / c->n_latents);
        break;
    case ATTENTION_MLRA_PAPER:
        /* MLRA-2 as the authors' code has it: blocks 0 and 2 serve the first
         * half of the heads, 1 and 3 the second. */
        latent = c->n_branches == 4 ? branch : head / (c->n_heads / 2) + 2 * branch;
        break;
    default:
        break;
    }
    *last = latent;
    return latent;
}

/* Paper MLRA on n ranks: rank r of the first min(n, 4) groups.  MLRA-4 gives a
 * group consecutive latents; MLRA-2 keeps the two latents of a half of the
 * heads together first, so that two ranks need no sum over branches. */
static int paper_latents(const struct attention_config *c, int n_ranks, int rank, int latents[])
{
    int n_groups = n_ranks < 4 ? n_ranks : 4;
    int group = rank / (n_ranks / n_groups);
    static const int mlra_2_order[4] = { 0, 2, 1, 3 };
    int per_group = 4 / n_groups;
    for (int i = 0; i < per_group; i++) {
        int at = group * per_group + i;
        latents[i] = c->n_branches == 4 ? at : mlra_2_order[at];
    }
    return per_group;
}

int attention_rank_latents(const struct attention_config *c, int n_ranks, int rank,
                           int latents[ATTENTION_MAX_LATENTS])
{
    if (c->kind == ATTENTION_MLRA_PAPER)
        return paper_latents(c, n_ranks, rank, latents);
    if (c->kind == ATTENTION_CCA || c->kind == ATTENTION_GQA)
        return 0;
    struct head_range heads = attention_rank_heads(c, n_ranks, rank);
    int last, unused;
    int first = attention_branch_latent(c, heads.begin, 0, &unused);
    attention_branch_latent(c, heads.end - 1, 0, &last);
    for (int l = first; l <= last; l++)
        latents[l - first] = l;
    return last - first + 1;
}

struct head_range attention_output_heads(const struct attention_config *c, int n_ranks, int rank)
{
    int per_rank = c->n_heads / n_ranks;
    return (struct head_range){ rank * per_rank, (rank + 1) * per_rank };
}

struct head_range attention_rank_heads(const struct attention_config *c, int n_ranks, int rank)
{
    if (c->kind != ATTENTION_MLRA_PAPER)
        return attention_output_heads(c, n_ranks, rank);
    int latents[ATTENTION_MAX_LATENTS];
    int n = paper_latents(c, n_ranks, rank, latents);
    struct head_range all = { 0, c->n_heads };
    if (c->n_branches == 2 && n <= 2) {
        int half = c->n_heads / 2;
        all.begin = latents[0] % 2 * half;
        all.end = all.begin + half;
    }
    int split = n_ranks > 4 ? n_ranks / 4 : 1;      /* ranks that share one latent */
    int per_rank = (all.end - all.begin) / split;
    int part = rank % split;
    return (struct head_range){ all.begin + part * per_rank, all.begin + (part + 1) * per_rank };
}

struct head_range attention_rank_kv_heads(const struct attention_config *c, int n_ranks, int rank)
{
    struct head_range heads = attention_rank_heads(c, n_ranks, rank);
    int group = c->n_heads / c->n_kv_heads;
    return (struct head_range){ heads.begin / group, (heads.end - 1) / group + 1 };
}

int attention_branch_ranks(const struct attention_config *c, int n_ranks, int head, int ranks[4])
{
    if (c->kind != ATTENTION_MLRA_PAPER) {
        ranks[0] = head / (c->n_heads / n_ranks);
        return 1;
    }
    int n = 0;
    for (int branch = 0; branch < c->n_branches; branch++) {
        int last, latent = attention_branch_latent(c, head, branch, &last);
        for (int rank = 0; rank < n_ranks; rank++) {
            struct head_range heads = attention_rank_heads(c, n_ranks, rank);
            if (head < heads.begin || head >= heads.end)
                continue;
            int latents[ATTENTION_MAX_LATENTS];
            int n_held = attention_rank_latents(c, n_ranks, rank, latents);
            for (int i = 0; i < n_held; i++)
                if (latents[i] == latent && (n == 0 || ranks[n - 1] != rank))
                    ranks[n++] = rank;
        }
    }
    assert(n >= 1 && n <= 4);
    return n;
}

int attention_output_leaves(const struct attention_config *c)
{
    return reduce_leaf_count(c->n_heads);
}

static void add_segment(struct cache_shape *shape, int width)
{
    assert(shape->n_segments < CACHE_MAX_SEGMENTS);
    shape->segment_width[shape->n_segments++] = width;
}

void attention_cache_shape(const struct attention_config *c, int n_ranks, int rank,
                           struct cache_shape *shape)
{
    *shape = (struct cache_shape){ 0 };
    if (c->kind == ATTENTION_CCA || c->kind == ATTENTION_GQA) {
        struct head_range kv = attention_rank_kv_heads(c, n_ranks, rank);
        for (int h = kv.begin; h < kv.end; h++) {
            add_segment(shape, c->nope_dim);
            add_segment(shape, c->value_dim);
        }
        if (c->kind == ATTENTION_CCA) {
            int group = c->n_heads / c->n_kv_heads;
            int channels = (kv.end - kv.begin) * (group + 1) * c->nope_dim;
            int history = c->n_conv == 0 ? 0 : c->conv_kernel_seq - 1 + (c->n_conv > 1 ? c->conv_kernel_ch - 1 : 0);
            shape->tail_width = channels * history
                              + (c->value_shift ? (kv.end - kv.begin) * c->value_dim : 0);
        }
        return;
    }
    int latents[ATTENTION_MAX_LATENTS];
    int n = attention_rank_latents(c, n_ranks, rank, latents);
    for (int i = 0; i < n; i++)
        add_segment(shape, c->latent_dim);
    if (c->rope == ROPE_DECOUPLED)
        add_segment(shape, c->rope_dim);
}
