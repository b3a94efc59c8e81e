#include "cache/block_pool.h"

#include <assert.h>
#include <stdlib.h>

/* Blocks without holders lie in one of two rings. A ring is a doubly linked
 * circle through a sentinel that stands behind the blocks in the same array:
 *
 *   index:  0 .. n_blocks-1   n_blocks      n_blocks+1
 *           the blocks        free ring     idle ring
 *
 * next of the sentinel is the first to be taken, prev the last. */
struct block {
    int32_t holders;
    int32_t next, prev;         /* meaningful only while holders is 0 */
    int kept;
};

struct block_pool {
    /* fixed at create */
    int32_t n_blocks;
    void (*on_evict)(void *context, block_id id);
    void *context;

    /* engine thread only */
    struct block *blocks;       /* [n_blocks + 2] */
    int32_t n_free, n_idle;
    uint64_t n_evicted;
};

static int32_t free_ring(const struct block_pool *pool)
{
    return pool->n_blocks;
}

static int32_t idle_ring(const struct block_pool *pool)
{
    return pool->n_blocks + 1;
}

/* Put id between the neighbours before and its next. */
static void link_after(struct block_pool *pool, int32_t before, block_id id)
{
    struct block *b = pool->blocks;
    int32_t after = b[before].next;
    b[id].prev = before;
    b[id].next = after;
    b[before].next = id;
    b[after].prev = id;
}

static void unlink_block(struct block_pool *pool, block_id id)
{
    struct block *b = pool->blocks;
    b[b[id].prev].next = b[id].next;
    b[b[id].next].prev = b[id].prev;
}

static struct block *block_at(const struct block_pool *pool, block_id id)
{
    assert(id >= 0 && id < pool->n_blocks);
    return &pool->blocks[id];
}

enum status block_pool_create(struct block_pool **out, int32_t n_blocks, struct error *err)
{
    assert(n_blocks > 0 && n_blocks <= INT32_MAX - 2);
    struct block_pool *pool = calloc(1, sizeof *pool);
    struct block *blocks = calloc((size_t)n_blocks + 2, sizeof *blocks);
    if (pool == NULL || blocks == NULL) {
        free(pool);
        free(blocks);
        return fail(err, STATUS_NO_MEMORY, "no memory for the bookkeeping of %d cache blocks", n_blocks);
    }
    pool->n_blocks = n_blocks;
    pool->blocks = blocks;
    for (int32_t ring = n_blocks; ring < n_blocks + 2; ring++)
        blocks[ring].next = blocks[ring].prev = ring;
    for (block_id id = n_blocks - 1; id >= 0; id--)     /* so that block 0 is taken first */
        link_after(pool, free_ring(pool), id);
    pool->n_free = n_blocks;
    *out = pool;
    return STATUS_OK;
}

void block_pool_destroy(struct block_pool *pool)
{
    if (pool == NULL)
        return;
    free(pool->blocks);
    free(pool);
}

void block_pool_set_evict(struct block_pool *pool, void (*on_evict)(void *context, block_id id), void *context)
{
    pool->on_evict = on_evict;
    pool->context = context;
}

static block_id take_free(struct block_pool *pool)
{
    block_id id = pool->blocks[free_ring(pool)].next;
    unlink_block(pool, id);
    pool->n_free--;
    return id;
}

static block_id take_idle(struct block_pool *pool)
{
    block_id id = pool->blocks[idle_ring(pool)].next;
    unlink_block(pool, id);
    pool->n_idle--;
    pool->n_evicted++;
    pool->blocks[id].kept = 0;
    if (pool->on_evict != NULL)
        pool->on_evict(pool->context, id);
    return id;
}

enum status block_pool_take(struct block_pool *pool, block_id *out, struct error *err)
{
    if (pool->n_free + pool->n_idle == 0)
        return fail(err, STATUS_BUSY, "all %d cache blocks are in use", pool->n_blocks);
    block_id id = pool->n_free > 0 ? take_free(pool) : take_idle(pool);
    pool->blocks[id].holders = 1;
    *out = id;
    return STATUS_OK;
}

void block_pool_share(struct block_pool *pool, block_id id)
{
    struct block *b = block_at(pool, id);
    assert(b->holders > 0 || b->kept);
    if (b->holders == 0) {
        unlink_block(pool, id);
        pool->n_idle--;
    }
    b->holders++;
}

void block_pool_drop(struct block_pool *pool, block_id id)
{
    struct block *b = block_at(pool, id);
    assert(b->holders > 0);
    if (--b->holders > 0)
        return;
    if (b->kept) {
        link_after(pool, pool->blocks[idle_ring(pool)].prev, id);
        pool->n_idle++;
    } else {
        link_after(pool, free_ring(pool), id);
        pool->n_free++;
    }
}

void block_pool_keep(struct block_pool *pool, block_id id)
{
    struct block *b = block_at(pool, id);
    assert(b->holders > 0);
    b->kept = 1;
}

void block_pool_unkeep(struct block_pool *pool, block_id id)
{
    struct block *b = block_at(pool, id);
    assert(b->kept);
    b->kept = 0;
    if (b->holders > 0)
        return;
    unlink_block(pool, id);
    pool->n_idle--;
    link_after(pool, free_ring(pool), id);
    pool->n_free++;
}

int32_t block_pool_holders(const struct block_pool *pool, block_id id)
{
    return block_at(pool, id)->holders;
}

int block_pool_is_kept(const struct block_pool *pool, block_id id)
{
    return block_at(pool, id)->kept;
}

int32_t block_pool_available(const struct block_pool *pool)
{
    return pool->n_free + pool->n_idle;
}

struct block_counts block_pool_counts(const struct block_pool *pool)
{
    return (struct block_counts){
        .n_blocks = pool->n_blocks,
        .n_free = pool->n_free,
        .n_idle = pool->n_idle,
        .n_held = pool->n_blocks - pool->n_free - pool->n_idle,
        .n_evicted = pool->n_evicted,
    };
}
