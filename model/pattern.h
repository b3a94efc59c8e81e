/* pattern.h - a tokenizer's regular expression, or a literal text, searched in
 * valid UTF-8 (PCRE2, compiled to machine code where it can be).
 *
 * Tokenizer files are written for another engine (Oniguruma, Ruby syntax), so
 * what means something else there is translated or refused, never guessed:
 *
 *   there                         here
 *   ^ and $ match at every line   multi-line mode
 *   \p{Han} is the script         \p{sc:Han}
 *   \s has no U+180E              the class of Unicode's White_Space
 *   [A&&[^B]]                     (?:(?![B])[A])
 *   \s+$ as the whole pattern     (?<!\s)\s+$ - the same matches; without it a
 *                                 run of n spaces costs n * n steps
 *   [a[bc]], \h, {n,m}+           refused: UNSUPPORTED
 *
 * One difference stays: under (?i:) a letter folds to one letter, so "ss" does not
 * match a sharp s.
 *
 * Threads: read-only after create, safe from any; a struct pattern_scratch
 * belongs to one call at a time.
 * Memory: at create; a search allocates nothing, but for a pattern that repeats
 * a group very often (a stack of at most 256 MiB in the scratch).
 */
#ifndef MODEL_PATTERN_H
#define MODEL_PATTERN_H

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

struct pattern;                     /* opaque */
struct pattern_scratch;             /* opaque */

struct pattern_match {
    size_t begin, end;              /* bytes of the searched text; may be equal */
};

/* The caller gives *out to pattern_destroy.
 * BAD_MODEL: not a valid expression (the sentence has the place).  UNSUPPORTED:
 * see above.  NO_MEMORY. */
MUST_CHECK enum status pattern_create(struct pattern **out, const char *regex, size_t len,
                                      const char *where, struct error *err);
MUST_CHECK enum status pattern_create_literal(struct pattern **out, const char *text, size_t len,
                                              const char *where, struct error *err);

/* From {"Regex": ".."} or {"String": ".."}; spec NULL or of another shape is BAD_MODEL. */
MUST_CHECK enum status pattern_create_from_json(struct pattern **out, const json_t *spec,
                                                const char *where, struct error *err);
void pattern_destroy(struct pattern *p);        /* NULL is allowed */

MUST_CHECK enum status pattern_scratch_create(struct pattern_scratch **out, struct error *err);
void pattern_scratch_destroy(struct pattern_scratch *scratch);      /* NULL is allowed */

/* The first match in text[0..len) that begins at from or later (from <= len, on
 * a character).  *found is 0 if there is none.  text must be valid UTF-8.
 * TOO_LARGE: the search passed a limit of steps or of stack.  NO_MEMORY. */
MUST_CHECK enum status pattern_find(const struct pattern *p, struct pattern_scratch *scratch,
                                    const char *text, size_t len, size_t from,
                                    struct pattern_match *match, int *found);

#endif
