/* test_router - routes, methods, keys and cross-origin questions get the answers clients depend on. */
#include "tests/server/http_fixture.h"

#include "server/http_query.h"

#define HEADERS " HTTP/1.1\r\nHost: a\r\n"
#define GET(path) "GET " path HEADERS "\r\n"
#define KEYS "# two keys\n\n  sk-first-key  \r\nsk-second\n"

static void paths_and_ids_are_found(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    static const struct {
        const char *request;
        int status;
        const char *body;
    } cases[] = {
        { GET("/health"), 200, "{}" },
        { GET("/health/"), 200, "{}" },
        { GET("/health?x=1"), 200, "{}" },
        { GET("http://a/health"), 200, "{}" },
        { GET("/items/one"), 200, "one" },
        { GET("/items/org/model"), 200, "org/model" },
        { GET("/items/org%2Fmodel%20b"), 200, "org/model b" },
        { "POST /items/one/copy" HEADERS "Content-Length: 0\r\n\r\n", 200, "one" },
        { "DELETE /items/one" HEADERS "\r\n", 200, "one" },
        { GET("/items/a%00b"), 400, NULL },
        { GET("/items/a%0ab"), 400, NULL },
        { GET("/items/a%zz"), 400, NULL },
        { GET("/items/"), 404, NULL },
        { GET("/items"), 404, NULL },
        { GET("/healthy"), 404, NULL },
        { GET("//health"), 404, NULL },
        { GET("/health//"), 404, NULL },
        { GET("/"), 404, NULL },
        { GET("/query?a=1&q=x%20y+z"), 200, "x y z" },
        { GET("/query?q"), 200, "" },
        { GET("/query?qq=1"), 404, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reply *reply = client_ask(fixture, cases[i].request);
        if (reply->status != cases[i].status)
            fail_msg("%s: %d, expected %d", cases[i].request, reply->status, cases[i].status);
        if (cases[i].body != NULL)
            assert_string_equal(reply->body, cases[i].body);
    }
    fixture_stop(fixture);
}

static void errors_have_the_one_shape(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    struct reply *reply = client_ask(fixture, GET("/none"));
    assert_int_equal(reply->status, 404);
    assert_string_equal(reply->body, "{\"error\":{\"message\":\"there is no such path here\","
                                     "\"type\":\"not_found_error\",\"param\":null,\"code\":null}}");
    assert_non_null(strstr(reply->head, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(reply->head, "\r\nAccess-Control-Allow-Origin: *\r\n"));
    fixture_stop(fixture);
}

static void a_wrong_method_gets_405_with_the_right_ones(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    struct reply *reply = client_ask(fixture, "POST /health" HEADERS "Content-Length: 0\r\n\r\n");
    assert_int_equal(reply->status, 405);
    assert_non_null(strstr(reply->head, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    reply = client_ask(fixture, GET("/echo"));
    assert_int_equal(reply->status, 405);
    assert_non_null(strstr(reply->head, "\r\nAllow: POST, OPTIONS\r\n"));
    reply = client_ask(fixture, "PUT /items/1" HEADERS "\r\n");
    assert_non_null(strstr(reply->head, "\r\nAllow: GET, HEAD, DELETE, OPTIONS\r\n"));
    reply = client_ask(fixture, "CONNECT a:80" HEADERS "\r\n");
    assert_int_equal(reply->status, 404);
    fixture_stop(fixture);
}

static void head_has_the_headers_of_get_and_no_body(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, NULL, NULL);
    static struct reply get, head;
    int fd = client_connect(fixture);
    client_send(fd, "GET /health" HEADERS "x-request-id: i\r\n\r\n");
    client_reply_to(fd, &get, 0);
    client_send(fd, "HEAD /health" HEADERS "x-request-id: i\r\n\r\n" GET("/items/z"));
    client_reply_to(fd, &head, 1);
    assert_string_equal(get.head, head.head);
    struct reply *next = client_reply(fd);
    assert_memory_equal(next->head, "HTTP/1.1 200", 12);    /* right behind: no body was sent */
    assert_string_equal(next->body, "z");
    close(fd);
    fixture_stop(fixture);
}

static void options_is_answered_without_a_key(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, KEYS, NULL);
    struct reply *reply = client_ask(fixture, "OPTIONS /echo" HEADERS "Origin: http://x\r\n"
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,x-foo\r\n\r\n");
    assert_int_equal(reply->status, 204);
    assert_non_null(strstr(reply->head, "\r\nAccess-Control-Allow-Origin: *\r\n"));
    assert_non_null(strstr(reply->head, "\r\nAccess-Control-Allow-Methods: POST, OPTIONS\r\n"));
    assert_non_null(strstr(reply->head, "\r\nAccess-Control-Allow-Headers: authorization,x-foo\r\n"));
    assert_null(strstr(reply->head, "Content-Length"));
    assert_int_equal(client_ask(fixture, "OPTIONS *" HEADERS "\r\n")->status, 204);
    assert_int_equal(client_ask(fixture, "OPTIONS /none" HEADERS "\r\n")->status, 404);
    fixture_stop(fixture);
}

static void everything_but_health_needs_a_key(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, KEYS, NULL);
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        { GET("/health"), 200 },
        { "HEAD /health" HEADERS "\r\n", 200 },
        { GET("/items/1"), 401 },
        { GET("/none"), 401 },
        { "POST /health" HEADERS "\r\n", 401 },
        { "GET /items/1" HEADERS "Authorization: Bearer sk-first-key\r\n\r\n", 200 },
        { "GET /items/1" HEADERS "Authorization: bearer  sk-second\r\n\r\n", 200 },
        { "GET /items/1" HEADERS "X-Api-Key: sk-second\r\n\r\n", 200 },
        { "GET /none" HEADERS "X-Api-Key: sk-second\r\n\r\n", 404 },
        { "GET /items/1" HEADERS "Authorization: Bearer sk-first-ke\r\n\r\n", 401 },
        { "GET /items/1" HEADERS "Authorization: Bearer sk-first-key1\r\n\r\n", 401 },
        { "GET /items/1" HEADERS "Authorization: Bearer \r\n\r\n", 401 },
        { "GET /items/1" HEADERS "Authorization: Basic sk-first-key\r\n\r\n", 401 },
        { "GET /items/1" HEADERS "X-Api-Key: # two keys\r\n\r\n", 401 },
        { "GET /items/1" HEADERS "X-Api-Key:\r\n\r\n", 401 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reply *reply = client_ask(fixture, cases[i].request);
        if (reply->status != cases[i].status)
            fail_msg("%s: %d, expected %d", cases[i].request, reply->status, cases[i].status);
        if (reply->status == 401) {
            assert_non_null(strstr(reply->head, "\r\nWWW-Authenticate: Bearer\r\n"));
            assert_non_null(strstr(reply->body, "authentication_error"));
        }
    }
    fixture_stop(fixture);
}

static void a_body_without_a_key_is_not_read(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(NULL, KEYS, NULL);
    int fd = client_connect(fixture);
    client_send(fd, "POST /echo" HEADERS "Content-Length: 30000000\r\nExpect: 100-continue\r\n\r\n");
    struct reply *reply = client_reply(fd);
    assert_int_equal(reply->status, 401);
    assert_non_null(strstr(reply->head, "Connection: close"));
    assert_true(client_sees_end(fd, 1000));
    close(fd);
    fixture_stop(fixture);
}

static void key_files_are_checked(void **state)
{
    (void)state;
    struct http_auth *auth;
    struct error err;
    assert_int_equal(http_auth_create(&auth, "# nothing\n\n", &err), STATUS_BAD_OPTION);
    char longest[HTTP_AUTH_MAX_KEY_BYTES + 2];
    memset(longest, 'k', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(http_auth_create(&auth, longest, &err), STATUS_BAD_OPTION);
    assert_null(strstr(err.text, "kkk"));
    assert_int_equal(http_auth_load(&auth, "/nonexistent/keys", &err), STATUS_IO);
    assert_int_equal(http_auth_create(&auth, "last-line-without-newline", &err), STATUS_OK);
    assert_true(http_auth_knows(auth, "last-line-without-newline", 25));
    assert_false(http_auth_knows(auth, "last-line-without-newline", 24));
    assert_false(http_auth_knows(auth, "", 0));
    http_auth_destroy(auth);
}

static void every_status_has_its_type_and_retry_advice(void **state)
{
    (void)state;
    assert_string_equal(api_error_type(400), "invalid_request_error");
    assert_string_equal(api_error_type(413), "invalid_request_error");
    assert_string_equal(api_error_type(401), "authentication_error");
    assert_string_equal(api_error_type(404), "not_found_error");
    assert_string_equal(api_error_type(429), "overloaded_error");
    assert_string_equal(api_error_type(503), "unavailable_error");
    assert_string_equal(api_error_type(500), "server_error");
    struct buf out;
    buf_init(&out, 1024);
    struct api_error error = { .status = 400, .message = "a \"quoted\" word", .param = "prompt",
                               .code = "context_length_exceeded", .extra = "\"n_ctx\":4096" };
    assert_int_equal(api_error_write(&out, &error), STATUS_OK);
    assert_string_equal(out.data, "{\"error\":{\"message\":\"a \\\"quoted\\\" word\",\"type\":"
        "\"invalid_request_error\",\"param\":\"prompt\",\"code\":\"context_length_exceeded\","
        "\"n_ctx\":4096}}");
    buf_clear(&out);
}

static void percent_decoding_is_total(void **state)
{
    (void)state;
    char out[8];
    assert_int_equal(http_query_find("a=%41", "a", out, sizeof out), 1);
    assert_string_equal(out, "A");
    assert_int_equal(http_query_find("a=%4", "a", out, sizeof out), -1);
    assert_int_equal(http_query_find("a=%", "a", out, sizeof out), -1);
    assert_int_equal(http_query_find("a=1234567", "a", out, sizeof out), 7);
    assert_int_equal(http_query_find("a=12345678", "a", out, sizeof out), -1);
    assert_int_equal(http_query_find("b=1&a=2&a=3", "a", out, sizeof out), 1);
    assert_string_equal(out, "2");
    assert_int_equal(http_query_find("&&=&a", "a", out, sizeof out), 0);
    assert_int_equal(http_query_find("", "a", out, sizeof out), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_ids_are_found),
        cmocka_unit_test(errors_have_the_one_shape),
        cmocka_unit_test(a_wrong_method_gets_405_with_the_right_ones),
        cmocka_unit_test(head_has_the_headers_of_get_and_no_body),
        cmocka_unit_test(options_is_answered_without_a_key),
        cmocka_unit_test(everything_but_health_needs_a_key),
        cmocka_unit_test(a_body_without_a_key_is_not_read),
        cmocka_unit_test(key_files_are_checked),
        cmocka_unit_test(every_status_has_its_type_and_retry_advice),
        cmocka_unit_test(percent_decoding_is_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
