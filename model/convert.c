#include "model/convert.h"

#include "model/attention_json.h"
#include "model/llama.h"
#include "model/model_directory.h"
#include "model/safetensors_writer.h"
#include "model/tensor_plan.h"

#include <stdio.h>
#include <string.h>

/* Where the rows of an output tensor come from.
 *   second NULL:  the rows of first
 *   first NULL:   row i has a 1 in column one_at + i, else 0
 *   both:         group rows of first, then group rows of second, and so on */
struct source {
    const struct tensor *first, *second;
    int64_t group;
    int64_t one_at;
};

struct conversion {
    const struct convert_job *job;
    struct llama llama;
    struct tensor_plan plan;
    struct source *sources;     /* [plan.max], beside plan.tensors */
    enum dtype dtype;
    float *row;                 /* [widest row] */
    void *encoded;              /* the same in dtype */
    struct safetensors_writer *writer;
    size_t done;
};

enum { MAX_PER_LAYER = 12, MAX_OUTSIDE = 3 };

/* ---- the list of tensors ---- */

static enum status add(struct conversion *v, struct tensor_shape shape, struct source source,
                       struct error *err, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static enum status add(struct conversion *v, struct tensor_shape shape, struct source source,
                       struct error *err, const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    enum status s = tensor_plan_vadd(&v->plan, v->dtype, shape, err, fmt, arguments);
    va_end(arguments);
    if (s == STATUS_OK)
        v->sources[v->plan.n - 1] = source;
    return s;
}

static struct tensor_shape shape_of(const struct tensor *t)
{
    return t->n_dims == 1 ? SHAPE1(t->dims[0]) : SHAPE2(t->dims[0], t->dims[1]);
}

/* A tensor of the layer under another name. */
static enum status add_copy(struct conversion *v, int layer, enum llama_tensor which, const char *name,
                            struct error *err)
{
    const struct tensor *t = llama_layer_tensor(&v->llama, layer, which);
    return add(v, shape_of(t), (struct source){ .first = t }, err, "model.layers.%d.%s.weight", layer, name);
}

/* dkv_proj: the down-projection of latents that are group key rows, then group value rows. */
static enum status add_down(struct conversion *v, int layer, int64_t group, struct error *err)
{
    const struct tensor *k = llama_layer_tensor(&v->llama, layer, LLAMA_K);
    const struct tensor *values = llama_layer_tensor(&v->llama, layer, LLAMA_V);
    struct source source = { .first = k, .second = values, .group = group };
    return add(v, SHAPE2(2 * k->dims[0], k->dims[1]), source, err, "model.layers.%d.attn.dkv_proj.weight",
               layer);
}

static enum status add_mla_rope(struct conversion *v, int layer, struct error *err)
{
    int64_t keys = (int64_t)v->llama.n_kv_heads * v->llama.head_dim;
    TRY(add_down(v, layer, keys, err));
    TRY(add(v, SHAPE2(keys, 2 * keys), (struct source){ .one_at = 0 }, err,
            "model.layers.%d.attn.uk_proj.weight", layer));
    TRY(add(v, SHAPE2(keys, 2 * keys), (struct source){ .one_at = keys }, err,
            "model.layers.%d.attn.uv_proj.weight", layer));
    TRY(add_copy(v, layer, LLAMA_Q, "attn.q_proj", err));
    return add_copy(v, layer, LLAMA_O, "attn.out_proj", err);
}

static enum status add_mlra(struct conversion *v, int layer, struct error *err)
{
    int64_t d = v->llama.head_dim;
    TRY(add_down(v, layer, d, err));
    for (int l = 0; l < v->llama.n_kv_heads; l++) {
        TRY(add(v, SHAPE2(d, 2 * d), (struct source){ .one_at = 0 }, err,
                "model.layers.%d.attn.uk_projs.%d.weight", layer, l));
        TRY(add(v, SHAPE2(d, 2 * d), (struct source){ .one_at = d }, err,
                "model.layers.%d.attn.uv_projs.%d.weight", layer, l));
    }
    TRY(add_copy(v, layer, LLAMA_Q, "attn.q_proj", err));
    return add_copy(v, layer, LLAMA_O, "attn.out_proj", err);
}

static enum status add_gqa(struct conversion *v, int layer, struct error *err)
{
    TRY(add_copy(v, layer, LLAMA_Q, "attn.c_q", err));
    TRY(add_copy(v, layer, LLAMA_K, "attn.c_k", err));
    TRY(add_copy(v, layer, LLAMA_V, "attn.c_v", err));
    return add_copy(v, layer, LLAMA_O, "attn.c_proj", err);
}

static const struct form {
    const char *kind;
    enum status (*add_attention)(struct conversion *v, int layer, struct error *err);
} forms[] = {
    [CONVERT_MLA_ROPE] = { "mla_rope", add_mla_rope },
    [CONVERT_MLRA] = { "mlra", add_mlra },
    [CONVERT_GQA] = { "gqa", add_gqa },
};

static enum status add_layer(struct conversion *v, int layer, struct error *err)
{
    TRY(add_copy(v, layer, LLAMA_INPUT_NORM, "input_layernorm", err));
    TRY(forms[v->job->form].add_attention(v, layer, err));
    TRY(add_copy(v, layer, LLAMA_POST_NORM, "post_attention_layernorm", err));
    TRY(add_copy(v, layer, LLAMA_GATE, "mlp.gate_proj", err));
    TRY(add_copy(v, layer, LLAMA_UP, "mlp.up_proj", err));
    return add_copy(v, layer, LLAMA_DOWN, "mlp.down_proj", err);
}

static enum status list_tensors(struct conversion *v, struct error *err)
{
    const struct llama *l = &v->llama;
    size_t per_layer = MAX_PER_LAYER + 2 * (size_t)l->n_kv_heads;
    TRY(tensor_plan_init(&v->plan, per_layer * (size_t)l->n_layers + MAX_OUTSIDE, err));
    TRY(ARENA_ARRAY(&v->plan.arena, v->plan.max, &v->sources, err));
    v->dtype = l->all_bf16 ? DTYPE_BF16 : DTYPE_F32;
    const struct tensor *embedding = llama_embedding(l), *norm = llama_final_norm(l), *head = llama_head(l);
    TRY(add(v, shape_of(embedding), (struct source){ .first = embedding }, err, "model.embed_tokens.weight"));
    for (int layer = 0; layer < l->n_layers; layer++)
        TRY(add_layer(v, layer, err));
    TRY(add(v, shape_of(norm), (struct source){ .first = norm }, err, "model.norm.weight"));
    if (head == NULL)
        return STATUS_OK;
    return add(v, shape_of(head), (struct source){ .first = head }, err, "lm_head.weight");
}

/* ---- config.json ---- */

static json_t *attention_json(const struct conversion *v)
{
    const struct llama *l = &v->llama;
    const char *kind = forms[v->job->form].kind;
    int width = 2 * l->n_kv_heads * l->head_dim;
    json_t *object = json_pack("{s:s, s:i, s:i, s:f}", "kind", kind, "head_dim", l->head_dim,
                               "num_key_value_heads", l->n_kv_heads, "rope_base", l->rope_base);
    json_t *more = NULL;
    if (v->job->form == CONVERT_MLA_ROPE)
        more = json_pack("{s:i, s:i, s:i}", "hidden_size", l->hidden, "num_heads", l->n_heads,
                         "mla_latent_rank", width);
    else if (v->job->form == CONVERT_MLRA)
        more = json_pack("{s:i, s:i, s:i, s:i, s:s}", "hidden_size", l->hidden, "num_heads", l->n_heads,
                         "mlra_latent_rank", width, "mlra_num_latent_heads", l->n_kv_heads,
                         "rope", "decompressed");
    if (more != NULL)
        json_object_update(object, more);
    json_decref(more);
    return object;
}

/* NULL if there is no memory. */
static json_t *config_json(const struct conversion *v)
{
    static const char *const kept[] = { "bos_token_id", "eos_token_id", "pad_token_id" };
    const struct llama *l = &v->llama;
    json_t *config = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:s, s:o}",
                               "model_type", "latentd", "torch_dtype",
                               v->dtype == DTYPE_BF16 ? "bfloat16" : "float32", "hidden_size", l->hidden,
                               "num_hidden_layers", l->n_layers, "num_attention_heads", l->n_heads,
                               "intermediate_size", l->intermediate, "vocab_size", l->vocab,
                               "max_position_embeddings", l->max_positions, "rms_norm_eps", l->norm_eps,
                               "tie_word_embeddings", l->tied, "hidden_act", "silu",
                               "attention", attention_json(v));
    for (size_t i = 0; config != NULL && i < sizeof kept / sizeof kept[0]; i++) {
        json_t *value = json_object_get(l->config, kept[i]);
        if (value != NULL)
            json_object_set(config, kept[i], value);
    }
    return config;
}

