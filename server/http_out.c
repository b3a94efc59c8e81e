#include "server/http_out.h"

#include <assert.h>

/* Buffers up to this size are kept when a client has caught up. */
#define KEPT_BYTES 4096
#define MAX_PARTS 8

void http_out_init(struct http_out *out, uv_stream_t *stream, size_t max_bytes,
                   void (*on_landed)(void *context, int code), void *context)
{
    *out = (struct http_out){ .stream = stream, .on_landed = on_landed, .context = context,
                              .max_bytes = max_bytes };
    out->write.data = out;
    buf_init(&out->waiting, max_bytes);
    buf_init(&out->flying, max_bytes);
}

void http_out_clear(struct http_out *out)
{
    buf_clear(&out->waiting);
    buf_clear(&out->flying);
}

static void on_written(uv_write_t *write, int code);

/* Send off what waits, if nothing is on its way. */
static int take_off(struct http_out *out)
{
    if (out->is_flying || out->waiting.len == 0)
        return 0;
    struct buf empty = out->flying;
    out->flying = out->waiting;
    out->waiting = empty;
    uv_buf_t part = uv_buf_init(out->flying.data, (unsigned)out->flying.len);
    int code = uv_write(&out->write, out->stream, &part, 1, on_written);
    out->is_flying = code == 0;
    return code;
}

static void drop_flying(struct http_out *out)
{
    out->is_flying = 0;
    if (out->flying.capacity > KEPT_BYTES)
        buf_clear(&out->flying);
    else
        buf_reset(&out->flying);
}

static void on_written(uv_write_t *write, int code)
{
    struct http_out *out = write->data;
    drop_flying(out);
    if (code == 0)
        code = take_off(out);
    out->on_landed(out->context, code);
}

/* Keep what the kernel did not take: all parts but the first `sent` bytes. */
static enum status keep_rest(struct http_out *out, const uv_buf_t *parts, unsigned n_parts, size_t sent)
{
    for (unsigned i = 0; i < n_parts; i++) {
        size_t skip = sent < parts[i].len ? sent : parts[i].len;
        sent -= skip;
        TRY(buf_add(&out->waiting, parts[i].base + skip, parts[i].len - skip));
    }
    return STATUS_OK;
}

enum status http_out_send(struct http_out *out, const uv_buf_t *parts, unsigned n_parts)
{
    assert(n_parts <= MAX_PARTS);
    size_t total = 0;
    for (unsigned i = 0; i < n_parts; i++)
        total += parts[i].len;
    size_t pending = http_out_pending(out);
    if (pending > out->max_bytes || total > out->max_bytes - pending)
        return STATUS_TOO_LARGE;

    size_t sent = 0;
    if (pending == 0) {
        int n = uv_try_write(out->stream, parts, n_parts);
        if (n < 0 && n != UV_EAGAIN)
            return STATUS_IO;
        sent = n < 0 ? 0 : (size_t)n;
        if (sent == total)
            return STATUS_OK;
    }
    TRY(keep_rest(out, parts, n_parts, sent));
    return take_off(out) == 0 ? STATUS_OK : STATUS_IO;
}

size_t http_out_pending(const struct http_out *out)
{
    /* libuv counts down while a large write goes out in pieces. */
    size_t flying = out->is_flying ? uv_stream_get_write_queue_size(out->stream) : 0;
    return out->waiting.len + flying;
}
