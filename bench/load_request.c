#include "bench/load_request.h"

#include "base/clock.h"
#include "bench/load_chunk.h"
#include "bench/load_sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    MAX_EVENT_BYTES = 1024 * 1024,
    MAX_BODY_BYTES = 16 * 1024 * 1024,
    MAX_REQUEST_GAPS = 1000000
};

enum body_form { FORM_UNKNOWN, FORM_EVENTS, FORM_OBJECT, FORM_ERROR };

struct load_request {
    /* fixed at create */
    struct load_request_owner owner;
    uv_timer_t timer;                   /* cancel or time limit, whichever is next */
    struct load_sse sse;

    /* of the request under way */
    struct load_exchange exchange;
    struct load_record record;
    struct load_series gaps;
    struct buf body;                    /* a JSON reply, or the body of an HTTP error */
    enum body_form form;
    enum load_outcome fault;            /* found in the reply so far; OK: none */
    int64_t now_ns;                     /* of the bytes being read */
    size_t n_new_chunks;                /* with text, in the bytes being read */
    int is_cancel;                      /* the timer is set to cancel, not to time out */
    int is_active;
    int is_done, is_finished, has_usage;
    struct error error;                 /* its text is one line, whatever the server sent */
};

static void note_fault(struct load_request *r, enum load_outcome fault, const char *sentence)
{
    if (r->fault != LOAD_OUTCOME_OK)
        return;
    r->fault = fault;
    fail(&r->error, STATUS_IO, "%s", sentence);
}

/* ---- the reply ---- */

static void take_chunk(struct load_request *r, const struct load_chunk *chunk)
{
    struct load_record *record = &r->record;
    r->is_done |= chunk->is_done;
    r->is_finished |= chunk->is_finished;
    record->n_token_ids += (int64_t)chunk->n_token_ids;
    if (chunk->has_usage) {
        r->has_usage = 1;
        record->output_tokens = chunk->completion_tokens;
        record->input_tokens = chunk->prompt_tokens;
        record->cached_tokens = chunk->cached_tokens;
    }
    if (chunk->has_error)
        note_fault(r, LOAD_OUTCOME_STREAM, chunk->error_text);
    if (chunk->text_bytes == 0)
        return;
    if (record->first_ns == 0)
        record->first_ns = r->now_ns;
    else
        load_series_push(&r->gaps, (double)(r->now_ns - record->last_ns) / 1e6);
    record->last_ns = r->now_ns;
    record->n_chunks++;
    r->n_new_chunks++;
}

static enum status on_event(void *context, const struct load_sse_event *event, struct error *err)
{
    struct load_request *r = context;
    struct load_chunk chunk;
    TRY(load_chunk_parse(&chunk, event->data, event->len, err));
    take_chunk(r, &chunk);
    if (strcmp(event->name, "error") == 0)
        note_fault(r, LOAD_OUTCOME_STREAM, chunk.has_error ? chunk.error_text : "an event named error");
    return STATUS_OK;
}

static void on_status(void *context, int http_status, int64_t now_ns)
{
    (void)now_ns;
    struct load_request *r = context;
    r->record.http_status = http_status;
    if (http_status / 100 != 2)
        r->form = FORM_ERROR;
}

/* The first byte that is not blank tells the form. */
static void find_form(struct load_request *r, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && r->form == FORM_UNKNOWN; i++)
        if (bytes[i] == '{')
            r->form = FORM_OBJECT;
        else if (strchr(" \t\r\n", bytes[i]) == NULL)
            r->form = FORM_EVENTS;
}

static void on_body(void *context, const char *bytes, size_t n, int64_t now_ns)
{
    struct load_request *r = context;
    struct load_sse_sink sink = { .on_event = on_event, .context = r };
    struct error err = { 0 };
    enum status s = STATUS_OK;
    r->now_ns = now_ns;
    r->n_new_chunks = 0;
    if (r->form == FORM_UNKNOWN)
        find_form(r, bytes, n);
    if (r->fault == LOAD_OUTCOME_BAD_REPLY)
        return;
    if (r->form == FORM_EVENTS)
        s = load_sse_feed(&r->sse, bytes, n, &sink, &err);
    else if (r->form != FORM_UNKNOWN && buf_add(&r->body, bytes, n) != STATUS_OK)
        s = fail(&err, STATUS_TOO_LARGE, "the reply is larger than %zu bytes", r->body.max);
    if (s != STATUS_OK)
        note_fault(r, LOAD_OUTCOME_BAD_REPLY, err.text);
    if (r->n_new_chunks > 0)
        r->owner.on_chunks(r->owner.context, now_ns, r->n_new_chunks);
}

