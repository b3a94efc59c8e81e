/* http_out.h - the bytes on their way to one client.
 *
 *     http_out_send --try--> socket          nothing waits: one write, no copy
 *                   --rest-> [waiting] ----> [flying] --uv_write--> socket
 *                             grows           one write at a time
 *
 * While a write is in flight, what is sent is collected; when it lands, all that was
 * collected goes out as the next one.  So a client that keeps up gets one write per send,
 * and a slow one costs two buffers and no allocation per event.
 *
 * Owner:  the loop thread.
 * Memory: none while the client keeps up; waiting + flying never hold more than max_bytes.
 */
#ifndef SERVER_HTTP_OUT_H
#define SERVER_HTTP_OUT_H

#include "base/buf.h"

#include <uv.h>

struct http_out {
    uv_stream_t *stream;
    void (*on_landed)(void *context, int code);     /* 0: a write landed; < 0: libuv's reason */
    void *context;
    uv_write_t write;
    struct buf waiting;
    struct buf flying;              /* in use exactly while is_flying */
    int is_flying;
    size_t max_bytes;
};

/* on_landed is called from the loop, never from inside http_out_send; also once with UV_ECANCELED when the
 * stream is closed under a write. */
void http_out_init(struct http_out *out, uv_stream_t *stream, size_t max_bytes,
                   void (*on_landed)(void *context, int code), void *context);
void http_out_clear(struct http_out *out);      /* after the stream's close callback */

/* Send the parts one behind the other; they may be reused on return.
 * TOO_LARGE: the client is max_bytes behind.  IO: the peer is gone.  NO_MEMORY.  After a failure
 * the byte stream is broken: close it. */
MUST_CHECK enum status http_out_send(struct http_out *out, const uv_buf_t *parts, unsigned n_parts);

/* Bytes accepted and not yet taken by the kernel. */
size_t http_out_pending(const struct http_out *out);

#endif
