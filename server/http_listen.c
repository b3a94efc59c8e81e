#include "server/http_listen.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024
#define MAX_SOCKETS 8

struct http_listen {
    struct http_listen_options options;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } sockets[MAX_SOCKETS];
    int n_sockets;              /* initialised, listening or not */
    int n_closing;
    int is_given_up;            /* open failed: nobody is told */
    int is_unix;
    int port;
};

static void on_connection(uv_stream_t *stream, int code)
{
    struct http_listen *listen = stream->data;
    if (code == 0)
        listen->options.on_connection(listen->options.context, listen, stream);
}

static void on_closed(uv_handle_t *handle)
{
    struct http_listen *listen = handle->data;
    if (--listen->n_closing > 0)
        return;
    if (!listen->is_given_up)
        listen->options.on_closed(listen->options.context);
    free(listen);
}

void http_listen_close(struct http_listen *listen)
{
    listen->n_closing = listen->n_sockets;
    for (int i = 0; i < listen->n_sockets; i++)
        uv_close(&listen->sockets[i].handle, on_closed);
}

/* open failed half way: let go of what there is. */
static void give_up(struct http_listen *listen)
{
    listen->is_given_up = 1;
    if (listen->n_sockets == 0)
        free(listen);
    else
        http_listen_close(listen);
}

/* ---- TCP -------------------------------------------------------------------------- */

static int bound_port(const uv_tcp_t *tcp)
{
    struct sockaddr_storage address;
    int size = sizeof address;
    if (uv_tcp_getsockname(tcp, (struct sockaddr *)&address, &size) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&address)->sin_port);
}

/* Listen on one numeric address; libuv's code. */
static int open_tcp(struct http_listen *listen, const struct sockaddr *address)
{
    assert(listen->n_sockets < MAX_SOCKETS);
    uv_tcp_t *tcp = &listen->sockets[listen->n_sockets].tcp;
    int code = uv_tcp_init(listen->options.uv, tcp);
    if (code != 0)
        return code;
    tcp->data = listen;
    listen->n_sockets++;
    code = uv_tcp_bind(tcp, address, address->sa_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0);
    if (code == 0)
        code = uv_listen((uv_stream_t *)tcp, BACKLOG, on_connection);
    if (code == 0 && listen->port == 0)
        listen->port = bound_port(tcp);
    return code;
}

/* The v4 and the v6 number for the hosts that mean both, or 0. */
static int both_kinds(const char *host, const char **v4, const char **v6)
{
    static const char *const any[] = { "", "*", "::", "[::]" };
    if (host == NULL)
        host = "";
    if (strcmp(host, "localhost") == 0) {
        *v4 = "127.0.0.1";
        *v6 = "::1";
        return 1;
    }
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++)
        if (strcmp(host, any[i]) == 0) {
            *v4 = "0.0.0.0";
            *v6 = "::";
            return 1;
        }
    return 0;
}

static enum status fail_tcp(const char *host, int port, int code, struct error *err)
{
    const char *open = strchr(host, ':') != NULL ? "[" : "", *close = *open == '[' ? "]" : "";
    if (code == UV_EADDRINUSE)
        return fail(err, STATUS_IO, "cannot listen on %s%s%s:%d: the port is in use by another program", open,
                    host, close, port);
    return fail(err, STATUS_IO, "cannot listen on %s%s%s:%d: %s", open, host, close, port, uv_strerror(code));
}

static enum status open_both(struct http_listen *listen, const char *v4, const char *v6, int port,
                             struct error *err)
{
    struct sockaddr_in in4;
    struct sockaddr_in6 in6;
    uv_ip4_addr(v4, port, &in4);
    int code = open_tcp(listen, (const struct sockaddr *)&in4);
    if (code != 0)
        return fail_tcp(v4, port, code, err);
    uv_ip6_addr(v6, listen->port, &in6);
    code = open_tcp(listen, (const struct sockaddr *)&in6);
    if (code != 0 && code != UV_EAFNOSUPPORT && code != UV_EADDRNOTAVAIL)
        return fail_tcp(v6, listen->port, code, err);
    return STATUS_OK;
}

