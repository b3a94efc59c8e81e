/* arena.h - memory made while loading, given back all at once.
 *
 * A bump allocator over anonymous mappings for which huge pages are asked
 * (MADV_HUGEPAGE): weights that are read once per token run 8 to 14 % faster
 * from 2 MiB pages than from 4 KiB pages.
 *
 *   chunk  [ used ............ | free ....... ]   ->  chunk  ->  NULL
 *
 * Every allocation is zeroed and aligned to 64 bytes (a cache line, and the
 * widest vector), unless arena_rewind hands it out again.  Nothing is freed before
 * arena_clear.  While the program is
 * in a decode step no arena may grow; what a step needs is taken at load.
 *
 * Owner: one thread at a time; no locking.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/status.h"

#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *current;    /* where the next allocation is tried; NULL when empty */
    size_t used;                    /* bytes handed out, padding included */
    size_t mapped;                  /* bytes mapped */
};

void arena_init(struct arena *arena);
void arena_clear(struct arena *arena);

/* count * size zeroed bytes.  NO_MEMORY: the product overflows or the system
 * refuses; the sentence has the size. */
MUST_CHECK enum status arena_take(struct arena *arena, size_t count, size_t size, void **out,
                                  struct error *err);

/* What is taken after arena_mark is handed out again after arena_rewind, as it is:
 * for uses that follow each other, like the layers of a model. */
struct arena_mark {
    struct arena_chunk *chunk;
    size_t chunk_used, used;
};
struct arena_mark arena_mark(const struct arena *arena);
void arena_rewind(struct arena *arena, struct arena_mark mark);

/* The same for an array of *pointer:  TRY(ARENA_ARRAY(&arena, n, &p, err)) */
#define ARENA_ARRAY(arena, count, pointer, err) \
    arena_take((arena), (count), sizeof **(pointer), (void **)(pointer), (err))

#endif
