/* http_wire.h - one client's socket, plain or TLS: bytes in, bytes out, nothing about HTTP.
 *
 *     socket --> [TLS] --> on_bytes          http_wire_send --> [TLS] --> http_out --> socket
 *
 * Owner:  the loop thread.
 * Memory: one allocation (and OpenSSL's), freed behind on_closed.  What is read lies in a scratch that all
 *         wires of a server share, so an idle wire has no read buffer.
 */
#ifndef SERVER_HTTP_WIRE_H
#define SERVER_HTTP_WIRE_H

#include "base/buf.h"

#include <uv.h>

#define HTTP_READ_BYTES (64 << 10)

/* Used within one call or callback, never across a return to the loop. */
struct http_scratch {
    char read_bytes[HTTP_READ_BYTES];       /* what the socket gave */
    char plain_bytes[HTTP_READ_BYTES];      /* what TLS made of it */
    struct buf gather;                      /* the small parts of a send, for one TLS record */
    struct buf cipher;                      /* what TLS made of a send */
};

struct http_wire;
struct http_tls_context;

struct http_wire_options {
    uv_loop_t *uv;
    int is_unix;
    struct http_tls_context *tls;           /* NULL: plain */
    struct http_scratch *scratch;
    size_t max_pending_bytes;

    /* All get context, from the loop.  Nothing comes after http_wire_close but on_closed. */
    void (*on_bytes)(void *context, const char *bytes, size_t n);
    void (*on_open)(void *context);         /* the TLS handshake is done */
    void (*on_end)(void *context);          /* the peer sends no more (may come twice) */
    void (*on_fault)(void *context);        /* the wire is broken: close it */
    void (*on_landed)(void *context);       /* some of what waited has been taken */
    void (*on_closed)(void *context);       /* the last call */
    void *context;
};

/* Ready to accept.  NO_MEMORY.  Ends with http_wire_close in any case. */
MUST_CHECK enum status http_wire_create(struct http_wire **out, const struct http_wire_options *options,
                                        struct error *err);

/* Take the listener's waiting connection and start reading.  IO: it has gone again. */
MUST_CHECK enum status http_wire_accept(struct http_wire *wire, uv_stream_t *listener);

/* Idempotent.  on_closed is called when the loop comes round, and wire freed. */
void http_wire_close(struct http_wire *wire);

/* Send the parts in one write; they may be reused on return.  A failure means: close. */
MUST_CHECK enum status http_wire_send(struct http_wire *wire, const uv_buf_t *parts, unsigned n_parts);
size_t http_wire_pending(const struct http_wire *wire);     /* bytes the kernel has not taken */

/* Shut the sending half down behind what was sent. */
MUST_CHECK enum status http_wire_shut(struct http_wire *wire);

/* Reading is on after accept.  Turned off, neither bytes nor the end are reported. */
MUST_CHECK enum status http_wire_set_reading(struct http_wire *wire, int on);
int http_wire_is_reading(const struct http_wire *wire);

/* Ask the kernel whether the peer has hung up, for a wire that is not read. */
int http_wire_has_hung_up(const struct http_wire *wire);

/* 1 if bytes wait and the peer has taken none of them for timeout_ns.  To be asked regularly: progress is
 * noticed by asking. */
int http_wire_is_stalled(struct http_wire *wire, int64_t now_ns, int64_t timeout_ns);

const char *http_wire_peer(const struct http_wire *wire);   /* "127.0.0.1:4711", "[::1]:4711", "unix" */

#endif
