#include "server/http_wire.h"

#include "base/clock.h"
#include "server/http_out.h"
#include "server/http_tls.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* Up to this size the parts of a send become one TLS record. */
#define TLS_RECORD_BYTES (16 << 10)
/* Seconds after which TCP asks a silent peer whether it still exists. */
#define TCP_PROBE_SECONDS 60

struct http_wire {
    struct http_wire_options options;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    struct http_tls *tls;               /* NULL: plain */
    struct http_out out;
    uv_shutdown_t shutdown;
    int is_closing;
    int is_reading;
    int is_at_end;                      /* the socket gave its last byte */
    uint64_t queued_bytes;              /* handed to out so far */
    uint64_t landed_bytes;              /* of them taken by the kernel when last asked */
    int64_t landed_ns;                  /* when that last grew */
    char peer[64];
};

/* ---- sending --------------------------------------------------------------------- */

static void on_out_landed(void *context, int code)
{
    struct http_wire *wire = context;
    if (wire->is_closing)
        return;
    if (code < 0)
        wire->options.on_fault(wire->options.context);
    else
        wire->options.on_landed(wire->options.context);
}

static enum status send_raw(struct http_wire *wire, const uv_buf_t *parts, unsigned n_parts)
{
    for (unsigned i = 0; i < n_parts; i++)
        wire->queued_bytes += parts[i].len;
    return http_out_send(&wire->out, parts, n_parts);
}

/* Send what TLS has produced: replies, handshake messages, alerts. */
static enum status send_cipher(struct http_wire *wire)
{
    struct buf *cipher = &wire->options.scratch->cipher;
    buf_reset(cipher);
    enum status status = http_tls_take(wire->tls, cipher);
    if (status == STATUS_OK && cipher->len > 0) {
        uv_buf_t part = { .base = cipher->data, .len = cipher->len };
        status = send_raw(wire, &part, 1);
    }
    if (cipher->capacity > HTTP_READ_BYTES)
        buf_clear(cipher);
    return status;
}

static enum status encrypt(struct http_wire *wire, const uv_buf_t *parts, unsigned n_parts)
{
    struct buf *gather = &wire->options.scratch->gather;
    buf_reset(gather);
    for (unsigned i = 0; i < n_parts; i++) {
        if (parts[i].len > TLS_RECORD_BYTES - gather->len) {
            if (gather->len > 0)
                TRY(http_tls_write(wire->tls, gather->data, gather->len));
            buf_reset(gather);
        }
        if (parts[i].len > TLS_RECORD_BYTES)
            TRY(http_tls_write(wire->tls, parts[i].base, parts[i].len));
        else
            TRY(buf_add(gather, parts[i].base, parts[i].len));
    }
    return gather->len == 0 ? STATUS_OK : http_tls_write(wire->tls, gather->data, gather->len);
}

enum status http_wire_send(struct http_wire *wire, const uv_buf_t *parts, unsigned n_parts)
{
    if (wire->tls == NULL)
        return send_raw(wire, parts, n_parts);
    TRY(encrypt(wire, parts, n_parts));
    return send_cipher(wire);
}

size_t http_wire_pending(const struct http_wire *wire)
{
    return http_out_pending(&wire->out);
}

static void on_shutdown(uv_shutdown_t *shutdown, int code)
{
    struct http_wire *wire = shutdown->data;
    if (code < 0 && !wire->is_closing)
        wire->options.on_fault(wire->options.context);
}

enum status http_wire_shut(struct http_wire *wire)
{
    if (wire->tls != NULL) {
        http_tls_close(wire->tls);
        TRY(send_cipher(wire));
    }
    wire->shutdown.data = wire;
    return uv_shutdown(&wire->shutdown, &wire->io.stream, on_shutdown) == 0 ? STATUS_OK : STATUS_IO;
}

/* ---- reading ----------------------------------------------------------------------- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct http_wire *wire = handle->data;
    *buf = uv_buf_init(wire->options.scratch->read_bytes, HTTP_READ_BYTES);
}

/* Decrypt what came and pass it on, piece by piece. */
static void input_cipher(struct http_wire *wire, const char *bytes, size_t n)
{
    const struct http_wire_options *options = &wire->options;
    int was_open = http_tls_is_open(wire->tls);
    enum status status = http_tls_feed(wire->tls, bytes, n);
    size_t n_plain = 1;
    while (status == STATUS_OK && n_plain > 0 && !wire->is_closing) {
        char *plain = options->scratch->plain_bytes;
        status = http_tls_read(wire->tls, plain, sizeof options->scratch->plain_bytes, &n_plain);
        if (!was_open && http_tls_is_open(wire->tls)) {
            was_open = 1;
            options->on_open(options->context);
        }
        if (n_plain > 0)
            options->on_bytes(options->context, plain, n_plain);
    }
    if (wire->is_closing)
        return;
    if (send_cipher(wire) != STATUS_OK || (status != STATUS_OK && status != STATUS_CANCELLED))
        options->on_fault(options->context);
    else if (status == STATUS_CANCELLED)
        options->on_end(options->context);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct http_wire *wire = stream->data;
    if (n == UV_EOF) {
        wire->is_reading = 0;
        wire->is_at_end = 1;
        wire->options.on_end(wire->options.context);
    } else if (n < 0) {
        wire->options.on_fault(wire->options.context);
    } else if (n > 0 && wire->tls != NULL) {
        input_cipher(wire, buf->base, (size_t)n);
    } else if (n > 0) {
        wire->options.on_bytes(wire->options.context, buf->base, (size_t)n);
    }
}

