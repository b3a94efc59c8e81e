/* test_prefix_entry - what the prefix cache tells of its blocks, and which salts are private. */
#include "cache/prefix_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 4, N_BLOCKS = 6 };

static void a_published_block_is_read_back_and_an_evicted_one_is_not(void **state)
{
    (void)state;
    struct block_pool *pool;
    struct prefix_cache *cache;
    assert_int_equal(block_pool_create(&pool, N_BLOCKS, NULL), STATUS_OK);
    struct prefix_cache_options options = { .pool = pool, .block_size = BLOCK };
    assert_int_equal(prefix_cache_create(&cache, &options, NULL), STATUS_OK);

    static const int32_t tokens[2 * BLOCK] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    struct prefix_salt salt = { { 9 } };
    struct prefix_entry first, second, again;
    block_id ids[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(block_pool_take(pool, &ids[i], NULL), STATUS_OK);
        assert_int_equal(prefix_cache_read(cache, ids[i], &first), 0);
        struct prefix_block block = {
            .id = ids[i], .parent = i == 0 ? BLOCK_NONE : ids[0], .tokens = tokens + BLOCK * i, .n_given = 6 - 4 * i,
            .salt = &salt,
        };
        assert_int_equal(prefix_cache_publish(cache, &block), ids[i]);
    }
    assert_int_equal(prefix_cache_read(cache, ids[0], &first), 1);
    assert_int_equal(prefix_cache_read(cache, ids[1], &second), 1);
    assert_int_equal(first.parent, BLOCK_NONE);
    assert_int_equal(second.parent, ids[0]);
    assert_int_equal(first.n_given, BLOCK);
    assert_int_equal(second.n_given, 2);
    assert_memory_equal(first.tokens, tokens, sizeof tokens / 2);
    assert_memory_equal(second.tokens, tokens + BLOCK, sizeof tokens / 2);
    assert_memory_equal(second.salt, &salt, sizeof salt);
    assert_true(first.serial > 0 && second.serial > first.serial);

    /* Evicted and published anew, it is another publication. */
    prefix_cache_reset(cache);
    assert_int_equal(prefix_cache_read(cache, ids[0], &again), 0);
    struct prefix_block block = { .id = ids[0], .parent = BLOCK_NONE, .tokens = tokens, .n_given = 4, .salt = &salt };
    assert_int_equal(prefix_cache_publish(cache, &block), ids[0]);
    assert_int_equal(prefix_cache_read(cache, ids[0], &again), 1);
    assert_true(again.serial > second.serial);

    block_pool_drop(pool, ids[1]);
    block_pool_drop(pool, ids[0]);
    prefix_cache_destroy(cache);
    block_pool_destroy(pool);
}

static void private_salts_differ_and_no_other_salt_is_private(void **state)
{
    (void)state;
    struct prefix_salt a, b, none = { { 0 } };
    prefix_salt_make_private(&a, 1);
    prefix_salt_make_private(&b, 2);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_true(prefix_salt_is_private(&a) && prefix_salt_is_private(&b));
    assert_false(prefix_salt_is_private(&none));
    for (size_t i = 8; i < sizeof a.bytes; i++) {
        struct prefix_salt other = a;
        other.bytes[i] ^= 1;
        assert_false(prefix_salt_is_private(&other));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_published_block_is_read_back_and_an_evicted_one_is_not),
        cmocka_unit_test(private_salts_differ_and_no_other_salt_is_private),
    };
    return cmocka_run_group_tests_name("prefix entry", tests, NULL, NULL);
}
