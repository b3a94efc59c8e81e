#include "cache/latent_store.h"

#include <string.h>
#include <sys/mman.h>

enum status latent_store_create(struct latent_store *store, const struct cache_layout *layout,
                                int n_layers, int32_t n_blocks, struct error *err)
{
    *store = (struct latent_store){ .layout = *layout, .n_layers = n_layers, .n_blocks = n_blocks };
    size_t blocks;
    if (__builtin_mul_overflow((size_t)n_layers, (size_t)n_blocks, &blocks)
        || __builtin_mul_overflow(blocks, layout->block_bytes, &store->mapped))
        return fail(err, STATUS_NO_MEMORY, "a cache of %d blocks in %d layers does not fit in memory",
                    n_blocks, n_layers);
    if (store->mapped == 0)
        return STATUS_OK;
    void *map = mmap(NULL, store->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return fail(err, STATUS_NO_MEMORY, "the system refused %zu bytes for the cache", store->mapped);
    madvise(map, store->mapped, MADV_HUGEPAGE);
    store->bytes = map;
    return STATUS_OK;
}

void latent_store_destroy(struct latent_store *store)
{
    if (store->bytes != NULL)
        munmap(store->bytes, store->mapped);
    *store = (struct latent_store){ 0 };
}

size_t latent_store_layer_bytes(const struct latent_store *store)
{
    return (size_t)store->n_blocks * store->layout.block_bytes;
}

struct cache_view latent_store_view(const struct latent_store *store, int layer, const int32_t *blocks)
{
    return (struct cache_view){
        .layout = &store->layout,
        .blocks_base = store->bytes + (size_t)layer * latent_store_layer_bytes(store),
        .blocks = blocks,
    };
}

static char *block_of_layer(const struct latent_store *store, int layer, int32_t block)
{
    return store->bytes + (size_t)layer * latent_store_layer_bytes(store)
         + (size_t)block * store->layout.block_bytes;
}

void latent_store_copy_block(struct latent_store *store, int32_t from, int32_t to)
{
    for (int layer = 0; layer < store->n_layers; layer++)
        memcpy(block_of_layer(store, layer, to), block_of_layer(store, layer, from), store->layout.block_bytes);
}

size_t latent_store_block_bytes(const struct latent_store *store)
{
    return (size_t)store->n_layers * store->layout.block_bytes;
}

void latent_store_read_block(const struct latent_store *store, int32_t block, void *out)
{
    size_t bytes = store->layout.block_bytes;
    for (int layer = 0; layer < store->n_layers; layer++)
        memcpy((char *)out + (size_t)layer * bytes, block_of_layer(store, layer, block), bytes);
}

void latent_store_write_block(struct latent_store *store, int32_t block, const void *from)
{
    size_t bytes = store->layout.block_bytes;
    for (int layer = 0; layer < store->n_layers; layer++)
        memcpy(block_of_layer(store, layer, block), (const char *)from + (size_t)layer * bytes, bytes);
}
