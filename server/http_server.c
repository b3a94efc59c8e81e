#include "server/http_server_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/http_conn.h"
#include "server/http_listen.h"
#include "server/loop.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/random.h>

/* Deadlines are looked at this often at the least, and 8 times within the shortest of them. */
#define MAX_TICK_MS 250
#define MIN_TICK_MS 5
/* So many clients more than max_connections are told why they are refused; the rest are just closed. */
#define MAX_TOLD 64
#define MAX_HEAD_BYTES (32 << 10)

/* ---- handles of the server itself ----------------------------------------------------- */

static void on_own_closed(uv_handle_t *handle)
{
    struct http_server *server = handle->data;
    server->n_own_open--;
}

static void on_tick(uv_timer_t *tick)
{
    struct http_server *server = tick->data;
    int64_t now_ns = clock_now_ns();
    for (struct http_conn *conn = server->first_conn; conn != NULL; conn = http_conn_next(conn))
        http_conn_tick(conn, now_ns);
    if (server->n_conns == 0)
        uv_timer_stop(tick);
}

static void on_resume(uv_idle_t *resume)
{
    struct http_server *server = resume->data;
    for (struct http_conn *conn = server->first_conn; conn != NULL; conn = http_conn_next(conn))
        http_conn_resume(conn);
    if (server->n_resumes == 0)
        uv_idle_stop(resume);
}

static uint64_t tick_of(const struct http_limits *limits)
{
    const int64_t times[] = { limits->header_timeout_ns, limits->body_timeout_ns, limits->keep_alive_ns,
                              limits->stall_timeout_ns, limits->linger_ns };
    int64_t tick_ms = MAX_TICK_MS;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (times[i] / 8000000 < tick_ms)
            tick_ms = times[i] / 8000000;
    return tick_ms < MIN_TICK_MS ? MIN_TICK_MS : (uint64_t)tick_ms;
}

/* ---- life ------------------------------------------------------------------------------ */

enum status http_server_create(struct http_server **out, const struct http_server_options *options,
                               struct error *err)
{
    assert(options->limits.max_pending_bytes < INT_MAX && options->handle != NULL);
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return fail(err, STATUS_IO, "the system gives no random numbers");
    struct http_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the HTTP server");
    server->options = *options;
    server->uv = loop_uv(options->loop);
    server->tick_ms = tick_of(&options->limits);
    server->on_resume = on_resume;
    rng_seed(&server->rng, seed);
    buf_init(&server->head, MAX_HEAD_BYTES);
    buf_init(&server->scratch.gather, HTTP_READ_BYTES);
    /* TLS adds some 30 bytes to each record of at most 16 KiB. */
    size_t max_pending = options->limits.max_pending_bytes;
    buf_init(&server->scratch.cipher, max_pending + max_pending / 64 + HTTP_READ_BYTES);
    uv_timer_init(server->uv, &server->tick);
    uv_idle_init(server->uv, &server->resume);
    server->tick.data = server->resume.data = server;
    server->n_own_open = 2;
    *out = server;
    return STATUS_OK;
}

void http_server_destroy(struct http_server *server)
{
    if (server == NULL)
        return;
    http_server_stop_accepting(server);
    for (struct http_conn *conn = server->first_conn; conn != NULL; conn = http_conn_next(conn))
        http_conn_kill(conn);
    uv_close((uv_handle_t *)&server->tick, on_own_closed);
    uv_close((uv_handle_t *)&server->resume, on_own_closed);
    while (server->n_conns + server->n_listeners + server->n_own_open > 0)
        uv_run(server->uv, UV_RUN_ONCE);
    buf_clear(&server->head);
    buf_clear(&server->scratch.gather);
    buf_clear(&server->scratch.cipher);
    free(server);
}

/* ---- accepting -------------------------------------------------------------------------- */

