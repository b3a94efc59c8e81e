/* pattern_syntax.h - rewrites a regular expression from the syntax tokenizer
 * files use (Oniguruma) into the one PCRE2 reads; pattern.h has the table.
 *
 * Threads: any.  Memory: grows out.
 */
#ifndef MODEL_PATTERN_SYNTAX_H
#define MODEL_PATTERN_SYNTAX_H

#include "base/buf.h"

/* Append the translation of regex[0..len) to out.
 * UNSUPPORTED: a construct that has no translation; the sentence starts with
 * where and shows it.  BAD_MODEL: a class or a \p{..} does not end.
 * TOO_LARGE, NO_MEMORY: out cannot grow. */
MUST_CHECK enum status pattern_syntax_translate(struct buf *out, const char *regex, size_t len,
                                                const char *where, struct error *err);

#endif
