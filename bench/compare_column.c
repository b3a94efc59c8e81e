#include "bench/compare_column.h"

#include <math.h>

const char *compare_source_name(enum compare_source source)
{
    static const char *const names[] = { "counted", "measured", "modelled" };
    return names[source];
}

/* ---- of a step: the device with the most ---- */

#define MOST(name, expression)                                                                          \
    static double name(const struct compare_session *session, const struct compare_result *r, int profile) \
    {                                                                                                   \
        (void)session, (void)profile;                                                                   \
        double most = 0;                                                                                \
        for (int rank = 0; rank < r->n_devices; rank++) {                                               \
            const struct compare_device *d = &r->devices[rank];                                         \
            double value = (double)(expression);                                                        \
            most = value > most ? value : most;                                                         \
        }                                                                                               \
        return most;                                                                                    \
    }

MOST(cache_per_token, d->work.cache_bytes_per_token)
MOST(cache_read, (double)d->work.cache_bytes_read / 1e6)
MOST(weights_read, (double)compare_weight_bytes(&r->point, &d->work) / 1e6)
MOST(macs, (double)compare_macs(&d->work) / 1e6)
MOST(collective_kb, (double)compare_collective_bytes(&d->work) / 1e3)
MOST(busiest, d->busy_ns / 1e6)
MOST(attending, (double)d->phases[COMPARE_ATTEND] / 1e6)

static double fits(const struct compare_session *session, const struct compare_result *r, int profile)
{
    (void)session, (void)profile;
    return (double)r->tokens_that_fit;
}

static double busy_ms(const struct compare_session *session, const struct compare_result *r, int profile)
{
    return r->is_measured ? busiest(session, r, profile) : NAN;
}

/* A team's step is not cut in phases. */
static double attend_ms(const struct compare_session *session, const struct compare_result *r, int profile)
{
    return r->is_measured && r->wall_ns < 0 ? attending(session, r, profile) : NAN;
}

static double collective_ms(const struct compare_session *session, const struct compare_result *r, int profile)
{
    (void)session, (void)profile;
    return r->is_measured && r->wall_ns < 0 ? r->collective_ns / 1e6 : NAN;
}

static double device_ms(const struct compare_session *session, const struct compare_result *r, int profile)
{
    (void)session, (void)profile;
    return r->is_measured ? r->device_ns / 1e6 : NAN;
}

static double wall_ms(const struct compare_session *session, const struct compare_result *r, int profile)
{
    (void)session, (void)profile;
    return r->is_measured && r->wall_ns >= 0 ? r->wall_ns / 1e6 : NAN;
}

static double tokens_per_s(const struct compare_session *session, const struct compare_result *r, int profile)
{
    (void)session, (void)profile;
    return r->is_measured && r->device_ns > 0 ? r->point.batch / (r->device_ns / 1e9) : NAN;
}

static double speedup(const struct compare_session *session, const struct compare_result *r, int profile)
{
    (void)profile;
    double ratio = compare_speedup(session, r);
    return ratio > 0 ? ratio : NAN;
}

static double modelled_ms(const struct compare_session *session, const struct compare_result *r, int profile)
{
    (void)session;
    return r->modelled_s[profile] * 1e3;
}

static double modelled_speedup(const struct compare_session *session, const struct compare_result *r, int profile)
{
    double ratio = compare_modelled_speedup(session, r, profile);
    return ratio > 0 ? ratio : NAN;
}

const struct compare_column compare_columns[] = {
    { "cache_bytes_per_token", "cache B/token", "bytes that the fullest device caches of a token in one layer",
      COMPARE_COUNTED, 0, cache_per_token },
    { "cache_mb_read", "cache MB read", "cached bytes that the busiest device must read in a step, each once",
      COMPARE_COUNTED, 2, cache_read },
    { "weight_mb_read", "weights MB read", "weight bytes that the busiest device reads in a step", COMPARE_COUNTED, 2,
      weights_read },
    { "million_macs", "M mult-adds", "millions of multiply-adds of the busiest device in a step", COMPARE_COUNTED, 1,
      macs },
    { "collective_kb", "sent kB", "bytes that a device publishes in collectives in a step, f32", COMPARE_COUNTED, 1,
      collective_kb },
    { "tokens_that_fit", "tokens that fit", "cached tokens beside the whole model's weights in --device-memory",
      COMPARE_COUNTED, 0, fits },
    { "busy_ms", "busy ms", "CPU time of the busiest device", COMPARE_MEASURED, 4, busy_ms },
    { "attend_ms", "attend ms", "of that, attention over the cached rows and W_UV", COMPARE_MEASURED, 4, attend_ms },
    { "collective_ms", "collectives ms", "CPU time of the step's collectives, run by real threads", COMPARE_MEASURED, 4,
      collective_ms },
    { "device_ms", "device ms", "the busiest device and the collectives: the step if every rank had its own core",
      COMPARE_MEASURED, 4, device_ms },
    { "wall_ms", "wall ms", "wall time of the step, all ranks at once", COMPARE_MEASURED, 4, wall_ms },
    { "tokens_per_s", "tokens/s", "batch / device time, of this part alone", COMPARE_MEASURED, 1, tokens_per_s },
    { "speedup", "speed-up", "device time of the contender compared with / this device time", COMPARE_MEASURED, 2,
      speedup },
    { "modelled_ms", "ms", "the profile's roofline and its collectives", COMPARE_MODELLED, 4, modelled_ms },
    { "modelled_speedup", "speed-up", "the same ratio of modelled times", COMPARE_MODELLED, 2, modelled_speedup },
};
const int compare_column_count = (int)(sizeof compare_columns / sizeof compare_columns[0]);

