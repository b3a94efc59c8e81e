#include "bench/load_run.h"

#include "base/clock.h"
#include "base/json_write.h"
#include "bench/load_client.h"
#include "bench/load_request.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { MAX_BODY_BYTES = 32 * 1024 * 1024, PROGRESS_MS = 500 };

/* Warm-up prompts and the choice of cancelled requests draw from streams of
 * their own, so that neither changes the measured prompts. */
enum { STREAM_WARM_UP = 101, STREAM_CANCEL = 102 };

struct run {
    /* fixed at create */
    const struct load_run_options *options;
    uv_loop_t loop;
    uv_timer_t due_timer;           /* the next request of an open loop is due */
    uv_timer_t stop_timer;          /* the end of the duration, then of the grace */
    uv_timer_t progress_timer;
    uv_signal_t interrupt;
    struct load_client *client;
    struct load_result *result;
    char path[320];

    struct buf body;                /* of the request being started */
    struct load_request **places;   /* [n_places], all made so far, n_places <= max_in_flight */
    struct load_request **vacant;   /* [n_vacant]: a stack of those not under way */
    size_t n_places, n_vacant;

    /* of this phase: warm-up or measured */
    int is_warm_up;
    int is_stopping;                /* nothing new starts */
    int is_over;                    /* all handles are closing */
    int64_t phase_ns;               /* its start */
    size_t n_planned, n_started, n_ended, n_failed, n_chunks;
    size_t reported_ended, reported_chunks;     /* at the last progress report */
    int64_t reported_ns;
};

static void pump(struct run *run);

/* ---- the body ---- */

static enum status write_body(const struct load_run_options *o, uint64_t seed, size_t index, struct buf *out,
                              struct load_lengths *lengths)
{
    TRY(buf_add_text(out, "{\"model\":"));
    TRY(json_write_cstring(out, o->model));
    TRY(buf_add_char(out, ','));
    TRY(load_dataset_write(o->dataset, seed, index, out, lengths));
    TRY(buf_printf(out, ",\"max_tokens\":%lld,\"temperature\":", (long long)lengths->output_tokens));
    TRY(json_write_double(out, o->temperature));
    TRY(buf_add_text(out, o->is_streamed ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}"
                                         : ",\"stream\":false"));
    if (o->ignore_eos)
        TRY(buf_add_text(out, ",\"ignore_eos\":true"));
    if (o->extra_fields[0] != '\0') {
        TRY(buf_add_char(out, ','));
        TRY(buf_add_text(out, o->extra_fields));
    }
    return buf_add_char(out, '}');
}

enum status load_run_write_body(const struct load_run_options *options, size_t index, struct buf *out,
                                struct load_lengths *lengths)
{
    return write_body(options, options->seed, index, out, lengths);
}

/* Warm-up takes the rows of a file from its end: the measured part begins at
 * the front and should not find them in the server's prefix cache. */
static enum status write_next_body(struct run *run, struct load_lengths *lengths)
{
    const struct load_run_options *o = run->options;
    buf_reset(&run->body);
    if (!run->is_warm_up)
        return write_body(o, o->seed, run->n_started, &run->body, lengths);
    const struct load_rows *rows = load_dataset_rows(o->dataset);
    size_t index = rows != NULL ? rows->n - 1 - run->n_started % rows->n : run->n_started;
    return write_body(o, rng_sub_seed(o->seed, STREAM_WARM_UP), index, &run->body, lengths);
}

/* ---- end of the run ---- */

static void end_run(struct run *run)
{
    if (run->is_over)
        return;
    run->is_over = 1;
    uv_close((uv_handle_t *)&run->due_timer, NULL);
    uv_close((uv_handle_t *)&run->stop_timer, NULL);
    uv_close((uv_handle_t *)&run->progress_timer, NULL);
    uv_close((uv_handle_t *)&run->interrupt, NULL);
    for (size_t i = 0; i < run->n_places; i++)
        load_request_close(run->places[i]);
    load_client_close(run->client);
}

/* How many were due before now and are still not sent. */
static void count_never_sent(struct run *run, int64_t now_ns)
{
    const struct load_arrival *arrival = run->options->arrival;
    if (run->is_warm_up || arrival == NULL)
        return;
    size_t due = run->n_started;
    while (due < run->n_planned && run->phase_ns + arrival->due_ns[due] <= now_ns)
        due++;
    run->result->n_never_sent = due - run->n_started;
}

static void give_up_all(struct run *run)
{
    run->is_stopping = 1;
    for (size_t i = 0; i < run->n_places; i++)
        load_request_give_up(run->places[i], LOAD_OUTCOME_UNFINISHED);
}

static size_t in_flight(const struct run *run)
{
    return run->n_places - run->n_vacant;
}

static void on_grace_over(uv_timer_t *timer)
{
    give_up_all(timer->data);
}

static void on_duration_over(uv_timer_t *timer)
{
    struct run *run = timer->data;
    run->is_stopping = 1;
    count_never_sent(run, clock_now_ns());
    uv_timer_stop(&run->due_timer);
    uv_timer_start(timer, on_grace_over, (uint64_t)(run->options->grace_s * 1000), 0);
    pump(run);
}