/* A name, or a number with or without [ ]: every address it stands for. */
static enum status open_named(struct http_listen *listen, const char *host, int port, struct error *err)
{
    char name[256], service[8];
    size_t len = strlen(host);
    int is_bracketed = len >= 2 && host[0] == '[' && host[len - 1] == ']';
    snprintf(name, sizeof name, "%.*s", (int)(is_bracketed ? len - 2 : len), host + is_bracketed);
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *list;
    int code = getaddrinfo(name, service, &hints, &list);
    if (code != 0)
        return fail(err, STATUS_IO, "cannot listen on %s: %s", name, gai_strerror(code));
    enum status status = STATUS_OK;
    for (const struct addrinfo *one = list; one != NULL && status == STATUS_OK; one = one->ai_next) {
        if (listen->n_sockets == MAX_SOCKETS)
            break;
        code = open_tcp(listen, one->ai_addr);
        if (code != 0)
            status = fail_tcp(name, port, code, err);
    }
    freeaddrinfo(list);
    return status;
}

/* ---- unix sockets -------------------------------------------------------------------- */

/* A socket file nobody answers on is what a killed server left behind. */
static int is_stale(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    int code = connect(fd, (const struct sockaddr *)&address, sizeof address);
    int is_refused = code != 0 && errno == ECONNREFUSED;
    close(fd);
    return is_refused;
}

/* libuv reports a folder that is not there as a permission that is. */
static int lacks_folder(const char *path)
{
    char folder[sizeof((struct sockaddr_un *)NULL)->sun_path];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return access(folder, F_OK) != 0;
}

static enum status open_unix(struct http_listen *listen, const char *path, struct error *err)
{
    if (strlen(path) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return fail(err, STATUS_BAD_OPTION, "the unix socket's path has %zu bytes, limit %zu", strlen(path),
                    sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
    if (is_stale(path))
        unlink(path);
    uv_pipe_t *pipe = &listen->sockets[0].pipe;
    uv_pipe_init(listen->options.uv, pipe, 0);
    pipe->data = listen;
    listen->n_sockets = 1;
    int code = uv_pipe_bind(pipe, path);
    if (code == UV_EACCES && lacks_folder(path))
        code = UV_ENOENT;
    if (code == 0)
        code = uv_listen((uv_stream_t *)pipe, BACKLOG, on_connection);
    if (code == 0)
        return STATUS_OK;
    return fail(err, STATUS_IO, "cannot listen on the unix socket %s: %s", path,
                code == UV_EADDRINUSE ? "it is in use by another program" : uv_strerror(code));
}

/* ---- both ----------------------------------------------------------------------------- */

enum status http_listen_open(struct http_listen **out, const struct http_listen_options *options,
                             struct error *err)
{
    const struct http_address *address = &options->address;
    const char *v4, *v6;
    struct http_listen *listen = calloc(1, sizeof *listen);
    if (listen == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a listener");
    listen->options = *options;
    listen->is_unix = address->unix_path != NULL;
    enum status status;
    if (listen->is_unix)
        status = open_unix(listen, address->unix_path, err);
    else if (address->port < 0 || address->port > 65535)
        status = fail(err, STATUS_BAD_OPTION, "the port is %d, not in 0..65535", address->port);
    else if (both_kinds(address->host, &v4, &v6))
        status = open_both(listen, v4, v6, address->port, err);
    else
        status = open_named(listen, address->host, address->port, err);
    if (status != STATUS_OK) {
        give_up(listen);
        return status;
    }
    *out = listen;
    return STATUS_OK;
}

int http_listen_port(const struct http_listen *listen)
{
    return listen->port;
}

int http_listen_is_unix(const struct http_listen *listen)
{
    return listen->is_unix;
}

struct http_tls_context *http_listen_tls(const struct http_listen *listen)
{
    return listen->options.address.tls;
}
