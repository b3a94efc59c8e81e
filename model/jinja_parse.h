/* jinja_parse.h - tokens into the tree of a template.
 *
 * Statements: if, for, set, macro, call, filter, with, break, continue,
 * generation (its body as it is).  The statements that read other templates
 * (include, import, extends, block) are refused: a model has one template.
 *
 * Owner:  the caller.  Memory: the arena; the tree points into the tokens' text.
 */
#ifndef MODEL_JINJA_PARSE_H
#define MODEL_JINJA_PARSE_H

#include "model/jinja_arena.h"
#include "model/jinja_lex.h"
#include "model/jinja_node.h"

#define JINJA_MAX_NESTING 200       /* statements and brackets inside each other */

/* BAD_MODEL: not a template; the sentence has the line.  TOO_LARGE: the arena is
 * used up.  *out is the body of the whole template. */
MUST_CHECK enum status jinja_parse(const struct jinja_tokens *tokens, struct jinja_arena *arena,
                                   struct jinja_nodes *out, struct error *err);

#endif
