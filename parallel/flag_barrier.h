/* flag_barrier.h - where ranks meet inside a step.
 *
 * Each rank owns one cache line with the number of the last meeting it arrived
 * at; a rank has met the others when every line shows its own number.  A rank
 * writes only its own line, so arriving costs one store.
 *
 *   rank 0 [ 7 ]   rank 1 [ 7 ]   rank 2 [ 6 ]    rank 2 is still on its way
 *
 * Waiting spins a bounded number of times, then yields, then sleeps in the
 * kernel until the awaited line changes: on as many cores as ranks nobody
 * leaves the processor, on fewer everyone still makes progress.  A sleep costs
 * 30 to 50 us here, a spin 0.15 us.
 *
 * Memory order: the arriving store releases, the awaited load acquires, so
 * everything written before a meeting is seen by everyone after it.
 *
 * Poison: flag_barrier_poison makes every wait, present and future, return
 * PEER_FAILED on every rank.
 *
 * Threads: rank r calls with its own r.  Memory: at create.
 */
#ifndef PARALLEL_FLAG_BARRIER_H
#define PARALLEL_FLAG_BARRIER_H

#include "base/status.h"

#include <stdint.h>

struct flag_barrier;        /* opaque, shared by all ranks */

MUST_CHECK enum status flag_barrier_create(struct flag_barrier **out, int n_ranks, struct error *err);
void flag_barrier_destroy(struct flag_barrier *barrier);    /* NULL is allowed */

/* Returns when every rank has called it as often as this one.  PEER_FAILED. */
MUST_CHECK enum status flag_barrier_meet(struct flag_barrier *barrier, int rank);

void flag_barrier_poison(struct flag_barrier *barrier);

/* Meetings rank has arrived at, and nanoseconds it waited in them.  Read by any
 * thread; the values are of some recent moment. */
uint64_t flag_barrier_meetings(const struct flag_barrier *barrier, int rank);
int64_t flag_barrier_waited_ns(const struct flag_barrier *barrier, int rank);
int64_t flag_barrier_waited_cpu_ns(const struct flag_barrier *barrier, int rank);   /* of it, on the CPU */

/* Tell the CPU that this is a spin loop. */
static inline void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
