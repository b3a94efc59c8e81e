#include "bench/load_client.h"

#include "base/buf.h"
#include "base/clock.h"

#include <assert.h>
#include <llhttp.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    MAX_ADDRESSES = 8,
    MAX_HEADER_BYTES = 64 * 1024,
    MAX_REQUEST_BYTES = 64 * 1024 * 1024,
    READ_BYTES = 64 * 1024
};

struct load_connection {
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    llhttp_t parser;
    struct load_client *client;
    struct load_exchange *exchange;     /* NULL: idle or closing */
    struct load_connection *next, *previous;    /* in one of the client's two lists */
    struct buf out;                     /* the request under way, kept for a second try */
    size_t address;                     /* which of the client's addresses is tried */
    size_t header_bytes;                /* of this reply, so far */
    int n_exchanges;                    /* begun on this socket */
    int is_idle;                        /* in the idle list */
    int is_writing;
    int is_closing;
    int has_reply_bytes;                /* of this exchange */
    int is_complete;                    /* the parser saw the reply's end */
};

struct load_client {
    /* fixed at create */
    uv_loop_t *loop;
    char host[280];                     /* as in the Host header */
    char *authorization;                /* "" or a whole header line */
    struct sockaddr_storage addresses[MAX_ADDRESSES];
    size_t n_addresses;
    llhttp_settings_t settings;

    size_t first_address;               /* the one that worked last */
    struct load_connection *busy;
    struct load_connection *idle;
    size_t n_open;                      /* connections whose memory is not yet freed */
    size_t n_connects;
    int64_t now_ns;                     /* when the bytes now being parsed were read */
    char read_bytes[READ_BYTES];        /* every read is parsed before the next one */
};

static void connection_lost(struct load_connection *c, enum load_end end, const char *why);

/* ---- the two lists ---- */

static struct load_connection **list_of(struct load_connection *c)
{
    return c->is_idle ? &c->client->idle : &c->client->busy;
}

static void list_add(struct load_connection *c, int is_idle)
{
    c->is_idle = is_idle;
    struct load_connection **list = list_of(c);
    c->previous = NULL;
    c->next = *list;
    if (*list != NULL)
        (*list)->previous = c;
    *list = c;
}

static void list_remove(struct load_connection *c)
{
    if (c->previous != NULL)
        c->previous->next = c->next;
    else
        *list_of(c) = c->next;
    if (c->next != NULL)
        c->next->previous = c->previous;
    c->next = c->previous = NULL;
}

/* ---- end of a connection and of an exchange ---- */

static void on_closed(uv_handle_t *handle)
{
    struct load_connection *c = handle->data;
    c->client->n_open--;
    buf_clear(&c->out);
    free(c);
}

static void connection_close(struct load_connection *c)
{
    if (c->is_closing)
        return;
    list_remove(c);
    c->is_closing = 1;
    if (c->exchange != NULL)
        c->exchange->connection = NULL;
    c->exchange = NULL;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

static void end_exchange(struct load_exchange *exchange, enum load_end end, const char *why, int64_t now_ns)
{
    exchange->connection = NULL;
    exchange->events->on_end(exchange->context, end, why, now_ns);
}

/* The reply is whole: keep the socket if it can serve again, then tell. */
static void exchange_complete(struct load_connection *c, int has_bytes_left)
{
    struct load_exchange *exchange = c->exchange;
    struct load_client *client = c->client;
    if (llhttp_should_keep_alive(&c->parser) && !c->is_writing && !has_bytes_left) {
        list_remove(c);
        c->exchange = NULL;
        list_add(c, 1);
    } else {
        connection_close(c);
    }
    end_exchange(exchange, LOAD_END_COMPLETE, "", client->now_ns);
}

/* ---- llhttp callbacks ---- */

static int is_interim(const llhttp_t *parser)
{
    return parser->status_code / 100 == 1 && parser->status_code != 101;
}

static int on_header_bytes(llhttp_t *parser, const char *bytes, size_t n)
{
    (void)bytes;
    struct load_connection *c = parser->data;
    c->header_bytes += n;
    if (c->header_bytes <= MAX_HEADER_BYTES)
        return 0;
    llhttp_set_error_reason(parser, "the reply's header passes 64 KiB");
    return HPE_USER;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct load_connection *c = parser->data;
    if (c->exchange != NULL && !is_interim(parser))
        c->exchange->events->on_status(c->exchange->context, parser->status_code, c->client->now_ns);
    return 0;
}

static int on_body(llhttp_t *parser, const char *bytes, size_t n)
{
    struct load_connection *c = parser->data;
    if (c->exchange != NULL)
        c->exchange->events->on_body(c->exchange->context, bytes, n, c->client->now_ns);
    return 0;
}

/* Pausing here leaves the parser before anything is done that may start the
 * next exchange on this very connection. */
static int on_message_complete(llhttp_t *parser)
{
    struct load_connection *c = parser->data;
    if (is_interim(parser))
        return 0;
    c->is_complete = 1;
    return HPE_PAUSED;
}

static void settings_init(llhttp_settings_t *settings)
{
    llhttp_settings_init(settings);
    settings->on_status = on_header_bytes;
    settings->on_header_field = on_header_bytes;
    settings->on_header_value = on_header_bytes;
    settings->on_headers_complete = on_headers_complete;
    settings->on_body = on_body;
    settings->on_message_complete = on_message_complete;
}

/* ---- reading ---- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    struct load_connection *c = handle->data;
    *out = uv_buf_init(c->client->read_bytes, READ_BYTES);
}

static void read_bytes(struct load_connection *c, const char *bytes, size_t n)
{
    if (c->exchange == NULL) {      /* bytes that nobody asked for */
        connection_close(c);
        return;
    }
    c->has_reply_bytes = 1;
    enum llhttp_errno e = llhttp_execute(&c->parser, bytes, n);
    if (c->is_closing)              /* cancelled by a callback */
        return;
    if (c->is_complete)
        exchange_complete(c, llhttp_get_error_pos(&c->parser) != bytes + n);
    else if (e != HPE_OK)
        connection_lost(c, LOAD_END_PROTOCOL, llhttp_get_error_reason(&c->parser));
}

