/* api_call.h - one HTTP call that waits for the engine: its requests out, their events back.
 *
 *   exchange ----+                        +---- request 0   (prompt 0)
 *                +-- call -- output       +---- request 1
 *   (or NULL) ---+      \-----------------+---- ..
 *
 * Lifetime
 *   1. An endpoint creates the call, gives it one request for each prompt, and submits it.
 *   2. From then on the call belongs to the api.  request->owner is the request's part of the call.
 *   3. The client may leave, or the reply may end with an error: exchange is then NULL, the requests are
 *      cancelled, and the call only waits for their last events.
 *   4. With the last event of its last request the call ends by itself.
 *
 * Back-pressure: a stream whose client does not read pauses its requests (they take no steps) until the
 * client has read on.
 *
 * Owner: the loop thread from api_call_submit on; before it whoever makes the call, on any thread.
 */
#ifndef SERVER_API_CALL_H
#define SERVER_API_CALL_H

#include "server/api_private.h"
#include "server/engine.h"

struct api_call;            /* opaque */
struct http_exchange;

/* How events become bytes.  state is given to destroy with the call. */
struct call_output {
    /* As reply_take and reply_finish. */
    enum status (*take)(void *state, int prompt, const struct engine_event *event, struct buf *out,
                        struct error *err);
    enum status (*finish)(void *state, struct buf *out, struct error *err);
    void (*destroy)(void *state);
};

struct api_call_options {
    struct api *api;
    const struct call_output *output;
    void *state;                    /* taken over if create succeeds */
    int n_requests;
    int n_choices;                  /* of each request */
    int is_stream;
};

/* NO_MEMORY: *out is untouched and the state still the caller's. */
MUST_CHECK enum status api_call_create(struct api_call **out, const struct api_call_options *options,
                                       struct error *err);

/* For a call that was not submitted; its requests too. */
void api_call_destroy(struct api_call *call);

/* Request number `prompt` of the call; taken over. */
void api_call_set_request(struct api_call *call, int prompt, struct request *request);

/* Every request is set: hand them to the engine, whose events become the reply of the exchange.  If it refuses
 * one, the others are cancelled and the client gets the error.  Either way the call is no longer the caller's. */
void api_call_submit(struct api_call *call, struct http_exchange *exchange);

/* One event; owner is its request's.  Ends the call if nothing is left to come. */
void api_call_take(void *owner, const struct engine_event *event, int64_t now_ns);

/* End the reply with an error; the call stays until its requests are back. */
void api_call_fail(struct api_call *call, const struct error *failure);

/* Send a comment if the stream has been silent for ping_ns. */
void api_call_ping(struct api_call *call, int64_t now_ns);

int api_call_has_client(const struct api_call *call);
struct api_call *api_call_next(const struct api_call *call);

#endif
