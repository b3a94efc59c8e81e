#include "model/attention_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 1 << 20 };

/* One constructor's reading: the object, and where the numbers go. */
struct reading {
    const struct json_reader *r;
    struct attention_config *c;
    struct error *err;
};

static enum status read_int(const struct reading *in, const char *field, int64_t min, int *out)
{
    int64_t value = *out;
    TRY(json_read_int(in->r, field, min, MAX_WIDTH, &value, in->err));
    *out = (int)value;
    return STATUS_OK;
}

static enum status bad(const struct reading *in, const char *fmt, int a, int b)
{
    char sentence[200];
    snprintf(sentence, sizeof sentence, fmt, a, b);
    return fail(in->err, STATUS_BAD_MODEL, "%s: %s", in->c->label, sentence);
}

static enum status read_rope(const struct reading *in, enum rope_scheme scheme, enum rope_pairing pairing)
{
    in->c->rope = scheme;
    in->c->pairing = pairing;
    in->c->rope_base = 10000;
    return json_read_double(in->r, "rope_base", 1e-3, 1e12, &in->c->rope_base, in->err);
}

/* "hidden_size" and "num_heads", head width = hidden / heads unless head_dim says. */
static enum status read_sizes(const struct reading *in, const char *hidden, const char *heads)
{
    struct attention_config *c = in->c;
    TRY(read_int(in, hidden, 1, &c->hidden));
    TRY(read_int(in, heads, 1, &c->n_heads));
    if (c->hidden == 0 || c->n_heads == 0)
        return fail(in->err, STATUS_BAD_MODEL, "%s: needs %s and %s", c->label, hidden, heads);
    /* Before anything is multiplied with it. */
    if (c->n_heads > ATTENTION_MAX_HEADS)
        return bad(in, "number of heads must be at most %d, got %d", ATTENTION_MAX_HEADS, c->n_heads);
    c->n_kv_heads = c->n_heads;
    if (json_read_any(in->r, "head_dim") == NULL && c->hidden % c->n_heads != 0)
        return fail(in->err, STATUS_BAD_MODEL, "%s: %s = %d must be divisible by %s = %d", c->label, hidden,
                    c->hidden, heads, c->n_heads);
    c->nope_dim = c->hidden / c->n_heads;
    TRY(read_int(in, "head_dim", 1, &c->nope_dim));
    c->value_dim = c->nope_dim;
    c->score_scale = 1 / sqrt((double)c->nope_dim);
    return json_read_bool(in->r, "use_bitnet", &c->bitnet, in->err);
}

/* Query heads that share decompressed keys (converted Llama checkpoints). */
static enum status read_kv_heads(const struct reading *in)
{
    TRY(read_int(in, "num_key_value_heads", 1, &in->c->n_kv_heads));
    if (in->c->n_heads % in->c->n_kv_heads != 0)
        return bad(in, "num_key_value_heads = %d must divide num_heads = %d", in->c->n_kv_heads, in->c->n_heads);
    return STATUS_OK;
}

static enum status read_mla_rope(const struct reading *in)
{
    struct attention_config *c = in->c;
    c->kind = ATTENTION_MLA_ROPE;
    TRY(read_sizes(in, "hidden_size", "num_heads"));
    TRY(read_kv_heads(in));
    c->n_latents = 1;
    c->latent_dim = c->hidden / 2 > 1 ? c->hidden / 2 : 1;
    TRY(read_int(in, "mla_latent_rank", 1, &c->latent_dim));
    if (c->nope_dim % 2 != 0)
        return bad(in, "head width %d must be even for RoPE (%d heads)", c->nope_dim, c->n_heads);
    return read_rope(in, ROPE_DECOMPRESSED, ROPE_HALF);
}

