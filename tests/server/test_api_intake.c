/* test_api_intake - long bodies are read beside the loop: the same replies, and nothing left of who has gone. */
#include "server/api_intake.h"
#include "tests/server/api_fixture.h"

/* A body of n bytes of ballast and these members, for free. */
static char *long_body(size_t n, const char *members)
{
    size_t len = n + strlen(members) + 64;
    char *body = malloc(len);
    assert_non_null(body);
    int head = snprintf(body, len, "{%s,\"ballast\":\"", members);
    memset(body + head, 'b', n);
    snprintf(body + (size_t)head + n, len - (size_t)head - n, "\"}");
    return body;
}

/* A body whose reading takes a while: many numbers nobody looks at. */
static char *slow_body(const char *members)
{
    size_t n = (size_t)1 << 18, len = 2 * n + strlen(members) + 64;
    char *body = malloc(len);
    assert_non_null(body);
    char *at = body + snprintf(body, len, "{%s,\"ballast\":[1", members);
    for (size_t i = 0; i < n; i++) {
        *at++ = ',';
        *at++ = '1';
    }
    strcpy(at, "]}");
    return body;
}

static int post_and_free(const struct api_fixture *f, const char *path, char *body)
{
    int fd = client_post(f, path, body);
    free(body);
    return fd;
}

static const struct {
    const char *path, *members, *found;     /* found: in the reply */
    int status;                             /* 0: a request reaches the engine */
} rows[] = {
    { "/v1/completions", "\"prompt\":\"abc\",\"max_tokens\":2", "\"text\":\"x\"", 0 },
    { "/v1/chat/completions", "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stream\":true",
      "\"delta\":{\"content\":\"x\"}", 0 },
    { "/tokenize", "\"prompt\":\"abc\"", "\"tokens\":[97,98,99]", 200 },
    { "/detokenize", "\"tokens\":[97,98]", "\"prompt\":\"ab\"", 200 },
    { "/v1/completions", "\"prompt\":\"abc\",\"n\":0", "\"param\":\"n\"", 400 },
    { "/v1/completions", "\"prompt\":\"abc\",\"model\":\"other\"", "model_not_found", 404 },
    { "/v1/embeddings", "\"input\":[]", "\"param\":\"input\"", 400 },
    { "/v1/completions", "\"prompt\" 7", "not valid JSON", 400 },
};

static void a_long_body_has_the_reply_of_a_short_one(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    static const size_t sizes[] = { 0, API_INTAKE_SHORT_BYTES, (size_t)1 << 20 };
    int n_requests = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t k = 0; k < 3; k++) {
            int fd = post_and_free(f, rows[i].path, long_body(sizes[k], rows[i].members));
            if (rows[i].status == 0) {
                struct request *request = fake_request(f, n_requests++);
                fake_token(f, request, 0, "x");
                fake_end(f, request, 0);
                fake_done(f, request);
            }
            struct reply *reply = client_reply(fd);
            assert_int_equal(reply->status, rows[i].status != 0 ? rows[i].status : 200);
            assert_non_null(strstr(reply->body, rows[i].found));
            close(fd);
        }
    api_fixture_stop(f);
}

static void a_short_body_of_many_prompts_is_one_call(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int n_requests = 0;
    for (int n = API_INTAKE_FEW_PROMPTS; n <= API_INTAKE_FEW_PROMPTS + 1; n++) {
        char body[512] = "{\"prompt\":[\"p\"", last[32];
        for (int i = 1; i < n; i++)
            strcat(body, ",\"p\"");
        int fd = client_post(f, "/v1/completions", strcat(body, "]}"));
        for (int i = 0; i < n; i++) {
            struct request *request = fake_request(f, n_requests++);
            fake_token(f, request, 0, "x");
            fake_end(f, request, 0);
            fake_done(f, request);
        }
        struct reply *reply = client_reply(fd);
        assert_int_equal(reply->status, 200);
        snprintf(last, sizeof last, "{\"index\":%d,", n - 1);
        assert_non_null(strstr(reply->body, last));
        close(fd);
    }
    api_fixture_stop(f);
}

