#include "cache/prefix_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The node of a block; meaningful while published. */
struct node {
    uint64_t hash;              /* of its tokens and all before them */
    uint64_t serial;            /* of its publication */
    block_id parent;            /* BLOCK_NONE for the first of a chain */
    block_id next;              /* of the same bucket */
    int32_t n_given;
    int32_t n_children;         /* published nodes that follow */
    int published;
    struct prefix_salt salt;    /* compared at the first node; the others follow from it */
};

struct prefix_cache {
    /* fixed at create */
    struct block_pool *pool;
    int32_t n_blocks;
    int32_t block_size;
    struct siphash_key key;
    int reuse_generated;
    size_t n_buckets;           /* a power of two, >= n_blocks */

    /* engine thread only */
    block_id *buckets;          /* [n_buckets], heads of lists through node.next */
    struct node *nodes;         /* [n_blocks] */
    int32_t *tokens;            /* [n_blocks][block_size] */
    uint64_t n_publications;
    struct prefix_cache_stats stats;
};

/* What is looked up: one block of tokens behind a parent. */
struct lookup {
    uint64_t hash;
    block_id parent;
    const int32_t *tokens;      /* [block_size] */
    int32_t n_given;
    const struct prefix_salt *salt;
};

static void on_evict(void *context, block_id id);

void prefix_salt_make_private(struct prefix_salt *salt, uint64_t unique)
{
    memset(salt, 0xff, sizeof *salt);
    memcpy(salt, &unique, sizeof unique);
}

int prefix_salt_is_private(const struct prefix_salt *salt)
{
    for (size_t i = sizeof(uint64_t); i < sizeof salt->bytes; i++)
        if (salt->bytes[i] != 0xff)
            return 0;
    return 1;
}

enum status prefix_cache_create(struct prefix_cache **out, const struct prefix_cache_options *options,
                                struct error *err)
{
    assert(options->block_size > 0);
    size_t n_blocks = (size_t)block_pool_counts(options->pool).n_blocks;
    size_t n_buckets = 1;
    while (n_buckets < n_blocks)
        n_buckets *= 2;

    struct prefix_cache *cache = calloc(1, sizeof *cache);
    block_id *buckets = calloc(n_buckets, sizeof *buckets);
    struct node *nodes = calloc(n_blocks, sizeof *nodes);
    int32_t *tokens = calloc(n_blocks, (size_t)options->block_size * sizeof *tokens);
    if (cache == NULL || buckets == NULL || nodes == NULL || tokens == NULL) {
        free(cache);
        free(buckets);
        free(nodes);
        free(tokens);
        return fail(err, STATUS_NO_MEMORY, "no memory for the prefix index of %zu blocks of %d tokens",
                    n_blocks, options->block_size);
    }
    *cache = (struct prefix_cache){
        .pool = options->pool,
        .n_blocks = (int32_t)n_blocks,
        .block_size = options->block_size,
        .key = options->key,
        .reuse_generated = options->reuse_generated,
        .n_buckets = n_buckets,
        .buckets = buckets,
        .nodes = nodes,
        .tokens = tokens,
    };
    for (size_t i = 0; i < n_buckets; i++)
        buckets[i] = BLOCK_NONE;
    block_pool_set_evict(options->pool, on_evict, cache);
    *out = cache;
    return STATUS_OK;
}

void prefix_cache_destroy(struct prefix_cache *cache)
{
    if (cache == NULL)
        return;
    block_pool_set_evict(cache->pool, NULL, NULL);
    free(cache->buckets);
    free(cache->nodes);
    free(cache->tokens);
    free(cache);
}

static int32_t *tokens_of(const struct prefix_cache *cache, block_id id)
{
    return cache->tokens + (size_t)id * (size_t)cache->block_size;
}

static size_t block_bytes(const struct prefix_cache *cache)
{
    return (size_t)cache->block_size * sizeof(int32_t);
}

static size_t bucket_of(const struct prefix_cache *cache, uint64_t hash)
{
    return (size_t)hash & (cache->n_buckets - 1);
}

static uint64_t first_hash(const struct prefix_cache *cache, const struct prefix_salt *salt)
{
    return siphash(&cache->key, salt->bytes, sizeof salt->bytes);
}

/* The hash before it and the role enter through the key, so that a block is
 * hashed where it lies. */
static uint64_t next_hash(const struct prefix_cache *cache, uint64_t hash, const int32_t *tokens, int32_t n_given)
{
    struct siphash_key key = { .k0 = cache->key.k0 ^ (uint64_t)n_given, .k1 = cache->key.k1 ^ hash };
    return siphash(&key, tokens, block_bytes(cache));
}

/* How many tokens of block index count as given: all of them where roles do
 * not matter. */
static int32_t given_in_block(const struct prefix_cache *cache, int32_t n_given)
{
    if (cache->reuse_generated || n_given > cache->block_size)
        return cache->block_size;
    return n_given < 0 ? 0 : n_given;
}

