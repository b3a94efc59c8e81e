/* char_class.h - a set of Unicode characters, and the bytes that spell them.
 *
 *   ranges  [ {0x30, 0x39} {0x41, 0x5a} .. ]     sorted, apart from each other, after close
 *
 * Two spellings:
 *   CHARS_UTF8   the character's UTF-8 bytes
 *   CHARS_JSON   as inside a JSON string: " and \ and control characters escaped in
 *                their short form if there is one, else as \u00xx; all others as UTF-8
 * Surrogates (U+D800..U+DFFF) are not characters and are never spelled; nor is U+0000
 * in JSON, which many readers refuse.
 *
 * Owner: the caller.  Memory: none beyond the struct.
 */
#ifndef MODEL_CHAR_CLASS_H
#define MODEL_CHAR_CLASS_H

#include "model/byte_program.h"

#define CHAR_CLASS_MAX_RANGES 256
#define CHAR_MAX 0x10ffffu

enum char_spelling { CHARS_UTF8, CHARS_JSON };

struct char_range {
    uint32_t lo, hi;
};

struct char_class {
    int n;
    struct char_range ranges[CHAR_CLASS_MAX_RANGES];
};

/* Add lo..hi, lo <= hi <= CHAR_MAX; 0 if there is no room. */
MUST_CHECK int char_class_add(struct char_class *c, uint32_t lo, uint32_t hi);

/* Sort and join the ranges; with negate the class becomes all other characters.
 * 0 if there is no room. */
MUST_CHECK int char_class_close(struct char_class *c, int negate);

/* One character of the closed class, then next; returns where it begins. */
uint32_t char_class_emit(const struct char_class *c, enum char_spelling spelling,
                         struct byte_program *program, uint32_t next);

#endif