/* The server closed.  A reply without a length ends that way too. */
static void read_end(struct load_connection *c, int uv_code)
{
    if (c->exchange != NULL && uv_code == UV_EOF && c->has_reply_bytes) {
        llhttp_finish(&c->parser);
        if (c->is_closing)
            return;
        if (c->is_complete) {
            exchange_complete(c, 1);
            return;
        }
    }
    connection_lost(c, LOAD_END_LOST, uv_code == UV_EOF ? "the server closed the connection"
                                                        : uv_strerror(uv_code));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *from)
{
    struct load_connection *c = stream->data;
    if (n == 0 || c->is_closing)
        return;
    c->client->now_ns = clock_now_ns();
    if (n > 0)
        read_bytes(c, from->base, (size_t)n);
    else
        read_end(c, (int)n);
}

/* ---- writing ---- */

static void on_written(uv_write_t *write, int uv_code)
{
    struct load_connection *c = write->data;
    c->is_writing = 0;
    if (uv_code < 0 && !c->is_closing) {
        c->client->now_ns = clock_now_ns();
        connection_lost(c, LOAD_END_LOST, uv_strerror(uv_code));
    }
}

/* c->out holds the request; c->exchange is set. */
static void connection_write(struct load_connection *c)
{
    llhttp_init(&c->parser, HTTP_RESPONSE, &c->client->settings);
    c->parser.data = c;
    c->header_bytes = 0;
    c->has_reply_bytes = 0;
    c->is_complete = 0;
    c->n_exchanges++;
    c->write.data = c;
    uv_buf_t bytes = uv_buf_init(c->out.data, (unsigned)c->out.len);
    int e = uv_write(&c->write, (uv_stream_t *)&c->tcp, &bytes, 1, on_written);
    c->is_writing = e == 0;
    /* A refused write is followed by a read that ends with the same reason. */
}

/* ---- connecting ---- */

static void on_connected(uv_connect_t *connect, int uv_code)
{
    struct load_connection *c = connect->data;
    if (c->is_closing)
        return;
    c->client->now_ns = clock_now_ns();
    if (uv_code == 0)
        uv_code = uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    if (uv_code < 0) {
        connection_lost(c, LOAD_END_CONNECT, uv_strerror(uv_code));
        return;
    }
    c->client->first_address = c->address;
    uv_tcp_nodelay(&c->tcp, 1);
    connection_write(c);
}

