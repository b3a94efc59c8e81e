/* http_listen.h - the sockets on which one address is listened to.
 *
 * One address can be several sockets: "localhost" is 127.0.0.1 and [::1], and
 * "every address" is 0.0.0.0 and [::], because clients try either first.  Where the
 * machine has no IPv6, the IPv4 socket alone is enough.
 *
 * Owner:  the loop thread.
 * Memory: one allocation, freed behind on_closed.
 */
#ifndef SERVER_HTTP_LISTEN_H
#define SERVER_HTTP_LISTEN_H

#include "base/status.h"
#include "server/http_server.h"

#include <uv.h>

struct http_listen;

struct http_listen_options {
    uv_loop_t *uv;
    struct http_address address;        /* as in http_server.h; texts are not kept */

    /* From the loop.  on_connection: one connection waits on stream and must be accepted. */
    void (*on_connection)(void *context, struct http_listen *listen, uv_stream_t *stream);
    void (*on_closed)(void *context);   /* the last call */
    void *context;
};

/* IO, BAD_OPTION: see http_server_listen.  NO_MEMORY.  On failure nothing is left but handles that
 * close with the loop's next round. */
MUST_CHECK enum status http_listen_open(struct http_listen **out, const struct http_listen_options *options,
                                        struct error *err);

/* Stop listening; a unix socket is removed.  on_closed follows from the loop, then it is freed. */
void http_listen_close(struct http_listen *listen);

int http_listen_port(const struct http_listen *listen);             /* 0: a unix socket */
int http_listen_is_unix(const struct http_listen *listen);
struct http_tls_context *http_listen_tls(const struct http_listen *listen);

#endif
