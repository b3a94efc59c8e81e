/* bench_probe.h - what this machine can do at most: reading memory on any number
 * of cores, and arithmetic in registers.
 *
 * Every rank is a thread bound to a core of its own; it reads its own pages, which
 * it has touched first.  A sample is wall clock between two barriers, so it is what
 * a step of that many ranks could get at that moment; whoever shares the machine
 * takes his part of it.
 *
 * Owner: one thread.  Memory: the pages, at create.
 */
#ifndef BENCH_BENCH_PROBE_H
#define BENCH_BENCH_PROBE_H

#include "base/status.h"
#include "bench/peak.h"

struct bench_probe;             /* opaque */

struct bench_probe_options {
    int n_ranks;
    size_t bytes;               /* of each rank; rounded up to 4 KiB */
    int small_pages;            /* 4 KiB instead of 2 MiB */
    int cpu_time;
    const struct peak_set *set;
};

/* NO_MEMORY, PEER_FAILED. */
MUST_CHECK enum status bench_probe_create(struct bench_probe **out, const struct bench_probe_options *options,
                                          struct error *err);
void bench_probe_destroy(struct bench_probe *probe);        /* NULL is allowed */

/* One sample of all ranks together: bytes a second, every rank reading `bytes` of
 * its own as n_streams (1, 4, 8) runs.  PEER_FAILED. */
MUST_CHECK enum status bench_probe_read(struct bench_probe *probe, int n_streams, double *out);

/* One sample: multiply-adds a second.  0: the set has no instruction for it. */
MUST_CHECK enum status bench_probe_peak(struct bench_probe *probe, enum peak_kind kind, double *out);

/* The limits of a step of n_ranks, the best of a few samples. */
struct bench_limits {
    double read;                    /* bytes a second */
    double peak[PEAK_N_KINDS];      /* multiply-adds a second; of a kind that the set lacks, f32's */
};

/* options->bytes: how much each rank reads, and so from where: 0 is memory. */
MUST_CHECK enum status bench_limits_measure(const struct bench_probe_options *options, struct bench_limits *out,
                                            struct error *err);

/* Keep the larger of each. */
void bench_limits_merge(struct bench_limits *limits, const struct bench_limits *other);

#endif
