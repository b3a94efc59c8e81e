/* regex_parse.h - the tree of a regular expression.  Syntax: regex.h.
 *
 *   a(b|c)*    CAT -> [ CLASS a ] -> [ REPEAT 0.. ]
 *                                        ALT -> [ CLASS b ] -> [ CLASS c ]
 *
 * Children are linked from the last to the first, the order in which a program
 * is written.
 *
 * Owner: the caller.  Memory: bounded by the length of the pattern.
 */
#ifndef MODEL_REGEX_PARSE_H
#define MODEL_REGEX_PARSE_H

#include "model/char_class.h"

#define REGEX_NO_NODE UINT32_MAX
#define REGEX_UNBOUNDED (-1)

enum regex_node_kind {
    REGEX_CLASS,            /* one character */
    REGEX_CAT,              /* its children one after the other; none: the empty text */
    REGEX_ALT,              /* one of its children */
    REGEX_REPEAT,           /* its child min..max times */
    REGEX_BEGIN,            /* ^ */
    REGEX_END               /* $ */
};

struct regex_node {
    enum regex_node_kind kind;
    uint32_t last_child;    /* or REGEX_NO_NODE */
    uint32_t previous;      /* sibling before this one, or REGEX_NO_NODE */
    int32_t min, max;       /* REPEAT; max may be REGEX_UNBOUNDED */
    uint32_t first_range;   /* CLASS: ranges[first_range .. first_range + n_ranges) */
    int32_t n_ranges;
};

struct regex_tree {
    struct regex_node *nodes;
    uint32_t n_nodes, max_nodes;
    struct char_range *ranges;
    uint32_t n_ranges, max_ranges;
    uint32_t root;          /* an ALT whose children are CATs */
};

/* Failures: regex_emit.  *tree needs regex_tree_clear whatever is returned. */
MUST_CHECK enum status regex_parse(const char *pattern, size_t len, struct regex_tree *tree,
                                   struct error *err);
void regex_tree_clear(struct regex_tree *tree);

#endif
