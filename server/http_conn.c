#include "server/http_conn.h"

#include "base/clock.h"
#include "server/api_error.h"
#include "server/http_exchange_private.h"
#include "server/http_request.h"
#include "server/http_server_private.h"
#include "server/http_wire.h"

#include <stdio.h>
#include <stdlib.h>

enum conn_state { CONN_READING, CONN_BUSY, CONN_LINGER };

struct http_conn {
    struct http_server *server;
    struct http_conn *next, **link;     /* *link points at this connection */
    struct http_wire *wire;
    struct http_request *request;
    struct http_exchange *exchange;

    enum conn_state state;
    int is_closing;
    int has_ended;                      /* the peer sends no more */
    int wants_resume;                   /* the server will call http_conn_resume */
    struct buf ahead;                   /* bytes behind the request in progress */
    size_t counted_body_bytes;          /* this request's share of server->body_bytes */

    int64_t arrival_ns;                 /* first byte of the request */
    int64_t body_start_ns;
    int64_t idle_since_ns;
    int64_t deadline_ns;                /* 0: none */
};

/* ---- leaving ------------------------------------------------------------------ */

static void conn_free(struct http_conn *conn)
{
    http_exchange_destroy(conn->exchange);
    http_request_destroy(conn->request);
    buf_clear(&conn->ahead);
    free(conn);
}

static void set_resume(struct http_conn *conn, int wants)
{
    struct http_server *server = conn->server;
    if (wants == conn->wants_resume)
        return;
    conn->wants_resume = wants;
    server->n_resumes += wants ? 1 : (size_t)-1;
    if (wants)
        uv_idle_start(&server->resume, server->on_resume);
}

static void drop_body_count(struct http_conn *conn)
{
    conn->server->body_bytes -= conn->counted_body_bytes;
    conn->counted_body_bytes = 0;
}

static void on_closed(void *context)
{
    struct http_conn *conn = context;
    struct http_server *server = conn->server;
    if (http_exchange_is_open(conn->exchange))
        http_exchange_finish(conn->exchange, 1);
    drop_body_count(conn);
    *conn->link = conn->next;
    if (conn->next != NULL)
        conn->next->link = conn->link;
    server->n_conns--;
    conn_free(conn);
}

void http_conn_kill(struct http_conn *conn)
{
    if (conn->is_closing)
        return;
    conn->is_closing = 1;
    set_resume(conn, 0);
    http_wire_close(conn->wire);
}

static void kill_unless_ok(struct http_conn *conn, enum status status)
{
    if (status != STATUS_OK)
        http_conn_kill(conn);
}

static void on_fault(void *context)
{
    http_conn_kill(context);
}

/* The peer sends no more.  Only a reply that has ended is still worth delivering. */
static void on_end(void *context)
{
    struct http_conn *conn = context;
    conn->has_ended = 1;
    int is_delivering = conn->state == CONN_BUSY && http_exchange_has_ended(conn->exchange);
    if (!is_delivering && !conn->wants_resume)
        http_conn_kill(conn);
}

void http_conn_send(struct http_conn *conn, const uv_buf_t *parts, unsigned n_parts)
{
    if (!conn->is_closing)
        kill_unless_ok(conn, http_wire_send(conn->wire, parts, n_parts));
}

size_t http_conn_pending(const struct http_conn *conn)
{
    return conn->is_closing ? 0 : http_wire_pending(conn->wire);
}

/* Shut the sending half down and wait for the peer to do the same. */
static void linger(struct http_conn *conn)
{
    conn->state = CONN_LINGER;
    if (conn->has_ended) {
        http_conn_kill(conn);
        return;
    }
    conn->deadline_ns = clock_now_ns() + conn->server->options.limits.linger_ns;
    kill_unless_ok(conn, http_wire_shut(conn->wire));
    if (!conn->is_closing)
        kill_unless_ok(conn, http_wire_set_reading(conn->wire, 1));
}

/* ---- one exchange ------------------------------------------------------------------------ */

/* The reply is delivered: make room for the next request, or part. */
static void conn_finish(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    int keeps_alive = http_exchange_keeps_alive(conn->exchange) && !server->is_draining;
    http_exchange_finish(conn->exchange, 0);
    drop_body_count(conn);
    http_request_reset(conn->request);
    if (conn->is_closing)
        return;
    if (!keeps_alive) {
        linger(conn);
        return;
    }
    conn->state = CONN_READING;
    conn->idle_since_ns = clock_now_ns();
    conn->deadline_ns = conn->idle_since_ns + server->options.limits.keep_alive_ns;
    if (conn->ahead.len > 0)
        set_resume(conn, 1);
    else if (conn->has_ended)
        http_conn_kill(conn);
}

void http_conn_reply_ended(struct http_conn *conn)
{
    if (!conn->is_closing && conn->state == CONN_BUSY && http_wire_pending(conn->wire) == 0)
        conn_finish(conn);
}

static void on_landed(void *context)
{
    struct http_conn *conn = context;
    if (conn->state != CONN_BUSY)
        return;
    if (!http_exchange_has_ended(conn->exchange))
        http_exchange_drained(conn->exchange);
    else if (http_wire_pending(conn->wire) == 0)
        conn_finish(conn);
}

