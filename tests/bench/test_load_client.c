/* test_load_client - exchanges survive every way a server sends, splits, delays or breaks a reply. */
#include "base/buf.h"
#include "bench/load_client.h"
#include "bench/load_server.h"
#include "bench/load_vocabulary.h"
#include "tests/bench/scripted_server.h"

#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>
#include <uv.h>

/* One exchange after another with the same client, as a test asks for. */
struct fixture {
    uv_loop_t loop;
    uv_timer_t pause;
    struct load_client *client;
    struct load_exchange exchange;
    int n_left;                 /* exchanges still to be sent */
    uint64_t pause_ms;          /* between them */
    int cancels;                /* at the first byte of the body */
    int n_ends, n_complete;
    int http_status;
    enum load_end end;
    char why[256];
    struct buf body;            /* of the last reply */
};

static void send_next(struct fixture *f)
{
    static const struct load_request_head head = { "POST", "/v1/completions", "text/event-stream" };
    f->n_left--;
    buf_reset(&f->body);
    assert_int_equal(load_client_send(f->client, &f->exchange, &head, "{\"a\":1}", 7, NULL), STATUS_OK);
}

static void on_status(void *context, int http_status, int64_t now_ns)
{
    struct fixture *f = context;
    assert_true(now_ns > 0);
    f->http_status = http_status;
}

static void on_body(void *context, const char *bytes, size_t n, int64_t now_ns)
{
    struct fixture *f = context;
    assert_true(now_ns > 0);
    assert_int_equal(buf_add(&f->body, bytes, n), STATUS_OK);
    if (f->cancels) {
        load_client_cancel(&f->exchange);
        load_client_close(f->client);
        uv_close((uv_handle_t *)&f->pause, NULL);
    }
}

static void on_pause_over(uv_timer_t *timer)
{
    send_next(timer->data);
}

static void on_end(void *context, enum load_end end, const char *why, int64_t now_ns)
{
    struct fixture *f = context;
    assert_true(now_ns > 0);
    f->end = end;
    f->n_ends++;
    f->n_complete += end == LOAD_END_COMPLETE;
    snprintf(f->why, sizeof f->why, "%s", why);
    if (f->n_left == 0) {
        load_client_close(f->client);
        uv_close((uv_handle_t *)&f->pause, NULL);
    } else if (f->pause_ms > 0) {
        uv_timer_start(&f->pause, on_pause_over, f->pause_ms, 0);
    } else {
        send_next(f);
    }
}

static const struct load_exchange_events events = { on_status, on_body, on_end };

/* Run n exchanges against port; the fixture keeps what the last one brought. */
static size_t run(struct fixture *f, const char *host, int port, int n)
{
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->pause);
    f->pause.data = f;
    buf_init(&f->body, 1 << 20);
    struct load_client_options options = {
        .loop = &f->loop, .host = host, .port = port, .api_key = "secret"
    };
    assert_int_equal(load_client_create(&f->client, &options, NULL), STATUS_OK);
    f->exchange = (struct load_exchange){ .events = &events, .context = f };
    f->n_left = n;
    send_next(f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    size_t n_connects = load_client_n_connects(f->client);
    load_client_destroy(f->client);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    return n_connects;
}

/* ---- scripts ---- */

static int serve_json(struct scripted_server *server, int fd, const struct scripted_request *request)
{
    (void)server;
    assert_string_equal(request->method, "POST");
    assert_string_equal(request->path, "/v1/completions");
    assert_string_equal(request->body, "{\"a\":1}");
    assert_non_null(strstr(request->head, "Authorization: Bearer secret\r\n"));
    assert_non_null(strstr(request->head, "Content-Type: application/json\r\n"));
    assert_non_null(strstr(request->head, "Host: 127.0.0.1:"));
    scripted_json(fd, 200, "{\"ok\":true}");
    return 1;
}

/* Send context, a whole reply, in pieces of n_total + 1 bytes. */
static int serve_in_pieces(struct scripted_server *server, int fd, const struct scripted_request *request)
{
    const char *text = server->context;
    size_t n = strlen(text), step = (size_t)request->n_total + 1;
    for (size_t at = 0; at < n; at += step) {
        scripted_send(fd, text + at, n - at < step ? n - at : step);
        if (n / step < 40)      /* let each piece be a read of its own, while there are few */
            scripted_sleep_ms(0.3);
    }
    return 1;
}

