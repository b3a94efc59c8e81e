/* layout.h - where the bytes of a cached token lie on one rank.
 *
 *   store   [layer][block]                        (latent_store.h)
 *   block   [slot 0][slot 1] .. [slot B-1][tail]
 *   slot    f32, bf16:  [segment 0 | segment 1 | ..]
 *           int8:       [segment 0 | segment 1 | ..| pad to 4 ][scale 0][scale 1]..
 *
 * A segment is what belongs together in one row: one latent, the rope key, one
 * KV head's key or value.  int8 has one scale per segment of a row.
 *
 * The tail is float state that is not per token (CCA's conv inputs and delayed
 * value): it describes the sequence after the last token computed in the
 * block, so a full block carries the state at its boundary and a prefix that is
 * shared or copied takes its state along.
 *
 * Blocks of one layer lie one after the other, so the blocks of a sequence that
 * were taken in order are read as one stream.
 *
 * Threads: any; a layout does not change after cache_layout_init.
 */
#ifndef CACHE_LAYOUT_H
#define CACHE_LAYOUT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum cache_type { CACHE_F32, CACHE_BF16, CACHE_INT8 };

enum { CACHE_MAX_SEGMENTS = 512, CACHE_MAX_BLOCK_SIZE = 256 };

/* What one rank caches of a token in one layer, in elements. */
struct cache_shape {
    int n_segments;
    int segment_width[CACHE_MAX_SEGMENTS];
    int tail_width;                         /* floats */
};

struct cache_layout {
    enum cache_type type;
    int block_size;                         /* slots of a block */
    int n_segments;
    int segment_begin[CACHE_MAX_SEGMENTS + 1];  /* element offsets; the last is row_width */
    int row_width;                          /* elements of a row */
    size_t scales_offset;                   /* int8: bytes from the row to its scales */
    size_t row_bytes;
    size_t tail_offset;                     /* bytes from the block to its tail */
    int tail_width;
    size_t block_bytes;                     /* multiple of 64 */
};

/* 1 <= block_size <= CACHE_MAX_BLOCK_SIZE. */
void cache_layout_init(struct cache_layout *layout, enum cache_type type, int block_size,
                       const struct cache_shape *shape);

/* Bytes of one token's row, the tail's share not counted. */
size_t cache_layout_token_bytes(const struct cache_layout *layout);

/* Store row[row_width] at slot_bytes, rounding to the cache type. */
void cache_row_store(const struct cache_layout *layout, void *slot_bytes, const float *row);

/* One sequence's blocks in one layer of one rank. */
struct cache_view {
    const struct cache_layout *layout;
    char *blocks_base;                      /* block 0 of this layer */
    const int32_t *blocks;                  /* [ceil(length / block_size)] ids */
};

static inline char *cache_view_block(const struct cache_view *v, int position)
{
    return v->blocks_base + (size_t)v->blocks[position / v->layout->block_size] * v->layout->block_bytes;
}

static inline char *cache_view_row(const struct cache_view *v, int position)
{
    return cache_view_block(v, position)
         + (size_t)(position % v->layout->block_size) * v->layout->row_bytes;
}

/* The state after the last token computed in the block that holds position. */
static inline float *cache_view_tail(const struct cache_view *v, int position)
{
    return (float *)(void *)(cache_view_block(v, position) + v->layout->tail_offset);
}

const char *cache_type_name(enum cache_type type);
/* "f32", "bf16", "int8".  0 if there is no such type. */
int cache_type_parse(const char *name, enum cache_type *out);

#endif
