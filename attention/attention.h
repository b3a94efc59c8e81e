/* attention.h - one rank's part of an attention layer, in four calls.
 *
 *     x ---> attention_append   cached rows (and tails) of the step's tokens
 *     x ---> attention_query    query rows of this rank's heads
 *            attention_attend   softmax over the cached rows -> heads
 *       (heads whose branches lie on several ranks are summed by model/layer.c)
 *            attention_output   heads -> partial sums of W_O
 *       (the partial sums are all-reduced by model/layer.c)
 *
 * All of it touches this rank's weights, cache and scratch only; whatever
 * crosses ranks is done by the caller between the calls.
 *
 * heads   [n_rows][(end - begin) * V]: the rank's heads in order; for branches
 *         on several ranks, the sum over the branches this rank holds.
 *
 * Owner: the rank.  Memory: weights and scratch come from the arenas at create;
 * no call allocates.
 */
#ifndef ATTENTION_ATTENTION_H
#define ATTENTION_ATTENTION_H

#include "attention/attend.h"
#include "attention/attention_config.h"
#include "cache/latent_store.h"

/* The layer's parameters, as views of the files.  Row (head h, element p) of an
 * up-projection is row h * stride + p - first_row of its matrix. */
struct up_projection {
    struct matrix weight;
    int stride;
    int first_row;
};

struct attention_weights {
    /* query: nope rows of head h at h * query_nope.stride, rope rows likewise */
    struct matrix query_down, query_down_bias, query_norm;
    struct up_projection query_nope, query_rope;
    struct matrix query_nope_bias, query_rope_bias;
    /* latents */
    struct matrix latent_down, latent_down_bias;    /* [L * W][H] */
    struct matrix rope_key, rope_key_bias;          /* [R][H] */
    struct matrix latent_norm[ATTENTION_MAX_LATENTS];
    struct up_projection key_up[ATTENTION_MAX_LATENTS], value_up[ATTENTION_MAX_LATENTS];
    struct matrix value_up_bias;                    /* [N * V]; a key bias shifts every score of a
                                                       query alike, so softmax does not see it */
    struct matrix gate;                             /* [N * V][H] */
    /* GQA: rows by head; CCA: query_nope and key are the halves of linear_qk */
    struct matrix key, key_bias, value, value_bias;
    /* CCA */
    struct matrix value_current, value_delayed;     /* [n_kv * V / 2][H] each */
    struct matrix conv_seq, conv_ch;                /* [C][k], [C][width * k] */
    struct matrix temperature;                      /* one element */
    struct matrix output, output_bias;              /* [H][N * V] */
};

struct attention_options {
    const struct kernels *kernels;
    enum weight_type weight_type;
    int n_ranks, rank;
    struct linear_scratch *scratch;     /* of the rank; NULL: every layer has its own small one */
    int max_rows;               /* token rows of a step */
    int n_positions;            /* rotary tables are made for [0, n_positions) */
    /* MLA only: the cache is sharded by chunk of positions instead of replicated;
     * every rank attends all heads over its own chunks, and the partials are
     * merged.  The bits are the same. */
    int by_chunk;
    int chunk;                  /* positions of a partial, as in struct attend_job */
};

struct attention_step {
    const struct span *spans;
    int n_spans;
    int n_rows;
    const struct latent_store *store;
    int layer;
};

struct attention;               /* opaque */

/* The config has been checked for n_ranks.  NO_MEMORY. */
MUST_CHECK enum status attention_create(struct attention **out, const struct attention_config *config,
                                        const struct attention_weights *weights,
                                        const struct attention_options *options,
                                        struct arena *weight_arena, struct arena *scratch_arena,
                                        struct error *err);

/* x [n_rows][H], normed. */
void attention_append(struct attention *a, const struct attention_step *step, const float *x);
void attention_query(struct attention *a, const struct attention_step *step, const float *x);
void attention_attend(struct attention *a, const struct attention_step *step);

/* by_chunk, instead of attention_attend, in one of two ways with the same bits; all
 * ranks choose alike.
 *
 * Few positions for the rows of a step (a prompt): the cached rows of the step's
 * sequences are gathered, and the own heads are attended over all positions. */
enum { GATHERED_POSITIONS = 2048 };     /* of a sequence, at most */
int attention_gathers_rows(const struct attention *a, const struct attention_step *step);
/* Own rows of every span into out; returns the floats that they take. */
size_t attention_put_rows(const struct attention *a, const struct attention_step *step, float *out);
/* peer_rows[rank] is what that rank put. */
void attention_attend_rows(struct attention *a, const struct attention_step *step, const float *const *peer_rows);

/* Else: every rank's queries are attended over the own chunks into nodes, and the
 * nodes of all ranks are merged for the own heads.
 *   queries   [n_rows][heads of a rank][W + R]; peer_queries[rank]: what that rank published
 *   nodes     [n_rows][N][own nodes][W + 2]; peer_nodes[rank] likewise */
const float *attention_queries(const struct attention *a, int *floats_per_head);
size_t attention_chunk_node_floats(const struct attention_config *c, int n_ranks, int rank);   /* of a row */
void attention_attend_chunks(struct attention *a, const struct attention_step *step,
                             const float *const *peer_queries, float *nodes);
void attention_merge_chunks(struct attention *a, const struct attention_step *step,
                            const float *const *peer_nodes);
int attention_may_shard_by_chunk(const struct attention_config *c, int n_ranks);

float *attention_heads(struct attention *a);    /* [n_rows][heads * V] of attention_rank_heads */

/* heads [n_rows][n * V] of attention_output_heads, branches summed (not yet
 * times branch_factor), overwritten; node k of row r goes to
 * out + k * node_stride + r * H.  The bias of W_O is not added.  Returns how many nodes. */
int attention_output(struct attention *a, const struct attention_step *step, float *heads, float *out,
                      size_t node_stride);
const float *attention_output_bias(const struct attention *a);      /* [H] or NULL */

/* BitLinear W_O: every rank needs all heads [n_rows][N * V] and computes the
 * rows [begin, end) of W_O; out [n_rows][end - begin]. */
struct head_range attention_output_rows(const struct attention *a);
void attention_output_bitnet(struct attention *a, const struct attention_step *step, const float *heads,
                             float *out);

struct attention_cost {
    size_t weight_bytes;            /* read in a step, whatever the number of rows */
    int64_t multiply_adds_per_row;  /* of the projections */
    int64_t multiply_adds_per_cached_row;   /* of scores and values, per query token */
};
struct attention_cost attention_cost(const struct attention *a);

#endif
