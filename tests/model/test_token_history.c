/* test_token_history - counts of seen tokens against a plain array, over many resets. */
#include "base/rng.h"
#include "model/token_history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 3000, MAX_TOKENS = 700 };

static void counts_equal_a_plain_array_after_any_number_of_resets(void **state)
{
    (void)state;
    struct token_history *history;
    struct rng rng;
    rng_seed(&rng, 1);
    assert_int_equal(token_history_create(&history, VOCAB, MAX_TOKENS, NULL), STATUS_OK);
    for (int round = 0; round < 300; round++) {
        static int n_output[VOCAB], is_seen[VOCAB];
        memset(n_output, 0, sizeof n_output);
        memset(is_seen, 0, sizeof is_seen);
        int distinct = 0, n_pushes = (int)rng_below(&rng, MAX_TOKENS + 1);
        /* Small ranges repeat tokens, large ones collide in the hash. */
        uint64_t range = round % 2 == 0 ? VOCAB : 20;
        for (int i = 0; i < n_pushes; i++) {
            int32_t token = (int32_t)rng_below(&rng, range);
            int is_output = i > n_pushes / 2;
            distinct += !is_seen[token];
            is_seen[token] = 1;
            n_output[token] += is_output;
            token_history_push(history, token, is_output);
        }
        int32_t n;
        const struct token_seen *seen = token_history_seen(history, &n);
        assert_int_equal(n, distinct);
        for (int32_t i = 0; i < n; i++) {
            assert_true(is_seen[seen[i].token]);
            is_seen[seen[i].token] = 0;
            assert_int_equal(seen[i].n_output, n_output[seen[i].token]);
        }
        token_history_reset(history);
        token_history_seen(history, &n);
        assert_int_equal(n, 0);
    }
    token_history_destroy(history);
}

static void a_small_vocabulary_bounds_the_distinct_tokens(void **state)
{
    (void)state;
    struct token_history *history;
    assert_int_equal(token_history_create(&history, 4, 100000000, NULL), STATUS_OK);
    for (int i = 0; i < 1000; i++)
        token_history_push(history, i % 4, 1);
    int32_t n;
    const struct token_seen *seen = token_history_seen(history, &n);
    assert_int_equal(n, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(seen[i].token, i);
        assert_int_equal(seen[i].n_output, 250);
    }
    token_history_destroy(history);
    token_history_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_equal_a_plain_array_after_any_number_of_resets),
        cmocka_unit_test(a_small_vocabulary_bounds_the_distinct_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
