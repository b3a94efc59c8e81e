#include "bench/load_result.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_GAPS = 20000000, MAX_SECONDS = 7 * 24 * 3600 };

static const struct {
    const char *key, *name, *text;
} metrics[LOAD_N_METRICS] = {
#define X(id, key, name, text) { key, name, text },
    LOAD_METRIC_MAP(X)
#undef X
};

static const struct {
    const char *key, *text;
} outcomes[LOAD_N_OUTCOMES] = {
#define X(id, key, text) { key, text },
    LOAD_OUTCOME_MAP(X)
#undef X
};

const char *load_metric_key(enum load_metric metric)
{
    return metrics[metric].key;
}

const char *load_metric_name(enum load_metric metric)
{
    return metrics[metric].name;
}

const char *load_metric_text(enum load_metric metric)
{
    return metrics[metric].text;
}

const char *load_outcome_key(enum load_outcome outcome)
{
    return outcomes[outcome].key;
}

const char *load_outcome_text(enum load_outcome outcome)
{
    return outcomes[outcome].text;
}

int load_outcome_is_failure(enum load_outcome outcome)
{
    return outcome != LOAD_OUTCOME_OK && outcome != LOAD_OUTCOME_CANCELLED
           && outcome != LOAD_OUTCOME_UNFINISHED;
}

enum status load_result_create(struct load_result **out, size_t max_records, struct error *err)
{
    struct load_result *r = calloc(1, sizeof *r);
    if (r != NULL)
        r->records = calloc(max_records > 0 ? max_records : 1, sizeof *r->records);
    if (r == NULL || r->records == NULL) {
        free(r);
        return fail(err, STATUS_NO_MEMORY, "no memory for the records of %zu requests", max_records);
    }
    r->max_records = max_records;
    for (int i = 0; i < LOAD_N_METRICS; i++)
        load_series_init(&r->series[i], i == LOAD_ITL ? MAX_GAPS : max_records);
    *out = r;
    return STATUS_OK;
}

void load_result_destroy(struct load_result *r)
{
    if (r == NULL)
        return;
    for (int i = 0; i < LOAD_N_METRICS; i++)
        load_series_clear(&r->series[i]);
    free(r->chunks_per_second);
    free(r->records);
    free(r);
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

/* Of a request with at most one token there is none: 0. */
static double tpot_ms(const struct load_record *record)
{
    if (record->output_tokens < 2)
        return 0;
    return ms(record->last_ns - record->first_ns) / (double)(record->output_tokens - 1);
}

static int is_good(const struct load_goals *goals, const struct load_record *record)
{
    return (goals->ttft_ms <= 0 || ms(record->first_ns - record->sent_ns) <= goals->ttft_ms)
        && (goals->tpot_ms <= 0 || tpot_ms(record) <= goals->tpot_ms)
        && (goals->e2e_ms <= 0 || ms(record->last_ns - record->sent_ns) <= goals->e2e_ms);
}

static void add_samples(struct load_result *r, const struct load_record *record,
                        const struct load_series *gaps)
{
    load_series_push(&r->series[LOAD_QUEUE], ms(record->sent_ns - record->due_ns));
    load_series_push(&r->series[LOAD_REPLY], ms(record->end_ns - record->sent_ns));
    load_series_append(&r->series[LOAD_ITL], gaps);
    if (record->first_ns == 0)      /* tokens without text: there is no first chunk */
        return;
    load_series_push(&r->series[LOAD_TTFT], ms(record->first_ns - record->sent_ns));
    load_series_push(&r->series[LOAD_WAIT], ms(record->first_ns - record->due_ns));
    load_series_push(&r->series[LOAD_E2E], ms(record->last_ns - record->sent_ns));
    if (record->output_tokens >= 2)
        load_series_push(&r->series[LOAD_TPOT], tpot_ms(record));
}

void load_result_add(struct load_result *r, const struct load_record *record, const struct load_series *gaps,
                     const char *error)
{
    assert(r->n_records < r->max_records);
    r->records[r->n_records++] = *record;
    if (load_outcome_is_failure(record->outcome) && r->first_error[0] == '\0')
        snprintf(r->first_error, sizeof r->first_error, "%s", error);
    if (record->outcome != LOAD_OUTCOME_OK)
        return;
    add_samples(r, record, gaps);
    r->n_good += (size_t)is_good(&r->goals, record);
}

void load_result_count_chunks(struct load_result *r, int64_t now_ns, size_t n_chunks)
{
    size_t second = (size_t)((now_ns - r->start_ns) / 1000000000);
    if (second >= MAX_SECONDS)
        return;
    if (second >= r->n_seconds) {
        size_t n = second + 1;
        double *grown = realloc(r->chunks_per_second, n * sizeof *grown);
        if (grown == NULL)      /* only the timeline of the report is poorer for it */
            return;
        for (size_t i = r->n_seconds; i < n; i++)
            grown[i] = 0;
        r->chunks_per_second = grown;
        r->n_seconds = n;
    }
    r->chunks_per_second[second] += (double)n_chunks;
}

struct sums {
    int64_t last_end_ns;
    double busy_s;              /* sent to end, over all requests */
    int64_t chunk_tokens, n_chunks;
};

static void count_record(struct load_figures *f, struct sums *sums, const struct load_record *record)
{
    f->outcomes[record->outcome]++;
    f->n_failed += (size_t)load_outcome_is_failure(record->outcome);
    if (record->end_ns > sums->last_end_ns)
        sums->last_end_ns = record->end_ns;
    if (record->sent_ns > 0)
        sums->busy_s += (double)(record->end_ns - record->sent_ns) / 1e9;
    if (record->outcome != LOAD_OUTCOME_OK)
        return;
    f->input_tokens += record->input_tokens;
    f->cached_tokens += record->cached_tokens;
    f->output_tokens += record->output_tokens;
    f->token_sources[record->token_source]++;
    f->n_short += record->output_tokens < record->asked_tokens;
    f->n_token_mismatches += record->token_source == LOAD_TOKENS_USAGE && record->n_token_ids > 0
                             && record->n_token_ids != record->output_tokens;
    sums->chunk_tokens += record->output_tokens;
    sums->n_chunks += record->n_chunks;
}

struct load_figures load_result_figures(struct load_result *r)
{
    struct load_figures f = { .n_requests = r->n_records };
    struct sums sums = { .last_end_ns = r->start_ns };
    for (size_t i = 0; i < r->n_records; i++)
        count_record(&f, &sums, &r->records[i]);
    f.duration_s = (double)(sums.last_end_ns - r->start_ns) / 1e9;
    if (f.duration_s > 0) {
        f.requests_per_s = (double)f.outcomes[LOAD_OUTCOME_OK] / f.duration_s;
        f.output_per_s = (double)f.output_tokens / f.duration_s;
        f.total_per_s = (double)(f.output_tokens + f.input_tokens) / f.duration_s;
        f.good_per_s = (double)r->n_good / f.duration_s;
        f.in_flight_mean = sums.busy_s / f.duration_s;
    }
    if (sums.n_chunks > 0)
        f.tokens_per_chunk = (double)sums.chunk_tokens / (double)sums.n_chunks;
    if (r->n_events > 0)
        f.us_per_event = (double)r->cpu_ns / 1e3 / (double)r->n_events;
    for (int i = 0; i < LOAD_N_METRICS; i++)
        f.metrics[i] = load_series_summarise(&r->series[i]);
    return f;
}
