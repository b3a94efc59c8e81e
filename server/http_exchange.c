#include "server/http_exchange_private.h"

#include "base/clock.h"
#include "server/http_conn.h"
#include "server/http_query.h"
#include "server/http_request.h"
#include "server/http_server_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_REQUEST_ID_BYTES 128
#define MAX_EXTRA_HEADER_BYTES 8192
#define MAX_LOGGED_PATH_BYTES 256

/* How the reply is framed. */
enum framing { FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_CLOSE };

struct http_exchange {
    struct http_conn *conn;             /* fixed at create */
    char request_id[MAX_REQUEST_ID_BYTES + 1];
    char id[HTTP_MAX_ID_BYTES + 1];
    struct buf extra;                   /* header lines of the reply to come */

    int is_open;                        /* begun and not finished */
    int has_head;                       /* the reply's head was given */
    int has_ended;                      /* the whole reply was given */
    int is_head_request;
    int keeps_alive;
    int was_above_high;                 /* on_drain is due when the rest is low */
    int status;
    enum framing framing;
    uint64_t sent_bytes;
    int64_t arrival_ns, first_byte_ns;

    void (*on_close)(void *context);
    void *close_context;
    void (*on_drain)(void *context);
    void *drain_context;
};

/* ---- life ---------------------------------------------------------------------- */

enum status http_exchange_create(struct http_exchange **out, struct http_conn *conn, struct error *err)
{
    struct http_exchange *ex = calloc(1, sizeof *ex);
    if (ex == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for an exchange");
    ex->conn = conn;
    buf_init(&ex->extra, MAX_EXTRA_HEADER_BYTES);
    *out = ex;
    return STATUS_OK;
}

void http_exchange_destroy(struct http_exchange *ex)
{
    if (ex == NULL)
        return;
    buf_clear(&ex->extra);
    free(ex);
}

/* The client's id if it can stand in a header and a log line as it is. */
static int is_sane_id(const char *id)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
    size_t len = strspn(id, allowed);
    return len > 0 && len <= MAX_REQUEST_ID_BYTES && id[len] == '\0';
}

void http_exchange_begin(struct http_exchange *ex, int64_t arrival_ns)
{
    struct http_server *server = http_conn_server(ex->conn);
    const char *sent = http_request_header(http_conn_request(ex->conn), "x-request-id");
    if (sent != NULL && is_sane_id(sent))
        snprintf(ex->request_id, sizeof ex->request_id, "%s", sent);
    else
        snprintf(ex->request_id, sizeof ex->request_id, "%016" PRIx64 "%016" PRIx64, rng_next(&server->rng),
                 rng_next(&server->rng));
    ex->is_head_request = strcmp(http_exchange_method(ex), "HEAD") == 0;
    ex->arrival_ns = arrival_ns;
    ex->is_open = 1;
    server->n_exchanges++;
}

int http_exchange_is_open(const struct http_exchange *ex)
{
    return ex->is_open;
}

int http_exchange_has_ended(const struct http_exchange *ex)
{
    return ex->has_ended;
}

int http_exchange_keeps_alive(const struct http_exchange *ex)
{
    return ex->keeps_alive;
}

void http_exchange_drained(struct http_exchange *ex)
{
    size_t low = http_conn_server(ex->conn)->options.limits.low_water_bytes;
    if (!ex->was_above_high || http_conn_pending(ex->conn) > low)
        return;
    ex->was_above_high = 0;
    if (ex->on_drain != NULL)
        ex->on_drain(ex->drain_context);
}

/* Path and query in printable ASCII, so that a log line stays one line. */
static void escape_target(const struct http_exchange *ex, char *out, size_t max)
{
    const struct http_request *request = http_conn_request(ex->conn);
    const char *query = http_request_query(request);
    const char *parts[] = { http_request_path(request), *query == '\0' ? "" : "?", query };
    size_t n = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (const char *c = parts[i]; *c != '\0' && n + 5 <= max; c++) {
            if (*c > 0x20 && *c < 0x7f && *c != '"' && *c != '\\')
                out[n++] = *c;
            else
                n += (size_t)snprintf(out + n, max - n, "\\x%02x", (unsigned char)*c);
        }
    out[n] = '\0';
}

