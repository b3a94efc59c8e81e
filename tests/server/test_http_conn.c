/* test_http_conn - a real server keeps order, limits and time against well-behaved and hostile clients. */
#include "tests/server/http_fixture.h"

#include <sys/time.h>

#define MS(n) ((int64_t)(n) * 1000000)
#define POST "POST /echo HTTP/1.1\r\nHost: a\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static int64_t ms_since(int64_t start_ns)
{
    return (clock_now_ns() - start_ns) / 1000000;
}

static void assert_error(const struct reply *reply, int status, const char *type)
{
    assert_int_equal(reply->status, status);
    assert_true(reply->is_whole);
    assert_non_null(strstr(reply->head, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(reply->head, "\r\nx-request-id: "));
    assert_non_null(strstr(reply->body, "{\"error\":{\"message\":\""));
    assert_non_null(strstr(reply->body, type));
}

/* ---- keep-alive and order --------------------------------------------------------------- */

static void one_connection_serves_many_requests(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    for (int i = 0; i < 100; i++) {
        assert_true(client_send(fd, GET("/health")));
        struct reply *reply = client_reply(fd);
        assert_int_equal(reply->status, 200);
        assert_string_equal(reply->body, "{}");
        assert_null(strstr(reply->head, "Connection: close"));
    }
    assert_int_equal(fixture_connections(fixture), 1);
    close(fd);
    fixture_stop(fixture);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    /* The first replies last; the others wait behind it. */
    assert_true(client_send(fd, GET("/later?ms=80") GET("/items/1") GET("/later?ms=1") GET("/items/2")
                            POST "Content-Length: 3\r\n\r\nend"));
    static const char *const bodies[] = { "later", "1", "later", "2", "end" };
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(client_reply(fd)->body, bodies[i]);
    close(fd);
    fixture_stop(fixture);
}

static void a_thousand_pipelined_requests_in_one_write_are_answered(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    static const char request[] = GET("/items/7");
    static char all[1000 * sizeof request];
    size_t n = 0;
    for (int i = 0; i < 1000; i++, n += sizeof request - 1)
        memcpy(all + n, request, sizeof request - 1);
    assert_true(client_send_bytes(fd, all, n));
    for (int i = 0; i < 1000; i++)
        assert_string_equal(client_reply(fd)->body, "7");
    close(fd);
    fixture_stop(fixture);
}

static void reading_ahead_stops_at_its_limit_and_goes_on(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.max_pipelined_bytes = 4096;
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int fd = client_connect(fixture);
    struct timeval patience = { .tv_usec = 300000 };
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    assert_true(client_send(fd, GET("/later?ms=1500")));
    /* Far more than the server and the kernel between us take while the first reply is awaited. */
    char block[16384];
    memset(block, 'x', sizeof block);
    size_t len = 32 << 20, sent = 0;
    char head[100];
    snprintf(head, sizeof head, POST "Content-Length: %zu\r\n\r\n", len);
    assert_true(client_send(fd, head));
    ssize_t n;
    while (sent < len && (n = send(fd, block, sizeof block, MSG_NOSIGNAL)) > 0)
        sent += (size_t)n;
    assert_true(sent < len);
    assert_string_equal(client_reply(fd)->body, "later");
    patience = (struct timeval){ .tv_sec = 10 };
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    while (sent < len) {
        size_t rest = len - sent < sizeof block ? len - sent : sizeof block;
        assert_true(client_send_bytes(fd, block, rest));
        sent += rest;
    }
    char first[12] = "";
    assert_int_equal(client_read(fd, first, 12, 5000), 12);
    assert_memory_equal(first, "HTTP/1.1 200", 12);
    close(fd);
    fixture_stop(fixture);
}

static void close_is_announced_and_done(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    static const char *const requests[] = {
        "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /health HTTP/1.0\r\n\r\n",
    };
    for (size_t i = 0; i < 2; i++) {
        int fd = client_connect(fixture);
        client_send(fd, requests[i]);
        struct reply *reply = client_reply(fd);
        assert_int_equal(reply->status, 200);
        assert_non_null(strstr(reply->head, "\r\nConnection: close\r\n"));
        assert_true(client_sees_end(fd, 1000));
        close(fd);
    }
    int fd = client_connect(fixture);
    client_send(fd, "GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_non_null(strstr(client_reply(fd)->head, "\r\nConnection: keep-alive\r\n"));
    client_send(fd, GET("/health"));
    assert_int_equal(client_reply(fd)->status, 200);
    close(fd);
    fixture_stop(fixture);
}

static void a_request_byte_by_byte_is_answered(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture), on = 1;
    setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
    for (const char *c = POST "Transfer-Encoding: chunked\r\n\r\n"
                         "3\r\nabc\r\n2;e=1\r\nde\r\n0\r\nTrailer: x\r\n\r\n"; *c != '\0'; c++) {
        assert_true(client_send_bytes(fd, c, 1));
        usleep(200);
    }
    struct reply *reply = client_reply(fd);
    assert_int_equal(reply->status, 200);
    assert_string_equal(reply->body, "abcde");
    client_send(fd, GET("/health"));        /* trailers do not end the connection */
    assert_int_equal(client_reply(fd)->status, 200);
    close(fd);
    fixture_stop(fixture);
}

/* ---- limits ------------------------------------------------------------------------------- */

static void a_smuggled_request_is_never_answered(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET("/health"));
    struct reply *reply = client_reply(fd);
    assert_error(reply, 400, "invalid_request_error");
    assert_non_null(strstr(reply->head, "Connection: close"));
    assert_true(client_sees_end(fd, 1000));
    assert_int_equal(atomic_load(&fixture->n_handled), 0);
    close(fd);
    fixture_stop(fixture);
}

