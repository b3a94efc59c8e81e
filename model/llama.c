#include "model/llama.h"

#include "attention/attention_config.h"
#include "base/json_read.h"
#include "model/model_config.h"

#include <stdio.h>
#include <string.h>

#define MAX_CONFIG_BYTES ((size_t)16 << 20)

static const char *const layer_names[N_LLAMA_TENSORS] = {
    [LLAMA_INPUT_NORM] = "input_layernorm",
    [LLAMA_POST_NORM] = "post_attention_layernorm",
    [LLAMA_Q] = "self_attn.q_proj",
    [LLAMA_K] = "self_attn.k_proj",
    [LLAMA_V] = "self_attn.v_proj",
    [LLAMA_O] = "self_attn.o_proj",
    [LLAMA_GATE] = "mlp.gate_proj",
    [LLAMA_UP] = "mlp.up_proj",
    [LLAMA_DOWN] = "mlp.down_proj",
};

static const char embedding_name[] = "model.embed_tokens.weight";
static const char norm_name[] = "model.norm.weight";
static const char head_name[] = "lm_head.weight";

/* ---- config.json ---- */

static enum status read_int(const struct json_reader *r, const char *field, int64_t max, int *out,
                            struct error *err)
{
    int64_t value = *out;
    TRY(json_read_int(r, field, 1, max, &value, err));
    *out = (int)value;
    return STATUS_OK;
}

static enum status read_sizes(const struct json_reader *r, struct llama *l, struct error *err)
{
    const struct { const char *name; int64_t max; int *out; } needed[] = {
        { "hidden_size", 1 << 20, &l->hidden },
        { "num_hidden_layers", MODEL_MAX_LAYERS, &l->n_layers },
        { "num_attention_heads", ATTENTION_MAX_HEADS, &l->n_heads },
        { "intermediate_size", 1 << 24, &l->intermediate },
        { "vocab_size", 1 << 22, &l->vocab },
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        TRY(read_int(r, needed[i].name, needed[i].max, needed[i].out, err));
        if (*needed[i].out == 0)
            return fail(err, STATUS_BAD_MODEL, "%s: '%s' is missing", r->where, needed[i].name);
    }
    l->n_kv_heads = l->n_heads;
    l->max_positions = 2048;
    TRY(read_int(r, "num_key_value_heads", ATTENTION_MAX_HEADS, &l->n_kv_heads, err));
    TRY(read_int(r, "head_dim", 1 << 16, &l->head_dim, err));
    TRY(read_int(r, "max_position_embeddings", 1 << 24, &l->max_positions, err));
    if (l->head_dim == 0 && l->hidden % l->n_heads != 0)
        return fail(err, STATUS_BAD_MODEL, "%s: without head_dim, hidden_size = %d must be divisible by "
                    "num_attention_heads = %d", r->where, l->hidden, l->n_heads);
    if (l->head_dim == 0)
        l->head_dim = l->hidden / l->n_heads;
    if (l->n_heads % l->n_kv_heads != 0)
        return fail(err, STATUS_BAD_MODEL,
                    "%s: num_key_value_heads = %d must divide num_attention_heads = %d",
                    r->where, l->n_kv_heads, l->n_heads);
    l->norm_eps = 1e-6;
    TRY(json_read_double(r, "rms_norm_eps", 0, 1, &l->norm_eps, err));
    return json_read_bool(r, "tie_word_embeddings", &l->tied, err);
}

/* "rope_theta", or newer "rope_parameters": {"rope_type": "default", "rope_theta": ..}. */
static enum status read_rope(const struct json_reader *r, struct llama *l, struct error *err)
{
    l->rope_base = 10000;
    TRY(json_read_double(r, "rope_theta", 1e-3, 1e12, &l->rope_base, err));
    const json_t *parameters = NULL;
    TRY(json_read_object(r, "rope_parameters", &parameters, err));
    if (parameters == NULL)
        return STATUS_OK;
    struct json_reader in = { parameters, "config.json: rope_parameters", STATUS_BAD_MODEL };
    const char *type = "default";
    size_t len;
    TRY(json_read_string(&in, "rope_type", &type, &len, err));
    if (strcmp(type, "default") != 0)
        return fail(err, STATUS_UNSUPPORTED, "%s: rope_type '%.40s' is not converted, only \"default\"",
                    in.where, type);
    return json_read_double(&in, "rope_theta", 1e-3, 1e12, &l->rope_base, err);
}

