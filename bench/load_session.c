#include "bench/load_session.h"

#include "bench/load_arrival.h"
#include "bench/load_search.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_REQUESTS = 100, DEFAULT_OUTPUT_TOKENS = 128 };

/* A rate holds if no more than this share of its requests failed. */
#define MAX_FAILED_SHARE 0.01

struct session {
    const struct load_options *options;
    const struct load_session_events *events;
    struct load_report *report;
    struct load_server server;
    char model[256];
    struct load_vocabulary vocabulary;
    struct load_dataset *dataset;
    char *extra_fields;             /* the object of --extra without its braces */
};

static void note(const struct session *s, const char *sentence)
{
    if (s->events->on_note != NULL)
        s->events->on_note(s->events->context, sentence);
}

/* ---- before the first run ---- */

static enum status find_model(struct session *s, struct error *err)
{
    if (s->options->model[0] == '\0')
        return load_server_model(&s->server, s->model, sizeof s->model, err);
    if (strlen(s->options->model) >= sizeof s->model)
        return fail(err, STATUS_BAD_OPTION, "--model is longer than %zu bytes", sizeof s->model - 1);
    memcpy(s->model, s->options->model, strlen(s->options->model) + 1);
    return STATUS_OK;
}

/* Without a /tokenize random text is words, unless ids were asked for. */
static enum status learn_vocabulary(struct session *s, struct error *err)
{
    struct error why = { 0 };
    if (s->options->prompt_form == LOAD_FORM_WORDS)
        return STATUS_OK;
    enum status status = load_vocabulary_learn(&s->vocabulary, &s->server, s->model, &why);
    if (status == STATUS_UNSUPPORTED && s->options->prompt_form == LOAD_FORM_AUTO) {
        note(s, "the server has no tokenizer endpoint: lengths of random prompts are approximate");
        return STATUS_OK;
    }
    return status == STATUS_OK ? status : fail(err, status, "%s", why.text);
}

static enum status make_dataset(struct session *s, struct error *err)
{
    const struct load_options *o = s->options;
    int has_file = o->file[0] != '\0';
    struct load_dataset_options dataset = {
        .kind = (enum load_dataset_kind)o->dataset,
        .endpoint = (enum load_endpoint)o->endpoint,
        .vocabulary = &s->vocabulary,
        .use_words = o->prompt_form == LOAD_FORM_WORDS,
        .path = has_file ? o->file : NULL,
        .input_tokens = o->input_len,
        .output_tokens = o->output_len > 0 || has_file ? o->output_len : DEFAULT_OUTPUT_TOKENS,
        .range = o->range,
        .n_prefixes = o->prefixes,
        .prefix_tokens = o->prefix_len,
        .trace_block_tokens = o->trace_block,
        .max_row_tokens = o->max_row_tokens,
    };
    return load_dataset_create(&s->dataset, &dataset, err);
}

/* A field of --extra that the run writes itself would be in the body twice. */
static enum status check_extra(const json_t *extra, struct error *err)
{
    static const char *const taken[] = {
        "model", "prompt", "messages", "max_tokens", "temperature", "stream", "stream_options", "ignore_eos",
    };
    if (!json_is_object(extra))
        return fail(err, STATUS_BAD_OPTION, "--extra is not a JSON object");
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (json_object_get(extra, taken[i]) != NULL)
            return fail(err, STATUS_BAD_OPTION, "--extra sets %s, which the other options decide", taken[i]);
    return STATUS_OK;
}

