/* test_load_run - a run against a server with known delays measures those delays and names every fault. */
#include "base/clock.h"
#include "bench/load_run.h"
#include "tests/bench/scripted_server.h"

#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>

/* The delays that the server keeps, in milliseconds.  A busy machine is late,
 * never early: so a measured time is checked from below against these, and from
 * both sides against what the server's own clock saw (struct seen). */
enum { FIRST_MS = 40, GAP_MS = 15, LATE_MS = 1000, MAX_SEEN = 4096 };

/* By the server: request read to first token, and the gaps between tokens. */
struct seen {
    pthread_mutex_t lock;
    struct load_series first, gaps;
};

static struct load_vocabulary vocabulary = { .tokens_per_word = 1, .bytes_per_token = 4 };

/* What the server should do is a field of the request's body. */
static int is_case(const struct scripted_request *request, const char *name)
{
    char field[64];
    snprintf(field, sizeof field, "\"case\":\"%s\"", name);
    return strstr(request->body, field) != NULL;
}

static void send_tokens(struct seen *seen, int fd, const struct scripted_request *request, int n)
{
    int pings = is_case(request, "pings"), is_chat = strstr(request->path, "chat") != NULL;
    int64_t before_ns = clock_now_ns();
    for (int i = 0; i < n; i++) {
        scripted_sleep_ms(i == 0 ? FIRST_MS : GAP_MS);
        if (pings)
            scripted_piece(fd, ": ping\n\n");
        int64_t now_ns = clock_now_ns();
        pthread_mutex_lock(&seen->lock);
        load_series_push(i == 0 ? &seen->first : &seen->gaps, (double)(now_ns - before_ns) / 1e6);
        pthread_mutex_unlock(&seen->lock);
        before_ns = now_ns;
        scripted_event(
            fd, is_chat ? "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}"
                        : "{\"choices\":[{\"index\":0,\"text\":\"x\",\"finish_reason\":null}]}");
    }
}

/* How a stream ends; 0: the connection is to be closed. */
static int send_end(int fd, const struct scripted_request *request)
{
    if (is_case(request, "cut")) {
        scripted_printf(fd, "0\r\n\r\n");
        return 1;
    }
    if (is_case(request, "lost"))
        return 0;
    if (is_case(request, "stream error")) {
        scripted_event(fd, "{\"error\":{\"message\":\"engine died\"}}");
        scripted_stream_end(fd);
        return 1;
    }
    scripted_event(fd,
                   "{\"choices\":[{\"index\":0,\"text\":\"\",\"delta\":{},\"finish_reason\":\"length\"}]}");
    if (!is_case(request, "no usage"))
        scripted_event(fd, "{\"choices\":[],\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":5,"
                           "\"prompt_tokens_details\":{\"cached_tokens\":2}}}");
    if (is_case(request, "late end"))
        scripted_sleep_ms(50);
    scripted_stream_end(fd);
    return 1;
}

static const struct {
    const char *name;
    int http_status;
    const char *json;
} whole_replies[] = {
    { "429", 429, "{\"error\":{\"message\":\"queue full\"}}" },
    { "503", 503, "{\"error\":{\"message\":\"loading\"}}" },
    { "400", 400, "{\"error\":{\"message\":\"bad \\u001b[31m field\"}}" },
    { "500", 500, "not json" },
    { "302", 302, "" },
    { "html", 200, "<html>" },
    { "whole", 200, "{\"choices\":[{\"text\":\"xxxxx\",\"finish_reason\":\"length\"}],"
                    "\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":5}}" },
    { "nothing", 200, "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}" },
};

static int serve(struct scripted_server *server, int fd, const struct scripted_request *request)
{
    for (size_t i = 0; i < sizeof whole_replies / sizeof whole_replies[0]; i++)
        if (is_case(request, whole_replies[i].name)) {
            scripted_sleep_ms(whole_replies[i].http_status == 200 ? FIRST_MS : 1);
            scripted_json(fd, whole_replies[i].http_status, whole_replies[i].json);
            return 1;
        }
    if (is_case(request, "hang")) {
        scripted_sleep_ms(700);
        return 0;
    }
    scripted_stream_head(fd);
    if (is_case(request, "early role"))
        scripted_event(fd,
                       "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}");
    if (is_case(request, "bad json")) {
        scripted_event(fd, "{\"choices\":[");
        scripted_stream_end(fd);
        return 1;
    }
    if (!is_case(request, "empty"))
        send_tokens(server->context, fd, request, 5);
    return send_end(fd, request);
}

/* ---- one run per test ---- */