static void on_interrupt(uv_signal_t *signal, int number)
{
    (void)number;
    struct run *run = signal->data;
    run->result->was_interrupted = 1;
    count_never_sent(run, clock_now_ns());
    give_up_all(run);
    pump(run);
}

/* ---- phases ---- */

static void begin_measured(struct run *run)
{
    const struct load_run_options *o = run->options;
    run->is_warm_up = 0;
    run->n_planned = o->arrival != NULL ? o->arrival->n : o->n_requests > 0 ? o->n_requests : LOAD_MAX_TIMED;
    run->n_started = run->n_ended = run->n_failed = run->n_chunks = 0;
    run->reported_ended = run->reported_chunks = 0;
    run->phase_ns = run->reported_ns = clock_now_ns();
    run->result->start_ns = run->phase_ns;
    if (o->duration_s > 0) {
        uv_update_time(&run->loop);
        /* A little late, so that a request due at the very end still starts. */
        uv_timer_start(&run->stop_timer, on_duration_over, (uint64_t)(o->duration_s * 1000) + 2, 0);
    }
}

/* Nothing is under way and nothing more will start in this phase. */
static void end_phase(struct run *run)
{
    if (!run->is_warm_up) {
        end_run(run);
        return;
    }
    begin_measured(run);
    pump(run);
}

/* ---- requests ---- */

static void keep_record(struct run *run, const struct load_request *request)
{
    const struct load_record *record = load_request_record(request);
    run->n_ended++;
    run->n_failed += (size_t)load_outcome_is_failure(record->outcome);
    run->result->n_events += load_request_n_events(request);
    if (!run->is_warm_up)
        load_result_add(run->result, record, load_request_gaps(request), load_request_error(request));
    if (run->options->max_failures > 0 && run->n_failed >= run->options->max_failures)
        run->is_stopping |= !run->is_warm_up;
}

static void on_done(void *context, struct load_request *request)
{
    struct run *run = context;
    keep_record(run, request);
    run->vacant[run->n_vacant++] = request;
    pump(run);
}

static void on_chunks(void *context, int64_t now_ns, size_t n_chunks)
{
    struct run *run = context;
    run->n_chunks += n_chunks;
    if (!run->is_warm_up)
        load_result_count_chunks(run->result, now_ns, n_chunks);
}

/* NULL: all places are taken, or there is no memory for another. */
static struct load_request *take_place(struct run *run)
{
    if (run->n_vacant > 0)
        return run->vacant[--run->n_vacant];
    if (run->n_places == run->options->max_in_flight)
        return NULL;
    struct load_request_owner owner = { .on_chunks = on_chunks, .on_done = on_done, .context = run };
    struct load_request *request = NULL;
    if (load_request_create(&request, &run->loop, &owner, NULL) != STATUS_OK)
        return NULL;
    run->places[run->n_places++] = request;
    return request;
}

static int64_t cancel_after_ns(const struct run *run, size_t index)
{
    const struct load_run_options *o = run->options;
    if (o->cancel_rate <= 0 || run->is_warm_up)
        return 0;
    struct rng rng;
    rng_seed(&rng, rng_sub_seed(rng_sub_seed(o->seed, STREAM_CANCEL), index));
    int64_t after_ns = (int64_t)(o->cancel_after_s * 1e9);
    return rng_uniform(&rng) < o->cancel_rate ? (after_ns > 0 ? after_ns : 1) : 0;
}

static int64_t due_ns(const struct run *run)
{
    if (run->is_warm_up || run->options->arrival == NULL)
        return 0;
    return run->phase_ns + run->options->arrival->due_ns[run->n_started];
}

static void start_next(struct run *run, struct load_request *request)
{
    const struct load_run_options *o = run->options;
    struct load_lengths lengths = { 0 };
    enum status s = write_next_body(run, &lengths);
    struct load_request_start start = {
        .client = run->client,
        .head = { .method = "POST", .path = run->path,
                  .accept = o->is_streamed ? "text/event-stream" : "application/json" },
        .body = s == STATUS_OK ? run->body.data : NULL,
        .body_len = run->body.len,
        .index = run->n_started,
        .due_ns = due_ns(run),
        .asked_tokens = lengths.output_tokens,
        .input_tokens = lengths.input_tokens,
        .timeout_ns = (int64_t)(o->timeout_s * 1e9),
        .cancel_after_ns = cancel_after_ns(run, run->n_started),
    };
    s = load_request_start(request, &start, NULL);
    run->n_started++;
    if (s != STATUS_OK) {
        keep_record(run, request);
        run->vacant[run->n_vacant++] = request;
    }
    if (!run->is_warm_up && in_flight(run) > run->result->peak_in_flight)
        run->result->peak_in_flight = in_flight(run);
}

static void on_due(uv_timer_t *timer)
{
    pump(timer->data);
}

