/* jinja_literal.h - numbers and strings as a template writes them. */
#ifndef MODEL_JINJA_LITERAL_H
#define MODEL_JINJA_LITERAL_H

#include "model/jinja_parser.h"

/* p->at is an INTEGER or FLOAT; 64 bits. */
MUST_CHECK enum status jinja_literal_number(struct jinja_parser *p, struct jinja_node **out);

/* p->at is a STRING; Python's escapes, but for \N{..}.  Neighbouring strings are
 * one string. */
MUST_CHECK enum status jinja_literal_string(struct jinja_parser *p, struct jinja_node **out);

#endif