struct fixture {
    struct scripted_server scripted;
    struct seen seen;
    struct load_server server;
    struct load_dataset *dataset;
    struct load_run_options options;
    char extra[64];
    struct load_result *result;
    struct load_figures figures;
};

static void set_up(struct fixture *f, const char *what, enum load_endpoint endpoint)
{
    *f = (struct fixture){ .scripted.serve = serve, .scripted.context = &f->seen };
    pthread_mutex_init(&f->seen.lock, NULL);
    load_series_init(&f->seen.first, MAX_SEEN);
    load_series_init(&f->seen.gaps, MAX_SEEN);
    scripted_start(&f->scripted);
    f->server = (struct load_server){ .host = "127.0.0.1", .port = f->scripted.port };
    struct load_dataset_options dataset = {
        .kind = LOAD_RANDOM, .endpoint = endpoint, .vocabulary = &vocabulary, .input_tokens = 6,
        .output_tokens = 5, .n_prefixes = 1, .trace_block_tokens = 1,
    };
    assert_int_equal(load_dataset_create(&f->dataset, &dataset, NULL), STATUS_OK);
    snprintf(f->extra, sizeof f->extra, "\"case\":\"%s\"", what);
    f->options = (struct load_run_options){
        .server = &f->server, .dataset = f->dataset, .model = "m", .endpoint = endpoint, .is_streamed = 1,
        .ignore_eos = 1, .extra_fields = f->extra, .n_requests = 8, .max_in_flight = 4, .timeout_s = 20,
        .grace_s = 5, .seed = 1,
    };
}

static void run(struct fixture *f)
{
    assert_int_equal(load_run(&f->result, &f->options, NULL), STATUS_OK);
    f->figures = load_result_figures(f->result);
}

static void tear_down(struct fixture *f)
{
    load_result_destroy(f->result);
    load_dataset_destroy(f->dataset);
    scripted_stop(&f->scripted);
    load_series_clear(&f->seen.first);
    load_series_clear(&f->seen.gaps);
    pthread_mutex_destroy(&f->seen.lock);
}

static void assert_late_by(double got_ms, double want_ms, double late_ms)
{
    if (got_ms < want_ms - 0.5 || got_ms > want_ms + late_ms)
        fail_msg("got %.2f ms, want %.2f .. %.2f", got_ms, want_ms, want_ms + late_ms);
}

/* The client's figure against the server's: what lies between is one loopback. */
static int agrees(double client_ms, double server_ms)
{
    int does = fabs(client_ms - server_ms) <= 2 + 0.05 * server_ms;
    if (!does)
        printf("the client has %.2f ms, the server %.2f\n", client_ms, server_ms);
    return does;
}

/* ---- latencies ---- */

/* 1: both sides saw the same delays.  The rest must hold however busy the machine is. */
static int run_and_compare(const char *what, enum load_endpoint endpoint)
{
    struct fixture f;
    set_up(&f, what, endpoint);
    run(&f);
    const struct load_summary *m = f.figures.metrics;
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_OK], 8);
    assert_int_equal(f.figures.n_failed, 0);
    assert_int_equal(m[LOAD_TTFT].n, 8);
    assert_int_equal(m[LOAD_ITL].n, 8 * 4);     /* the first token is in no gap */
    assert_int_equal(m[LOAD_TPOT].n, 8);
    assert_late_by(m[LOAD_TTFT].min, FIRST_MS, LATE_MS);
    assert_late_by(m[LOAD_E2E].min, FIRST_MS + 4 * GAP_MS, 5 * LATE_MS);
    assert_int_equal(f.figures.output_tokens, 40);
    assert_int_equal(f.figures.input_tokens, 48);
    assert_int_equal(f.figures.token_sources[LOAD_TOKENS_USAGE], 8);
    assert_true(fabs(f.figures.tokens_per_chunk - 1) < 1e-12);
    assert_int_equal(f.result->peak_in_flight, 4);
    assert_int_equal(f.result->n_connects, 4);
    assert_true(f.figures.duration_s * 1e3 >= 2 * (FIRST_MS + 4 * GAP_MS));
    struct load_summary first = load_series_summarise(&f.seen.first),
                        gaps = load_series_summarise(&f.seen.gaps);
    int same = agrees(m[LOAD_TTFT].p50, first.p50) && agrees(m[LOAD_ITL].p50, gaps.p50)
            && agrees(m[LOAD_ITL].mean, gaps.mean) && agrees(m[LOAD_TPOT].mean, gaps.mean)
            && agrees(m[LOAD_E2E].mean, first.mean + 4 * gaps.mean);
    tear_down(&f);
    return same;
}