/* Start whatever may start now. */
static void pump(struct run *run)
{
    if (run->is_over)
        return;
    while (run->n_started < run->n_planned && !run->is_stopping) {
        int64_t wait_ns = due_ns(run) > 0 ? due_ns(run) - clock_now_ns() : 0;
        if (wait_ns > 0) {
            uv_update_time(&run->loop);
            uv_timer_start(&run->due_timer, on_due, (uint64_t)(wait_ns + 999999) / 1000000, 0);
            break;
        }
        struct load_request *request = take_place(run);
        if (request == NULL) {
            run->is_stopping |= in_flight(run) == 0;    /* no memory: nothing would wake us */
            break;
        }
        start_next(run, request);
    }
    if (in_flight(run) == 0 && (run->n_started == run->n_planned || run->is_stopping))
        end_phase(run);
}

/* ---- progress ---- */

static void on_progress(uv_timer_t *timer)
{
    struct run *run = timer->data;
    int64_t now_ns = clock_now_ns();
    double since_s = (double)(now_ns - run->reported_ns) / 1e9;
    struct load_progress progress = {
        .elapsed_s = (double)(now_ns - run->phase_ns) / 1e9,
        .is_warm_up = run->is_warm_up,
        .n_started = run->n_started,
        .n_ended = run->n_ended,
        .n_failed = run->n_failed,
        .n_in_flight = in_flight(run),
        .n_planned = run->n_planned == LOAD_MAX_TIMED ? 0 : run->n_planned,
    };
    if (since_s > 0) {
        progress.requests_per_s = (double)(run->n_ended - run->reported_ended) / since_s;
        progress.chunks_per_s = (double)(run->n_chunks - run->reported_chunks) / since_s;
    }
    run->reported_ended = run->n_ended;
    run->reported_chunks = run->n_chunks;
    run->reported_ns = now_ns;
    run->options->on_progress(run->options->context, &progress);
}

/* ---- the run ---- */

static void init_timer(struct run *run, uv_timer_t *timer)
{
    uv_timer_init(&run->loop, timer);
    timer->data = run;
}

/* The loop, the client, the result and the places' arrays exist. */
static void run_all(struct run *run)
{
    const struct load_run_options *o = run->options;
    init_timer(run, &run->due_timer);
    init_timer(run, &run->stop_timer);
    init_timer(run, &run->progress_timer);
    uv_signal_init(&run->loop, &run->interrupt);
    run->interrupt.data = run;
    uv_signal_start_oneshot(&run->interrupt, on_interrupt, SIGINT);
    if (o->on_progress != NULL)
        uv_timer_start(&run->progress_timer, on_progress, PROGRESS_MS, PROGRESS_MS);
    run->is_warm_up = o->n_warm_up > 0;
    run->n_planned = o->n_warm_up;
    run->phase_ns = run->reported_ns = clock_now_ns();
    if (!run->is_warm_up)
        begin_measured(run);
    pump(run);
    uv_run(&run->loop, UV_RUN_DEFAULT);
}

static enum status prepare(struct run *run, struct error *err)
{
    const struct load_run_options *o = run->options;
    struct load_client_options client = {
        .loop = &run->loop, .host = o->server->host, .port = o->server->port, .api_key = o->server->api_key,
    };
    size_t n = o->arrival != NULL ? o->arrival->n : o->n_requests > 0 ? o->n_requests : LOAD_MAX_TIMED;
    TRY(load_client_create(&run->client, &client, err));
    TRY(load_result_create(&run->result, n, err));
    run->result->goals = o->goals;
    run->places = calloc(o->max_in_flight, sizeof *run->places);
    run->vacant = calloc(o->max_in_flight, sizeof *run->vacant);
    if (run->places == NULL || run->vacant == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for %zu requests in flight", o->max_in_flight);
    snprintf(run->path, sizeof run->path, "%s%s", o->server->base,
             o->endpoint == LOAD_CHAT ? "/v1/chat/completions" : "/v1/completions");
    return STATUS_OK;
}

static void check_options(const struct load_run_options *o)
{
    assert(o->max_in_flight >= 1 && o->max_in_flight <= LOAD_MAX_IN_FLIGHT);
    assert(o->timeout_s > 0 && o->grace_s >= 0 && o->cancel_after_s >= 0);
    assert(o->arrival != NULL || o->n_requests > 0 || o->duration_s > 0);
    (void)o;
}

enum status load_run(struct load_result **out, const struct load_run_options *options, struct error *err)
{
    check_options(options);
    struct run run = { .options = options };
    int e = uv_loop_init(&run.loop);
    if (e < 0)
        return fail(err, STATUS_IO, "no event loop: %s", uv_strerror(e));
    buf_init(&run.body, MAX_BODY_BYTES);
    int64_t cpu_ns = clock_thread_cpu_ns();
    enum status s = prepare(&run, err);
    if (s == STATUS_OK) {
        run_all(&run);
        run.result->cpu_ns = clock_thread_cpu_ns() - cpu_ns;
        run.result->n_connects = load_client_n_connects(run.client);
        *out = run.result;
    } else {
        load_result_destroy(run.result);
    }
    for (size_t i = 0; i < run.n_places; i++)
        load_request_destroy(run.places[i]);
    free(run.places);
    free(run.vacant);
    load_client_destroy(run.client);
    buf_clear(&run.body);
    uv_loop_close(&run.loop);
    return s;
}
