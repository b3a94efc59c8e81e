/* attention_private.h - what the files of one attention layer share: the layer
 * itself and the two fronts, latent (MLA, MLRA, GLA) and kv_heads (GQA, CCA).
 * Included by attention.c, attention_latent.c, attention_kv.c, attention_conv.c. */
#ifndef ATTENTION_ATTENTION_PRIVATE_H
#define ATTENTION_ATTENTION_PRIVATE_H

#include "attention/attention.h"

struct latent_front;
struct kv_front;

struct attention {
    /* fixed at create */
    struct attention_config config;
    struct attention_options options;
    struct head_range heads;            /* computed here */
    struct head_range output_heads;     /* rows of W_O held here */
    struct attend_group *groups;
    int n_groups;
    struct linear output;
    const float *output_bias;
    struct linear gate;                 /* of output_heads; n_outputs 0 if not gated */
    struct latent_front *latent;        /* one of the two is NULL */
    struct kv_front *kv;
    size_t query_floats, sum_floats;    /* per token */
    struct attend_group chunk_group;    /* by_chunk: all heads over own chunks */
    struct reduce_part own_lanes;
    struct reduce_plan lane_plan;

    /* scratch of a step */
    float *queries, *sums;
    float *head_values;                 /* [n_rows][heads * V] */
    float *gates;                       /* [n_rows][output_heads * V] */
    float *attend_scratch;
    float *row_scratch;                 /* one input row of any BitLinear */
    float *node_scratch;                /* by_chunk: merged nodes of a row */
    char *gathered_blocks;              /* by_chunk: rows of one sequence, in blocks of the cache's layout */
    int32_t *gathered_table;            /* 0, 1, 2 .. */
};

/* A new BitLinear or plain projection of `rows`, which come from `whole`. */
MUST_CHECK enum status attention_project_create(struct linear *out, const struct attention *a,
                                                const struct matrix *rows, const struct matrix *bias,
                                                int n_parts, const struct matrix *whole,
                                                struct arena *arena, struct error *err);
/* y[n_rows][y_stride] = projection of x[n_rows][x_stride] */
void attention_project(const struct attention *a, const struct linear *linear, const float *x,
                       size_t x_stride, int n_rows, float *y, size_t y_stride);

/* A vector as floats, or NULL if it is absent. */
MUST_CHECK enum status attention_vector(const struct matrix *vector, struct arena *arena,
                                        const float **out, struct error *err);

MUST_CHECK enum status latent_front_create(struct attention *a, const struct attention_weights *w,
                                           struct arena *weights, struct arena *scratch, struct error *err);
void latent_front_append(struct attention *a, const struct attention_step *step, const float *x);
void latent_front_query(struct attention *a, const struct attention_step *step, const float *x);
/* One span over its positions; of many rows the results are in head_values already. */
void latent_front_attend(const struct attention *a, const struct attend_job *job, const struct span *span,
                         const struct cache_view *view);
void latent_front_heads(struct attention *a, const struct attention_step *step);
size_t latent_front_bytes(const struct attention *a);

MUST_CHECK enum status kv_front_create(struct attention *a, const struct attention_weights *w,
                                       struct arena *weights, struct arena *scratch, struct error *err);
void kv_front_append(struct attention *a, const struct attention_step *step, const float *x);
void kv_front_query(struct attention *a, const struct attention_step *step, const float *x);
void kv_front_heads(struct attention *a, const struct attention_step *step);
size_t kv_front_bytes(const struct attention *a);

#endif