enum status http_wire_set_reading(struct http_wire *wire, int on)
{
    if (on == wire->is_reading || wire->is_at_end)
        return STATUS_OK;
    wire->is_reading = on;
    if (!on)
        return uv_read_stop(&wire->io.stream) == 0 ? STATUS_OK : STATUS_IO;
    return uv_read_start(&wire->io.stream, on_alloc, on_read) == 0 ? STATUS_OK : STATUS_IO;
}

int http_wire_is_reading(const struct http_wire *wire)
{
    return wire->is_reading;
}

int http_wire_has_hung_up(const struct http_wire *wire)
{
    uv_os_fd_t fd;
    if (uv_fileno(&wire->io.handle, &fd) != 0)
        return 1;
    struct pollfd question = { .fd = fd, .events = POLLRDHUP };
    return poll(&question, 1, 0) > 0 && (question.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

int http_wire_is_stalled(struct http_wire *wire, int64_t now_ns, int64_t timeout_ns)
{
    size_t pending = http_out_pending(&wire->out);
    uint64_t landed = wire->queued_bytes - pending;
    if (pending == 0 || landed > wire->landed_bytes) {
        wire->landed_bytes = landed;
        wire->landed_ns = now_ns;
        return 0;
    }
    return now_ns - wire->landed_ns > timeout_ns;
}

/* ---- beginning and end ----------------------------------------------------------------- */

enum status http_wire_create(struct http_wire **out, const struct http_wire_options *options,
                             struct error *err)
{
    struct http_wire *wire = calloc(1, sizeof *wire);
    if (wire == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a connection");
    wire->options = *options;
    if (options->tls != NULL) {
        enum status status = http_tls_create(&wire->tls, options->tls, err);
        if (status != STATUS_OK) {
            free(wire);
            return status;
        }
    }
    if (options->is_unix)
        uv_pipe_init(options->uv, &wire->io.pipe, 0);
    else
        uv_tcp_init(options->uv, &wire->io.tcp);
    wire->io.handle.data = wire;
    http_out_init(&wire->out, &wire->io.stream, options->max_pending_bytes, on_out_landed, wire);
    snprintf(wire->peer, sizeof wire->peer, "%s", options->is_unix ? "unix" : "unknown");
    *out = wire;
    return STATUS_OK;
}

static void name_peer(struct http_wire *wire)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    int size = sizeof address;
    char host[46] = "";
    if (uv_tcp_getpeername(&wire->io.tcp, &address.any, &size) != 0)
        return;
    if (address.any.sa_family == AF_INET6) {
        uv_ip6_name(&address.v6, host, sizeof host);
        snprintf(wire->peer, sizeof wire->peer, "[%s]:%d", host, ntohs(address.v6.sin6_port));
    } else {
        uv_ip4_name(&address.v4, host, sizeof host);
        snprintf(wire->peer, sizeof wire->peer, "%s:%d", host, ntohs(address.v4.sin_port));
    }
}

enum status http_wire_accept(struct http_wire *wire, uv_stream_t *listener)
{
    if (uv_accept(listener, &wire->io.stream) != 0)
        return STATUS_IO;
    if (!wire->options.is_unix) {
        uv_tcp_nodelay(&wire->io.tcp, 1);
        uv_tcp_keepalive(&wire->io.tcp, 1, TCP_PROBE_SECONDS);
        name_peer(wire);
    }
    wire->landed_ns = clock_now_ns();
    return http_wire_set_reading(wire, 1);
}

static void on_closed(uv_handle_t *handle)
{
    struct http_wire *wire = handle->data;
    wire->options.on_closed(wire->options.context);
    http_tls_destroy(wire->tls);
    http_out_clear(&wire->out);
    free(wire);
}

void http_wire_close(struct http_wire *wire)
{
    if (wire->is_closing)
        return;
    wire->is_closing = 1;
    uv_close(&wire->io.handle, on_closed);
}

const char *http_wire_peer(const struct http_wire *wire)
{
    return wire->peer;
}