/* ---- the end ---- */

static enum load_outcome outcome_of_status(int http_status)
{
    if (http_status == 429 || http_status == 503)
        return LOAD_OUTCOME_OVERLOAD;
    return http_status / 100 == 4 ? LOAD_OUTCOME_HTTP_4XX : LOAD_OUTCOME_HTTP_5XX;
}

static void judge_http_error(struct load_request *r)
{
    struct load_chunk chunk;
    char sentence[200];
    int has_text = load_chunk_parse(&chunk, r->body.data != NULL ? r->body.data : "", r->body.len, NULL)
                       == STATUS_OK
                   && chunk.has_error;
    snprintf(sentence, sizeof sentence, "HTTP %d%s%s", r->record.http_status, has_text ? ": " : "",
             has_text ? chunk.error_text : "");
    note_fault(r, outcome_of_status(r->record.http_status), sentence);
}

/* What is left in the parsers once the reply is whole. */
static void read_rest(struct load_request *r)
{
    struct load_sse_sink sink = { .on_event = on_event, .context = r };
    struct error err = { 0 };
    struct load_chunk chunk;
    enum status s = STATUS_OK;
    if (r->form == FORM_EVENTS && r->fault != LOAD_OUTCOME_BAD_REPLY) {
        s = load_sse_finish(&r->sse, &sink, &err);
    } else if (r->form == FORM_OBJECT) {
        s = load_chunk_parse(&chunk, r->body.data, r->body.len, &err);
        if (s == STATUS_OK)
            take_chunk(r, &chunk);
    }
    if (s != STATUS_OK)
        note_fault(r, LOAD_OUTCOME_BAD_REPLY, err.text);
}

static void count_tokens(struct load_request *r)
{
    struct load_record *record = &r->record;
    if (r->has_usage) {
        record->token_source = LOAD_TOKENS_USAGE;
    } else if (record->n_token_ids > 0) {
        record->token_source = LOAD_TOKENS_IDS;
        record->output_tokens = record->n_token_ids;
    } else {
        record->token_source = LOAD_TOKENS_CHUNKS;
        record->output_tokens = record->n_chunks;
    }
}

/* A whole reply, still to be judged. */
static void judge(struct load_request *r)
{
    if (r->form == FORM_ERROR)
        judge_http_error(r);
    r->n_new_chunks = 0;
    read_rest(r);
    if (r->n_new_chunks > 0)
        r->owner.on_chunks(r->owner.context, r->now_ns, r->n_new_chunks);
    count_tokens(r);
    if (r->form == FORM_EVENTS && !r->is_done && !r->is_finished)
        note_fault(r, LOAD_OUTCOME_CUT, "the stream ended without [DONE] and without a finish_reason");
    if (r->record.output_tokens == 0 && r->record.n_chunks == 0)
        note_fault(r, LOAD_OUTCOME_EMPTY, "the reply has neither text nor output tokens");
}

static void finish(struct load_request *r, int64_t now_ns)
{
    uv_timer_stop(&r->timer);
    r->is_active = 0;
    r->record.end_ns = now_ns;
    r->record.outcome = r->fault;
    r->owner.on_done(r->owner.context, r);
}

static void on_end(void *context, enum load_end end, const char *why, int64_t now_ns)
{
    struct load_request *r = context;
    r->now_ns = now_ns;
    switch (end) {
    case LOAD_END_COMPLETE:
        judge(r);
        break;
    case LOAD_END_CONNECT:
        note_fault(r, LOAD_OUTCOME_CONNECT, why);
        break;
    case LOAD_END_LOST:
        note_fault(r, LOAD_OUTCOME_LOST, why);
        break;
    case LOAD_END_PROTOCOL:
        note_fault(r, LOAD_OUTCOME_BAD_REPLY, why);
        break;
    }
    finish(r, now_ns);
}

