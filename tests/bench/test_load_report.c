/* test_load_report - every form holds the same right figures, and nothing a server sent breaks it. */
#include "bench/load_html.h"
#include "bench/load_plot.h"
#include "bench/load_report.h"
#include "bench/load_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * (1 + fabs(want))))
        fail_msg("got %.12g, want %.12g", got, want);
}

/* Request i: due at 100 i, sent 5 later, first after 10 + i, four gaps of 2, end 1 later. */
static void add_requests(struct load_result *result, size_t n, enum load_outcome outcome)
{
    struct load_series gaps;
    load_series_init(&gaps, 100);
    for (size_t i = 0; i < n; i++) {
        int64_t due = result->start_ns + 100 * MS * (int64_t)i;
        struct load_record r = {
            .index = i,
            .due_ns = due,
            .sent_ns = due + 5 * MS,
            .first_ns = due + (15 + (int64_t)i) * MS,
            .last_ns = due + (23 + (int64_t)i) * MS,
            .end_ns = due + (24 + (int64_t)i) * MS,
            .input_tokens = 7,
            .cached_tokens = 3,
            .asked_tokens = 6,
            .output_tokens = 5,
            .n_chunks = 5,
            .outcome = outcome,
            .n_token_ids = i == 0 ? 4 : 5,
        };
        load_series_reset(&gaps);
        for (int g = 0; g < 4; g++)
            load_series_push(&gaps, 2);
        load_result_add(result, &r, &gaps,
                        outcome == LOAD_OUTCOME_OK ? "" : "</p><script>alert(\"1\")</script>");
        load_result_count_chunks(result, r.first_ns, 5);
    }
    load_series_clear(&gaps);
}

static void add_point(struct load_report *report, double rate, size_t n_ok, size_t n_failed)
{
    struct load_point point = { .rate = rate, .max_in_flight = 4, .holds = -1 };
    snprintf(point.label, sizeof point.label, "%g requests/s", rate);
    assert_int_equal(load_result_create(&point.result, n_ok + n_failed, NULL), STATUS_OK);
    point.result->start_ns = 1000 * MS;
    point.result->goals = (struct load_goals){ .ttft_ms = 14.5 };
    point.result->n_events = 1000;
    point.result->cpu_ns = 3 * MS;
    add_requests(point.result, n_ok, LOAD_OUTCOME_OK);
    add_requests(point.result, n_failed, LOAD_OUTCOME_HTTP_5XX);
    load_report_add(report, &point);
}

static struct load_report *make_report(void)
{
    struct load_report *report = calloc(1, sizeof *report);
    snprintf(report->where, sizeof report->where, "http://h:1, model <b>\"m\"&'");
    snprintf(report->arrival, sizeof report->arrival, "open loop");
    snprintf(report->dataset, sizeof report->dataset, "random");
    snprintf(report->goals, sizeof report->goals, "TTFT <= 14.5 ms");
    return report;
}

static void drop_report(struct load_report *report)
{
    load_report_clear(report);
    free(report);
}

