/* compare_collective.h - what a step's collectives cost on this machine, run by
 * a real team of threads.
 *
 * Each rank publishes as many numbers as the step's collective would, and reads
 * and adds as many out of the outboxes.  With fewer cores than ranks the ranks
 * wait for each other's time slice, which says nothing about the collective, so
 * the cost is the CPU time of the busiest rank, time spent waiting left out, plus
 * one barrier between two cores for each meeting.
 *
 * Threads: the caller leads the team.  Memory: freed before return.
 */
#ifndef BENCH_COMPARE_COLLECTIVE_H
#define BENCH_COMPARE_COLLECTIVE_H

#include "attention/kernels.h"
#include "bench/compare_count.h"

/* Nanoseconds of one barrier of two ranks on two cores, the quickest of many;
 * 0 where there is one core.  PEER_FAILED, NO_MEMORY. */
MUST_CHECK enum status compare_barrier_ns(int n_cores, double *out, struct error *err);

/* Nanoseconds of all exchanges of the works' steps, works[n_ranks]. */
MUST_CHECK enum status compare_collectives_ns(const struct compare_work *works, int n_ranks,
                                              const struct kernels *kernels, double barrier_ns, double *out,
                                              struct error *err);

#endif
