/* layer.h - one transformer layer on one rank; the only file in which sums
 * cross ranks.
 *
 *   x += all_reduce( W_O attention( norm(x) ) )
 *   x += all_reduce( W_down ( silu(W_gate n) * W_up n ) ),   n = norm(x)
 *
 * x is REPLICATED: every rank adds the same bytes to its own copy.
 *
 * Collectives of one layer: one all-reduce after attention, one after the MLP.
 * Paper MLRA on more ranks than hold whole heads first sums its branches (a
 * reduce-scatter over heads), BitLinear's W_O first gathers the heads.
 *
 * Owner: the rank.  Memory: arenas at create; nothing in a step.
 */
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include "attention/attention.h"
#include "parallel/comm.h"

enum { MLP_LEAVES = 16 };       /* of the sum over the MLP's width */

struct layer_weights {
    struct matrix input_norm, post_norm;        /* [H] */
    struct attention_weights attention;
    struct matrix gate, up, down;               /* [I][H] [I][H] [H][I] */
};

/* What all layers of a rank share: plans of the sums, and scratch. */
struct layer_shared {
    struct attention_config attention;
    struct attention_options options;
    int hidden, intermediate;
    float norm_eps;
    struct comm *comm;
    struct reduce_plan attention_plan, mlp_plan;
    int exchanges_branches;     /* heads' branches lie on several ranks */
    float *normed;              /* [max_rows][H] */
    float *gated;               /* [max_rows][own width of the MLP] */
    float *between;             /* [GATED_FLOATS] */
    float *all_heads;           /* [max_rows][N * V]; BitLinear, or summed branches */
    float *sum;                 /* [max_rows][H]: of BitLinear's W_O; a row of any other sum, or half of branches */
};

struct layer {
    struct layer_shared *shared;
    const float *input_norm, *post_norm;
    struct attention *attention;
    struct linear gate_up;      /* own rows of gate and up, gated */
    struct linear down;
};

/* Everything here may be asked for before any weights are there. */
int layer_mlp_ranks_valid(int n_ranks);
size_t layer_max_exchange(const struct attention_config *attention, int hidden, int n_ranks, int max_rows,
                          int by_chunk);

MUST_CHECK enum status layer_shared_create(struct layer_shared *shared, const struct attention_config *attention,
                                           const struct attention_options *options, int hidden,
                                           int intermediate, float norm_eps, struct comm *comm,
                                           struct arena *scratch, struct error *err);

MUST_CHECK enum status layer_create(struct layer *layer, struct layer_shared *shared,
                                    const struct layer_weights *weights, struct arena *weight_arena,
                                    struct arena *scratch_arena, struct error *err);

/* Before the first layer: shared->normed [n_rows][H] = its norm of x. */
void layer_begin(const struct layer *first, int n_rows, const float *x);

/* x [n_rows][H] in place.  shared->normed is this layer's norm of x before, and the next layer's after; next NULL:
 * there is none.  PEER_FAILED. */
MUST_CHECK enum status layer_run(struct layer *layer, const struct layer *next, const struct attention_step *step,
                                 float *x);

/* Attention alone, after attention_append: out[n_rows][H] = W_O attention(x) +
 * bias, summed over the ranks.  PEER_FAILED. */
MUST_CHECK enum status layer_attention(struct layer_shared *shared, struct attention *attention,
                                       const struct attention_step *step, const float *x, float *out);

/* The MLP of shared->normed [n_rows][H]: this rank's nodes of the sum, [node][n_rows][H]. */
void layer_mlp(struct layer *layer, int n_rows, float *nodes);

size_t layer_weight_bytes(const struct layer *layer);

#endif