static void figures_are_those_of_the_records(void **state)
{
    (void)state;
    struct load_report *report = make_report();
    add_point(report, 10, 10, 2);
    const struct load_figures *f = &report->points[0].figures;
    double duration_s = 0.9 + 0.033;            /* the last successful request: due 900, end 24 + 9 later */
    assert_near(f->duration_s, duration_s);
    assert_int_equal(f->n_requests, 12);
    assert_int_equal(f->n_failed, 2);
    assert_near(f->requests_per_s, 10 / duration_s);
    assert_near(f->output_per_s, 50 / duration_s);
    assert_near(f->total_per_s, 120 / duration_s);
    assert_near(f->good_per_s, 5 / duration_s);      /* TTFT 10 .. 14 of 10 .. 19 */
    assert_int_equal(f->cached_tokens, 30);
    assert_int_equal(f->n_short, 10);
    assert_int_equal(f->n_token_mismatches, 1);
    assert_near(f->tokens_per_chunk, 1);
    assert_near(f->us_per_event, 3);
    assert_near(f->metrics[LOAD_TTFT].mean, 14.5);
    assert_near(f->metrics[LOAD_TTFT].p50, 14.5);
    assert_near(f->metrics[LOAD_TTFT].p99, 18.91);
    assert_near(f->metrics[LOAD_TTFT].std, sqrt(8.25));
    assert_int_equal(f->metrics[LOAD_ITL].n, 40);
    assert_near(f->metrics[LOAD_ITL].p99, 2);
    assert_near(f->metrics[LOAD_TPOT].mean, 2);
    assert_near(f->metrics[LOAD_E2E].min, 18);
    assert_near(f->metrics[LOAD_REPLY].min, 19);
    assert_near(f->metrics[LOAD_QUEUE].max, 5);
    assert_near(f->metrics[LOAD_WAIT].mean, 19.5);
    double busy = 0;
    for (int i = 0; i < 10; i++)
        busy += 0.019 + 0.001 * i + (i < 2 ? 0.019 + 0.001 * i : 0);
    assert_near(f->in_flight_mean, busy / duration_s);
    drop_report(report);
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

static void json_is_valid_and_complete(void **state)
{
    (void)state;
    struct load_report *report = make_report();
    add_point(report, 10, 10, 2);
    report->points[0].holds = 1;
    struct buf text;
    buf_init(&text, 1 << 20);
    assert_int_equal(load_report_json(report, 1, &text), STATUS_OK);
    json_error_t why;
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL)
        fail_msg("%s at %d", why.text, why.position);
    assert_string_equal(json_string_value(json_object_get(root, "server")), report->where);
    json_t *run = json_array_get(json_object_get(root, "runs"), 0);
    assert_near(number(run, "requests_per_s"), report->points[0].figures.requests_per_s);
    assert_near(number(json_object_get(run, "outcomes"), "http_5xx"), 2);
    assert_true(json_is_true(json_object_get(run, "holds")));
    json_t *metrics = json_object_get(run, "metrics");
    assert_int_equal(json_object_size(metrics), LOAD_N_METRICS);
    assert_near(number(json_object_get(metrics, "ttft_ms"), "p99"), 18.91);
    json_t *records = json_object_get(run, "records");
    assert_int_equal(json_array_size(records), 12);
    assert_near(number(json_array_get(records, 3), "first_ms"), 318);
    assert_string_equal(json_string_value(json_object_get(json_array_get(records, 11), "outcome")),
                        "http_5xx");
    assert_int_equal(json_object_size(json_object_get(root, "definitions")), LOAD_N_METRICS + 1);
    json_decref(root);
    buf_clear(&text);
    drop_report(report);
}

static size_t count(const char *text, const char *piece)
{
    size_t n = 0;
    for (const char *at = strstr(text, piece); at != NULL; at = strstr(at + 1, piece))
        n++;
    return n;
}

static void every_csv_line_has_as_many_columns_as_the_head(void **state)
{
    (void)state;
    struct load_report *report = make_report();
    add_point(report, 10, 10, 2);
    add_point(report, 20, 1, 0);
    add_point(report, INFINITY, 0, 1);
    struct buf text;
    buf_init(&text, 1 << 20);
    assert_int_equal(load_report_csv(report, &text), STATUS_OK);
    assert_int_equal(count(text.data, "\n"), 4);
    size_t n_columns = 0;
    for (char *line = strtok(text.data, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        assert_null(strstr(line, "nan"));
        assert_null(strstr(line, "inf,"));
        if (n_columns == 0)
            n_columns = count(line, ",");
        assert_int_equal(count(line, ","), n_columns);
    }
    buf_clear(&text);
    drop_report(report);
}

static void the_table_has_the_labels_that_scripts_look_for(void **state)
{
    (void)state;
    struct load_report *report = make_report();
    add_point(report, 10, 10, 2);
    struct buf text;
    buf_init(&text, 1 << 20);
    assert_int_equal(load_table_write(report, &text), STATUS_OK);
    static const char *const labels[] = {
        "Successful requests:                               10\n",
        "Failed requests:",
        "http_5xx",
        "Benchmark duration (s):",
        "Request throughput (req/s):",
        "Request goodput (req/s):",
        "Output token throughput (tok/s):",
        "TTFT                 10      14.50",
        "ITL                  40       2.00",
        "fewer tokens than asked",
        "token ids sent disagree",
        "gap between two chunks",
    };
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++)
        if (strstr(text.data, labels[i]) == NULL)
            fail_msg("no \"%s\" in\n%s", labels[i], text.data);
    add_point(report, 20, 3, 0);
    snprintf(report->search, sizeof report->search, "Largest rate: 10");
    buf_reset(&text);
    assert_int_equal(load_table_write(report, &text), STATUS_OK);
    assert_int_equal(count(text.data, " requests/s"), 2);
    assert_non_null(strstr(text.data, "Largest rate: 10"));
    buf_clear(&text);
    drop_report(report);
}

/* Every tag that must be closed is, nothing is fetched, and no foreign text acts. */
static void check_page(const char *page)
{
    static const char *const closed[] = { "svg", "table", "div",   "dl",    "h1",
                                          "h2",  "text",  "style", "title", "html" };
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        char open[16], blank[16], close[16];
        snprintf(open, sizeof open, "<%s>", closed[i]);
        snprintf(blank, sizeof blank, "<%s ", closed[i]);
        snprintf(close, sizeof close, "</%s>", closed[i]);
        if (count(page, open) + count(page, blank) != count(page, close))
            fail_msg("%s is not closed", closed[i]);
    }
    static const char *const none[] = {
        "<script", "src=", "href=", "url(", "@import", "nan", "inf\"", "-inf"
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (strstr(page, none[i]) != NULL)
            fail_msg("%s is in the page", none[i]);
    assert_non_null(strstr(page, "&lt;b&gt;&quot;m&quot;&amp;&#39;"));
    assert_non_null(strstr(page, "prefers-color-scheme:dark"));
}

