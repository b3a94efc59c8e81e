/* attention_config.h - one attention layer's formulation, resolved: every
 * choice is a field, nothing is guessed from a name.
 *
 * Plain data, made by model/config.c from config.json; letters as in
 * docs/VOCABULARY.md: H hidden, N query heads, P nope width, R rope width,
 * V value width, L latents of width W.
 *
 *   kind        source
 *   MLA         DeepSeek-V2, 2024, equations 37-47 (decoupled RoPE); seed 002
 *   MLA_ROPE    Mehta et al., arXiv 2506.09342 (RoPE on decompressed q and k); seed 000
 *   MLRA        block-diagonal latents; seed 001
 *   MLRA_PAPER  Liu et al., arXiv 2603.02188, MLRA-2 and MLRA-4 (branches)
 *   GLA         Zadouri et al., arXiv 2505.21487
 *   CCA         Figliola et al., arXiv 2510.04476, CCA and CCGQA; seed 003
 *   GQA         grouped-query attention; MHA when n_kv_heads == n_heads
 *
 * Threads: any; memory: none.
 */
#ifndef ATTENTION_ATTENTION_CONFIG_H
#define ATTENTION_ATTENTION_CONFIG_H

#include "attention/rope.h"
#include "base/element.h"
#include "base/status.h"
#include "cache/layout.h"

enum attention_kind {
    ATTENTION_MLA, ATTENTION_MLA_ROPE, ATTENTION_MLRA, ATTENTION_MLRA_PAPER, ATTENTION_GLA,
    ATTENTION_CCA, ATTENTION_GQA
};

enum rope_scheme {
    ROPE_NONE,              /* no positions in the scores */
    ROPE_DECOUPLED,         /* R extra columns of query and key, one key for all heads */
    ROPE_DECOMPRESSED,      /* the whole head of q and of k = W_UK c */
    ROPE_HEAD,              /* the whole head of the cached k (GQA, CCA) */
};

enum { ATTENTION_MAX_LATENTS = 64, ATTENTION_MAX_HEADS = 256, ATTENTION_MAX_CONV = 16 };

struct attention_config {
    enum attention_kind kind;
    char label[24];             /* "mla", "mlra_4", "ccgqa": what people call it */
    int hidden;                 /* H */
    int n_heads;                /* N */
    int nope_dim;               /* P; GQA, CCA: the head width */
    int rope_dim;               /* R of ROPE_DECOUPLED, else 0 */
    int value_dim;              /* V */
    int causal;                 /* 0: encoder, every position sees all */
    int bitnet;                 /* every projection is a BitLinear */
    double score_scale;

    enum rope_scheme rope;
    enum rope_pairing pairing;
    double rope_base;

    /* latent kinds */
    int query_latent_dim;       /* 0: the query is projected from H at once */
    int query_norm;             /* RMSNorm on the query latent */
    double query_factor;        /* multiplies it after the norm */
    int n_latents;              /* L */
    int latent_dim;             /* W of one latent */
    int latent_norm;            /* RMSNorm on each latent */
    double latent_factor;
    int n_branches;             /* softmaxes of a head that are summed: 1, 2, 4 */
    double branch_factor;       /* multiplies the sum of a head's branches */
    double norm_eps;
    int gated;                  /* out *= sigmoid(gate x) before W_O */

    /* GQA and CCA; also decompressed keys that query heads share */
    int n_kv_heads;

    /* CCA */
    int n_conv;                 /* 0, 1 (sequence), 2 (sequence, then channel) */
    int conv_kernel_seq, conv_kernel_ch;
    int qk_mean;
    int value_shift;
};

/* The limits and divisibility that every kind needs: BAD_MODEL with a sentence
 * that names the fields and the numbers. */
MUST_CHECK enum status attention_config_check(const struct attention_config *c, struct error *err);

/* May this layer lie on n_ranks ranks (design: devices)?  BAD_OPTION: the
 * sentence lists the degrees up to 16 that are valid. */
MUST_CHECK enum status attention_check_ranks(const struct attention_config *c, int n_ranks,
                                             struct error *err);
int attention_ranks_valid(const struct attention_config *c, int n_ranks);

/* What one rank caches of a token.  n_ranks valid, 0 <= rank < n_ranks. */
void attention_cache_shape(const struct attention_config *c, int n_ranks, int rank,
                           struct cache_shape *shape);

/* ---- who holds what; pure arithmetic over valid degrees ---- */

struct head_range {
    int begin, end;
};

/* The query heads whose attention rank computes (of some branch). */
struct head_range attention_rank_heads(const struct attention_config *c, int n_ranks, int rank);

/* The heads whose rows of W_O rank holds; with branches on several ranks this
 * differs from the above. */
struct head_range attention_output_heads(const struct attention_config *c, int n_ranks, int rank);

/* The latents rank caches, ascending; returns how many. */
int attention_rank_latents(const struct attention_config *c, int n_ranks, int rank,
                           int latents[ATTENTION_MAX_LATENTS]);

/* The KV heads rank caches (GQA, CCA). */
struct head_range attention_rank_kv_heads(const struct attention_config *c, int n_ranks, int rank);

/* Branch k of a head attends this latent.  For MLRA (block-diagonal) a head may
 * straddle several: *last is the last of the run [result, *last]. */
int attention_branch_latent(const struct attention_config *c, int head, int branch, int *last);

/* The sum over branches of a head: which ranks hold a part, in branch order.
 * 1 when one rank holds all branches. */
int attention_branch_ranks(const struct attention_config *c, int n_ranks, int head, int ranks[4]);

/* Leaves of the row-parallel sum of W_O: units of whole heads. */
int attention_output_leaves(const struct attention_config *c);

#endif
