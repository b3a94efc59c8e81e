/* test_prefix_collision - with a hash that is the same for everything, the prefix cache is slow and still right. */
#include "cache/siphash.h"

/* The cache under test is compiled here, over a hash without any information. */
static uint64_t constant_hash(const struct siphash_key *key, const void *bytes, size_t n_bytes)
{
    (void)key, (void)bytes, (void)n_bytes;
    return 42;
}
#define siphash constant_hash
#include "cache/prefix_cache.c"
#undef siphash

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SIZE 2
#define N_BLOCKS 40
#define DEPTH 3

/* A published chain as the test knows it. */
struct chain {
    int32_t tokens[DEPTH * SIZE];
    uint8_t salt;
    block_id ids[DEPTH];
};

static struct chain random_chain(struct rng *rng)
{
    struct chain chain = { .salt = (uint8_t)rng_below(rng, 2) };
    for (int i = 0; i < DEPTH * SIZE; i++)
        chain.tokens[i] = (int32_t)rng_below(rng, 2);
    return chain;
}

static void publish_chain(struct prefix_cache *cache, struct block_pool *pool, struct chain *chain)
{
    struct prefix_salt salt = { { chain->salt } };
    for (int i = 0; i < DEPTH; i++) {
        block_id id = BLOCK_NONE;
        assert_int_equal(block_pool_take(pool, &id, NULL), STATUS_OK);
        chain->ids[i] = prefix_cache_publish(cache, &(struct prefix_block){
            .id = id,
            .parent = i > 0 ? chain->ids[i - 1] : BLOCK_NONE,
            .tokens = chain->tokens + i * SIZE,
            .n_given = SIZE,
            .salt = &salt,
        });
    }
}

/* How many leading blocks two chains have in common, from tokens and salt alone. */
static int common_blocks(const struct chain *a, const struct chain *b)
{
    int n = 0;
    while (a->salt == b->salt && n < DEPTH && memcmp(a->tokens, b->tokens, (size_t)(n + 1) * SIZE * 4) == 0)
        n++;
    return n;
}

static void test_colliding_blocks_are_told_apart_by_tokens_parent_and_salt(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 3);
    for (int round = 0; round < 300; round++) {
        struct block_pool *pool = NULL;
        struct prefix_cache *cache = NULL;
        assert_int_equal(block_pool_create(&pool, N_BLOCKS, NULL), STATUS_OK);
        struct prefix_cache_options options = { .pool = pool, .block_size = SIZE, .reuse_generated = 1 };
        assert_int_equal(prefix_cache_create(&cache, &options, NULL), STATUS_OK);
        struct chain published[N_BLOCKS / DEPTH];
        for (int i = 0; i < N_BLOCKS / DEPTH; i++) {
            published[i] = random_chain(&rng);
            publish_chain(cache, pool, &published[i]);
        }
        struct chain asked = random_chain(&rng);
        int32_t tokens[DEPTH * SIZE + 1] = { 0 };
        memcpy(tokens, asked.tokens, sizeof asked.tokens);
        struct prefix_salt salt = { { asked.salt } };
        struct prefix_query query = {
            .tokens = tokens, .n_tokens = DEPTH * SIZE + 1, .n_prompt = DEPTH * SIZE + 1, .salt = &salt,
        };
        block_id found[DEPTH];
        int32_t n_found = prefix_cache_match(cache, &query, found);
        int most = 0;
        for (int i = 0; i < N_BLOCKS / DEPTH; i++) {
            int common = common_blocks(&asked, &published[i]);
            most = common > most ? common : most;
            for (int b = 0; b < common; b++)
                assert_int_equal(found[b], published[i].ids[b]);
        }
        assert_int_equal(n_found, most);
        prefix_cache_destroy(cache);
        block_pool_destroy(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colliding_blocks_are_told_apart_by_tokens_parent_and_salt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
