#include "bench/compare_figures.h"

#include "bench/compare_cache_table.h"
#include "bench/compare_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Plots hold all their points: too large for the stack of a small thread. */
static enum status write_and_free(struct compare_plot *plot, struct buf *out)
{
    enum status s = compare_plot_write(plot, out);
    free(plot);
    return s;
}

static struct compare_plot *new_plot(const char *title, const char *x_label, const char *y_label)
{
    struct compare_plot *plot = calloc(1, sizeof *plot);
    if (plot != NULL)
        *plot = (struct compare_plot){ .title = title, .x_label = x_label, .y_label = y_label };
    return plot;
}

enum status compare_figure_cache(struct buf *out, struct error *err)
{
    struct compare_plot *plot = new_plot("Cache of a token per device (counted)", "devices",
                                         "head widths per layer");
    if (plot == NULL)
        return STATUS_NO_MEMORY;
    plot->x_log = 2;
    plot->y_log = 2;
    enum status s = STATUS_OK;
    for (int i = 0; i < compare_cache_row_count() && s == STATUS_OK; i++) {
        struct compare_cache_row row;
        s = compare_cache_row(i, &row, err);
        struct compare_curve *curve = compare_plot_curve(plot, row.method);
        for (int d = 0; d < COMPARE_CACHE_DEGREES && s == STATUS_OK; d++)
            compare_curve_add(plot, curve, compare_cache_degrees[d], row.units[d]);
    }
    if (s != STATUS_OK) {
        free(plot);
        return s;
    }
    return write_and_free(plot, out);
}

/* ---- which degrees together ---- */

int compare_figure_degrees(const struct compare_sweep *sweep, int degrees[COMPARE_MAX_RANKS])
{
    degrees[0] = 0;
    if (!sweep->same_degree)
        return 1;
    int n = 0;
    for (int n_ranks = 1; n_ranks <= COMPARE_MAX_RANKS; n_ranks++)
        for (int e = 0; e < sweep->n_entries; e++)
            if (sweep->entries[e].n_ranks == n_ranks && (n == 0 || degrees[n - 1] != n_ranks))
                degrees[n++] = n_ranks;
    return n;
}

static int is_on(const struct compare_result *r, int n_ranks)
{
    return n_ranks == 0 || r->point.n_ranks == n_ranks;
}

/* ---- speed-up over the context ---- */

static void speedup_title(const struct compare_session *s, const struct compare_result *table, int n_ranks, int profile,
                          char *out, size_t max)
{
    const struct compare_sweep *sweep = &s->sweeps[table->sweep];
    char on[40] = " on one device";
    if (n_ranks > 1)
        snprintf(on, sizeof on, ", both on %d devices", n_ranks);
    else if (n_ranks == 1)
        snprintf(on, sizeof on, ", both on one device");
    snprintf(out, max, "Speed-up over %s%s, batch %d, %s cache (%s%s)",
             sweep->set.items[sweep->entries[0].formulation].name, on, table->point.batch,
             cache_type_name(table->point.cache_type), profile < 0 ? "measured" : "modelled, ",
             profile < 0 ? "" : s->settings.profiles[profile].name);
}

enum status compare_figure_speedup(const struct compare_session *s, const struct compare_result *table, int n_ranks,
                                   int profile, struct buf *out)
{
    char title[160];
    speedup_title(s, table, n_ranks, profile, title, sizeof title);
    struct compare_plot *plot = new_plot(title, "context, tokens", "speed-up");
    if (plot == NULL)
        return STATUS_NO_MEMORY;
    plot->x_log = 2;
    for (int i = 0; i < s->n_results; i++) {
        const struct compare_result *line = &s->results[i];
        if (!compare_same_batch(line, table) || !compare_is_first(s, line) || !is_on(line, n_ranks))
            continue;
        char label[64];
        compare_label(line, label, sizeof label);
        struct compare_curve *curve = compare_plot_curve(plot, label);
        for (int k = i; k < s->n_results; k++) {
            const struct compare_result *r = &s->results[k];
            double ratio = profile < 0 ? compare_speedup(s, r) : compare_modelled_speedup(s, r, profile);
            if (compare_same_line(r, line) && ratio > 0)
                compare_curve_add(plot, curve, (double)r->point.context, ratio);
        }
    }
    return write_and_free(plot, out);
}

/* ---- roofline ---- */

