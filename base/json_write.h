/* json_write.h - JSON text appended to a buf: the small, hot pieces that a
 * reply is made of.  (Reading JSON is jansson's work.)
 *
 * Every function appends and has the failures of buf_add.
 * Text must be UTF-8; a byte that is not part of a valid sequence becomes
 * U+FFFD, so the output is always valid JSON.
 */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include "base/buf.h"

#include <stdint.h>

/* "..." with the quotes. */
MUST_CHECK enum status json_write_string(struct buf *out, const char *text, size_t len);
MUST_CHECK enum status json_write_cstring(struct buf *out, const char *text);
MUST_CHECK enum status json_write_int(struct buf *out, int64_t value);

/* Shortest text that reads back as the same float; a non-finite value is
 * written as -9999.0, the value clients know as "no probability". */
MUST_CHECK enum status json_write_float(struct buf *out, float value);
MUST_CHECK enum status json_write_double(struct buf *out, double value);

#endif
