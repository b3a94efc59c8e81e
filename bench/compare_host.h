/* compare_host.h - this machine, measured: the rates that its kernels reach, as
 * a device profile of one core, and what a report says about the machine.
 *
 *   peak        the value kernel, the faster of attention's two, on rows that lie
 *               in the nearest caches
 *   bandwidth   the score kernel with one query over a buffer many times the
 *               last-level cache's share
 *   link        copying an outbox's worth of numbers; latency: one barrier
 *
 * Both rates are of the calling thread's CPU time, the best of several: what a
 * rank with a core of its own gets, whatever else runs.
 *
 * Owner: the caller.  Memory: one buffer of COMPARE_FLUSH_BYTES, kept: reading
 * it empties the caches between two measured steps (compare_host_flush).
 */
#ifndef BENCH_COMPARE_HOST_H
#define BENCH_COMPARE_HOST_H

#include "attention/kernels.h"
#include "base/arena.h"
#include "bench/compare_profile.h"

enum { COMPARE_FLUSH_BYTES = 192 << 20 };

struct compare_host {
    struct compare_profile profile;     /* name "host" */
    char processor[96];                 /* as the system names it */
    int n_cores;                        /* usable by this process */
    double barrier_ns;
    const struct kernels *kernels;
    struct arena arena;
    float *buffer;                      /* [COMPARE_FLUSH_BYTES / 4] */
};

/* NO_MEMORY, PEER_FAILED. */
MUST_CHECK enum status compare_host_init(struct compare_host *host, const struct kernels *kernels,
                                         struct error *err);
void compare_host_clear(struct compare_host *host);

/* Read the whole buffer, so that what a step needs comes from memory, as it does
 * between two layers of a model. */
void compare_host_flush(const struct compare_host *host);

#endif