static enum status read_extra(struct session *s, struct error *err)
{
    json_t *extra = s->options->extra[0] != '\0' ? json_loads(s->options->extra, 0, NULL) : json_object();
    enum status status = check_extra(extra, err);
    if (status != STATUS_OK) {
        json_decref(extra);
        return status;
    }
    char *text = json_dumps(extra, JSON_COMPACT);
    json_decref(extra);
    if (text == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for --extra");
    size_t n = strlen(text);        /* "{..}" */
    memmove(text, text + 1, n - 2);
    text[n - 2] = '\0';
    s->extra_fields = text;
    return STATUS_OK;
}

static void describe(struct session *s)
{
    const struct load_options *o = s->options;
    struct load_report *r = s->report;
    r->seed = (uint64_t)o->seed;
    snprintf(r->where, sizeof r->where, "http://%.120s:%d%.120s, model %.120s, %s, %s", s->server.host,
             s->server.port, s->server.base, s->model, o->endpoint == LOAD_CHAT ? "chat" : "completions",
             o->stream ? "streamed" : "whole replies");
    load_dataset_describe(s->dataset, r->dataset, sizeof r->dataset);
    const struct {
        const char *name;
        double ms;
    } goals[] = { { "TTFT", o->good_ttft }, { "TPOT", o->good_tpot }, { "E2E", o->good_e2e } };
    for (size_t i = 0; i < sizeof goals / sizeof goals[0]; i++) {
        size_t n = strlen(r->goals);
        if (goals[i].ms > 0)
            snprintf(r->goals + n, sizeof r->goals - n, "%s%s <= %g ms", n > 0 ? ", " : "", goals[i].name,
                     goals[i].ms);
    }
}

static enum status prepare(struct session *s, struct error *err)
{
    load_vocabulary_init(&s->vocabulary);
    TRY(load_options_check(s->options, err));
    TRY(load_server_parse(&s->server, s->options->url, err));
    s->server.api_key = s->options->api_key;
    TRY(read_extra(s, err));
    TRY(find_model(s, err));
    TRY(learn_vocabulary(s, err));
    TRY(make_dataset(s, err));
    describe(s);
    return STATUS_OK;
}

/* ---- one run ---- */

static int wants_ignore_eos(const struct load_options *o)
{
    if (o->ignore_eos == LOAD_EOS_AUTO)
        return o->file[0] == '\0' || o->replay;
    return o->ignore_eos == LOAD_EOS_IGNORE;
}

static struct load_run_options run_options(const struct session *s, size_t n_run)
{
    const struct load_options *o = s->options;
    return (struct load_run_options){
        .server = &s->server,
        .dataset = s->dataset,
        .model = s->model,
        .endpoint = (enum load_endpoint)o->endpoint,
        .is_streamed = o->stream,
        .ignore_eos = wants_ignore_eos(o),
        .temperature = o->temperature,
        .extra_fields = s->extra_fields,
        .n_warm_up = (size_t)o->warmup,
        .duration_s = o->duration,
        .grace_s = o->grace,
        .timeout_s = o->timeout,
        .cancel_rate = o->cancel_rate,
        .cancel_after_s = o->cancel_after,
        .max_failures = (size_t)o->max_failures,
        .seed = (uint64_t)o->seed + n_run,
        .goals = { .ttft_ms = o->good_ttft, .tpot_ms = o->good_tpot, .e2e_ms = o->good_e2e },
        .on_progress = s->events->on_progress,
        .context = s->events->context,
    };
}

static enum status run_point(struct session *s, const struct load_run_options *run, struct load_point *point,
                             struct error *err)
{
    if (s->options->reset_cache)
        TRY(load_server_reset_cache(&s->server, err));
    TRY(load_run(&point->result, run, err));
    load_report_add(s->report, point);
    return STATUS_OK;
}

static size_t planned_requests(const struct load_options *o)
{
    if (o->requests > 0)
        return (size_t)o->requests;
    return o->duration > 0 ? 0 : DEFAULT_REQUESTS;
}

static enum status run_closed(struct session *s, size_t n_in_flight, struct error *err)
{
    struct load_run_options run = run_options(s, s->report->n_points);
    run.max_in_flight = n_in_flight;
    run.n_requests = planned_requests(s->options);
    struct load_point point = { .max_in_flight = n_in_flight, .holds = -1 };
    snprintf(point.label, sizeof point.label, "%zu in flight", n_in_flight);
    return run_point(s, &run, &point, err);
}

static size_t open_limit(const struct load_options *o)
{
    return o->concurrency > 0 ? (size_t)o->concurrency : LOAD_MAX_IN_FLIGHT;
}

static enum status run_planned(struct session *s, const struct load_arrival *arrival,
                               struct load_point *point, struct error *err)
{
    struct load_run_options run = run_options(s, s->report->n_points);
    run.max_in_flight = point->max_in_flight = open_limit(s->options);
    run.arrival = arrival;
    point->holds = -1;
    return run_point(s, &run, point, err);
}

static enum status run_open(struct session *s, double rate, struct error *err)
{
    const struct load_options *o = s->options;
    struct load_arrival_options arrivals = {
        .rate = rate,
        .burstiness = o->burstiness,
        .ramp = (enum load_ramp)o->ramp,
        .end_rate = o->ramp_end_rate,
        .n_requests = planned_requests(o),
        .seed = (uint64_t)o->seed + s->report->n_points,
    };
    if (arrivals.n_requests == 0)
        arrivals.n_requests = load_arrival_count(&arrivals, o->duration);
    struct load_arrival arrival;
    TRY(load_arrival_open(&arrival, &arrivals, err));
    struct load_point point = { .rate = rate };
    if (isinf(rate))
        snprintf(point.label, sizeof point.label, "all at once");
    else
        snprintf(point.label, sizeof point.label, "%.4g requests/s", rate);
    enum status status = run_planned(s, &arrival, &point, err);
    load_arrival_clear(&arrival);
    return status;
}

static enum status run_replay(struct session *s, struct error *err)
{
    const struct load_rows *rows = load_dataset_rows(s->dataset);
    if (rows == NULL || !rows->have_timestamps)
        return fail(err, STATUS_BAD_REQUEST, "--replay needs a timestamp in every row of %s",
                    s->options->file);
    size_t n = planned_requests(s->options);
    if (s->options->requests == 0 || n > rows->n)
        n = rows->n;
    double *timestamps = calloc(n, sizeof *timestamps);
    if (timestamps == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for %zu timestamps", n);
    for (size_t i = 0; i < n; i++)
        timestamps[i] = rows->at[i].timestamp_ms;
    struct load_arrival arrival;
    enum status status = load_arrival_trace(&arrival, timestamps, n, s->options->replay_speed, err);
    free(timestamps);
    if (status != STATUS_OK)
        return status;
    struct load_point point = { .label = "trace" };
    status = run_planned(s, &arrival, &point, err);
    load_arrival_clear(&arrival);
    return status;
}

/* ---- several runs ---- */

static struct load_point *last_point(const struct session *s)
{
    return &s->report->points[s->report->n_points - 1];
}

/* Tell about the run just made; 1 if the user has had enough. */
static int end_point(const struct session *s)
{
    if (s->events->on_point != NULL)
        s->events->on_point(s->events->context, last_point(s));
    return last_point(s)->result->was_interrupted;
}

static enum status sweep(struct session *s, struct error *err)
{
    const struct load_options *o = s->options;
    for (int i = 0; i < o->rates.n; i++) {
        TRY(run_open(s, o->rates.at[i], err));
        if (end_point(s))
            return STATUS_OK;
    }
    for (int i = 0; i < o->concurrencies.n; i++) {
        TRY(run_closed(s, (size_t)o->concurrencies.at[i], err));
        if (end_point(s))
            return STATUS_OK;
    }
    return STATUS_OK;
}

static int holds(const struct load_options *o, const struct load_point *p)
{
    const struct load_figures *f = &p->figures;
    return f->outcomes[LOAD_OUTCOME_OK] > 0 && p->result->n_never_sent == 0
        && f->outcomes[LOAD_OUTCOME_UNFINISHED] == 0
        && (double)f->n_failed <= MAX_FAILED_SHARE * (double)f->n_requests
        && (o->sla_ttft <= 0 || f->metrics[LOAD_WAIT].p99 <= o->sla_ttft)
        && (o->sla_itl <= 0 || f->metrics[LOAD_ITL].p99 <= o->sla_itl);
}

static void describe_search(struct session *s, const struct load_search *search)
{
    const struct load_options *o = s->options;
    char ttft[48] = "", itl[48] = "", bounds[100];
    if (o->sla_ttft > 0)
        snprintf(ttft, sizeof ttft, "p99 due-to-first <= %.6g ms", o->sla_ttft);
    if (o->sla_itl > 0)
        snprintf(itl, sizeof itl, "p99 ITL <= %.6g ms", o->sla_itl);
    snprintf(bounds, sizeof bounds, "%s%s%s", ttft, ttft[0] != '\0' && itl[0] != '\0' ? ", " : "", itl);
    struct load_report *r = s->report;
    r->has_search = 1;
    r->best_rate = search->holds;
    char end[64] = "no larger one was tried";
    if (search->fails > 0)
        snprintf(end, sizeof end, "broken at %.4g", search->fails);
    const char *cut = load_report_was_interrupted(r) ? "; interrupted" : "";
    if (search->holds > 0)
        snprintf(r->search, sizeof r->search, "Largest rate with %s: %.4g requests/s (%d runs; %s%s)", bounds,
                 search->holds, search->n_runs, end, cut);
    else if (search->fails > 0)
        snprintf(r->search, sizeof r->search, "No rate down to %.4g requests/s has %s (%d runs%s)", search->fails,
                 bounds, search->n_runs, cut);
    else
        snprintf(r->search, sizeof r->search, "No rate was tried to its end: interrupted");
}

static enum status search_rate(struct session *s, struct error *err)
{
    const struct load_options *o = s->options;
    struct load_search_options options = {
        .first_rate = o->sla_first_rate, .max_rate = o->sla_max_rate,
        .tolerance = o->sla_tolerance, .max_runs = o->sla_runs,
    };
    struct load_search search;
    load_search_init(&search, &options);
    double rate = 0;
    while (load_search_next(&search, &rate)) {
        TRY(run_open(s, rate, err));
        last_point(s)->holds = holds(o, last_point(s));
        if (end_point(s))
            break;
        load_search_report(&search, last_point(s)->holds);
    }
    describe_search(s, &search);
    return STATUS_OK;
}

/* ---- the session ---- */

static enum status run_mode(struct session *s, struct error *err)
{
    const struct load_options *o = s->options;
    char *arrival = s->report->arrival;
    size_t max = sizeof s->report->arrival;
    if (o->sla_ttft > 0 || o->sla_itl > 0) {
        snprintf(arrival, max, "search over open-loop rates, burstiness %g", o->burstiness);
        return search_rate(s, err);
    }
    if (o->rates.n > 0 || o->concurrencies.n > 0) {
        snprintf(arrival, max, "sweep over %d %s", o->rates.n + o->concurrencies.n,
                 o->rates.n > 0 ? "open-loop rates" : "closed loops");
        return sweep(s, err);
    }
    if (o->replay) {
        snprintf(arrival, max, "trace at %g times its speed", o->replay_speed);
        return run_replay(s, err);
    }
    if (o->rate > 0) {
        static const char *const ramps[] = { "", ", linear ramp to", ", exponential ramp to" };
        if (isinf(o->rate))
            snprintf(arrival, max, "open loop, all at once");
        else
            snprintf(arrival, max, "open loop, %g requests/s, burstiness %g%s", o->rate, o->burstiness,
                     ramps[o->ramp]);
        if (o->ramp != LOAD_RAMP_NONE)
            snprintf(arrival + strlen(arrival), max - strlen(arrival), " %g", o->ramp_end_rate);
        return run_open(s, o->rate, err);
    }
    size_t n_in_flight = o->concurrency > 0 ? (size_t)o->concurrency : 1;
    snprintf(arrival, max, "closed loop, %zu in flight", n_in_flight);
    return run_closed(s, n_in_flight, err);
}

enum status load_session_run(const struct load_options *options, const struct load_session_events *events,
                             struct load_report *report, struct error *err)
{
    *report = (struct load_report){ 0 };
    struct session s = { .options = options, .events = events, .report = report };
    enum status status = prepare(&s, err);
    if (status == STATUS_OK)
        status = run_mode(&s, err);
    free(s.extra_fields);
    load_dataset_destroy(s.dataset);
    load_vocabulary_clear(&s.vocabulary);
    return status;
}
