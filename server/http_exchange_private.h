/* http_exchange_private.h - what the connection and the router do with an exchange.
 *
 * Endpoints include http_exchange.h only.  A connection owns one exchange and
 * uses it for one request after the other:
 *
 *   create -> [ begin -> (handler replies) -> finish ]* -> destroy
 *
 * Owner: the loop thread.
 */
#ifndef SERVER_HTTP_EXCHANGE_PRIVATE_H
#define SERVER_HTTP_EXCHANGE_PRIVATE_H

#include "base/status.h"
#include "server/http_exchange.h"

struct http_conn;

#define HTTP_MAX_ID_BYTES 512

MUST_CHECK enum status http_exchange_create(struct http_exchange **out, struct http_conn *conn,
                                            struct error *err);
void http_exchange_destroy(struct http_exchange *ex);       /* NULL is allowed */

/* A request's head has arrived (or has been refused): fix the request id and the time. */
void http_exchange_begin(struct http_exchange *ex, int64_t arrival_ns);

int http_exchange_is_open(const struct http_exchange *ex);  /* begun and not finished */
int http_exchange_has_ended(const struct http_exchange *ex); /* the connection was given the whole reply */
int http_exchange_keeps_alive(const struct http_exchange *ex); /* the reply did not announce a close */

/* Bytes wait no more: call on_drain if it is due. */
void http_exchange_drained(struct http_exchange *ex);

/* The reply is delivered, or (is_aborted) the connection closed: on_close if it is due, the access
 * log, and ready for the next begin. */
void http_exchange_finish(struct http_exchange *ex, int is_aborted);

/* For the router: what stood for {id}, still percent-encoded, text[len].
 * BAD_REQUEST: malformed, too long, or it holds a control byte. */
MUST_CHECK enum status http_exchange_set_id(struct http_exchange *ex, const char *text, size_t len);

#endif
