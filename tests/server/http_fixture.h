/* http_fixture.h - a real HTTP server on a loopback port, its loop in a thread of its own, and a client
 * that writes raw bytes: for the tests of the HTTP layer.
 *
 * Routes:   GET  /health        "{}", public
 *           POST /echo          the body back
 *           GET  /items/{id}    the id back
 *           GET  /hold          no reply ever; on_close is counted
 *           GET  /later         "later" after ?ms=
 *           GET  /stream        ?n= events, one every ?ms= (0: all at once)
 *           GET  /flood         ?n= KiB streamed at once; on_drain is counted
 *           GET  /big           a fixed reply of ?n= KiB
 *           GET  /query         the parameter q back
 *
 * Counters are atomic; the test's thread reads them.
 */
#ifndef TESTS_SERVER_HTTP_FIXTURE_H
#define TESTS_SERVER_HTTP_FIXTURE_H

#include "base/clock.h"
#include "server/api_error.h"
#include "server/http_auth.h"
#include "server/http_exchange.h"
#include "server/http_server.h"
#include "server/loop.h"
#include "server/router.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define FIXTURE_LOG_LINES 64

struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct router *router;
    struct http_auth *auth;
    struct loop_wake *wake;         /* runs `order` on the loop thread */
    pthread_t thread;
    int port;
    atomic_int order;               /* enum fixture_order, 0: none */
    atomic_int n_closed, n_drained, n_handled;
    atomic_int n_connections;       /* answer of ORDER_COUNT */
    pthread_mutex_t log_lock;
    struct {
        char text[400];
        int status, is_aborted;
    } log[FIXTURE_LOG_LINES];
    int n_log;
};

enum fixture_order { ORDER_NONE, ORDER_STOP, ORDER_COUNT, ORDER_DRAIN, ORDER_CLOSE_IDLE };

/* ---- handlers ------------------------------------------------------------------------ */

struct task {                       /* one exchange that is answered later */
    struct fixture *fixture;
    struct http_exchange *ex;
    struct loop_timer *timer;
    int n_left;
    int n_sent;
};

static inline int fixture_number(struct http_exchange *ex, const char *name, int otherwise)
{
    char text[16];
    return http_exchange_query(ex, name, text, sizeof text) > 0 ? atoi(text) : otherwise;
}

static inline void task_end(struct task *task)
{
    loop_timer_destroy(task->timer);
    free(task);
}

static inline void task_on_close(void *context)
{
    struct task *task = context;
    atomic_fetch_add(&task->fixture->n_closed, 1);
    task_end(task);
}

static inline struct task *task_start(struct fixture *fixture, struct http_exchange *ex,
                                      void (*on_time)(void *context))
{
    struct task *task = calloc(1, sizeof *task);
    assert(task != NULL);
    *task = (struct task){ .fixture = fixture, .ex = ex };
    if (loop_timer_create(&task->timer, fixture->loop, on_time, task, NULL) != STATUS_OK)
        abort();
    http_on_close(ex, task_on_close, task);
    return task;
}

static inline void task_on_later(void *context)
{
    struct task *task = context;
    http_reply(task->ex, 200, HTTP_TEXT, "later", 5);
    task_end(task);
}

static inline void task_on_event(void *context)
{
    struct task *task = context;
    char event[64];
    int n = snprintf(event, sizeof event, "data: {\"i\":%d}\n\n", task->n_sent++);
    http_stream_write(task->ex, event, (size_t)n);
    if (--task->n_left > 0)
        return;
    http_stream_write(task->ex, "data: [DONE]\n\n", 14);
    http_stream_end(task->ex);
    task_end(task);
}

static inline void handle_health(void *context, struct http_exchange *ex)
{
    struct fixture *fixture = context;
    atomic_fetch_add(&fixture->n_handled, 1);
    http_reply(ex, 200, HTTP_JSON, "{}", 2);
}

