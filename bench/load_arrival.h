/* load_arrival.h - when each request is due.
 *
 *   closed loop   a request is due the moment an earlier one ends; nothing to
 *                 plan (n_requests and the concurrency say it all)
 *   open loop     request i is due at due_ns[i] after the start, whether or not
 *                 the server keeps up
 *   trace         due_ns[] are the timestamps of a recorded run
 *
 * Open loop: the gap before request i is drawn from Gamma(shape b, mean 1/R(i)),
 * b the burstiness: 1 is Poisson, below 1 comes in bursts, INFINITY is evenly
 * spaced.  R(i) is the rate, or on a ramp goes from rate to end_rate while i
 * goes from 0 to n-1.  All gaps are then scaled by one factor so that the last
 * request is due at exactly sum 1/R(i) (n / R without a ramp): the realised
 * rate is the requested one, and runs at different seeds are comparable.  The
 * first gap is not zero.
 *
 * Owner: the caller; read-only after create.  Memory: 8 bytes a request.
 */
#ifndef BENCH_LOAD_ARRIVAL_H
#define BENCH_LOAD_ARRIVAL_H

#include "base/rng.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define LOAD_MAX_REQUESTS 10000000

enum load_ramp { LOAD_RAMP_NONE, LOAD_RAMP_LINEAR, LOAD_RAMP_EXPONENTIAL };

struct load_arrival_options {
    double rate;                /* requests per second, > 0; INFINITY: all due at once */
    double burstiness;          /* > 0, INFINITY allowed */
    enum load_ramp ramp;
    double end_rate;            /* with a ramp: > 0 and finite, and so is rate */
    size_t n_requests;          /* 1 .. LOAD_MAX_REQUESTS */
    uint64_t seed;
};

struct load_arrival {
    int64_t *due_ns;            /* [n], ascending */
    size_t n;
};

/* BAD_OPTION: a value outside the ranges above.  NO_MEMORY. */
MUST_CHECK enum status load_arrival_open(struct load_arrival *out, const struct load_arrival_options *options,
                                         struct error *err);

/* timestamps_ms[n] as recorded, ascending, from any origin: the first becomes 0,
 * and all are divided by speed (> 0; 2 plays twice as fast). */
MUST_CHECK enum status load_arrival_trace(struct load_arrival *out, const double *timestamps_ms, size_t n,
                                          double speed, struct error *err);

void load_arrival_clear(struct load_arrival *arrival);

/* How many requests an open loop starts in duration_s.  At least 1, at most
 * LOAD_MAX_REQUESTS. */
size_t load_arrival_count(const struct load_arrival_options *options, double duration_s);

/* One sample of Gamma(shape, scale 1); shape > 0.  (Marsaglia, Tsang, "A simple
 * method for generating gamma variables", 2000.) */
double load_gamma(struct rng *rng, double shape);

#endif