/* The first reply promises to stay, then the connection is closed. */
static int serve_once_each(struct scripted_server *server, int fd, const struct scripted_request *request)
{
    (void)server, (void)request;
    scripted_json(fd, 200, "{}");
    return 0;
}

static int serve_text_and_close(struct scripted_server *server, int fd,
                                const struct scripted_request *request)
{
    (void)request;
    scripted_printf(fd, "%s", (const char *)server->context);
    return 0;
}

/* ---- tests ---- */

static void one_socket_serves_many_exchanges(void **state)
{
    (void)state;
    struct scripted_server server = { .serve = serve_json };
    scripted_start(&server);
    struct fixture f = { 0 };
    assert_int_equal(run(&f, "127.0.0.1", server.port, 50), 1);
    assert_int_equal(f.n_complete, 50);
    assert_int_equal(f.http_status, 200);
    assert_string_equal(f.body.data, "{\"ok\":true}");
    scripted_stop(&server);
    buf_clear(&f.body);
}

static void a_reply_may_be_split_at_any_byte(void **state)
{
    (void)state;
    char text[] =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n";
    struct scripted_server server = { .serve = serve_in_pieces, .context = text };
    scripted_start(&server);
    struct fixture f = { 0 };
    run(&f, "127.0.0.1", server.port, (int)strlen(text) + 1);
    assert_int_equal(f.n_complete, (int)strlen(text) + 1);
    assert_int_equal(f.http_status, 200);
    assert_string_equal(f.body.data, "hello world");
    scripted_stop(&server);
    buf_clear(&f.body);
}

static void a_kept_socket_that_went_stale_is_replaced(void **state)
{
    (void)state;
    struct scripted_server server = { .serve = serve_once_each };
    for (int pause_ms = 0; pause_ms <= 20; pause_ms += 20) {
        scripted_start(&server);
        struct fixture f = { .pause_ms = (uint64_t)pause_ms };
        run(&f, "127.0.0.1", server.port, 10);
        assert_int_equal(f.n_complete, 10);
        scripted_stop(&server);
        atomic_store(&server.n_connections, 0);
        buf_clear(&f.body);
    }
}