static inline void handle_echo(void *context, struct http_exchange *ex)
{
    struct fixture *fixture = context;
    atomic_fetch_add(&fixture->n_handled, 1);
    http_reply(ex, 200, HTTP_TEXT, http_exchange_body(ex), http_exchange_body_bytes(ex));
}

static inline void handle_item(void *context, struct http_exchange *ex)
{
    (void)context;
    http_reply(ex, 200, HTTP_TEXT, http_exchange_id(ex), strlen(http_exchange_id(ex)));
}

static inline void handle_query(void *context, struct http_exchange *ex)
{
    (void)context;
    char text[64];
    int n = http_exchange_query(ex, "q", text, sizeof text);
    http_reply(ex, n < 0 ? 404 : 200, HTTP_TEXT, text, n < 0 ? 0 : (size_t)n);
}

static inline void handle_hold(void *context, struct http_exchange *ex)
{
    struct fixture *fixture = context;
    atomic_fetch_add(&fixture->n_handled, 1);
    task_start(fixture, ex, task_on_later);
}

static inline void handle_later(void *context, struct http_exchange *ex)
{
    struct task *task = task_start(context, ex, task_on_later);
    loop_timer_start(task->timer, (uint64_t)fixture_number(ex, "ms", 1), 0);
}

static inline void handle_stream(void *context, struct http_exchange *ex)
{
    struct task *task = task_start(context, ex, task_on_event);
    int ms = fixture_number(ex, "ms", 0);
    task->n_left = fixture_number(ex, "n", 3);
    http_stream_begin(ex, HTTP_EVENTS);
    if (ms > 0)
        loop_timer_start(task->timer, (uint64_t)ms, (uint64_t)ms);
    else
        for (int n = task->n_left; n > 0; n--)
            task_on_event(task);
}

static inline void task_on_drain(void *context)
{
    struct task *task = context;
    atomic_fetch_add(&task->fixture->n_drained, 1);
    http_stream_end(task->ex);
    task_end(task);
}

static inline void handle_flood(void *context, struct http_exchange *ex)
{
    struct task *task = task_start(context, ex, task_on_event);
    static const char block[1024] = { 'x' };
    http_on_drain(ex, task_on_drain, task);
    http_stream_begin(ex, HTTP_TEXT);
    for (int n = fixture_number(ex, "n", 1); n > 0; n--)
        http_stream_write(ex, block, sizeof block);
}

static inline void handle_big(void *context, struct http_exchange *ex)
{
    (void)context;
    size_t len = (size_t)fixture_number(ex, "n", 1) * 1024;
    char *body = malloc(len + 1);
    assert(body != NULL);
    memset(body, 'b', len);
    http_reply(ex, 200, HTTP_TEXT, body, len);
    free(body);
}

static const struct route fixture_routes[] = {
    { ROUTE_GET, "/health", .is_public = 1, .handle = handle_health },
    { ROUTE_POST, "/echo", .handle = handle_echo },
    { ROUTE_GET | ROUTE_DELETE, "/items/{id}", .handle = handle_item },
    { ROUTE_POST, "/items/{id}/copy", .handle = handle_item },
    { ROUTE_GET, "/query", .handle = handle_query },
    { ROUTE_GET, "/hold", .handle = handle_hold },
    { ROUTE_GET, "/later", .handle = handle_later },
    { ROUTE_GET, "/stream", .handle = handle_stream },
    { ROUTE_GET, "/flood", .handle = handle_flood },
    { ROUTE_GET, "/big", .handle = handle_big },
};

/* ---- the server ------------------------------------------------------------------------- */

static inline void fixture_log(void *context, const struct http_access *access)
{
    struct fixture *fixture = context;
    pthread_mutex_lock(&fixture->log_lock);
    if (fixture->n_log < FIXTURE_LOG_LINES) {
        snprintf(fixture->log[fixture->n_log].text, sizeof fixture->log[0].text, "%s %s", access->method,
                 access->path);
        fixture->log[fixture->n_log].status = access->status;
        fixture->log[fixture->n_log].is_aborted = access->is_aborted;
        fixture->n_log++;
    }
    pthread_mutex_unlock(&fixture->log_lock);
}

