#include "model/inspect.h"

#include <string.h>

const int inspect_degrees[INSPECT_DEGREES] = { 1, 2, 4, 8 };

/* ---- parameters ---- */

static int starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Where the numbers of a tensor count, or NULL if the model does not use it. */
static int64_t *counter_of(struct inspection *out, const char *name)
{
    static const char *const layers[] = { "model.layers.", "transformer.h." };
    struct inspect_parameters *p = &out->parameters;
    if (starts_with(name, "model.embed_tokens.") || starts_with(name, "transformer.wte."))
        return &p->embedding;
    if (starts_with(name, "lm_head."))
        return out->config.tied ? NULL : &p->head;
    if (starts_with(name, "model.norm.") || starts_with(name, "layernorm."))
        return &p->norms;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        if (!starts_with(name, layers[i]))
            continue;
        return strstr(name, ".attn.") != NULL ? &p->attention
             : strstr(name, ".mlp.") != NULL ? &p->mlp
             : &p->norms;
    }
    return NULL;
}

/* The MLRA repository's files hold the tied head a second time. */
static int head_repeats_embedding(const struct safetensors *set, const struct inspection *in)
{
    const struct tensor *head = safetensors_find(set, "lm_head.weight");
    const struct tensor *embedding = safetensors_find(set, "transformer.wte.weight");
    return in->config.family == FAMILY_MLRA && head != NULL && embedding != NULL
        && head->bytes == embedding->bytes && head->dtype == embedding->dtype
        && memcmp(head->data, embedding->data, head->bytes) == 0;
}

static void count_parameters(const struct safetensors *set, struct inspection *out)
{
    int repeats = head_repeats_embedding(set, out);
    for (size_t i = 0; i < safetensors_count(set); i++) {
        const struct tensor *t = safetensors_at(set, i);
        int64_t *counter = counter_of(out, t->name);
        if (counter == NULL || (repeats && counter == &out->parameters.head))
            continue;
        *counter += t->n_elements;
        out->parameters.total += t->n_elements;
        out->weight_bytes += (int64_t)t->bytes;
        out->weight_types |= 1u << t->dtype;
    }
}

/* ---- cache ---- */

static void add_rank(const struct model_config *c, int rank, struct inspect_degree *d)
{
    struct cache_shape shape;
    attention_cache_shape(&c->attention, d->n_ranks, rank, &shape);
    for (int type = 0; type < INSPECT_CACHE_TYPES; type++) {
        struct cache_layout layout;
        cache_layout_init(&layout, (enum cache_type)type, 1, &shape);
        int64_t bytes = (int64_t)cache_layout_token_bytes(&layout) * c->n_layers;
        int64_t elements = (int64_t)layout.row_width * c->n_layers;
        d->bytes_total[type] += bytes;
        if (bytes > d->bytes_per_device[type])
            d->bytes_per_device[type] = bytes;
        if (elements > d->elements_per_device)
            d->elements_per_device = elements;
    }
    int64_t state = (int64_t)shape.tail_width * (int64_t)sizeof(float) * c->n_layers;
    if (state > d->state_bytes_per_device)
        d->state_bytes_per_device = state;
}

/* Of one copy of the cache, the share of one device. */
static void add_by_chunk(const struct model_config *c, struct inspect_degree *d)
{
    int64_t n = d->n_ranks;
    d->may_shard_by_chunk = n > 1 && attention_may_shard_by_chunk(&c->attention, d->n_ranks);
    if (!d->may_shard_by_chunk)
        return;
    d->by_chunk_elements_per_device = (d->elements_per_device + n - 1) / n;
    for (int type = 0; type < INSPECT_CACHE_TYPES; type++)
        d->by_chunk_bytes_per_device[type] = (d->bytes_per_device[type] + n - 1) / n;
}

static void count_cache(struct inspection *out)
{
    for (int n = 1; n <= INSPECT_MAX_DEGREE; n++)
        if (model_check_ranks(&out->config, n, NULL) == STATUS_OK)
            out->valid_degrees[out->n_valid_degrees++] = n;
    for (int i = 0; i < INSPECT_DEGREES; i++) {
        struct inspect_degree *d = &out->degrees[i];
        d->n_ranks = inspect_degrees[i];
        d->is_valid = model_check_ranks(&out->config, d->n_ranks, NULL) == STATUS_OK;
        for (int rank = 0; d->is_valid && rank < d->n_ranks; rank++)
            add_rank(&out->config, rank, d);
        if (d->is_valid)
            add_by_chunk(&out->config, d);
    }
}

static enum status inspect_set(const char *dir, const struct safetensors *set, struct inspection *out,
                               struct error *err)
{
    TRY(model_config_load(dir, set, &out->config, err));
    struct model_weights outside;
    TRY(model_bind(set, &out->config, &outside, err));
    for (int layer = 0; layer < out->config.n_layers; layer++) {
        struct layer_weights weights;
        TRY(model_bind_layer(set, &out->config, layer, &weights, err));
    }
    count_parameters(set, out);
    count_cache(out);
    return STATUS_OK;
}

enum status inspect_model(const char *dir, struct inspection *out, struct error *err)
{
    *out = (struct inspection){ 0 };
    struct safetensors *set;
    TRY(safetensors_open(&set, dir, err));
    enum status s = inspect_set(dir, set, out, err);
    safetensors_close(set);
    return s;
}
