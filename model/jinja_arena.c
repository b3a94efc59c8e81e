#include "model/jinja_arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#define GAP 16
#define POISON(at, bytes) __asan_poison_memory_region(at, bytes)
#define UNPOISON(at, bytes) __asan_unpoison_memory_region(at, bytes)
#else
#define GAP 0
#define POISON(at, bytes) ((void)(at), (void)(bytes))
#define UNPOISON(at, bytes) ((void)(at), (void)(bytes))
#endif

#define ALIGNMENT alignof(max_align_t)
#define FIRST_CHUNK 8192
#define LARGEST_CHUNK (1u << 20)

struct jinja_chunk {
    alignas(max_align_t) struct jinja_chunk *next;
    size_t bytes;               /* of data */
    alignas(max_align_t) char data[];
};

void jinja_arena_init(struct jinja_arena *arena, size_t max)
{
    *arena = (struct jinja_arena){ .max = max };
}

void jinja_arena_clear(struct jinja_arena *arena)
{
    struct jinja_chunk *chunk = arena->chunks;
    while (chunk != NULL) {
        struct jinja_chunk *next = chunk->next;
        UNPOISON(chunk->data, chunk->bytes);
        free(chunk);
        chunk = next;
    }
    jinja_arena_init(arena, arena->max);
}

/* A new newest chunk with room for need bytes; each is twice the one before,
 * so small renders stay small and large ones call malloc seldom. */
static int add_chunk(struct jinja_arena *arena, size_t need)
{
    size_t bytes = arena->chunks == NULL ? FIRST_CHUNK : arena->chunks->bytes * 2;
    if (bytes > LARGEST_CHUNK)
        bytes = LARGEST_CHUNK;
    if (bytes < need)
        bytes = need;
    struct jinja_chunk *chunk = calloc(1, sizeof *chunk + bytes);
    if (chunk == NULL)
        return 0;
    chunk->next = arena->chunks;
    chunk->bytes = bytes;
    arena->chunks = chunk;
    arena->at = chunk->data;
    arena->end = chunk->data + bytes;
    POISON(chunk->data, bytes);
    return 1;
}

void *jinja_arena_take(struct jinja_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - GAP - ALIGNMENT)
        return NULL;
    size_t need = (bytes + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (need > arena->max - arena->used)
        return NULL;
    if ((arena->at == NULL || need > (size_t)(arena->end - arena->at)) && !add_chunk(arena, need))
        return NULL;
    char *piece = arena->at;
    arena->at += need;
    arena->used += need;
    UNPOISON(piece, bytes);
    return piece;
}
