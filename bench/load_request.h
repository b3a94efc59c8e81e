/* load_request.h - one measured request: its bytes out, its reply in, its times.
 *
 *   load_run --- due, body ---> load_request --- load_client ---> server
 *            <-- record ------/      reply: server-sent events or one JSON object
 *
 * A request object is a place that serves one request after another.  The form
 * of the reply is taken from its first byte ('{' is one JSON object), so a
 * server that ignores "stream" is measured too: its text then comes in one chunk.
 *
 * Rules
 *   1. on_done is called once for each load_request_start that returned OK,
 *      never inside it; the request may be started again from there;
 *   2. load_request_give_up ends a request at once and calls on_done;
 *   3. load_request_close before destroy, and the loop has run in between.
 *
 * Owner: the thread of the libuv loop.  Memory: bounded buffers, kept between uses.
 */
#ifndef BENCH_LOAD_REQUEST_H
#define BENCH_LOAD_REQUEST_H

#include "bench/load_client.h"
#include "bench/load_result.h"

struct load_request;                /* opaque */

struct load_request_owner {
    void (*on_chunks)(void *context, int64_t now_ns, size_t n_chunks);  /* with text, in one read */
    void (*on_done)(void *context, struct load_request *request);
    void *context;
};

struct load_request_start {
    struct load_client *client;
    struct load_request_head head;      /* borrowed for the call */
    const char *body;                   /* NULL: it could not be written; the start fails */
    size_t body_len;
    size_t index;
    int64_t due_ns;                     /* 0: now */
    int64_t asked_tokens, input_tokens;
    int64_t timeout_ns;                 /* > 0 */
    int64_t cancel_after_ns;            /* 0: not cancelled on purpose */
};

/* owner is copied.  NO_MEMORY, IO: no timer. */
MUST_CHECK enum status load_request_create(struct load_request **out, struct uv_loop_s *loop,
                                           const struct load_request_owner *owner, struct error *err);
void load_request_close(struct load_request *request);
void load_request_destroy(struct load_request *request);    /* NULL is allowed */

/* Failures of load_client_send; TOO_LARGE: no body.  The record then says
 * LOAD_OUTCOME_CLIENT. */
MUST_CHECK enum status load_request_start(struct load_request *request,
                                          const struct load_request_start *start, struct error *err);

/* Nothing happens if it is not under way. */
void load_request_give_up(struct load_request *request, enum load_outcome outcome);

/* Valid from on_done (or a failed start) to the next start. */
const struct load_record *load_request_record(const struct load_request *request);
const struct load_series *load_request_gaps(const struct load_request *request);   /* milliseconds */
const char *load_request_error(const struct load_request *request);                /* "" if none */
size_t load_request_n_events(const struct load_request *request);

#endif
