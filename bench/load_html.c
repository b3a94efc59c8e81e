#include "bench/load_html.h"

#include "base/clock.h"
#include "bench/load_plot.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

/* A distribution is drawn through this many of its quantiles, up to LAST of
 * them: one reply that hung would squeeze all others into the axis.  A timeline
 * has at most so many points. */
enum { N_QUANTILES = 201, LAST_QUANTILE = 99, MAX_TIMELINE = 600 };

static const char style[] =
    "<style>"
    ":root{color-scheme:light dark;--paper:#fcfcfb;--ink:#0b0b0b;--soft:#52514e;--faint:#e1e0d9;"
    "--c0:#2a78d6;--c1:#eb6834;--c2:#1baf7a;--c3:#4a3aa7}"
    "@media(prefers-color-scheme:dark){:root{--paper:#1a1a19;--ink:#fff;--soft:#c3c2b7;--faint:#383835;"
    "--c0:#3987e5;--c1:#d95926;--c2:#199e70;--c3:#9085e9}}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1180px;padding:0 1rem;"
    "background:var(--paper);color:var(--ink)}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}p{color:var(--soft);margin:.2rem 0}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}"
    "th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid var(--faint);white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}th{color:var(--soft);font-weight:600}"
    "dt{font-weight:600}dd{margin:0 0 .3rem 0;color:var(--soft)}"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:1rem}"
    "svg{width:100%}svg text{font:12px system-ui,sans-serif;fill:var(--soft)}"
    "svg .title{font-size:14px;font-weight:600;fill:var(--ink)}"
    "@media(max-width:600px){svg text{font-size:15px}svg .title{font-size:18px}}"
    "@media print{:root{--paper:#fff;--ink:#000;--soft:#333;--faint:#ccc}table{font-size:9px;overflow:visible}"
    "svg,tr{break-inside:avoid}}"
    "</style>\n";

enum status load_html_escape(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            TRY(buf_add_text(out, "&lt;"));
            break;
        case '>':
            TRY(buf_add_text(out, "&gt;"));
            break;
        case '&':
            TRY(buf_add_text(out, "&amp;"));
            break;
        case '"':
            TRY(buf_add_text(out, "&quot;"));
            break;
        case '\'':
            TRY(buf_add_text(out, "&#39;"));
            break;
        default:
            TRY(buf_add_char(out, *text));
        }
    }
    return STATUS_OK;
}

static enum status write_paragraph(struct buf *out, const char *text)
{
    if (text[0] == '\0')
        return STATUS_OK;
    TRY(buf_add_text(out, "<p>"));
    TRY(load_html_escape(out, text));
    return buf_add_text(out, "</p>\n");
}

/* ---- tables ---- */

/* Columns of what was not asked for are left out. */
static enum status write_points_table(struct buf *out, const struct load_report *report)
{
    int has_goals = report->goals[0] != '\0';
    TRY(buf_printf(out, "<h2>Runs</h2>\n<table><tr><th>load<th>ok<th>failed<th>seconds<th>requests/s"
                        "%s<th>output tok/s<th>total tok/s<th>cached tokens<th>in flight, mean"
                        "<th>client &#181;s/event%s</tr>\n", has_goals ? "<th>good requests/s" : "",
                   report->has_search ? "<th>bounds" : ""));
    for (size_t i = 0; i < report->n_points; i++) {
        const struct load_point *p = &report->points[i];
        const struct load_figures *f = &p->figures;
        TRY(buf_add_text(out, "<tr><td>"));
        TRY(load_html_escape(out, p->label));
        TRY(buf_printf(out, "<td>%zu<td>%zu<td>%.2f<td>%.2f", f->outcomes[LOAD_OUTCOME_OK], f->n_failed,
                       f->duration_s, f->requests_per_s));
        if (has_goals)
            TRY(buf_printf(out, "<td>%.2f", f->good_per_s));
        TRY(buf_printf(out, "<td>%.1f<td>%.1f<td>%lld<td>%.2f<td>%.2f", f->output_per_s, f->total_per_s,
                       (long long)f->cached_tokens, f->in_flight_mean, f->us_per_event));
        if (report->has_search)
            TRY(buf_printf(out, "<td>%s", load_report_verdict(p)));
        TRY(buf_add_text(out, "</tr>\n"));
    }
    return buf_add_text(out, "</table>\n");
}

