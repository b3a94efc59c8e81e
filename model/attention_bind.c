#include "model/attention_bind.h"

#include <stdio.h>
#include <string.h>

/* Rows from `first` on: where the second half of a head's rows starts. */
static struct up_projection rows_from(struct matrix m, int64_t first, int stride)
{
    return (struct up_projection){ matrix_rows(m, first, m.n_rows - first), stride, 0 };
}

static enum status bind_mla_rope(const struct binder *b, const struct attention_config *c,
                                 struct attention_weights *w, struct error *err)
{
    int64_t keys = (int64_t)c->n_kv_heads * c->nope_dim;
    int64_t width = (int64_t)c->n_heads * c->nope_dim;
    w->query_nope.stride = w->key_up[0].stride = w->value_up[0].stride = c->nope_dim;
    TRY(bind_matrix(b, "dkv_proj.weight", c->latent_dim, c->hidden, &w->latent_down, err));
    TRY(bind_matrix(b, "uk_proj.weight", keys, c->latent_dim, &w->key_up[0].weight, err));
    TRY(bind_matrix(b, "uv_proj.weight", keys, c->latent_dim, &w->value_up[0].weight, err));
    TRY(bind_matrix(b, "q_proj.weight", width, c->hidden, &w->query_nope.weight, err));
    return bind_matrix(b, "out_proj.weight", c->hidden, width, &w->output, err);
}

static enum status bind_mlra(const struct binder *b, const struct attention_config *c,
                             struct attention_weights *w, struct error *err)
{
    int64_t keys = (int64_t)(c->rope == ROPE_DECOMPRESSED ? c->n_kv_heads : c->n_heads) * c->nope_dim;
    int64_t width = (int64_t)c->n_heads * c->nope_dim, rows = keys / c->n_latents;
    w->query_nope.stride = c->nope_dim;
    for (int l = 0; l < c->n_latents; l++) {
        char name[48];
        snprintf(name, sizeof name, "uk_projs.%d.weight", l);
        TRY(bind_matrix(b, name, rows, c->latent_dim, &w->key_up[l].weight, err));
        snprintf(name, sizeof name, "uv_projs.%d.weight", l);
        TRY(bind_matrix(b, name, rows, c->latent_dim, &w->value_up[l].weight, err));
        w->key_up[l].stride = w->value_up[l].stride = c->nope_dim;
        w->key_up[l].first_row = w->value_up[l].first_row = (int)(l * rows);
    }
    TRY(bind_matrix(b, "dkv_proj.weight", (int64_t)c->n_latents * c->latent_dim, c->hidden, &w->latent_down, err));
    TRY(bind_matrix(b, "q_proj.weight", width, c->hidden, &w->query_nope.weight, err));
    return bind_matrix(b, "out_proj.weight", c->hidden, width, &w->output, err);
}

/* Seed 002.  Biases are there or not, tensor by tensor; UK_proj.bias adds the
 * same to all scores of a query and is checked but not used. */
static enum status bind_mla(const struct binder *b, const struct attention_config *c,
                            struct attention_weights *w, struct error *err)
{
    int64_t h = c->hidden, lq = c->query_latent_dim, lkv = c->latent_dim, rope = (int64_t)c->n_heads * c->rope_dim;
    struct matrix unused;
    struct { const char *name; int64_t rows, columns; struct matrix *weight, *bias; } parts[] = {
        { "DKV_proj", lkv, h, &w->latent_down, &w->latent_down_bias },
        { "DQ_proj", lq, h, &w->query_down, &w->query_down_bias },
        { "UQ_proj", h, lq, &w->query_nope.weight, &w->query_nope_bias },
        { "UK_proj", h, lkv, &w->key_up[0].weight, &unused },
        { "UV_proj", h, lkv, &w->value_up[0].weight, &w->value_up_bias },
        { "RQ_proj", rope, lq, &w->query_rope.weight, &w->query_rope_bias },
        { "RK_proj", c->rope_dim, h, &w->rope_key, &w->rope_key_bias },
        { "output_proj", h, h, &w->output, &w->output_bias },
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[48];
        snprintf(name, sizeof name, "%s.weight", parts[i].name);
        TRY(bind_matrix(b, name, parts[i].rows, parts[i].columns, parts[i].weight, err));
        snprintf(name, sizeof name, "%s.bias", parts[i].name);
        TRY(bind_vector_if(b, name, parts[i].rows, parts[i].bias, err));
    }
    w->query_nope.stride = w->key_up[0].stride = w->value_up[0].stride = c->nope_dim;
    w->query_rope.stride = c->rope_dim;
    return STATUS_OK;
}

