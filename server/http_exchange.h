/* http_exchange.h - one request and its reply: what an endpoint works with.
 *
 *   static void handle_health(void *context, struct http_exchange *ex)
 *   {
 *       http_reply(ex, 200, HTTP_JSON, "{}", 2);
 *   }
 *
 * A handler is called on the loop thread when the whole request has arrived.  It
 * replies in one of two ways, at once or later:
 *
 *   fixed:    [http_reply_header ..] http_reply
 *   streamed: [http_reply_header ..] http_stream_begin, http_stream_write .., http_stream_end
 *
 * Lifetime
 *   1. ex is valid from the handler's call until the reply has ended: until http_reply or
 *      http_stream_end is called, or on_close has been called.  It must not be touched after that
 *      (the connection uses it again for the next request).
 *   2. Whoever keeps ex after the handler has returned registers http_on_close first.
 *   3. If the client goes away before the reply has ended, on_close is called exactly once, from the
 *      loop, never from inside a call made here.  Until then every call is allowed and does nothing.
 *      If the reply ends first, on_close is not called.
 *   4. Every exchange ends: reply, or end the stream, whatever goes wrong.
 *   5. Texts got from ex live as long as ex.
 *   6. Everything here is called on the loop thread only.
 *
 * When a client has gone away: a reset or a failed write, of course; and the end of
 * its bytes (FIN) while the reply has not ended.  A client that closes and one that only
 * shuts down its sending half look the same, and work for a client that left costs others
 * their turn, so the first is assumed, as other servers do.  A reply that has ended is still
 * delivered in full to a client that has shut down its sending half.
 *
 * Back-pressure: what the client does not take is kept.  Above high_water_bytes
 * (http_limits.h) the endpoint should pause; on_drain is called when the rest is back at or
 * under low_water_bytes.  Past max_pending_bytes, or when the client takes nothing
 * for stall_timeout_ns, the connection is dropped, and on_close is called.
 *
 * Memory: a reply's bytes are written or copied before the call returns.  Streaming allocates nothing while
 * the client keeps up.
 */
#ifndef SERVER_HTTP_EXCHANGE_H
#define SERVER_HTTP_EXCHANGE_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

#define HTTP_JSON "application/json"
#define HTTP_EVENTS "text/event-stream"
#define HTTP_TEXT "text/plain; charset=utf-8"

struct http_exchange;

/* ---- the request ------------------------------------------------------------ */

const char *http_exchange_method(const struct http_exchange *ex);       /* "GET" */
const char *http_exchange_path(const struct http_exchange *ex);         /* "/v1/models", as sent */

/* The parameter's value, percent-decoded, into out[max] and terminated; its length, or -1 if it is
 * missing, malformed, or longer than max - 1.  Control bytes may be in it. */
int http_exchange_query(const struct http_exchange *ex, const char *name, char *out, size_t max);

/* The first header of that name in any case, or NULL. */
const char *http_exchange_header(const struct http_exchange *ex, const char *name);

/* The decoded body; "" if there is none.  May hold NUL bytes; one NUL stands behind it. */
const char *http_exchange_body(const struct http_exchange *ex);
size_t http_exchange_body_bytes(const struct http_exchange *ex);

/* The body becomes the caller's, who clears *out, and outlives the exchange: an exception to rule 5.  From
 * then on the exchange's body is "", but the number of its bytes stays. */
void http_exchange_take_body(struct http_exchange *ex, struct buf *out);

/* What stood for {id} in the route's pattern, percent-decoded; "" if the route has none. */
const char *http_exchange_id(const struct http_exchange *ex);

/* The client's x-request-id if it is 1..128 letters, digits or ._:- ; else one made here.
 * Every reply carries it. */
const char *http_exchange_request_id(const struct http_exchange *ex);

const char *http_exchange_peer(const struct http_exchange *ex);         /* "127.0.0.1:4711", "unix" */
int64_t http_exchange_arrival_ns(const struct http_exchange *ex);       /* clock_now_ns() of the first byte */

/* ---- the reply ----------------------------------------------------------------- */

/* One more header of the reply to come.  Control bytes become spaces.  At most some 8 KiB in all; what
 * does not fit is left out. */
void http_reply_header(struct http_exchange *ex, const char *name, const char *value);

/* The whole reply: head, Content-Length, body[len].  content_type may be NULL if len is 0.
 * To a HEAD request only the head goes out; 204 and 304 have no body.
 * A body longer than max_pending_bytes becomes a 500 that says so. */
void http_reply(struct http_exchange *ex, int status, const char *content_type, const void *body, size_t len);

/* Send the head of a 200 whose length is not known: chunked in HTTP/1.1, ended by closing in HTTP/1.0.
 * HTTP_EVENTS adds Cache-Control: no-cache and X-Accel-Buffering: no.
 * To a HEAD request only the head goes out; the writes that follow are dropped. */
void http_stream_begin(struct http_exchange *ex, const char *content_type);

/* One chunk, and one write to the socket unless earlier bytes still wait.  len = 0 does nothing. */
void http_stream_write(struct http_exchange *ex, const void *bytes, size_t len);
void http_stream_end(struct http_exchange *ex);

/* 1 once http_stream_begin was called: from then on an error can only be told inside the stream. */
int http_stream_has_begun(const struct http_exchange *ex);

/* Reply bytes that the client has not taken yet. */
size_t http_pending_bytes(const struct http_exchange *ex);

/* on_close: rule 3.  on_drain: see back-pressure.  A second registration replaces the first. */
void http_on_close(struct http_exchange *ex, void (*on_close)(void *context), void *context);
void http_on_drain(struct http_exchange *ex, void (*on_drain)(void *context), void *context);

#endif