/* The busiest rank's attention, and its rate. */
static int attention_point(const struct compare_result *r, double *intensity, double *rate)
{
    const struct compare_device *d = &r->devices[0];
    if (!r->is_measured || r->wall_ns >= 0 || d->phases[COMPARE_ATTEND] <= 0 || d->work.cache_bytes_read <= 0)
        return 0;
    *intensity = 2 * (double)d->work.attend_macs / (double)d->work.cache_bytes_read;
    *rate = 2 * (double)d->work.attend_macs / (double)d->phases[COMPARE_ATTEND];
    return 1;
}

/* The last curve, so that contenders have the colours of the other drawings. */
static void add_roof(const struct compare_profile *host, struct compare_plot *plot)
{
    struct compare_curve *roof = compare_plot_curve(plot, "roofline of one core");
    for (double x = 2; x <= 512; x *= 2) {
        double memory = x * host->bandwidth / 1e9, peak = host->peak_flops / 1e9;
        compare_curve_add(plot, roof, x, memory < peak ? memory : peak);
    }
    if (roof != NULL)
        roof->is_bare = 1;
}

static const struct compare_result *longest(const struct compare_session *s, const struct compare_result *line)
{
    const struct compare_result *best = line;
    for (int i = 0; i < s->n_results; i++)
        if (compare_same_line(&s->results[i], line) && s->results[i].is_measured
            && s->results[i].point.context > best->point.context)
            best = &s->results[i];
    return best;
}

/* A word for the degrees that a drawing holds. */
static void on_degree(int n_ranks, char *out, size_t max)
{
    out[0] = '\0';
    if (n_ranks > 0)
        snprintf(out, max, ", TP %d", n_ranks);
}

enum status compare_figure_roofline(const struct compare_session *s, int sweep, int n_ranks, struct buf *out)
{
    char title[160], on[16];
    on_degree(n_ranks, on, sizeof on);
    snprintf(title, sizeof title, "Attention under one core's roofline at the longest context%s (measured)", on);
    struct compare_plot *plot = new_plot(title, "FLOP per cached byte (counted)", "GFLOP/s");
    if (plot == NULL)
        return STATUS_NO_MEMORY;
    plot->x_log = 2;
    plot->y_log = 2;
    for (int i = 0; i < s->n_results; i++) {
        const struct compare_result *r = &s->results[i];
        if (r->sweep != sweep || r->point.batch != s->sweeps[sweep].batches[0] || !compare_is_first(s, r)
            || !is_on(r, n_ranks))
            continue;
        double intensity, rate;
        char label[64];
        compare_label(r, label, sizeof label);
        if (!attention_point(longest(s, r), &intensity, &rate))
            continue;
        struct compare_curve *dot = compare_plot_curve(plot, label);
        compare_curve_add(plot, dot, intensity, rate);
        if (dot != NULL)
            dot->is_dots = 1;
    }
    if (plot->n_curves > 0)
        add_roof(&s->host.profile, plot);
    return write_and_free(plot, out);
}

/* ---- per device and per user ---- */

enum status compare_figure_pareto(const struct compare_session *s, int sweep, int n_ranks, struct buf *out)
{
    if (s->sweeps[sweep].n_batches < 2)
        return STATUS_OK;
    char title[160], on[16];
    on_degree(n_ranks, on, sizeof on);
    int64_t context = s->sweeps[sweep].contexts[s->sweeps[sweep].n_contexts / 2];
    snprintf(title, sizeof title, "Tokens/s per device against tokens/s per user, a dot per batch, of this part, at "
             "context %lld%s (measured)", (long long)context, on);
    struct compare_plot *plot = new_plot(title, "tokens/s per user", "tokens/s per device");
    if (plot == NULL)
        return STATUS_NO_MEMORY;
    plot->x_log = 10;
    plot->y_log = 10;
    for (int e = 0; e < s->sweeps[sweep].n_entries; e++) {
        const struct compare_entry *entry = &s->sweeps[sweep].entries[e];
        const struct compare_formulation *f = &s->sweeps[sweep].set.items[entry->formulation];
        if (n_ranks > 0 && entry->n_ranks != n_ranks)
            continue;
        char label[64];
        snprintf(label, sizeof label, "%s TP %d", f->name, entry->n_ranks);
        struct compare_curve *curve = compare_plot_curve(plot, label);
        for (int i = 0; i < s->n_results; i++) {
            const struct compare_result *r = &s->results[i];
            if (r->sweep != sweep || r->point.formulation != f || r->point.n_ranks != entry->n_ranks
                || r->point.context != context || !r->is_measured)
                continue;
            double per_user = 1e9 / r->device_ns;
            compare_curve_add(plot, curve, per_user, per_user * r->point.batch / r->point.n_ranks);
        }
    }
    return write_and_free(plot, out);
}