static enum status bind_cca(const struct binder *b, const struct attention_config *c,
                            struct attention_weights *w, struct error *err)
{
    int64_t lq = (int64_t)c->n_heads * c->nope_dim, lkv = (int64_t)c->n_kv_heads * c->nope_dim;
    struct matrix packed;
    TRY(bind_matrix(b, "linear_qk.weight", lq + lkv, c->hidden, &packed, err));
    w->query_nope = (struct up_projection){ matrix_rows(packed, 0, lq), c->nope_dim, 0 };
    w->key = matrix_rows(packed, lq, lkv);
    if (c->value_shift) {
        TRY(bind_matrix(b, "val_proj1.weight", lkv / 2, c->hidden, &w->value_current, err));
        TRY(bind_matrix(b, "val_proj2.weight", lkv / 2, c->hidden, &w->value_delayed, err));
    } else {
        TRY(bind_matrix(b, "val_proj.weight", lkv, c->hidden, &w->value, err));
    }
    if (c->n_conv >= 1)
        TRY(bind_folded(b, "conv_qk0.weight", lq + lkv, 1, c->conv_kernel_seq, &w->conv_seq, err));
    if (c->n_conv >= 2)
        TRY(bind_folded(b, "conv_qk1.weight", lq + lkv, c->nope_dim, c->conv_kernel_ch, &w->conv_ch, err));
    TRY(bind_vector(b, "temp", 1, &w->temperature, err));
    return bind_matrix(b, "out_proj.weight", c->hidden, lq, &w->output, err);
}

/* ---- the MLRA repository's names ---- */

/* W_UK and W_UV of latent l: per head, P key rows then V value rows. */
static void split_up(struct attention_weights *w, const struct attention_config *c, int l, struct matrix up,
                     int first_head)
{
    int stride = c->nope_dim + c->value_dim;
    w->key_up[l] = rows_from(up, 0, stride);
    w->value_up[l] = rows_from(up, c->nope_dim, stride);
    w->key_up[l].first_row = w->value_up[l].first_row = first_head * stride;
}

static enum status bind_paper_up(const struct binder *b, const struct attention_config *c,
                                 struct attention_weights *w, struct error *err)
{
    int64_t per_head = c->nope_dim + c->value_dim;
    struct matrix up;
    char name[48];
    if (c->kind == ATTENTION_MLA) {
        TRY(bind_matrix(b, "kv_b_proj.weight", c->n_heads * per_head, c->latent_dim, &up, err));
        split_up(w, c, 0, up, 0);
        return bind_vector(b, "kv_a_layernorm.weight", c->latent_dim, &w->latent_norm[0], err);
    }
    for (int l = 0; l < c->n_latents; l++) {
        if (c->kind == ATTENTION_GLA) {
            int64_t heads = c->n_heads / c->n_latents;
            snprintf(name, sizeof name, "kv_b_proj_%d.weight", l + 1);
            TRY(bind_matrix(b, name, heads * per_head, c->latent_dim, &up, err));
            split_up(w, c, l, up, (int)(l * heads));
            snprintf(name, sizeof name, "kv_a_layernorm_%d.weight", l + 1);
        } else {
            /* A bare parameter [latent][in][out]: transposed against a Linear. */
            int64_t heads = c->n_branches == 4 ? c->n_heads : c->n_heads / 2;
            TRY(bind_slice(b, "kv_b_proj", c->n_latents, l, c->latent_dim, heads * per_head, &up, err));
            split_up(w, c, l, matrix_transpose(up), c->n_branches == 4 ? 0 : (int)(l % 2 * heads));
            snprintf(name, sizeof name, "kv_a_layernorms.%d.weight", l);
        }
        TRY(bind_vector(b, name, c->latent_dim, &w->latent_norm[l], err));
    }
    return STATUS_OK;
}