static enum status write_latency_table(struct buf *out, const struct load_point *p)
{
    TRY(buf_add_text(out, "<h2>Latency, "));
    TRY(load_html_escape(out, p->label));
    TRY(buf_add_text(
        out, " (ms)</h2>\n<table><tr><th>metric<th>n<th>mean<th>std<th>min<th>p50<th>p90<th>p95<th>p99"
             "<th>max</tr>\n"));
    for (int m = 0; m < LOAD_N_METRICS; m++) {
        const struct load_summary *s = &p->figures.metrics[m];
        if (s->n == 0) {
            TRY(buf_printf(out, "<tr><td>%s<td>0<td>-<td>-<td>-<td>-<td>-<td>-<td>-<td>-</tr>\n",
                           load_metric_name((enum load_metric)m)));
            continue;
        }
        TRY(buf_printf(
            out, "<tr><td>%s<td>%zu<td>%.3f<td>%.3f<td>%.3f<td>%.3f<td>%.3f<td>%.3f<td>%.3f<td>%.3f</tr>\n",
            load_metric_name((enum load_metric)m), s->n, s->mean, s->std, s->min, s->p50, s->p90, s->p95,
            s->p99, s->max));
    }
    TRY(buf_add_text(out, "</table>\n"));
    for (int i = 0; i < LOAD_N_OUTCOMES; i++)
        if (i != LOAD_OUTCOME_OK && p->figures.outcomes[i] > 0)
            TRY(buf_printf(out, "<p>%zu requests: %s (%s)</p>\n", p->figures.outcomes[i],
                           load_outcome_text((enum load_outcome)i), load_outcome_key((enum load_outcome)i)));
    return p->result->first_error[0] != '\0' ? write_paragraph(out, p->result->first_error) : STATUS_OK;
}

static enum status write_definitions(struct buf *out)
{
    TRY(buf_add_text(out, "<h2>What the words mean</h2>\n<dl>"));
    for (int m = 0; m < LOAD_N_METRICS; m++)
        TRY(buf_printf(out, "<dt>%s<dd>%s\n", load_metric_name((enum load_metric)m),
                       load_metric_text((enum load_metric)m)));
    return buf_add_text(
        out, "<dt>requests/s, tok/s<dd>successful requests, and their tokens, over the time from the "
             "start after warm-up to the end of the last request; percentiles are exact, linear "
             "between neighbours<dt>good requests/s<dd>those within all goals<dt>cached tokens<dd>prompt tokens that "
             "the server says it did not compute again<dt>client &#181;s/event<dd>CPU time of this program, kernel "
             "included, per event of a stream</dl>\n");
}

/* ---- plots of one run ---- */

static enum status write_distribution(struct buf *out, const char *title, struct load_result *result,
                                      enum load_metric first, enum load_metric second)
{
    double x[2][N_QUANTILES], y[N_QUANTILES];
    struct load_plot plot = { .title = title, .x_label = "ms", .n_curves = first == second ? 1 : 2 };
    for (int q = 0; q < N_QUANTILES; q++) {
        y[q] = (double)LAST_QUANTILE * q / (N_QUANTILES - 1);
        x[0][q] = load_series_percentile(&result->series[first], y[q]);
        x[1][q] = load_series_percentile(&result->series[second], y[q]);
    }
    plot.curves[0] = (struct load_curve){ load_metric_name(first), x[0], y, N_QUANTILES };
    plot.curves[1] = (struct load_curve){ load_metric_name(second), x[1], y, N_QUANTILES };
    return load_plot_write(&plot, out);
}

/* Requests in flight at each of n moments spread over the run. */
static void count_in_flight(const struct load_result *result, double duration_s, size_t n, double *y)
{
    for (size_t i = 0; i < result->n_records; i++) {
        const struct load_record *r = &result->records[i];
        if (r->sent_ns == 0)
            continue;
        double scale = (double)(n - 1) / duration_s / 1e9;
        size_t from = (size_t)ceil((double)(r->sent_ns - result->start_ns) * scale);
        size_t to = (size_t)floor((double)(r->end_ns - result->start_ns) * scale);
        for (size_t k = from; k <= to && k < n; k++)
            y[k]++;
    }
}

static enum status write_timelines(struct buf *out, const struct load_point *p, double *x, double *y)
{
    const struct load_result *result = p->result;
    /* Whole seconds only: the last one may be a moment long. */
    size_t whole = (size_t)p->figures.duration_s, n = result->n_seconds < whole ? result->n_seconds : whole;
    n = n < MAX_TIMELINE ? n : MAX_TIMELINE;
    for (size_t i = 0; i < n; i++)
        x[i] = (double)i + 0.5;
    struct load_plot chunks = { .title = "Chunks with text per second", .x_label = "seconds", .n_curves = 1 };
    chunks.curves[0] = (struct load_curve){ "chunks/s", x, result->chunks_per_second, n };
    if (n > 1)
        TRY(load_plot_write(&chunks, out));
    double duration_s = p->figures.duration_s;
    if (!(duration_s > 0))
        return STATUS_OK;
    for (size_t i = 0; i < MAX_TIMELINE; i++) {
        x[i] = duration_s * (double)i / (MAX_TIMELINE - 1);
        y[i] = 0;
    }
    count_in_flight(result, duration_s, MAX_TIMELINE, y);
    struct load_plot flight = { .title = "Requests in flight", .x_label = "seconds", .n_curves = 1 };
    flight.curves[0] = (struct load_curve){ "in flight", x, y, MAX_TIMELINE };
    return load_plot_write(&flight, out);
}

static enum status write_run_plots(struct buf *out, const struct load_point *p)
{
    TRY(write_distribution(out, "Requests done within, % (to p99)", p->result, LOAD_TTFT, LOAD_E2E));
    TRY(write_distribution(out, "Gaps between chunks within, % (to p99)", p->result, LOAD_ITL, LOAD_ITL));
    double x[MAX_TIMELINE], y[MAX_TIMELINE];
    return write_timelines(out, p, x, y);
}

