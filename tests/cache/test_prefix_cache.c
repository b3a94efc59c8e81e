/* test_prefix_cache - what is found, what is not, and what is forgotten first. */
#include "cache/block_table.h"
#include "cache/prefix_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIZE 4
#define MAX_BLOCKS 8

static const struct prefix_salt no_salt;

struct fixture {
    struct block_pool *pool;
    struct prefix_cache *cache;
    block_id found[MAX_BLOCKS];
};

static void start(struct fixture *f, int32_t n_blocks, int reuse_generated)
{
    assert_int_equal(block_pool_create(&f->pool, n_blocks, NULL), STATUS_OK);
    struct prefix_cache_options options = {
        .pool = f->pool,
        .block_size = SIZE,
        .key = { 1, 2 },
        .reuse_generated = reuse_generated,
    };
    assert_int_equal(prefix_cache_create(&f->cache, &options, NULL), STATUS_OK);
}

static void stop(struct fixture *f)
{
    prefix_cache_destroy(f->cache);
    block_pool_destroy(f->pool);
}

/* A table over the first n_tokens of text, its full blocks published; each
 * character is a token. The first n_prompt of them were given. */
static struct block_table *compute_roles(struct fixture *f, const char *text, const struct prefix_salt *salt,
                                         int32_t n_prompt)
{
    int32_t n_tokens = (int32_t)strlen(text), tokens[MAX_BLOCKS * SIZE];
    for (int32_t i = 0; i < n_tokens; i++)
        tokens[i] = text[i];
    struct block_table *table = NULL;
    assert_int_equal(block_table_create(&table, MAX_BLOCKS, SIZE, NULL), STATUS_OK);
    assert_int_equal(block_table_grow(table, f->pool, n_tokens, NULL), STATUS_OK);
    for (int32_t i = 0; i < n_tokens / SIZE; i++) {
        const block_id *ids = block_table_ids(table);
        block_id id = prefix_cache_publish(f->cache, &(struct prefix_block){
            .id = ids[i],
            .parent = i > 0 ? ids[i - 1] : BLOCK_NONE,
            .tokens = tokens + i * SIZE,
            .n_given = n_prompt - i * SIZE,
            .salt = salt,
        });
        if (id != ids[i])
            block_table_replace(table, f->pool, i, id);
    }
    return table;
}

static struct block_table *compute(struct fixture *f, const char *text)
{
    return compute_roles(f, text, &no_salt, (int32_t)strlen(text));
}

static void drop(struct fixture *f, struct block_table *table)
{
    block_table_truncate(table, f->pool, 0);
    block_table_destroy(table);
}

static int32_t match_roles(struct fixture *f, const char *text, const struct prefix_salt *salt, int32_t n_prompt)
{
    int32_t tokens[MAX_BLOCKS * SIZE];
    int32_t n_tokens = (int32_t)strlen(text);
    for (int32_t i = 0; i < n_tokens; i++)
        tokens[i] = text[i];
    struct prefix_query query = { .tokens = tokens, .n_tokens = n_tokens, .n_prompt = n_prompt, .salt = salt };
    return prefix_cache_match(f->cache, &query, f->found);
}

static int32_t match(struct fixture *f, const char *text)
{
    return match_roles(f, text, &no_salt, (int32_t)strlen(text));
}

/* Hash values of the paper's reference: key 00 .. 0f, input 00 01 02 .. */
static void test_siphash_yields_the_published_values(void **state)
{
    (void)state;
    static const struct { size_t n; uint64_t hash; } rows[] = {
        { 0, 0x726fdb47dd0e0e31 }, { 1, 0x74f839c593dc67fd }, { 7, 0xab0200f58b01d137 },
        { 8, 0x93f5f5799a932462 }, { 15, 0xa129ca6149be45e5 }, { 63, 0x958a324ceb064572 },
    };
    struct siphash_key key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
    unsigned char input[64];
    for (unsigned i = 0; i < sizeof input; i++)
        input[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_true(siphash(&key, input, rows[i].n) == rows[i].hash);
}

static void test_full_equal_blocks_are_found_and_the_last_token_never(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 1);
    assert_int_equal(match(&f, "abcdefgh"), 0);
    struct block_table *table = compute(&f, "abcdefghij");
    assert_int_equal(match(&f, "abcdefghij"), 2);
    assert_int_equal(f.found[0], block_table_ids(table)[0]);
    assert_int_equal(f.found[1], block_table_ids(table)[1]);
    assert_int_equal(match(&f, "abcdefghz"), 2);
    assert_int_equal(match(&f, "abcdefgh"), 1);         /* h has to be computed */
    assert_int_equal(match(&f, "abcde"), 1);
    assert_int_equal(match(&f, "abcd"), 0);
    assert_int_equal(match(&f, "a"), 0);
    drop(&f, table);
    assert_int_equal(match(&f, "abcdefghij"), 2);       /* idle blocks are found too */
    stop(&f);
}

