/* test_block_pool - blocks are conserved, idle ones leave oldest first, and random calls agree with a naive model. */
#include "base/rng.h"
#include "cache/block_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct block_pool *new_pool(int32_t n_blocks)
{
    struct block_pool *pool = NULL;
    assert_int_equal(block_pool_create(&pool, n_blocks, NULL), STATUS_OK);
    return pool;
}

static block_id take(struct block_pool *pool)
{
    block_id id = BLOCK_NONE;
    assert_int_equal(block_pool_take(pool, &id, NULL), STATUS_OK);
    return id;
}

static void assert_counts(const struct block_pool *pool, int32_t n_free, int32_t n_idle, int32_t n_held)
{
    struct block_counts counts = block_pool_counts(pool);
    assert_int_equal(counts.n_free, n_free);
    assert_int_equal(counts.n_idle, n_idle);
    assert_int_equal(counts.n_held, n_held);
    assert_int_equal(block_pool_available(pool), n_free + n_idle);
}

static void test_every_block_is_taken_once_and_then_the_pool_is_busy(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(5);
    int seen[5] = { 0 };
    for (int i = 0; i < 5; i++) {
        block_id id = take(pool);
        assert_in_range(id, 0, 4);
        assert_int_equal(seen[id]++, 0);
    }
    assert_counts(pool, 0, 0, 5);
    block_id id = 77;
    struct error err;
    assert_int_equal(block_pool_take(pool, &id, &err), STATUS_BUSY);
    assert_string_equal(err.text, "all 5 cache blocks are in use");
    assert_int_equal(id, 77);
    block_pool_destroy(pool);
}

static void test_a_shared_block_is_free_after_its_last_holder_only(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(2);
    block_id id = take(pool);
    block_pool_share(pool, id);
    assert_int_equal(block_pool_holders(pool, id), 2);
    block_pool_drop(pool, id);
    assert_counts(pool, 1, 0, 1);
    block_pool_drop(pool, id);
    assert_counts(pool, 2, 0, 0);
    block_pool_destroy(pool);
}

static void test_a_kept_block_is_idle_without_holders_and_can_be_held_again(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(2);
    block_id id = take(pool);
    block_pool_keep(pool, id);
    assert_true(block_pool_is_kept(pool, id));
    block_pool_drop(pool, id);
    assert_counts(pool, 1, 1, 0);
    block_pool_share(pool, id);
    assert_int_equal(block_pool_holders(pool, id), 1);
    assert_counts(pool, 1, 0, 1);
    block_pool_unkeep(pool, id);
    block_pool_drop(pool, id);
    assert_counts(pool, 2, 0, 0);
    block_pool_destroy(pool);
}

static void test_an_idle_block_that_is_no_longer_kept_is_free(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(1);
    block_id id = take(pool);
    block_pool_keep(pool, id);
    block_pool_drop(pool, id);
    block_pool_unkeep(pool, id);
    assert_counts(pool, 1, 0, 0);
    assert_int_equal(block_pool_counts(pool).n_evicted, 0);
    block_pool_destroy(pool);
}

struct evictions {
    block_id ids[8];
    int n;
};

static void note_eviction(void *context, block_id id)
{
    struct evictions *seen = context;
    seen->ids[seen->n++] = id;
}

static void test_free_blocks_go_first_then_idle_ones_in_the_order_they_became_idle(void **state)
{
    (void)state;
    struct block_pool *pool = new_pool(4);
    struct evictions seen = { .n = 0 };
    block_pool_set_evict(pool, note_eviction, &seen);
    block_id ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = take(pool);
    for (int i = 0; i < 3; i++)
        block_pool_keep(pool, ids[i]);
    block_pool_drop(pool, ids[1]);
    block_pool_drop(pool, ids[0]);
    block_pool_drop(pool, ids[3]);
    block_pool_drop(pool, ids[2]);
    block_pool_share(pool, ids[1]);         /* used once more: now the youngest */
    block_pool_drop(pool, ids[1]);
    assert_int_equal(take(pool), ids[3]);
    assert_int_equal(seen.n, 0);
    assert_int_equal(take(pool), ids[0]);
    assert_int_equal(take(pool), ids[2]);
    assert_int_equal(take(pool), ids[1]);
    assert_int_equal(seen.n, 3);
    assert_int_equal(seen.ids[0], ids[0]);
    assert_int_equal(seen.ids[1], ids[2]);
    assert_int_equal(seen.ids[2], ids[1]);
    assert_false(block_pool_is_kept(pool, ids[0]));
    assert_int_equal(block_pool_counts(pool).n_evicted, 3);
    block_pool_destroy(pool);
}

