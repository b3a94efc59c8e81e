#include "bench/compare_summary.h"

#include <math.h>

/* ---- crossings ---- */

static double ratio_of(const struct compare_session *session, const struct compare_result *r, int profile)
{
    return profile < 0 ? compare_speedup(session, r) : compare_modelled_speedup(session, r, profile);
}

/* Where the speed-up passes 1 for good, linear in the logarithm of the tokens. */
static double find_crossing(const struct compare_session *session, const struct compare_result *line, int profile)
{
    double crossing = NAN, before_tokens = 0, before = 0;
    for (int i = 0; i < session->n_results; i++) {
        const struct compare_result *r = &session->results[i];
        if (!compare_same_line(r, line))
            continue;
        double tokens = (double)r->point.context * r->point.batch, ratio = ratio_of(session, r, profile);
        if (ratio <= 0)
            continue;
        if (before_tokens == 0)
            crossing = ratio > 1 ? 0 : INFINITY;
        else if (before <= 1 && ratio > 1)
            crossing = before_tokens
                     * pow(tokens / before_tokens, ratio > before ? (1 - before) / (ratio - before) : 1);
        else if (ratio <= 1)
            crossing = INFINITY;
        before_tokens = tokens;
        before = ratio;
    }
    return crossing;
}

static double count_crossing(const struct compare_session *session, const struct compare_result *r)
{
    const struct compare_result *b = compare_baseline(session, r);
    if (b == NULL)
        return NAN;
    const struct compare_work *own = &r->devices[0].work, *other = &b->devices[0].work;
    double extra = (double)(compare_weight_bytes(&r->point, own) - compare_weight_bytes(&b->point, other));
    double tokens = (double)r->point.context * r->point.batch;
    double saved = (double)(other->cache_bytes_read - own->cache_bytes_read) / tokens;
    if (saved <= 0)
        return INFINITY;
    return extra > 0 ? extra / saved : 0;
}

void compare_find_crossing(const struct compare_session *session, const struct compare_result *r, int profile,
                           struct compare_crossing *out)
{
    out->measured = find_crossing(session, r, -1);
    out->modelled = profile >= 0 ? find_crossing(session, r, profile) : NAN;
    out->counted = count_crossing(session, r);
}

/* ---- text ---- */

static enum status write_tokens(struct buf *out, const char *what, double tokens)
{
    if (isnan(tokens))
        return STATUS_OK;
    if (isinf(tokens))
        return buf_printf(out, "; %s: never here", what);
    if (tokens == 0)
        return buf_printf(out, "; %s: always here", what);
    return buf_printf(out, "; %s: past %.0f tokens", what, tokens);
}

static enum status write_line(const struct compare_session *s, const struct compare_result *table,
                              const struct compare_result *line, struct buf *out)
{
    char label[64];
    compare_label(line, label, sizeof label);
    TRY(buf_printf(out, "  %-24s", label));
    for (int i = 0; i < s->n_results; i++) {
        if (!compare_same_line(&s->results[i], table))
            continue;
        const struct compare_result *r = compare_at_context(s, line, s->results[i].point.context);
        if (r == NULL || !r->is_measured)
            TRY(buf_printf(out, " %16s", "not run"));
        else
            TRY(buf_printf(out, " %9.3f %5.2fx", r->device_ns / 1e6, compare_speedup(s, r)));
    }
    struct compare_crossing crossing;
    compare_find_crossing(s, line, -1, &crossing);
    if (s->sweeps[line->sweep].part > COMPARE_KERNEL && compare_baseline(s, line) != line) {
        TRY(write_tokens(out, "faster, measured", crossing.measured));
        TRY(write_tokens(out, "fewer bytes", crossing.counted));
    }
    return buf_add_char(out, '\n');
}

static enum status write_heading(const struct compare_session *s, const struct compare_result *line, struct buf *out)
{
    const struct compare_sweep *sweep = &s->sweeps[line->sweep];
    TRY(buf_printf(out, "\n%s: %s, batch %d, %s cache; measured device ms and speed-up at context\n  %-24s",
                   sweep->name, compare_part_name(sweep->part), line->point.batch,
                   cache_type_name(line->point.cache_type), ""));
    for (int i = 0; i < s->n_results; i++)
        if (compare_same_line(&s->results[i], line))
            TRY(buf_printf(out, " %16lld", (long long)s->results[i].point.context));
    return buf_add_char(out, '\n');
}

/* Contenders of a batch stand together although the points were run in turns. */
static enum status write_batch(const struct compare_session *s, const struct compare_result *first, struct buf *out)
{
    TRY(write_heading(s, first, out));
    for (int i = 0; i < s->n_results; i++) {
        const struct compare_result *r = &s->results[i];
        if (compare_same_batch(r, first) && compare_is_first(s, r))
            TRY(write_line(s, first, r, out));
    }
    return STATUS_OK;
}

enum status compare_write_summary(const struct compare_session *s, struct buf *out, struct error *err)
{
    (void)err;
    const struct compare_profile *host = &s->host.profile;
    TRY(buf_printf(out, "%s, %d cores, %s kernels: one core reaches %.0f GFLOP/s and %.1f GB/s, a barrier takes "
                        "%.0f ns\n", s->host.processor, s->host.n_cores, s->settings.kernels->name,
                   host->peak_flops / 1e9, host->bandwidth / 1e9, s->host.barrier_ns));
    for (int i = 0; i < s->n_results; i++)
        if (compare_is_first_of_batch(s, &s->results[i]))
            TRY(write_batch(s, &s->results[i], out));
    for (int i = 0; i < s->n_sweeps; i++)
        if (s->sweeps[i].refused[0] != '\0')
            TRY(buf_printf(out, "\n%s: not valid: %s\n", s->sweeps[i].name, s->sweeps[i].refused));
    return buf_printf(out, "\n%d points in %.0f s%s\n", s->n_results, s->seconds,
                      s->was_interrupted ? ", interrupted" : "");
}