static void begin_exchange(struct http_conn *conn)
{
    if (!http_exchange_is_open(conn->exchange))
        http_exchange_begin(conn->exchange, conn->arrival_ns);
    conn->state = CONN_BUSY;
    conn->deadline_ns = 0;
}

/* A request that was refused gets its error; the connection closes behind it, since where
 * the next request would start is not known. */
static void reply_refusal(struct http_conn *conn)
{
    const struct http_refusal *refusal = http_request_refusal(conn->request);
    char text[160];
    if (refusal->limit > 0)
        snprintf(text, sizeof text, "%s (limit %llu)", refusal->text, (unsigned long long)refusal->limit);
    else
        snprintf(text, sizeof text, "%s", refusal->text);
    begin_exchange(conn);
    if (refusal->status == 405)
        http_reply_header(conn->exchange, "Allow", "GET, HEAD, POST, OPTIONS");
    api_error_reply(conn->exchange, &(struct api_error){ .status = refusal->status, .message = text });
}

/* Count what the request holds against the total of the server, and set the time for its next piece. */
static void account_body(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    const struct http_limits *limits = &server->options.limits;
    size_t held = http_request_body_bytes(conn->request);
    server->body_bytes += held - conn->counted_body_bytes;
    conn->counted_body_bytes = held;
    if (http_request_state(conn->request) != HTTP_REQUEST_BODY)
        return;
    if (server->body_bytes > limits->max_total_body_bytes) {
        http_request_refuse(conn->request, 503, "the bodies of all requests together are too large",
                            limits->max_total_body_bytes);
        return;
    }
    conn->deadline_ns = clock_now_ns() + limits->body_timeout_ns;
    if (limits->min_body_bytes_per_s > 0) {
        int64_t earned = (int64_t)held / limits->min_body_bytes_per_s * HTTP_SECONDS(1);
        int64_t latest = conn->body_start_ns + limits->body_timeout_ns + earned;
        if (latest < conn->deadline_ns)
            conn->deadline_ns = latest;
    }
}

/* A body will follow: ask whether it is wanted, and tell a client that waits for the answer. */
static void head_done(struct http_conn *conn, size_t n_left)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_server *server = conn->server;
    begin_exchange(conn);
    if (server->options.admit != NULL && !server->options.admit(server->options.context, conn->exchange))
        return;
    conn->state = CONN_READING;
    conn->body_start_ns = clock_now_ns();
    conn->deadline_ns = conn->body_start_ns + server->options.limits.body_timeout_ns;
    if (n_left == 0 && http_request_expects_continue(conn->request)) {
        uv_buf_t part = uv_buf_init((char *)go_on, sizeof go_on - 1);
        http_conn_send(conn, &part, 1);
    }
}

/* Act on what the last feed did to the request. */
static void after_feed(struct http_conn *conn, size_t n_left)
{
    struct http_server *server = conn->server;
    account_body(conn);
    switch (http_request_state(conn->request)) {
    case HTTP_REQUEST_HEAD_DONE:
        head_done(conn, n_left);
        break;
    case HTTP_REQUEST_COMPLETE:
        begin_exchange(conn);
        server->options.handle(server->options.context, conn->exchange);
        break;
    case HTTP_REQUEST_REFUSED:
        reply_refusal(conn);
        break;
    default:
        break;
    }
}

/* Bytes of the peer, in order: parse them, or keep them while an exchange is in progress. */
static void on_bytes(void *context, const char *bytes, size_t n)
{
    struct http_conn *conn = context;
    const struct http_limits *limits = &conn->server->options.limits;
    while (n > 0 && conn->state == CONN_READING && !conn->is_closing) {
        if (http_request_state(conn->request) == HTTP_REQUEST_IDLE) {
            conn->arrival_ns = clock_now_ns();
            conn->deadline_ns = conn->arrival_ns + limits->header_timeout_ns;
        }
        size_t used = http_request_feed(conn->request, bytes, n);
        bytes += used;
        n -= used;
        after_feed(conn, n);
    }
    if (n == 0 || conn->state != CONN_BUSY || conn->is_closing)
        return;
    kill_unless_ok(conn, buf_add(&conn->ahead, bytes, n));
    if (!conn->is_closing && conn->ahead.len >= limits->max_pipelined_bytes)
        kill_unless_ok(conn, http_wire_set_reading(conn->wire, 0));
}

void http_conn_resume(struct http_conn *conn)
{
    if (!conn->wants_resume)
        return;
    set_resume(conn, 0);
    struct buf ahead = conn->ahead;
    buf_init(&conn->ahead, ahead.max);
    on_bytes(conn, ahead.data, ahead.len);
    buf_clear(&ahead);
    if (conn->is_closing)
        return;
    if (conn->has_ended && conn->ahead.len == 0)
        on_end(conn);
    else if (conn->ahead.len < conn->server->options.limits.max_pipelined_bytes)
        kill_unless_ok(conn, http_wire_set_reading(conn->wire, 1));
}