/* ---- plots over the load ---- */

/* The points in the order of their load: a search visits them in another. */
static size_t order_points(const struct load_report *report, const struct load_point *out[LOAD_MAX_POINTS],
                           double *x)
{
    size_t n = 0;
    int is_rate = 1;
    for (size_t i = 0; i < report->n_points; i++)
        is_rate &= report->points[i].rate > 0 && !isinf(report->points[i].rate);
    for (size_t i = 0; i < report->n_points; i++) {
        const struct load_point *p = &report->points[i];
        double load = is_rate ? p->rate : (double)p->max_in_flight;
        size_t at = n++;
        for (; at > 0 && x[at - 1] > load; at--) {
            x[at] = x[at - 1];
            out[at] = out[at - 1];
        }
        x[at] = load;
        out[at] = p;
    }
    return n;
}

static enum status write_load_plot(struct buf *out, const char *title, const char *x_label,
                                   const struct load_report *report, enum load_metric metric)
{
    const struct load_point *points[LOAD_MAX_POINTS];
    double x[LOAD_MAX_POINTS], p50[LOAD_MAX_POINTS], p99[LOAD_MAX_POINTS];
    size_t n = order_points(report, points, x);
    for (size_t i = 0; i < n; i++) {
        p50[i] = points[i]->figures.metrics[metric].p50;
        p99[i] = points[i]->figures.metrics[metric].p99;
    }
    struct load_plot plot = { .title = title, .x_label = x_label, .n_curves = 2, .has_marks = 1 };
    plot.curves[0] = (struct load_curve){ "p50", x, p50, n };
    plot.curves[1] = (struct load_curve){ "p99", x, p99, n };
    return load_plot_write(&plot, out);
}

static enum status write_throughput_plot(struct buf *out, const char *x_label,
                                         const struct load_report *report)
{
    const struct load_point *points[LOAD_MAX_POINTS];
    double x[LOAD_MAX_POINTS], y[LOAD_MAX_POINTS];
    size_t n = order_points(report, points, x);
    for (size_t i = 0; i < n; i++)
        y[i] = points[i]->figures.output_per_s;
    struct load_plot plot = {
        .title = "Output tokens per second", .x_label = x_label, .n_curves = 1, .has_marks = 1
    };
    plot.curves[0] = (struct load_curve){ "tok/s", x, y, n };
    return load_plot_write(&plot, out);
}

static enum status write_load_plots(struct buf *out, const struct load_report *report)
{
    const char *x_label = report->points[0].rate > 0 ? "requests/s asked for" : "requests in flight";
    TRY(write_load_plot(out, "TTFT, ms", x_label, report, LOAD_TTFT));
    TRY(write_load_plot(out, "ITL, ms", x_label, report, LOAD_ITL));
    TRY(write_load_plot(out, "Due to first chunk, ms", x_label, report, LOAD_WAIT));
    return write_throughput_plot(out, x_label, report);
}

/* ---- the page ---- */

static enum status write_heading(struct buf *out, const struct load_report *report)
{
    const struct {
        const char *label, *text;
    } lines[] = {
        { "server", report->where }, { "arrival", report->arrival }, { "prompts", report->dataset },
        { "goals", report->goals },  { "search", report->search },
    };
    char when[32];
    time_t now = (time_t)clock_unix_seconds();
    struct tm utc;
    strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
    TRY(buf_printf(out, "<p>%s, seed %llu</p>\n", when, (unsigned long long)report->seed));
    if (load_report_was_interrupted(report))
        TRY(buf_add_text(out, "<p><b>Interrupted: the figures are of what was measured until then.</b></p>\n"));
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (lines[i].text[0] == '\0')
            continue;
        TRY(buf_printf(out, "<p>%s: ", lines[i].label));
        TRY(load_html_escape(out, lines[i].text));
        TRY(buf_add_text(out, "</p>\n"));
    }
    return STATUS_OK;
}

static enum status write_plots(struct buf *out, const struct load_report *report)
{
    TRY(buf_add_text(out, "<div class=\"plots\">\n"));
    if (report->n_points == 1)
        TRY(write_run_plots(out, &report->points[0]));
    else if (report->n_points > 1)
        TRY(write_load_plots(out, report));
    return buf_add_text(out, "</div>\n");
}

enum status load_html_write(struct load_report *report, struct buf *out)
{
    TRY(buf_add_text(out, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
                          "<meta name=\"viewport\" content=\"width=device-width\">"
                          "<title>latentd bench serve</title>\n"));
    TRY(buf_add_text(out, style));
    TRY(buf_add_text(out, "<h1>latentd bench serve</h1>\n"));
    TRY(write_heading(out, report));
    TRY(write_plots(out, report));
    TRY(write_points_table(out, report));
    for (size_t i = 0; i < report->n_points; i++)
        TRY(write_latency_table(out, &report->points[i]));
    TRY(write_definitions(out));
    return buf_add_text(out, "</html>\n");
}
