/* http_server_private.h - what the connections of one server share.
 *
 * Read and written by http_server.c, http_conn.c and http_exchange.c, all on
 * the loop thread.  Nobody else includes this.
 */
#ifndef SERVER_HTTP_SERVER_PRIVATE_H
#define SERVER_HTTP_SERVER_PRIVATE_H

#include "base/buf.h"
#include "base/rng.h"
#include "server/http_server.h"
#include "server/http_wire.h"

#include <uv.h>

#define HTTP_MAX_LISTENERS 16

struct http_conn;
struct http_listen;

struct http_server {
    /* Fixed at create. */
    struct http_server_options options;
    uv_loop_t *uv;
    uint64_t tick_ms;               /* how often deadlines are looked at */
    void (*on_resume)(uv_idle_t *resume);

    struct http_conn *first_conn;   /* a list, newest first */
    size_t n_conns;
    size_t n_exchanges;
    size_t body_bytes;              /* held by all requests */
    int is_draining;

    struct http_listen *listeners[HTTP_MAX_LISTENERS];
    size_t n_listeners;             /* while draining: how many are still closing */

    uv_timer_t tick;                /* stops itself when there are no connections */
    uv_idle_t resume;               /* runs while a connection has read-ahead bytes to parse */
    size_t n_resumes;               /* how many those are */
    size_t n_own_open;              /* the two handles above and dropped sockets that still close */

    struct rng rng;                 /* request ids */

    struct http_scratch scratch;
    struct buf head;                /* the head of a reply, within one call */
};

#endif
