/* test_rng - the published sequences, and numbers that are uniform, unbiased and repeatable. */
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static void the_generator_gives_the_published_numbers(void **state)
{
    (void)state;
    /* First outputs of xoshiro256** from the state 1, 2, 3, 4. */
    static const uint64_t want[] = {
        11520u, 0u, 1509978240u, 1215971899390074240u, 1216172134540287360u,
    };
    struct rng rng = { { 1, 2, 3, 4 } };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_true(rng_next(&rng) == want[i]);
}

static void the_seeding_gives_the_published_numbers(void **state)
{
    (void)state;
    /* First outputs of splitmix64 from the seed 1234567. */
    static const uint64_t want[] = {
        6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
    };
    struct rng rng;
    rng_seed(&rng, 1234567);
    for (size_t i = 0; i < 4; i++)
        assert_true(rng.s[i] == want[i]);
}

static void equal_seeds_agree_and_neighbours_do_not(void **state)
{
    (void)state;
    struct rng a, b, c;
    rng_seed(&a, 10);
    rng_seed(&b, 10);
    rng_seed(&c, 11);
    int equal = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_next(&a);
        assert_true(x == rng_next(&b));
        equal += x == rng_next(&c);
    }
    assert_int_equal(equal, 0);
}

static void uniform_numbers_lie_in_the_interval_and_fill_it_evenly(void **state)
{
    (void)state;
    enum { n = 1000000, n_bins = 100 };
    struct rng rng;
    rng_seed(&rng, 12);
    int bins[n_bins] = { 0 };
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double x = rng_uniform(&rng);
        assert_true(x >= 0.0 && x < 1.0);
        bins[(int)(x * n_bins)]++;
        sum += x;
    }
    assert_true(fabs(sum / n - 0.5) < 0.002);
    double chi = 0;
    for (int i = 0; i < n_bins; i++)
        chi += (bins[i] - n / n_bins) * (double)(bins[i] - n / n_bins) / (n / n_bins);
    assert_true(chi < 170);     /* 99 degrees of freedom: 1 in 10,000 is above 161 */
}

static void numbers_below_n_are_below_n_and_equally_frequent(void **state)
{
    (void)state;
    static const uint64_t limits[] = { 1, 2, 3, 7, 10, 64 };
    struct rng rng;
    rng_seed(&rng, 13);
    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
        int counts[64] = { 0 };
        enum { n = 200000 };
        for (int i = 0; i < n; i++) {
            uint64_t x = rng_below(&rng, limits[k]);
            assert_true(x < limits[k]);
            counts[x]++;
        }
        double mean = (double)n / (double)limits[k];
        for (uint64_t i = 0; i < limits[k]; i++)
            assert_true(fabs(counts[i] - mean) < 6 * sqrt(mean) + 1);
    }
}

/* 2/3 of the 64-bit range: taking the remainder alone would favour the lower half
 * by two to one. */
static void a_huge_n_is_not_biased_to_its_lower_half(void **state)
{
    (void)state;
    uint64_t n = UINT64_MAX / 3 * 2;
    struct rng rng;
    rng_seed(&rng, 14);
    int low = 0;
    for (int i = 0; i < 100000; i++) {
        uint64_t x = rng_below(&rng, n);
        assert_true(x < n);
        low += x < n / 2;
    }
    assert_in_range(low, 49000, 51000);
    assert_true(rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

static void sub_seeds_of_many_parts_are_all_different(void **state)
{
    (void)state;
    enum { n = 2000 };
    static uint64_t seeds[2 * n];
    for (uint64_t i = 0; i < n; i++) {
        seeds[i] = rng_sub_seed(0, i);
        seeds[n + i] = rng_sub_seed(1, i);
    }
    for (int i = 0; i < 2 * n; i++)
        for (int j = 0; j < i; j++)
            assert_true(seeds[i] != seeds[j]);
    assert_true(rng_sub_seed(5, 6) == rng_sub_seed(5, 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generator_gives_the_published_numbers),
        cmocka_unit_test(the_seeding_gives_the_published_numbers),
        cmocka_unit_test(equal_seeds_agree_and_neighbours_do_not),
        cmocka_unit_test(uniform_numbers_lie_in_the_interval_and_fill_it_evenly),
        cmocka_unit_test(numbers_below_n_are_below_n_and_equally_frequent),
        cmocka_unit_test(a_huge_n_is_not_biased_to_its_lower_half),
        cmocka_unit_test(sub_seeds_of_many_parts_are_all_different),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