static void test_prompts_that_part_inside_a_block_do_not_share_it(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 1);
    drop(&f, compute(&f, "abcdefgh"));
    assert_int_equal(match(&f, "abcdefgXz"), 1);
    assert_int_equal(match(&f, "abcXefghz"), 0);
    stop(&f);
}

static void test_equal_blocks_behind_different_beginnings_are_different(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 1);
    struct block_table *a = compute(&f, "aaaaxxxx"), *b = compute(&f, "bbbbxxxx");
    assert_int_equal(match(&f, "aaaaxxxx."), 2);
    assert_int_equal(f.found[1], block_table_ids(a)[1]);
    assert_int_equal(match(&f, "bbbbxxxx."), 2);
    assert_int_equal(f.found[1], block_table_ids(b)[1]);
    assert_int_equal(match(&f, "xxxx."), 0);
    assert_int_equal(match(&f, "ccccxxxx."), 0);
    drop(&f, a);
    drop(&f, b);
    stop(&f);
}

static void test_different_salts_share_nothing(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 1);
    struct prefix_salt one = { { 1 } }, other = { { [31] = 1 } };
    struct block_table *table = compute_roles(&f, "abcdefgh", &one, 8);
    assert_int_equal(match_roles(&f, "abcdefgh.", &one, 9), 2);
    assert_int_equal(match_roles(&f, "abcdefgh.", &other, 9), 0);
    assert_int_equal(match(&f, "abcdefgh."), 0);
    drop(&f, table);
    stop(&f);
}

static void test_the_second_of_two_equal_blocks_is_given_up(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 1);
    struct block_table *first = compute(&f, "abcdefgh"), *second = compute(&f, "abcdefghijkl");
    assert_int_equal(block_table_ids(second)[0], block_table_ids(first)[0]);
    assert_int_equal(block_table_ids(second)[1], block_table_ids(first)[1]);
    assert_int_equal(prefix_cache_stats(f.cache).n_merged, 2);
    assert_int_equal(block_pool_counts(f.pool).n_held, 3);
    drop(&f, first);
    assert_int_equal(match(&f, "abcdefghijkl."), 3);
    drop(&f, second);
    stop(&f);
}

static void test_a_prefix_is_evicted_from_its_tail(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 4, 1);
    drop(&f, compute(&f, "aaaabbbbcccc"));
    drop(&f, compute(&f, "xxxx"));
    for (int32_t left = 2; left >= 0; left--) {
        block_id id = BLOCK_NONE;
        assert_int_equal(block_pool_take(f.pool, &id, NULL), STATUS_OK);
        assert_int_equal(match(&f, "aaaabbbbcccc."), left);
        assert_int_equal(prefix_cache_stats(f.cache).n_published, left + 1);
    }
    assert_int_equal(match(&f, "xxxx."), 1);            /* the prefix used last goes last */
    stop(&f);
}

static void test_a_prefix_in_use_is_not_evicted(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 3, 1);
    struct block_table *table = compute(&f, "aaaabbbb");
    block_id id = BLOCK_NONE;
    assert_int_equal(block_pool_take(f.pool, &id, NULL), STATUS_OK);
    assert_int_equal(block_pool_take(f.pool, &id, NULL), STATUS_BUSY);
    assert_int_equal(match(&f, "aaaabbbb."), 2);
    drop(&f, table);
    stop(&f);
}

