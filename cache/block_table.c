#include "cache/block_table.h"

#include <assert.h>
#include <stdlib.h>

struct block_table {
    /* fixed at create */
    int32_t max_blocks;
    int32_t block_size;

    /* engine thread only */
    int32_t n_blocks;
    block_id ids[];             /* [max_blocks] */
};

enum status block_table_create(struct block_table **out, int32_t max_blocks, int32_t block_size,
                               struct error *err)
{
    assert(max_blocks >= 0 && block_size > 0);
    struct block_table *table = calloc(1, sizeof *table + (size_t)max_blocks * sizeof table->ids[0]);
    if (table == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a table of %d blocks", max_blocks);
    table->max_blocks = max_blocks;
    table->block_size = block_size;
    *out = table;
    return STATUS_OK;
}

void block_table_destroy(struct block_table *table)
{
    assert(table == NULL || table->n_blocks == 0);
    free(table);
}

int32_t block_table_blocks_for(int32_t n_tokens, int32_t block_size)
{
    return n_tokens / block_size + (n_tokens % block_size != 0);
}

int32_t block_table_count(const struct block_table *table)
{
    return table->n_blocks;
}

int32_t block_table_capacity(const struct block_table *table)
{
    return table->max_blocks;
}

const block_id *block_table_ids(const struct block_table *table)
{
    return table->ids;
}

enum status block_table_grow(struct block_table *table, struct block_pool *pool, int32_t n_tokens,
                             struct error *err)
{
    int32_t wanted = block_table_blocks_for(n_tokens, table->block_size);
    assert(wanted <= table->max_blocks);
    int32_t missing = wanted - table->n_blocks;
    if (missing > block_pool_available(pool))
        return fail(err, STATUS_BUSY, "%d more cache blocks are needed, %d are available", missing,
                    block_pool_available(pool));
    while (table->n_blocks < wanted) {
        TRY(block_pool_take(pool, &table->ids[table->n_blocks], err));
        table->n_blocks++;
    }
    return STATUS_OK;
}

void block_table_adopt(struct block_table *table, struct block_pool *pool, const block_id *ids, int32_t n_ids)
{
    assert(n_ids <= table->max_blocks - table->n_blocks);
    for (int32_t i = 0; i < n_ids; i++) {
        block_pool_share(pool, ids[i]);
        table->ids[table->n_blocks++] = ids[i];
    }
}

void block_table_fork(struct block_table *child, const struct block_table *parent, struct block_pool *pool)
{
    assert(child->n_blocks == 0 && child->block_size == parent->block_size);
    block_table_adopt(child, pool, parent->ids, parent->n_blocks);
}

int block_table_is_shared(const struct block_table *table, const struct block_pool *pool, int32_t position)
{
    int32_t index = position / table->block_size;
    if (index >= table->n_blocks)
        return 0;
    block_id id = table->ids[index];
    return block_pool_holders(pool, id) > 1 || block_pool_is_kept(pool, id);
}

enum status block_table_unshare(struct block_table *table, struct block_pool *pool, int32_t position,
                                struct block_copy *copy, int *n_copies, struct error *err)
{
    if (!block_table_is_shared(table, pool, position)) {
        *n_copies = 0;
        return STATUS_OK;
    }
    block_id own;
    TRY(block_pool_take(pool, &own, err));
    block_id *place = &table->ids[position / table->block_size];
    *copy = (struct block_copy){ .source = *place, .destination = own };
    *n_copies = 1;
    block_pool_drop(pool, *place);
    *place = own;
    return STATUS_OK;
}

void block_table_replace(struct block_table *table, struct block_pool *pool, int32_t index, block_id id)
{
    assert(index >= 0 && index < table->n_blocks);
    block_pool_share(pool, id);
    block_pool_drop(pool, table->ids[index]);
    table->ids[index] = id;
}

void block_table_truncate(struct block_table *table, struct block_pool *pool, int32_t n_tokens)
{
    int32_t kept = block_table_blocks_for(n_tokens, table->block_size);
    while (table->n_blocks > kept)
        block_pool_drop(pool, table->ids[--table->n_blocks]);
}
