#include "bench/load_report.h"

#include "base/clock.h"
#include "base/json_write.h"

#include <assert.h>
#include <math.h>

void load_report_clear(struct load_report *report)
{
    for (size_t i = 0; i < report->n_points; i++)
        load_result_destroy(report->points[i].result);
    *report = (struct load_report){ 0 };
}

void load_report_add(struct load_report *report, const struct load_point *point)
{
    assert(report->n_points < LOAD_MAX_POINTS);
    struct load_point *p = &report->points[report->n_points++];
    *p = *point;
    p->figures = load_result_figures(p->result);
}

int load_report_was_interrupted(const struct load_report *report)
{
    for (size_t i = 0; i < report->n_points; i++)
        if (report->points[i].result->was_interrupted)
            return 1;
    return 0;
}

const char *load_report_verdict(const struct load_point *point)
{
    if (point->holds < 0)
        return "";
    return point->holds ? "holds" : "broken";
}

/* ---- numbers that all machine-read forms share ---- */

struct column {
    const char *key;
    double value;
};

enum { N_COLUMNS = 21 };

static void fill_columns(const struct load_point *p, struct column out[N_COLUMNS])
{
    const struct load_figures *f = &p->figures;
    const struct column columns[N_COLUMNS] = {
        { "rate", isinf(p->rate) ? -1 : p->rate },
        { "max_in_flight", (double)p->max_in_flight },
        { "duration_s", f->duration_s },
        { "requests", (double)f->n_requests },
        { "failed", (double)f->n_failed },
        { "never_sent", (double)p->result->n_never_sent },
        { "requests_per_s", f->requests_per_s },
        { "output_tokens_per_s", f->output_per_s },
        { "total_tokens_per_s", f->total_per_s },
        { "good_requests_per_s", f->good_per_s },
        { "input_tokens", (double)f->input_tokens },
        { "cached_tokens", (double)f->cached_tokens },
        { "output_tokens", (double)f->output_tokens },
        { "tokens_per_chunk", f->tokens_per_chunk },
        { "token_mismatches", (double)f->n_token_mismatches },
        { "short_replies", (double)f->n_short },
        { "in_flight_mean", f->in_flight_mean },
        { "in_flight_peak", (double)p->result->peak_in_flight },
        { "connections", (double)p->result->n_connects },
        { "client_us_per_event", f->us_per_event },
        { "interrupted", (double)p->result->was_interrupted },
    };
    for (int i = 0; i < N_COLUMNS; i++)
        out[i] = columns[i];
}

enum { N_STATISTICS = 9 };

static void fill_statistics(const struct load_summary *s, struct column out[N_STATISTICS])
{
    const struct column columns[N_STATISTICS] = {
        { "n", (double)s->n }, { "mean", s->mean }, { "std", s->std }, { "min", s->min }, { "p50", s->p50 },
        { "p90", s->p90 },     { "p95", s->p95 },   { "p99", s->p99 }, { "max", s->max },
    };
    for (int i = 0; i < N_STATISTICS; i++)
        out[i] = columns[i];
}

/* ---- JSON ---- */

static enum status write_member(struct buf *out, const char *key, double value)
{
    TRY(json_write_cstring(out, key));
    TRY(buf_add_char(out, ':'));
    return json_write_double(out, value);
}

static enum status write_text_member(struct buf *out, const char *key, const char *text)
{
    TRY(json_write_cstring(out, key));
    TRY(buf_add_char(out, ':'));
    return json_write_cstring(out, text);
}

static enum status write_metrics(struct buf *out, const struct load_figures *f)
{
    TRY(buf_add_text(out, "\"metrics\":{"));
    for (int m = 0; m < LOAD_N_METRICS; m++) {
        struct column columns[N_STATISTICS];
        fill_statistics(&f->metrics[m], columns);
        TRY(buf_printf(out, "%s\"%s_ms\":{", m > 0 ? "," : "", load_metric_key((enum load_metric)m)));
        for (int i = 0; i < N_STATISTICS; i++) {
            if (i > 0)
                TRY(buf_add_char(out, ','));
            TRY(write_member(out, columns[i].key, columns[i].value));
        }
        TRY(buf_printf(out, ",\"lost\":%zu}", f->metrics[m].n_lost));
    }
    return buf_add_char(out, '}');
}

