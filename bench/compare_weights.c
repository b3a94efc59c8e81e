#include "bench/compare_weights.h"

#include "base/rng.h"

#include <assert.h>

enum { SEED = 20260302 };

enum status compare_pool_init(struct compare_pool *pool, size_t n, struct error *err)
{
    *pool = (struct compare_pool){ .n = n };
    arena_init(&pool->arena);
    TRY(ARENA_ARRAY(&pool->arena, n, &pool->numbers, err));
    struct rng rng;
    rng_seed(&rng, SEED);
    /* A sum of four uniform bytes is near enough to normal; 148 is its deviation. */
    for (size_t i = 0; i < n; i += 2) {
        uint64_t bits = rng_next(&rng);
        for (size_t k = i; k < i + 2 && k < n; k++, bits >>= 32) {
            int sum = (int)(bits & 255) + (int)(bits >> 8 & 255) + (int)(bits >> 16 & 255) + (int)(bits >> 24 & 255);
            pool->numbers[k] = f32_to_bf16(0.02f / 148 * ((float)sum - 510.5f));
        }
    }
    return STATUS_OK;
}

void compare_pool_clear(struct compare_pool *pool)
{
    arena_clear(&pool->arena);
}

static size_t larger(size_t a, int64_t rows, int64_t columns)
{
    size_t b = (size_t)(rows * columns);
    return a > b ? a : b;
}

size_t compare_largest_matrix(const struct attention_config *c, int intermediate, int vocab)
{
    int64_t heads = c->n_heads, per_head = c->nope_dim + c->rope_dim + c->value_dim;
    int64_t from = c->query_latent_dim > c->hidden ? c->query_latent_dim : c->hidden;
    size_t most = larger(1, vocab, c->hidden);
    most = larger(most, intermediate, c->hidden);
    most = larger(most, 2 * heads * per_head, from);
    most = larger(most, heads * per_head, (int64_t)c->n_latents * c->latent_dim);
    return larger(most, heads * per_head * c->nope_dim, c->conv_kernel_ch);
}

struct matrix compare_matrix(const struct compare_pool *pool, int64_t n_rows, int64_t n_columns)
{
    assert((size_t)(n_rows * n_columns) <= pool->n);
    return (struct matrix){ pool->numbers, ELEMENT_BF16, n_rows, n_columns, n_columns, 1 };
}

static struct up_projection up(const struct compare_pool *pool, int64_t rows, int64_t columns, int stride,
                               int first_row)
{
    return (struct up_projection){ compare_matrix(pool, rows, columns), stride, first_row };
}

/* Keys and values of one latent, for the heads that read it, in two matrices. */
static void fill_latents(const struct compare_pool *pool, const struct attention_config *c,
                         struct attention_weights *w)
{
    int keys = c->rope == ROPE_DECOMPRESSED ? c->n_kv_heads : c->n_heads;
    for (int l = 0; l < c->n_latents; l++) {
        int rows = keys, first = 0;     /* in heads; block-diagonal MLRA counts rows instead */
        if (c->kind == ATTENTION_GLA || (c->kind == ATTENTION_MLRA_PAPER && c->n_branches == 2)) {
            rows = c->kind == ATTENTION_GLA ? keys / c->n_latents : keys / 2;
            first = c->kind == ATTENTION_GLA ? l * rows : l % 2 * rows;
        }
        int key_rows = rows * c->nope_dim, value_rows = rows * c->value_dim;
        int key_first = first * c->nope_dim, value_first = first * c->value_dim;
        if (c->kind == ATTENTION_MLRA) {
            key_rows = value_rows = keys * c->nope_dim / c->n_latents;
            key_first = value_first = l * key_rows;
        }
        w->key_up[l] = up(pool, key_rows, c->latent_dim, c->nope_dim, key_first);
        w->value_up[l] = up(pool, value_rows, c->latent_dim, c->value_dim, value_first);
        if (c->latent_norm)
            w->latent_norm[l] = compare_matrix(pool, 1, c->latent_dim);
    }
}

static void fill_latent_kind(const struct compare_pool *pool, const struct attention_config *c,
                             struct attention_weights *w)
{
    int from = c->query_latent_dim > 0 ? c->query_latent_dim : c->hidden;
    if (c->query_latent_dim > 0)
        w->query_down = compare_matrix(pool, c->query_latent_dim, c->hidden);
    if (c->query_norm)
        w->query_norm = compare_matrix(pool, 1, c->query_latent_dim);
    w->query_nope = up(pool, (int64_t)c->n_heads * c->nope_dim, from, c->nope_dim, 0);
    if (c->rope_dim > 0) {
        w->query_rope = up(pool, (int64_t)c->n_heads * c->rope_dim, from, c->rope_dim, 0);
        w->rope_key = compare_matrix(pool, c->rope_dim, c->hidden);
    }
    w->latent_down = compare_matrix(pool, (int64_t)c->n_latents * c->latent_dim, c->hidden);
    fill_latents(pool, c, w);
}

static void fill_kv_kind(const struct compare_pool *pool, const struct attention_config *c,
                         struct attention_weights *w)
{
    int64_t queries = (int64_t)c->n_heads * c->nope_dim, keys = (int64_t)c->n_kv_heads * c->nope_dim;
    int64_t values = (int64_t)c->n_kv_heads * c->value_dim;
    w->query_nope = up(pool, queries, c->hidden, c->nope_dim, 0);
    w->key = compare_matrix(pool, keys, c->hidden);
    if (c->kind == ATTENTION_CCA && c->value_shift) {
        w->value_current = compare_matrix(pool, values / 2, c->hidden);
        w->value_delayed = compare_matrix(pool, values / 2, c->hidden);
    } else {
        w->value = compare_matrix(pool, values, c->hidden);
    }
    if (c->kind != ATTENTION_CCA)
        return;
    if (c->n_conv >= 1)
        w->conv_seq = compare_matrix(pool, queries + keys, c->conv_kernel_seq);
    if (c->n_conv >= 2)
        w->conv_ch = compare_matrix(pool, queries + keys, (int64_t)c->nope_dim * c->conv_kernel_ch);
    w->temperature = compare_matrix(pool, 1, 1);
}

void compare_fill_layer(const struct compare_pool *pool, const struct attention_config *c, int intermediate,
                        struct layer_weights *out)
{
    *out = (struct layer_weights){
        .input_norm = compare_matrix(pool, 1, c->hidden), .post_norm = compare_matrix(pool, 1, c->hidden),
        .gate = compare_matrix(pool, intermediate, c->hidden), .up = compare_matrix(pool, intermediate, c->hidden),
        .down = compare_matrix(pool, c->hidden, intermediate),
    };
    struct attention_weights *w = &out->attention;
    int64_t values = (int64_t)c->n_heads * c->value_dim;
    if (c->kind == ATTENTION_CCA || c->kind == ATTENTION_GQA)
        fill_kv_kind(pool, c, w);
    else
        fill_latent_kind(pool, c, w);
    if (c->gated)
        w->gate = compare_matrix(pool, values, c->hidden);
    w->output = compare_matrix(pool, c->hidden, values);
}