static void a_prompt_that_is_far_too_long_is_refused_with_its_length(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    size_t n = (size_t)1 << 20;
    char *body = malloc(n + 64);
    assert_non_null(body);
    strcpy(body, "{\"prompt\":\"");
    memset(body + 11, 'a', n);
    strcpy(body + 11 + n, "\"}");
    struct reply *reply = client_reply(post_and_free(f, "/v1/completions", body));
    assert_int_equal(reply->status, 400);
    assert_non_null(strstr(reply->body, "context_length_exceeded"));
    assert_non_null(strstr(reply->body, "\"n_prompt_tokens\":1048576"));
    api_fixture_stop(f);
}

static void more_long_bodies_than_workers_are_all_answered(void **state)
{
    (void)state;
    enum { N = 4 * API_INTAKE_WORKERS };
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fds[N];
    for (int i = 0; i < N; i++)
        fds[i] = post_and_free(f, "/tokenize", slow_body("\"prompt\":\"ab\""));
    assert_int_equal(client_get(f, "/livez")->status, 200);
    for (int i = 0; i < N; i++) {
        struct reply *reply = client_reply(fds[i]);
        assert_int_equal(reply->status, 200);
        assert_non_null(strstr(reply->body, "[97,98]"));
        close(fds[i]);
    }
    api_fixture_stop(f);
}

/* Some are being read when they leave, some wait; none of them reaches the engine after that. */
static void a_client_that_leaves_leaves_nothing(void **state)
{
    (void)state;
    enum { N = 3 * API_INTAKE_WORKERS };
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fds[N];
    for (int i = 0; i < N; i++)
        fds[i] = post_and_free(f, "/v1/completions", slow_body("\"prompt\":\"ab\""));
    for (int i = N - 1; i >= 0; i--)
        close(fds[i]);
    api_fixture_await(f, &f->n_active, 0, 0);
    for (int i = 0; i < f->engine.n_requests; i++) {
        /* Read before its client's end was seen: then it is cancelled like any other. */
        await_flag(&f->engine.requests[i]->cancelled, 1);
        fake_done(f, f->engine.requests[i]);
    }
    api_fixture_await(f, &f->n_held, 0, 0);
    assert_int_equal(client_get(f, "/livez")->status, 200);
    api_fixture_stop(f);
}

static void a_drain_that_has_waited_long_enough_ends_them(void **state)
{
    (void)state;
    enum { N = 2 * API_INTAKE_WORKERS };
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fds[N];
    for (int i = 0; i < N; i++)
        fds[i] = post_and_free(f, "/tokenize", slow_body("\"prompt\":\"ab\""));
    api_fixture_await(f, &f->n_active, API_INTAKE_WORKERS + 1, N);
    atomic_store(&f->fail_all, 1);
    loop_wake_send(f->events_wake);
    int n_ended = 0;
    for (int i = 0; i < N; i++) {
        int status = client_reply(fds[i])->status;
        assert_true(status == 503 || status == 200);
        n_ended += status == 503;
        close(fds[i]);
    }
    assert_true(n_ended > 0);
    api_fixture_stop(f);
}

static void the_end_waits_for_what_is_being_read(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = post_and_free(f, "/tokenize", slow_body("\"prompt\":\"ab\""));
    api_fixture_await(f, &f->n_active, 1, 3);
    api_fixture_stop(f);                /* the sanitizers see what a worker would touch after it */
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_body_has_the_reply_of_a_short_one),
        cmocka_unit_test(a_short_body_of_many_prompts_is_one_call),
        cmocka_unit_test(a_prompt_that_is_far_too_long_is_refused_with_its_length),
        cmocka_unit_test(more_long_bodies_than_workers_are_all_answered),
        cmocka_unit_test(a_client_that_leaves_leaves_nothing),
        cmocka_unit_test(a_drain_that_has_waited_long_enough_ends_them),
        cmocka_unit_test(the_end_waits_for_what_is_being_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