/* --- against a model that searches instead of linking ---------------------- */

#define N 12

struct naive {
    int holders[N];
    int kept[N];
    int idle_since[N];
    int now;
};

static block_id naive_oldest_idle(const struct naive *naive)
{
    block_id oldest = BLOCK_NONE;
    for (block_id id = 0; id < N; id++)
        if (naive->holders[id] == 0 && naive->kept[id] &&
            (oldest == BLOCK_NONE || naive->idle_since[id] < naive->idle_since[oldest]))
            oldest = id;
    return oldest;
}

static int naive_n_free(const struct naive *naive)
{
    int n = 0;
    for (block_id id = 0; id < N; id++)
        n += naive->holders[id] == 0 && !naive->kept[id];
    return n;
}

static void take_in_both(struct block_pool *pool, struct naive *naive)
{
    block_id id = BLOCK_NONE, oldest = naive_oldest_idle(naive);
    int n_free = naive_n_free(naive);
    enum status got = block_pool_take(pool, &id, NULL);
    if (n_free == 0 && oldest == BLOCK_NONE) {
        assert_int_equal(got, STATUS_BUSY);
        return;
    }
    assert_int_equal(got, STATUS_OK);
    assert_int_equal(naive->holders[id], 0);
    if (n_free > 0)
        assert_false(naive->kept[id]);
    else
        assert_int_equal(id, oldest);
    naive->holders[id] = 1;
    naive->kept[id] = 0;
}

enum call { TAKE, SHARE, DROP, KEEP, UNKEEP };

static void change_in_both(struct block_pool *pool, struct naive *naive, block_id id, enum call call)
{
    int held = naive->holders[id] > 0;
    if (call == SHARE && (held || naive->kept[id])) {
        block_pool_share(pool, id);
        naive->holders[id]++;
    } else if (call == DROP && held) {
        block_pool_drop(pool, id);
        if (--naive->holders[id] == 0)
            naive->idle_since[id] = naive->now;
    } else if (call == KEEP && held) {
        block_pool_keep(pool, id);
        naive->kept[id] = 1;
    } else if (call == UNKEEP && naive->kept[id]) {
        block_pool_unkeep(pool, id);
        naive->kept[id] = 0;
    }
}

static void test_random_calls_agree_with_a_naive_model(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 11);
    struct block_pool *pool = new_pool(N);
    struct naive naive;
    memset(&naive, 0, sizeof naive);
    for (int i = 0; i < 200000; i++) {
        naive.now++;
        /* drops as often as all that holds, so that the pool runs full and empty */
        static const enum call calls[10] = { TAKE, TAKE, SHARE, DROP, DROP, DROP, DROP, KEEP, KEEP, UNKEEP };
        enum call call = calls[rng_below(&rng, 10)];
        if (call == TAKE)
            take_in_both(pool, &naive);
        else
            change_in_both(pool, &naive, (block_id)rng_below(&rng, N), call);
        struct block_counts counts = block_pool_counts(pool);
        assert_int_equal(counts.n_free + counts.n_idle + counts.n_held, N);
        assert_int_equal(counts.n_free, naive_n_free(&naive));
        for (block_id id = 0; id < N; id++) {
            assert_int_equal(block_pool_holders(pool, id), naive.holders[id]);
            assert_int_equal(block_pool_is_kept(pool, id), naive.kept[id]);
        }
    }
    assert_true(block_pool_counts(pool).n_evicted > 1000);
    block_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_block_is_taken_once_and_then_the_pool_is_busy),
        cmocka_unit_test(test_a_shared_block_is_free_after_its_last_holder_only),
        cmocka_unit_test(test_a_kept_block_is_idle_without_holders_and_can_be_held_again),
        cmocka_unit_test(test_an_idle_block_that_is_no_longer_kept_is_free),
        cmocka_unit_test(test_free_blocks_go_first_then_idle_ones_in_the_order_they_became_idle),
        cmocka_unit_test(test_random_calls_agree_with_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
