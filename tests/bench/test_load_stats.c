/* test_load_stats - percentiles, mean and deviation agree with a plain oracle, and a full series says so. */
#include "base/rng.h"
#include "bench/load_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.9g, want %.9g within %.3g", got, want, tolerance);
}

/* The k-th smallest by counting, without sorting: n is small. */
static double kth_smallest(const double *values, size_t n, size_t k)
{
    for (size_t i = 0; i < n; i++) {
        size_t n_less = 0, n_equal = 0;
        for (size_t j = 0; j < n; j++) {
            n_less += values[j] < values[i];
            n_equal += values[j] == values[i];
        }
        if (n_less <= k && k < n_less + n_equal)
            return values[i];
    }
    return NAN;
}

static double oracle_percentile(const double *values, size_t n, double p)
{
    long double at = (long double)p * (long double)(n - 1) / 100;
    size_t low = (size_t)floorl(at), high = (size_t)ceill(at);
    long double a = kth_smallest(values, n, low), b = kth_smallest(values, n, high);
    return (double)(a + (b - a) * (at - (long double)low));
}

static void check_against_oracle(const double *values, size_t n)
{
    struct load_series series;
    load_series_init(&series, n);
    long double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        load_series_push(&series, values[i]);
        sum += values[i];
    }
    long double mean = sum / (long double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    struct load_summary got = load_series_summarise(&series);
    double scale = 1e-12 * (1 + fabs((double)mean));
    assert_int_equal(got.n, n);
    assert_true(fabs(got.mean - (double)mean) <= scale);
    assert_true(fabs(got.std - (double)sqrtl(squares / (long double)n)) <= 1e-9 * (1 + got.std));
    const struct {
        double p, got;
    } rows[] = { { 0, got.min },  { 50, got.p50 }, { 90, got.p90 },
                 { 95, got.p95 }, { 99, got.p99 }, { 100, got.max } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_true(fabs(rows[i].got - oracle_percentile(values, n, rows[i].p)) <= scale);
    load_series_clear(&series);
}

static void percentiles_equal_the_oracle_for_every_length_up_to_130(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    double values[130];
    for (size_t n = 1; n <= 130; n++) {
        /* Every third series is full of equal values. */
        for (size_t i = 0; i < n; i++)
            values[i] = n % 3 == 0 ? (double)rng_below(&rng, 4) : 1000 * rng_uniform(&rng) - 200;
        check_against_oracle(values, n);
    }
}

static void known_percentiles_of_one_to_five(void **state)
{
    (void)state;
    struct load_series series;
    load_series_init(&series, 10);
    const double values[] = { 5, 1, 4, 2, 3 };
    for (int i = 0; i < 5; i++)
        load_series_push(&series, values[i]);
    assert_near(load_series_percentile(&series, 50), 3, 0);
    assert_near(load_series_percentile(&series, 90), 4.6, 1e-12);
    assert_near(load_series_summarise(&series).std, sqrt(2), 1e-12);
    load_series_push(&series, 0);       /* after a sort */
    assert_near(load_series_percentile(&series, 0), 0, 0);
    load_series_clear(&series);
}

static void small_spread_on_a_large_value_keeps_its_deviation(void **state)
{
    (void)state;
    struct load_series series;
    load_series_init(&series, 1000);
    for (int i = 0; i < 1000; i++)
        load_series_push(&series, 1e9 + (i % 2));
    assert_near(load_series_summarise(&series).std, 0.5, 1e-9);
    load_series_clear(&series);
}

static void empty_series_is_all_zero(void **state)
{
    (void)state;
    struct load_series series;
    load_series_init(&series, 4);
    struct load_summary got = load_series_summarise(&series);
    assert_int_equal(got.n, 0);
    assert_true(got.mean == 0 && got.std == 0 && got.p99 == 0 && got.max == 0);
    load_series_clear(&series);
}

static void samples_past_the_maximum_are_counted_as_lost(void **state)
{
    (void)state;
    struct load_series series, sum;
    load_series_init(&series, 100);
    load_series_init(&sum, 150);
    for (int i = 0; i < 130; i++)
        load_series_push(&series, i);
    assert_int_equal(series.n, 100);
    assert_int_equal(series.n_lost, 30);
    assert_near(load_series_percentile(&series, 100), 99, 0);
    load_series_append(&sum, &series);
    load_series_append(&sum, &series);
    assert_int_equal(sum.n, 150);
    assert_int_equal(sum.n_lost, 50 + 30 + 30);
    load_series_reset(&series);
    assert_int_equal(load_series_summarise(&series).n_lost, 0);
    load_series_clear(&series);
    load_series_clear(&sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_equal_the_oracle_for_every_length_up_to_130),
        cmocka_unit_test(known_percentiles_of_one_to_five),
        cmocka_unit_test(small_spread_on_a_large_value_keeps_its_deviation),
        cmocka_unit_test(empty_series_is_all_zero),
        cmocka_unit_test(samples_past_the_maximum_are_counted_as_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