static inline void fixture_on_wake(void *context)
{
    struct fixture *fixture = context;
    switch (atomic_load(&fixture->order)) {
    case ORDER_STOP:
        loop_stop(fixture->loop);
        break;
    case ORDER_COUNT:
        atomic_store(&fixture->n_connections, (int)http_server_connection_count(fixture->server));
        break;
    case ORDER_DRAIN:
        http_server_stop_accepting(fixture->server);
        break;
    case ORDER_CLOSE_IDLE:
        http_server_close_idle(fixture->server);
        break;
    default:
        break;
    }
    atomic_store(&fixture->order, ORDER_NONE);
}

/* Have the loop thread do one thing, and wait until it is done. */
static inline void fixture_do(struct fixture *fixture, enum fixture_order order)
{
    atomic_store(&fixture->order, (int)order);
    loop_wake_send(fixture->wake);
    while (atomic_load(&fixture->order) != ORDER_NONE)
        usleep(200);
}

static inline int fixture_connections(struct fixture *fixture)
{
    fixture_do(fixture, ORDER_COUNT);
    return atomic_load(&fixture->n_connections);
}

static inline void *fixture_thread(void *context)
{
    struct fixture *fixture = context;
    loop_run(fixture->loop);
    return NULL;
}

/* keys: text of a key file or NULL.  address NULL: 127.0.0.1. */
static inline struct fixture *fixture_start(const struct http_limits *limits, const char *keys,
                                            const struct http_address *address)
{
    static const struct http_address loopback = { .host = "127.0.0.1" };
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error err;
    assert_non_null(fixture);
    pthread_mutex_init(&fixture->log_lock, NULL);
    assert_int_equal(loop_create(&fixture->loop, &err), STATUS_OK);
    if (keys != NULL)
        assert_int_equal(http_auth_create(&fixture->auth, keys, &err), STATUS_OK);
    struct router_options router = { .routes = fixture_routes, .auth = fixture->auth, .context = fixture,
                                     .n_routes = sizeof fixture_routes / sizeof fixture_routes[0] };
    assert_int_equal(router_create(&fixture->router, &router, &err), STATUS_OK);
    struct http_server_options options = {
        .loop = fixture->loop, .limits = limits == NULL ? http_limits_default() : *limits,
        .cors_origin = "*", .handle = router_handle, .admit = router_admit, .context = fixture->router,
        .log = fixture_log, .log_context = fixture,
    };
    assert_int_equal(http_server_create(&fixture->server, &options, &err), STATUS_OK);
    enum status status = http_server_listen(fixture->server, address == NULL ? &loopback : address, &err);
    if (status != STATUS_OK)
        fail_msg("%s", err.text);
    fixture->port = http_server_port(fixture->server);
    status = loop_wake_create(&fixture->wake, fixture->loop, fixture_on_wake, fixture, &err);
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(pthread_create(&fixture->thread, NULL, fixture_thread, fixture), 0);
    return fixture;
}

static inline void fixture_stop(struct fixture *fixture)
{
    fixture_do(fixture, ORDER_STOP);
    pthread_join(fixture->thread, NULL);
    loop_wake_destroy(fixture->wake);
    http_server_destroy(fixture->server);
    loop_destroy(fixture->loop);
    router_destroy(fixture->router);
    http_auth_destroy(fixture->auth);
    pthread_mutex_destroy(&fixture->log_lock);
    free(fixture);
}

/* Wait up to five seconds for a counter to reach n. */
static inline void fixture_await(atomic_int *counter, int n)
{
    for (int i = 0; i < 5000 && atomic_load(counter) < n; i++)
        usleep(1000);
    assert_int_equal(atomic_load(counter), n);
}

