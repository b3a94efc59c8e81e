/* load_server.h - which server is measured, and the few calls made before it is:
 * its model's name, its tokenizer, an empty prefix cache.
 *
 * Each call runs a libuv loop of its own until the reply is in, so nothing else
 * goes on meanwhile.  Owner: one thread.  Memory: the reply.
 */
#ifndef BENCH_LOAD_SERVER_H
#define BENCH_LOAD_SERVER_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct load_server {
    char host[256];             /* name or address, without brackets */
    int port;
    char base[256];             /* path before /v1 and /tokenize: "" or "/x", no slash at the end */
    const char *api_key;        /* NULL: none; borrowed */
};

/* "http://host:port", "http://host/prefix/v1", "host:8000", "[::1]:8000": the
 * port is 80 when missing; a /v1 at the end is dropped.
 * BAD_OPTION: https (no TLS here), or not a URL. */
MUST_CHECK enum status load_server_parse(struct load_server *out, const char *url, struct error *err);

struct load_call {
    const char *method;
    const char *path;           /* below base: "/v1/models" */
    const char *body;           /* NULL: none */
    int64_t timeout_ns;
};

/* One exchange; reply gets the body, *http_status its code, whatever it is.
 * IO: no connection, or it broke.  TIMED_OUT.  TOO_LARGE: past reply->max. */
MUST_CHECK enum status load_server_call(const struct load_server *server, const struct load_call *call,
                                        int *http_status, struct buf *reply, struct error *err);

/* The id of the first row of /v1/models.  IO as above; UNSUPPORTED: there is none. */
MUST_CHECK enum status load_server_model(const struct load_server *server, char *out, size_t max,
                                         struct error *err);

/* ids[max]: the tokens of text, without special ones; *n how many there are.
 * UNSUPPORTED: the server has no /tokenize, or it answers in a form of its own. */
MUST_CHECK enum status load_server_tokenize(const struct load_server *server, const char *model,
                                            const char *text, int64_t *ids, size_t max, size_t *n,
                                            struct error *err);

/* UNSUPPORTED: the server has no /reset_prefix_cache. */
MUST_CHECK enum status load_server_reset_cache(const struct load_server *server, struct error *err);

#endif