static const struct load_exchange_events exchange_events = {
    .on_status = on_status,
    .on_body = on_body,
    .on_end = on_end,
};

void load_request_give_up(struct load_request *r, enum load_outcome outcome)
{
    if (!r->is_active)
        return;
    load_client_cancel(&r->exchange);
    r->fault = outcome;
    fail(&r->error, STATUS_IO, "%s", load_outcome_text(outcome));
    finish(r, clock_now_ns());
}

/* ---- timer ---- */

static void on_timer(uv_timer_t *timer);

/* Rounded up, and one more because libuv's clock is rounded down: a limit is
 * never cut short. */
static void arm_timer(struct load_request *r, int64_t in_ns)
{
    uv_update_time(r->timer.loop);
    uv_timer_start(&r->timer, on_timer, (uint64_t)(in_ns + 999999) / 1000000 + 1, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct load_request *r = timer->data;
    load_request_give_up(r, r->is_cancel ? LOAD_OUTCOME_CANCELLED : LOAD_OUTCOME_TIMED_OUT);
}

/* ---- start ---- */

static void reset(struct load_request *r, const struct load_request_start *start, int64_t now_ns)
{
    load_sse_reset(&r->sse);
    load_series_reset(&r->gaps);
    buf_reset(&r->body);
    r->record = (struct load_record){
        .index = start->index,
        .due_ns = start->due_ns > 0 ? start->due_ns : now_ns,
        .sent_ns = now_ns,
        .input_tokens = start->input_tokens,
        .asked_tokens = start->asked_tokens,
    };
    r->form = FORM_UNKNOWN;
    r->fault = LOAD_OUTCOME_OK;
    r->is_done = r->is_finished = r->has_usage = 0;
    r->error = (struct error){ 0 };
    r->exchange = (struct load_exchange){ .events = &exchange_events, .context = r };
}

enum status load_request_start(struct load_request *r, const struct load_request_start *start,
                               struct error *err)
{
    int64_t now_ns = clock_now_ns();
    reset(r, start, now_ns);
    struct error why = { 0 };
    enum status s = fail(&why, STATUS_TOO_LARGE, "the request's body is larger than the client's limit");
    if (start->body != NULL)
        s = load_client_send(start->client, &r->exchange, &start->head, start->body, start->body_len, &why);
    if (s != STATUS_OK) {
        note_fault(r, LOAD_OUTCOME_CLIENT, why.text);
        r->record.outcome = r->fault;
        r->record.end_ns = now_ns;
        return fail(err, s, "%s", why.text);
    }
    r->is_active = 1;
    r->is_cancel = start->cancel_after_ns > 0 && start->cancel_after_ns < start->timeout_ns;
    arm_timer(r, r->is_cancel ? start->cancel_after_ns : start->timeout_ns);
    return STATUS_OK;
}

enum status load_request_create(struct load_request **out, struct uv_loop_s *loop,
                                const struct load_request_owner *owner, struct error *err)
{
    struct load_request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a request");
    r->owner = *owner;
    r->timer.data = r;
    int e = uv_timer_init(loop, &r->timer);
    if (e < 0) {
        free(r);
        return fail(err, STATUS_IO, "no timer: %s", uv_strerror(e));
    }
    load_sse_init(&r->sse, MAX_EVENT_BYTES);
    load_series_init(&r->gaps, MAX_REQUEST_GAPS);
    buf_init(&r->body, MAX_BODY_BYTES);
    *out = r;
    return STATUS_OK;
}

void load_request_close(struct load_request *r)
{
    uv_close((uv_handle_t *)&r->timer, NULL);
}

void load_request_destroy(struct load_request *r)
{
    if (r == NULL)
        return;
    load_sse_clear(&r->sse);
    load_series_clear(&r->gaps);
    buf_clear(&r->body);
    free(r);
}

const struct load_record *load_request_record(const struct load_request *r)
{
    return &r->record;
}

const struct load_series *load_request_gaps(const struct load_request *r)
{
    return &r->gaps;
}

const char *load_request_error(const struct load_request *r)
{
    return r->error.text;
}

size_t load_request_n_events(const struct load_request *r)
{
    return r->sse.n_events;
}
