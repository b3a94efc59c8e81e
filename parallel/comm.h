/* comm.h - collectives among the ranks of one team.
 *
 * Every rank makes the same calls, in the same order, with the same sizes.
 * That is the whole protocol.  A collective is two halves:
 *
 *     float *out = comm_outbox(comm, rank);      write what the others need
 *     TRY(comm_publish(comm, rank, n));          meet; now all outboxes are read-only
 *     const float *in = comm_inbox(comm, rank, peer);
 *
 * There are two outboxes a rank, used in turn, so one meeting per collective is
 * enough: a rank that writes its next outbox cannot be overtaken by a rank that
 * still reads the last.  What was read must be read before the next publish.
 *
 *     rank 0:  outbox A ..publish.. read A | outbox B ..publish.. read B | outbox A
 *     rank 1:  outbox A ..publish..  read A  |  outbox B ..publish..  read B
 *
 * Determinism: partial sums are published as nodes of a reduce_tree and every
 * reader finishes the same tree, element by element; all ranks hold the same
 * bytes, on any number of ranks.
 *
 * Failure: comm_poison makes every call in progress, and every later one, return
 * PEER_FAILED on every rank.  A poisoned team is torn down, not healed.
 *
 * Threads: each rank calls with its own rank number.  Memory: at create.
 */
#ifndef PARALLEL_COMM_H
#define PARALLEL_COMM_H

#include "base/reduce_tree.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct comm;                /* opaque, shared by all ranks */

/* max_floats: the largest n of any publish. */
MUST_CHECK enum status comm_create(struct comm **out, int n_ranks, size_t max_floats, struct error *err);
void comm_destroy(struct comm *comm);           /* NULL is allowed */

int comm_size(const struct comm *comm);

float *comm_outbox(struct comm *comm, int rank);    /* [max_floats] */
MUST_CHECK enum status comm_publish(struct comm *comm, int rank, size_t n_floats);
const float *comm_inbox(const struct comm *comm, int rank, int peer);

/* After a publish of nodes [n_nodes][node_stride]: sum[count] = the tree over
 * all ranks' nodes, elements [first, first + count) of each. */
void comm_finish_sum(const struct comm *comm, int rank, const struct reduce_plan *plan,
                     size_t node_stride, size_t first, size_t count, float *sum);

MUST_CHECK enum status comm_barrier(struct comm *comm, int rank);
void comm_poison(struct comm *comm);

struct comm_counters {
    uint64_t meetings;          /* barriers and publishes */
    uint64_t bytes_sent;        /* published, to all others together */
    int64_t waited_ns;          /* from arriving to the last arrival, wall clock */
    int64_t waited_cpu_ns;      /* of that, CPU time spent spinning */
};
/* Of rank so far; any thread, a recent moment. */
struct comm_counters comm_counters(const struct comm *comm, int rank);

#endif