/* A connection under way to one address.  *out, the request, is taken over. */
static enum status connection_open(struct load_client *client, struct load_exchange *exchange,
                                   struct buf *out, size_t address, struct error *err)
{
    struct load_connection *c = calloc(1, sizeof *c);
    if (c == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a connection");
    c->client = client;
    c->tcp.data = c;
    c->connect.data = c;
    c->address = address;
    buf_init(&c->out, MAX_REQUEST_BYTES);
    int e = uv_tcp_init(client->loop, &c->tcp);
    if (e < 0) {
        free(c);
        return fail(err, STATUS_IO, "no socket: %s", uv_strerror(e));
    }
    client->n_open++;
    list_add(c, 0);
    e = uv_tcp_connect(&c->connect, &c->tcp, (const struct sockaddr *)&client->addresses[address],
                       on_connected);
    if (e < 0) {
        connection_close(c);
        return fail(err, STATUS_IO, "no connection to %s: %s", client->host, uv_strerror(e));
    }
    client->n_connects++;
    c->out = *out;
    buf_init(out, MAX_REQUEST_BYTES);
    c->exchange = exchange;
    exchange->connection = c;
    return STATUS_OK;
}

/* As connection_open, but an address that fails at once hands over to the next,
 * up to the one that worked last. */
static enum status connection_open_from(struct load_client *client, struct load_exchange *exchange,
                                        struct buf *out, size_t address, struct error *err)
{
    enum status s;
    do {
        s = connection_open(client, exchange, out, address, err);
        address = (address + 1) % client->n_addresses;
    } while (s == STATUS_IO && address != client->first_address);
    return s;
}

/* One more try for the same exchange on a new socket; 0 if it is over. */
static int try_again(struct load_connection *c, enum load_end end)
{
    struct load_client *client = c->client;
    int was_stale = end == LOAD_END_LOST && c->n_exchanges > 1 && !c->has_reply_bytes;
    size_t address = was_stale ? client->first_address : (c->address + 1) % client->n_addresses;
    int has_address = end == LOAD_END_CONNECT && address != client->first_address;
    if (!was_stale && !has_address)
        return 0;
    struct load_exchange *exchange = c->exchange;
    struct buf out = c->out;
    buf_init(&c->out, MAX_REQUEST_BYTES);
    c->exchange = NULL;
    if (connection_open_from(client, exchange, &out, address, NULL) == STATUS_OK)
        return 1;
    c->exchange = exchange;
    c->out = out;
    return 0;
}

static void connection_lost(struct load_connection *c, enum load_end end, const char *why)
{
    struct load_exchange *exchange = c->exchange;
    int64_t now_ns = c->client->now_ns;
    if (exchange == NULL || try_again(c, end)) {
        connection_close(c);
        return;
    }
    connection_close(c);
    end_exchange(exchange, end, why != NULL ? why : "the reply is not HTTP", now_ns);
}

/* ---- the client ---- */

static enum status write_request(const struct load_client *client, struct buf *out,
                                 const struct load_request_head *head, const char *body, size_t body_len)
{
    TRY(buf_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nUser-Agent: latentd-bench\r\n",
                   head->method, head->path, client->host, head->accept));
    TRY(buf_add_text(out, client->authorization));
    if (body_len > 0)
        TRY(buf_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body_len));
    TRY(buf_add_text(out, "\r\n"));
    return buf_add(out, body, body_len);
}

enum status load_client_send(struct load_client *client, struct load_exchange *exchange,
                             const struct load_request_head *head, const char *body, size_t body_len,
                             struct error *err)
{
    assert(exchange->connection == NULL);
    struct load_connection *c = client->idle;
    struct buf fresh;
    buf_init(&fresh, MAX_REQUEST_BYTES);
    struct buf *out = c != NULL ? &c->out : &fresh;
    buf_reset(out);
    enum status s = write_request(client, out, head, body, body_len);
    if (s != STATUS_OK) {
        buf_clear(&fresh);
        return fail(err, s, "a request of %zu bytes does not fit %d bytes of memory", body_len,
                    MAX_REQUEST_BYTES);
    }
    if (c == NULL) {
        s = connection_open_from(client, exchange, &fresh, client->first_address, err);
        buf_clear(&fresh);
        return s;
    }
    list_remove(c);
    list_add(c, 0);
    c->exchange = exchange;
    exchange->connection = c;
    connection_write(c);
    return STATUS_OK;
}

void load_client_cancel(struct load_exchange *exchange)
{
    if (exchange->connection != NULL)
        connection_close(exchange->connection);
}

size_t load_client_n_connects(const struct load_client *client)
{
    return client->n_connects;
}

static enum status look_up(struct load_client *client, const char *host, int port, struct error *err)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int e = getaddrinfo(host, service, &hints, &found);
    if (e != 0)
        return fail(err, STATUS_IO, "no address for host %s: %s", host, gai_strerror(e));
    for (struct addrinfo *a = found; a != NULL && client->n_addresses < MAX_ADDRESSES; a = a->ai_next)
        memcpy(&client->addresses[client->n_addresses++], a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    return STATUS_OK;
}

static enum status set_authorization(struct load_client *client, const char *api_key, struct error *err)
{
    if (api_key == NULL)
        api_key = "";
    size_t room = strlen(api_key) + sizeof "Authorization: Bearer \r\n";
    client->authorization = calloc(1, room);
    if (client->authorization == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the load client");
    if (strpbrk(api_key, "\r\n") != NULL)
        return fail(err, STATUS_BAD_OPTION, "the API key holds a line break");
    if (api_key[0] != '\0')
        snprintf(client->authorization, room, "Authorization: Bearer %s\r\n", api_key);
    return STATUS_OK;
}

enum status load_client_create(struct load_client **out, const struct load_client_options *options,
                               struct error *err)
{
    struct load_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the load client");
    client->loop = options->loop;
    settings_init(&client->settings);
    int is_v6 = strchr(options->host, ':') != NULL;
    snprintf(client->host, sizeof client->host, "%s%s%s:%d", is_v6 ? "[" : "", options->host,
             is_v6 ? "]" : "", options->port);
    enum status s = set_authorization(client, options->api_key, err);
    if (s == STATUS_OK)
        s = look_up(client, options->host, options->port, err);
    if (s != STATUS_OK) {
        load_client_destroy(client);
        return s;
    }
    *out = client;
    return STATUS_OK;
}

void load_client_close(struct load_client *client)
{
    while (client->busy != NULL)
        connection_close(client->busy);
    while (client->idle != NULL)
        connection_close(client->idle);
}

void load_client_destroy(struct load_client *client)
{
    if (client == NULL)
        return;
    assert(client->n_open == 0);
    free(client->authorization);
    free(client);
}
