/* test_metrics - buckets, sums and counters, and the text in which they are told. */
#include "server/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct device_report devices[2] = {
    { .weight_bytes = 11, .cache_bytes = 1000, .busy_ns = 1500000000, .collective_bytes = 5 },
    { .weight_bytes = 12, .cache_bytes = 3000, .waited_ns = 250000000, .multiply_adds = 7 },
};

static char *text_of(const struct metrics *m, const struct engine_state *engine)
{
    struct buf out;
    struct metrics_view view = { .engine = *engine,
                                 .block_size = 32,
                                 .cache_type = "f32",
                                 .formulation = "mlra_4",
                                 .devices = devices,
                                 .n_devices = 2 };
    buf_init(&out, 1 << 20);
    assert_int_equal(metrics_write(m, &view, &out), STATUS_OK);
    return out.data;
}

/* The value of the line that begins with `name`; fails if there is none or more than one. */
static double value_of(const char *text, const char *name)
{
    const char *found = NULL;
    for (const char *line = text; line != NULL && *line != '\0'; ) {
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ' ') {
            assert_null(found);
            found = line + strlen(name) + 1;
        }
        line = strchr(line, '\n');
        line += line != NULL;
    }
    if (found == NULL)
        fail_msg("no line %s", name);
    return strtod(found, NULL);
}

#define NEAR(a, b) assert_true((a) - (b) < 1e-9 && (b) - (a) < 1e-9)

static void values_fall_into_the_bucket_that_holds_them(void **state)
{
    (void)state;
    struct metrics *m;
    struct engine_state engine = { .n_blocks = 0 };
    assert_int_equal(metrics_create(&m, "demo", NULL), STATUS_OK);
    const double values[] = { 0, 0.001, 0.0011, 0.3, 1000 };
    for (int i = 0; i < 5; i++)
        metrics_observe(m, METRICS_TTFT, values[i]);
    char *text = text_of(m, &engine);
    NEAR(value_of(text, "latentd_time_to_first_token_seconds_bucket{model_name=\"demo\",le=\"0.001\"}"), 2);
    NEAR(value_of(text, "latentd_time_to_first_token_seconds_bucket{model_name=\"demo\",le=\"0.005\"}"), 3);
    NEAR(value_of(text, "latentd_time_to_first_token_seconds_bucket{model_name=\"demo\",le=\"0.25\"}"), 3);
    NEAR(value_of(text, "latentd_time_to_first_token_seconds_bucket{model_name=\"demo\",le=\"0.5\"}"), 4);
    NEAR(value_of(text, "latentd_time_to_first_token_seconds_bucket{model_name=\"demo\",le=\"160\"}"), 4);
    NEAR(value_of(text, "latentd_time_to_first_token_seconds_bucket{model_name=\"demo\",le=\"+Inf\"}"), 5);
    NEAR(value_of(text, "latentd_time_to_first_token_seconds_sum{model_name=\"demo\"}"), 1000.3021);
    NEAR(value_of(text, "latentd_time_to_first_token_seconds_count{model_name=\"demo\"}"), 5);
    NEAR(value_of(text, "latentd_inter_token_latency_seconds_count{model_name=\"demo\"}"), 0);
    free(text);
    metrics_destroy(m);
}

static void ends_and_replies_are_counted_by_kind(void **state)
{
    (void)state;
    struct metrics *m;
    struct engine_state engine = { .n_blocks = 0 };
    assert_int_equal(metrics_create(&m, "demo", NULL), STATUS_OK);
    metrics_count_finish(m, METRICS_STOP);
    metrics_count_finish(m, METRICS_STOP);
    metrics_count_finish(m, METRICS_ERROR);
    metrics_count_reply(m, 200);
    metrics_count_reply(m, 404);
    metrics_count_reply(m, 200);
    metrics_count_reply(m, 0);
    for (int status = 600; status < 700; status++)      /* more kinds than there is room for do no harm */
        metrics_count_reply(m, status);
    char *text = text_of(m, &engine);
    NEAR(value_of(text, "latentd_request_success_total{model_name=\"demo\",finished_reason=\"stop\"}"), 2);
    NEAR(value_of(text, "latentd_request_success_total{model_name=\"demo\",finished_reason=\"length\"}"), 0);
    NEAR(value_of(text, "latentd_request_success_total{model_name=\"demo\",finished_reason=\"error\"}"), 1);
    NEAR(value_of(text, "latentd_http_replies_total{model_name=\"demo\",status=\"200\"}"), 2);
    NEAR(value_of(text, "latentd_http_replies_total{model_name=\"demo\",status=\"404\"}"), 1);
    NEAR(value_of(text, "latentd_http_replies_total{model_name=\"demo\",status=\"0\"}"), 1);
    free(text);
    metrics_destroy(m);
}

