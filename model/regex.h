/* regex.h - a regular expression as part of a byte_program.
 *
 * Syntax
 *   characters      any but \ ^ $ . [ ( ) | * + ? {
 *   .               any character but the line feed
 *   [a-z_] [^a-z]   classes; inside them only ] \ ^ - are special
 *   \d \w \s        0-9, A-Z a-z 0-9 _, space and \t \n \v \f \r;  \D \W \S the rest
 *   \t \n \v \f \r \0  \xHH  \uHHHH        one character; \ before punctuation: itself
 *   (..) (?:..)     groups        a|b  either
 *   ? * + {m} {m,} {m,n}          repeats, n <= 1000; a following ? changes nothing,
 *                                 since the whole text is matched
 *   ^ $             only at the very beginning and end of the pattern or of one of
 *                   its outermost alternatives
 * Refused, with a sentence that names it: look-around, back-references, \b, \p,
 * named groups, possessive repeats, flags.
 *
 * Patterns and texts are Unicode characters, not bytes; the pattern is UTF-8.
 *
 * Threads: any.  Memory: freed before return.
 */
#ifndef MODEL_REGEX_H
#define MODEL_REGEX_H

#include "model/char_class.h"

#define REGEX_MAX_BYTES 8192
#define REGEX_MAX_DEPTH 64          /* groups in groups */
#define REGEX_MAX_REPEAT 1000

struct regex_source {
    const char *pattern;            /* [len] UTF-8, borrowed */
    size_t len;
    enum char_spelling spelling;    /* how the matched characters are written */
    int is_search;                  /* 1: the pattern may match anywhere in the text (JSON Schema);
                                     * 0: it matches the whole text */
};

/* Write the pattern in front of next; *entry is where it begins.  A full program
 * is reported by byte_program_seal.
 * BAD_REQUEST: not valid or not supported; the sentence has the byte position.
 * TOO_LARGE: longer than REGEX_MAX_BYTES.  NO_MEMORY. */
MUST_CHECK enum status regex_emit(const struct regex_source *source, struct byte_program *program,
                                  uint32_t next, uint32_t *entry, struct error *err);

#endif
