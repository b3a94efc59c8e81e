/* jinja_parser.h - the place in the tokens, and how nodes are made: what the
 * parsers of statements (jinja_parse), expressions (jinja_parse_expr) and
 * literals (jinja_literal) share.
 *
 * Failures: BAD_MODEL with the line for what the template does wrong, TOO_LARGE
 * when the arena is used up.
 */
#ifndef MODEL_JINJA_PARSER_H
#define MODEL_JINJA_PARSER_H

#include "model/jinja_parse.h"

struct jinja_name;

#define JINJA_NAME_BUCKETS 64

struct jinja_parser {
    const struct jinja_token *at;       /* the next token; the last is TOKEN_END */
    struct jinja_arena *arena;
    struct error *err;
    int nesting;
    int n_loops;                /* for statements around, within this macro */
    int saw_rest;               /* varargs or kwargs was named in this macro */
    struct jinja_name *names[JINJA_NAME_BUCKETS];
};

/* A list of nodes while its length is not known. */
struct jinja_node_list {
    struct jinja_nodes nodes;
    size_t capacity;
};

enum status jinja_parser_fail(struct jinja_parser *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
MUST_CHECK enum status jinja_parser_take(struct jinja_parser *p, size_t bytes, void **out);
MUST_CHECK enum status jinja_parser_enter(struct jinja_parser *p);      /* p->nesting-- leaves */
MUST_CHECK enum status jinja_parser_node(struct jinja_parser *p, enum jinja_node_kind kind,
                                         struct jinja_node **out);
MUST_CHECK enum status jinja_parser_push(struct jinja_parser *p, struct jinja_node_list *list,
                                         struct jinja_node *node);

MUST_CHECK enum status jinja_parser_constant(struct jinja_parser *p, struct jinja_value value,
                                             struct jinja_node **out);

int jinja_token_is_name(const struct jinja_token *token, const char *name);
int jinja_parser_is_op(const struct jinja_parser *p, int op);
int jinja_parser_is_name(const struct jinja_parser *p, const char *name);
int jinja_parser_skip_op(struct jinja_parser *p, int op);
int jinja_parser_skip_name(struct jinja_parser *p, const char *name);
MUST_CHECK enum status jinja_parser_expect_op(struct jinja_parser *p, int op);
/* The one pointer of this name. */
MUST_CHECK enum status jinja_parser_intern(struct jinja_parser *p, const char *text, size_t len,
                                           const char **out);
/* Any name, interned. */
MUST_CHECK enum status jinja_parser_expect_name(struct jinja_parser *p, const char **out);

#endif
