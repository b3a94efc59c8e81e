#include "base/arena.h"

#include <stdint.h>
#include <sys/mman.h>

#define ALIGNMENT 64u
#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL_CHUNK ((size_t)256 << 10)

struct arena_chunk {
    struct arena_chunk *older, *newer;
    size_t bytes;           /* of the mapping */
    size_t used;            /* of the mapping, this header included */
};

void arena_init(struct arena *arena)
{
    *arena = (struct arena){ 0 };
}

void arena_clear(struct arena *arena)
{
    struct arena_chunk *chunk = arena->current;
    while (chunk != NULL && chunk->newer != NULL)
        chunk = chunk->newer;
    while (chunk != NULL) {
        struct arena_chunk *older = chunk->older;
        munmap(chunk, chunk->bytes);
        chunk = older;
    }
    arena_init(arena);
}

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int has_room(const struct arena_chunk *chunk, size_t bytes)
{
    return chunk != NULL && chunk->bytes - chunk->used >= bytes;
}

/* A new chunk with room for bytes, after the newest.  Chunks double with the arena up to 64 MiB, so
 * a test with a tiny model maps little and a large one maps seldom. */
static struct arena_chunk *add_chunk(struct arena *arena, size_t bytes)
{
    size_t wish = arena->mapped < SMALL_CHUNK ? SMALL_CHUNK : arena->mapped;
    if (wish > 32 * HUGE_PAGE)
        wish = 32 * HUGE_PAGE;
    size_t need = bytes + ALIGNMENT;
    size_t size = need > wish ? need : wish;
    size = round_up(size, size >= HUGE_PAGE ? HUGE_PAGE : 4096);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (size >= HUGE_PAGE)
        madvise(map, size, MADV_HUGEPAGE);
    struct arena_chunk *chunk = map;
    *chunk = (struct arena_chunk){ .older = arena->current, .bytes = size, .used = ALIGNMENT };
    if (arena->current != NULL)
        arena->current->newer = chunk;
    arena->current = chunk;
    arena->mapped += size;
    return chunk;
}

enum status arena_take(struct arena *arena, size_t count, size_t size, void **out, struct error *err)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return fail(err, STATUS_NO_MEMORY, "an array of %zu times %zu bytes does not fit in memory",
                    count, size);
    bytes = round_up(bytes > 0 ? bytes : 1, ALIGNMENT);
    while (!has_room(arena->current, bytes) && arena->current != NULL && arena->current->newer != NULL)
        arena->current = arena->current->newer;
    struct arena_chunk *chunk = has_room(arena->current, bytes) ? arena->current : add_chunk(arena, bytes);
    if (chunk == NULL)
        return fail(err, STATUS_NO_MEMORY, "the system refused %zu bytes of memory", bytes);
    *out = (char *)chunk + chunk->used;
    chunk->used += bytes;
    arena->used += bytes;
    return STATUS_OK;
}

struct arena_mark arena_mark(const struct arena *arena)
{
    struct arena_chunk *chunk = arena->current;
    return (struct arena_mark){ chunk, chunk != NULL ? chunk->used : 0, arena->used };
}

void arena_rewind(struct arena *arena, struct arena_mark mark)
{
    struct arena_chunk *chunk = arena->current;
    while (chunk != NULL && chunk != mark.chunk && chunk->older != NULL) {
        chunk->used = ALIGNMENT;
        chunk = chunk->older;
    }
    if (chunk != NULL)
        chunk->used = mark.chunk != NULL ? mark.chunk_used : ALIGNMENT;
    arena->current = chunk;
    arena->used = mark.used;
}
