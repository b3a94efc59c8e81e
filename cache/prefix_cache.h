/* prefix_cache.h - equal beginnings are computed once.
 *
 * The cache knows full blocks whose contents are final, as nodes of a tree: a
 * node is one block of tokens and the node before it.
 *
 *   salt 0 --+-- [You are a helpful] -- [assistant. Answer ] --+-- [What is the time]
 *            |                                                 +-- [Who wrote Hamlet?]
 *   salt 7 --+-- [You are a helpful]          (never seen by a request with salt 0)
 *
 * A node is found by a keyed hash of (hash of the node before it, tokens) and
 * accepted only if the node before it and all its tokens are equal, so a
 * collision costs time and never a wrong answer.
 *
 * Invariants
 *   - a published block is kept by the pool; it is full and never written again;
 *   - the node before a published block is published;
 *   - whoever holds a published block holds all blocks before it; tables drop
 *     their last block first; so the block that is idle longest is always a
 *     leaf, and evicting it cuts no chain;
 *   - two published blocks never have equal contents and equal beginnings: the
 *     second one is given up in favour of the first (prefix_cache_publish).
 *
 * Roles: with reuse_generated = 0 a block also remembers how many of its first
 * tokens were given in a prompt, and it is found only by a sequence for which
 * the same tokens are given: a later prompt does not see generated blocks, a
 * preempted sequence still finds its own.
 *
 * Owner:   the engine thread.
 * Memory:  all at create: block_size tokens and about 90 bytes for each block.
 */
#ifndef CACHE_PREFIX_CACHE_H
#define CACHE_PREFIX_CACHE_H

#include "cache/block_pool.h"
#include "cache/siphash.h"

struct prefix_cache;                 /* opaque */

/* Requests with different salts share nothing.  All zero: no salt.  The server
 * fills it with a cryptographic digest of the client's cache_salt. */
struct prefix_salt {
    uint8_t bytes[32];
};

/* A salt that no other sequence of this process has: its blocks are never found
 * again, and there is no sense in saving them.  No digest ends in 24 bytes 0xff. */
void prefix_salt_make_private(struct prefix_salt *salt, uint64_t unique);
int prefix_salt_is_private(const struct prefix_salt *salt);

struct prefix_cache_options {
    struct block_pool *pool;    /* borrowed; its evict hook becomes the cache's */
    int32_t block_size;         /* > 0 */
    struct siphash_key key;     /* random per process */
    int reuse_generated;        /* 1: a block of generated tokens serves any prompt */
};

/* A beginning of a sequence. */
struct prefix_query {
    const int32_t *tokens;      /* [n_tokens] */
    int32_t n_tokens;
    int32_t n_prompt;           /* tokens[0 .. n_prompt) were given, the rest generated */
    const struct prefix_salt *salt;
};

/* A block that a step has filled. */
struct prefix_block {
    block_id id;                /* held by the caller */
    block_id parent;            /* the block before it in the same table; BLOCK_NONE for the first */
    const int32_t *tokens;      /* [block_size] */
    int32_t n_given;            /* how many of its first tokens came with the prompt (n_prompt minus
                                 * its first position; counts as 0 .. block_size) */
    const struct prefix_salt *salt;
};

struct prefix_cache_stats {
    uint64_t query_tokens;      /* tokens of sequences that were admitted */
    uint64_t hit_tokens;        /* of these, tokens not computed again */
    int32_t n_published;        /* blocks that can be found now */
    uint64_t n_merged;          /* blocks given up for an equal one */
};

/* NO_MEMORY: *out untouched. */
MUST_CHECK enum status prefix_cache_create(struct prefix_cache **out,
                                           const struct prefix_cache_options *options, struct error *err);
void prefix_cache_destroy(struct prefix_cache *cache);      /* NULL is allowed; before the pool's end */

/* The longest published chain of full blocks that begins the query, without its
 * last token: at most (n_tokens - 1) / block_size blocks, since the last token
 * has to be computed to yield logits.  Writes ids[] (that many at most) and
 * returns how many.  Holds nothing: adopt them before the next take. */
int32_t prefix_cache_match(const struct prefix_cache *cache, const struct prefix_query *query,
                           block_id *ids);

/* Add to the statistics: a sequence of query_tokens began with hit_tokens reused. */
void prefix_cache_count(struct prefix_cache *cache, int32_t query_tokens, int32_t hit_tokens);

/* Offer a block to later matches.  Call it only after the step that filled the
 * block has ended.  Returns the block to use in its place from now on:
 *   the same id     published now or before; or not published, because its
 *                   parent is not (prefix_cache_is_published tells);
 *   another id      an equal block was published before; the caller replaces
 *                   its own (block_table_replace), whose bytes are the same. */
block_id prefix_cache_publish(struct prefix_cache *cache, const struct prefix_block *block);

int prefix_cache_is_published(const struct prefix_cache *cache, block_id id);

/* What the cache knows of a published block; the pointers are valid until the
 * next call that is not const. */
struct prefix_entry {
    uint64_t serial;            /* of its publication, from 1: another one, another block */
    block_id parent;            /* published too; BLOCK_NONE for the first */
    const int32_t *tokens;      /* [block_size] */
    int32_t n_given;
    const struct prefix_salt *salt;
};
/* 1 and *out, or 0 if id is not published. */
int prefix_cache_read(const struct prefix_cache *cache, block_id id, struct prefix_entry *out);

/* Forget everything: idle blocks become free, held ones stay with their
 * holders, unpublished. */
void prefix_cache_reset(struct prefix_cache *cache);

struct prefix_cache_stats prefix_cache_stats(const struct prefix_cache *cache);

#endif