/* A wrong definition disagrees every time, a busy machine only now and then. */
static void check_delays(const char *what, enum load_endpoint endpoint)
{
    for (int attempt = 0; attempt < 10; attempt++)
        if (run_and_compare(what, endpoint))
            return;
    fail_msg("in ten runs the client never saw the server's delays");
}

static void delays_of_completions_are_measured(void **state)
{
    (void)state;
    check_delays("plain", LOAD_COMPLETIONS);
}

static void delays_of_chat_are_measured_and_an_early_role_chunk_fakes_nothing(void **state)
{
    (void)state;
    check_delays("early role", LOAD_CHAT);
}

static void pings_between_tokens_change_nothing(void **state)
{
    (void)state;
    check_delays("pings", LOAD_COMPLETIONS);
}

static void a_late_end_counts_for_the_reply_and_not_for_e2e(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "late end", LOAD_COMPLETIONS);
    run(&f);
    const struct load_summary *m = f.figures.metrics;
    assert_late_by(m[LOAD_REPLY].p50 - m[LOAD_E2E].p50, 50, LATE_MS);
    assert_int_equal(f.figures.cached_tokens, 16);
    tear_down(&f);
}

static void without_usage_chunks_are_the_tokens(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "no usage", LOAD_COMPLETIONS);
    run(&f);
    assert_int_equal(f.figures.output_tokens, 40);
    assert_int_equal(f.figures.token_sources[LOAD_TOKENS_CHUNKS], 8);
    tear_down(&f);
}

static void a_server_that_ignores_stream_is_measured_by_its_one_object(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "whole", LOAD_COMPLETIONS);
    run(&f);
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_OK], 8);
    assert_int_equal(f.figures.metrics[LOAD_ITL].n, 0);
    assert_late_by(f.figures.metrics[LOAD_TTFT].p50, FIRST_MS, LATE_MS);
    assert_int_equal(f.figures.output_tokens, 40);
    tear_down(&f);
}

static void warm_up_is_sent_and_not_counted(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "plain", LOAD_COMPLETIONS);
    f.options.n_warm_up = 5;
    run(&f);
    assert_int_equal(f.figures.n_requests, 8);
    assert_int_equal(atomic_load(&f.scripted.n_requests), 13);
    for (size_t i = 0; i < f.result->n_records; i++)
        assert_true(f.result->records[i].sent_ns >= f.result->start_ns);
    tear_down(&f);
}

/* ---- outcomes ---- */

static void every_fault_has_its_name_and_no_latency(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum load_outcome outcome;
        const char *says;
    } rows[] = {
        { "429", LOAD_OUTCOME_OVERLOAD, "queue full" },
        { "503", LOAD_OUTCOME_OVERLOAD, "loading" },
        { "400", LOAD_OUTCOME_HTTP_4XX, "bad  [31m field" },     /* no escape reaches the terminal */
        { "500", LOAD_OUTCOME_HTTP_5XX, "HTTP 500" },
        { "302", LOAD_OUTCOME_HTTP_5XX, "HTTP 302" },
        { "stream error", LOAD_OUTCOME_STREAM, "engine died" },
        { "bad json", LOAD_OUTCOME_BAD_REPLY, "not JSON" },
        { "cut", LOAD_OUTCOME_CUT, "finish_reason" },
        { "lost", LOAD_OUTCOME_LOST, "closed" },
        { "nothing", LOAD_OUTCOME_EMPTY, "neither text" },
        { "html", LOAD_OUTCOME_CUT, "finish_reason" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        set_up(&f, rows[i].what, LOAD_COMPLETIONS);
        run(&f);
        if (f.figures.outcomes[rows[i].outcome] != 8)
            fail_msg("%s: %s", rows[i].what, f.result->first_error);
        if (strstr(f.result->first_error, rows[i].says) == NULL)
            fail_msg("%s says: %s", rows[i].what, f.result->first_error);
        assert_int_equal(f.figures.n_failed, 8);
        assert_int_equal(f.figures.metrics[LOAD_TTFT].n, 0);
        assert_int_equal(f.figures.metrics[LOAD_ITL].n, 0);
        assert_int_equal(f.figures.output_tokens, 0);
        tear_down(&f);
    }
}

static void usage_without_text_is_a_success_without_a_first_chunk(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "empty", LOAD_COMPLETIONS);
    run(&f);
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_OK], 8);
    assert_int_equal(f.figures.metrics[LOAD_TTFT].n, 0);
    assert_int_equal(f.figures.metrics[LOAD_REPLY].n, 8);
    tear_down(&f);
}

