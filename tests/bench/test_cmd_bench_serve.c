/* test_cmd_bench_serve - every mode runs against a server, writes its file, and exits with its code. */
#include "base/buf.h"
#include "base/file.h"
#include "bench/cmd_bench_serve.h"
#include "tests/bench/scripted_server.h"

#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

/* What the server saw, and how it behaves. */
struct script {
    pthread_mutex_t lock;
    int n_completions, n_chats, n_resets, n_ids_prompts, n_text_prompts, n_ignore_eos;
    int in_flight, overload_at;         /* above so many in flight replies take long; 0: never */
    int refuses;                        /* every completion with 503 */
    int has_no_routes;                  /* 404 but for completions */
};

static void count_request(struct script *script, const struct scripted_request *request)
{
    script->n_chats += strstr(request->path, "chat") != NULL;
    script->n_completions += strstr(request->path, "chat") == NULL;
    script->n_ids_prompts += strstr(request->body, "\"prompt\":[") != NULL;
    script->n_text_prompts += strstr(request->body, "\"prompt\":\"") != NULL;
    script->n_ignore_eos += strstr(request->body, "\"ignore_eos\":true") != NULL;
}

static int serve_tokens(struct script *script, int fd, const struct scripted_request *request)
{
    pthread_mutex_lock(&script->lock);
    count_request(script, request);
    script->in_flight++;
    int is_slow = script->overload_at > 0 && script->in_flight > script->overload_at;
    pthread_mutex_unlock(&script->lock);
    scripted_stream_head(fd);
    scripted_sleep_ms(is_slow ? 400 : 20);
    for (int i = 0; i < 3; i++)
        scripted_event(fd, "{\"choices\":[{\"index\":0,\"text\":\"x\",\"delta\":{\"content\":\"x\"},"
                           "\"finish_reason\":null}]}");
    scripted_event(fd, "{\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":3}}");
    pthread_mutex_lock(&script->lock);
    script->in_flight--;
    pthread_mutex_unlock(&script->lock);
    scripted_stream_end(fd);
    return 1;
}

static int serve(struct scripted_server *server, int fd, const struct scripted_request *request)
{
    struct script *script = server->context;
    if (strstr(request->path, "completions") != NULL && !script->refuses)
        return serve_tokens(script, fd, request);
    if (script->refuses && strstr(request->path, "completions") != NULL)
        scripted_json(fd, 503, "{\"error\":{\"message\":\"loading\"}}");
    else if (script->has_no_routes)
        scripted_json(fd, 404, "{}");
    else if (strcmp(request->path, "/v1/models") == 0)
        scripted_json(fd, 200, "{\"data\":[{\"id\":\"tiny\"}]}");
    else if (strcmp(request->path, "/tokenize") == 0)
        scripted_json(fd, 200, "{\"tokens\":[5,6,7,8]}");
    else if (strcmp(request->path, "/reset_prefix_cache") == 0) {
        pthread_mutex_lock(&script->lock);
        script->n_resets++;
        pthread_mutex_unlock(&script->lock);
        scripted_json(fd, 200, "{}");
    } else {
        scripted_json(fd, 404, "{}");
    }
    return 1;
}

struct fixture {
    struct scripted_server server;
    struct script script;
    char json_path[64], rows_path[64];
    json_t *report;             /* of the last command; NULL if it wrote none */
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    pthread_mutex_init(&f->script.lock, NULL);
    f->server.serve = serve;
    f->server.context = &f->script;
    snprintf(f->json_path, sizeof f->json_path, "/tmp/test_cmd_bench_serve.%ld.json", (long)getpid());
    snprintf(f->rows_path, sizeof f->rows_path, "/tmp/test_cmd_bench_serve.%ld.jsonl", (long)getpid());
    scripted_start(&f->server);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    scripted_stop(&f->server);
    json_decref(f->report);
    unlink(f->json_path);
    unlink(f->rows_path);
    pthread_mutex_destroy(&f->script.lock);
    free(f);
    return 0;
}

