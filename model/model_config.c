#include "model/model_config.h"

#include "base/file.h"
#include "model/attention_bind.h"
#include "model/attention_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_CONFIG_BYTES ((size_t)16 << 20)

static enum status read_int(const struct json_reader *r, const char *field, int64_t min, int64_t max, int *out,
                            struct error *err)
{
    int64_t value = *out;
    TRY(json_read_int(r, field, min, max, &value, err));
    *out = (int)value;
    return STATUS_OK;
}

/* Fields that every family has under one of its names. */
struct size_names {
    const char *hidden, *heads, *layers, *intermediate, *positions;
};

static enum status read_sizes(const struct json_reader *r, const struct size_names *names,
                              struct model_config *c, int *n_heads, struct error *err)
{
    TRY(read_int(r, names->hidden, 1, 1 << 20, &c->hidden, err));
    TRY(read_int(r, names->heads, 1, ATTENTION_MAX_HEADS, n_heads, err));
    TRY(read_int(r, names->layers, 1, MODEL_MAX_LAYERS, &c->n_layers, err));
    TRY(read_int(r, names->intermediate, 1, 1 << 24, &c->intermediate, err));
    TRY(read_int(r, names->positions, 1, 1 << 24, &c->max_positions, err));
    TRY(read_int(r, "vocab_size", 1, 1 << 22, &c->vocab, err));
    const char *missing = c->hidden == 0 ? names->hidden : *n_heads == 0 ? names->heads
        : c->n_layers == 0 ? names->layers : c->intermediate == 0 ? names->intermediate
        : c->vocab == 0 ? "vocab_size" : NULL;
    if (missing != NULL)
        return fail(err, STATUS_BAD_MODEL, "%s: '%s' is missing", r->where, missing);
    return STATUS_OK;
}

static enum status add_eos(const struct json_reader *r, const json_t *value, struct model_config *c,
                           struct error *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= c->vocab)
        return fail(err, STATUS_BAD_MODEL, "%s: 'eos_token_id' must be token ids below %d, got %s", r->where,
                    c->vocab, json_type_phrase(value));
    if (c->n_eos_tokens == MODEL_MAX_EOS)
        return fail(err, STATUS_BAD_MODEL, "%s: more than %d end-of-sequence tokens", r->where, MODEL_MAX_EOS);
    c->eos_tokens[c->n_eos_tokens++] = (int)json_integer_value(value);
    return STATUS_OK;
}

/* "eos_token_id" is an id or a list of ids. */
static enum status read_special_tokens(const struct json_reader *r, struct model_config *c, struct error *err)
{
    TRY(read_int(r, "bos_token_id", 0, c->vocab - 1, &c->bos_token, err));
    const json_t *eos = json_read_any(r, "eos_token_id");
    if (eos == NULL)
        return STATUS_OK;
    c->n_eos_tokens = 0;
    if (!json_is_array(eos))
        return add_eos(r, eos, c, err);
    size_t i;
    const json_t *value;
    json_array_foreach((json_t *)eos, i, value)
        TRY(add_eos(r, value, c, err));
    return STATUS_OK;
}

static enum status read_latentd(const struct json_reader *r, struct model_config *c, struct error *err)
{
    static const struct size_names names = {
        "hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size",
        "max_position_embeddings",
    };
    struct attention_defaults defaults = { .causal = 1 };
    TRY(read_sizes(r, &names, c, &defaults.n_heads, err));
    defaults.hidden = c->hidden;
    double eps = 1e-6;
    TRY(json_read_double(r, "rms_norm_eps", 0, 1, &eps, err));
    c->norm_eps = (float)eps;
    TRY(json_read_double(r, "embedding_multiplier", 1e-6, 1e6, &c->embedding_multiplier, err));
    TRY(json_read_bool(r, "tie_word_embeddings", &c->tied, err));
    const char *text = "silu";
    size_t len;
    TRY(json_read_string(r, "hidden_act", &text, &len, err));
    if (strcmp(text, "silu") != 0)
        return fail(err, STATUS_BAD_MODEL, "%s: hidden_act must be silu", r->where);
    text = "decoder";
    TRY(json_read_string(r, "mode", &text, &len, err));
    if (strcmp(text, "decoder") != 0 && strcmp(text, "encoder") != 0)
        return fail(err, STATUS_BAD_MODEL, "%s: mode must be \"decoder\" or \"encoder\"", r->where);
    defaults.causal = strcmp(text, "decoder") == 0;
    const json_t *attention = NULL;
    TRY(json_read_object(r, "attention", &attention, err));
    if (attention == NULL)
        return fail(err, STATUS_BAD_MODEL, "%s: 'attention' is missing", r->where);
    struct json_reader in = { attention, "config.json: attention", STATUS_BAD_MODEL };
    const char *kind = NULL;
    TRY(json_read_string(&in, "kind", &kind, &len, err));
    if (kind == NULL)
        return fail(err, STATUS_BAD_MODEL, "%s: 'kind' is missing", in.where);
    return attention_from_json(kind, &in, &defaults, &c->attention, err);
}