static void the_page_stands_alone_and_escapes_what_it_shows(void **state)
{
    (void)state;
    struct load_report *report = make_report();
    struct buf text;
    buf_init(&text, 1 << 20);
    add_point(report, 10, 10, 2);
    assert_int_equal(load_html_write(report, &text), STATUS_OK);
    check_page(text.data);
    assert_non_null(strstr(text.data, "&lt;script&gt;"));
    assert_int_equal(count(text.data, "<svg"), 3);      /* less than two seconds: no timeline of chunks */
    add_point(report, 5, 10, 0);
    add_point(report, 20, 0, 0);
    buf_reset(&text);
    assert_int_equal(load_html_write(report, &text), STATUS_OK);
    check_page(text.data);
    assert_int_equal(count(text.data, "<svg"), 4);
    assert_int_equal(count(text.data, "<circle"), 3 * 2 * 3 + 3);
    buf_clear(&text);
    drop_report(report);
}

static void what_was_not_asked_for_has_no_column(void **state)
{
    (void)state;
    struct load_report *report = make_report();
    struct buf text;
    buf_init(&text, 1 << 20);
    add_point(report, 10, 10, 2);
    assert_int_equal(load_html_write(report, &text), STATUS_OK);
    assert_int_equal(count(text.data, "<th>good requests/s"), 1);
    assert_int_equal(count(text.data, "<th>bounds"), 0);
    assert_int_equal(count(text.data, "Interrupted"), 0);
    report->goals[0] = '\0';
    report->has_search = 1;
    report->points[0].result->was_interrupted = 1;
    buf_reset(&text);
    assert_int_equal(load_html_write(report, &text), STATUS_OK);
    assert_int_equal(count(text.data, "<th>good requests/s"), 0);
    assert_int_equal(count(text.data, "<th>bounds"), 1);
    assert_int_equal(count(text.data, "Interrupted"), 1);
    buf_reset(&text);
    assert_int_equal(load_table_write(report, &text), STATUS_OK);
    assert_int_equal(count(text.data, "interrupted: "), 1);
    buf_clear(&text);
    drop_report(report);
}

static void an_empty_run_prints_in_every_form(void **state)
{
    (void)state;
    struct load_report *report = make_report();
    struct buf text;
    buf_init(&text, 1 << 20);
    add_point(report, 10, 0, 0);
    assert_int_equal(load_html_write(report, &text), STATUS_OK);
    check_page(text.data);
    assert_int_equal(load_table_write(report, &text), STATUS_OK);
    assert_int_equal(load_report_csv(report, &text), STATUS_OK);
    assert_int_equal(load_report_json(report, 1, &text), STATUS_OK);
    buf_clear(&text);
    drop_report(report);
}

static void a_full_buffer_is_reported_by_every_form(void **state)
{
    (void)state;
    struct load_report *report = make_report();
    add_point(report, 10, 10, 2);
    for (size_t max = 0; max < 3000; max += 37) {
        struct buf text;
        buf_init(&text, max);
        assert_int_equal(load_html_write(report, &text), STATUS_TOO_LARGE);
        buf_reset(&text);
        assert_int_equal(load_report_json(report, 1, &text), STATUS_TOO_LARGE);
        buf_clear(&text);
    }
    drop_report(report);
}

static void ticks_are_round_and_at_most_six_parts(void **state)
{
    (void)state;
    for (double max = 1e-6; max < 1e9; max *= 1.07) {
        double step = load_plot_step(max);
        double digits = step / pow(10, floor(log10(step) + 1e-9));
        assert_true(fabs(digits - 1) < 1e-6 || fabs(digits - 2) < 1e-6 || fabs(digits - 5) < 1e-6);
        assert_true(max / step <= 6 + 1e-9 && max / step >= 2.3);
    }
    assert_near(load_plot_step(0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_the_records),
        cmocka_unit_test(json_is_valid_and_complete),
        cmocka_unit_test(every_csv_line_has_as_many_columns_as_the_head),
        cmocka_unit_test(the_table_has_the_labels_that_scripts_look_for),
        cmocka_unit_test(the_page_stands_alone_and_escapes_what_it_shows),
        cmocka_unit_test(what_was_not_asked_for_has_no_column),
        cmocka_unit_test(an_empty_run_prints_in_every_form),
        cmocka_unit_test(a_full_buffer_is_reported_by_every_form),
        cmocka_unit_test(ticks_are_round_and_at_most_six_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
