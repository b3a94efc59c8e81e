#include "server/api_call.h"

#include "base/clock.h"
#include "server/access_log.h"
#include "server/api_error.h"
#include "server/http_exchange.h"
#include "server/loop.h"
#include "server/reply.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PING_CHECK_MS = 1000 };

struct call_part {
    struct api_call *call;
    int prompt;
    struct request *request;        /* NULL once it is back */
};

struct api_call {
    struct api_call_options options;
    struct http_exchange *exchange; /* NULL before submit, and once the reply has ended or the client has left */
    struct api_call *next, *previous;
    struct call_part *parts;        /* [n_requests] */
    int n_submitted;                /* requests the engine still has */
    int is_paused;
    struct buf out;                 /* what one event makes visible; reused */
    int64_t arrival_ns;
    int64_t first_token_ns;         /* of any choice; 0: none yet */
    int64_t last_write_ns;
    int64_t *last_token_ns;         /* [n_requests][n_choices] */
    struct engine_usage usage;
    const char *finish;             /* of the first choice, for the log */
    struct access_entry *log_entry;
};

/* ---- create ---- */

enum status api_call_create(struct api_call **out, const struct api_call_options *options, struct error *err)
{
    size_t n = (size_t)options->n_requests;
    struct api_call *call = calloc(1, sizeof *call);
    struct call_part *parts = calloc(n, sizeof *parts);
    int64_t *last_token_ns = calloc(n * (size_t)options->n_choices, sizeof *last_token_ns);
    if (call == NULL || parts == NULL || last_token_ns == NULL) {
        free(call);
        free(parts);
        free(last_token_ns);
        return fail(err, STATUS_NO_MEMORY, "no memory for a call of %zu requests", n);
    }
    call->options = *options;
    call->parts = parts;
    call->last_token_ns = last_token_ns;
    call->finish = "error";
    buf_init(&call->out, API_MAX_REPLY_BYTES);
    for (int i = 0; i < options->n_requests; i++)
        call->parts[i] = (struct call_part){ .call = call, .prompt = i };
    *out = call;
    return STATUS_OK;
}

void api_call_destroy(struct api_call *call)
{
    for (int i = 0; i < call->options.n_requests; i++)
        request_destroy(call->parts[i].request);
    call->options.output->destroy(call->options.state);
    free(call->parts);
    free(call->last_token_ns);
    buf_clear(&call->out);
    free(call);
}

void api_call_set_request(struct api_call *call, int prompt, struct request *request)
{
    call->parts[prompt].request = request;
    request->owner = &call->parts[prompt];
}

int api_call_has_client(const struct api_call *call)
{
    return call->exchange != NULL;
}

struct api_call *api_call_next(const struct api_call *call)
{
    return call->next;
}

/* ---- the list of calls ---- */

static void link_call(struct api_call *call)
{
    struct api *api = call->options.api;
    if (api->n_calls++ == 0 && api->options.ping_ns > 0)
        loop_timer_start(api->ping_timer, PING_CHECK_MS, PING_CHECK_MS);
    call->next = api->calls;
    if (call->next != NULL)
        call->next->previous = call;
    api->calls = call;
}

static void unlink_call(struct api_call *call)
{
    struct api *api = call->options.api;
    *(call->previous != NULL ? &call->previous->next : &api->calls) = call->next;
    if (call->next != NULL)
        call->next->previous = call->previous;
    if (--api->n_calls == 0)
        loop_timer_stop(api->ping_timer);
}

/* ---- the client ---- */

static void set_flag(struct api_call *call, int cancelled, int paused)
{
    for (int i = 0; i < call->options.n_requests; i++) {
        struct request *request = call->parts[i].request;
        if (request == NULL)
            continue;
        if (cancelled)
            atomic_store(&request->cancelled, 1);
        atomic_store(&request->paused, paused);
    }
    engine_nudge(call->options.api->options.engine);
}

/* The reply has ended or nobody waits for it: the exchange must not be touched any more. */
static void let_go(struct api_call *call)
{
    call->exchange = NULL;
    call->options.api->n_active--;
}

static void on_close(void *context)
{
    struct api_call *call = context;
    let_go(call);
    call->finish = "abort";
    set_flag(call, 1, 0);
}

static void on_drain(void *context)
{
    struct api_call *call = context;
    if (call->is_paused) {
        call->is_paused = 0;
        set_flag(call, 0, 0);
    }
}