/* Fields that must be absent, null, false, or the one value that changes nothing. */
static enum status refuse_features(const struct json_reader *r, struct error *err)
{
    static const struct { const char *field; const char *what; double harmless; } features[] = {
        { "rope_scaling", "scaled RoPE", 0 },
        { "sliding_window", "a sliding window", 0 },
        { "attention_bias", "attention with biases", 0 },
        { "mlp_bias", "an MLP with biases", 0 },
        { "rope_interleaved", "RoPE of interleaved pairs", 0 },
        { "quantization_config", "quantised weights", 0 },
        { "partial_rotary_factor", "RoPE on a part of the head", 1 },
        { "embedding_multiplier", "a multiplied embedding", 1 },
        { "residual_multiplier", "a multiplied residual", 1 },
        { "logits_scaling", "scaled logits", 1 },
        { "num_local_experts", "experts", 0 },
    };
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        const json_t *value = json_read_any(r, features[i].field);
        if (value == NULL || json_is_false(value)
            || (json_is_number(value) && json_number_value(value) == features[i].harmless))
            continue;
        return fail(err, STATUS_UNSUPPORTED, "%s: '%s': a checkpoint with %s cannot be converted exactly",
                    r->where, features[i].field, features[i].what);
    }
    return STATUS_OK;
}

static enum status read_config(const struct json_reader *r, struct llama *l, struct error *err)
{
    static const char *const types[] = { "llama", "mistral" };
    const char *type = "", *act = "silu";
    size_t len;
    TRY(json_read_string(r, "model_type", &type, &len, err));
    int known = 0;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        known |= strcmp(type, types[i]) == 0;
    if (!known)
        return fail(err, STATUS_UNSUPPORTED,
                    "%s: model_type '%.40s' is not converted, only llama and mistral",
                    r->where, type);
    TRY(json_read_string(r, "hidden_act", &act, &len, err));
    if (strcmp(act, "silu") != 0)
        return fail(err, STATUS_UNSUPPORTED, "%s: hidden_act '%.40s' is not converted, only silu", r->where,
                    act);
    TRY(refuse_features(r, err));
    TRY(read_rope(r, l, err));
    return read_sizes(r, l, err);
}

/* ---- tensors ---- */

static const struct tensor *find(const struct llama *l, int layer, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "model.layers.%d.%s.weight", layer, name);
    return safetensors_find(l->set, full);
}

const struct tensor *llama_layer_tensor(const struct llama *l, int layer, enum llama_tensor which)
{
    return find(l, layer, layer_names[which]);
}

const struct tensor *llama_embedding(const struct llama *l)
{
    return safetensors_find(l->set, embedding_name);
}

const struct tensor *llama_final_norm(const struct llama *l)
{
    return safetensors_find(l->set, norm_name);
}

const struct tensor *llama_head(const struct llama *l)
{
    return l->tied ? NULL : safetensors_find(l->set, head_name);
}

static enum status check_tensor(struct llama *l, const char *name, int64_t rows, int64_t columns,
                                struct error *err)
{
    const struct tensor *t;
    TRY(safetensors_need(l->set, name, &t, err));
    if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16)
        return fail(err, STATUS_UNSUPPORTED, "tensor %s is %s, only F32, F16 and BF16 are converted", name,
                    dtype_name(t->dtype));
    l->all_bf16 &= t->dtype == DTYPE_BF16;
    const int64_t dims[2] = { rows, columns };
    return tensor_expect_shape(t, dims, columns > 0 ? 2 : 1, err);
}

