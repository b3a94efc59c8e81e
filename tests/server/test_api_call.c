/* test_api_call - calls between clients and the engine: failures, refusals, clients that leave or stall. */
#include "tests/server/api_fixture.h"

#include <jansson.h>

#define STREAM_BODY "{\"prompt\":\"abc\",\"max_tokens\":5,\"stream\":true}"
#define PLAIN_BODY  "{\"prompt\":\"abc\",\"max_tokens\":5}"

/* The member of the error in a body that is JSON alone; a copy that lives until the next call. */
static const char *error_member(const char *body, const char *name)
{
    static char text[400];
    json_t *json = json_loads(body, 0, NULL);
    assert_non_null(json);
    const char *value = json_string_value(json_object_get(json_object_get(json, "error"), name));
    snprintf(text, sizeof text, "%s", value != NULL ? value : "(null)");
    json_decref(json);
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* ---- failures ---- */

static void a_failure_before_the_first_event_has_its_own_status(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    static const char *const bodies[] = { PLAIN_BODY, STREAM_BODY };
    for (int i = 0; i < 2; i++) {
        int fd = client_post(f, "/v1/completions", bodies[i]);
        fake_failure(f, fake_request(f, i), STATUS_INTERNAL);
        struct reply *reply = client_reply(fd);
        assert_int_equal(reply->status, 500);
        assert_non_null(strstr(reply->head, "x-should-retry: false"));
        assert_non_null(strstr(reply->head, "Content-Type: application/json"));
        assert_string_equal(error_member(reply->body, "message"), "a logit is not finite");
        assert_string_equal(error_member(reply->body, "type"), "server_error");
        close(fd);
    }
    assert_int_equal(client_get(f, "/livez")->status, 200);
    api_fixture_stop(f);
}

static void a_failure_inside_a_stream_is_an_event_and_ends_it(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fd = client_post(f, "/v1/completions", STREAM_BODY);
    struct request *request = fake_request(f, 0);
    fake_token(f, request, 0, "x");
    fake_failure(f, request, STATUS_INTERNAL);
    struct reply *reply = client_reply(fd);
    assert_int_equal(reply->status, 200);
    assert_true(reply->is_whole);
    assert_int_equal(count(reply->body, "data: {\"error\":{\"message\":\"a logit is not finite\",\"type\":"
                                        "\"server_error\",\"param\":null,\"code\":null}}\n\n"), 1);
    const char *end = "data: [DONE]\n\n\r\n0\r\n\r\n";
    assert_string_equal(reply->body + reply->body_len - strlen(end), end);
    close(fd);
    api_fixture_stop(f);
}

static void one_failed_prompt_fails_the_call_and_cancels_the_others(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fd = client_post(f, "/v1/completions", "{\"prompt\":[\"a\",\"b\",\"c\"]}");
    struct request *a = fake_request(f, 0), *b = fake_request(f, 1), *c = fake_request(f, 2);
    fake_failure(f, b, STATUS_INTERNAL);
    assert_int_equal(client_reply(fd)->status, 500);
    await_flag(&a->cancelled, 1);
    await_flag(&c->cancelled, 1);
    fake_token(f, a, 0, "x");           /* late events are swallowed */
    fake_failure(f, a, STATUS_CANCELLED);
    fake_done(f, c);
    close(fd);
    api_fixture_stop(f);
}

static void a_call_of_which_a_part_is_refused_is_refused_whole(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    f->engine.room = 2;
    int fd = client_post(f, "/v1/completions", "{\"prompt\":[\"a\",\"b\",\"c\",\"d\"],\"stream\":true}");
    struct request *a = fake_request(f, 0), *b = fake_request(f, 1);
    struct reply *reply = client_reply(fd);
    assert_int_equal(reply->status, 429);
    assert_non_null(strstr(reply->head, "Retry-After: 1\r\n"));
    assert_string_equal(error_member(reply->body, "type"), "overloaded_error");
    await_flag(&a->cancelled, 1);
    await_flag(&b->cancelled, 1);
    assert_true(atomic_load(&f->engine.n_nudges) > 0);
    fake_done(f, a);
    fake_done(f, b);
    close(fd);
    api_fixture_stop(f);
}

static void a_refused_call_holds_nothing(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    atomic_store(&f->engine.is_draining, 1);
    int fd = client_post(f, "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
    struct reply *reply = client_reply(fd);
    assert_int_equal(reply->status, 503);
    assert_non_null(strstr(reply->head, "Retry-After: 1\r\n"));
    assert_string_equal(error_member(reply->body, "type"), "unavailable_error");
    close(fd);
    api_fixture_stop(f);
}

static void all_calls_can_be_ended_with_a_sentence(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int plain = client_post(f, "/v1/completions", PLAIN_BODY);
    struct request *a = fake_request(f, 0);
    int stream = client_post(f, "/v1/completions", STREAM_BODY);
    struct request *b = fake_request(f, 1);
    static struct reply reply;
    char byte;
    fake_token(f, b, 0, "x");
    assert_int_equal(client_read(stream, &byte, 1, 2000), 1);       /* it has begun */
    atomic_store(&f->fail_all, 1);
    loop_wake_send(f->events_wake);
    client_reply_to(plain, &reply, 0);
    assert_int_equal(reply.status, 503);
    assert_string_equal(error_member(reply.body, "message"), "the server is shutting down");
    client_reply_to(stream, &reply, 0);
    assert_int_equal(count(reply.body, "{\"error\":{\"message\":\"the server is shutting down\""), 1);
    assert_int_equal(count(reply.body, "data: [DONE]\n\n"), 1);
    await_flag(&a->cancelled, 1);
    await_flag(&b->cancelled, 1);
    fake_done(f, a);
    fake_done(f, b);
    close(plain);
    close(stream);
    api_fixture_stop(f);
}

/* ---- the beginning of a stream ---- */

static void nothing_is_sent_before_the_first_token(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fd = client_post(
        f, "/v1/chat/completions",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stream\":true,\"max_tokens\":4}");
    struct request *request = fake_request(f, 0);
    char bytes[4096];
    assert_int_equal(client_read(fd, bytes, sizeof bytes, 100), -2);
    fake_token(f, request, 0, "x");
    ssize_t n = client_read(fd, bytes, sizeof bytes - 1, 2000);
    for (int i = 0; i < 10 && n > 0 && memmem(bytes, (size_t)n, "\"content\":\"x\"", 13) == NULL; i++)
        n += client_read(fd, bytes + n, sizeof bytes - 1 - (size_t)n, 2000);
    bytes[n] = '\0';
    /* The role and the first content are in one write: one chunk of HTTP's framing. */
    const char *role = strstr(bytes, "\"role\":\"assistant\""), *content = strstr(bytes, "\"content\":\"x\"");
    assert_true(role != NULL && content != NULL && role < content);
    *strstr(role, "\"content\":\"x\"") = '\0';
    assert_null(strstr(role, "\r\n"));
    fake_end(f, request, 0);
    fake_done(f, request);
    client_reply(fd);
    close(fd);
    api_fixture_stop(f);
}

static void a_silent_stream_gets_a_comment_and_then_its_events(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 1000000, NULL);
    int fd = client_post(f, "/v1/completions", STREAM_BODY);
    struct request *request = fake_request(f, 0);
    int plain = client_post(f, "/v1/completions", PLAIN_BODY);
    struct request *other = fake_request(f, 1);
    sleep(2);
    fake_failure(f, request, STATUS_INTERNAL);          /* the head is gone: the error is an event */
    fake_failure(f, other, STATUS_INTERNAL);
    struct reply *reply = client_reply(fd);
    assert_int_equal(reply->status, 200);
    const char *body = strstr(reply->body, "\r\n") + 2;
    assert_memory_equal(body, ": ", 2);
    assert_non_null(strstr(reply->body, "data: {\"error\""));
    assert_non_null(strstr(reply->body, "data: [DONE]\n\n"));
    assert_int_equal(client_reply(plain)->status, 500); /* a whole reply gets no comments */
    close(fd);
    close(plain);
    api_fixture_stop(f);
}

/* ---- clients ---- */

static void a_client_that_leaves_cancels_its_requests(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    static const char *const bodies[] = { PLAIN_BODY, STREAM_BODY, STREAM_BODY };
    for (int i = 0; i < 3; i++) {
        int fd = client_post(f, "/v1/completions", bodies[i]);
        struct request *request = fake_request(f, i);
        char byte;
        if (i == 2) {
            fake_token(f, request, 0, "x");
            assert_int_equal(client_read(fd, &byte, 1, 2000), 1);
        }
        assert_int_equal(atomic_load(&request->cancelled), 0);
        close(fd);
        await_flag(&request->cancelled, 1);
        fake_token(f, request, 0, "y");                 /* on its way when the client left */
        fake_end(f, request, 0);
        fake_done(f, request);
    }
    assert_true(atomic_load(&f->engine.n_nudges) >= 3);
    api_fixture_stop(f);
}

static void a_client_that_does_not_read_pauses_its_requests(void **state)
{
    (void)state;
    struct http_limits limits = http_limits_default();
    limits.high_water_bytes = 64 << 10;
    limits.low_water_bytes = 16 << 10;
    struct api_fixture *f = api_fixture_start(&limits, 0, NULL);
    int fd = client_post(f, "/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"stream\":true,\"max_tokens\":9}");
    struct request *a = fake_request(f, 0), *b = fake_request(f, 1);
    char text[ENGINE_TEXT_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    int n_sent = 0;
    while (!atomic_load(&a->paused) && n_sent < 100000) {
        fake_token(f, a, 0, text);
        if (++n_sent % 256 == 0)
            usleep(2000);
    }
    await_flag(&a->paused, 1);
    await_flag(&b->paused, 1);
    /* It reads on: the requests go on, and every byte is there. */
    size_t n_bytes = 0, n_x = 0;
    static char bytes[1 << 16];
    int is_over = 0;
    for (int has_ended = 0; !is_over; ) {
        ssize_t n = client_read(fd, bytes, sizeof bytes, 3000);
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            n_x += bytes[i] == 'x';
        n_bytes += (size_t)n;
        is_over = n >= 5 && memcmp(bytes + n - 5, "0\r\n\r\n", 5) == 0;
        if (!has_ended && !atomic_load(&a->paused)) {
            has_ended = 1;
            assert_int_equal(atomic_load(&b->paused), 0);
            fake_end(f, a, 0);
            fake_end(f, b, 0);
            fake_done(f, a);
            fake_done(f, b);
        }
    }
    /* "text_completion", twice in "index" and .. : count what only the text has in such numbers. */
    assert_true(n_x >= (size_t)n_sent * (sizeof text - 1));
    assert_true(n_bytes > n_x);
    close(fd);
    api_fixture_stop(f);
}

/* ---- readiness ---- */

static void readiness_follows_the_engine(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    assert_int_equal(client_get(f, "/readyz")->status, 200);        /* idle, however old the heartbeat */
    fake_set_state(f, (struct engine_state){ .in_step = 1, .heartbeat_ns = clock_now_ns() });
    assert_int_equal(client_get(f, "/health")->status, 200);
    fake_set_state(f, (struct engine_state){ .in_step = 1, .heartbeat_ns = clock_now_ns() - 5000000000 });
    struct reply *reply = client_get(f, "/readyz");
    assert_int_equal(reply->status, 503);
    assert_string_equal(error_member(reply->body, "message"), "the engine shows no sign of life");
    assert_int_equal(client_get(f, "/livez")->status, 200);
    fake_set_state(f, (struct engine_state){ .failed = 1 });
    assert_string_equal(error_member(client_get(f, "/readyz")->body, "message"), "a device has failed");
    fake_set_state(f, (struct engine_state){ .n_running = 0 });
    atomic_store(&f->engine.is_draining, 1);
    assert_string_equal(error_member(client_get(f, "/readyz")->body, "message"),
                        "the server is shutting down");
    assert_int_equal(client_get(f, "/livez")->status, 200);
    api_fixture_stop(f);
}

/* ---- what reaches the engine ---- */

static void fields_reach_the_request(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fd = client_post(
        f, "/v1/completions",
        "{\"prompt\":[97,98],\"max_tokens\":7,\"min_tokens\":2,\"n\":2,\"best_of\":3,\"temperature\":0.5,"
        "\"top_k\":9,"
        "\"top_p\":0.25,\"min_p\":0.125,\"typical_p\":0.75,\"repetition_penalty\":1.5,"
        "\"presence_penalty\":-1,"
        "\"frequency_penalty\":0.5,\"seed\":42,\"stop\":[\"x\",\"yz\"],\"stop_token_ids\":[5,6],"
        "\"ignore_eos\":true,"
        "\"include_stop_str_in_output\":true,\"skip_special_tokens\":false,\"priority\":-3,\"logprobs\":4,"
        "\"echo\":true,\"logit_bias\":{\"7\":-2.5},\"cache_salt\":\"s\"}");
    struct request *r = fake_request(f, 0);
    assert_int_equal(r->n_prompt, 2);
    assert_int_equal(r->prompt[1], 98);
    assert_int_equal(r->max_new_tokens, 7);
    assert_int_equal(r->min_new_tokens, 2);
    assert_int_equal(r->n_choices, 3);
    assert_int_equal(r->priority, -3);
    assert_true(r->ignore_eos && r->include_stop && !r->skip_special_tokens && r->want_prompt_logprobs);
    const struct sampling_params *p = &r->sampling;
    const double got[] = { p->temperature, p->top_p, p->min_p, p->typical_p, p->repetition_penalty,
                           p->presence_penalty, p->frequency_penalty };
    const double wanted[] = { 0.5, 0.25, 0.125, 0.75, 1.5, -1, 0.5 };
    assert_memory_equal(got, wanted, sizeof got);
    assert_int_equal(p->top_k, 9);
    assert_int_equal(p->seed, 42);
    assert_true(p->want_logprob && p->n_top == 4);
    assert_true(p->n_bias == 1 && p->bias[0].token == 7 && p->bias[0].bias <= -2.5f &&
                p->bias[0].bias >= -2.5f);
    assert_true(r->n_stops == 2 && r->stops[1].len == 2 && memcmp(r->stops[1].text, "yz", 2) == 0);
    assert_true(r->n_stop_tokens == 2 && r->stop_tokens[1] == 6);
    /* sha256 of "s" begins with 04 3a 71 87. */
    assert_memory_equal(r->salt.bytes, "\x04\x3a\x71\x87", 4);
    assert_true(r->arrival_ns > 0 && r->id[0] != '\0');
    fake_failure(f, r, STATUS_INTERNAL);
    client_reply(fd);
    close(fd);
    api_fixture_stop(f);
}

static void what_is_absent_has_the_documented_default(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fd = client_post(f, "/v1/completions", "{\"prompt\":\"abc\"}");
    struct request *r = fake_request(f, 0);
    int chat =
        client_post(f, "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
    struct request *c = fake_request(f, 1);
    assert_int_equal(r->max_new_tokens, 16);
    assert_int_equal(c->max_new_tokens + c->n_prompt, FAKE_MAX_LENGTH);
    assert_true(r->n_choices == 1 && r->skip_special_tokens == 1 && r->ignore_eos == 0 && r->n_stops == 0);
    assert_true(r->sampling.temperature >= 1 && r->sampling.top_p >= 1 && r->sampling.want_logprob == 0);
    assert_true(r->sampling.seed != c->sampling.seed);
    struct prefix_salt none = { .bytes = { 0 } };
    assert_memory_equal(&r->salt, &none, sizeof none);
    fake_failure(f, r, STATUS_INTERNAL);
    fake_failure(f, c, STATUS_INTERNAL);
    client_reply(fd);
    close(fd);
    close(chat);
    api_fixture_stop(f);
}

/* ---- embeddings ---- */

static void an_embedding_is_scaled_to_length_one(void **state)
{
    (void)state;
    struct api_fixture *f = api_fixture_start(NULL, 0, NULL);
    int fd = client_post(f, "/v1/embeddings", "{\"input\":[\"a\",\"b\"]}");
    for (int i = 1; i >= 0; i--) {
        struct request *r = fake_request(f, i);
        assert_int_equal(r->task, REQUEST_EMBED);
        fake_event(f, r, (struct engine_event){ .kind = ENGINE_EMBEDDING, .position = 0, .n_values = 4,
                                                .values = { i == 0 ? 3 : 0, 0, 0, 0 } });
        fake_event(f, r, (struct engine_event){ .kind = ENGINE_EMBEDDING, .position = 4, .n_values = 2,
                                                .values = { 0, i == 0 ? 4 : 0 } });
        fake_done(f, r);
    }
    struct reply *reply = client_reply(fd);
    assert_int_equal(reply->status, 200);
    assert_non_null(strstr(reply->body, "\"index\":0,\"embedding\":[0.6,0,0,0,0,0.8]"));
    assert_non_null(strstr(reply->body, "\"index\":1,\"embedding\":[0,0,0,0,0,0]"));
    assert_non_null(strstr(reply->body, "\"usage\":{\"prompt_tokens\":6,\"total_tokens\":6}"));
    close(fd);
    api_fixture_stop(f);
}

/* ---- the log ---- */

static void a_call_is_logged_once_whichever_end_comes_first(void **state)
{
    (void)state;
    char path[] = "/tmp/latentd-test-log-XXXXXX";
    int log = mkstemp(path);
    assert_true(log >= 0);
    struct api_fixture *f = api_fixture_start(NULL, 0, path);
    int fd = client_post(f, "/v1/completions", PLAIN_BODY);         /* the reply ends, then its delivery */
    struct request *r = fake_request(f, 0);
    fake_token(f, r, 0, "x");
    fake_end(f, r, 0);
    fake_done(f, r);
    client_reply(fd);
    close(fd);
    fd = client_post(f, "/v1/completions", PLAIN_BODY); /* the client leaves, then the last event */
    r = fake_request(f, 1);
    close(fd);
    await_flag(&r->cancelled, 1);
    fake_done(f, r);
    client_get(f, "/livez");
    api_fixture_stop(f);
    static char text[8192];
    ssize_t n = read(log, text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_int_equal(count(text, "\n"), 3);
    assert_int_equal(count(text, "\"path\":\"/v1/completions\""), 2);
    assert_int_equal(count(text, "\"finish\":\"length\""), 1);
    assert_int_equal(count(text, "\"finish\":\"abort\""), 1);
    assert_int_equal(count(text, "\"aborted\":true"), 1);
    assert_int_equal(count(text, "\"devices\":{\"busy_ms\":[0.000,0.000]"), 2);
    close(log);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_before_the_first_event_has_its_own_status),
        cmocka_unit_test(a_failure_inside_a_stream_is_an_event_and_ends_it),
        cmocka_unit_test(one_failed_prompt_fails_the_call_and_cancels_the_others),
        cmocka_unit_test(a_call_of_which_a_part_is_refused_is_refused_whole),
        cmocka_unit_test(a_refused_call_holds_nothing),
        cmocka_unit_test(all_calls_can_be_ended_with_a_sentence),
        cmocka_unit_test(nothing_is_sent_before_the_first_token),
        cmocka_unit_test(a_silent_stream_gets_a_comment_and_then_its_events),
        cmocka_unit_test(a_client_that_leaves_cancels_its_requests),
        cmocka_unit_test(a_client_that_does_not_read_pauses_its_requests),
        cmocka_unit_test(readiness_follows_the_engine),
        cmocka_unit_test(fields_reach_the_request),
        cmocka_unit_test(what_is_absent_has_the_documented_default),
        cmocka_unit_test(an_embedding_is_scaled_to_length_one),
        cmocka_unit_test(a_call_is_logged_once_whichever_end_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