static block_id find(const struct prefix_cache *cache, const struct lookup *want)
{
    block_id id = cache->buckets[bucket_of(cache, want->hash)];
    for (; id != BLOCK_NONE; id = cache->nodes[id].next) {
        const struct node *node = &cache->nodes[id];
        if (node->hash != want->hash || node->parent != want->parent || node->n_given != want->n_given)
            continue;
        if (want->parent == BLOCK_NONE && memcmp(&node->salt, want->salt, sizeof node->salt) != 0)
            continue;
        if (memcmp(tokens_of(cache, id), want->tokens, block_bytes(cache)) == 0)
            return id;
    }
    return BLOCK_NONE;
}

int32_t prefix_cache_match(const struct prefix_cache *cache, const struct prefix_query *query, block_id *ids)
{
    int32_t max_blocks = (query->n_tokens - 1) / cache->block_size;
    struct lookup want = {
        .hash = first_hash(cache, query->salt),
        .parent = BLOCK_NONE,
        .tokens = query->tokens,
        .salt = query->salt,
    };
    int32_t n = 0;
    for (; n < max_blocks; n++) {
        want.n_given = given_in_block(cache, query->n_prompt - n * cache->block_size);
        want.hash = next_hash(cache, want.hash, want.tokens, want.n_given);
        block_id id = find(cache, &want);
        if (id == BLOCK_NONE)
            break;
        ids[n] = id;
        want.parent = id;
        want.tokens += cache->block_size;
    }
    return n;
}

void prefix_cache_count(struct prefix_cache *cache, int32_t query_tokens, int32_t hit_tokens)
{
    cache->stats.query_tokens += (uint64_t)query_tokens;
    cache->stats.hit_tokens += (uint64_t)hit_tokens;
}

static void insert(struct prefix_cache *cache, block_id id, const struct lookup *key)
{
    block_id *head = &cache->buckets[bucket_of(cache, key->hash)];
    cache->nodes[id] = (struct node){
        .hash = key->hash,
        .serial = ++cache->n_publications,
        .parent = key->parent,
        .next = *head,
        .n_given = key->n_given,
        .published = 1,
        .salt = *key->salt,
    };
    *head = id;
    memcpy(tokens_of(cache, id), key->tokens, block_bytes(cache));
    if (key->parent != BLOCK_NONE)
        cache->nodes[key->parent].n_children++;
    cache->stats.n_published++;
    block_pool_keep(cache->pool, id);
}

block_id prefix_cache_publish(struct prefix_cache *cache, const struct prefix_block *block)
{
    if (cache->nodes[block->id].published)
        return block->id;
    if (block->parent != BLOCK_NONE && !cache->nodes[block->parent].published)
        return block->id;
    uint64_t before = block->parent == BLOCK_NONE ? first_hash(cache, block->salt)
                                                  : cache->nodes[block->parent].hash;
    int32_t n_given = given_in_block(cache, block->n_given);
    struct lookup key = {
        .hash = next_hash(cache, before, block->tokens, n_given),
        .parent = block->parent,
        .tokens = block->tokens,
        .n_given = n_given,
        .salt = block->salt,
    };
    block_id equal = find(cache, &key);
    if (equal != BLOCK_NONE) {
        cache->stats.n_merged++;
        return equal;
    }
    insert(cache, block->id, &key);
    return block->id;
}

int prefix_cache_is_published(const struct prefix_cache *cache, block_id id)
{
    return cache->nodes[id].published;
}

int prefix_cache_read(const struct prefix_cache *cache, block_id id, struct prefix_entry *out)
{
    const struct node *node = &cache->nodes[id];
    if (!node->published)
        return 0;
    *out = (struct prefix_entry){
        .serial = node->serial, .parent = node->parent, .tokens = tokens_of(cache, id),
        .n_given = node->n_given, .salt = &node->salt,
    };
    return 1;
}

/* The pool takes an idle block for something else. It is a leaf: whoever held a
 * node behind it held this one too and dropped it later. */
static void on_evict(void *context, block_id id)
{
    struct prefix_cache *cache = context;
    struct node *node = &cache->nodes[id];
    assert(node->published && node->n_children == 0);
    block_id *place = &cache->buckets[bucket_of(cache, node->hash)];
    while (*place != id)
        place = &cache->nodes[*place].next;
    *place = node->next;
    if (node->parent != BLOCK_NONE)
        cache->nodes[node->parent].n_children--;
    node->published = 0;
    cache->stats.n_published--;
}

void prefix_cache_reset(struct prefix_cache *cache)
{
    for (block_id id = 0; id < cache->n_blocks; id++) {
        if (!cache->nodes[id].published)
            continue;
        cache->nodes[id].published = 0;
        block_pool_unkeep(cache->pool, id);
    }
    for (size_t i = 0; i < cache->n_buckets; i++)
        cache->buckets[i] = BLOCK_NONE;
    cache->stats.n_published = 0;
}

struct prefix_cache_stats prefix_cache_stats(const struct prefix_cache *cache)
{
    return cache->stats;
}