static enum status bind_paper(const struct binder *b, const struct attention_config *c,
                              struct attention_weights *w, struct error *err)
{
    int64_t latents = (int64_t)c->n_latents * c->latent_dim, values = (int64_t)c->n_heads * c->value_dim;
    int per_head = c->nope_dim + c->rope_dim;
    struct matrix q_b, kv_a;
    TRY(bind_matrix(b, "q_a_proj.weight", c->query_latent_dim, c->hidden, &w->query_down, err));
    TRY(bind_vector(b, "q_a_layernorm.weight", c->query_latent_dim, &w->query_norm, err));
    TRY(bind_matrix(b, "q_b_proj.weight", (int64_t)c->n_heads * per_head, c->query_latent_dim, &q_b, err));
    w->query_nope = rows_from(q_b, 0, per_head);
    w->query_rope = rows_from(q_b, c->nope_dim, per_head);
    TRY(bind_matrix(b, "kv_a_proj_with_mqa.weight", latents + c->rope_dim, c->hidden, &kv_a, err));
    w->latent_down = matrix_rows(kv_a, 0, latents);
    w->rope_key = matrix_rows(kv_a, latents, c->rope_dim);
    TRY(bind_paper_up(b, c, w, err));
    if (c->gated)
        TRY(bind_matrix(b, "gated_proj.weight", values, c->hidden, &w->gate, err));
    return bind_matrix(b, "c_proj.weight", c->hidden, values, &w->output, err);
}

static enum status bind_gqa(const struct binder *b, const struct attention_config *c,
                            struct attention_weights *w, struct error *err)
{
    int64_t q = (int64_t)c->n_heads * c->nope_dim, kv = (int64_t)c->n_kv_heads * c->nope_dim;
    w->query_nope.stride = c->nope_dim;
    TRY(bind_matrix(b, "c_q.weight", q, c->hidden, &w->query_nope.weight, err));
    TRY(bind_matrix(b, "c_k.weight", kv, c->hidden, &w->key, err));
    TRY(bind_matrix(b, "c_v.weight", kv, c->hidden, &w->value, err));
    if (c->gated)
        TRY(bind_matrix(b, "gated_proj.weight", q, c->hidden, &w->gate, err));
    return bind_matrix(b, "c_proj.weight", c->hidden, q, &w->output, err);
}

enum status attention_bind(const struct binder *b, const struct attention_config *c,
                           struct attention_weights *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    switch (c->kind) {
    case ATTENTION_MLA_ROPE:   return bind_mla_rope(b, c, out, err);
    case ATTENTION_MLRA:       return bind_mlra(b, c, out, err);
    case ATTENTION_CCA:        return bind_cca(b, c, out, err);
    case ATTENTION_GQA:        return bind_gqa(b, c, out, err);
    case ATTENTION_MLA:
        /* The seed has no norm on its latent, the repository's MLA has. */
        return c->latent_norm ? bind_paper(b, c, out, err) : bind_mla(b, c, out, err);
    case ATTENTION_MLRA_PAPER:
    case ATTENTION_GLA:        return bind_paper(b, c, out, err);
    }
    return fail(err, STATUS_INTERNAL, "attention kind %d has no tensor names", (int)c->kind);
}
