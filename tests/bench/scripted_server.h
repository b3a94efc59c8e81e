/* scripted_server.h - an HTTP server for tests that answers as a script says.
 *
 * One thread accepts, one per connection reads a request (Content-Length only)
 * and calls serve, which writes the reply with whatever delays and faults the
 * test wants.  It shares no code with the client under test.
 */
#ifndef TESTS_BENCH_SCRIPTED_SERVER_H
#define TESTS_BENCH_SCRIPTED_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SCRIPTED_MAX_CONNECTIONS = 512, SCRIPTED_MAX_BODY = 1 << 20 };

struct scripted_request {
    char method[16], path[256];
    char head[4096];
    char *body;                 /* 0-terminated */
    int n_total;                /* which request of the server, from 0 */
    int n_on_connection;        /* which of its connection, from 0 */
};

struct scripted_server {
    int (*serve)(struct scripted_server *server, int fd,
                 const struct scripted_request *request); /* 0: close */
    void *context;
    int port;
    int listen_fd;
    atomic_int n_requests, n_connections;
    atomic_int fds[SCRIPTED_MAX_CONNECTIONS];
    pthread_t acceptor, threads[SCRIPTED_MAX_CONNECTIONS];
};

struct scripted_connection {
    struct scripted_server *server;
    int fd;
};

static inline void scripted_sleep_ms(double ms)
{
    long ns = (long)(ms * 1e6);
    struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
    nanosleep(&t, NULL);
}

static inline void scripted_send(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes += sent;
        n -= (size_t)sent;
    }
}

__attribute__((format(printf, 2, 3))) static inline void scripted_printf(int fd, const char *fmt, ...)
{
    char text[8192];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    scripted_send(fd, text, (size_t)n);
}

/* 1: a whole request was read. */
static inline int scripted_read(int fd, struct scripted_request *request)
{
    size_t n = 0;
    char *end = NULL;
    while (end == NULL) {
        ssize_t got = recv(fd, request->head + n, sizeof request->head - 1 - n, 0);
        if (got <= 0)
            return 0;
        n += (size_t)got;
        request->head[n] = '\0';
        end = strstr(request->head, "\r\n\r\n");
    }
    size_t head_len = (size_t)(end + 4 - request->head);
    const char *length = strstr(request->head, "Content-Length: ");
    size_t body_len = length != NULL && length < end ? strtoul(length + 16, NULL, 10) : 0;
    if (body_len > SCRIPTED_MAX_BODY
        || sscanf(request->head, "%15s %255s", request->method, request->path) != 2)
        return 0;
    size_t have = n - head_len;
    memcpy(request->body, end + 4, have);
    while (have < body_len) {
        ssize_t got = recv(fd, request->body + have, body_len - have, 0);
        if (got <= 0)
            return 0;
        have += (size_t)got;
    }
    request->body[body_len] = '\0';
    end[4] = '\0';
    return 1;
}

static inline void *scripted_serve(void *argument)
{
    struct scripted_connection *connection = argument;
    struct scripted_server *server = connection->server;
    struct scripted_request request = { .body = malloc(SCRIPTED_MAX_BODY + 1) };
    int keeps = 1;
    while (keeps && scripted_read(connection->fd, &request)) {
        request.n_total = atomic_fetch_add(&server->n_requests, 1);
        keeps = server->serve(server, connection->fd, &request);
        request.n_on_connection++;
    }
    shutdown(connection->fd, SHUT_RDWR);
    free(request.body);
    free(connection);
    return NULL;
}

static inline void *scripted_accept(void *argument)
{
    struct scripted_server *server = argument;
    for (;;) {
        int fd = accept(server->listen_fd, NULL, NULL);
        int at = atomic_load(&server->n_connections);
        if (fd < 0 || at == SCRIPTED_MAX_CONNECTIONS)
            return NULL;
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct scripted_connection *connection = malloc(sizeof *connection);
        *connection = (struct scripted_connection){ .server = server, .fd = fd };
        atomic_store(&server->fds[at], fd);
        pthread_create(&server->threads[at], NULL, scripted_serve, connection);
        atomic_fetch_add(&server->n_connections, 1);
    }
}

/* On 127.0.0.1, a free port. */
static inline void scripted_start(struct scripted_server *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    server->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    bind(server->listen_fd, (struct sockaddr *)&address, sizeof address);
    listen(server->listen_fd, 256);
    getsockname(server->listen_fd, (struct sockaddr *)&address, &length);
    server->port = ntohs(address.sin_port);
    pthread_create(&server->acceptor, NULL, scripted_accept, server);
}

static inline void scripted_stop(struct scripted_server *server)
{
    shutdown(server->listen_fd, SHUT_RDWR);
    pthread_join(server->acceptor, NULL);
    close(server->listen_fd);
    int n = atomic_load(&server->n_connections);
    for (int i = 0; i < n; i++)
        shutdown(atomic_load(&server->fds[i]), SHUT_RDWR);
    for (int i = 0; i < n; i++) {
        pthread_join(server->threads[i], NULL);
        close(atomic_load(&server->fds[i]));
    }
}

/* ---- replies ---- */

static inline void scripted_json(int fd, int http_status, const char *json)
{
    scripted_printf(fd, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                    http_status, strlen(json), json);
}

static inline void scripted_stream_head(int fd)
{
    scripted_printf(
        fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
}

/* One chunk of the transfer coding with these bytes. */
static inline void scripted_piece(int fd, const char *bytes)
{
    scripted_printf(fd, "%zx\r\n%s\r\n", strlen(bytes), bytes);
}

static inline void scripted_event(int fd, const char *data)
{
    char text[4096];
    snprintf(text, sizeof text, "data: %s\n\n", data);
    scripted_piece(fd, text);
}

static inline void scripted_stream_end(int fd)
{
    scripted_event(fd, "[DONE]");
    scripted_printf(fd, "0\r\n\r\n");
}

#endif