static void ends_and_faults_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        enum load_end end;
        const char *body;
    } rows[] = {
        { "HTTP/1.1 200 OK\r\n\r\nuntil the end", LOAD_END_COMPLETE, "until the end" },
        { "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", LOAD_END_COMPLETE, "ok" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more", LOAD_END_COMPLETE, "ok" },
        { "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", LOAD_END_COMPLETE, "ok" },
        { "HTTP/1.1 204 No Content\r\n\r\n", LOAD_END_COMPLETE, "" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nshort", LOAD_END_LOST, "short" },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", LOAD_END_LOST, "hello" },
        { "HTTP/1.1 200 OK\r\nContent-Le", LOAD_END_LOST, "" },
        { "", LOAD_END_LOST, "" },
        { "SSH-2.0-OpenSSH\r\n", LOAD_END_PROTOCOL, "" },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", LOAD_END_PROTOCOL, "" },
        { "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", LOAD_END_PROTOCOL, "" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s", rows[i].reply);
        struct scripted_server server = { .serve = serve_text_and_close, .context = text };
        scripted_start(&server);
        struct fixture f = { 0 };
        run(&f, "127.0.0.1", server.port, 1);
        if (f.end != rows[i].end)
            fail_msg("reply %zu ended as %d: %s", i, f.end, f.why);
        assert_int_equal(f.n_ends, 1);
        assert_int_equal(f.why[0] != '\0', rows[i].end != LOAD_END_COMPLETE);
        assert_string_equal(f.body.data != NULL ? f.body.data : "", rows[i].body);
        scripted_stop(&server);
        buf_clear(&f.body);
    }
}

static int serve_endless_header(struct scripted_server *server, int fd,
                                const struct scripted_request *request)
{
    (void)server, (void)request;
    scripted_printf(fd, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 4000; i++)
        scripted_printf(fd, "X-Header-%d: some value or other\r\n", i);
    return 1;
}

static void a_header_without_end_is_refused(void **state)
{
    (void)state;
    struct scripted_server server = { .serve = serve_endless_header };
    scripted_start(&server);
    struct fixture f = { 0 };
    run(&f, "127.0.0.1", server.port, 1);
    assert_int_equal(f.end, LOAD_END_PROTOCOL);
    assert_non_null(strstr(f.why, "64 KiB"));
    scripted_stop(&server);
    buf_clear(&f.body);
}

static void nobody_listening_is_a_failed_connection(void **state)
{
    (void)state;
    struct scripted_server server = { .serve = serve_json };
    scripted_start(&server);
    scripted_stop(&server);     /* its port is free now */
    struct fixture f = { 0 };
    run(&f, "127.0.0.1", server.port, 3);
    assert_int_equal(f.n_ends, 3);
    assert_int_equal(f.end, LOAD_END_CONNECT);
    buf_clear(&f.body);
}

static void a_name_with_several_addresses_finds_the_one_that_listens(void **state)
{
    (void)state;
    struct scripted_server server = { .serve = serve_once_each };   /* listens on IPv4 only */
    scripted_start(&server);
    struct fixture f = { 0 };
    run(&f, "localhost", server.port, 2);
    assert_int_equal(f.n_complete, 2);
    scripted_stop(&server);
    buf_clear(&f.body);
}

static void cancel_closes_the_socket_and_calls_nothing(void **state)
{
    (void)state;
    struct scripted_server server = { .serve = serve_json };
    scripted_start(&server);
    struct fixture f = { .cancels = 1 };
    run(&f, "127.0.0.1", server.port, 1);
    assert_int_equal(f.n_ends, 0);
    assert_null(f.exchange.connection);
    scripted_stop(&server);
    buf_clear(&f.body);
}

/* ---- load_server: the URL, and the calls before a run ---- */

static void urls_of_every_form(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host;
        int port;
        const char *base;
    } rows[] = {
        { "http://127.0.0.1:8080", "127.0.0.1", 8080, "" },
        { "http://host", "host", 80, "" },
        { "host:9/", "host", 9, "" },
        { "http://host:9/v1", "host", 9, "" },
        { "http://host:9/v1/", "host", 9, "" },
        { "http://host:9/a/b/v1", "host", 9, "/a/b" },
        { "http://host/a", "host", 80, "/a" },
        { "http://[::1]:8000/v1", "::1", 8000, "" },
        { "[fe80::2]", "fe80::2", 80, "" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct load_server server;
        assert_int_equal(load_server_parse(&server, rows[i].url, NULL), STATUS_OK);
        assert_string_equal(server.host, rows[i].host);
        assert_int_equal(server.port, rows[i].port);
        assert_string_equal(server.base, rows[i].base);
    }
    static const char *const bad[] = { "https://host", "ftp://host",
                                       "",
                                       "http://",
                                       "http://:80",
                                       "http://h:0",
                                       "http://h:65536",
                                       "http://h:8x",
                                       "http://[::1",
                                       "http://[::1]x",
                                       "http://u@h",
                                       "http://h/a b",
                                       "http://h/?q",
                                       "http://h:99999999999999999999" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct load_server server;
        struct error err = { 0 };
        if (load_server_parse(&server, bad[i], &err) != STATUS_BAD_OPTION)
            fail_msg("%s was accepted", bad[i]);
        assert_true(err.text[0] != '\0');
    }
}

/* Words become ids by their length; context says which routes are there. */
static int serve_routes(struct scripted_server *server, int fd, const struct scripted_request *request)
{
    const char *routes = server->context;
    if (strstr(routes, "models") != NULL && strcmp(request->path, "/base/v1/models") == 0)
        scripted_json(fd, 200, "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\"}]}");
    else if (strstr(routes, "tokenize") != NULL && strcmp(request->path, "/base/tokenize") == 0)
        scripted_json(fd, 200, "{\"tokens\":[5,9,5,7],\"count\":4}");
    else if (strstr(routes, "reset") != NULL && strcmp(request->path, "/base/reset_prefix_cache") == 0)
        scripted_json(fd, 200, "{}");
    else
        scripted_json(fd, 404, "{\"error\":{\"message\":\"no\"}}");
    return 1;
}

static void the_calls_before_a_run(void **state)
{
    (void)state;
    struct scripted_server scripted = { .serve = serve_routes, .context = "models tokenize reset" };
    scripted_start(&scripted);
    struct load_server server = { .host = "127.0.0.1", .port = scripted.port, .base = "/base" };
    char model[64];
    int64_t ids[3];
    size_t n = 0;
    assert_int_equal(load_server_model(&server, model, sizeof model, NULL), STATUS_OK);
    assert_string_equal(model, "tiny");
    assert_int_equal(load_server_tokenize(&server, model, "any \"text\"\n", ids, 3, &n, NULL), STATUS_OK);
    assert_int_equal(n, 4);
    assert_true(ids[0] == 5 && ids[1] == 9 && ids[2] == 5);
    assert_int_equal(load_server_reset_cache(&server, NULL), STATUS_OK);
    struct load_vocabulary v;
    load_vocabulary_init(&v);
    assert_int_equal(load_vocabulary_learn(&v, &server, model, NULL), STATUS_OK);
    assert_int_equal(v.n_ids, 3);       /* distinct */
    assert_true(v.ids[0] == 5 && v.ids[1] == 7 && v.ids[2] == 9);
    load_vocabulary_clear(&v);
    scripted.context = "none";
    assert_int_equal(load_server_model(&server, model, sizeof model, NULL), STATUS_UNSUPPORTED);
    assert_int_equal(load_server_tokenize(&server, model, "x", ids, 3, &n, NULL), STATUS_UNSUPPORTED);
    assert_int_equal(load_vocabulary_learn(&v, &server, model, NULL), STATUS_UNSUPPORTED);
    assert_true(v.ids == NULL && v.tokens_per_word == 1);
    assert_int_equal(load_server_reset_cache(&server, NULL), STATUS_UNSUPPORTED);
    scripted_stop(&scripted);
    struct error err = { 0 };
    assert_int_equal(load_server_model(&server, model, sizeof model, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/v1/models"));
}

static int serve_late(struct scripted_server *server, int fd, const struct scripted_request *request)
{
    (void)server, (void)request;
    scripted_sleep_ms(300);
    scripted_json(fd, 200, "{}");
    return 1;
}

static void a_call_has_a_time_limit_and_a_size_limit(void **state)
{
    (void)state;
    struct scripted_server scripted = { .serve = serve_late };
    scripted_start(&scripted);
    struct load_server server = { .host = "127.0.0.1", .port = scripted.port };
    struct load_call call = { .method = "GET", .path = "/x", .timeout_ns = 30000000 };
    struct buf reply;
    buf_init(&reply, 100);
    int http_status = 0;
    assert_int_equal(load_server_call(&server, &call, &http_status, &reply, NULL), STATUS_TIMED_OUT);
    buf_clear(&reply);
    buf_init(&reply, 1);
    call.timeout_ns = 5000000000;
    assert_int_equal(load_server_call(&server, &call, &http_status, &reply, NULL), STATUS_TOO_LARGE);
    buf_clear(&reply);
    scripted_stop(&scripted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_socket_serves_many_exchanges),
        cmocka_unit_test(a_reply_may_be_split_at_any_byte),
        cmocka_unit_test(a_kept_socket_that_went_stale_is_replaced),
        cmocka_unit_test(ends_and_faults_are_told_apart),
        cmocka_unit_test(a_header_without_end_is_refused),
        cmocka_unit_test(nobody_listening_is_a_failed_connection),
        cmocka_unit_test(a_name_with_several_addresses_finds_the_one_that_listens),
        cmocka_unit_test(cancel_closes_the_socket_and_calls_nothing),
        cmocka_unit_test(urls_of_every_form),
        cmocka_unit_test(the_calls_before_a_run),
        cmocka_unit_test(a_call_has_a_time_limit_and_a_size_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
