/* compare_profile.h - described devices, and what a step would take on one.
 *
 * Modelled time of a step = the slowest rank's kernels + its collectives:
 *
 *   kernel       max( 2 multiply-adds / peak,  bytes / bandwidth )   for each of
 *                projections, attention over the cache, MLP, head
 *   collective   latency + numbers over the link * bytes of one / link bandwidth
 *
 * It is a roofline: no real kernel is faster, most are slower.  Numbers of a
 * profile are a data sheet's, named in `source`; only `host` is measured
 * (compare_host.h).  Kernels of different layers do not overlap.
 *
 * A profile file is JSON: {"name": "..", "source": "..", "peak_tflops": 989.4,
 * "bandwidth_gbs": 3350, "memory_gb": 80, "link_gbs": 450, "link_latency_us": 2,
 * "activation_bytes": 2}.
 *
 * Threads: any; memory: none.
 */
#ifndef BENCH_COMPARE_PROFILE_H
#define BENCH_COMPARE_PROFILE_H

#include "bench/compare_count.h"

enum { COMPARE_MAX_PROFILES = 8 };

struct compare_profile {
    char name[32];
    char source[200];
    double peak_flops;          /* FLOP/s, dense bf16 (host: what its kernels use, f32) */
    double bandwidth;           /* bytes/s of the device's memory */
    double memory;              /* bytes */
    double link_bandwidth;      /* bytes/s out of one device */
    double link_latency;        /* seconds of one collective */
    int activation_bytes;       /* of a number in a collective */
};

/* A built-in name, or a file's path.  BAD_OPTION: neither; the sentence lists
 * the names.  BAD_MODEL: a file that is not a profile. */
MUST_CHECK enum status compare_profile_find(const char *name, struct compare_profile *out, struct error *err);

const struct compare_profile *compare_profile_builtin(int i);    /* NULL past the last */

/* Seconds of the whole step. */
double compare_profile_step(const struct compare_profile *profile, const struct compare_point *point);

/* Seconds of one rank's kernels, collectives not counted. */
double compare_profile_rank(const struct compare_profile *profile, const struct compare_point *point,
                            const struct compare_work *work);

#endif
