#include "model/byte_tokenizer.h"
#include "model/attention_json.h"
#include "model/synth_private.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum field_type { FIELD_INTEGER, FIELD_BOOLEAN, FIELD_ROPE_ON_KEYS };

/* One parameter of a kind: where the spec has it, what the kind's authors call it. */
struct field {
    size_t offset;              /* into synth_parameters */
    const char *name;           /* in "attention": {...}; NULL ends the list */
    enum field_type type;
    int needed;                 /* the authors have no default */
};

#define INTEGER(field, name) { offsetof(struct synth_parameters, field), name, FIELD_INTEGER, 0 }
#define NEEDED(field, name)  { offsetof(struct synth_parameters, field), name, FIELD_INTEGER, 1 }
#define BOOLEAN(field, name) { offsetof(struct synth_parameters, field), name, FIELD_BOOLEAN, 0 }

static const struct field mla_fields[] = {
    NEEDED(latent, "d_c"), NEEDED(query_latent, "d_c1"), NEEDED(rope_dim, "d_rotate"), { 0 },
};
static const struct field mla_rope_fields[] = {
    INTEGER(latent, "mla_latent_rank"), INTEGER(head_dim, "head_dim"),
    INTEGER(kv_heads, "num_key_value_heads"), BOOLEAN(bitnet, "use_bitnet"), { 0 },
};
static const struct field mlra_fields[] = {
    INTEGER(latent, "mlra_latent_rank"), INTEGER(latents, "mlra_num_latent_heads"),
    INTEGER(head_dim, "head_dim"), INTEGER(kv_heads, "num_key_value_heads"), BOOLEAN(bitnet, "use_bitnet"),
    { offsetof(struct synth_parameters, decompressed), "rope", FIELD_ROPE_ON_KEYS, 0 }, { 0 },
};
static const struct field cca_fields[] = {
    INTEGER(latent, "cca_latent_rank"), INTEGER(conv_layers, "cca_num_conv_layers"),
    INTEGER(conv_kernel_seq, "cca_conv_kernel_seq"), INTEGER(conv_kernel_ch, "cca_conv_kernel_ch"),
    BOOLEAN(qk_mean, "cca_qk_mean"), BOOLEAN(value_shift, "cca_value_shift"), BOOLEAN(bitnet, "use_bitnet"),
    { 0 },
};
static const struct field ccgqa_fields[] = {
    INTEGER(latent, "ccgqa_kv_latent_rank"), INTEGER(query_latent, "ccgqa_query_latent_rank"),
    INTEGER(kv_heads, "ccgqa_num_kv_heads"), INTEGER(conv_layers, "ccgqa_num_conv_layers"),
    INTEGER(conv_kernel_seq, "ccgqa_conv_kernel_seq"), INTEGER(conv_kernel_ch, "ccgqa_conv_kernel_ch"),
    BOOLEAN(qk_mean, "ccgqa_qk_mean"), BOOLEAN(value_shift, "ccgqa_value_shift"),
    BOOLEAN(bitnet, "use_bitnet"), { 0 },
};
static const struct field paper_fields[] = {
    NEEDED(query_latent, "q_lora_rank"), NEEDED(latent, "kv_lora_rank"), NEEDED(nope_dim, "qk_nope_head_dim"),
    NEEDED(rope_dim, "qk_rope_head_dim"), BOOLEAN(gated, "gated"), { 0 },
};
static const struct field gqa_fields[] = {
    INTEGER(head_dim, "head_dim"), INTEGER(kv_heads, "num_key_value_heads"), BOOLEAN(gated, "gated"), { 0 },
};
static const struct field mha_fields[] = { INTEGER(head_dim, "head_dim"), BOOLEAN(gated, "gated"), { 0 } };

