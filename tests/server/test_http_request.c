/* test_http_request - requests are parsed strictly, within limits, and the same however they are cut. */
#include "server/http_request.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOST "Host: a\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static struct http_request *create(const struct http_limits *limits)
{
    struct http_request *request;
    assert_int_equal(http_request_create(&request, limits, NULL), STATUS_OK);
    return request;
}

/* Feed until the request is final or the bytes are used up; the bytes used. */
static size_t feed_all(struct http_request *request, const char *bytes, size_t n)
{
    size_t used = 0;
    while (used < n) {
        size_t step = http_request_feed(request, bytes + used, n - used);
        used += step;
        if (step == 0)
            break;
    }
    return used;
}

/* 0: complete, -1: needs more, else the status of the refusal. */
static int outcome(const struct http_request *request)
{
    switch (http_request_state(request)) {
    case HTTP_REQUEST_COMPLETE: return 0;
    case HTTP_REQUEST_REFUSED:  return http_request_refusal(request)->status;
    default:                    return -1;
    }
}

struct row {
    const char *bytes;
    int outcome;
    const char *body;           /* when complete */
};

static const struct row rows[] = {
    { "GET / HTTP/1.1\r\n" HOST "\r\n", 0, "" },
    { "\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 0, "" },
    { "GET / HTTP/1.0\r\n\r\n", 0, "" },
    { "GET http://a/b?c HTTP/1.1\r\n" HOST "\r\n", 0, "" },
    { "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 0, "" },
    { "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", 0, "" },
    { POST "Content-Length: 3\r\n\r\nabc", 0, "abc" },
    { POST "Content-Length: 0\r\n\r\n", 0, "" },
    { CHUNKED "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 0, "abcde" },
    { POST "Transfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", 0, "0123456789" },
    { CHUNKED "1;x=y;z=\"w\"\r\na\r\n0\r\n\r\n", 0, "a" },
    { CHUNKED "1\r\na\r\n0\r\nX-T: 1\r\nY: 2\r\n\r\n", 0, "a" },
    { CHUNKED "0\r\n\r\n", 0, "" },
    { POST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nz", 0, "z" },

    /* Where a request ends must not be a matter of opinion. */
    { POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, NULL },
    { POST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400, NULL },
    { POST "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", 400, NULL },
    { POST "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400, NULL },
    { POST "Content-Length: +4\r\n\r\nabcd", 400, NULL },
    { POST "Content-Length: -4\r\n\r\nabcd", 400, NULL },
    { POST "Content-Length: 4 4\r\n\r\nabcd", 400, NULL },
    { POST "Content-Length: 4, 4\r\n\r\nabcd", 400, NULL },
    { POST "Content-Length: 0x4\r\n\r\nabcd", 400, NULL },
    { POST "Content-Length: \r\n\r\nabcd", 400, NULL },
    { POST "Content-Length: 99999999999999999999999\r\n\r\n", 400, NULL },
    { POST "Content-Length : 4\r\n\r\nabcd", 400, NULL },
    { POST " Content-Length: 4\r\n\r\nabcd", 400, NULL },
    { POST "X: y\r\n Content-Length: 4\r\n\r\nabcd", 400, NULL },
    { POST "X: y\r\n\tz\r\n\r\n", 400, NULL },
    { POST "X: y\rContent-Length: 4\r\n\r\nabcd", 400, NULL },
    { "POST / HTTP/1.1\n" HOST "\r\n", 400, NULL },
    { "POST / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400, NULL },
    { POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, NULL },
    { POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400, NULL },
    { POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, NULL },
    { POST "Transfer-Encoding:\x0b" "chunked\r\n\r\n0\r\n\r\n", 400, NULL },
    { "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, NULL },
    { CHUNKED "3\r\nabcXX0\r\n\r\n", 400, NULL },
    { CHUNKED "\r\nabc\r\n0\r\n\r\n", 400, NULL },
    { CHUNKED "3 \r\nabc\r\n0\r\n\r\n", 400, NULL },
    { CHUNKED "3\nabc\r\n0\r\n\r\n", 400, NULL },
    { CHUNKED "-3\r\nabc\r\n0\r\n\r\n", 400, NULL },
    { CHUNKED "0x3\r\nabc\r\n0\r\n\r\n", 400, NULL },
    { CHUNKED "FFFFFFFFFFFFFFFFF\r\n", 400, NULL },
    { CHUNKED "FFFFFFFFFFFFFFFF\r\n", 413, NULL },
    { CHUNKED "1\r\na\r\n0\r\nX\n\r\n", 400, NULL },

    { "GET / HTTP/1.1\r\n\r\n", 400, NULL },
    { "GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400, NULL },
    { POST "Authorization: Bearer a\r\nAUTHORIZATION: Bearer a\r\n\r\n", 400, NULL },
    { POST "X-Api-Key: a\r\nA: b\r\nx-api-key: c\r\n\r\n", 400, NULL },
    { POST "Content-Type: a/b\r\ncontent-type: a/b\r\n\r\n", 400, NULL },
    { POST "Authorization: Bearer a\r\nX-Api-Key: a\r\nAccept: a\r\nAccept: b\r\n\r\n", 0, "" },
    { "GET / HTTP/1.1\r\n" HOST "A\x01: b\r\n\r\n", 400, NULL },
    { "GET / HTTP/1.1\r\n" HOST "A b: c\r\n\r\n", 400, NULL },
    { "GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n", 400, NULL },
    { "GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400, NULL },
    { "GET  / HTTP/1.1\r\n" HOST "\r\n", 400, NULL },
    { "GET /\t HTTP/1.1\r\n" HOST "\r\n", 400, NULL },
    { "GET /a b HTTP/1.1\r\n" HOST "\r\n", 400, NULL },
    { "GET / HTTP/1.1 \r\n" HOST "\r\n", 400, NULL },
    { "GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n", 400, NULL },
    { "GET /\r\n" HOST "\r\n", 400, NULL },
    { " GET / HTTP/1.1\r\n" HOST "\r\n", 400, NULL },
    { "GET / HTTP/1.1\r\n" HOST "Expect: magic\r\n\r\n", 417, NULL },
    { "GET / HTTP/2.0\r\n" HOST "\r\n", 505, NULL },
    { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, NULL },
    { "PRI *? HTTP/1.0\r\n\r\nSM\r\neo\r\n\r\n", 505, NULL },     /* found by fuzzing: was read for ever */
    { "GET / HTTP/9.9\r\n" HOST "\r\n", 505, NULL },
    { "BREW /pot HTTP/1.1\r\n" HOST "\r\n", 405, NULL },
    { "get / HTTP/1.1\r\n" HOST "\r\n", 400, NULL },
    { "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, NULL },
    { "\r\n\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400, NULL },
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static void check_row(size_t i, struct http_request *request, const char *how)
{
    if (outcome(request) != rows[i].outcome)
        fail_msg("row %zu, %s: outcome %d, expected %d (%s)", i, how, outcome(request), rows[i].outcome,
                 rows[i].bytes);
    if (rows[i].outcome != 0)
        return;
    const char *body = http_request_body(request);
    assert_int_equal(http_request_body_bytes(request), strlen(rows[i].body));
    assert_string_equal(body == NULL ? "" : body, rows[i].body);
}

static void every_row_has_its_outcome(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    for (size_t i = 0; i < N_ROWS; i++) {
        struct http_request *request = create(&limits);
        size_t len = strlen(rows[i].bytes);
        size_t used = feed_all(request, rows[i].bytes, len);
        check_row(i, request, "in one piece");
        if (rows[i].outcome == 0)
            assert_int_equal(used, len);
        http_request_destroy(request);
    }
}

static void a_request_is_the_same_byte_by_byte_and_after_a_reset(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    struct http_request *request = create(&limits);
    for (size_t i = 0; i < N_ROWS; i++) {
        for (size_t at = 0; at < strlen(rows[i].bytes) && outcome(request) < 0; at++)
            assert_true(http_request_feed(request, rows[i].bytes + at, 1) <= 1);
        check_row(i, request, "byte by byte");
        http_request_reset(request);
    }
    http_request_destroy(request);
}

static void a_request_is_the_same_in_random_pieces(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    struct http_request *request = create(&limits);
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < 200; round++)
        for (size_t i = 0; i < N_ROWS; i++) {
            size_t len = strlen(rows[i].bytes), at = 0;
            while (at < len && outcome(request) < 0) {
                size_t piece = 1 + rng_below(&rng, 17);
                at += feed_all(request, rows[i].bytes + at, piece < len - at ? piece : len - at);
            }
            check_row(i, request, "in random pieces");
            http_request_reset(request);
        }
    http_request_destroy(request);
}

static void fields_are_what_was_sent(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    struct http_request *request = create(&limits);
    static const char bytes[] = "POST http://h/v1/x%20y?a=1&b=2 HTTP/1.1\r\nHost: h\r\nX-One:  padded \t\r\n"
                                "x-empty:\r\nx-utf: \xc3\xa9\r\nX-ONE: second\r\nContent-Length: 2\r\n\r\nhi";
    assert_int_equal(feed_all(request, bytes, sizeof bytes - 1), sizeof bytes - 1);
    assert_int_equal(outcome(request), 0);
    assert_string_equal(http_request_method(request), "POST");
    assert_string_equal(http_request_path(request), "/v1/x%20y");
    assert_string_equal(http_request_query(request), "a=1&b=2");
    assert_string_equal(http_request_header(request, "x-oNe"), "padded");
    assert_string_equal(http_request_header(request, "X-Empty"), "");
    assert_string_equal(http_request_header(request, "x-utf"), "\xc3\xa9");
    assert_null(http_request_header(request, "x-two"));
    assert_true(http_request_keeps_alive(request));
    http_request_destroy(request);
}

static void keep_alive_follows_version_and_header(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int keeps;
    } cases[] = {
        { "GET / HTTP/1.1\r\n" HOST "\r\n", 1 },
        { "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 0 },
        { "GET / HTTP/1.1\r\n" HOST "Connection: keep-alive, close\r\n\r\n", 0 },
        { "GET / HTTP/1.0\r\n\r\n", 0 },
        { "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 1 },
    };
    struct http_limits limits = http_limits_default();
    struct http_request *request = create(&limits);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        feed_all(request, cases[i].bytes, strlen(cases[i].bytes));
        assert_int_equal(outcome(request), 0);
        assert_int_equal(http_request_keeps_alive(request), cases[i].keeps);
        http_request_reset(request);
    }
    http_request_destroy(request);
}

static void what_follows_a_request_is_left_alone(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    struct http_request *request = create(&limits);
    static const char first[] = CHUNKED "1\r\na\r\n0\r\n\r\n";
    char two[256];
    int n = snprintf(two, sizeof two, "%sGET /second HTTP/1.1\r\n" HOST "\r\n", first);
    assert_int_equal(feed_all(request, two, (size_t)n), sizeof first - 1);
    assert_int_equal(outcome(request), 0);
    http_request_destroy(request);
}

static void long_headers_are_refused_at_the_limit(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    struct http_request *request = create(&limits);
    feed_all(request, "GET / HTTP/1.1\r\nX: ", 19);
    char block[1024];
    memset(block, 'x', sizeof block);
    size_t used = 19;
    for (int i = 0; i < 8192 && outcome(request) < 0; i++)
        used += feed_all(request, block, sizeof block);
    assert_int_equal(outcome(request), 431);
    assert_int_equal(used, limits.max_header_bytes);
    http_request_destroy(request);
}

static void many_tiny_headers_are_refused(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    struct http_request *request = create(&limits);
    feed_all(request, "GET / HTTP/1.1\r\n" HOST, 25);
    for (int i = 0; i < 10000 && outcome(request) < 0; i++)
        feed_all(request, "a:b\r\n", 5);
    feed_all(request, "\r\n", 2);
    assert_int_equal(outcome(request), 431);
    assert_int_equal(http_request_refusal(request)->limit, limits.max_headers);
    http_request_destroy(request);
}

static void a_body_is_counted_however_it_is_framed(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.max_body_bytes = 10;
    struct http_request *request = create(&limits);
    static const struct {
        const char *bytes;
        int outcome;
    } cases[] = {
        { POST "Content-Length: 10\r\n\r\n0123456789", 0 },
        { POST "Content-Length: 11\r\n\r\n", 413 },
        { CHUNKED "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", 0 },
        { CHUNKED "5\r\n01234\r\n6\r\n", 413 },
        { CHUNKED "B\r\n", 413 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        feed_all(request, cases[i].bytes, strlen(cases[i].bytes));
        assert_int_equal(outcome(request), cases[i].outcome);
        http_request_reset(request);
    }
    http_request_destroy(request);
}

static void framing_trailers_and_extensions_are_bounded(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    struct http_request *request = create(&limits);
    static const char head[] = CHUNKED;

    /* One chunk-size line without end: zeros, then an extension. */
    static const char *const starts[] = { "0", "1;x=" };
    for (size_t i = 0; i < 2; i++) {
        feed_all(request, head, sizeof head - 1);
        feed_all(request, starts[i], strlen(starts[i]));
        int n = 0;
        while (outcome(request) < 0 && n < 100000)
            n += (int)feed_all(request, "0", 1);
        assert_int_equal(outcome(request), 400);
        assert_true(n <= 2048);
        http_request_reset(request);
    }

    /* A long extension on every chunk. */
    feed_all(request, head, sizeof head - 1);
    char chunk[1100];
    memset(chunk, 'e', sizeof chunk);
    memcpy(chunk, "1;", 2);
    memcpy(chunk + 900, "\r\na\r\n", 5);
    size_t sent = 0;
    while (outcome(request) < 0 && sent < (8u << 20))
        sent += feed_all(request, chunk, 905);
    assert_int_equal(outcome(request), 400);
    assert_true(sent < 2 * limits.max_header_bytes);
    http_request_reset(request);

    /* Trailers without end. */
    feed_all(request, head, sizeof head - 1);
    feed_all(request, "0\r\n", 3);
    for (int i = 0; i < 100000 && outcome(request) < 0; i++)
        feed_all(request, "t: v\r\n", 6);
    assert_int_equal(outcome(request), 431);
    http_request_reset(request);

    /* One-byte chunks are legal, if foolish. */
    feed_all(request, head, sizeof head - 1);
    for (int i = 0; i < 200000; i++)
        feed_all(request, "1\r\nx\r\n", 6);
    feed_all(request, "0\r\n\r\n", 5);
    assert_int_equal(outcome(request), 0);
    assert_int_equal(http_request_body_bytes(request), 200000);
    http_request_destroy(request);
}

static void nul_bytes_stay_in_a_body_and_not_in_a_head(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    struct http_request *request = create(&limits);
    static const char body[] = POST "Content-Length: 3\r\n\r\na\0b";
    feed_all(request, body, sizeof body - 1);
    assert_int_equal(outcome(request), 0);
    assert_int_equal(http_request_body_bytes(request), 3);
    assert_memory_equal(http_request_body(request), "a\0b", 4);
    http_request_reset(request);
    static const char head[] = "GET /a\0b HTTP/1.1\r\n" HOST "\r\n";
    feed_all(request, head, sizeof head - 1);
    assert_int_equal(outcome(request), 400);
    http_request_destroy(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_its_outcome),
        cmocka_unit_test(a_request_is_the_same_byte_by_byte_and_after_a_reset),
        cmocka_unit_test(a_request_is_the_same_in_random_pieces),
        cmocka_unit_test(fields_are_what_was_sent),
        cmocka_unit_test(keep_alive_follows_version_and_header),
        cmocka_unit_test(what_follows_a_request_is_left_alone),
        cmocka_unit_test(long_headers_are_refused_at_the_limit),
        cmocka_unit_test(many_tiny_headers_are_refused),
        cmocka_unit_test(a_body_is_counted_however_it_is_framed),
        cmocka_unit_test(framing_trailers_and_extensions_are_bounded),
        cmocka_unit_test(nul_bytes_stay_in_a_body_and_not_in_a_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
