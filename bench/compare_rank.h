/* compare_rank.h - one rank of one formulation, built with random weights and a
 * filled cache, whose share of a decode step is run alone and timed.
 *
 *   create   weights packed, cache rows written: nothing is prefilled, the rows
 *            are random, so a context of a million tokens costs no forward pass
 *   step     append, query, attend, output (and MLP, head) as model/layer.c does
 *            them; what would come from other ranks is stale or random data of
 *            the same size, for nothing here looks at the values
 *
 * The cache is really there: every token of every sequence has bytes of its own
 * on this rank, up to max_tokens.  By chunk, only the rank's positions have.
 *
 * Times are CPU time of the calling thread, so other processes take none of it;
 * they still share memory bandwidth and the last-level cache.
 *
 * Owner: the calling thread.  Memory: all at create.
 */
#ifndef BENCH_COMPARE_RANK_H
#define BENCH_COMPARE_RANK_H

#include "bench/compare_count.h"
#include "bench/compare_weights.h"

struct comm;
struct compare_rank;            /* opaque */

struct compare_rank_spec {
    struct compare_point point; /* context and batch: the largest that will be run */
    int rank;
    int64_t max_tokens;         /* of all sequences of a step together */
    const struct kernels *kernels;
    const struct compare_pool *pool;
    struct comm *comm;          /* of the team, or NULL: the rank is only run alone */
};

/* NO_MEMORY. */
MUST_CHECK enum status compare_rank_create(struct compare_rank **out, const struct compare_rank_spec *spec,
                                           struct error *err);
void compare_rank_destroy(struct compare_rank *rank);       /* NULL is allowed */

/* Bytes of weights that the layer says it reads; for checking compare_count. */
size_t compare_rank_weight_bytes(const struct compare_rank *rank);
/* And its multiply-adds per cached row and query token. */
int64_t compare_rank_attend_macs(const struct compare_rank *rank);

/* Ready for steps of batch sequences of context tokens, context * batch <= max_tokens. */
void compare_rank_aim(struct compare_rank *rank, int64_t context, int batch);

enum compare_phase { COMPARE_PROJECT, COMPARE_ATTEND, COMPARE_OUTPUT, COMPARE_MLP, COMPARE_HEAD, COMPARE_N_PHASES };

/* CPU nanoseconds of each phase; layers of a model count n_layers times.  A
 * phase that is no part of the point's part is 0. */
void compare_rank_step(struct compare_rank *rank, int64_t phases[COMPARE_N_PHASES]);

/* The same step as a member of the team, with its collectives; one layer.
 * PEER_FAILED. */
MUST_CHECK enum status compare_rank_team_step(struct compare_rank *rank);

#endif