/* ---- of one device ---- */

#define DEVICE(name, expression)                                        \
    static double name(const struct compare_result *r, int rank)        \
    {                                                                   \
        const struct compare_device *d = &r->devices[rank];             \
        return (double)(expression);                                    \
    }
#define TIMED(expression) (r->is_measured ? (double)(expression) / 1e6 : NAN)
#define PHASE(name, phase) DEVICE(name, r->wall_ns < 0 ? TIMED(d->phases[phase]) : NAN)

DEVICE(device_heads, d->work.n_heads)
DEVICE(device_latents, d->work.n_latents)
DEVICE(device_per_token, d->work.cache_bytes_per_token)
DEVICE(device_read, d->work.cache_bytes_read)
DEVICE(device_written, d->work.cache_bytes_written)
DEVICE(device_weights, compare_weight_bytes(&r->point, &d->work))
DEVICE(device_macs, compare_macs(&d->work))
DEVICE(device_attend_macs, d->work.attend_macs)
DEVICE(device_sent, compare_collective_bytes(&d->work))
DEVICE(device_measured_as, r->is_measured ? (double)d->measured_as : (double)NAN)
DEVICE(device_busy, TIMED(d->busy_ns))
DEVICE(device_waited, d->waited_ns >= 0 ? TIMED(d->waited_ns) : NAN)
PHASE(device_project, COMPARE_PROJECT)
PHASE(device_attend, COMPARE_ATTEND)
PHASE(device_output, COMPARE_OUTPUT)
PHASE(device_mlp, COMPARE_MLP)
PHASE(device_head, COMPARE_HEAD)

const struct compare_device_column compare_device_columns[] = {
    { "heads", "heads", "query heads it computes", COMPARE_COUNTED, 0, device_heads },
    { "latents", "latents", "latents or KV heads it caches", COMPARE_COUNTED, 0, device_latents },
    { "device_cache_bytes_per_token", "cache B/token", "one layer", COMPARE_COUNTED, 0, device_per_token },
    { "device_cache_bytes_read", "cache B read", "each cached row once", COMPARE_COUNTED, 0, device_read },
    { "device_cache_bytes_written", "cache B written", "the new tokens' rows", COMPARE_COUNTED, 0, device_written },
    { "device_weight_bytes", "weight B", "read in a step", COMPARE_COUNTED, 0, device_weights },
    { "device_macs", "mult-adds", "of the step", COMPARE_COUNTED, 0, device_macs },
    { "device_attend_macs", "attend mult-adds", "of scores and values", COMPARE_COUNTED, 0, device_attend_macs },
    { "device_collective_bytes", "sent B", "published in collectives, f32", COMPARE_COUNTED, 0, device_sent },
    { "measured_as", "measured as", "the rank that was run for it", COMPARE_MEASURED, 0, device_measured_as },
    { "device_busy_ms", "busy ms", "CPU time", COMPARE_MEASURED, 4, device_busy },
    { "device_waited_ms", "waited ms", "in collectives, wall clock; only when all ranks ran at once", COMPARE_MEASURED, 4,
      device_waited },
    { "project_ms", "projections ms", "before the cache", COMPARE_MEASURED, 4, device_project },
    { "device_attend_ms", "attend ms", "over the cached rows, and W_UV", COMPARE_MEASURED, 4, device_attend },
    { "output_ms", "W_O ms", "after the heads", COMPARE_MEASURED, 4, device_output },
    { "mlp_ms", "MLP ms", "with its norm", COMPARE_MEASURED, 4, device_mlp },
    { "head_ms", "head ms", "logits of the own vocabulary", COMPARE_MEASURED, 4, device_head },
};
const int compare_device_column_count = (int)(sizeof compare_device_columns / sizeof compare_device_columns[0]);
