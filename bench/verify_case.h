/* verify_case.h - golden attention cases: one layer, its input, its weights and
 * the output it must have, in one safetensors file.
 *
 * Every path that decoding may take is run on every degree of parallelism:
 *   (a) one full forward;
 *   (b) token by token from the cache;
 *   (c) prefill in chunks of 1, 3, 7, 16, then token by token;
 * and must be within the case's tolerance of the expected output.  All paths
 * and all degrees use the same arithmetic here, so they must also agree to the
 * bit; one that does not fails the case.
 *
 * Threads: the calling thread leads a team per degree.  Memory: freed before
 * return.
 */
#ifndef BENCH_VERIFY_CASE_H
#define BENCH_VERIFY_CASE_H

#include "base/status.h"

struct verify_result {
    char kind[24];
    double relative_error;      /* ||got - want|| / ||want||, the worst path */
    double tolerance;
    char paths[160];            /* what was run: "full,step,chunks x ranks 1,2,4; refused 3,8" */
    int ok;
    char reason[320];           /* if not ok */
};

/* kernels: name of the table to use, NULL for the fastest.  A status other than OK: the file cannot be read
 * as a case at all. */
MUST_CHECK enum status verify_case(const char *path, const char *kernels,
                                   struct verify_result *out, struct error *err);

#endif