static void test_a_block_behind_an_unpublished_one_is_not_published(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 4, 1);
    block_id ids[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(block_pool_take(f.pool, &ids[i], NULL), STATUS_OK);
    int32_t tokens[SIZE] = { 1, 2, 3, 4 };
    struct prefix_block block = {
        .id = ids[1], .parent = ids[0], .tokens = tokens, .n_given = SIZE, .salt = &no_salt,
    };
    assert_int_equal(prefix_cache_publish(f.cache, &block), ids[1]);
    assert_false(prefix_cache_is_published(f.cache, ids[1]));
    assert_false(block_pool_is_kept(f.pool, ids[1]));
    stop(&f);
}

static void test_reset_frees_idle_blocks_and_leaves_held_ones_to_their_holders(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 1);
    drop(&f, compute(&f, "xxxxyyyy"));
    struct block_table *table = compute(&f, "aaaabbbb");
    prefix_cache_reset(f.cache);
    assert_int_equal(match(&f, "xxxxyyyy."), 0);
    assert_int_equal(match(&f, "aaaabbbb."), 0);
    assert_int_equal(block_pool_counts(f.pool).n_idle, 0);
    assert_int_equal(block_pool_counts(f.pool).n_held, 2);
    assert_false(prefix_cache_is_published(f.cache, block_table_ids(table)[0]));
    drop(&f, table);
    assert_int_equal(block_pool_counts(f.pool).n_free, 8);
    drop(&f, compute(&f, "aaaabbbb"));                  /* and it works again */
    assert_int_equal(match(&f, "aaaabbbb."), 2);
    stop(&f);
}

static void test_generated_blocks_serve_a_prompt_only_if_allowed(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 0);
    struct block_table *table = compute_roles(&f, "abcdefghijkl", &no_salt, 6);
    assert_int_equal(match(&f, "abcdefghijkl."), 1);                        /* the block of prompt alone */
    assert_int_equal(match_roles(&f, "abcdefghijkl.", &no_salt, 6), 3);     /* the same roles: itself again */
    assert_int_equal(match_roles(&f, "abcdefghijkl.", &no_salt, 7), 1);
    struct block_table *given = compute(&f, "abcdefghijkl");
    assert_int_equal(match(&f, "abcdefghijkl."), 3);
    assert_int_equal(f.found[0], block_table_ids(table)[0]);
    assert_int_not_equal(f.found[1], block_table_ids(table)[1]);
    drop(&f, given);
    drop(&f, table);
    stop(&f);

    start(&f, 8, 1);
    drop(&f, compute_roles(&f, "abcdefghijkl", &no_salt, 6));
    assert_int_equal(match(&f, "abcdefghijkl."), 3);
    stop(&f);
}

static void test_statistics_add_up_what_admissions_report(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 2, 1);
    prefix_cache_count(f.cache, 10, 8);
    prefix_cache_count(f.cache, 5, 0);
    assert_int_equal(prefix_cache_stats(f.cache).query_tokens, 15);
    assert_int_equal(prefix_cache_stats(f.cache).hit_tokens, 8);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_siphash_yields_the_published_values),
        cmocka_unit_test(test_full_equal_blocks_are_found_and_the_last_token_never),
        cmocka_unit_test(test_prompts_that_part_inside_a_block_do_not_share_it),
        cmocka_unit_test(test_equal_blocks_behind_different_beginnings_are_different),
        cmocka_unit_test(test_different_salts_share_nothing),
        cmocka_unit_test(test_the_second_of_two_equal_blocks_is_given_up),
        cmocka_unit_test(test_a_prefix_is_evicted_from_its_tail),
        cmocka_unit_test(test_a_prefix_in_use_is_not_evicted),
        cmocka_unit_test(test_a_block_behind_an_unpublished_one_is_not_published),
        cmocka_unit_test(test_reset_frees_idle_blocks_and_leaves_held_ones_to_their_holders),
        cmocka_unit_test(test_generated_blocks_serve_a_prompt_only_if_allowed),
        cmocka_unit_test(test_statistics_add_up_what_admissions_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