static void log_access(const struct http_exchange *ex, int is_aborted)
{
    const struct http_server_options *options = &http_conn_server(ex->conn)->options;
    if (options->log == NULL)
        return;
    char path[MAX_LOGGED_PATH_BYTES + 1];
    escape_target(ex, path, sizeof path);
    struct http_access access = {
        .method = http_exchange_method(ex),
        .path = path,
        .request_id = ex->request_id,
        .peer = http_exchange_peer(ex),
        .status = ex->status,
        .is_aborted = is_aborted,
        .received_bytes = http_exchange_body_bytes(ex),
        .sent_bytes = ex->sent_bytes,
        .first_byte_ns = ex->first_byte_ns,
        .duration_ns = clock_now_ns() - ex->arrival_ns,
    };
    options->log(options->log_context, &access);
}

void http_exchange_finish(struct http_exchange *ex, int is_aborted)
{
    if (is_aborted && !ex->has_ended && ex->on_close != NULL)
        ex->on_close(ex->close_context);
    log_access(ex, is_aborted);
    http_conn_server(ex->conn)->n_exchanges--;
    struct http_exchange next = { .conn = ex->conn, .extra = ex->extra };
    buf_reset(&next.extra);
    *ex = next;
}

/* ---- the request ---------------------------------------------------------------- */

const char *http_exchange_method(const struct http_exchange *ex)
{
    return http_request_method(http_conn_request(ex->conn));
}

const char *http_exchange_path(const struct http_exchange *ex)
{
    return http_request_path(http_conn_request(ex->conn));
}

int http_exchange_query(const struct http_exchange *ex, const char *name, char *out, size_t max)
{
    return http_query_find(http_request_query(http_conn_request(ex->conn)), name, out, max);
}

const char *http_exchange_header(const struct http_exchange *ex, const char *name)
{
    return http_request_header(http_conn_request(ex->conn), name);
}

const char *http_exchange_body(const struct http_exchange *ex)
{
    const char *body = http_request_body(http_conn_request(ex->conn));
    return body == NULL ? "" : body;
}

size_t http_exchange_body_bytes(const struct http_exchange *ex)
{
    return http_request_body_bytes(http_conn_request(ex->conn));
}

void http_exchange_take_body(struct http_exchange *ex, struct buf *out)
{
    http_request_take_body(http_conn_request(ex->conn), out);
}

const char *http_exchange_id(const struct http_exchange *ex)
{
    return ex->id;
}

enum status http_exchange_set_id(struct http_exchange *ex, const char *text, size_t len)
{
    int n = http_query_decode(text, len, 0, ex->id, sizeof ex->id);
    for (int i = 0; i < n; i++)
        if ((unsigned char)ex->id[i] < 0x20 || ex->id[i] == 0x7f)
            n = -1;
    if (n < 0)
        ex->id[0] = '\0';
    return n < 0 ? STATUS_BAD_REQUEST : STATUS_OK;
}

const char *http_exchange_request_id(const struct http_exchange *ex)
{
    return ex->request_id;
}

const char *http_exchange_peer(const struct http_exchange *ex)
{
    return http_conn_peer(ex->conn);
}

int64_t http_exchange_arrival_ns(const struct http_exchange *ex)
{
    return ex->arrival_ns;
}

/* ---- the head of a reply ----------------------------------------------------------- */

