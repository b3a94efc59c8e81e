/* text_rule.h - the small text changes that normalizers and decoders share.
 *
 * Threads: any.  Memory: out grows.
 */
#ifndef MODEL_TEXT_RULE_H
#define MODEL_TEXT_RULE_H

#include "base/buf.h"
#include "model/pattern.h"

/* Append text with every match of p replaced by content; text is valid UTF-8.
 * Failures of buf_add and of pattern_find. */
MUST_CHECK enum status text_rule_replace(struct buf *out, const struct pattern *p,
                                         struct pattern_scratch *scratch,
                                         const char *text, size_t len, const struct buf *content);

/* How many bytes the white space (Unicode White_Space) at the beginning or the
 * end of text takes. */
size_t text_rule_space_before(const char *text, size_t len);
size_t text_rule_space_after(const char *text, size_t len);

/* The character that starts at text, which is valid UTF-8; *step is its length. */
int text_rule_char(const char *text, size_t len, size_t *step);

int text_rule_is_space(int c);          /* Unicode White_Space */
int text_rule_is_punctuation(int c);    /* ASCII punctuation or category P */
int text_rule_is_numeric(int c);        /* category N */
int text_rule_is_word(int c);           /* what \w matches: letters, marks, digits, connectors */

#endif