static void a_server_that_is_not_there_fails_each_request(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "plain", LOAD_COMPLETIONS);
    scripted_stop(&f.scripted);
    run(&f);
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_CONNECT], 8);
    scripted_start(&f.scripted);
    tear_down(&f);
}

static void a_reply_past_the_time_limit_is_a_timeout(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "hang", LOAD_COMPLETIONS);
    f.options.timeout_s = 0.1;
    f.options.n_requests = 4;
    run(&f);
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_TIMED_OUT], 4);
    for (size_t i = 0; i < 4; i++)
        assert_late_by((double)(f.result->records[i].end_ns - f.result->records[i].sent_ns) / 1e6, 100,
                       LATE_MS);
    tear_down(&f);
}

static void max_failures_ends_the_run(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "500", LOAD_COMPLETIONS);
    f.options.n_requests = 1000;
    f.options.max_failures = 10;
    run(&f);
    assert_true(f.figures.n_failed >= 10 && f.figures.n_failed <= 10 + f.options.max_in_flight);
    tear_down(&f);
}

static void the_cancelled_share_is_given_up_in_time(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "plain", LOAD_COMPLETIONS);
    f.options.n_requests = 200;
    f.options.max_in_flight = 50;
    f.options.cancel_rate = 0.3;
    f.options.cancel_after_s = 0.05;        /* after the first token, before the last */
    run(&f);
    size_t n = f.figures.outcomes[LOAD_OUTCOME_CANCELLED];
    assert_true(n >= 35 && n <= 85);        /* 60 +- 4 sigma */
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_OK], 200 - n);
    assert_int_equal(f.figures.n_failed, 0);
    assert_int_equal(f.figures.metrics[LOAD_E2E].n, 200 - n);
    for (size_t i = 0; i < f.result->n_records; i++)
        if (f.result->records[i].outcome == LOAD_OUTCOME_CANCELLED)
            assert_late_by((double)(f.result->records[i].end_ns - f.result->records[i].sent_ns) / 1e6, 50,
                           LATE_MS);
    tear_down(&f);
}

/* ---- arrivals ---- */

static void an_open_loop_keeps_its_times_and_counts_the_wait_at_the_client(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "plain", LOAD_COMPLETIONS);
    struct load_arrival_options arrivals = {
        .rate = 50, .burstiness = INFINITY, .n_requests = 20, .seed = 1
    };
    struct load_arrival arrival;
    assert_int_equal(load_arrival_open(&arrival, &arrivals, NULL), STATUS_OK);
    f.options.arrival = &arrival;
    f.options.max_in_flight = 100;
    run(&f);
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_OK], 20);
    assert_late_by(f.figures.metrics[LOAD_QUEUE].p50, 0, LATE_MS);
    for (size_t i = 0; i < 20; i++) {
        const struct load_record *r = &f.result->records[i];
        assert_int_equal(r->due_ns - f.result->start_ns, arrival.due_ns[r->index]);
        assert_true(r->sent_ns >= r->due_ns);
    }
    load_result_destroy(f.result);
    /* One at a time: request i of 100 ms work waits about 80 ms longer than the one before. */
    f.options.max_in_flight = 1;
    run(&f);
    assert_true(f.figures.metrics[LOAD_QUEUE].max > 19 * (FIRST_MS + 4 * GAP_MS) - 400);
    assert_late_by(f.figures.metrics[LOAD_TTFT].p50, FIRST_MS, LATE_MS);
    assert_true(f.figures.metrics[LOAD_WAIT].max >= f.figures.metrics[LOAD_QUEUE].max + FIRST_MS - 0.5);
    load_arrival_clear(&arrival);
    tear_down(&f);
}

static void the_duration_ends_the_run_and_what_is_left_is_unfinished(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "plain", LOAD_COMPLETIONS);
    f.options.n_requests = 0;
    f.options.duration_s = 0.35;
    f.options.grace_s = 0;
    run(&f);
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_UNFINISHED], 4);
    assert_true(f.figures.outcomes[LOAD_OUTCOME_OK] <= 12);     /* three rounds of four fit into 350 ms */
    assert_int_equal(f.figures.n_failed, 0);
    assert_late_by(f.figures.duration_s * 1e3, 350, LATE_MS);
    load_result_destroy(f.result);
    f.options.grace_s = 5;
    run(&f);
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_UNFINISHED], 0);
    tear_down(&f);
}