static void a_chunked_body_over_the_limit_gets_413_and_a_close(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.max_body_bytes = 1 << 20;
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, POST "Transfer-Encoding: chunked\r\n\r\n");
    static char chunk[8 + 65536 + 2];
    int n = snprintf(chunk, sizeof chunk, "10000\r\n");
    memset(chunk + n, 'a', 65536);
    memcpy(chunk + n + 65536, "\r\n", 2);
    /* A client that sends everything first, 16 times too much, still reads the reply. */
    for (int i = 0; i < 256; i++)
        assert_true(client_send_bytes(fd, chunk, (size_t)n + 65538));
    struct reply *reply = client_reply(fd);
    assert_error(reply, 413, "invalid_request_error");
    assert_non_null(strstr(reply->body, "1048576"));
    assert_non_null(strstr(reply->head, "Connection: close"));
    assert_int_equal(atomic_load(&fixture->n_handled), 0);
    close(fd);
    fixture_stop(fixture);
}

static void a_length_over_the_limit_gets_413_at_once(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    assert_error(client_ask(fixture, POST "Content-Length: 33554433\r\n\r\n"), 413,
                 "invalid_request_error");
    assert_error(client_ask(fixture, POST "Expect: 100-continue\r\n"
                                     "Content-Length: 33554433\r\n\r\n"), 413, "invalid_request_error");
    fixture_stop(fixture);
}

static void all_bodies_together_are_bounded(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.max_total_body_bytes = 1 << 20;
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    static char half[600 << 10];
    int one = client_connect(fixture), two = client_connect(fixture);
    static const char head[] = POST "Content-Length: 700000\r\n\r\n";
    client_send(one, head);
    client_send_bytes(one, half, sizeof half);
    usleep(50000);
    client_send(two, head);
    client_send_bytes(two, half, sizeof half);
    struct reply *reply = client_reply(two);
    assert_error(reply, 503, "unavailable_error");
    assert_non_null(strstr(reply->head, "\r\nRetry-After: 1\r\n"));
    close(two);
    usleep(50000);
    client_send_bytes(one, half, 700000 - sizeof half);     /* the first is not hurt */
    static char sink[700000];
    size_t got = 0;
    ssize_t n;
    while (got < 700000 && (n = client_read(one, sink, sizeof sink, 2000)) > 0)
        got += (size_t)n;
    assert_true(got >= 700000);
    two = client_connect(fixture);                  /* while the first idles on its connection */
    client_send(two, head);
    client_send_bytes(two, half, sizeof half);
    usleep(50000);
    client_send_bytes(two, half, 700000 - sizeof half);
    assert_int_equal(client_reply(two)->status, 200);
    close(one);
    close(two);
    fixture_stop(fixture);
}

static void an_8_mib_header_gets_431(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, "GET /health HTTP/1.1\r\nHost: a\r\nX: ");
    char block[1024];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 8192 && client_send_bytes(fd, block, sizeof block); i++)
        continue;
    assert_error(client_reply(fd), 431, "invalid_request_error");
    close(fd);
    fixture_stop(fixture);
}

static void ten_thousand_tiny_headers_get_431(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, "GET /health HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 10000; i++)
        client_send(fd, "a:b\r\n");
    client_send(fd, "\r\n");
    struct reply *reply = client_reply(fd);
    assert_error(reply, 431, "invalid_request_error");
    assert_non_null(strstr(reply->body, "limit 100"));
    close(fd);
    fixture_stop(fixture);
}

static void expectations_are_met_or_refused(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, POST "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
    struct reply *reply = client_reply(fd);
    assert_int_equal(reply->status, 100);
    client_send(fd, "ok");
    reply = client_reply(fd);
    assert_int_equal(reply->status, 200);
    assert_string_equal(reply->body, "ok");
    close(fd);
    assert_error(client_ask(fixture, POST "Expect: tea\r\nContent-Length: 2\r\n\r\n"),
                 417, "invalid_request_error");
    fixture_stop(fixture);
}

