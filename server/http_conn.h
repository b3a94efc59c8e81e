/* http_conn.h - one connection: reading, order, time, and leaving.
 *
 *                 +-------------------- READING <-----------------------+
 *                 | request refused        | request complete           | delivered, keep-alive
 *                 v                        v                            |
 *             (error reply)  --------->  BUSY ---------------------------+
 *                                          | delivered, close announced
 *                                          v
 *                                       LINGER --client closes, or linger_ns--> closed
 *
 * - Requests of one connection are answered in order, one at a time.  While one
 *   is BUSY the socket is still read, so that a client that leaves is seen; what it
 *   sends ahead is kept unparsed up to max_pipelined_bytes, then reading stops and
 *   the socket is only asked, at every tick, whether the peer has hung up.  (A hang-up that lies
 *   behind more bytes than the socket's buffer holds is seen once those are read.)
 * - LINGER: the sending half is shut down and what still comes is thrown away, so that the
 *   kernel does not answer unread bytes with a reset that would eat the last reply.
 * - Any end goes through http_conn_kill; the callbacks of the exchange are called from the
 *   close callback, never from inside a call an endpoint made.
 *
 * Owner:  the loop thread.
 * Memory: about 4 KiB, freed in the close callback.
 */
#ifndef SERVER_HTTP_CONN_H
#define SERVER_HTTP_CONN_H

#include "base/status.h"

#include <stdint.h>
#include <uv.h>

struct http_conn;
struct http_request;
struct http_server;
struct http_tls_context;

/* Take the listener's waiting connection.
 * NO_MEMORY: the socket is still the listener's and must be taken from it in another way. */
MUST_CHECK enum status http_conn_accept(struct http_conn **out, struct http_server *server,
                                        uv_stream_t *listener, int is_unix, struct http_tls_context *tls,
                                        struct error *err);

/* Answer with an error at once, whatever has come of the request, and close behind it. */
void http_conn_refuse(struct http_conn *conn, int status, const char *text, uint64_t limit);

/* Look at the clock. */
void http_conn_tick(struct http_conn *conn, int64_t now_ns);

/* Parse what was read ahead; called by the server's resume handle. */
void http_conn_resume(struct http_conn *conn);

/* Close now, whatever is in progress.  Idempotent; conn stays valid until the loop comes round. */
void http_conn_kill(struct http_conn *conn);

struct http_conn *http_conn_next(const struct http_conn *conn);     /* in the server's list */
int http_conn_is_idle(const struct http_conn *conn);                /* between two requests */
int64_t http_conn_idle_since_ns(const struct http_conn *conn);

/* ---- for the exchange ---- */

/* Send the parts in one write.  A failure kills the connection. */
void http_conn_send(struct http_conn *conn, const uv_buf_t *parts, unsigned n_parts);
size_t http_conn_pending(const struct http_conn *conn);

/* The exchange has given its whole reply. */
void http_conn_reply_ended(struct http_conn *conn);

int http_conn_is_open(const struct http_conn *conn);                /* not killed */
int http_conn_may_keep_alive(const struct http_conn *conn);         /* the request is whole and asks for it */
struct http_request *http_conn_request(const struct http_conn *conn);
struct http_server *http_conn_server(const struct http_conn *conn);
const char *http_conn_peer(const struct http_conn *conn);

#endif
