/* jinja_parse_expr.h - expressions, by Jinja's precedence:
 *
 *   if-else < or < and < not < comparisons < + - < ~ < * / // % < ** < unary
 *   < . [] () | is
 *
 * Every call starts at p->at and leaves it after what it has read.
 */
#ifndef MODEL_JINJA_PARSE_EXPR_H
#define MODEL_JINJA_PARSE_EXPR_H

#include "model/jinja_parser.h"

/* One expression, with or without "x if y else z". */
MUST_CHECK enum status jinja_parse_expression(struct jinja_parser *p, struct jinja_node **out);
MUST_CHECK enum status jinja_parse_condition(struct jinja_parser *p, struct jinja_node **out);
/* "a" or "a, b": the latter a TUPLE. */
MUST_CHECK enum status jinja_parse_tuple(struct jinja_parser *p, int with_conditional,
                                         struct jinja_node **out);
/* What may be assigned to: a value with its subscripts, or several with commas;
 * the caller checks which. */
MUST_CHECK enum status jinja_parse_target(struct jinja_parser *p, struct jinja_node **out);
/* The filters at "| f | g(x)" around input; none is fine. */
MUST_CHECK enum status jinja_parse_filters(struct jinja_parser *p, struct jinja_node *input,
                                           struct jinja_node **out);
/* name( .. ) without the bar. */
MUST_CHECK enum status jinja_parse_filter(struct jinja_parser *p, struct jinja_node *input,
                                          struct jinja_node **out);

#endif