/* Kinds that read their width and heads from the attention object name them here. */
static const struct kind {
    const char *name;
    const struct field *fields;
    const char *hidden, *heads;
} kinds[] = {
    { "mla", mla_fields, "d_model", "num_head" },
    { "mla_rope", mla_rope_fields, "hidden_size", "num_heads" },
    { "mlra", mlra_fields, "hidden_size", "num_heads" },
    { "cca", cca_fields, "hidden_size", "num_heads" },
    { "ccgqa", ccgqa_fields, "hidden_size", "num_heads" },
    { "mla_paper", paper_fields, NULL, NULL },
    { "mlra_2", paper_fields, NULL, NULL },
    { "mlra_4", paper_fields, NULL, NULL },
    { "gla_2", paper_fields, NULL, NULL },
    { "gla_4", paper_fields, NULL, NULL },
    { "gqa", gqa_fields, NULL, NULL },
    { "mha", mha_fields, NULL, NULL },
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

/* Every parameter with its option, to name it in a sentence. */
static const struct {
    size_t offset;
    const char *option;
} parameters[] = {
#define X(field, option, from, to, text) { offsetof(struct synth_parameters, field), option },
    SYNTH_NUMBER_MAP(X)
#undef X
#define X(field, option, text) { offsetof(struct synth_parameters, field), option },
    SYNTH_FLAG_MAP(X)
#undef X
};
#define N_PARAMETERS (sizeof parameters / sizeof parameters[0])

static int parameter_at(const struct synth_parameters *p, size_t offset)
{
    return *(const int *)(const void *)((const char *)p + offset);
}

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static const struct field *find_field(const struct kind *kind, size_t offset)
{
    for (const struct field *f = kind->fields; f->name != NULL; f++)
        if (f->offset == offset)
            return f;
    return NULL;
}

/* ---- completing ---- */

void synth_spec_init(struct synth_spec *spec)
{
    *spec = (struct synth_spec){
        .attention = { .rope_base = SYNTH_UNSET },
        .layers = SYNTH_UNSET, .hidden = SYNTH_UNSET, .heads = SYNTH_UNSET, .intermediate = SYNTH_UNSET,
        .vocab = SYNTH_UNSET, .max_positions = SYNTH_UNSET, .tied = SYNTH_UNSET, .dtype = DTYPE_F32,
    };
#define X(field, option, from, to, text) spec->attention.field = SYNTH_UNSET;
    SYNTH_NUMBER_MAP(X)
#undef X
#define X(field, option, text) spec->attention.field = SYNTH_UNSET;
    SYNTH_FLAG_MAP(X)
#undef X
}

static enum status check_parameters(const struct kind *kind, const struct synth_spec *spec, struct error *err)
{
    for (size_t i = 0; i < N_PARAMETERS; i++) {
        const struct field *f = find_field(kind, parameters[i].offset);
        int value = parameter_at(&spec->attention, parameters[i].offset);
        if (f == NULL && value != SYNTH_UNSET)
            return fail(err, STATUS_BAD_OPTION, "--%s is no parameter of kind %s", parameters[i].option,
                        kind->name);
        if (f != NULL && f->needed && value == SYNTH_UNSET)
            return fail(err, STATUS_BAD_OPTION, "kind %s needs --%s", kind->name, parameters[i].option);
    }
    return STATUS_OK;
}

static void set_default(int *value, int fallback)
{
    if (*value == SYNTH_UNSET)
        *value = fallback;
}

enum status synth_complete(struct synth_spec *spec, struct error *err)
{
    const struct kind *kind = spec->kind != NULL ? find_kind(spec->kind) : NULL;
    if (spec->kind == NULL)
        return fail(err, STATUS_BAD_OPTION, "one of --kind and --preset must be given");
    if (kind == NULL)
        return fail(err, STATUS_BAD_OPTION, "--kind '%.40s' is not one of mla, mla_rope, mlra, cca, ccgqa, "
                    "mla_paper, mlra_2, mlra_4, gla_2, gla_4, gqa, mha", spec->kind);
    const char *missing = spec->hidden == SYNTH_UNSET ? "hidden" : spec->layers == SYNTH_UNSET ? "layers"
                        : spec->heads == SYNTH_UNSET ? "heads" : NULL;
    if (missing != NULL)
        return fail(err, STATUS_BAD_OPTION, "without a preset, --%s must be given", missing);
    TRY(check_parameters(kind, spec, err));
    /* 8/3 of the width, rounded up to whole 64s, as Llama has it. */
    set_default(&spec->intermediate, (int)(((int64_t)spec->hidden * 8 / 3 + 63) / 64 * 64));
    set_default(&spec->vocab, 32000);
    set_default(&spec->max_positions, 2048);
    set_default(&spec->tied, 0);
    return STATUS_OK;
}

/* ---- config.json ---- */

static json_t *field_json(const struct field *f, int value)
{
    switch (f->type) {
    case FIELD_INTEGER:      return json_integer(value);
    case FIELD_BOOLEAN:      return json_boolean(value);
    case FIELD_ROPE_ON_KEYS: return json_string(value ? "decompressed" : "none");
    }
    return NULL;
}

static json_t *attention_json(const struct kind *kind, const struct synth_spec *spec)
{
    json_t *object = json_pack("{s:s}", "kind", kind->name);
    int failed = 0;
    if (kind->hidden != NULL) {
        failed |= json_object_set_new(object, kind->hidden, json_integer(spec->hidden));
        failed |= json_object_set_new(object, kind->heads, json_integer(spec->heads));
    }
    for (const struct field *f = kind->fields; f->name != NULL; f++) {
        int value = parameter_at(&spec->attention, f->offset);
        if (value != SYNTH_UNSET)
            failed |= json_object_set_new(object, f->name, field_json(f, value));
    }
    if (spec->attention.rope_base > 0)
        failed |= json_object_set_new(object, "rope_base", json_real(spec->attention.rope_base));
    if (failed == 0)
        return object;
    json_decref(object);
    return NULL;
}

json_t *synth_config_json(const struct synth_spec *spec)
{
    json_t *attention = attention_json(find_kind(spec->kind), spec);
    if (attention == NULL)
        return NULL;
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:s, s:i, s:[i,i], s:o}",
                     "model_type", "latentd",
                     "torch_dtype", spec->dtype == DTYPE_F32 ? "float32" : "bfloat16",
                     "hidden_size", spec->hidden, "num_hidden_layers", spec->layers,
                     "num_attention_heads", spec->heads, "intermediate_size", spec->intermediate,
                     "vocab_size", spec->vocab, "max_position_embeddings", spec->max_positions,
                     "rms_norm_eps", 1e-6, "tie_word_embeddings", spec->tied, "hidden_act", "silu",
                     "bos_token_id", BYTE_TOKENIZER_BOS,
                     "eos_token_id", BYTE_TOKENIZER_EOS, BYTE_TOKENIZER_END,
                     "attention", attention);
}

enum status synth_attention(const json_t *config, const struct synth_spec *spec, struct attention_config *out,
                            struct error *err)
{
    struct json_reader r = { json_object_get(config, "attention"), "attention", STATUS_BAD_MODEL };
    struct attention_defaults defaults = { .hidden = spec->hidden, .n_heads = spec->heads, .causal = 1 };
    return attention_from_json(spec->kind, &r, &defaults, out, err);
}
