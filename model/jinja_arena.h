/* jinja_arena.h - bump memory of one compiled template or of one render.
 *
 *   chunk  [ aaaa bbbbbb cc ......... ]  ->  older chunk  ->  NULL
 *                           ^at       ^end
 *
 * Nothing is given back alone: everything taken lives until jinja_arena_clear,
 * so a value may point at any other without counting.
 *
 * Invariants
 *   - the bytes taken never pass max;
 *   - under AddressSanitizer the gap after each piece is poisoned, so that a
 *     read past a piece is seen although the chunk goes on.
 *
 * Owner:  one thread at a time.  Memory: chunks from calloc, growing.
 */
#ifndef MODEL_JINJA_ARENA_H
#define MODEL_JINJA_ARENA_H

#include <stddef.h>

struct jinja_chunk;

struct jinja_arena {
    struct jinja_chunk *chunks; /* newest first */
    char *at, *end;             /* room left in the newest */
    size_t used;                /* bytes taken, gaps included */
    size_t max;                 /* the largest used allowed */
};

/* An empty arena that gives at most max bytes. */
void jinja_arena_init(struct jinja_arena *arena, size_t max);
void jinja_arena_clear(struct jinja_arena *arena);

/* bytes, zeroed and aligned for any object; bytes may be 0.
 * NULL: max would be passed, or the system has no memory. */
void *jinja_arena_take(struct jinja_arena *arena, size_t bytes);

#endif