static enum status read_mlra(const struct reading *in)
{
    struct attention_config *c = in->c;
    c->kind = ATTENTION_MLRA;
    TRY(read_sizes(in, "hidden_size", "num_heads"));
    int rank = c->hidden / 2 > 1 ? c->hidden / 2 : 1;
    c->n_latents = 4;
    TRY(read_int(in, "mlra_latent_rank", 1, &rank));
    TRY(read_int(in, "mlra_num_latent_heads", 1, &c->n_latents));
    if (rank % c->n_latents != 0)
        return bad(in, "mlra_num_latent_heads = %d must divide mlra_latent_rank = %d", c->n_latents, rank);
    if (c->n_heads * c->nope_dim % c->n_latents != 0)
        return bad(in, "num_heads*head_dim = %d must be divisible by mlra_num_latent_heads = %d",
                   c->n_heads * c->nope_dim, c->n_latents);
    c->latent_dim = rank / c->n_latents;
    const char *rope = "none";
    size_t len;
    TRY(json_read_string(in->r, "rope", &rope, &len, in->err));
    if (strcmp(rope, "none") == 0)
        return STATUS_OK;
    if (strcmp(rope, "decompressed") != 0)
        return fail(in->err, STATUS_BAD_MODEL, "mlra: rope must be \"none\" or \"decompressed\"");
    TRY(read_kv_heads(in));
    return read_rope(in, ROPE_DECOMPRESSED, ROPE_HALF);
}

/* Seed 002: d_model, num_head, d_embed, d_c, d_c1, d_rotate. */
static enum status read_mla(const struct reading *in)
{
    struct attention_config *c = in->c;
    c->kind = ATTENTION_MLA;
    TRY(read_sizes(in, "d_model", "num_head"));
    int embed = c->hidden;
    c->n_latents = 1;
    TRY(read_int(in, "d_embed", 1, &embed));
    TRY(read_int(in, "d_c", 1, &c->latent_dim));
    TRY(read_int(in, "d_c1", 1, &c->query_latent_dim));
    TRY(read_int(in, "d_rotate", 0, &c->rope_dim));
    if (embed != c->hidden)
        return bad(in, "d_embed = %d must equal d_model = %d, the width of its input", embed, c->hidden);
    if (c->latent_dim < 1 || c->latent_dim >= embed)
        return bad(in, "compression dim d_c = %d must be smaller than d_embed = %d", c->latent_dim, embed);
    if (c->query_latent_dim < 1 || c->query_latent_dim >= embed)
        return bad(in, "query compression dim d_c1 = %d must be smaller than d_embed = %d",
                   c->query_latent_dim, embed);
    if (c->rope_dim % 2 != 0)
        return bad(in, "d_rotate = %d must be even (%d heads)", c->rope_dim, c->n_heads);
    c->score_scale = 1 / sqrt((double)(c->nope_dim + c->rope_dim));
    TRY(read_rope(in, c->rope_dim > 0 ? ROPE_DECOUPLED : ROPE_NONE, ROPE_INTERLEAVED));
    const char *pairing = "interleaved";
    size_t len;
    TRY(json_read_string(in->r, "rope_pairing", &pairing, &len, in->err));
    if (strcmp(pairing, "half") == 0)
        c->pairing = ROPE_HALF;
    else if (strcmp(pairing, "interleaved") != 0)
        return fail(in->err, STATUS_BAD_MODEL, "mla: rope_pairing must be \"half\" or \"interleaved\"");
    return STATUS_OK;
}

/* The fields of CCA and CCGQA that differ in their prefix only. */
static enum status read_cca_options(const struct reading *in, const char *prefix)
{
    struct attention_config *c = in->c;
    struct { const char *name; int min; int *out; } ints[] = {
        { "num_conv_layers", 0, &c->n_conv },
        { "conv_kernel_seq", 1, &c->conv_kernel_seq },
        { "conv_kernel_ch", 1, &c->conv_kernel_ch },
    };
    struct { const char *name; int *out; } flags[] = {
        { "qk_mean", &c->qk_mean }, { "value_shift", &c->value_shift },
    };
    char field[64];
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        snprintf(field, sizeof field, "%s_%s", prefix, ints[i].name);
        TRY(read_int(in, field, ints[i].min, ints[i].out));
    }
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        snprintf(field, sizeof field, "%s_%s", prefix, flags[i].name);
        TRY(json_read_bool(in->r, field, flags[i].out, in->err));
    }
    if (c->n_conv > 2)
        return fail(in->err, STATUS_BAD_MODEL, "%s: %s_num_conv_layers must be 0, 1 or 2, got %d", c->label,
                    prefix, c->n_conv);
    if (c->value_shift && c->n_kv_heads % 2 != 0)
        return fail(in->err, STATUS_BAD_MODEL, "%s: %s_value_shift needs an even number of KV heads, got %d",
                    c->label, prefix, c->n_kv_heads);
    if (c->nope_dim % 2 != 0)
        return fail(in->err, STATUS_BAD_MODEL, "%s: the width of a latent head must be even for RoPE, got %d",
                    c->label, c->nope_dim);
    c->value_dim = c->nope_dim;
    c->score_scale = 1 / sqrt((double)c->nope_dim);
    return read_rope(in, ROPE_HEAD, ROPE_HALF);
}

