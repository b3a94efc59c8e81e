/* test_load_arrival - arrival times have the asked rate exactly and the asked distribution closely. */
#include "bench/load_arrival.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.9g, want %.9g within %.3g", got, want, tolerance);
}

static struct load_arrival plan(const struct load_arrival_options *options)
{
    struct load_arrival arrival;
    assert_int_equal(load_arrival_open(&arrival, options, NULL), STATUS_OK);
    for (size_t i = 1; i < arrival.n; i++)
        assert_true(arrival.due_ns[i] >= arrival.due_ns[i - 1]);
    assert_true(arrival.due_ns[0] >= 0);
    return arrival;
}

static double gap_s(const struct load_arrival *a, size_t i)
{
    return (double)(a->due_ns[i] - (i > 0 ? a->due_ns[i - 1] : 0)) / 1e9;
}

static void the_last_request_is_due_at_n_over_rate(void **state)
{
    (void)state;
    const double rates[] = { 0.5, 7, 123.4 }, shapes[] = { 0.1, 0.5, 1, 4, 100, INFINITY };
    for (size_t r = 0; r < 3; r++)
        for (size_t b = 0; b < 6; b++)
            for (uint64_t seed = 1; seed <= 5; seed++) {
                struct load_arrival_options o = {
                    .rate = rates[r], .burstiness = shapes[b], .n_requests = 200, .seed = seed
                };
                struct load_arrival a = plan(&o);
                assert_near((double)a.due_ns[199] / 1e9 * rates[r] / 200, 1, 1e-6);
                load_arrival_clear(&a);
            }
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The largest distance between the empirical distribution and 1 - exp(-x). */
static double distance_to_exponential(double *gaps, size_t n)
{
    qsort(gaps, n, sizeof *gaps, compare);
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double f = 1 - exp(-gaps[i]);
        worst = fmax(worst, fmax(fabs(f - (double)i / (double)n), fabs(f - (double)(i + 1) / (double)n)));
    }
    return worst;
}

static void burstiness_one_is_poisson(void **state)
{
    (void)state;
    enum { N = 20000 };
    double *gaps = malloc(N * sizeof *gaps);
    struct load_arrival_options o = { .rate = 50, .burstiness = 1, .n_requests = N, .seed = 3 };
    struct load_arrival a = plan(&o);
    for (size_t i = 0; i < N; i++)
        gaps[i] = gap_s(&a, i) * 50;
    /* Kolmogorov-Smirnov, 0.1 % level: 1.95 / sqrt(n). */
    assert_true(distance_to_exponential(gaps, N) < 1.95 / sqrt(N));
    load_arrival_clear(&a);
    free(gaps);
}

static void the_spread_of_gaps_follows_the_burstiness(void **state)
{
    (void)state;
    const double shapes[] = { 0.25, 0.5, 1, 2, 16 };
    enum { N = 100000 };
    for (size_t b = 0; b < 5; b++) {
        struct load_arrival_options o = { .rate = 10, .burstiness = shapes[b], .n_requests = N, .seed = 11 };
        struct load_arrival a = plan(&o);
        double mean = 0, squares = 0;
        for (size_t i = 0; i < N; i++)
            mean += gap_s(&a, i) / N;
        for (size_t i = 0; i < N; i++)
            squares += pow(gap_s(&a, i) - mean, 2) / N;
        assert_near(mean, 0.1, 1e-6);
        assert_near(sqrt(squares) / mean * sqrt(shapes[b]), 1, 0.03);    /* CV of a gamma: 1/sqrt(shape) */
        load_arrival_clear(&a);
    }
}

static void gamma_has_its_moments(void **state)
{
    (void)state;
    const double shapes[] = { 0.05, 0.3, 1, 2.5, 40 };
    struct rng rng;
    rng_seed(&rng, 5);
    for (size_t b = 0; b < 5; b++) {
        enum { N = 400000 };
        double sum = 0, squares = 0, cubes = 0, shape = shapes[b];
        for (int i = 0; i < N; i++) {
            double g = load_gamma(&rng, shape);
            assert_true(g >= 0 && isfinite(g));
            sum += g;
            squares += (g - shape) * (g - shape);
            cubes += (g - shape) * (g - shape) * (g - shape);
        }
        assert_near(sum / N / shape, 1, 5 / sqrt(shape * N));
        assert_near(squares / N / shape, 1, 0.05);
        assert_near(cubes / N / shape, 2, 0.3);      /* third central moment: 2 * shape */
    }
}

static void infinite_burstiness_is_evenly_spaced(void **state)
{
    (void)state;
    struct load_arrival_options o = { .rate = 4, .burstiness = INFINITY, .n_requests = 8, .seed = 1 };
    struct load_arrival a = plan(&o);
    for (size_t i = 0; i < 8; i++)
        assert_near((double)a.due_ns[i] / 1e9, 0.25 * (double)(i + 1), 1e-8);
    load_arrival_clear(&a);
}

static void infinite_rate_is_all_at_once(void **state)
{
    (void)state;
    struct load_arrival_options o = { .rate = INFINITY, .burstiness = 1, .n_requests = 5, .seed = 1 };
    struct load_arrival a = plan(&o);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(a.due_ns[i], 0);
    load_arrival_clear(&a);
}