union any_socket {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

static void on_dropped(uv_handle_t *handle)
{
    on_own_closed(handle);
    free(handle);
}

/* Take a connection from the listener only to close it. */
static void drop_connection(struct http_server *server, uv_stream_t *listener, int is_unix)
{
    union any_socket *socket = malloc(sizeof *socket);
    if (socket == NULL)
        return;
    if (is_unix)
        uv_pipe_init(server->uv, &socket->pipe, 0);
    else
        uv_tcp_init(server->uv, &socket->tcp);
    socket->handle.data = server;
    server->n_own_open++;
    if (uv_accept(listener, &socket->stream) != 0)
        log_debug("a client left before it was accepted");
    uv_close(&socket->handle, on_dropped);
}

/* Make room: the connection that has been idle longest goes, as if its keep-alive time had ended.
 * Clients that only hold connections so cannot keep others out.  0: none is idle. */
static int evict_idle(struct http_server *server)
{
    struct http_conn *oldest = NULL;
    for (struct http_conn *conn = server->first_conn; conn != NULL; conn = http_conn_next(conn))
        if (http_conn_is_idle(conn) &&
            (oldest == NULL || http_conn_idle_since_ns(conn) < http_conn_idle_since_ns(oldest)))
            oldest = conn;
    if (oldest != NULL)
        http_conn_kill(oldest);
    return oldest != NULL;
}

static void on_connection(void *context, struct http_listen *listen, uv_stream_t *stream)
{
    struct http_server *server = context;
    size_t max = server->options.limits.max_connections;
    struct http_tls_context *tls = http_listen_tls(listen);
    int is_unix = http_listen_is_unix(listen);
    int is_full = server->n_conns >= max && !evict_idle(server);
    struct http_conn *conn = NULL;
    /* To tell a TLS client why would cost the handshake, so it is just closed. */
    int is_told = tls == NULL && server->n_conns < max + MAX_TOLD;
    if ((is_full && !is_told) ||
        http_conn_accept(&conn, server, stream, is_unix, tls, NULL) != STATUS_OK) {
        drop_connection(server, stream, is_unix);
        return;
    }
    if (!uv_is_active((const uv_handle_t *)&server->tick))
        uv_timer_start(&server->tick, on_tick, server->tick_ms, server->tick_ms);
    if (is_full)
        http_conn_refuse(conn, 503, "too many connections are open", max);
}

static void on_listen_closed(void *context)
{
    struct http_server *server = context;
    server->n_listeners--;
}

enum status http_server_listen(struct http_server *server, const struct http_address *address,
                               struct error *err)
{
    if (server->n_listeners == HTTP_MAX_LISTENERS)
        return fail(err, STATUS_BAD_OPTION, "there are more than %d addresses to listen on",
                    HTTP_MAX_LISTENERS);
    struct http_listen_options options = {
        .uv = server->uv, .address = *address,
        .on_connection = on_connection, .on_closed = on_listen_closed, .context = server,
    };
    TRY(http_listen_open(&server->listeners[server->n_listeners], &options, err));
    server->n_listeners++;
    return STATUS_OK;
}

int http_server_port(const struct http_server *server)
{
    for (size_t i = 0; i < server->n_listeners && !server->is_draining; i++)
        if (!http_listen_is_unix(server->listeners[i]))
            return http_listen_port(server->listeners[i]);
    return 0;
}

/* ---- draining ---------------------------------------------------------------------------- */

void http_server_stop_accepting(struct http_server *server)
{
    if (server->is_draining)
        return;
    server->is_draining = 1;
    for (size_t i = 0; i < server->n_listeners; i++)
        http_listen_close(server->listeners[i]);
}

void http_server_close_idle(struct http_server *server)
{
    for (struct http_conn *conn = server->first_conn; conn != NULL; conn = http_conn_next(conn))
        if (http_conn_is_idle(conn))
            http_conn_kill(conn);
}

size_t http_server_connection_count(const struct http_server *server)
{
    return server->n_conns;
}

size_t http_server_exchange_count(const struct http_server *server)
{
    return server->n_exchanges;
}
