/* latent_store.h - one rank's cache memory: its shard of every block.
 *
 *   [layer 0: block 0 | block 1 | .. ][layer 1: block 0 | ..] ..
 *
 * One anonymous mapping, huge pages asked for, zero until written.  Which
 * block belongs to whom is the block pool's business; ids are common to all
 * ranks, bytes are not.
 *
 * Owner: the rank; it alone reads and writes during a step.  Memory: all at create.
 */
#ifndef CACHE_LATENT_STORE_H
#define CACHE_LATENT_STORE_H

#include "cache/layout.h"

struct latent_store {
    struct cache_layout layout;
    int n_layers;
    int32_t n_blocks;
    char *bytes;                /* the mapping */
    size_t mapped;
};

/* NO_MEMORY: the sentence has the size. */
MUST_CHECK enum status latent_store_create(struct latent_store *store, const struct cache_layout *layout,
                                           int n_layers, int32_t n_blocks, struct error *err);
void latent_store_destroy(struct latent_store *store);

/* The view of one sequence's blocks in a layer. */
struct cache_view latent_store_view(const struct latent_store *store, int layer, const int32_t *blocks);

/* Copy a whole block, in every layer. */
void latent_store_copy_block(struct latent_store *store, int32_t from, int32_t to);

/* The contents of a block in every layer, [layer][block_bytes], out and in. */
size_t latent_store_block_bytes(const struct latent_store *store);
void latent_store_read_block(const struct latent_store *store, int32_t block, void *out);
void latent_store_write_block(struct latent_store *store, int32_t block, const void *bytes);

size_t latent_store_layer_bytes(const struct latent_store *store);

#endif
