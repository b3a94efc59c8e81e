/* block_pool.h - who holds which cache block.
 *
 * A block is the unit in which cache memory changes hands: block_size
 * consecutive token slots of one sequence, in every layer, on every rank.
 * The pool hands out block ids only; the bytes live in one mapping per rank,
 * and every rank uses the same id for the same tokens.
 *
 *   id:        0     1     2     3     4     5     6     7
 *            [A0 ] [A1 ] [B0 ] [   ] [A2 ] [C0 ] [   ] [   ]
 *   holders:   2     1     1     0     1     0     0     0
 *   kept:      x     x     .     .     .     x     .     .
 *   is:       held  held  held  free  held  idle  free  free
 *
 * A kept block is known to the prefix cache. When its last holder drops it, it
 * is not freed but idle: its contents stay, and block_pool_share brings it
 * back. block_pool_take prefers free blocks; when there is none it takes the
 * block that has been idle longest, after telling the prefix cache (on_evict).
 *
 * Invariants
 *   - a block is free or idle exactly when its holder count is 0;
 *   - n_free + n_idle + n_held == n_blocks, always;
 *   - idle blocks leave in the order in which they became idle.
 *
 * Owner:   the engine thread.  No other thread may call anything here.
 * Memory:  all at create; nothing is allocated afterwards.  Every call but
 *          create is O(1).
 */
#ifndef CACHE_BLOCK_POOL_H
#define CACHE_BLOCK_POOL_H

#include "base/status.h"

#include <stdint.h>

typedef int32_t block_id;            /* 0 <= id < n_blocks */
#define BLOCK_NONE ((block_id)-1)

struct block_pool;                   /* opaque */

/* What the pool is made of; for /metrics and for tests. */
struct block_counts {
    int32_t n_blocks;
    int32_t n_free;         /* no holder, not kept */
    int32_t n_idle;         /* no holder, kept: contents reusable until taken */
    int32_t n_held;         /* at least one holder */
    uint64_t n_evicted;     /* idle blocks that were taken, since create */
};

/* n_blocks > 0.  The caller owns *out and gives it to block_pool_destroy.
 * NO_MEMORY: *out is left untouched. */
MUST_CHECK enum status block_pool_create(struct block_pool **out, int32_t n_blocks, struct error *err);
void block_pool_destroy(struct block_pool *pool);    /* NULL is allowed */

/* on_evict(context, id) is called inside block_pool_take when it takes the idle
 * block id; the block is no longer kept then.  It must not call the pool. */
void block_pool_set_evict(struct block_pool *pool, void (*on_evict)(void *context, block_id id),
                          void *context);

/* Take one block; its holder count becomes 1.
 * BUSY: every block is held; nothing changed. */
MUST_CHECK enum status block_pool_take(struct block_pool *pool, block_id *out, struct error *err);

/* One more holder of a block that is held or idle (not free). */
void block_pool_share(struct block_pool *pool, block_id id);

/* One holder fewer; without holders the block becomes idle if kept, else free. */
void block_pool_drop(struct block_pool *pool, block_id id);

/* Keep a held block's contents past its last holder. */
void block_pool_keep(struct block_pool *pool, block_id id);

/* The opposite, for a held or idle block; an idle one becomes free. */
void block_pool_unkeep(struct block_pool *pool, block_id id);

int32_t block_pool_holders(const struct block_pool *pool, block_id id);
int block_pool_is_kept(const struct block_pool *pool, block_id id);

/* How many block_pool_take calls in a row would succeed: free and idle blocks. */
int32_t block_pool_available(const struct block_pool *pool);

struct block_counts block_pool_counts(const struct block_pool *pool);

#endif