/* What the last event made visible, in one write. */
static void send_chunk(struct api_call *call, int64_t now_ns)
{
    struct http_exchange *ex = call->exchange;
    if (call->out.len == 0)
        return;
    if (!http_stream_has_begun(ex))
        http_stream_begin(ex, HTTP_EVENTS);
    http_stream_write(ex, call->out.data, call->out.len);
    buf_reset(&call->out);
    call->last_write_ns = now_ns;
    if (!call->is_paused && http_pending_bytes(ex) > call->options.api->options.high_water_bytes) {
        call->is_paused = 1;
        set_flag(call, 0, 1);
    }
}

void api_call_ping(struct api_call *call, int64_t now_ns)
{
    if (!call->options.is_stream || call->exchange == NULL || call->is_paused ||
        now_ns - call->last_write_ns < call->options.api->options.ping_ns)
        return;
    if (buf_add_text(&call->out, ": still working\n\n") == STATUS_OK)
        send_chunk(call, now_ns);
}

static void send_end(struct api_call *call, int64_t now_ns)
{
    struct http_exchange *ex = call->exchange;
    if (call->options.is_stream) {
        send_chunk(call, now_ns);
        http_stream_end(ex);
    } else {
        http_reply(ex, 200, HTTP_JSON, call->out.data, call->out.len);
    }
    let_go(call);
}

/* In a stream that has begun the only place left for an error is an event. */
static void send_error_event(struct api_call *call, const struct error *failure)
{
    struct buf *out = &call->out;
    struct api_error error = { .status = status_http(failure->code), .message = failure->text };
    buf_reset(out);
    if (buf_add_text(out, "data: ") == STATUS_OK && api_error_write(out, &error) == STATUS_OK &&
        buf_add_text(out, "\n\ndata: [DONE]\n\n") == STATUS_OK)
        http_stream_write(call->exchange, out->data, out->len);
    http_stream_end(call->exchange);
}

void api_call_fail(struct api_call *call, const struct error *failure)
{
    if (call->exchange == NULL)
        return;
    if (http_stream_has_begun(call->exchange))
        send_error_event(call, failure);
    else
        api_error_reply_failure(call->exchange, failure, NULL, NULL);
    call->finish = "error";
    let_go(call);
    set_flag(call, 1, 0);
}

/* ---- the end ---- */

static void end_call(struct api_call *call)
{
    access_log_finish(call->log_entry, &(struct access_note){
        .is_stream = call->options.is_stream, .n_requests = call->options.n_requests, .finish = call->finish,
        .ttft_ns = call->first_token_ns > 0 ? call->first_token_ns - call->arrival_ns : 0,
        .usage = call->usage });
    unlink_call(call);
    api_call_destroy(call);
}

void api_call_submit(struct api_call *call, struct http_exchange *ex)
{
    struct api *api = call->options.api;
    struct error err;
    enum status s = STATUS_OK;
    call->exchange = ex;
    call->arrival_ns = http_exchange_arrival_ns(ex);
    call->last_write_ns = clock_now_ns();
    call->log_entry = access_log_begin(api->options.access_log, http_exchange_request_id(ex),
                                       http_exchange_peer(ex), http_exchange_header(ex, "traceparent"));
    link_call(call);
    api->n_active++;
    http_on_close(ex, on_close, call);
    http_on_drain(ex, on_drain, call);
    for (int i = 0; i < call->options.n_requests && s == STATUS_OK; i++) {
        struct request *request = call->parts[i].request;
        request->arrival_ns = call->arrival_ns;
        snprintf(request->id, sizeof request->id, "%s", http_exchange_request_id(ex));
        s = engine_submit(api->options.engine, request, &err);
        call->n_submitted += s == STATUS_OK;
    }
    if (s == STATUS_OK)
        return;
    /* Those behind the refused one, and it itself, never reached the engine. */
    for (int i = call->n_submitted; i < call->options.n_requests; i++) {
        request_destroy(call->parts[i].request);
        call->parts[i].request = NULL;
    }
    api_call_fail(call, &err);
    if (call->n_submitted == 0)
        end_call(call);
}

/* ---- events ---- */

static void observe_token(struct api_call *call, const struct call_part *part,
                          const struct engine_event *event, int64_t now_ns)
{
    struct metrics *metrics = call->options.api->metrics;
    int64_t *last = &call->last_token_ns[part->prompt * call->options.n_choices + event->choice];
    if (call->first_token_ns == 0)
        call->first_token_ns = now_ns;
    if (*last > 0)
        metrics_observe(metrics, METRICS_INTER_TOKEN, (double)(now_ns - *last) * 1e-9);
    else if (event->choice == 0)
        metrics_observe(metrics, METRICS_TTFT, (double)(now_ns - call->arrival_ns) * 1e-9);
    *last = now_ns;
}

