/* test_bench_table - the same rows in Markdown, CSV and JSON, to the byte. */
#include "bench/bench_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct bench_column columns[] = {
    BENCH_WORDS("name"), BENCH_SAMPLES("t/s", 1), BENCH_NUMBER("ms", 2),
};

/* Two rows; the second has nothing to say in two of its columns.  The caller frees. */
static char *print(enum bench_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    struct bench_table t;
    bench_table_begin(&t, out, format, columns, 3);
    struct load_summary summary = { .mean = 10.25, .std = 0.5, .min = 9, .p50 = 10, .max = 12 };
    bench_table_text(&t, "a, b");
    bench_table_summary(&t, &summary);
    bench_table_number(&t, 1.005);
    bench_table_text(&t, "c");
    bench_table_none(&t);
    bench_table_none(&t);
    assert_int_equal(bench_table_end(&t, NULL), STATUS_OK);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void check(enum bench_format format, const char *want)
{
    char *got = print(format);
    assert_string_equal(got, want);
    free(got);
}

static void markdown_rounds_and_shows_the_deviation(void **state)
{
    (void)state;
    check(BENCH_MARKDOWN, "| name | t/s | ms |\n|---|--:|--:|\n| a, b | 10.2 ± 0.5 | 1.00 |\n| c | - | - |\n");
}

static void csv_has_five_columns_for_samples(void **state)
{
    (void)state;
    check(BENCH_CSV, "name,t/s,t/s std,t/s min,t/s median,t/s max,ms\n"
                     "\"a, b\",10.25,0.5,9,10,12,1.005\n\"c\",,,,,,\n");
}

static void json_is_a_list_of_objects(void **state)
{
    (void)state;
    check(BENCH_JSON, "[\n{\"name\": \"a, b\", \"t/s\": {\"mean\": 10.25, \"std\": 0.5, \"min\": 9, \"median\": 10, "
                      "\"max\": 12}, \"ms\": 1.005},\n{\"name\": \"c\", \"t/s\": null, \"ms\": null}\n]\n");
}

static void a_full_disk_is_told(void **state)
{
    (void)state;
    FILE *out = fopen("/dev/full", "w");
    assert_non_null(out);
    struct bench_table t;
    bench_table_begin(&t, out, BENCH_CSV, columns, 3);
    struct error err = { 0 };
    assert_int_equal(bench_table_end(&t, &err), STATUS_IO);
    assert_true(err.text[0] != '\0');
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markdown_rounds_and_shows_the_deviation),
        cmocka_unit_test(csv_has_five_columns_for_samples),
        cmocka_unit_test(json_is_a_list_of_objects),
        cmocka_unit_test(a_full_disk_is_told),
    };
    return cmocka_run_group_tests_name("bench_table", tests, NULL, NULL);
}