/* options: separated by blanks.  Returns the exit code. */
static int command(struct fixture *f, const char *options)
{
    char text[512], url[64];
    char *argv[40] = { "serve" };
    int argc = 1;
    snprintf(url, sizeof url, "--url=http://127.0.0.1:%d", f->server.port);
    argv[argc++] = url;
    argv[argc++] = "--json";
    argv[argc++] = f->json_path;
    snprintf(text, sizeof text, "%s", options);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    json_decref(f->report);
    unlink(f->json_path);
    int code = cmd_bench_serve(argc, argv);
    f->report = json_load_file(f->json_path, 0, NULL);
    return code;
}

static const json_t *run_at(const struct fixture *f, size_t i)
{
    return json_array_get(json_object_get(f->report, "runs"), i);
}

static size_t n_runs(const struct fixture *f)
{
    return json_array_size(json_object_get(f->report, "runs"));
}

static double value(const json_t *run, const char *key)
{
    return json_number_value(json_object_get(run, key));
}

static double n_ok(const json_t *run)
{
    return value(json_object_get(run, "outcomes"), "ok");
}

static void closed_loop_with_ids_of_the_servers_tokenizer(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(command(f, "--requests 20 --concurrency 5 --warmup 2 --output-len 3"), 0);
    assert_int_equal(n_runs(f), 1);
    assert_true(n_ok(run_at(f, 0)) == 20 && value(run_at(f, 0), "in_flight_peak") == 5);
    assert_true(value(run_at(f, 0), "short_replies") == 0);
    assert_int_equal(f->script.n_ids_prompts, 22);
    assert_int_equal(f->script.n_ignore_eos, 22);
    assert_non_null(strstr(json_string_value(json_object_get(f->report, "server")), "model tiny"));
}

static void chat_and_words_without_any_route_but_the_endpoint(void **state)
{
    struct fixture *f = *state;
    f->script.has_no_routes = 1;
    assert_int_equal(command(f, "--requests 4 --endpoint chat"), 1);        /* no model name to be had */
    assert_int_equal(command(f, "--requests 4 --endpoint chat --model m"), 0);
    assert_int_equal(command(f, "--requests 4 --model m"), 0);
    assert_int_equal(command(f, "--requests 4 --model m --prompt-form ids"), 1);
    assert_int_equal(f->script.n_chats, 4);
    assert_int_equal(f->script.n_text_prompts, 4);
}

static void open_loop_for_a_duration(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(command(f, "--rate 40 --duration 0.5 --burstiness 0.5"), 0);
    assert_true(n_ok(run_at(f, 0)) == 20);
    assert_true(value(run_at(f, 0), "duration_s") >= 0.5);
    assert_int_equal(command(f, "--rate inf --requests 10"), 0);
    assert_true(value(run_at(f, 0), "in_flight_peak") == 10);
    assert_int_equal(command(f, "--rate 10 --ramp linear --ramp-end-rate 100 --requests 20"), 0);
    assert_true(n_ok(run_at(f, 0)) == 20);
}