static void an_unknown_method_gets_405_with_allow(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    struct reply *reply = client_ask(fixture, "BREW /health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_error(reply, 405, "invalid_request_error");
    assert_non_null(strstr(reply->head, "\r\nAllow: GET"));
    fixture_stop(fixture);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void a_head_that_never_ends_gets_408(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.header_timeout_ns = MS(200);
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int fd = client_connect(fixture);
    int64_t start = clock_now_ns();
    client_send(fd, "GET /health HTTP/1.1\r\n");
    char byte;
    /* A byte every 20 ms does not buy more time. */
    while (client_read(fd, &byte, 0, 20) == -2 && ms_since(start) < 3000)
        client_send(fd, "X");
    assert_in_range(ms_since(start), 190, 2000);
    assert_error(client_reply(fd), 408, "timeout_error");
    close(fd);
    fixture_stop(fixture);
}

static void a_body_that_stops_or_trickles_gets_408(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.body_timeout_ns = MS(200);
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    for (int trickles = 0; trickles < 2; trickles++) {
        int fd = client_connect(fixture);
        int64_t start = clock_now_ns();
        client_send(fd, POST "Content-Length: 1000\r\n\r\nabc");
        char byte;
        while (client_read(fd, &byte, 0, 20) == -2 && ms_since(start) < 3000)
            if (trickles)
                client_send(fd, "x");
        assert_in_range(ms_since(start), 190, 2000);
        assert_error(client_reply(fd), 408, "timeout_error");
        close(fd);
    }
    fixture_stop(fixture);
}

static void an_idle_connection_is_closed_silently_after_its_time(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.keep_alive_ns = MS(300);
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int fd = client_connect(fixture);
    int silent = client_connect(fixture);
    usleep(100000);
    client_send(fd, GET("/health"));
    assert_int_equal(client_reply(fd)->status, 200);
    int64_t start = clock_now_ns();
    assert_true(client_sees_end(fd, 3000));
    assert_in_range(ms_since(start), 280, 2000);
    assert_true(client_sees_end(silent, 1000));
    close(fd);
    close(silent);
    fixture_stop(fixture);
}

static void a_default_connection_outlives_75_idle_seconds(void **state)
{
    (void)state;
    assert_true(http_limits_default().keep_alive_ns >= HTTP_SECONDS(75));
}

static void slow_clients_do_not_keep_others_out(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.max_connections = 32;
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int holders[64];
    for (int i = 0; i < 64; i++) {
        holders[i] = client_connect(fixture);       /* open and silent: the oldest make room */
        usleep(500);
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(client_ask(fixture, GET("/health"))->status, 200);
    assert_true(fixture_connections(fixture) <= 33);
    for (int i = 0; i < 64; i++)
        close(holders[i]);
    fixture_stop(fixture);
}

static void one_connection_too_many_gets_503(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.max_connections = 4;
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int busy[4];
    for (int i = 0; i < 4; i++) {
        busy[i] = client_connect(fixture);
        client_send(busy[i], GET("/hold"));
    }
    fixture_await(&fixture->n_handled, 4);
    struct reply *reply = client_ask(fixture, GET("/health"));
    assert_error(reply, 503, "unavailable_error");
    assert_non_null(strstr(reply->head, "\r\nRetry-After: 1\r\n"));
    assert_non_null(strstr(reply->body, "limit 4"));
    for (int i = 0; i < 4; i++)
        close(busy[i]);
    fixture_await(&fixture->n_closed, 4);
    usleep(20000);
    assert_int_equal(client_ask(fixture, GET("/health"))->status, 200);
    fixture_stop(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_connection_serves_many_requests),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(a_thousand_pipelined_requests_in_one_write_are_answered),
        cmocka_unit_test(reading_ahead_stops_at_its_limit_and_goes_on),
        cmocka_unit_test(close_is_announced_and_done),
        cmocka_unit_test(a_request_byte_by_byte_is_answered),
        cmocka_unit_test(a_smuggled_request_is_never_answered),
        cmocka_unit_test(a_chunked_body_over_the_limit_gets_413_and_a_close),
        cmocka_unit_test(a_length_over_the_limit_gets_413_at_once),
        cmocka_unit_test(all_bodies_together_are_bounded),
        cmocka_unit_test(an_8_mib_header_gets_431),
        cmocka_unit_test(ten_thousand_tiny_headers_get_431),
        cmocka_unit_test(expectations_are_met_or_refused),
        cmocka_unit_test(an_unknown_method_gets_405_with_allow),
        cmocka_unit_test(a_head_that_never_ends_gets_408),
        cmocka_unit_test(a_body_that_stops_or_trickles_gets_408),
        cmocka_unit_test(an_idle_connection_is_closed_silently_after_its_time),
        cmocka_unit_test(a_default_connection_outlives_75_idle_seconds),
        cmocka_unit_test(slow_clients_do_not_keep_others_out),
        cmocka_unit_test(one_connection_too_many_gets_503),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
