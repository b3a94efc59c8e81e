#include "cache/layout.h"

#include "base/element.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *const type_names[] = { "f32", "bf16", "int8" };

const char *cache_type_name(enum cache_type type)
{
    return type_names[type];
}

int cache_type_parse(const char *name, enum cache_type *out)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, type_names[i]) == 0) {
            *out = (enum cache_type)i;
            return 1;
        }
    return 0;
}

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

void cache_layout_init(struct cache_layout *layout, enum cache_type type, int block_size,
                       const struct cache_shape *shape)
{
    assert(block_size >= 1 && block_size <= CACHE_MAX_BLOCK_SIZE);
    assert(shape->n_segments >= 0 && shape->n_segments <= CACHE_MAX_SEGMENTS);
    *layout = (struct cache_layout){ .type = type, .block_size = block_size,
                                     .n_segments = shape->n_segments, .tail_width = shape->tail_width };
    for (int s = 0; s < shape->n_segments; s++)
        layout->segment_begin[s + 1] = layout->segment_begin[s] + shape->segment_width[s];
    layout->row_width = layout->segment_begin[shape->n_segments];
    size_t width = (size_t)layout->row_width;
    if (type == CACHE_F32) {
        layout->row_bytes = width * 4;
    } else if (type == CACHE_BF16) {
        layout->row_bytes = width * 2;
    } else {
        layout->scales_offset = round_up(width, 4);
        layout->row_bytes = layout->scales_offset + (size_t)shape->n_segments * 4;
    }
    layout->tail_offset = round_up(layout->row_bytes * (size_t)block_size, 4);
    layout->block_bytes = round_up(layout->tail_offset + (size_t)shape->tail_width * 4, 64);
}

size_t cache_layout_token_bytes(const struct cache_layout *layout)
{
    return layout->row_bytes;
}

static void store_int8(const struct cache_layout *layout, char *slot, const float *row)
{
    int8_t *elements = (int8_t *)slot;
    for (int s = 0; s < layout->n_segments; s++) {
        int begin = layout->segment_begin[s], end = layout->segment_begin[s + 1];
        float largest = 0, lost = 0;
        for (int i = begin; i < end; i++) {
            largest = fmaxf(largest, fabsf(row[i]));
            lost += row[i] * 0;     /* what is no number leaves no trace in a maximum */
        }
        float scale = largest / 127 + lost;
        float inverse = largest > 0 ? 127 / largest : 0;
        for (int i = begin; i < end; i++)
            elements[i] = (int8_t)lrintf(row[i] * inverse);
        memcpy(slot + layout->scales_offset + (size_t)s * 4, &scale, 4);
    }
}

void cache_row_store(const struct cache_layout *layout, void *slot_bytes, const float *row)
{
    if (layout->type == CACHE_F32) {
        memcpy(slot_bytes, row, layout->row_bytes);
    } else if (layout->type == CACHE_BF16) {
        uint16_t *elements = slot_bytes;
        for (int i = 0; i < layout->row_width; i++)
            elements[i] = f32_to_bf16(row[i]);
    } else {
        store_int8(layout, slot_bytes, row);
    }
}
