/* byte_level.h - the map between bytes and the printable characters that stand
 * for them in the files of byte-level tokenizers.
 *
 *   bytes 33..126, 161..172, 174..255   stand for themselves (U+0021 ..)
 *   the other 68, in order              U+0100, U+0101, .. U+0143
 *
 * so a space (32) is written as U+0120 and a newline (10) as U+010A.  A mapped
 * byte takes one or two bytes of UTF-8.
 *
 * Threads: any.  Memory: none but what buf_add takes.
 */
#ifndef MODEL_BYTE_LEVEL_H
#define MODEL_BYTE_LEVEL_H

#include "base/buf.h"

/* Append the characters of bytes[0..len).  Failures of buf_add. */
MUST_CHECK enum status byte_level_map(struct buf *out, const char *bytes, size_t len);

/* Append the bytes that text[0..len) stands for and set *whole to 1.  If some
 * character of it stands for no byte, append text as it is and set *whole to 0.
 * Failures of buf_add. */
MUST_CHECK enum status byte_level_unmap(struct buf *out, const char *text, size_t len, int *whole);

#endif