/* ---- the raw client ---------------------------------------------------------------------- */

static inline int client_connect_host(int family, const char *host, int port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = { .any.sa_family = (sa_family_t)family };
    socklen_t size = family == AF_INET ? sizeof address.v4 : sizeof address.v6;
    if (family == AF_INET) {
        address.v4.sin_port = htons((uint16_t)port);
        inet_pton(AF_INET, host, &address.v4.sin_addr);
    } else {
        address.v6.sin6_port = htons((uint16_t)port);
        inet_pton(AF_INET6, host, &address.v6.sin6_addr);
    }
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, &address.any, size) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline int client_connect(const struct fixture *fixture)
{
    int fd = client_connect_host(AF_INET, "127.0.0.1", fixture->port);
    assert_true(fd >= 0);
    return fd;
}

/* 1 if all went out. */
static inline int client_send_bytes(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return 0;
        at += sent;
        n -= (size_t)sent;
    }
    return 1;
}

static inline int client_send(int fd, const char *text)
{
    return client_send_bytes(fd, text, strlen(text));
}

/* One read within ms: bytes, 0 at the end, -1 on a reset, -2 when nothing came. */
static inline ssize_t client_read(int fd, char *out, size_t max, int ms)
{
    struct pollfd question = { .fd = fd, .events = POLLIN };
    if (poll(&question, 1, ms) <= 0)
        return -2;
    ssize_t n = recv(fd, out, max, 0);
    return n < 0 ? -1 : n;
}

struct reply {
    int status;                     /* 0: none came */
    int is_whole;                   /* head and body arrived in full */
    char head[8192];
    char body[1 << 18];             /* as sent (chunked is not decoded), terminated */
    size_t body_len;
};

static inline int reply_has_whole_body(const struct reply *reply, int is_head)
{
    const char *length = strstr(reply->head, "\r\nContent-Length: ");
    if (is_head || reply->status == 204 || reply->status == 100)
        return 1;
    if (length != NULL)
        return reply->body_len >= (size_t)atol(length + 18);
    return strstr(reply->head, "chunked") != NULL && reply->body_len >= 5 &&
           memcmp(reply->body + reply->body_len - 5, "0\r\n\r\n", 5) == 0;
}

/* Read one reply, byte-wise so that a pipelined one behind it stays in the socket. */
static inline void client_reply_to(int fd, struct reply *reply, int is_head)
{
    memset(reply, 0, offsetof(struct reply, body));
    reply->body_len = 0;
    size_t n = 0;
    while (n < 4 || memcmp(reply->head + n - 4, "\r\n\r\n", 4) != 0) {
        if (n + 1 >= sizeof reply->head || client_read(fd, reply->head + n, 1, 3000) != 1)
            return;
        n++;
    }
    reply->status = atoi(reply->head + 9);
    reply->body[0] = '\0';
    while (!(reply->is_whole = reply_has_whole_body(reply, is_head))) {
        if (reply->body_len + 1 >= sizeof reply->body ||
            client_read(fd, reply->body + reply->body_len, 1, 3000) != 1)
            break;
        reply->body[++reply->body_len] = '\0';
    }
}

static inline struct reply *client_reply(int fd)
{
    static _Thread_local struct reply reply;
    client_reply_to(fd, &reply, 0);
    return &reply;
}

/* Send on a fresh connection and return the reply. */
static inline struct reply *client_ask(const struct fixture *fixture, const char *text)
{
    int fd = client_connect(fixture);
    client_send(fd, text);
    struct reply *reply = client_reply(fd);
    close(fd);
    return reply;
}

/* 1 if the server closes within ms without another byte. */
static inline int client_sees_end(int fd, int ms)
{
    char byte;
    ssize_t n = client_read(fd, &byte, 1, ms);
    return n == 0 || n == -1;
}

#endif
