/* block_table.h - where one sequence's tokens lie: its blocks, in order.
 *
 *   position:  0 .. B-1     B .. 2B-1    2B .. 3B-1        B = block_size
 *   ids:      [   17   ]   [   4    ]   [   9  .. ]
 *   slot of position p:  block ids[p / B], place p % B
 *
 * Tables may share blocks: a prefix that was reused, or everything a fork had
 * in common with its parent. A block is written through one table at a time:
 * before a step writes, block_table_unshare gives the table its own copy of
 * the block written first, if another table holds it too or the prefix cache
 * keeps it. The copy is an order {source, destination}; every rank moves its
 * own bytes, in the order of the orders, before any row of the step is written.
 *
 * The table counts one holder of each of its blocks in the pool given to every
 * call, which must be the same one each time.
 *
 * Owner:   the engine thread.  Ranks read ids during a step, when nobody writes.
 * Memory:  all at create.
 */
#ifndef CACHE_BLOCK_TABLE_H
#define CACHE_BLOCK_TABLE_H

#include "cache/block_pool.h"

struct block_table;                  /* opaque */

struct block_copy {
    block_id source;
    block_id destination;
};

/* An empty table for at most max_blocks (>= 0) blocks of block_size (> 0) tokens.
 * NO_MEMORY: *out untouched. */
MUST_CHECK enum status block_table_create(struct block_table **out, int32_t max_blocks,
                                          int32_t block_size, struct error *err);
/* The table must be empty (block_table_truncate to 0).  NULL is allowed. */
void block_table_destroy(struct block_table *table);

/* ceil(n_tokens / block_size) */
int32_t block_table_blocks_for(int32_t n_tokens, int32_t block_size);

int32_t block_table_count(const struct block_table *table);      /* blocks in use */
int32_t block_table_capacity(const struct block_table *table);   /* max_blocks */
const block_id *block_table_ids(const struct block_table *table);   /* [count] */

/* Take new blocks at the end until n_tokens tokens fit (n_tokens <= max_blocks *
 * block_size).  Nothing to do if they fit already.
 * BUSY: the pool has not enough; nothing changed. */
MUST_CHECK enum status block_table_grow(struct block_table *table, struct block_pool *pool,
                                        int32_t n_tokens, struct error *err);

/* Append blocks that exist (a matched prefix): one more holder of each. */
void block_table_adopt(struct block_table *table, struct block_pool *pool, const block_id *ids,
                       int32_t n_ids);

/* child (empty, with room) becomes a copy of parent; all blocks are shared. */
void block_table_fork(struct block_table *child, const struct block_table *parent,
                      struct block_pool *pool);

/* 1 if writing at position needs block_table_unshare first, which takes a block. */
int block_table_is_shared(const struct block_table *table, const struct block_pool *pool,
                          int32_t position);

/* Make the block of position this table's own.  *n_copies becomes 1 and *copy
 * the order if the block was shared, else *n_copies becomes 0.
 * BUSY: no block for the copy; nothing changed. */
MUST_CHECK enum status block_table_unshare(struct block_table *table, struct block_pool *pool,
                                           int32_t position, struct block_copy *copy, int *n_copies,
                                           struct error *err);

/* Put id (held or idle) in the place of block index: for a block that turned
 * out equal to a published one. */
void block_table_replace(struct block_table *table, struct block_pool *pool, int32_t index, block_id id);

/* Keep the blocks of the first n_tokens tokens and drop the others, last one
 * first, so that a prefix outlives what was built on it. */
void block_table_truncate(struct block_table *table, struct block_pool *pool, int32_t n_tokens);

#endif