static enum status start_cca(const struct reading *in)
{
    struct attention_config *c = in->c;
    c->kind = ATTENTION_CCA;
    c->n_conv = 2;
    c->conv_kernel_seq = 4;
    c->conv_kernel_ch = 3;
    c->qk_mean = c->value_shift = 1;
    return read_sizes(in, "hidden_size", "num_heads");
}

static enum status read_cca(const struct reading *in)
{
    struct attention_config *c = in->c;
    TRY(start_cca(in));
    int rank = c->hidden / 4 > 1 ? c->hidden / 4 : 1;
    TRY(read_int(in, "cca_latent_rank", 1, &rank));
    if (rank % c->n_heads != 0)
        return bad(in, "cca_latent_rank = %d must be divisible by num_heads = %d", rank, c->n_heads);
    c->nope_dim = rank / c->n_heads;
    return read_cca_options(in, "cca");
}

static enum status read_ccgqa(const struct reading *in)
{
    struct attention_config *c = in->c;
    TRY(start_cca(in));
    int query = c->hidden / 2 > 1 ? c->hidden / 2 : 1, kv = c->hidden / 8 > 1 ? c->hidden / 8 : 1;
    c->n_kv_heads = c->n_heads / 4 > 1 ? c->n_heads / 4 : 1;
    TRY(read_int(in, "ccgqa_num_kv_heads", 1, &c->n_kv_heads));
    TRY(read_int(in, "ccgqa_query_latent_rank", 1, &query));
    TRY(read_int(in, "ccgqa_kv_latent_rank", 1, &kv));
    if (c->n_heads % c->n_kv_heads != 0)
        return bad(in, "ccgqa_num_kv_heads = %d must divide num_heads = %d", c->n_kv_heads, c->n_heads);
    if (query % c->n_heads != 0)
        return bad(in, "ccgqa_query_latent_rank = %d must be divisible by num_heads = %d", query, c->n_heads);
    if (kv % c->n_kv_heads != 0)
        return bad(in, "ccgqa_kv_latent_rank = %d must be divisible by ccgqa_num_kv_heads = %d", kv,
                   c->n_kv_heads);
    if (kv > query)
        return bad(in, "ccgqa_kv_latent_rank = %d must be <= ccgqa_query_latent_rank = %d", kv, query);
    if (query / c->n_heads != kv / c->n_kv_heads)
        return bad(in, "ccgqa_query_latent_rank / num_heads = %d must equal "
                   "ccgqa_kv_latent_rank / ccgqa_num_kv_heads = %d", query / c->n_heads, kv / c->n_kv_heads);
    c->nope_dim = query / c->n_heads;
    return read_cca_options(in, "ccgqa");
}

/* The MLRA repository's latent variants: one norm per latent, calibrated
 * factors sqrt(hidden / width), value width = nope width. */
static enum status read_paper(const struct reading *in, enum attention_kind kind, int n_latents, int n_branches)
{
    struct attention_config *c = in->c;
    c->kind = kind;
    int total = 0;
    c->n_kv_heads = c->n_heads;
    TRY(read_int(in, "q_lora_rank", 1, &c->query_latent_dim));
    TRY(read_int(in, "kv_lora_rank", 1, &total));
    TRY(read_int(in, "qk_nope_head_dim", 1, &c->nope_dim));
    TRY(read_int(in, "qk_rope_head_dim", 2, &c->rope_dim));
    if (c->query_latent_dim == 0 || total == 0 || c->nope_dim == 0 || c->rope_dim == 0)
        return fail(in->err, STATUS_BAD_MODEL, "%s: needs q_lora_rank, kv_lora_rank, qk_nope_head_dim and "
                    "qk_rope_head_dim", c->label);
    if (total % n_latents != 0)
        return bad(in, "kv_lora_rank = %d must be divisible by its %d latents", total, n_latents);
    if (c->rope_dim % 2 != 0)
        return bad(in, "qk_rope_head_dim = %d must be even (%d heads)", c->rope_dim, c->n_heads);
    c->value_dim = c->nope_dim;
    c->n_latents = n_latents;
    c->latent_dim = total / n_latents;
    c->n_branches = n_branches;
    c->branch_factor = 1 / sqrt((double)n_branches);
    c->query_norm = c->latent_norm = 1;
    c->norm_eps = 1e-6;
    c->query_factor = sqrt((double)c->hidden / c->query_latent_dim);
    c->latent_factor = sqrt((double)c->hidden / c->latent_dim);
    c->score_scale = 1 / sqrt((double)(c->nope_dim + c->rope_dim));
    TRY(json_read_bool(in->r, "gated", &c->gated, in->err));
    return read_rope(in, ROPE_DECOUPLED, ROPE_HALF);
}

