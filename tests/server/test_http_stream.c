/* test_http_stream - streamed replies: framing, one event a write, back-pressure, slow readers. */
#include "tests/server/http_fixture.h"

#define MS(n) ((int64_t)(n) * 1000000)
#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static void a_stream_is_chunked_and_the_connection_lives_on(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    for (int i = 0; i < 3; i++) {
        client_send(fd, GET("/stream?n=2"));
        struct reply *reply = client_reply(fd);
        assert_int_equal(reply->status, 200);
        assert_non_null(strstr(reply->head, "\r\nContent-Type: text/event-stream\r\n"));
        assert_non_null(strstr(reply->head, "\r\nCache-Control: no-cache\r\n"));
        assert_non_null(strstr(reply->head, "\r\nX-Accel-Buffering: no\r\n"));
        assert_non_null(strstr(reply->head, "\r\nTransfer-Encoding: chunked\r\n"));
        assert_null(strstr(reply->head, "Content-Length"));
        assert_string_equal(reply->body, "f\r\ndata: {\"i\":0}\n\n\r\nf\r\ndata: {\"i\":1}\n\n\r\n"
                                         "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    }
    close(fd);
    fixture_stop(fixture);
}

static void an_old_client_gets_a_stream_that_ends_with_the_connection(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, "GET /stream?n=1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    struct reply *reply = client_reply(fd);
    assert_null(strstr(reply->head, "chunked"));
    assert_non_null(strstr(reply->head, "Connection: close"));
    assert_string_equal(reply->body, "data: {\"i\":0}\n\ndata: [DONE]\n\n");
    close(fd);
    fixture_stop(fixture);
}

static void a_head_request_gets_the_head_of_the_stream_only(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    static struct reply reply;
    int fd = client_connect(fixture);
    client_send(fd, "HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n" GET("/health"));
    client_reply_to(fd, &reply, 1);
    assert_non_null(strstr(reply.head, "text/event-stream"));
    client_reply_to(fd, &reply, 0);
    assert_string_equal(reply.body, "{}");
    close(fd);
    fixture_stop(fixture);
}

static void each_event_arrives_by_itself(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, GET("/stream?n=5&ms=20"));
    char bytes[1024];
    ssize_t n = client_read(fd, bytes, sizeof bytes, 1000);
    assert_true(n > 0 && memcmp(bytes + n - 4, "\r\n\r\n", 4) == 0);        /* the head, alone */
    for (int i = 0; i < 4; i++) {
        n = client_read(fd, bytes, sizeof bytes, 1000);
        char expected[40];
        int len = snprintf(expected, sizeof expected, "f\r\ndata: {\"i\":%d}\n\n\r\n", i);
        assert_int_equal(n, len);
        assert_memory_equal(bytes, expected, (size_t)len);
    }
    close(fd);
    fixture_stop(fixture);
}

static void a_reader_that_leaves_is_noticed(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture), other = client_connect(fixture);
    client_send(other, GET("/stream?n=20&ms=10"));
    client_send(fd, GET("/stream?n=100000&ms=10"));
    char byte;
    assert_int_equal(client_read(fd, &byte, 1, 1000), 1);
    int64_t start = clock_now_ns();
    close(fd);
    fixture_await(&fixture->n_closed, 1);
    assert_true(clock_now_ns() - start < MS(1000));
    struct reply *reply = client_reply(other);          /* the other stream does not notice */
    assert_true(reply->is_whole);
    assert_non_null(strstr(reply->body, "{\"i\":19}"));
    assert_int_equal(atomic_load(&fixture->n_closed), 1);
    close(other);
    fixture_stop(fixture);
}

static void a_reader_that_stalls_is_dropped(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.stall_timeout_ns = MS(300);
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int fd = client_connect(fixture);
    int64_t start = clock_now_ns();
    client_send(fd, GET("/flood?n=16384"));
    fixture_await(&fixture->n_closed, 1);
    int64_t took = clock_now_ns() - start;
    assert_true(took > MS(280) && took < MS(3000));
    close(fd);
    fixture_stop(fixture);
}

static void a_slow_reader_is_not_dropped_and_drains(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.stall_timeout_ns = MS(300);
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, GET("/flood?n=16384"));
    static char sink[1 << 20];
    size_t total = 0;
    ssize_t n;
    /* Slower in all than the stall timeout, but never without progress. */
    while ((n = client_read(fd, sink, sizeof sink, 1000)) > 0) {
        total += (size_t)n;
        if (memcmp(sink + n - 5, "0\r\n\r\n", 5) == 0)
            break;
        usleep(total < (8u << 20) ? 50000 : 0);
    }
    assert_true(total > 16384u * 1024);
    assert_int_equal(atomic_load(&fixture->n_drained), 1);
    assert_int_equal(atomic_load(&fixture->n_closed), 0);
    close(fd);
    fixture_stop(fixture);
}

static void a_reader_too_far_behind_is_dropped(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.max_pending_bytes = 1 << 20;
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, GET("/flood?n=65536"));
    fixture_await(&fixture->n_closed, 1);
    close(fd);
    fixture_stop(fixture);
}

static void a_fixed_reply_over_the_limit_becomes_500(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.max_pending_bytes = 1 << 20;
    struct fixture *fixture = fixture_start(&limits, NULL, NULL);
    struct reply *reply = client_ask(fixture, GET("/big?n=2048"));
    assert_int_equal(reply->status, 500);
    assert_non_null(strstr(reply->body, "max_pending_bytes"));
    fixture_stop(fixture);
}

static void a_big_fixed_reply_arrives_whole_at_a_slow_reader(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    int fd = client_connect(fixture);
    client_send(fd, GET("/big?n=20480") GET("/health"));
    usleep(100000);
    static char sink[1 << 20];
    size_t total = 0;
    ssize_t n;
    while ((n = client_read(fd, sink, sizeof sink, 1000)) > 0) {
        total += (size_t)n;
        if (n >= 2 && memcmp(sink + n - 2, "{}", 2) == 0)
            break;              /* the pipelined reply behind it */
    }
    assert_true(total > 20480u * 1024 && total < 20480u * 1024 + 1000);
    close(fd);
    fixture_stop(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_is_chunked_and_the_connection_lives_on),
        cmocka_unit_test(an_old_client_gets_a_stream_that_ends_with_the_connection),
        cmocka_unit_test(a_head_request_gets_the_head_of_the_stream_only),
        cmocka_unit_test(each_event_arrives_by_itself),
        cmocka_unit_test(a_reader_that_leaves_is_noticed),
        cmocka_unit_test(a_reader_that_stalls_is_dropped),
        cmocka_unit_test(a_slow_reader_is_not_dropped_and_drains),
        cmocka_unit_test(a_reader_too_far_behind_is_dropped),
        cmocka_unit_test(a_fixed_reply_over_the_limit_becomes_500),
        cmocka_unit_test(a_big_fixed_reply_arrives_whole_at_a_slow_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
