#include "bench/load_arrival.h"

#include <math.h>
#include <stdlib.h>

/* A standard normal sample by the polar method. */
static double normal(struct rng *rng)
{
    for (;;) {
        double u = 2 * rng_uniform(rng) - 1;
        double v = 2 * rng_uniform(rng) - 1;
        double s = u * u + v * v;
        if (s > 0 && s < 1)
            return u * sqrt(-2 * log(s) / s);
    }
}

double load_gamma(struct rng *rng, double shape)
{
    /* Below 1 the method does not hold; Gamma(a) = Gamma(a + 1) * U^(1/a) does. */
    if (shape < 1) {
        double u = 1 - rng_uniform(rng);
        return load_gamma(rng, shape + 1) * pow(u, 1 / shape);
    }
    double d = shape - 1.0 / 3;
    double c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(rng);
        double v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        double u = 1 - rng_uniform(rng);
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

/* R(i) at progress 0 (first request) .. 1 (last). */
static double rate_at(const struct load_arrival_options *o, double progress)
{
    switch (o->ramp) {
    case LOAD_RAMP_LINEAR:
        return o->rate + (o->end_rate - o->rate) * progress;
    case LOAD_RAMP_EXPONENTIAL:
        return o->rate * pow(o->end_rate / o->rate, progress);
    case LOAD_RAMP_NONE:
        break;
    }
    return o->rate;
}

static double progress_of(size_t i, size_t n)
{
    return n > 1 ? (double)i / (double)(n - 1) : 0;
}

static enum status check_options(const struct load_arrival_options *o, struct error *err)
{
    if (!(o->rate > 0))
        return fail(err, STATUS_BAD_OPTION, "the rate is %g requests per second, it must be above 0",
                    o->rate);
    if (!(o->burstiness > 0))
        return fail(err, STATUS_BAD_OPTION, "the burstiness is %g, it must be above 0", o->burstiness);
    if (o->n_requests < 1 || o->n_requests > LOAD_MAX_REQUESTS)
        return fail(err, STATUS_BAD_OPTION, "%zu requests are outside 1 to %d", o->n_requests,
                    LOAD_MAX_REQUESTS);
    if (o->ramp != LOAD_RAMP_NONE && (!(o->end_rate > 0) || isinf(o->end_rate) || isinf(o->rate)))
        return fail(err, STATUS_BAD_OPTION, "a ramp from %g to %g requests per second needs two finite rates "
                    "above 0", o->rate, o->end_rate);
    return STATUS_OK;
}

static enum status allocate(struct load_arrival *out, size_t n, struct error *err)
{
    int64_t *due_ns = calloc(n, sizeof *due_ns);
    if (due_ns == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the arrival times of %zu requests", n);
    *out = (struct load_arrival){ .due_ns = due_ns, .n = n };
    return STATUS_OK;
}

/* due[n]: seconds, before scaling; returns the total the scaling aims at. */
static double draw(const struct load_arrival_options *o, double *due)
{
    struct rng rng;
    rng_seed(&rng, o->seed);
    double at = 0, target = 0;
    for (size_t i = 0; i < o->n_requests; i++) {
        double mean = 1 / rate_at(o, progress_of(i, o->n_requests));
        double gap = isinf(o->burstiness) ? 1 : load_gamma(&rng, o->burstiness) / o->burstiness;
        at += mean * gap;
        target += mean;
        due[i] = at;
    }
    return target;
}

enum status load_arrival_open(struct load_arrival *out, const struct load_arrival_options *o,
                              struct error *err)
{
    TRY(check_options(o, err));
    TRY(allocate(out, o->n_requests, err));
    if (isinf(o->rate))
        return STATUS_OK;
    double *due = calloc(o->n_requests, sizeof *due);
    if (due == NULL) {
        load_arrival_clear(out);
        return fail(err, STATUS_NO_MEMORY, "no memory for the arrival times of %zu requests", o->n_requests);
    }
    double target = draw(o, due);
    double last = due[o->n_requests - 1];
    double factor = last > 0 ? target / last : 0;
    double limit = (double)INT64_MAX / 4e9;     /* seconds; a rate near 0 must not overflow */
    for (size_t i = 0; i < o->n_requests; i++)
        out->due_ns[i] = (int64_t)(fmin(due[i] * factor, limit) * 1e9);
    free(due);
    return STATUS_OK;
}

enum status load_arrival_trace(struct load_arrival *out, const double *timestamps_ms, size_t n, double speed,
                               struct error *err)
{
    if (n < 1 || n > LOAD_MAX_REQUESTS)
        return fail(err, STATUS_BAD_OPTION, "a trace of %zu requests is outside 1 to %d", n,
                    LOAD_MAX_REQUESTS);
    if (!(speed > 0))
        return fail(err, STATUS_BAD_OPTION, "the trace speed is %g, it must be above 0", speed);
    TRY(allocate(out, n, err));
    double limit = (double)INT64_MAX / 4e6;     /* milliseconds */
    for (size_t i = 0; i < n; i++)
        out->due_ns[i] = (int64_t)(fmin((timestamps_ms[i] - timestamps_ms[0]) / speed, limit) * 1e6);
    return STATUS_OK;
}

void load_arrival_clear(struct load_arrival *arrival)
{
    free(arrival->due_ns);
    *arrival = (struct load_arrival){ 0 };
}

size_t load_arrival_count(const struct load_arrival_options *o, double duration_s)
{
    /* The mean of 1/R over the ramp, by the midpoints of many small steps. */
    enum { STEPS = 1000 };
    double mean_gap = 0;
    for (int i = 0; i < STEPS; i++)
        mean_gap += 1 / rate_at(o, (i + 0.5) / STEPS) / STEPS;
    /* The sum is not exact: 80 requests must not become 79.999. */
    double n = mean_gap > 0 ? floor(duration_s / mean_gap * (1 + 1e-9)) : LOAD_MAX_REQUESTS;
    return (size_t)fmin(fmax(n, 1), LOAD_MAX_REQUESTS);
}
