/* buf.h - growable bytes with a required maximum.
 *
 *   data  [ h e l l o \0 . . . . ]
 *           <- len ->  <- room ->      len + 1 <= capacity <= max + 1
 *
 * Invariants
 *   - data[len] is 0 whenever data is not NULL, so text can be printed;
 *   - len never passes max; a write that would is refused whole.
 *
 * Owner:  the caller; no locking.  Memory: grows by doubling on write;
 * buf_reserve once and nothing is allocated until the reserve is used up.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/status.h"

#include <stdarg.h>
#include <stddef.h>

struct buf {
    char *data;         /* NULL until the first write */
    size_t len;         /* bytes in use */
    size_t capacity;    /* bytes allocated */
    size_t max;         /* the largest len allowed */
};

/* An empty buffer that may grow to max bytes. */
void buf_init(struct buf *b, size_t max);
void buf_clear(struct buf *b);              /* frees; usable again after buf_init */
void buf_reset(struct buf *b);              /* len = 0, memory kept */

/* Room for n more bytes without allocating.
 * TOO_LARGE: past max.  NO_MEMORY.  Nothing changed in either case. */
MUST_CHECK enum status buf_reserve(struct buf *b, size_t n);

/* Append; the failures of buf_reserve. */
MUST_CHECK enum status buf_add(struct buf *b, const void *bytes, size_t n);
MUST_CHECK enum status buf_add_text(struct buf *b, const char *text);
MUST_CHECK enum status buf_add_char(struct buf *b, char c);
MUST_CHECK enum status buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Remove the first n bytes (n <= len) and move the rest down. */
void buf_drop_front(struct buf *b, size_t n);

#endif
