/* test_block_table - growing, sharing, copying and dropping one sequence's list of blocks. */
#include "cache/block_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SIZE 4      /* tokens of a block */

static struct block_pool *new_pool(int32_t n_blocks)
{
    struct block_pool *pool = NULL;
    assert_int_equal(block_pool_create(&pool, n_blocks, NULL), STATUS_OK);
    return pool;
}

static struct block_table *new_table(int32_t max_blocks)
{
    struct block_table *table = NULL;
    assert_int_equal(block_table_create(&table, max_blocks, SIZE, NULL), STATUS_OK);
    return table;
}

static void grow(struct block_table *table, struct block_pool *pool, int32_t n_tokens)
{
    assert_int_equal(block_table_grow(table, pool, n_tokens, NULL), STATUS_OK);
}

static void end(struct block_table *table, struct block_pool *pool)
{
    block_table_truncate(table, pool, 0);
    block_table_destroy(table);
}

static void test_blocks_for_rounds_up_without_overflow(void **state)
{
    (void)state;
    assert_int_equal(block_table_blocks_for(0, SIZE), 0);
    assert_int_equal(block_table_blocks_for(1, SIZE), 1);
    assert_int_equal(block_table_blocks_for(4, SIZE), 1);
    assert_int_equal(block_table_blocks_for(5, SIZE), 2);
    assert_int_equal(block_table_blocks_for(INT32_MAX, 2), INT32_MAX / 2 + 1);
}

static void test_growing_takes_exactly_the_blocks_that_the_tokens_need(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(8);
    struct block_table *table = new_table(3);
    assert_int_equal(block_table_capacity(table), 3);
    grow(table, pool, 1);
    assert_int_equal(block_table_count(table), 1);
    block_id first = block_table_ids(table)[0];
    grow(table, pool, 4);
    assert_int_equal(block_table_count(table), 1);
    grow(table, pool, 12);
    assert_int_equal(block_table_count(table), 3);
    assert_int_equal(block_table_ids(table)[0], first);
    grow(table, pool, 5);
    assert_int_equal(block_table_count(table), 3);
    assert_int_equal(block_pool_available(pool), 5);
    end(table, pool);
    assert_int_equal(block_pool_available(pool), 8);
    block_pool_destroy(pool);
}

static void test_growing_past_the_pool_changes_nothing(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(3);
    struct block_table *table = new_table(8);
    grow(table, pool, 4);
    struct error err;
    assert_int_equal(block_table_grow(table, pool, 16, &err), STATUS_BUSY);
    assert_string_equal(err.text, "3 more cache blocks are needed, 2 are available");
    assert_int_equal(block_table_count(table), 1);
    assert_int_equal(block_pool_available(pool), 2);
    end(table, pool);
    block_pool_destroy(pool);
}

static void test_a_fork_shares_every_block_and_copies_the_one_written_first(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(8);
    struct block_table *parent = new_table(4), *child = new_table(4);
    grow(parent, pool, 6);                                      /* block 1 holds positions 4 and 5 */
    block_table_fork(child, parent, pool);
    assert_int_equal(block_table_count(child), 2);
    assert_int_equal(block_pool_available(pool), 6);
    block_id shared = block_table_ids(parent)[1];
    assert_true(block_table_is_shared(parent, pool, 6));
    assert_false(block_table_is_shared(parent, pool, 8));       /* no block there yet */

    struct block_copy copy;
    int n_copies = -1;
    assert_int_equal(block_table_unshare(child, pool, 6, &copy, &n_copies, NULL), STATUS_OK);
    assert_int_equal(n_copies, 1);
    assert_int_equal(copy.source, shared);
    assert_int_equal(copy.destination, block_table_ids(child)[1]);
    assert_int_not_equal(copy.destination, shared);
    assert_int_equal(block_table_ids(child)[0], block_table_ids(parent)[0]);

    /* the parent is alone now and writes in place */
    assert_int_equal(block_table_ids(parent)[1], shared);
    assert_int_equal(block_table_unshare(parent, pool, 6, &copy, &n_copies, NULL), STATUS_OK);
    assert_int_equal(n_copies, 0);
    assert_int_equal(block_table_ids(parent)[1], shared);
    end(child, pool);
    end(parent, pool);
    assert_int_equal(block_pool_counts(pool).n_free, 8);
    block_pool_destroy(pool);
}

static void test_a_copy_that_finds_no_block_changes_nothing(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(1);
    struct block_table *parent = new_table(1), *child = new_table(1);
    grow(parent, pool, 2);
    block_table_fork(child, parent, pool);
    struct block_copy copy;
    int n_copies = 0;
    assert_int_equal(block_table_unshare(child, pool, 2, &copy, &n_copies, NULL), STATUS_BUSY);
    assert_int_equal(block_table_ids(child)[0], block_table_ids(parent)[0]);
    assert_int_equal(block_pool_holders(pool, block_table_ids(child)[0]), 2);
    end(child, pool);
    end(parent, pool);
    block_pool_destroy(pool);
}

static void test_a_kept_block_is_copied_even_by_its_only_holder(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(2);
    struct block_table *table = new_table(1);
    grow(table, pool, 4);
    block_id kept = block_table_ids(table)[0];
    block_pool_keep(pool, kept);
    struct block_copy copy;
    int n_copies = 0;
    assert_int_equal(block_table_unshare(table, pool, 2, &copy, &n_copies, NULL), STATUS_OK);
    assert_int_equal(n_copies, 1);
    assert_int_equal(copy.source, kept);
    assert_int_equal(block_pool_counts(pool).n_idle, 1);
    end(table, pool);
    block_pool_destroy(pool);
}

static void test_replacing_a_block_moves_the_holder(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(4);
    struct block_table *a = new_table(2), *b = new_table(2);
    grow(a, pool, 8);
    grow(b, pool, 8);
    block_id first = block_table_ids(a)[0];
    block_table_replace(b, pool, 0, first);
    assert_int_equal(block_table_ids(b)[0], first);
    assert_int_equal(block_pool_holders(pool, first), 2);
    assert_int_equal(block_pool_counts(pool).n_free, 1);
    end(a, pool);
    end(b, pool);
    assert_int_equal(block_pool_counts(pool).n_free, 4);
    block_pool_destroy(pool);
}

static void test_dropping_goes_from_the_tail_so_that_the_tail_is_evicted_first(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(3);
    struct block_table *table = new_table(3);
    grow(table, pool, 12);
    block_id ids[3];
    for (int i = 0; i < 3; i++) {
        ids[i] = block_table_ids(table)[i];
        block_pool_keep(pool, ids[i]);
    }
    block_table_truncate(table, pool, 5);
    assert_int_equal(block_table_count(table), 2);
    end(table, pool);
    for (int i = 2; i >= 0; i--) {
        block_id id = BLOCK_NONE;
        assert_int_equal(block_pool_take(pool, &id, NULL), STATUS_OK);
        assert_int_equal(id, ids[i]);
    }
    block_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_for_rounds_up_without_overflow),
        cmocka_unit_test(test_growing_takes_exactly_the_blocks_that_the_tokens_need),
        cmocka_unit_test(test_growing_past_the_pool_changes_nothing),
        cmocka_unit_test(test_a_fork_shares_every_block_and_copies_the_one_written_first),
        cmocka_unit_test(test_a_copy_that_finds_no_block_changes_nothing),
        cmocka_unit_test(test_a_kept_block_is_copied_even_by_its_only_holder),
        cmocka_unit_test(test_replacing_a_block_moves_the_holder),
        cmocka_unit_test(test_dropping_goes_from_the_tail_so_that_the_tail_is_evicted_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