static void the_engine_and_every_device_are_told(void **state)
{
    (void)state;
    struct metrics *m;
    struct engine_state engine = { .n_running = 3,
                                   .n_waiting = 2,
                                   .n_paused = 1,
                                   .n_blocks = 10,
                                   .n_free_blocks = 3,
                                   .n_cached_blocks = 2,
                                   .prefix_hits = 4,
                                   .output_tokens = 99,
                                   .step_ns = 2500000000,
                                   .step_tokens = 1234,
                                   .steps_of = { 5, 0, 2, [ENGINE_STEP_BUCKETS - 1] = 1 } };
    assert_int_equal(metrics_create(&m, "demo", NULL), STATUS_OK);
    char *text = text_of(m, &engine);
    NEAR(value_of(text, "latentd_num_requests_running{model_name=\"demo\"}"), 3);
    NEAR(value_of(text, "latentd_num_requests_waiting{model_name=\"demo\"}"), 2);
    NEAR(value_of(text, "latentd_kv_cache_usage_perc{model_name=\"demo\"}"), 0.5);
    NEAR(value_of(text, "latentd_prefix_cache_hits_total{model_name=\"demo\"}"), 4);
    NEAR(value_of(text, "latentd_generation_tokens_total{model_name=\"demo\"}"), 99);
    NEAR(value_of(text, "latentd_iteration_seconds_total{model_name=\"demo\"}"), 2.5);
    NEAR(value_of(text, "latentd_iteration_tokens_total_bucket{model_name=\"demo\",le=\"1\"}"), 5);
    NEAR(value_of(text, "latentd_iteration_tokens_total_bucket{model_name=\"demo\",le=\"4\"}"), 7);
    NEAR(value_of(text, "latentd_iteration_tokens_total_bucket{model_name=\"demo\",le=\"65536\"}"), 7);
    NEAR(value_of(text, "latentd_iteration_tokens_total_bucket{model_name=\"demo\",le=\"+Inf\"}"), 8);
    NEAR(value_of(text, "latentd_iteration_tokens_total_count{model_name=\"demo\"}"), 8);
    NEAR(value_of(text, "latentd_iteration_tokens_total_sum{model_name=\"demo\"}"), 1234);
    NEAR(value_of(text, "latentd_device_weight_bytes{model_name=\"demo\",device=\"1\"}"), 12);
    NEAR(value_of(text, "latentd_device_busy_seconds_total{model_name=\"demo\",device=\"0\"}"), 1.5);
    NEAR(value_of(text, "latentd_device_waited_seconds_total{model_name=\"demo\",device=\"1\"}"), 0.25);
    NEAR(value_of(text, "latentd_device_cache_used_bytes{model_name=\"demo\",device=\"1\"}"), 1500);
    NEAR(value_of(text, "latentd_device_multiply_adds_total{model_name=\"demo\",device=\"1\"}"), 7);
    NEAR(value_of(text, "latentd_device_collective_bytes_total{model_name=\"demo\",device=\"0\"}"), 5);
    NEAR(value_of(text, "latentd_cache_config_info{model_name=\"demo\",block_size=\"32\",num_blocks=\"10\","
                        "cache_dtype=\"f32\",formulation=\"mlra_4\",devices=\"2\"}"), 1);
    free(text);
    metrics_destroy(m);
}

static void a_strange_model_name_is_escaped(void **state)
{
    (void)state;
    struct metrics *m;
    struct engine_state engine = { .n_blocks = 0, .n_running = 1 };
    assert_int_equal(metrics_create(&m, "a\"b\\c\nd", NULL), STATUS_OK);
    char *text = text_of(m, &engine);
    NEAR(value_of(text, "latentd_num_requests_running{model_name=\"a\\\"b\\\\c\\nd\"}"), 1);
    free(text);
    metrics_destroy(m);
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(metrics_create(&m, longest, NULL), STATUS_OK);
    text = text_of(m, &engine);
    NEAR(value_of(text, "latentd_num_requests_running{model_name=\"\"}"), 1);
    free(text);
    metrics_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_fall_into_the_bucket_that_holds_them),
        cmocka_unit_test(ends_and_replies_are_counted_by_kind),
        cmocka_unit_test(the_engine_and_every_device_are_told),
        cmocka_unit_test(a_strange_model_name_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