static enum status read_gqa(const struct reading *in)
{
    struct attention_config *c = in->c;
    c->kind = ATTENTION_GQA;
    c->nope_dim = c->hidden / c->n_heads;
    c->n_kv_heads = c->n_heads;
    TRY(read_int(in, "head_dim", 1, &c->nope_dim));
    TRY(read_int(in, "num_key_value_heads", 1, &c->n_kv_heads));
    if (c->n_heads % c->n_kv_heads != 0)
        return bad(in, "num_key_value_heads = %d must divide the %d heads", c->n_kv_heads, c->n_heads);
    if (c->nope_dim % 2 != 0)
        return bad(in, "head_dim = %d must be even for RoPE (%d heads)", c->nope_dim, c->n_heads);
    c->value_dim = c->nope_dim;
    c->score_scale = 1 / sqrt((double)c->nope_dim);
    TRY(json_read_bool(in->r, "gated", &c->gated, in->err));
    return read_rope(in, ROPE_HEAD, ROPE_HALF);
}

static enum status read_paper_mla(const struct reading *in) { return read_paper(in, ATTENTION_MLA, 1, 1); }
static enum status read_mlra_2(const struct reading *in) { return read_paper(in, ATTENTION_MLRA_PAPER, 4, 2); }
static enum status read_mlra_4(const struct reading *in) { return read_paper(in, ATTENTION_MLRA_PAPER, 4, 4); }
static enum status read_gla_2(const struct reading *in) { return read_paper(in, ATTENTION_GLA, 2, 1); }
static enum status read_gla_4(const struct reading *in) { return read_paper(in, ATTENTION_GLA, 4, 1); }

static const struct {
    const char *kind;
    enum status (*read)(const struct reading *in);
} kinds[] = {
    { "mla", read_mla },         { "mla_rope", read_mla_rope }, { "mlra", read_mlra },
    { "cca", read_cca },         { "ccgqa", read_ccgqa },       { "mla_paper", read_paper_mla },
    { "mlra_2", read_mlra_2 },   { "mlra_4", read_mlra_4 },     { "gla_2", read_gla_2 },
    { "gla_4", read_gla_4 },     { "gqa", read_gqa },           { "mha", read_gqa },
};

enum status attention_from_json(const char *kind, const struct json_reader *r,
                                const struct attention_defaults *defaults, struct attention_config *out,
                                struct error *err)
{
    *out = (struct attention_config){
        .hidden = defaults->hidden, .n_heads = defaults->n_heads, .causal = defaults->causal,
        .query_factor = 1, .latent_factor = 1, .branch_factor = 1, .n_branches = 1, .n_latents = 0,
        .norm_eps = 1e-6, .n_kv_heads = defaults->n_heads, .conv_kernel_seq = 1, .conv_kernel_ch = 1,
    };
    struct reading in = { r, out, err };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kind, kinds[i].kind) != 0)
            continue;
        snprintf(out->label, sizeof out->label, "%s", kind);
        TRY(kinds[i].read(&in));
        if (defaults->hidden != 0 && out->hidden != defaults->hidden)
            return bad(&in, "attention width %d contradicts hidden_size = %d", out->hidden, defaults->hidden);
        return attention_config_check(out, err);
    }
    return fail(err, STATUS_BAD_MODEL, "%s: attention kind '%.40s' is not one of mla, mla_rope, mlra, cca, ccgqa, "
                "mla_paper, mlra_2, mlra_4, gla_2, gla_4, gqa, mha", r->where, kind);
}