static enum status write_outcomes(struct buf *out, const struct load_figures *f)
{
    TRY(buf_add_text(out, "\"outcomes\":{"));
    for (int i = 0; i < LOAD_N_OUTCOMES; i++)
        TRY(buf_printf(out, "%s\"%s\":%zu", i > 0 ? "," : "", load_outcome_key((enum load_outcome)i),
                       f->outcomes[i]));
    return buf_printf(out, "},\"token_sources\":{\"usage\":%zu,\"token_ids\":%zu,\"chunks\":%zu}",
                      f->token_sources[LOAD_TOKENS_USAGE], f->token_sources[LOAD_TOKENS_IDS],
                      f->token_sources[LOAD_TOKENS_CHUNKS]);
}

/* Milliseconds after the run's start; null for what never happened. */
static enum status write_time(struct buf *out, const char *key, int64_t ns, int64_t start_ns)
{
    if (ns == 0)
        return buf_printf(out, "\"%s\":null,", key);
    return buf_printf(out, "\"%s\":%.6f,", key, (double)(ns - start_ns) / 1e6);
}

static enum status write_record(struct buf *out, const struct load_record *r, int64_t start_ns)
{
    TRY(buf_printf(out, "{\"index\":%zu,\"outcome\":\"%s\",\"http_status\":%d,", r->index,
                   load_outcome_key(r->outcome), r->http_status));
    TRY(write_time(out, "due_ms", r->due_ns, start_ns));
    TRY(write_time(out, "sent_ms", r->sent_ns, start_ns));
    TRY(write_time(out, "first_ms", r->first_ns, start_ns));
    TRY(write_time(out, "last_ms", r->last_ns, start_ns));
    TRY(write_time(out, "end_ms", r->end_ns, start_ns));
    return buf_printf(out,
                      "\"input_tokens\":%lld,\"cached_tokens\":%lld,\"output_tokens\":%lld,\"chunks\":%lld}",
                      (long long)r->input_tokens, (long long)r->cached_tokens, (long long)r->output_tokens,
                      (long long)r->n_chunks);
}

static enum status write_records(struct buf *out, const struct load_result *result)
{
    TRY(buf_add_text(out, ",\"records\":["));
    for (size_t i = 0; i < result->n_records; i++) {
        if (i > 0)
            TRY(buf_add_char(out, ','));
        TRY(write_record(out, &result->records[i], result->start_ns));
    }
    return buf_add_char(out, ']');
}

static enum status write_point(struct buf *out, const struct load_point *p, int is_detailed)
{
    struct column columns[N_COLUMNS];
    fill_columns(p, columns);
    TRY(buf_add_char(out, '{'));
    TRY(write_text_member(out, "label", p->label));
    for (int i = 0; i < N_COLUMNS; i++) {
        TRY(buf_add_char(out, ','));
        TRY(write_member(out, columns[i].key, columns[i].value));
    }
    if (p->holds >= 0)
        TRY(buf_printf(out, ",\"holds\":%s", p->holds ? "true" : "false"));
    TRY(buf_add_char(out, ','));
    TRY(write_text_member(out, "first_error", p->result->first_error));
    TRY(buf_add_char(out, ','));
    TRY(write_outcomes(out, &p->figures));
    TRY(buf_add_char(out, ','));
    TRY(write_metrics(out, &p->figures));
    if (is_detailed)
        TRY(write_records(out, p->result));
    return buf_add_char(out, '}');
}

