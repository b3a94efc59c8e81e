/* test_logits - row operations against libm and plain loops, for every length past two blocks. */
#include "base/rng.h"
#include "model/logits.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_N = 300 };

static void fill(float *row, int32_t n, struct rng *rng)
{
    for (int32_t i = 0; i < n; i++)
        row[i] = (float)(40 * rng_uniform(rng) - 20);
}

static void exp_is_within_two_parts_in_ten_million(void **state)
{
    (void)state;
    double worst = 0;
    for (float x = 0; x >= -87; x = nextafterf(x, -100) * 1.00001f) {
        float y;
        logits_exp(&y, &x, 1, 0, 1);
        worst = fmax(worst, fabs((double)y / exp((double)x) - 1));
    }
    assert_true(worst < 2e-7);
    static const float far[] = { -87.01f, -1e10f, -3e38f, -INFINITY };
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        float y;
        assert_true(logits_exp(&y, &far[i], 1, 0, 1) == 0 && y == 0);
    }
    float max = 12.5f, y;
    assert_true(logits_exp(&y, &max, 1, max, 1e5f) == 1 && y == 1);
}

static void every_length_equals_a_plain_loop(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 5);
    float row[MAX_N], out[MAX_N + 1];
    for (int32_t n = 1; n <= MAX_N; n++) {
        fill(row, n, &rng);
        int32_t best = 0;
        for (int32_t i = 0; i < n; i++)
            best = row[i] > row[best] ? i : best;
        float max;
        assert_int_equal(logits_max(row, n, &max, NULL), STATUS_OK);
        assert_true(max == row[best]);
        assert_int_equal(logits_argmax(row, n), best);
        out[n] = 77;
        double sum = logits_exp(out, row, n, max, 0.7f), want = 0;
        for (int32_t i = 0; i < n; i++) {
            double term = exp(((double)row[i] - (double)max) * (double)0.7f);
            want += term;
            assert_true(fabs((double)out[i] - term) <= 3e-6 * term);
        }
        assert_true(fabs(sum / want - 1) < 3e-6);
        assert_true(out[n] == 77);
        double same = logits_exp(NULL, row, n, max, 0.7f);
        assert_memory_equal(&same, &sum, sizeof sum);
    }
}

static void where_a_row_lies_in_memory_does_not_change_its_bits(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 6);
    float row[MAX_N], moved[MAX_N + 8];
    fill(row, MAX_N, &rng);
    struct log_softmax a, b;
    assert_int_equal(log_softmax_init(&a, row, MAX_N, NULL), STATUS_OK);
    for (int shift = 0; shift < 8; shift++) {
        memcpy(moved + shift, row, sizeof row);
        assert_int_equal(log_softmax_init(&b, moved + shift, MAX_N, NULL), STATUS_OK);
        assert_memory_equal(&a.log_sum, &b.log_sum, sizeof a.log_sum);
    }
}

static void top_lists_the_likeliest_with_equals_by_lowest_token(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    float row[MAX_N];
    for (int round = 0; round < 500; round++) {
        int32_t n = 1 + (int32_t)rng_below(&rng, MAX_N);
        for (int32_t i = 0; i < n; i++)
            row[i] = (float)rng_below(&rng, round % 2 == 0 ? 4 : 1000);
        int n_top = (int)rng_below(&rng, 21);
        struct token_logprob top[20];
        struct log_softmax softmax;
        assert_int_equal(log_softmax_init(&softmax, row, n, NULL), STATUS_OK);
        int found = log_softmax_top(&softmax, row, n, top, n_top);
        assert_int_equal(found, n_top < n ? n_top : n);
        for (int k = 0; k < found; k++) {
            int in_front = 0;
            int32_t t = top[k].token;
            for (int32_t i = 0; i < n; i++)
                in_front += row[i] > row[t] || (row[i] == row[t] && i < t);
            assert_int_equal(in_front, k);
            assert_true(top[k].logprob == log_softmax_of(&softmax, row[t]));
        }
    }
}

static void probabilities_add_up_to_one(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 8);
    float row[MAX_N];
    fill(row, MAX_N, &rng);
    struct log_softmax softmax;
    assert_int_equal(log_softmax_init(&softmax, row, MAX_N, NULL), STATUS_OK);
    double sum = 0;
    for (int32_t i = 0; i < MAX_N; i++) {
        assert_true(log_softmax_of(&softmax, row[i]) <= 0);
        sum += exp((double)log_softmax_of(&softmax, row[i]));
    }
    assert_true(fabs(sum - 1) < 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_parts_in_ten_million),
        cmocka_unit_test(every_length_equals_a_plain_loop),
        cmocka_unit_test(where_a_row_lies_in_memory_does_not_change_its_bits),
        cmocka_unit_test(top_lists_the_likeliest_with_equals_by_lowest_token),
        cmocka_unit_test(probabilities_add_up_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