/* What the reader of the new model would refuse is refused before anything is written. */
static enum status check_attention(const struct conversion *v, const json_t *config, struct error *err)
{
    struct json_reader r = { json_object_get(config, "attention"), "attention", STATUS_BAD_MODEL };
    struct attention_defaults defaults = {
        .hidden = v->llama.hidden, .n_heads = v->llama.n_heads, .causal = 1,
    };
    struct attention_config attention;
    return attention_from_json(forms[v->job->form].kind, &r, &defaults, &attention, err);
}

/* ---- the bytes ---- */

/* Row i of output tensor t as floats. */
static enum status make_row(struct conversion *v, const struct source *s, int64_t i, size_t width,
                            struct error *err)
{
    if (s->first == NULL) {
        memset(v->row, 0, width * sizeof(float));
        v->row[s->one_at + i] = 1;
        return STATUS_OK;
    }
    const struct tensor *from = s->first;
    if (s->second != NULL) {
        int64_t turn = i / s->group;
        from = turn % 2 == 0 ? s->first : s->second;
        i = turn / 2 * s->group + i % s->group;
    }
    return tensor_to_f32(from, (size_t)i * width, width, v->row, err);
}

static enum status write_tensor(struct conversion *v, size_t index, struct error *err)
{
    const struct tensor *t = &v->plan.tensors[index];
    size_t width = (size_t)(t->n_dims == 1 ? t->dims[0] : t->dims[1]);
    int64_t n_rows = t->n_dims == 1 ? 1 : t->dims[0];
    for (int64_t i = 0; i < n_rows; i++) {
        TRY(make_row(v, &v->sources[index], i, width, err));
        const void *bytes = v->row;
        if (v->dtype == DTYPE_BF16) {
            uint16_t *out = v->encoded;
            for (size_t k = 0; k < width; k++)
                out[k] = f32_to_bf16(v->row[k]);
            bytes = out;
        }
        size_t n = width * dtype_bytes(v->dtype);
        TRY(safetensors_writer_add(v->writer, bytes, n, err));
        v->done += n;
        if (v->job->progress != NULL)
            v->job->progress(v->job->context, v->done, v->plan.bytes);
    }
    return STATUS_OK;
}

