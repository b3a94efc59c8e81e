#include "model/synth_private.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* The deviation of the logits: near 0 every token is as likely as any other, and
 * far above it one token has all the probability.  A tied head finds the input
 * token itself in the residual: its logit lies as many deviations above the
 * others as a deviation is wide, and with 2 a small vocabulary repeats itself. */
#define LOGIT_DEVIATION 2.0
#define TIED_DEVIATION  1.0

enum { MAX_PER_LAYER = 24, MAX_OUTSIDE = 3 };

/* What all tensors of one layer share. */
struct adding {
    struct synth_plan *plan;
    const struct attention_config *c;
    int layer;
    double branch_gain;         /* of W_O and W_down: 2 layers of them are summed */
    struct error *err;
};

static enum status add_filled(struct synth_plan *plan, struct tensor_shape shape, struct synth_fill fill,
                              struct error *err, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static enum status add_filled(struct synth_plan *plan, struct tensor_shape shape, struct synth_fill fill,
                              struct error *err, const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    enum status s = tensor_plan_vadd(&plan->tensors, plan->dtype, shape, err, fmt, arguments);
    va_end(arguments);
    if (s == STATUS_OK)
        plan->fills[plan->tensors.n - 1] = fill;
    return s;
}

/* gain / sqrt(n_inputs) keeps the size of what comes in, times gain. */
static struct synth_fill spread(double gain, int64_t n_inputs)
{
    return (struct synth_fill){ 0, gain / sqrt((double)n_inputs) };
}

/* A Linear of this layer's attention, [rows][columns]. */
static enum status add_linear(const struct adding *a, const char *name, int64_t rows, int64_t columns,
                              double gain)
{
    return add_filled(a->plan, SHAPE2(rows, columns), spread(gain, columns), a->err,
                      "model.layers.%d.attn.%s.weight", a->layer, name);
}

static enum status add_norm(const struct adding *a, const char *name, int64_t n)
{
    return add_filled(a->plan, SHAPE1(n), (struct synth_fill){ 1, 0 }, a->err,
                      "model.layers.%d.%s.weight", a->layer, name);
}

/* ---- by kind, in the order of attention_bind.c ---- */

static enum status add_mla_rope(const struct adding *a)
{
    const struct attention_config *c = a->c;
    int64_t keys = (int64_t)c->n_kv_heads * c->nope_dim, width = (int64_t)c->n_heads * c->nope_dim;
    TRY(add_linear(a, "dkv_proj", c->latent_dim, c->hidden, 1));
    TRY(add_linear(a, "uk_proj", keys, c->latent_dim, 1));
    TRY(add_linear(a, "uv_proj", keys, c->latent_dim, 1));
    TRY(add_linear(a, "q_proj", width, c->hidden, 1));
    return add_linear(a, "out_proj", c->hidden, width, a->branch_gain);
}

static enum status add_mlra(const struct adding *a)
{
    const struct attention_config *c = a->c;
    int n_key_heads = c->rope == ROPE_DECOMPRESSED ? c->n_kv_heads : c->n_heads;
    int64_t rows = (int64_t)n_key_heads * c->nope_dim / c->n_latents;
    int64_t width = (int64_t)c->n_heads * c->nope_dim;
    for (int l = 0; l < c->n_latents; l++) {
        char name[32];
        snprintf(name, sizeof name, "uk_projs.%d", l);
        TRY(add_linear(a, name, rows, c->latent_dim, 1));
        snprintf(name, sizeof name, "uv_projs.%d", l);
        TRY(add_linear(a, name, rows, c->latent_dim, 1));
    }
    TRY(add_linear(a, "dkv_proj", (int64_t)c->n_latents * c->latent_dim, c->hidden, 1));
    TRY(add_linear(a, "q_proj", width, c->hidden, 1));
    return add_linear(a, "out_proj", c->hidden, width, a->branch_gain);
}

static enum status add_mla(const struct adding *a)
{
    const struct attention_config *c = a->c;
    int64_t h = c->hidden, lq = c->query_latent_dim, lkv = c->latent_dim;
    TRY(add_linear(a, "DKV_proj", lkv, h, 1));
    TRY(add_linear(a, "DQ_proj", lq, h, 1));
    TRY(add_linear(a, "UQ_proj", h, lq, 1));
    TRY(add_linear(a, "UK_proj", h, lkv, 1));
    TRY(add_linear(a, "UV_proj", h, lkv, 1));
    TRY(add_linear(a, "RQ_proj", (int64_t)c->n_heads * c->rope_dim, lq, 1));
    TRY(add_linear(a, "RK_proj", c->rope_dim, h, 1));
    return add_linear(a, "output_proj", h, h, a->branch_gain);
}

static enum status add_cca(const struct adding *a)
{
    const struct attention_config *c = a->c;
    int64_t lq = (int64_t)c->n_heads * c->nope_dim, lkv = (int64_t)c->n_kv_heads * c->nope_dim;
    TRY(add_linear(a, "linear_qk", lq + lkv, c->hidden, 1));
    if (c->value_shift) {
        TRY(add_linear(a, "val_proj1", lkv / 2, c->hidden, 1));
        TRY(add_linear(a, "val_proj2", lkv / 2, c->hidden, 1));
    } else {
        TRY(add_linear(a, "val_proj", lkv, c->hidden, 1));
    }
    if (c->n_conv >= 1)
        TRY(add_filled(a->plan, SHAPE3(lq + lkv, 1, c->conv_kernel_seq), spread(1, c->conv_kernel_seq),
                       a->err, "model.layers.%d.attn.conv_qk0.weight", a->layer));
    if (c->n_conv >= 2)
        TRY(add_filled(a->plan, SHAPE3(lq + lkv, c->nope_dim, c->conv_kernel_ch),
                       spread(1, (int64_t)c->nope_dim * c->conv_kernel_ch), a->err,
                       "model.layers.%d.attn.conv_qk1.weight", a->layer));
    /* q and k have the length sqrt(width) already; exp(0) leaves it so. */
    TRY(add_filled(a->plan, SHAPE1(1), (struct synth_fill){ 0, 0 }, a->err, "model.layers.%d.attn.temp",
                   a->layer));
    return add_linear(a, "out_proj", c->hidden, lq, a->branch_gain);
}

static enum status add_paper_latents(const struct adding *a)
{
    const struct attention_config *c = a->c;
    int64_t per_head = c->nope_dim + c->value_dim;
    /* The latent is multiplied by latent_factor before it comes here. */
    double gain = 1 / c->latent_factor;
    if (c->kind == ATTENTION_MLA) {
        TRY(add_norm(a, "attn.kv_a_layernorm", c->latent_dim));
        return add_linear(a, "kv_b_proj", c->n_heads * per_head, c->latent_dim, gain);
    }
    for (int l = 0; l < c->n_latents; l++) {
        char name[48];
        if (c->kind == ATTENTION_GLA) {
            snprintf(name, sizeof name, "attn.kv_a_layernorm_%d", l + 1);
            TRY(add_norm(a, name, c->latent_dim));
            snprintf(name, sizeof name, "kv_b_proj_%d", l + 1);
            TRY(add_linear(a, name, c->n_heads / c->n_latents * per_head, c->latent_dim, gain));
        } else {
            snprintf(name, sizeof name, "attn.kv_a_layernorms.%d", l);
            TRY(add_norm(a, name, c->latent_dim));
        }
    }
    if (c->kind == ATTENTION_GLA)
        return STATUS_OK;
    int64_t heads = c->n_branches == 4 ? c->n_heads : c->n_heads / 2;
    return add_filled(a->plan, SHAPE3(c->n_latents, c->latent_dim, heads * per_head),
                      spread(gain, c->latent_dim), a->err, "model.layers.%d.attn.kv_b_proj", a->layer);
}

static enum status add_paper(const struct adding *a)
{
    const struct attention_config *c = a->c;
    int64_t latents = (int64_t)c->n_latents * c->latent_dim, values = (int64_t)c->n_heads * c->value_dim;
    TRY(add_linear(a, "q_a_proj", c->query_latent_dim, c->hidden, 1));
    TRY(add_norm(a, "attn.q_a_layernorm", c->query_latent_dim));
    TRY(add_linear(a, "q_b_proj", (int64_t)c->n_heads * (c->nope_dim + c->rope_dim), c->query_latent_dim,
                   1 / c->query_factor));
    TRY(add_linear(a, "kv_a_proj_with_mqa", latents + c->rope_dim, c->hidden, 1));
    TRY(add_paper_latents(a));
    if (c->gated)
        TRY(add_linear(a, "gated_proj", values, c->hidden, 1));
    return add_linear(a, "c_proj", c->hidden, values, a->branch_gain);
}

static enum status add_gqa(const struct adding *a)
{
    const struct attention_config *c = a->c;
    int64_t q = (int64_t)c->n_heads * c->nope_dim, kv = (int64_t)c->n_kv_heads * c->nope_dim;
    TRY(add_linear(a, "c_q", q, c->hidden, 1));
    TRY(add_linear(a, "c_k", kv, c->hidden, 1));
    TRY(add_linear(a, "c_v", kv, c->hidden, 1));
    if (c->gated)
        TRY(add_linear(a, "gated_proj", q, c->hidden, 1));
    return add_linear(a, "c_proj", c->hidden, q, a->branch_gain);
}

static enum status add_attention(const struct adding *a)
{
    switch (a->c->kind) {
    case ATTENTION_MLA_ROPE:   return add_mla_rope(a);
    case ATTENTION_MLRA:       return add_mlra(a);
    case ATTENTION_CCA:        return add_cca(a);
    case ATTENTION_GQA:        return add_gqa(a);
    /* The seed has no norm on its latent, the repository's MLA has. */
    case ATTENTION_MLA:        return a->c->latent_norm ? add_paper(a) : add_mla(a);
    case ATTENTION_MLRA_PAPER:
    case ATTENTION_GLA:        return add_paper(a);
    }
    return fail(a->err, STATUS_INTERNAL, "attention kind %d has no tensor names", (int)a->c->kind);
}

/* ---- the model ---- */

static enum status add_mlp(const struct adding *a, int64_t width)
{
    static const char *const inputs[] = { "gate", "up" };
    int64_t hidden = a->c->hidden;
    for (int i = 0; i < 2; i++)
        TRY(add_filled(a->plan, SHAPE2(width, hidden), spread(1, hidden), a->err,
                       "model.layers.%d.mlp.%s_proj.weight", a->layer, inputs[i]));
    return add_filled(a->plan, SHAPE2(hidden, width), spread(a->branch_gain, width), a->err,
                      "model.layers.%d.mlp.down_proj.weight", a->layer);
}

static enum status add_layer(const struct adding *a, const struct synth_spec *spec)
{
    TRY(add_norm(a, "input_layernorm", spec->hidden));
    TRY(add_attention(a));
    TRY(add_norm(a, "post_attention_layernorm", spec->hidden));
    return add_mlp(a, spec->intermediate);
}

enum status synth_plan_tensors(struct synth_plan *plan, const struct synth_spec *spec,
                               const struct attention_config *c, struct error *err)
{
    size_t per_layer = MAX_PER_LAYER + 2 * (size_t)c->n_latents;
    TRY(tensor_plan_init(&plan->tensors, per_layer * (size_t)spec->layers + MAX_OUTSIDE, err));
    plan->dtype = spec->dtype;
    TRY(ARENA_ARRAY(&plan->tensors.arena, plan->tensors.max, &plan->fills, err));
    /* An embedding that is also the head has the head's size: the first norm
     * makes up for it. */
    struct synth_fill head = spread(spec->tied ? TIED_DEVIATION : LOGIT_DEVIATION, spec->hidden);
    TRY(add_filled(plan, SHAPE2(spec->vocab, spec->hidden), spec->tied ? head : (struct synth_fill){ 0, 1 },
                   err, "model.embed_tokens.weight"));
    struct adding a = { .plan = plan, .c = c, .branch_gain = 1 / sqrt(2.0 * spec->layers), .err = err };
    for (a.layer = 0; a.layer < spec->layers; a.layer++)
        TRY(add_layer(&a, spec));
    TRY(add_filled(plan, SHAPE1(spec->hidden), (struct synth_fill){ 1, 0 }, err, "model.norm.weight"));
    if (spec->tied)
        return STATUS_OK;
    return add_filled(plan, SHAPE2(spec->vocab, spec->hidden), head, err, "lm_head.weight");
}