static enum status write_definitions(struct buf *out)
{
    TRY(buf_add_text(out, "\"definitions\":{"));
    for (int m = 0; m < LOAD_N_METRICS; m++) {
        TRY(buf_printf(out, "\"%s_ms\":", load_metric_key((enum load_metric)m)));
        TRY(json_write_cstring(out, load_metric_text((enum load_metric)m)));
        TRY(buf_add_char(out, ','));
    }
    TRY(write_text_member(out, "percentile", "linear between the neighbours of position p/100 * (n - 1)"));
    TRY(buf_add_text(out, "},\"outcomes\":{"));
    for (int i = 0; i < LOAD_N_OUTCOMES; i++) {
        if (i > 0)
            TRY(buf_add_char(out, ','));
        TRY(write_text_member(out, load_outcome_key((enum load_outcome)i),
                              load_outcome_text((enum load_outcome)i)));
    }
    return buf_add_char(out, '}');
}

enum status load_report_json(const struct load_report *report, int is_detailed, struct buf *out)
{
    const struct {
        const char *key, *text;
    } lines[] = {
        { "server", report->where }, { "arrival", report->arrival }, { "dataset", report->dataset },
        { "goals", report->goals },  { "search", report->search },
    };
    TRY(buf_add_text(out, "{\"tool\":\"latentd bench serve\","));
    TRY(buf_printf(out, "\"unix_time\":%lld,\"seed\":%llu,", (long long)clock_unix_seconds(),
                   (unsigned long long)report->seed));
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        TRY(write_text_member(out, lines[i].key, lines[i].text));
        TRY(buf_add_char(out, ','));
    }
    if (report->has_search) {
        TRY(write_member(out, "best_rate", report->best_rate));
        TRY(buf_add_char(out, ','));
    }
    TRY(write_definitions(out));
    TRY(buf_add_text(out, ",\"runs\":["));
    for (size_t i = 0; i < report->n_points; i++) {
        if (i > 0)
            TRY(buf_add_char(out, ','));
        TRY(write_point(out, &report->points[i], is_detailed));
    }
    return buf_add_text(out, "]}\n");
}

/* ---- CSV ---- */

static enum status write_csv_head(struct buf *out)
{
    struct column columns[N_COLUMNS], statistics[N_STATISTICS];
    struct load_result no_result = { 0 };
    const struct load_point none = { .result = &no_result };    /* only the keys are wanted */
    fill_columns(&none, columns);
    fill_statistics(&none.figures.metrics[0], statistics);
    TRY(buf_add_text(out, "label"));
    for (int i = 0; i < N_COLUMNS; i++)
        TRY(buf_printf(out, ",%s", columns[i].key));
    for (int i = 0; i < LOAD_N_OUTCOMES; i++)
        TRY(buf_printf(out, ",outcome_%s", load_outcome_key((enum load_outcome)i)));
    for (int m = 0; m < LOAD_N_METRICS; m++)
        for (int i = 0; i < N_STATISTICS; i++)
            TRY(buf_printf(out, ",%s_%s%s", load_metric_key((enum load_metric)m), statistics[i].key,
                           i > 0 ? "_ms" : ""));
    return buf_add_char(out, '\n');
}

static enum status write_csv_line(struct buf *out, const struct load_point *p)
{
    struct column columns[N_COLUMNS], statistics[N_STATISTICS];
    fill_columns(p, columns);
    TRY(buf_printf(out, "\"%s\"", p->label));   /* our own text: no quote inside */
    for (int i = 0; i < N_COLUMNS; i++)
        TRY(buf_printf(out, ",%.10g", columns[i].value));
    for (int i = 0; i < LOAD_N_OUTCOMES; i++)
        TRY(buf_printf(out, ",%zu", p->figures.outcomes[i]));
    for (int m = 0; m < LOAD_N_METRICS; m++) {
        fill_statistics(&p->figures.metrics[m], statistics);
        for (int i = 0; i < N_STATISTICS; i++)
            TRY(buf_printf(out, ",%.10g", statistics[i].value));
    }
    return buf_add_char(out, '\n');
}

enum status load_report_csv(const struct load_report *report, struct buf *out)
{
    TRY(write_csv_head(out));
    for (size_t i = 0; i < report->n_points; i++)
        TRY(write_csv_line(out, &report->points[i]));
    return STATUS_OK;
}