static enum status write_tensors(struct conversion *v, struct error *err)
{
    for (size_t i = 0; i < v->plan.n; i++)
        TRY(write_tensor(v, i, err));
    return STATUS_OK;
}

static enum status write_weights(struct conversion *v, struct error *err)
{
    int64_t widest = 1;
    for (size_t i = 0; i < v->plan.n; i++) {
        const struct tensor *t = &v->plan.tensors[i];
        int64_t width = t->n_dims == 1 ? t->dims[0] : t->dims[1];
        widest = width > widest ? width : widest;
    }
    TRY(ARENA_ARRAY(&v->plan.arena, (size_t)widest, &v->row, err));
    TRY(arena_take(&v->plan.arena, (size_t)widest, sizeof(uint16_t), &v->encoded, err));
    char path[4096];
    model_directory_path(v->job->to, "model.safetensors", path);
    const struct safetensors_pair metadata = { "format", "pt" };
    const struct safetensors_plan file = {
        .path = path, .tensors = v->plan.tensors, .n_tensors = v->plan.n,
        .metadata = &metadata, .n_metadata = 1,
    };
    TRY(safetensors_writer_open(&v->writer, &file, err));
    enum status s = write_tensors(v, err);
    if (s == STATUS_OK)
        return safetensors_writer_close(v->writer, err);
    safetensors_writer_abandon(v->writer);
    return s;
}

static enum status write_directory(struct conversion *v, const json_t *config, struct error *err)
{
    static const char *const copied[] = {
        "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja",
    };
    TRY(check_attention(v, config, err));
    TRY(model_directory_prepare(v->job->to, err));
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
        TRY(model_directory_copy(v->job->from, v->job->to, copied[i], err));
    TRY(write_weights(v, err));
    return model_directory_write_json(v->job->to, "config.json", config, err);
}

static enum status convert(struct conversion *v, struct error *err)
{
    TRY(list_tensors(v, err));
    json_t *config = config_json(v);
    if (config == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for config.json");
    enum status s = write_directory(v, config, err);
    json_decref(config);
    return s;
}

enum status convert_model(const struct convert_job *job, struct error *err)
{
    struct conversion v = { .job = job };
    TRY(llama_open(&v.llama, job->from, err));
    enum status s = convert(&v, err);
    tensor_plan_clear(&v.plan);
    llama_close(&v.llama);
    return s;
}