static void a_request_due_at_the_very_end_starts_and_later_ones_are_reported(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "plain", LOAD_COMPLETIONS);
    struct load_arrival_options arrivals = { .rate = 20, .burstiness = INFINITY, .n_requests = 6, .seed = 1 };
    struct load_arrival arrival;
    assert_int_equal(load_arrival_open(&arrival, &arrivals, NULL), STATUS_OK);
    f.options.arrival = &arrival;
    f.options.duration_s = 0.3;
    f.options.max_in_flight = 100;
    run(&f);
    assert_int_equal(f.figures.n_requests, 6);
    assert_int_equal(f.result->n_never_sent, 0);
    load_result_destroy(f.result);
    f.options.max_in_flight = 1;            /* about three of the six find the place free */
    run(&f);
    assert_true(f.result->n_never_sent >= 2 && f.figures.n_requests + f.result->n_never_sent == 6);
    load_arrival_clear(&arrival);
    tear_down(&f);
}

static void goodput_counts_requests_within_every_goal(void **state)
{
    (void)state;
    const struct {
        struct load_goals goals;
        size_t n_good;
    } rows[] = {
        { { 0, 0, 0 }, 8 },
        { { FIRST_MS + LATE_MS, GAP_MS + LATE_MS, 5 * LATE_MS }, 8 },
        { { FIRST_MS - 5, 0, 0 }, 0 },
        { { 0, GAP_MS - 5, 0 }, 0 },
        { { 0, 0, FIRST_MS }, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        set_up(&f, "plain", LOAD_COMPLETIONS);
        f.options.goals = rows[i].goals;
        run(&f);
        assert_int_equal(f.result->n_good, rows[i].n_good);
        tear_down(&f);
    }
}

static void *interrupt_soon(void *argument)
{
    (void)argument;
    scripted_sleep_ms(150);
    kill(getpid(), SIGINT);
    return NULL;
}

static void an_interrupt_ends_the_run_with_what_it_has(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "plain", LOAD_COMPLETIONS);
    f.options.n_requests = 100000;
    pthread_t thread;
    pthread_create(&thread, NULL, interrupt_soon, NULL);
    run(&f);
    pthread_join(thread, NULL);
    assert_true(f.result->was_interrupted);
    assert_int_equal(f.figures.outcomes[LOAD_OUTCOME_UNFINISHED], 4);
    assert_int_equal(f.figures.n_requests, f.figures.outcomes[LOAD_OUTCOME_OK] + 4);
    tear_down(&f);
}

static void the_body_asks_for_what_the_options_say(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, "plain", LOAD_CHAT);
    struct buf body;
    struct load_lengths lengths;
    buf_init(&body, 1 << 20);
    assert_int_equal(load_run_write_body(&f.options, 3, &body, &lengths), STATUS_OK);
    json_t *object = json_loads(body.data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    assert_string_equal(json_string_value(json_object_get(object, "model")), "m");
    assert_int_equal(json_integer_value(json_object_get(object, "max_tokens")), 5);
    assert_true(json_is_true(json_object_get(object, "stream")));
    assert_true(json_is_true(json_object_get(json_object_get(object, "stream_options"), "include_usage")));
    assert_true(json_is_true(json_object_get(object, "ignore_eos")));
    assert_true(json_is_number(json_object_get(object, "temperature")));
    assert_string_equal(json_string_value(json_object_get(object, "case")), "plain");
    json_decref(object);
    buf_clear(&body);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_of_completions_are_measured),
        cmocka_unit_test(delays_of_chat_are_measured_and_an_early_role_chunk_fakes_nothing),
        cmocka_unit_test(pings_between_tokens_change_nothing),
        cmocka_unit_test(a_late_end_counts_for_the_reply_and_not_for_e2e),
        cmocka_unit_test(without_usage_chunks_are_the_tokens),
        cmocka_unit_test(a_server_that_ignores_stream_is_measured_by_its_one_object),
        cmocka_unit_test(warm_up_is_sent_and_not_counted),
        cmocka_unit_test(every_fault_has_its_name_and_no_latency),
        cmocka_unit_test(usage_without_text_is_a_success_without_a_first_chunk),
        cmocka_unit_test(a_server_that_is_not_there_fails_each_request),
        cmocka_unit_test(a_reply_past_the_time_limit_is_a_timeout),
        cmocka_unit_test(max_failures_ends_the_run),
        cmocka_unit_test(the_cancelled_share_is_given_up_in_time),
        cmocka_unit_test(an_open_loop_keeps_its_times_and_counts_the_wait_at_the_client),
        cmocka_unit_test(the_duration_ends_the_run_and_what_is_left_is_unfinished),
        cmocka_unit_test(a_request_due_at_the_very_end_starts_and_later_ones_are_reported),
        cmocka_unit_test(goodput_counts_requests_within_every_goal),
        cmocka_unit_test(an_interrupt_ends_the_run_with_what_it_has),
        cmocka_unit_test(the_body_asks_for_what_the_options_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