/* The MLRA repository does not say which variant a checkpoint is; the tensors
 * of its first layer do. */
static const char *infer_variant(const struct safetensors *set, const struct json_reader *r, int n_heads)
{
    const struct tensor *up = safetensors_find(set, "transformer.h.0.attn.kv_b_proj");
    if (up != NULL) {
        int64_t nope = json_integer_value(json_object_get(r->object, "qk_nope_head_dim"));
        return up->n_dims == 3 && up->dims[2] == n_heads * 2 * nope ? "mlra_4" : "mlra_2";
    }
    if (safetensors_find(set, "transformer.h.0.attn.kv_b_proj_3.weight") != NULL)
        return "gla_4";
    if (safetensors_find(set, "transformer.h.0.attn.kv_b_proj_1.weight") != NULL)
        return "gla_2";
    if (safetensors_find(set, "transformer.h.0.attn.kv_b_proj.weight") != NULL)
        return "mla_paper";
    const struct tensor *q = safetensors_find(set, "transformer.h.0.attn.c_q.weight");
    const struct tensor *k = safetensors_find(set, "transformer.h.0.attn.c_k.weight");
    if (q == NULL || k == NULL || q->n_dims != 2 || k->n_dims != 2)
        return NULL;
    return q->dims[0] == k->dims[0] ? "mha" : "gqa";
}

/* The object that attention_from_json reads: the file's fields, with those that
 * only the tensors tell. */
static json_t *describe_variant(const struct safetensors *set, const struct json_reader *r, int n_heads)
{
    json_t *object = json_copy((json_t *)r->object);
    if (object == NULL)
        return NULL;
    int gated = safetensors_find(set, "transformer.h.0.attn.gated_proj.weight") != NULL;
    json_object_set_new(object, "gated", json_boolean(gated));
    const struct tensor *q = safetensors_find(set, "transformer.h.0.attn.c_q.weight");
    const struct tensor *k = safetensors_find(set, "transformer.h.0.attn.c_k.weight");
    if (q != NULL && k != NULL && q->n_dims == 2 && k->n_dims == 2 && q->dims[0] % n_heads == 0) {
        int64_t width = q->dims[0] / n_heads;
        if (json_object_get(object, "head_dim") == NULL)
            json_object_set_new(object, "head_dim", json_integer(width));
        if (width > 0 && k->dims[0] % width == 0)
            json_object_set_new(object, "num_key_value_heads", json_integer(k->dims[0] / width));
    }
    return object;
}

