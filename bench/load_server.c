#include "bench/load_server.h"

#include "base/json_write.h"
#include "bench/load_client.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { MAX_REPLY_BYTES = 16 * 1024 * 1024 };

#define CALL_TIMEOUT_NS 30000000000

/* ---- the URL ---- */

static enum status parse_port(int *out, const char *text, size_t n, struct error *err)
{
    int port = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || port > 65535)
            return fail(err, STATUS_BAD_OPTION, "the port in the URL is not a number");
        port = port * 10 + (text[i] - '0');
    }
    if (n == 0 || port < 1 || port > 65535)
        return fail(err, STATUS_BAD_OPTION, "the port in the URL is outside 1 to 65535");
    *out = port;
    return STATUS_OK;
}

static enum status parse_authority(struct load_server *out, const char *text, size_t n, struct error *err)
{
    const char *host = text;
    const char *end = text + n;
    const char *host_end;
    if (n > 0 && text[0] == '[') {
        host = text + 1;
        host_end = memchr(text, ']', n);
        if (host_end == NULL)
            return fail(err, STATUS_BAD_OPTION, "the URL has a '[' without its ']'");
    } else {
        const char *colon = memchr(text, ':', n);
        host_end = colon != NULL ? colon : end;
    }
    size_t length = (size_t)(host_end - host);
    if (length == 0 || length >= sizeof out->host || memchr(host, '@', length) != NULL)
        return fail(err, STATUS_BAD_OPTION,
                    "the URL's host is empty, has an '@', or is longer than %zu bytes", sizeof out->host - 1);
    memcpy(out->host, host, length);
    out->host[length] = '\0';
    const char *after = *host_end == ']' && host_end < end ? host_end + 1 : host_end;
    if (after == end)
        return STATUS_OK;
    if (*after != ':')
        return fail(err, STATUS_BAD_OPTION, "the URL has text between host and port");
    return parse_port(&out->port, after + 1, (size_t)(end - after - 1), err);
}

static enum status parse_base(struct load_server *out, const char *path, struct error *err)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    if (n >= 3 && memcmp(path + n - 3, "/v1", 3) == 0)
        n -= 3;
    if (n >= sizeof out->base)
        return fail(err, STATUS_BAD_OPTION, "the URL's path is longer than %zu bytes", sizeof out->base - 1);
    for (size_t i = 0; i < n; i++)
        if (path[i] <= ' ' || path[i] == '?' || path[i] == '#' || path[i] == 0x7f)
            return fail(err, STATUS_BAD_OPTION, "the URL's path has a blank, a query or a fragment");
    memcpy(out->base, path, n);
    out->base[n] = '\0';
    return STATUS_OK;
}

enum status load_server_parse(struct load_server *out, const char *url, struct error *err)
{
    *out = (struct load_server){ .port = 80 };
    if (strncmp(url, "https://", 8) == 0)
        return fail(err, STATUS_BAD_OPTION, "https is not supported: give the address behind the TLS proxy");
    if (strncmp(url, "http://", 7) == 0)
        url += 7;
    else if (strstr(url, "://") != NULL)
        return fail(err, STATUS_BAD_OPTION, "the URL's scheme must be http");
    size_t authority = strcspn(url, "/");
    TRY(parse_authority(out, url, authority, err));
    return parse_base(out, url + authority, err);
}

/* ---- one call ---- */

struct call_state {
    uv_loop_t loop;
    uv_timer_t timer;
    struct load_client *client;
    struct load_exchange exchange;
    struct buf *reply;
    enum status status;
    struct error error;
    int http_status;
    int is_over;
};

static void call_end(struct call_state *call)
{
    if (call->is_over)
        return;
    call->is_over = 1;
    uv_close((uv_handle_t *)&call->timer, NULL);
    load_client_close(call->client);
}

static void on_call_status(void *context, int http_status, int64_t now_ns)
{
    (void)now_ns;
    struct call_state *call = context;
    call->http_status = http_status;
}

static void on_call_body(void *context, const char *bytes, size_t n, int64_t now_ns)
{
    (void)now_ns;
    struct call_state *call = context;
    enum status s = buf_add(call->reply, bytes, n);
    if (s == STATUS_OK || call->is_over)
        return;
    call->status = fail(&call->error, s, "the reply is larger than %zu bytes", call->reply->max);
    call_end(call);
}

static void on_call_end(void *context, enum load_end end, const char *why, int64_t now_ns)
{
    (void)now_ns;
    struct call_state *call = context;
    if (end != LOAD_END_COMPLETE)
        call->status = fail(&call->error, STATUS_IO, "%s: %s",
                            end == LOAD_END_CONNECT ? "cannot connect" : "the call failed", why);
    call_end(call);
}

static void on_call_timeout(uv_timer_t *timer)
{
    struct call_state *call = timer->data;
    call->status = fail(&call->error, STATUS_TIMED_OUT, "no reply in time");
    call_end(call);
}

static const struct load_exchange_events call_events = {
    .on_status = on_call_status,
    .on_body = on_call_body,
    .on_end = on_call_end,
};

/* The loop, its timer and the client exist; send and wait. */
static void call_run(struct call_state *call, const struct load_server *server, const struct load_call *what)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", server->base, what->path);
    struct load_request_head head = { .method = what->method, .path = path, .accept = "application/json" };
    call->exchange = (struct load_exchange){ .events = &call_events, .context = call };
    uv_timer_start(&call->timer, on_call_timeout, (uint64_t)(what->timeout_ns / 1000000), 0);
    size_t n = what->body != NULL ? strlen(what->body) : 0;
    call->status = load_client_send(call->client, &call->exchange, &head, n > 0 ? what->body : "", n,
                                    &call->error);
    if (call->status != STATUS_OK)
        call_end(call);
    uv_run(&call->loop, UV_RUN_DEFAULT);
}

