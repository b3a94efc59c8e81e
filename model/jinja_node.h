/* jinja_node.h - the tree a template is compiled into.
 *
 *   {% if a %}x{% else %}{{ b + 1 }}{% endif %}
 *
 *   NODE_IF  branches:  { test: NAME a,  body: [TEXT x] }
 *                       { test: NULL,    body: [PRINT [ADD [NAME b] [CONST 1]]] }
 *
 * Plain data, written by the parser, read by the evaluator, never changed
 * afterwards: any number of threads may render one template.
 *
 * Memory: the arena of the template.  Names are interned: within a template two
 * equal names are one pointer.
 */
#ifndef MODEL_JINJA_NODE_H
#define MODEL_JINJA_NODE_H

#include "model/jinja_value.h"

struct jinja_builtin;

enum jinja_node_kind {
    /* Expressions, and the member of the union they use. */
    NODE_CONST,             /* constant */
    NODE_NAME,              /* name */
    NODE_INPUT,             /* what a block has printed: the input of its filters */
    NODE_LIST,              /* nodes */
    NODE_TUPLE,             /* nodes */
    NODE_DICT,              /* nodes: key, value, key, value .. */
    NODE_CONCAT,            /* nodes */
    NODE_CONDITIONAL,       /* three: value, test, otherwise or NULL */
    NODE_OR,                /* three: left, right */
    NODE_AND,               /* three: left, right */
    NODE_NOT,               /* three: operand */
    NODE_NEGATE,            /* three: operand */
    NODE_PLUS,              /* three: operand */
    NODE_BINARY,            /* three: left, right; op */
    NODE_COMPARE,           /* compare */
    NODE_ATTRIBUTE,         /* attribute */
    NODE_ITEM,              /* three: object, index */
    NODE_SLICE,             /* slice */
    NODE_CALL,              /* call */
    NODE_FILTER,            /* call; the first positional argument is the input */
    NODE_TEST,              /* call; likewise; negated */
    /* Statements. */
    NODE_TEXT,              /* constant, a STRING */
    NODE_PRINT,             /* three: value */
    NODE_IF,                /* branches */
    NODE_FOR,               /* loop */
    NODE_SET,               /* set */
    NODE_SET_BLOCK,         /* set */
    NODE_MACRO,             /* macro */
    NODE_CALL_BLOCK,        /* macro: caller's parameters and body; call in macro.call */
    NODE_FILTER_BLOCK,      /* set, without a target */
    NODE_WITH,              /* with */
    NODE_BREAK,
    NODE_CONTINUE
};

enum { JINJA_OP_IN = 1, JINJA_OP_NOT_IN = 2 };      /* beside the lexer's operators */

struct jinja_nodes {
    struct jinja_node **at; /* [n] */
    size_t n;
};

/* f(positional, name=value, *star, **double_star) */
struct jinja_argument_nodes {
    struct jinja_nodes positional;
    const char **names;             /* [values.n] */
    struct jinja_nodes values;
    struct jinja_node *star, *double_star;      /* or NULL */
};

struct jinja_branch {
    struct jinja_node *test;        /* NULL: else */
    struct jinja_nodes body;
};

struct jinja_node {
    enum jinja_node_kind kind;
    int op;
    uint32_t line;
    int negated;
    union {
        struct jinja_value constant;
        const char *name;
        struct jinja_nodes nodes;
        struct jinja_node *three[3];
        struct {
            struct jinja_node *first;
            struct jinja_nodes rest;
            int *ops;               /* [rest.n]: ops[i] stands before rest.at[i] */
        } compare;
        struct {
            struct jinja_node *object;
            const char *name;
        } attribute;
        struct {
            struct jinja_node *object;
            struct jinja_node *start, *stop, *step;     /* or NULL */
        } slice;
        struct {
            struct jinja_node *callee;          /* CALL only */
            const char *name;                   /* FILTER and TEST */
            const struct jinja_builtin *builtin;    /* NULL: nobody knows it */
            struct jinja_argument_nodes arguments;
        } call;
        struct {
            struct jinja_branch *at;            /* [n] */
            size_t n;
        } branches;
        struct {
            struct jinja_node *target;          /* NAME or TUPLE of targets */
            struct jinja_node *iterable, *test; /* test or NULL */
            const char *loop_name;              /* "loop", interned */
            struct jinja_nodes body, otherwise;
        } loop;
        struct {
            struct jinja_node *target;          /* NAME, TUPLE or ATTRIBUTE */
            struct jinja_node *value;           /* of a block: INPUT or filters around it */
            struct jinja_nodes body;
        } set;
        struct {
            const char *name;
            const char *caller_name, *rest_names[2];    /* "caller", "varargs", "kwargs", interned */
            const char **parameters;            /* [n_parameters] */
            struct jinja_node **defaults;       /* [n_parameters], NULL: none */
            size_t n_parameters;
            int takes_rest;                     /* its body uses varargs or kwargs */
            struct jinja_nodes body;
            struct jinja_node *call;            /* CALL_BLOCK only */
        } macro;
        struct {
            const char **names;                 /* [values.n] */
            struct jinja_nodes values, body;
        } with;
    };
};

#endif