static enum status check_layer(struct llama *l, int layer, struct error *err)
{
    int64_t h = l->hidden, q = (int64_t)l->n_heads * l->head_dim, kv = (int64_t)l->n_kv_heads * l->head_dim;
    const int64_t shapes[N_LLAMA_TENSORS][2] = {
        [LLAMA_INPUT_NORM] = { h, 0 }, [LLAMA_POST_NORM] = { h, 0 },
        [LLAMA_Q] = { q, h }, [LLAMA_K] = { kv, h }, [LLAMA_V] = { kv, h }, [LLAMA_O] = { h, q },
        [LLAMA_GATE] = { l->intermediate, h }, [LLAMA_UP] = { l->intermediate, h },
        [LLAMA_DOWN] = { h, l->intermediate },
    };
    for (int i = 0; i < N_LLAMA_TENSORS; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, layer_names[i]);
        TRY(check_tensor(l, name, shapes[i][0], shapes[i][1], err));
    }
    return STATUS_OK;
}

/* The rest of "model.layers.N.", or NULL if it is no layer that the model has. */
static const char *inside_layer(const struct llama *l, const char *name)
{
    int layer = -1, at = 0;
    if (sscanf(name, "model.layers.%d.%n", &layer, &at) != 1 || at == 0 || layer < 0 || layer >= l->n_layers)
        return NULL;
    return name + at;
}

static int is_used(const struct llama *l, const char *name)
{
    if (strcmp(name, embedding_name) == 0 || strcmp(name, norm_name) == 0 || strcmp(name, head_name) == 0)
        return 1;
    const char *inside = inside_layer(l, name);
    if (inside == NULL)
        return 0;
    /* Old files carry a table of frequencies that follows from rope_theta. */
    if (strcmp(inside, "self_attn.rotary_emb.inv_freq") == 0)
        return 1;
    for (int i = 0; i < N_LLAMA_TENSORS; i++) {
        size_t len = strlen(layer_names[i]);
        if (strncmp(inside, layer_names[i], len) == 0 && strcmp(inside + len, ".weight") == 0)
            return 1;
    }
    return 0;
}

static enum status check_tensors(struct llama *l, struct error *err)
{
    for (size_t i = 0; i < safetensors_count(l->set); i++) {
        const char *name = safetensors_at(l->set, i)->name;
        if (!is_used(l, name))
            return fail(err, STATUS_UNSUPPORTED,
                        "tensor %.100s is no part of a plain Llama, so the conversion would "
                        "not be exact", name);
    }
    l->all_bf16 = 1;
    TRY(check_tensor(l, embedding_name, l->vocab, l->hidden, err));
    TRY(check_tensor(l, norm_name, l->hidden, 0, err));
    if (!l->tied)
        TRY(check_tensor(l, head_name, l->vocab, l->hidden, err));
    for (int layer = 0; layer < l->n_layers; layer++)
        TRY(check_layer(l, layer, err));
    return STATUS_OK;
}

/* ---- open and close ---- */

static enum status open_parts(struct llama *l, const char *dir, struct error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", dir);
    TRY(json_read_file(path, MAX_CONFIG_BYTES, STATUS_BAD_MODEL, &l->config, err));
    if (!json_is_object(l->config))
        return fail(err, STATUS_BAD_MODEL, "%.200s must be a JSON object", path);
    struct json_reader r = { l->config, "config.json", STATUS_BAD_MODEL };
    TRY(read_config(&r, l, err));
    TRY(safetensors_open(&l->set, dir, err));
    return check_tensors(l, err);
}

enum status llama_open(struct llama *out, const char *dir, struct error *err)
{
    *out = (struct llama){ 0 };
    enum status s = open_parts(out, dir, err);
    if (s != STATUS_OK)
        llama_close(out);
    return s;
}

void llama_close(struct llama *l)
{
    safetensors_close(l->set);
    json_decref(l->config);
    *l = (struct llama){ 0 };
}
