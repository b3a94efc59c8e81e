#include "bench/load_table.h"

static enum status write_head(struct buf *out, const struct load_report *report)
{
    TRY(buf_printf(out, "%s\n", report->where));
    TRY(buf_printf(out, "arrival: %s\n", report->arrival));
    TRY(buf_printf(out, "prompts: %s; seed %llu\n", report->dataset, (unsigned long long)report->seed));
    if (report->goals[0] != '\0')
        TRY(buf_printf(out, "goals:   %s\n", report->goals));
    if (load_report_was_interrupted(report))
        TRY(buf_add_text(out, "interrupted: the figures are of what was measured until then\n"));
    return buf_add_char(out, '\n');
}

static enum status write_figure(struct buf *out, const char *label, double value, int n_digits)
{
    return buf_printf(out, "%-40s %12.*f\n", label, n_digits, value);
}

static enum status write_outcomes(struct buf *out, const struct load_point *p)
{
    const struct load_figures *f = &p->figures;
    TRY(write_figure(out, "Successful requests:", (double)f->outcomes[LOAD_OUTCOME_OK], 0));
    TRY(write_figure(out, "Failed requests:", (double)f->n_failed, 0));
    for (int i = 0; i < LOAD_N_OUTCOMES; i++)
        if (i != LOAD_OUTCOME_OK && f->outcomes[i] > 0)
            TRY(buf_printf(out, "  %-38s %12zu   %s\n", load_outcome_key((enum load_outcome)i),
                           f->outcomes[i], load_outcome_text((enum load_outcome)i)));
    if (p->result->n_never_sent > 0)
        TRY(write_figure(out, "Due but never sent:", (double)p->result->n_never_sent, 0));
    if (p->result->first_error[0] != '\0')
        TRY(buf_printf(out, "First failure: %s\n", p->result->first_error));
    return STATUS_OK;
}

static enum status write_token_notes(struct buf *out, const struct load_figures *f)
{
    size_t n_guessed = f->token_sources[LOAD_TOKENS_CHUNKS];
    if (n_guessed > 0)
        TRY(buf_printf(out, "Note: %zu replies had no usage; their tokens are chunks with text.\n",
                       n_guessed));
    if (f->n_token_mismatches > 0)
        TRY(buf_printf(out, "Note: in %zu replies usage and the token ids sent disagree.\n",
                       f->n_token_mismatches));
    if (f->n_short > 0)
        TRY(buf_printf(out, "Note: %zu replies have fewer tokens than asked for.\n", f->n_short));
    for (int m = 0; m < LOAD_N_METRICS; m++)
        if (f->metrics[m].n_lost > 0)
            TRY(buf_printf(out, "Note: %s is over the first %zu samples; %zu found no room.\n",
                           load_metric_name((enum load_metric)m), f->metrics[m].n, f->metrics[m].n_lost));
    return STATUS_OK;
}

static enum status write_figures(struct buf *out, const struct load_report *report,
                                 const struct load_point *p)
{
    const struct load_figures *f = &p->figures;
    TRY(write_outcomes(out, p));
    TRY(write_figure(out, "Benchmark duration (s):", f->duration_s, 2));
    TRY(write_figure(out, "Total input tokens:", (double)f->input_tokens, 0));
    TRY(write_figure(out, "  of them cached by the server:", (double)f->cached_tokens, 0));
    TRY(write_figure(out, "Total generated tokens:", (double)f->output_tokens, 0));
    TRY(write_figure(out, "Request throughput (req/s):", f->requests_per_s, 2));
    if (report->goals[0] != '\0')
        TRY(write_figure(out, "Request goodput (req/s):", f->good_per_s, 2));
    TRY(write_figure(out, "Output token throughput (tok/s):", f->output_per_s, 2));
    TRY(write_figure(out, "Total token throughput (tok/s):", f->total_per_s, 2));
    TRY(write_figure(out, "Tokens per chunk:", f->tokens_per_chunk, 2));
    TRY(write_figure(out, "Requests in flight, mean:", f->in_flight_mean, 2));
    TRY(write_figure(out, "Requests in flight, peak:", (double)p->result->peak_in_flight, 0));
    TRY(write_figure(out, "Connections opened:", (double)p->result->n_connects, 0));
    TRY(write_figure(out, "Client CPU per event, kernel too (us):", f->us_per_event, 2));
    return write_token_notes(out, f);
}

static enum status write_metrics(struct buf *out, const struct load_figures *f)
{
    TRY(buf_printf(out, "\n%-14s %8s %10s %10s %10s %10s %10s %10s %10s\n", "ms", "n", "mean", "std", "p50",
                   "p90", "p95", "p99", "max"));
    for (int m = 0; m < LOAD_N_METRICS; m++) {
        const struct load_summary *s = &f->metrics[m];
        if (s->n == 0) {
            TRY(buf_printf(out, "%-14s %8d %10s %10s %10s %10s %10s %10s %10s\n",
                           load_metric_name((enum load_metric)m), 0, "-", "-", "-", "-", "-", "-", "-"));
            continue;
        }
        TRY(buf_printf(out, "%-14s %8zu %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f\n",
                       load_metric_name((enum load_metric)m), s->n, s->mean, s->std, s->p50, s->p90, s->p95,
                       s->p99, s->max));
    }
    return STATUS_OK;
}

static enum status write_definitions(struct buf *out)
{
    TRY(buf_add_char(out, '\n'));
    for (int m = 0; m < LOAD_N_METRICS; m++)
        TRY(buf_printf(out, "%-14s %s\n", load_metric_name((enum load_metric)m),
                       load_metric_text((enum load_metric)m)));
    return buf_add_text(
        out, "Latencies are of successful requests; request/s is successes, and tok/s their tokens,\n"
             "over the time from the start (after warm-up) to the end of the last request.\n");
}

enum status load_table_line(const struct load_point *p, struct buf *out)
{
    const struct load_figures *f = &p->figures;
    return buf_printf(out, "%-22s %7zu %6zu %9.2f %9.1f %9.1f %9.1f %9.2f %9.2f %9.1f  %s", p->label,
                      f->outcomes[LOAD_OUTCOME_OK], f->n_failed, f->requests_per_s, f->output_per_s,
                      f->metrics[LOAD_TTFT].p50, f->metrics[LOAD_TTFT].p99, f->metrics[LOAD_ITL].p50,
                      f->metrics[LOAD_ITL].p99, f->metrics[LOAD_WAIT].p99,
                      load_report_verdict(p));
}

static enum status write_points(struct buf *out, const struct load_report *report)
{
    TRY(buf_printf(out, "%-22s %7s %6s %9s %9s %9s %9s %9s %9s %9s\n", "load", "ok", "failed", "req/s",
                   "tok/s", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "wait p99"));
    for (size_t i = 0; i < report->n_points; i++) {
        TRY(load_table_line(&report->points[i], out));
        TRY(buf_add_char(out, '\n'));
    }
    for (size_t i = 0; i < report->n_points; i++)
        if (report->points[i].result->first_error[0] != '\0')
            return buf_printf(out, "First failure: %s\n", report->points[i].result->first_error);
    return STATUS_OK;
}

enum status load_table_write(const struct load_report *report, struct buf *out)
{
    TRY(write_head(out, report));
    if (report->n_points == 1) {
        TRY(write_figures(out, report, &report->points[0]));
        TRY(write_metrics(out, &report->points[0].figures));
    } else {
        TRY(write_points(out, report));
    }
    TRY(write_definitions(out));
    if (report->search[0] != '\0')
        TRY(buf_printf(out, "\n%s\n", report->search));
    return STATUS_OK;
}