enum status load_server_call(const struct load_server *server, const struct load_call *what, int *http_status,
                             struct buf *reply, struct error *err)
{
    struct call_state call = { .reply = reply };
    int e = uv_loop_init(&call.loop);
    if (e < 0)
        return fail(err, STATUS_IO, "no event loop: %s", uv_strerror(e));
    struct load_client_options options = {
        .loop = &call.loop, .host = server->host, .port = server->port, .api_key = server->api_key,
    };
    call.status = load_client_create(&call.client, &options, &call.error);
    if (call.status == STATUS_OK) {
        uv_timer_init(&call.loop, &call.timer);
        call.timer.data = &call;
        call_run(&call, server, what);
    }
    load_client_destroy(call.client);
    uv_loop_close(&call.loop);
    *http_status = call.http_status;
    if (call.status == STATUS_OK)
        return STATUS_OK;
    return fail(err, call.status, "%s http://%s:%d%s%s: %s", what->method, server->host, server->port,
                server->base, what->path, call.error.text);
}

/* ---- the calls ---- */

/* A 2xx reply that is a JSON object; the caller gives *out to json_decref. */
static enum status call_json(const struct load_server *server, const struct load_call *what, json_t **out,
                             struct error *err)
{
    struct buf reply;
    buf_init(&reply, MAX_REPLY_BYTES);
    int http_status = 0;
    enum status s = load_server_call(server, what, &http_status, &reply, err);
    if (s == STATUS_OK && http_status / 100 != 2)
        s = fail(err, STATUS_UNSUPPORTED, "%s answers %d", what->path, http_status);
    if (s == STATUS_OK) {
        *out = json_loadb(reply.data != NULL ? reply.data : "", reply.len, JSON_ALLOW_NUL, NULL);
        if (*out == NULL)
            s = fail(err, STATUS_UNSUPPORTED, "%s does not answer JSON", what->path);
    }
    buf_clear(&reply);
    return s;
}

enum status load_server_model(const struct load_server *server, char *out, size_t max, struct error *err)
{
    struct load_call call = { .method = "GET", .path = "/v1/models", .timeout_ns = CALL_TIMEOUT_NS };
    json_t *root = NULL;
    TRY(call_json(server, &call, &root, err));
    const char *id = json_string_value(
        json_object_get(json_array_get(json_object_get(root, "data"), 0), "id"));
    enum status s = STATUS_OK;
    if (id == NULL || id[0] == '\0' || strlen(id) >= max)
        s = fail(err, STATUS_UNSUPPORTED, "/v1/models names no model: give one with --model");
    else
        memcpy(out, id, strlen(id) + 1);
    json_decref(root);
    return s;
}

static enum status write_tokenize(struct buf *body, const char *model, const char *text)
{
    TRY(buf_add_text(body, "{\"model\":"));
    TRY(json_write_cstring(body, model));
    TRY(buf_add_text(body, ",\"add_special_tokens\":false,\"prompt\":"));
    TRY(json_write_cstring(body, text));
    TRY(buf_add_text(body, ",\"content\":"));
    TRY(json_write_cstring(body, text));
    return buf_add_text(body, "}");
}

static enum status read_tokens(const json_t *root, int64_t *ids, size_t max, size_t *n, struct error *err)
{
    const json_t *tokens = json_object_get(root, "tokens");
    size_t count = json_array_size(tokens);
    if (count == 0)
        return fail(err, STATUS_UNSUPPORTED, "/tokenize answers no \"tokens\"");
    for (size_t i = 0; i < count && i < max; i++) {
        const json_t *token = json_array_get(tokens, i);
        if (!json_is_integer(token) || json_integer_value(token) < 0)
            return fail(err, STATUS_UNSUPPORTED, "/tokenize answers a token that is not an id");
        ids[i] = json_integer_value(token);
    }
    *n = count;
    return STATUS_OK;
}

enum status load_server_tokenize(const struct load_server *server, const char *model, const char *text,
                                 int64_t *ids, size_t max, size_t *n, struct error *err)
{
    struct buf body;
    buf_init(&body, MAX_REPLY_BYTES);
    json_t *root = NULL;
    enum status s = write_tokenize(&body, model, text);
    if (s != STATUS_OK) {
        buf_clear(&body);
        return fail(err, s, "a text of %zu bytes is too long for /tokenize", strlen(text));
    }
    struct load_call call = {
        .method = "POST", .path = "/tokenize", .body = body.data, .timeout_ns = CALL_TIMEOUT_NS,
    };
    s = call_json(server, &call, &root, err);
    buf_clear(&body);
    if (s == STATUS_OK)
        s = read_tokens(root, ids, max, n, err);
    json_decref(root);
    return s;
}

enum status load_server_reset_cache(const struct load_server *server, struct error *err)
{
    struct load_call call = {
        .method = "POST", .path = "/reset_prefix_cache", .body = "{}", .timeout_ns = CALL_TIMEOUT_NS,
    };
    struct buf reply;
    buf_init(&reply, MAX_REPLY_BYTES);
    int http_status = 0;
    enum status s = load_server_call(server, &call, &http_status, &reply, err);
    buf_clear(&reply);
    if (s == STATUS_OK && http_status / 100 != 2)
        return fail(err, STATUS_UNSUPPORTED, "/reset_prefix_cache answers %d", http_status);
    return s;
}
