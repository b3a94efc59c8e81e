/* load_client.h - HTTP/1.1 exchanges with one server, over kept-alive sockets.
 *
 *   load_client --- idle connections   o o o          reused last in, first out
 *               \-- busy connections   o-exchange o-exchange
 *
 * One exchange is one request and its reply.  It takes an idle connection, or
 * opens one; nothing is pipelined, so an exchange never waits behind another.
 * A kept-alive connection that the server had closed meanwhile is replaced once,
 * silently, as long as no byte of a reply came.
 *
 * Rules
 *   1. an exchange belongs to its caller and stays where it is from
 *      load_client_send until on_end or load_client_cancel;
 *   2. on_end is called exactly once for each send that returned OK, never
 *      inside load_client_send, and not after load_client_cancel;
 *   3. inside on_end the exchange may be sent again;
 *   4. the client owns a copy of the request's bytes.
 *
 * Owner:   the thread that runs the libuv loop.
 * Memory:  per connection one parser and one buffer with the request.
 */
#ifndef BENCH_LOAD_CLIENT_H
#define BENCH_LOAD_CLIENT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct uv_loop_s;

struct load_client_options {
    struct uv_loop_s *loop;
    const char *host;               /* name or address; looked up once, at create */
    int port;
    const char *api_key;            /* NULL or "": no Authorization header */
};

enum load_end {
    LOAD_END_COMPLETE,              /* the whole reply came */
    LOAD_END_CONNECT,               /* no address of the host accepted a connection */
    LOAD_END_LOST,                  /* the connection broke before the reply was whole */
    LOAD_END_PROTOCOL               /* the bytes are not HTTP, or a limit was passed */
};

struct load_exchange_events {
    /* The head of the reply is in; now_ns is when the bytes were read. */
    void (*on_status)(void *context, int http_status, int64_t now_ns);
    void (*on_body)(void *context, const char *bytes, size_t n, int64_t now_ns);
    /* why is "" for COMPLETE, else one sentence, borrowed for the call. */
    void (*on_end)(void *context, enum load_end end, const char *why, int64_t now_ns);
};

struct load_exchange {
    /* set by the caller before load_client_send */
    const struct load_exchange_events *events;
    void *context;
    /* the client's */
    struct load_connection *connection;     /* NULL: not under way */
};

struct load_request_head {
    const char *method;             /* "POST" */
    const char *path;               /* "/v1/completions" */
    const char *accept;             /* "text/event-stream" */
};

struct load_client;                 /* opaque */

/* IO: the host has no address.  NO_MEMORY. */
MUST_CHECK enum status load_client_create(struct load_client **out, const struct load_client_options *options,
                                          struct error *err);

/* Abort every exchange without a callback and close all sockets.  The loop must
 * run until it is empty before load_client_destroy. */
void load_client_close(struct load_client *client);
void load_client_destroy(struct load_client *client);   /* NULL is allowed */

/* NO_MEMORY, IO: no socket could be made; on_end will not be called. */
MUST_CHECK enum status load_client_send(struct load_client *client, struct load_exchange *exchange,
                                        const struct load_request_head *head, const char *body,
                                        size_t body_len, struct error *err);

/* Close the exchange's connection, which is how a client gives up.  Allowed
 * inside on_status and on_body; nothing happens if it is not under way. */
void load_client_cancel(struct load_exchange *exchange);

/* Sockets opened so far; the rest of the exchanges found a kept-alive one. */
size_t load_client_n_connects(const struct load_client *client);

#endif