static enum status read_mlra_repository(const struct json_reader *r, const struct safetensors *set,
                                        struct model_config *c, struct error *err)
{
    static const struct size_names names = { "n_embd", "n_head", "n_layer", "intermediate_size", "block_size" };
    struct attention_defaults defaults = { .causal = 1 };
    TRY(read_sizes(r, &names, c, &defaults.n_heads, err));
    defaults.hidden = c->hidden;
    c->norm_eps = 1e-6f;
    /* GPT-2's vocabulary, padded to a multiple of 128; 50256 precedes every
     * training document and ends it. */
    if (c->vocab == 50304) {
        c->n_usable_tokens = 50257;
        c->bos_token = c->eos_tokens[0] = 50256;
        c->n_eos_tokens = 1;
    }
    const char *kind = infer_variant(set, r, defaults.n_heads);
    if (kind == NULL)
        return fail(err, STATUS_BAD_MODEL, "%s: model_type gpt2, but the tensors of layer 0 are those of no "
                    "variant of the MLRA repository (mlra_2, mlra_4, mla, gla_2, gla_4, gqa, mha)", r->where);
    json_t *object = describe_variant(set, r, defaults.n_heads);
    if (object == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to read %s", r->where);
    struct json_reader in = { object, r->where, STATUS_BAD_MODEL };
    enum status s = attention_from_json(kind, &in, &defaults, &c->attention, err);
    json_decref(object);
    return s;
}

static enum status read_family(const struct json_reader *r, const struct safetensors *set,
                               struct model_config *c, struct error *err)
{
    const char *type = NULL;
    size_t len;
    TRY(json_read_string(r, "model_type", &type, &len, err));
    if (type == NULL)
        return fail(err, STATUS_BAD_MODEL, "%s: 'model_type' is missing", r->where);
    c->embedding_multiplier = 1;
    c->bos_token = -1;
    if (strcmp(type, "latentd") == 0) {
        c->family = FAMILY_LATENTD;
        TRY(read_latentd(r, c, err));
    } else if (strcmp(type, "gpt2") == 0) {
        c->family = FAMILY_MLRA;
        TRY(read_mlra_repository(r, set, c, err));
    } else {
        return fail(err, STATUS_BAD_MODEL, "%s: model_type '%.40s' is not one this build reads (latentd, or gpt2 "
                    "as the MLRA repository labels its checkpoints)", r->where, type);
    }
    if (c->n_usable_tokens == 0)
        c->n_usable_tokens = c->vocab;
    if (c->max_positions == 0)
        c->max_positions = 2048;
    return read_special_tokens(r, c, err);
}

/* generation_config.json, if there is one, has the last word on where to stop. */
static enum status read_generation_config(const char *dir, struct model_config *c, struct error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/generation_config.json", dir);
    if (!file_exists(path))
        return STATUS_OK;
    json_t *json;
    TRY(json_read_file(path, MAX_CONFIG_BYTES, STATUS_BAD_MODEL, &json, err));
    struct json_reader r = { json, "generation_config.json", STATUS_BAD_MODEL };
    enum status s = json_is_object(json)
        ? read_special_tokens(&r, c, err)
        : fail(err, STATUS_BAD_MODEL, "%s must be a JSON object", path);
    json_decref(json);
    return s;
}

enum status model_config_load(const char *dir, const struct safetensors *set, struct model_config *out,
                              struct error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", dir);
    *out = (struct model_config){ 0 };
    json_t *json;
    TRY(json_read_file(path, MAX_CONFIG_BYTES, STATUS_BAD_MODEL, &json, err));
    struct json_reader r = { json, "config.json", STATUS_BAD_MODEL };
    enum status s = json_is_object(json) ? read_family(&r, set, out, err)
                                         : fail(err, STATUS_BAD_MODEL, "%s must be a JSON object", path);
    json_decref(json);
    TRY(s);
    return read_generation_config(dir, out, err);
}

/* ---- names ---- */

struct family_names {
    const char *embedding, *final_norm, *head;
    const char *gate, *up, *down;
};

static const struct family_names names_of[] = {
    [FAMILY_LATENTD] = { "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
                         "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight" },
    [FAMILY_MLRA] = { "transformer.wte.weight", "layernorm.weight", "lm_head.weight",
                      "mlp.c_fc1.weight", "mlp.c_fc2.weight", "mlp.c_proj.weight" },
};

enum status model_bind(const struct safetensors *set, const struct model_config *c, struct model_weights *out,
                       struct error *err)
{
    const struct family_names *names = &names_of[c->family];
    struct binder b = { .set = set };
    TRY(bind_matrix(&b, names->embedding, c->vocab, c->hidden, &out->embedding, err));
    TRY(bind_vector(&b, names->final_norm, c->hidden, &out->final_norm, err));
    out->head = out->embedding;
    if (c->tied || (c->family == FAMILY_MLRA && !bind_has(&b, names->head)))
        return STATUS_OK;
    return bind_matrix(&b, names->head, c->vocab, c->hidden, &out->head, err);
}

enum status model_bind_layer(const struct safetensors *set, const struct model_config *c, int layer,
                             struct layer_weights *out, struct error *err)
{
    const struct family_names *names = &names_of[c->family];
    struct binder b = { .set = set };
    snprintf(b.prefix, sizeof b.prefix, c->family == FAMILY_LATENTD ? "model.layers.%d." : "transformer.h.%d.",
             layer);
    TRY(bind_vector(&b, "input_layernorm.weight", c->hidden, &out->input_norm, err));
    TRY(bind_vector(&b, "post_attention_layernorm.weight", c->hidden, &out->post_norm, err));
    TRY(bind_matrix(&b, names->gate, c->intermediate, c->hidden, &out->gate, err));
    TRY(bind_matrix(&b, names->up, c->intermediate, c->hidden, &out->up, err));
    TRY(bind_matrix(&b, names->down, c->hidden, c->intermediate, &out->down, err));
    strcat(b.prefix, "attn.");
    return attention_bind(&b, &c->attention, &out->attention, err);
}

enum status model_check_ranks(const struct model_config *c, int n_ranks, struct error *err)
{
    TRY(attention_check_ranks(&c->attention, n_ranks, err));
    if (!layer_mlp_ranks_valid(n_ranks))
        return fail(err, STATUS_BAD_OPTION, "the number of ranks must be between 1 and %d, got %d", MLP_LEAVES,
                    n_ranks);
    return STATUS_OK;
}

int64_t model_parameter_count(const struct safetensors *set)
{
    int64_t n = 0;
    for (size_t i = 0; i < safetensors_count(set); i++)
        n += safetensors_at(set, i)->n_elements;
    return n;
}