/* ---- time ------------------------------------------------------------------------------------ */

static void on_deadline(struct http_conn *conn)
{
    enum http_request_state state = http_request_state(conn->request);
    if (conn->state == CONN_LINGER || state == HTTP_REQUEST_IDLE) {
        http_conn_kill(conn);
        return;
    }
    http_conn_refuse(conn, 408, state == HTTP_REQUEST_HEAD
        ? "the request's head took too long to arrive" : "the request's body took too long to arrive", 0);
}

void http_conn_tick(struct http_conn *conn, int64_t now_ns)
{
    const struct http_limits *limits = &conn->server->options.limits;
    if (conn->is_closing)
        return;
    if (http_wire_is_stalled(conn->wire, now_ns, limits->stall_timeout_ns))
        http_conn_kill(conn);
    else if (conn->deadline_ns != 0 && now_ns >= conn->deadline_ns)
        on_deadline(conn);
    else if (conn->state == CONN_BUSY && !http_exchange_has_ended(conn->exchange) &&
             !http_wire_is_reading(conn->wire) && http_wire_has_hung_up(conn->wire))
        http_conn_kill(conn);
}

/* ---- beginning ---------------------------------------------------------------- */

/* A TLS client has time for the handshake; then for its first request like any other. */
static void on_open(void *context)
{
    struct http_conn *conn = context;
    conn->deadline_ns = clock_now_ns() + conn->server->options.limits.keep_alive_ns;
}

/* Everything a connection has.  On failure nothing is left. */
static enum status conn_create(struct http_conn **out, struct http_server *server, int is_unix,
                               struct http_tls_context *tls, struct error *err)
{
    const struct http_limits *limits = &server->options.limits;
    struct http_conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a connection");
    conn->server = server;
    buf_init(&conn->ahead, limits->max_pipelined_bytes + 2 * (size_t)HTTP_READ_BYTES);
    struct http_wire_options wire = {
        .uv = server->uv, .is_unix = is_unix, .tls = tls, .scratch = &server->scratch,
        .max_pending_bytes = limits->max_pending_bytes,
        .on_bytes = on_bytes, .on_open = on_open, .on_end = on_end, .on_fault = on_fault,
        .on_landed = on_landed, .on_closed = on_closed, .context = conn,
    };
    enum status status = http_request_create(&conn->request, limits, err);
    if (status == STATUS_OK)
        status = http_exchange_create(&conn->exchange, conn, err);
    if (status == STATUS_OK)
        status = http_wire_create(&conn->wire, &wire, err);     /* last: it can only be closed, not undone */
    if (status != STATUS_OK) {
        conn_free(conn);
        return status;
    }
    *out = conn;
    return STATUS_OK;
}

/* Enter the server's list; from here on on_closed frees. */
static void conn_enlist(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    conn->next = server->first_conn;
    conn->link = &server->first_conn;
    if (conn->next != NULL)
        conn->next->link = &conn->next;
    server->first_conn = conn;
    server->n_conns++;
}

enum status http_conn_accept(struct http_conn **out, struct http_server *server, uv_stream_t *listener,
                             int is_unix, struct http_tls_context *tls, struct error *err)
{
    const struct http_limits *limits = &server->options.limits;
    struct http_conn *conn = NULL;
    TRY(conn_create(&conn, server, is_unix, tls, err));
    conn_enlist(conn);
    conn->arrival_ns = conn->idle_since_ns = clock_now_ns();
    conn->deadline_ns = conn->arrival_ns + (tls != NULL ? limits->header_timeout_ns : limits->keep_alive_ns);
    /* A client that left between connect and accept is no failure here. */
    kill_unless_ok(conn, http_wire_accept(conn->wire, listener));
    *out = conn;
    return STATUS_OK;
}

void http_conn_refuse(struct http_conn *conn, int status, const char *text, uint64_t limit)
{
    if (conn->is_closing || conn->state != CONN_READING)
        return;
    http_request_refuse(conn->request, status, text, limit);
    reply_refusal(conn);
}

struct http_conn *http_conn_next(const struct http_conn *conn)
{
    return conn->next;
}

int http_conn_is_idle(const struct http_conn *conn)
{
    return !conn->is_closing && conn->state == CONN_READING && conn->ahead.len == 0 &&
           http_request_state(conn->request) == HTTP_REQUEST_IDLE;
}

int64_t http_conn_idle_since_ns(const struct http_conn *conn)
{
    return conn->idle_since_ns;
}

int http_conn_is_open(const struct http_conn *conn)
{
    return !conn->is_closing;
}

int http_conn_may_keep_alive(const struct http_conn *conn)
{
    return http_request_state(conn->request) == HTTP_REQUEST_COMPLETE &&
           http_request_keeps_alive(conn->request) && !conn->server->is_draining;
}

struct http_request *http_conn_request(const struct http_conn *conn)
{
    return conn->request;
}

struct http_server *http_conn_server(const struct http_conn *conn)
{
    return conn->server;
}

const char *http_conn_peer(const struct http_conn *conn)
{
    return http_wire_peer(conn->wire);
}