static const char *reason_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } rows[] = {
        { 200, "OK" }, { 201, "Created" }, { 202, "Accepted" }, { 204, "No Content" },
        { 304, "Not Modified" }, { 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" },
        { 404, "Not Found" }, { 405, "Method Not Allowed" }, { 408, "Request Timeout" }, { 409, "Conflict" },
        { 413, "Content Too Large" }, { 415, "Unsupported Media Type" }, { 417, "Expectation Failed" },
        { 422, "Unprocessable Content" }, { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" }, { 499, "Client Closed Request" },
        { 500, "Internal Server Error" }, { 501, "Not Implemented" }, { 503, "Service Unavailable" },
        { 505, "HTTP Version Not Supported" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status)
            return rows[i].phrase;
    return "Status";
}

void http_reply_header(struct http_exchange *ex, const char *name, const char *value)
{
    size_t start = ex->extra.len;
    enum status status = buf_add_text(&ex->extra, name);
    if (status == STATUS_OK)
        status = buf_add_text(&ex->extra, ": ");
    if (status == STATUS_OK)
        status = buf_add_text(&ex->extra, value);
    for (size_t i = start; i < ex->extra.len; i++)
        if ((unsigned char)ex->extra.data[i] < 0x20 || ex->extra.data[i] == 0x7f)
            ex->extra.data[i] = ' ';
    if (status == STATUS_OK)
        status = buf_add_text(&ex->extra, "\r\n");
    if (status != STATUS_OK)
        ex->extra.len = start;
}

static enum status add_header(struct buf *head, const char *name, const char *value)
{
    TRY(buf_add_text(head, name));
    TRY(buf_add_text(head, value));
    return buf_add(head, "\r\n", 2);
}

static enum status add_framing(const struct http_exchange *ex, struct buf *head, size_t len)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", len);
    if (ex->framing == FRAMING_CHUNKED)
        TRY(add_header(head, "Transfer-Encoding: ", "chunked"));
    if (ex->framing == FRAMING_LENGTH && ex->status != 204 && ex->status != 304)
        TRY(add_header(head, "Content-Length: ", number));
    if (!ex->keeps_alive)
        return add_header(head, "Connection: ", "close");
    if (http_request_minor(http_conn_request(ex->conn)) == 0)
        return add_header(head, "Connection: ", "keep-alive");
    return STATUS_OK;
}

static enum status compose_head(const struct http_exchange *ex, struct buf *head, const char *content_type,
                                size_t len)
{
    const char *cors_origin = http_conn_server(ex->conn)->options.cors_origin;
    char code[8];
    snprintf(code, sizeof code, "%d ", ex->status);
    buf_reset(head);
    TRY(buf_add_text(head, "HTTP/1.1 "));
    TRY(add_header(head, code, reason_phrase(ex->status)));
    if (content_type != NULL)
        TRY(add_header(head, "Content-Type: ", content_type));
    if (content_type != NULL && strcmp(content_type, HTTP_EVENTS) == 0)
        TRY(buf_add_text(head, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"));
    TRY(add_framing(ex, head, len));
    TRY(add_header(head, "x-request-id: ", ex->request_id));
    if (cors_origin != NULL) {
        TRY(add_header(head, "Access-Control-Allow-Origin: ", cors_origin));
        TRY(buf_add_text(head, "Access-Control-Expose-Headers: x-request-id\r\n"));
    }
    if (ex->extra.len > 0)
        TRY(buf_add(head, ex->extra.data, ex->extra.len));
    return buf_add(head, "\r\n", 2);
}

static void send_parts(struct http_exchange *ex, const uv_buf_t *parts, unsigned n_parts)
{
    for (unsigned i = 0; i < n_parts; i++)
        ex->sent_bytes += parts[i].len;
    http_conn_send(ex->conn, parts, n_parts);
    const struct http_limits *limits = &http_conn_server(ex->conn)->options.limits;
    if (http_conn_pending(ex->conn) > limits->high_water_bytes)
        ex->was_above_high = 1;
}

/* libuv's parts are not const, but it does not write to them. */
static uv_buf_t part_of(const void *bytes, size_t len)
{
    union {
        const void *in;
        char *out;
    } pointer = { .in = bytes };
    return (uv_buf_t){ .base = pointer.out, .len = len };
}

/* Give the head, and with it body[len] in the same write. */
static void send_head(struct http_exchange *ex, const char *content_type, const void *body, size_t len)
{
    struct buf *head = &http_conn_server(ex->conn)->head;
    ex->has_head = 1;
    ex->first_byte_ns = clock_now_ns() - ex->arrival_ns;
    if (!http_conn_is_open(ex->conn))
        return;
    if (compose_head(ex, head, content_type, len) != STATUS_OK) {
        http_conn_kill(ex->conn);
        return;
    }
    int has_body = len > 0 && !ex->is_head_request && ex->status != 204 && ex->status != 304;
    uv_buf_t parts[2] = { part_of(head->data, head->len), part_of(body, len) };
    send_parts(ex, parts, has_body ? 2 : 1);
}

static void end_reply(struct http_exchange *ex)
{
    ex->has_ended = 1;
    http_conn_reply_ended(ex->conn);
}

/* ---- replies -------------------------------------------------------------------------- */

void http_reply(struct http_exchange *ex, int status, const char *content_type, const void *body, size_t len)
{
    assert(ex->is_open && !ex->has_head && "one reply for one exchange");
    static const char too_long[] = "{\"error\":{\"message\":\"the reply is longer than max_pending_bytes\","
                                   "\"type\":\"server_error\",\"param\":null,\"code\":null}}";
    const struct http_limits *limits = &http_conn_server(ex->conn)->options.limits;
    if (len > limits->max_pending_bytes - limits->max_pending_bytes / 64) {
        status = 500;
        content_type = HTTP_JSON;
        body = too_long;
        len = sizeof too_long - 1;
    }
    ex->status = status;
    ex->framing = FRAMING_LENGTH;
    ex->keeps_alive = http_conn_may_keep_alive(ex->conn);
    send_head(ex, content_type, body, len);
    end_reply(ex);
}

void http_stream_begin(struct http_exchange *ex, const char *content_type)
{
    assert(ex->is_open && !ex->has_head && "one reply for one exchange");
    int is_old = http_request_minor(http_conn_request(ex->conn)) == 0;
    ex->status = 200;
    ex->framing = is_old ? FRAMING_CLOSE : FRAMING_CHUNKED;
    ex->keeps_alive = !is_old && http_conn_may_keep_alive(ex->conn);
    send_head(ex, content_type, NULL, 0);
}

void http_stream_write(struct http_exchange *ex, const void *bytes, size_t len)
{
    assert(ex->has_head && !ex->has_ended && "a write needs an open stream");
    if (len == 0 || ex->is_head_request || !http_conn_is_open(ex->conn))
        return;
    if (ex->framing == FRAMING_CLOSE) {
        uv_buf_t part = part_of(bytes, len);
        send_parts(ex, &part, 1);
        return;
    }
    char size[20];
    int n = snprintf(size, sizeof size, "%zx\r\n", len);
    uv_buf_t parts[3] = { part_of(size, (size_t)n), part_of(bytes, len), part_of("\r\n", 2) };
    send_parts(ex, parts, 3);
}

void http_stream_end(struct http_exchange *ex)
{
    assert(ex->has_head && !ex->has_ended && "a stream ends once");
    if (ex->framing == FRAMING_CHUNKED && !ex->is_head_request && http_conn_is_open(ex->conn)) {
        uv_buf_t part = part_of("0\r\n\r\n", 5);
        send_parts(ex, &part, 1);
    }
    end_reply(ex);
}

int http_stream_has_begun(const struct http_exchange *ex)
{
    return ex->has_head;
}

size_t http_pending_bytes(const struct http_exchange *ex)
{
    return http_conn_pending(ex->conn);
}

void http_on_close(struct http_exchange *ex, void (*on_close)(void *context), void *context)
{
    ex->on_close = on_close;
    ex->close_context = context;
}

void http_on_drain(struct http_exchange *ex, void (*on_drain)(void *context), void *context)
{
    ex->on_drain = on_drain;
    ex->drain_context = context;
}
