/* utf8.h - where one character ends.  Total on any bytes. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd"     /* U+FFFD */

/* Length (1..4) of the valid sequence at text[0..len), or 0 if there is none:
 * a stray continuation byte, an overlong form, a surrogate, a value past
 * U+10FFFF, or a sequence that is cut off by len. */
size_t utf8_sequence_length(const char *text, size_t len);

/* How many bytes at the end of text[0..len) may be the beginning of a valid
 * sequence that is still incomplete (0..3). */
size_t utf8_incomplete_tail(const char *text, size_t len);

/* 1 if all of text is valid UTF-8. */
int utf8_is_valid(const char *text, size_t len);

/* Number of characters in valid text (a stray byte counts as one). */
size_t utf8_count(const char *text, size_t len);

#endif