static void observe_choice_end(struct api_call *call, const struct call_part *part,
                               const struct engine_event *event)
{
    static const struct {
        enum metrics_finish how;
        const char *text;
    } rows[] = {
        [FINISH_STOP] = { METRICS_STOP, "stop" },
        [FINISH_LENGTH] = { METRICS_LENGTH, "length" },
        [FINISH_CANCELLED] = { METRICS_ABORT, "abort" },
    };
    metrics_count_finish(call->options.api->metrics, rows[event->finish].how);
    if (part->prompt == 0 && event->choice == 0 && call->exchange != NULL)
        call->finish = rows[event->finish].text;
}

static void observe_done(struct api_call *call, const struct request *request, const struct engine_usage *u,
                         int64_t now_ns)
{
    struct metrics *m = call->options.api->metrics;
    if (call->exchange == NULL)
        return;
    if (request->task == REQUEST_EMBED)
        metrics_count_finish(m, METRICS_STOP);
    metrics_observe(m, METRICS_E2E, (double)(now_ns - call->arrival_ns) * 1e-9);
    metrics_observe(m, METRICS_QUEUE, (double)u->queue_ns * 1e-9);
    metrics_observe(m, METRICS_PROMPT_TOKENS, u->prompt_tokens);
    if (request->task == REQUEST_EMBED)
        return;
    metrics_observe(m, METRICS_PREFILL, (double)u->prefill_ns * 1e-9);
    metrics_observe(m, METRICS_DECODE, (double)u->decode_ns * 1e-9);
    metrics_observe(m, METRICS_GENERATION_TOKENS, u->output_tokens);
    metrics_observe(m, METRICS_PARAMS_N, request->n_choices);
    metrics_observe(m, METRICS_PARAMS_MAX_TOKENS, request->max_new_tokens);
    int32_t after_first = u->output_tokens / request->n_choices - 1;
    if (after_first > 0)
        metrics_observe(m, METRICS_PER_OUTPUT_TOKEN, (double)u->decode_ns * 1e-9 / after_first);
}

static void observe(struct api_call *call, const struct call_part *part, const struct engine_event *event,
                    int64_t now_ns)
{
    switch (event->kind) {
    case ENGINE_TOKEN:
        observe_token(call, part, event, now_ns);
        break;
    case ENGINE_CHOICE_END:
        observe_choice_end(call, part, event);
        break;
    case ENGINE_DONE:
        if (part->request->task == REQUEST_EMBED && call->exchange != NULL)
            call->finish = "stop";
        observe_done(call, part->request, &event->usage, now_ns);
        reply_add_usage(&call->usage, &event->usage);
        break;
    case ENGINE_FAILED:
        metrics_count_finish(call->options.api->metrics, METRICS_ERROR);
        break;
    default:
        break;
    }
}

/* The event's part of the reply; the last one closes it. */
static void reply_to(struct api_call *call, const struct call_part *part, const struct engine_event *event,
                     int64_t now_ns)
{
    const struct call_output *output = call->options.output;
    struct error err;
    if (event->kind == ENGINE_FAILED) {
        api_call_fail(call, &event->failure);
        return;
    }
    enum status s = output->take(call->options.state, part->prompt, event, &call->out, &err);
    int is_last = event->kind == ENGINE_DONE && call->n_submitted == 1;
    if (s == STATUS_OK && is_last)
        s = output->finish(call->options.state, &call->out, &err);
    if (s != STATUS_OK)
        api_call_fail(call, &err);
    else if (is_last)
        send_end(call, now_ns);
    else if (call->options.is_stream)
        send_chunk(call, now_ns);
}

void api_call_take(void *owner, const struct engine_event *event, int64_t now_ns)
{
    struct call_part *part = owner;
    struct api_call *call = part->call;
    observe(call, part, event, now_ns);
    if (call->exchange != NULL)
        reply_to(call, part, event, now_ns);
    if (event->kind != ENGINE_DONE && event->kind != ENGINE_FAILED)
        return;
    request_destroy(part->request);
    part->request = NULL;
    if (--call->n_submitted == 0)
        end_call(call);
}