static void sweeps_have_one_run_each_and_reset_the_cache(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(command(f, "--rates 20,40 --requests 6 --reset-cache"), 0);
    assert_int_equal(n_runs(f), 2);
    assert_true(value(run_at(f, 0), "rate") == 20 && value(run_at(f, 1), "rate") == 40);
    assert_int_equal(f->script.n_resets, 2);
    assert_int_equal(command(f, "--concurrencies 1,2,4 --requests 8"), 0);
    assert_int_equal(n_runs(f), 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(value(run_at(f, i), "in_flight_peak") == (double)(1 << i));
}

static void a_trace_is_replayed_at_its_times(void **state)
{
    struct fixture *f = *state;
    const char *rows = "{\"timestamp\":1000,\"input_length\":8,\"output_length\":3,\"hash_ids\":[1]}\n"
                       "{\"timestamp\":1400,\"input_length\":8,\"output_length\":3,\"hash_ids\":[1]}\n"
                       "{\"timestamp\":1200,\"input_length\":8,\"output_length\":3,\"hash_ids\":[2]}\n";
    assert_int_equal(file_replace(f->rows_path, rows, strlen(rows), NULL), STATUS_OK);
    char options[200];
    snprintf(options, sizeof options, "--dataset jsonl --file %s --replay --replay-speed 2 --detail",
             f->rows_path);
    assert_int_equal(command(f, options), 0);
    const json_t *records = json_object_get(run_at(f, 0), "records");
    assert_int_equal(json_array_size(records), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *record = json_array_get(records, i);
        assert_true(fabs(value(record, "due_ms") - 100 * value(record, "index")) < 1e-3);
        assert_true(value(record, "sent_ms") >= value(record, "due_ms"));
    }
}

static void the_search_finds_where_the_server_breaks(void **state)
{
    struct fixture *f = *state;
    /* 20 ms a request and slow above two at once: the border lies far below 200/s and above 2/s. */
    f->script.overload_at = 2;
    assert_int_equal(
        command(f, "--sla-ttft 300 --requests 20 --burstiness inf --sla-first-rate 2 --sla-max-rate 1000 "
                   "--sla-tolerance 0.5"),
        0);
    double best = value(f->report, "best_rate");
    assert_true(best >= 2 && best < 500);
    assert_true(n_runs(f) >= 3);
    for (size_t i = 0; i < n_runs(f); i++) {
        int holds = json_is_true(json_object_get(run_at(f, i), "holds"));
        assert_true(!holds || value(run_at(f, i), "rate") <= best);
    }
}

static void a_search_that_never_breaks_says_so(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(command(f, "--sla-ttft 60000 --requests 2 --sla-first-rate 50 --sla-max-rate 100"), 0);
    assert_true(value(f->report, "best_rate") == 100);
    const char *search = json_string_value(json_object_get(f->report, "search"));
    assert_non_null(strstr(search, "no larger one was tried"));
    assert_null(strstr(search, "broken"));
}

static void a_server_that_refuses_everything_is_exit_1_with_its_reason(void **state)
{
    struct fixture *f = *state;
    f->script.refuses = 1;
    assert_int_equal(command(f, "--requests 5"), 1);
    assert_true(value(json_object_get(run_at(f, 0), "outcomes"), "overload") == 5);
    assert_non_null(strstr(json_string_value(json_object_get(run_at(f, 0), "first_error")), "loading"));
}

static void wrong_command_lines_are_exit_2_and_send_nothing(void **state)
{
    struct fixture *f = *state;
    static const char *const lines[] = {
        "--rate -1",
        "--rate x",
        "--nonsense 1",
        "--requests 1.5",
        "--rate 1 --rates 1,2",
        "--replay",
        "--dataset jsonl",
        "--file x",
        "--ramp linear",
        "--ramp linear --rate 5",
        "--burstiness 2",
        "--ramp-end-rate 5 --rate 1",
        "--replay-speed 2",
        "--sla-ttft 5 --rate 1",
        "--extra [1]",
        "--extra {",
        "--extra {\"stream\":false}",
        "--concurrency 20000",
        "--burstiness 0 --rate 1",
        "--sla-ttft 5 --sla-first-rate 10 --sla-max-rate 5",
        "--rate inf --duration 1",
        "--dataset csv",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (command(f, lines[i]) != 2)
            fail_msg("%s was accepted", lines[i]);
    assert_int_equal(f->script.n_completions, 0);
}

static void an_output_that_cannot_be_written_costs_no_request(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(command(f, "--html /nonexistent/folder/page.html --quiet"), 1);
    assert_int_equal(f->script.n_completions, 0);
    assert_int_equal(command(f, "--requests 2 --dataset jsonl --file /no/such/file"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(closed_loop_with_ids_of_the_servers_tokenizer),
        TEST(chat_and_words_without_any_route_but_the_endpoint),
        TEST(open_loop_for_a_duration),
        TEST(sweeps_have_one_run_each_and_reset_the_cache),
        TEST(a_trace_is_replayed_at_its_times),
        TEST(the_search_finds_where_the_server_breaks),
        TEST(a_search_that_never_breaks_says_so),
        TEST(a_server_that_refuses_everything_is_exit_1_with_its_reason),
        TEST(wrong_command_lines_are_exit_2_and_send_nothing),
        TEST(an_output_that_cannot_be_written_costs_no_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
