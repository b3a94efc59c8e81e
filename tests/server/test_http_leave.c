/* test_http_leave - who leaves, client or server, is noticed once, logged, and leaves nothing behind. */
#include "tests/server/http_fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static int64_t ms_since(int64_t start_ns)
{
    return (clock_now_ns() - start_ns) / 1000000;
}

/* ---- leaving ------------------------------------------------------------------------------------ */

static void a_client_that_leaves_is_noticed_while_its_reply_is_awaited(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    /* Closed, reset, and closed behind read-ahead bytes. */
    for (int how = 0; how < 3; how++) {
        int fd = client_connect(fixture);
        client_send(fd, GET("/hold"));
        fixture_await(&fixture->n_handled, how + 1);
        if (how == 1) {
            struct linger now = { .l_onoff = 1, .l_linger = 0 };
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        } else if (how == 2) {
            client_send(fd, GET("/health") GET("/health"));
        }
        int64_t start = clock_now_ns();
        close(fd);
        fixture_await(&fixture->n_closed, how + 1);
        assert_true(ms_since(start) < 1000);
    }
    assert_int_equal(atomic_load(&fixture->n_handled), 3);      /* what it sent ahead is not served */
    assert_int_equal(fixture_connections(fixture), 0);
    fixture_stop(fixture);
}

static void a_client_that_leaves_is_noticed_while_reading_is_stopped(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.max_pipelined_bytes = 1024;
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, GET("/hold"));
    fixture_await(&fixture->n_handled, 1);
    static char ahead[80 << 10];
    memset(ahead, 'a', sizeof ahead);
    client_send_bytes(fd, ahead, sizeof ahead);
    usleep(50000);
    close(fd);
    fixture_await(&fixture->n_closed, 1);
    fixture_stop(fixture);
}

static void a_finished_reply_reaches_a_client_that_shut_down_its_sending_half(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, GET("/big?n=8192"));
    usleep(50000);
    shutdown(fd, SHUT_WR);
    usleep(50000);
    static char sink[65536];
    size_t total = 0;
    ssize_t n;
    while ((n = client_read(fd, sink, sizeof sink, 2000)) > 0)
        total += (size_t)n;
    assert_int_equal(n, 0);
    assert_true(total > 8192 * 1024);
    close(fd);
    fixture_stop(fixture);
}

static void every_kind_of_end_is_logged_once_and_escaped(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    client_ask(fixture, GET("/query?q=%0d%0aFAKE"));
    client_ask(fixture, GET("/none\"\\x"));
    client_ask(fixture, "GET /health\r\n\r\n");
    int fd = client_connect(fixture);
    client_send(fd, GET("/hold"));
    fixture_await(&fixture->n_handled, 1);
    close(fd);
    fixture_await(&fixture->n_closed, 1);
    fixture_connections(fixture);       /* one more turn of the loop, so that the log is written */
    static const struct {
        const char *text;
        int status, is_aborted;
    } expected[] = {
        { "GET /query?q=%0d%0aFAKE", 200, 0 },
        { "GET /none\\x22\\x5cx", 404, 0 },
        { " ", 400, 0 },
        { "GET /hold", 0, 1 },
    };
    assert_int_equal(fixture->n_log, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(fixture->log[i].text, expected[i].text);
        assert_int_equal(fixture->log[i].status, expected[i].status);
        assert_int_equal(fixture->log[i].is_aborted, expected[i].is_aborted);
    }
    fixture_stop(fixture);
}

static void request_ids_are_echoed_if_sane_else_made(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    struct reply *reply = client_ask(fixture, "GET /health HTTP/1.1\r\nHost: a\r\n"
                                              "X-Request-Id: cmpl-7.a_b:c\r\n\r\n");
    assert_non_null(strstr(reply->head, "\r\nx-request-id: cmpl-7.a_b:c\r\n"));
    reply = client_ask(fixture, "GET /health HTTP/1.1\r\nHost: a\r\nX-Request-Id: a b\"\r\n\r\n");
    assert_null(strstr(reply->head, "a b"));
    char first[64];
    snprintf(first, sizeof first, "%.47s", strstr(reply->head, "\r\nx-request-id: "));
    assert_int_equal(strlen(first), 47);
    reply = client_ask(fixture, GET("/health"));
    assert_null(strstr(reply->head, first));
    fixture_stop(fixture);
}

/* ---- draining -------------------------------------------------------------------------------------- */

static void draining_ends_idle_connections_and_lets_busy_ones_finish(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int idle = client_connect(fixture), busy = client_connect(fixture), stream = client_connect(fixture);
    client_send(idle, GET("/health"));
    assert_int_equal(client_reply(idle)->status, 200);
    client_send(busy, GET("/later?ms=200"));
    client_send(stream, GET("/stream?n=20&ms=10"));
    usleep(30000);
    fixture_do(fixture, ORDER_DRAIN);
    fixture_do(fixture, ORDER_CLOSE_IDLE);
    assert_true(client_sees_end(idle, 500));
    assert_int_equal(client_connect_host(AF_INET, "127.0.0.1", fixture->port), -1);
    struct reply *reply = client_reply(busy);
    assert_string_equal(reply->body, "later");
    assert_non_null(strstr(reply->head, "Connection: close"));
    assert_true(client_sees_end(busy, 500));
    assert_non_null(strstr(client_reply(stream)->body, "[DONE]"));
    assert_true(client_sees_end(stream, 500));
    close(idle);
    close(busy);
    close(stream);
    usleep(20000);
    assert_int_equal(fixture_connections(fixture), 0);
    fixture_stop(fixture);
}

static void destroying_a_busy_server_tells_every_exchange_once(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = client_connect(fixture);
        client_send(fds[i], GET("/hold"));
    }
    fixture_await(&fixture->n_handled, 8);
    fixture_do(fixture, ORDER_STOP);
    pthread_join(fixture->thread, NULL);
    http_server_destroy(fixture->server);
    assert_int_equal(atomic_load(&fixture->n_closed), 8);
    loop_wake_destroy(fixture->wake);
    loop_destroy(fixture->loop);
    router_destroy(fixture->router);
    free(fixture);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
}

static void random_leaving_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char *const requests[] = {
        GET("/hold"), GET("/later?ms=5"), GET("/stream?n=50&ms=1"), GET("/flood?n=4096"), GET("/big?n=2048"),
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf", "GET /hea",
        GET("/later") GET("/hold"),
    };
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    for (int i = 0; i < 400; i++) {
        int fd = client_connect(fixture);
        client_send(fd, requests[i % 8]);
        if (i % 3 == 0)
            usleep((unsigned)(i % 7) * 1000);
        close(fd);
    }
    for (int i = 0; i < 200 && fixture_connections(fixture) > 0; i++)
        usleep(10000);
    assert_int_equal(fixture_connections(fixture), 0);
    assert_int_equal(client_ask(fixture, GET("/health"))->status, 200);
    fixture_stop(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_leaves_is_noticed_while_its_reply_is_awaited),
        cmocka_unit_test(a_client_that_leaves_is_noticed_while_reading_is_stopped),
        cmocka_unit_test(a_finished_reply_reaches_a_client_that_shut_down_its_sending_half),
        cmocka_unit_test(every_kind_of_end_is_logged_once_and_escaped),
        cmocka_unit_test(request_ids_are_echoed_if_sane_else_made),
        cmocka_unit_test(draining_ends_idle_connections_and_lets_busy_ones_finish),
        cmocka_unit_test(destroying_a_busy_server_tells_every_exchange_once),
        cmocka_unit_test(random_leaving_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
