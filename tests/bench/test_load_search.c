/* test_load_search - the search finds the border between rates that hold and rates that fail. */
#include "base/rng.h"
#include "bench/load_search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.9g, want %.9g within %.3g", got, want, tolerance);
}

/* Search against a server whose border is known. */
static struct load_search run(double border, const struct load_search_options *options)
{
    struct load_search search;
    load_search_init(&search, options);
    double rate = 0;
    while (load_search_next(&search, &rate)) {
        assert_true(rate > 0 && rate <= options->max_rate);
        load_search_report(&search, rate <= border);
        assert_true(search.n_runs <= options->max_runs);
    }
    return search;
}

static void any_border_is_found_within_the_tolerance(void **state)
{
    (void)state;
    struct load_search_options o = { .first_rate = 1, .max_rate = 1024, .tolerance = 0.05, .max_runs = 64 };
    struct rng rng;
    rng_seed(&rng, 1);
    for (int i = 0; i < 2000; i++) {
        double border = 0.01 + 1000 * rng_uniform(&rng) * rng_uniform(&rng) * rng_uniform(&rng);
        struct load_search s = run(border, &o);
        assert_true(s.holds <= border && s.fails > border);
        assert_true(s.fails - s.holds <= 0.05 * s.holds + 1e-12);
    }
}

static void a_server_that_always_holds_ends_at_the_largest_rate(void **state)
{
    (void)state;
    struct load_search_options o = { .first_rate = 3, .max_rate = 100, .tolerance = 0.05, .max_runs = 64 };
    struct load_search s = run(1e9, &o);
    assert_near(s.holds, 100, 0);
    assert_near(s.fails, 0, 0);
    assert_int_equal(s.n_runs, 7);      /* 3 6 12 24 48 96 100 */
}

static void a_server_that_never_holds_ends_without_a_rate(void **state)
{
    (void)state;
    struct load_search_options o = { .first_rate = 1, .max_rate = 100, .tolerance = 0.05, .max_runs = 64 };
    struct load_search s = run(0, &o);
    assert_near(s.holds, 0, 0);
    assert_int_equal(s.n_runs, 11);
}

static void the_number_of_runs_is_bounded(void **state)
{
    (void)state;
    struct load_search_options o = { .first_rate = 1, .max_rate = 1e6, .tolerance = 0.001, .max_runs = 5 };
    struct load_search s = run(1000, &o);
    assert_int_equal(s.n_runs, 5);
    assert_near(s.holds, 16, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_border_is_found_within_the_tolerance),
        cmocka_unit_test(a_server_that_always_holds_ends_at_the_largest_rate),
        cmocka_unit_test(a_server_that_never_holds_ends_without_a_rate),
        cmocka_unit_test(the_number_of_runs_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
