/* http_server.h - listeners, connections, and what they have in common.
 *
 * A server hangs on a loop and calls one handler for every request; router.h
 * is such a handler.  It knows nothing of models or endpoints.
 *
 *   loop_create -> http_server_create -> http_server_listen .. -> loop_run
 *   drain: http_server_stop_accepting, http_server_close_idle, wait until
 *          http_server_connection_count is 0 or patience ends -> http_server_destroy -> loop_destroy
 *
 * Owner:  the loop thread; create and listen before loop_run may be called by the thread that will run it.
 * Memory: a connection is about 4 KiB when idle; nothing is kept per closed connection.
 */
#ifndef SERVER_HTTP_SERVER_H
#define SERVER_HTTP_SERVER_H

#include "base/status.h"
#include "server/http_limits.h"

struct http_server;
struct http_exchange;
struct http_tls_context;
struct loop;

/* One finished exchange, for the access log and the metrics.  Texts are borrowed for the call. */
struct http_access {
    const char *method;         /* "" if the request line could not be read */
    const char *path;           /* with query; what is not printable ASCII is \xNN; cut at 256 bytes */
    const char *request_id;
    const char *peer;
    int status;                 /* 0: the client left before the reply began */
    int is_aborted;             /* the client left before the reply was delivered */
    uint64_t received_bytes;    /* of the body */
    uint64_t sent_bytes;        /* of the reply, head included, before TLS */
    int64_t first_byte_ns;      /* from the first byte of the request to the head of the reply; 0: no reply */
    int64_t duration_ns;        /* from the first byte of the request to the end of the exchange */
};

struct http_server_options {
    struct loop *loop;
    struct http_limits limits;
    const char *cors_origin;    /* Access-Control-Allow-Origin of every reply; NULL: none */

    /* Both get `context`.  handle: the whole request has come; see http_exchange.h.
     * admit (may be NULL): the head has come and a body will follow.  1: read on.  0: it has replied, and
     * the body is not read.  Never keep ex from it. */
    void (*handle)(void *context, struct http_exchange *ex);
    int (*admit)(void *context, struct http_exchange *ex);
    void *context;

    void (*log)(void *log_context, const struct http_access *access);      /* may be NULL */
    void *log_context;
};

/* NO_MEMORY, IO (no random numbers): *out is left untouched.  The options are copied; cors_origin and the
 * contexts must outlive the server. */
MUST_CHECK enum status http_server_create(struct http_server **out, const struct http_server_options *options,
                                          struct error *err);

/* Closes what is open (on_close is called for every exchange in progress), runs the loop until its handles
 * are gone, frees.  Call after loop_run has returned.  NULL is allowed. */
void http_server_destroy(struct http_server *server);

struct http_address {
    const char *host;           /* name or number.  NULL, "", "*", "::", "[::]": every address, v4 and v6;
                                 * "localhost": 127.0.0.1 and ::1; "0.0.0.0": v4 only */
    int port;                   /* 0: any free one, see http_server_port */
    const char *unix_path;      /* not NULL: a unix socket there, host and port are ignored */
    struct http_tls_context *tls;       /* NULL: plain; must outlive the server */
};

/* May be called several times.  A stale unix socket (nobody answers) is replaced.
 * IO: cannot listen there; the sentence has address and reason.  BAD_OPTION: the path is too long. */
MUST_CHECK enum status http_server_listen(struct http_server *server, const struct http_address *address,
                                          struct error *err);

/* The TCP port of the first TCP listener, or 0. */
int http_server_port(const struct http_server *server);

/* No new connections; every reply from now on announces "Connection: close". */
void http_server_stop_accepting(struct http_server *server);

/* Close the connections that are between two requests. */
void http_server_close_idle(struct http_server *server);

/* All connections, idle ones included. */
size_t http_server_connection_count(const struct http_server *server);

/* Exchanges whose reply is not delivered yet. */
size_t http_server_exchange_count(const struct http_server *server);

#endif