static void a_ramp_goes_from_one_rate_to_the_other(void **state)
{
    (void)state;
    const enum load_ramp ramps[] = { LOAD_RAMP_LINEAR, LOAD_RAMP_EXPONENTIAL };
    const double middles[] = { 26, 10 };        /* of 2 and 50: arithmetic, geometric mean */
    for (size_t r = 0; r < 2; r++) {
        struct load_arrival_options o = { .rate = 2, .end_rate = 50, .ramp = ramps[r], .burstiness = INFINITY,
                                          .n_requests = 1001, .seed = 1 };
        struct load_arrival a = plan(&o);
        assert_near(1 / gap_s(&a, 0), 2, 0.01);
        assert_near(1 / gap_s(&a, 500), middles[r], 0.05);
        assert_near(1 / gap_s(&a, 1000), 50, 0.1);
        load_arrival_clear(&a);
    }
}

static void count_and_duration_agree(void **state)
{
    (void)state;
    struct load_arrival_options o = { .rate = 8, .burstiness = 1, .seed = 1 };
    assert_int_equal(load_arrival_count(&o, 10), 80);
    assert_int_equal(load_arrival_count(&o, 0.001), 1);
    o.rate = 2, o.end_rate = 50, o.ramp = LOAD_RAMP_LINEAR;
    o.n_requests = load_arrival_count(&o, 60);
    o.burstiness = INFINITY;
    struct load_arrival a = plan(&o);
    assert_near((double)a.due_ns[a.n - 1] / 1e9, 60, 0.6);
    load_arrival_clear(&a);
    o.ramp = LOAD_RAMP_NONE, o.rate = INFINITY;
    assert_int_equal(load_arrival_count(&o, 1), LOAD_MAX_REQUESTS);
}

static void the_same_seed_gives_the_same_times_and_another_others(void **state)
{
    (void)state;
    struct load_arrival_options o = { .rate = 8, .burstiness = 0.7, .n_requests = 50, .seed = 9 };
    struct load_arrival a = plan(&o), b = plan(&o);
    o.seed = 10;
    struct load_arrival c = plan(&o);
    assert_memory_equal(a.due_ns, b.due_ns, 50 * sizeof *a.due_ns);
    assert_memory_not_equal(a.due_ns, c.due_ns, 50 * sizeof *a.due_ns);
    load_arrival_clear(&a);
    load_arrival_clear(&b);
    load_arrival_clear(&c);
}

static void a_trace_keeps_its_gaps_at_its_speed(void **state)
{
    (void)state;
    const double ms[] = { 5000, 5000, 5250, 7000 };
    struct load_arrival a;
    assert_int_equal(load_arrival_trace(&a, ms, 4, 2, NULL), STATUS_OK);
    const int64_t want[] = { 0, 0, 125000000, 1000000000 };
    for (int i = 0; i < 4; i++)
        assert_int_equal(a.due_ns[i], want[i]);
    load_arrival_clear(&a);
}

static void values_outside_the_ranges_are_refused(void **state)
{
    (void)state;
    const struct load_arrival_options rows[] = {
        { .rate = 0, .burstiness = 1, .n_requests = 1 },
        { .rate = -1, .burstiness = 1, .n_requests = 1 },
        { .rate = NAN, .burstiness = 1, .n_requests = 1 },
        { .rate = 1, .burstiness = 0, .n_requests = 1 },
        { .rate = 1, .burstiness = 1, .n_requests = 0 },
        { .rate = 1, .burstiness = 1, .n_requests = LOAD_MAX_REQUESTS + 1 },
        { .rate = 1, .burstiness = 1, .n_requests = 1, .ramp = LOAD_RAMP_LINEAR, .end_rate = 0 },
        { .rate = INFINITY, .burstiness = 1, .n_requests = 1, .ramp = LOAD_RAMP_LINEAR, .end_rate = 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct load_arrival a;
        struct error err = { 0 };
        assert_int_equal(load_arrival_open(&a, &rows[i], &err), STATUS_BAD_OPTION);
        assert_true(err.text[0] != '\0');
    }
    struct load_arrival a;
    const double ms[] = { 0 };
    assert_int_equal(load_arrival_trace(&a, ms, 0, 1, NULL), STATUS_BAD_OPTION);
    assert_int_equal(load_arrival_trace(&a, ms, 1, 0, NULL), STATUS_BAD_OPTION);
}

static void a_rate_near_zero_does_not_overflow(void **state)
{
    (void)state;
    struct load_arrival_options o = { .rate = 1e-300, .burstiness = 1, .n_requests = 3, .seed = 1 };
    struct load_arrival a = plan(&o);
    assert_true(a.due_ns[2] > 0);
    load_arrival_clear(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_request_is_due_at_n_over_rate),
        cmocka_unit_test(burstiness_one_is_poisson),
        cmocka_unit_test(the_spread_of_gaps_follows_the_burstiness),
        cmocka_unit_test(gamma_has_its_moments),
        cmocka_unit_test(infinite_burstiness_is_evenly_spaced),
        cmocka_unit_test(infinite_rate_is_all_at_once),
        cmocka_unit_test(a_ramp_goes_from_one_rate_to_the_other),
        cmocka_unit_test(count_and_duration_agree),
        cmocka_unit_test(the_same_seed_gives_the_same_times_and_another_others),
        cmocka_unit_test(a_trace_keeps_its_gaps_at_its_speed),
        cmocka_unit_test(values_outside_the_ranges_are_refused),
        cmocka_unit_test(a_rate_near_zero_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
