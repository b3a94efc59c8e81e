#include "model/jinja_parse_expr.h"

#include "model/jinja_builtins.h"
#include "model/jinja_literal.h"

#include <string.h>

/* A node with up to three children. */
static enum status triple(struct jinja_parser *p, enum jinja_node_kind kind, struct jinja_node *a,
                          struct jinja_node *b, struct jinja_node **out)
{
    TRY(jinja_parser_node(p, kind, out));
    (*out)->three[0] = a;
    (*out)->three[1] = b;
    return STATUS_OK;
}

static enum status sequence(struct jinja_parser *p, int closing, struct jinja_node_list *list)
{
    while (!jinja_parser_is_op(p, closing)) {
        struct jinja_node *element;
        if (list->nodes.n > 0)
            TRY(jinja_parser_expect_op(p, ','));
        if (jinja_parser_is_op(p, closing))
            break;
        TRY(jinja_parse_expression(p, &element));
        TRY(jinja_parser_push(p, list, element));
    }
    return jinja_parser_expect_op(p, closing);
}

static enum status dict(struct jinja_parser *p, struct jinja_node_list *list)
{
    while (!jinja_parser_is_op(p, '}')) {
        struct jinja_node *key, *value;
        if (list->nodes.n > 0)
            TRY(jinja_parser_expect_op(p, ','));
        if (jinja_parser_is_op(p, '}'))
            break;
        TRY(jinja_parse_expression(p, &key));
        TRY(jinja_parser_expect_op(p, ':'));
        TRY(jinja_parse_expression(p, &value));
        TRY(jinja_parser_push(p, list, key));
        TRY(jinja_parser_push(p, list, value));
    }
    return jinja_parser_expect_op(p, '}');
}

static enum status parenthesised(struct jinja_parser *p, struct jinja_node **out)
{
    if (jinja_parser_skip_op(p, ')'))
        return jinja_parser_node(p, NODE_TUPLE, out);
    TRY(jinja_parse_tuple(p, 1, out));
    return jinja_parser_expect_op(p, ')');
}

static enum status name(struct jinja_parser *p, struct jinja_node **out)
{
    static const struct { const char *name; enum jinja_type type; int truth; } constants[] = {
        { "true", JINJA_BOOL, 1 }, { "True", JINJA_BOOL, 1 }, { "false", JINJA_BOOL, 0 },
        { "False", JINJA_BOOL, 0 }, { "none", JINJA_NONE, 0 }, { "None", JINJA_NONE, 0 },
    };
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (!jinja_parser_skip_name(p, constants[i].name))
            continue;
        int is_none = constants[i].type == JINJA_NONE;
        return jinja_parser_constant(p, is_none ? jinja_none() : jinja_bool(constants[i].truth), out);
    }
    TRY(jinja_parser_node(p, NODE_NAME, out));
    return jinja_parser_expect_name(p, &(*out)->name);
}

static enum status primary(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_node_list list = { 0 };
    switch (p->at->kind) {
    case TOKEN_NAME:    return name(p, out);
    case TOKEN_STRING:  return jinja_literal_string(p, out);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:   return jinja_literal_number(p, out);
    default:            break;
    }
    if (jinja_parser_skip_op(p, '('))
        return parenthesised(p, out);
    if (jinja_parser_skip_op(p, '[')) {
        TRY(jinja_parser_node(p, NODE_LIST, out));
        TRY(sequence(p, ']', &list));
    } else if (jinja_parser_skip_op(p, '{')) {
        TRY(jinja_parser_node(p, NODE_DICT, out));
        TRY(dict(p, &list));
    } else {
        return jinja_parser_fail(p, "expected a value, found '%.*s'",
                                 (int)(p->at->len < 40 ? p->at->len : 40),
                                 p->at->text);
    }
    (*out)->nodes = list.nodes;
    return STATUS_OK;
}

static enum status keyword(struct jinja_parser *p, struct jinja_argument_nodes *out,
                           struct jinja_node_list *values, size_t *capacity)
{
    struct jinja_node *value;
    const char *named;
    TRY(jinja_parser_expect_name(p, &named));
    TRY(jinja_parser_expect_op(p, '='));
    TRY(jinja_parse_expression(p, &value));
    if (values->nodes.n == *capacity) {
        void *names;
        *capacity = *capacity == 0 ? 4 : *capacity * 2;
        TRY(jinja_parser_take(p, *capacity * sizeof *out->names, &names));
        if (values->nodes.n > 0)
            memcpy(names, out->names, values->nodes.n * sizeof *out->names);
        out->names = names;
    }
    out->names[values->nodes.n] = named;
    return jinja_parser_push(p, values, value);
}

/* After "(" up to and including ")".  first: an argument before the written
 * ones (the input of a filter), or NULL. */
static enum status arguments(struct jinja_parser *p, struct jinja_node *first,
                             struct jinja_argument_nodes *out)
{
    struct jinja_node_list positional = { 0 }, values = { 0 };
    size_t capacity = 0;
    if (first != NULL)
        TRY(jinja_parser_push(p, &positional, first));
    for (int n = 0; !jinja_parser_is_op(p, ')'); n++) {
        struct jinja_node *value;
        if (n > 0)
            TRY(jinja_parser_expect_op(p, ','));
        if (jinja_parser_is_op(p, ')'))
            break;
        if (jinja_parser_skip_op(p, JINJA_OP('*', '*'))) {
            TRY(jinja_parse_expression(p, &out->double_star));
        } else if (jinja_parser_skip_op(p, '*')) {
            TRY(jinja_parse_expression(p, &out->star));
        } else if (p->at->kind == TOKEN_NAME && p->at[1].kind == TOKEN_OPERATOR && p->at[1].op == '=') {
            TRY(keyword(p, out, &values, &capacity));
        } else {
            TRY(jinja_parse_expression(p, &value));
            TRY(jinja_parser_push(p, &positional, value));
        }
    }
    out->positional = positional.nodes;
    out->values = values.nodes;
    return jinja_parser_expect_op(p, ')');
}

static enum status call(struct jinja_parser *p, struct jinja_node *callee, struct jinja_node **out)
{
    TRY(jinja_parser_node(p, NODE_CALL, out));
    (*out)->call.callee = callee;
    return arguments(p, NULL, &(*out)->call.arguments);
}

/* [index] or [start:stop:step], after the bracket. */
static enum status subscript(struct jinja_parser *p, struct jinja_node *object, struct jinja_node **out)
{
    struct jinja_node *parts[3] = { 0 };
    int n = 0;
    if (!jinja_parser_is_op(p, ':'))
        TRY(jinja_parse_tuple(p, 1, &parts[0]));
    while (n < 2 && jinja_parser_skip_op(p, ':')) {
        n++;
        if (!jinja_parser_is_op(p, ':') && !jinja_parser_is_op(p, ']'))
            TRY(jinja_parse_expression(p, &parts[n]));
    }
    TRY(jinja_parser_expect_op(p, ']'));
    if (n == 0)
        return triple(p, NODE_ITEM, object, parts[0], out);
    TRY(jinja_parser_node(p, NODE_SLICE, out));
    (*out)->slice.object = object;
    (*out)->slice.start = parts[0];
    (*out)->slice.stop = parts[1];
    (*out)->slice.step = parts[2];
    return STATUS_OK;
}

static enum status attribute(struct jinja_parser *p, struct jinja_node *object, struct jinja_node **out)
{
    struct jinja_node *index;
    if (p->at->kind == TOKEN_INTEGER) {
        TRY(jinja_literal_number(p, &index));
        return triple(p, NODE_ITEM, object, index, out);
    }
    TRY(jinja_parser_node(p, NODE_ATTRIBUTE, out));
    (*out)->attribute.object = object;
    return jinja_parser_expect_name(p, &(*out)->attribute.name);
}

static enum status postfix(struct jinja_parser *p, struct jinja_node **node)
{
    for (;;) {
        if (jinja_parser_skip_op(p, '.'))
            TRY(attribute(p, *node, node));
        else if (jinja_parser_skip_op(p, '['))
            TRY(subscript(p, *node, node));
        else if (jinja_parser_skip_op(p, '('))
            TRY(call(p, *node, node));
        else
            return STATUS_OK;
    }
}

enum status jinja_parse_filter(struct jinja_parser *p, struct jinja_node *input, struct jinja_node **out)
{
    struct jinja_node_list alone = { 0 };
    TRY(jinja_parser_node(p, NODE_FILTER, out));
    TRY(jinja_parser_expect_name(p, &(*out)->call.name));
    (*out)->call.builtin = jinja_builtin_find(JINJA_FILTER, (*out)->call.name, strlen((*out)->call.name));
    if (jinja_parser_skip_op(p, '('))
        return arguments(p, input, &(*out)->call.arguments);
    TRY(jinja_parser_push(p, &alone, input));
    (*out)->call.arguments.positional = alone.nodes;
    return STATUS_OK;
}

enum status jinja_parse_filters(struct jinja_parser *p, struct jinja_node *input, struct jinja_node **out)
{
    *out = input;
    while (jinja_parser_skip_op(p, '|'))
        TRY(jinja_parse_filter(p, *out, out));
    return STATUS_OK;
}

/* A test may have one argument without brackets: "x is divisibleby 3".  These
 * words after it go on with something else. */
static int starts_argument(const struct jinja_parser *p)
{
    static const char *const others[] = { "else", "or", "and", "is", "if", "not", "in" };
    int word = p->at->kind == TOKEN_NAME;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        word = word && !jinja_token_is_name(p->at, others[i]);
    int literal = p->at->kind == TOKEN_STRING || p->at->kind == TOKEN_INTEGER || p->at->kind == TOKEN_FLOAT;
    return word || literal || jinja_parser_is_op(p, '[') || jinja_parser_is_op(p, '{');
}

static enum status test(struct jinja_parser *p, struct jinja_node *input, struct jinja_node **out)
{
    struct jinja_node_list list = { 0 };
    TRY(jinja_parser_node(p, NODE_TEST, out));
    (*out)->negated = jinja_parser_skip_name(p, "not");
    TRY(jinja_parser_expect_name(p, &(*out)->call.name));
    (*out)->call.builtin = jinja_builtin_find(JINJA_TEST, (*out)->call.name, strlen((*out)->call.name));
    if (jinja_parser_skip_op(p, '('))
        return arguments(p, input, &(*out)->call.arguments);
    TRY(jinja_parser_push(p, &list, input));
    if (starts_argument(p)) {
        struct jinja_node *argument;
        TRY(primary(p, &argument));
        TRY(postfix(p, &argument));
        TRY(jinja_parser_push(p, &list, argument));
    }
    (*out)->call.arguments.positional = list.nodes;
    return STATUS_OK;
}

/* Filters, tests and calls of their results, in any order. */
static enum status filtered(struct jinja_parser *p, struct jinja_node **node)
{
    for (;;) {
        if (jinja_parser_skip_op(p, '|'))
            TRY(jinja_parse_filter(p, *node, node));
        else if (jinja_parser_skip_name(p, "is"))
            TRY(test(p, *node, node));
        else if (jinja_parser_skip_op(p, '('))
            TRY(call(p, *node, node));
        else
            return STATUS_OK;
    }
}

static enum status unary(struct jinja_parser *p, int with_filter, struct jinja_node **out)
{
    int minus = jinja_parser_is_op(p, '-');
    TRY(jinja_parser_enter(p));
    if (minus || jinja_parser_is_op(p, '+')) {
        struct jinja_node *operand;
        p->at++;
        TRY(unary(p, 0, &operand));
        TRY(triple(p, minus ? NODE_NEGATE : NODE_PLUS, operand, NULL, out));
    } else {
        TRY(primary(p, out));
    }
    TRY(postfix(p, out));
    if (with_filter)
        TRY(filtered(p, out));
    p->nesting--;
    return STATUS_OK;
}

static enum status binary(struct jinja_parser *p, int op, struct jinja_node *right, struct jinja_node **left)
{
    TRY(triple(p, NODE_BINARY, *left, right, left));
    (*left)->op = op;
    return STATUS_OK;
}

static enum status power(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(unary(p, 1, out));
    while (jinja_parser_skip_op(p, JINJA_OP('*', '*'))) {
        struct jinja_node *right;
        TRY(unary(p, 1, &right));
        TRY(binary(p, JINJA_OP('*', '*'), right, out));
    }
    return STATUS_OK;
}

static enum status product(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(power(p, out));
    while (jinja_parser_is_op(p, '*') || jinja_parser_is_op(p, '/') || jinja_parser_is_op(p, '%') ||
           jinja_parser_is_op(p, JINJA_OP('/', '/'))) {
        struct jinja_node *right;
        int op = (p->at++)->op;
        TRY(power(p, &right));
        TRY(binary(p, op, right, out));
    }
    return STATUS_OK;
}

static enum status concat(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_node_list list = { 0 };
    TRY(product(p, out));
    if (!jinja_parser_is_op(p, '~'))
        return STATUS_OK;
    TRY(jinja_parser_push(p, &list, *out));
    while (jinja_parser_skip_op(p, '~')) {
        struct jinja_node *next;
        TRY(product(p, &next));
        TRY(jinja_parser_push(p, &list, next));
    }
    TRY(jinja_parser_node(p, NODE_CONCAT, out));
    (*out)->nodes = list.nodes;
    return STATUS_OK;
}

static enum status sum(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(concat(p, out));
    while (jinja_parser_is_op(p, '+') || jinja_parser_is_op(p, '-')) {
        struct jinja_node *right;
        int op = (p->at++)->op;
        TRY(concat(p, &right));
        TRY(binary(p, op, right, out));
    }
    return STATUS_OK;
}

/* The comparison at p->at, which is consumed; 0 if there is none. */
static int comparison(struct jinja_parser *p)
{
    static const int ops[] = { '<', '>', JINJA_OP('=', '='), JINJA_OP('!', '='), JINJA_OP('<', '='),
                               JINJA_OP('>', '=') };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (jinja_parser_skip_op(p, ops[i]))
            return ops[i];
    if (jinja_parser_skip_name(p, "in"))
        return JINJA_OP_IN;
    if (!jinja_parser_is_name(p, "not") || !jinja_token_is_name(p->at + 1, "in"))
        return 0;
    p->at += 2;
    return JINJA_OP_NOT_IN;
}

static enum status compare(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_node_list rest = { 0 };
    int ops[16], op;
    TRY(sum(p, out));
    while ((op = comparison(p)) != 0) {
        struct jinja_node *operand;
        if (rest.nodes.n == sizeof ops / sizeof ops[0])
            return jinja_parser_fail(p, "more than %zu comparisons in one chain", rest.nodes.n);
        ops[rest.nodes.n] = op;
        TRY(sum(p, &operand));
        TRY(jinja_parser_push(p, &rest, operand));
    }
    if (rest.nodes.n == 0)
        return STATUS_OK;
    struct jinja_node *first = *out;
    void *kept;
    TRY(jinja_parser_take(p, rest.nodes.n * sizeof ops[0], &kept));
    memcpy(kept, ops, rest.nodes.n * sizeof ops[0]);
    TRY(jinja_parser_node(p, NODE_COMPARE, out));
    (*out)->compare.first = first;
    (*out)->compare.rest = rest.nodes;
    (*out)->compare.ops = kept;
    return STATUS_OK;
}

static enum status negation(struct jinja_parser *p, struct jinja_node **out)
{
    if (!jinja_parser_skip_name(p, "not"))
        return compare(p, out);
    struct jinja_node *operand;
    TRY(jinja_parser_enter(p));
    TRY(negation(p, &operand));
    p->nesting--;
    return triple(p, NODE_NOT, operand, NULL, out);
}

static enum status conjunction(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(negation(p, out));
    while (jinja_parser_skip_name(p, "and")) {
        struct jinja_node *right;
        TRY(negation(p, &right));
        TRY(triple(p, NODE_AND, *out, right, out));
    }
    return STATUS_OK;
}

enum status jinja_parse_condition(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(conjunction(p, out));
    while (jinja_parser_skip_name(p, "or")) {
        struct jinja_node *right;
        TRY(conjunction(p, &right));
        TRY(triple(p, NODE_OR, *out, right, out));
    }
    return STATUS_OK;
}

enum status jinja_parse_expression(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_parser_enter(p));
    TRY(jinja_parse_condition(p, out));
    while (jinja_parser_skip_name(p, "if")) {
        struct jinja_node *condition, *otherwise = NULL;
        TRY(jinja_parse_condition(p, &condition));
        if (jinja_parser_skip_name(p, "else"))
            TRY(jinja_parse_expression(p, &otherwise));
        TRY(triple(p, NODE_CONDITIONAL, *out, condition, out));
        (*out)->three[2] = otherwise;
    }
    p->nesting--;
    return STATUS_OK;
}

/* Where a tuple without brackets may end after a comma. */
static int ends_tuple(const struct jinja_parser *p)
{
    return p->at->kind == TOKEN_BLOCK_END || p->at->kind == TOKEN_PRINT_END || jinja_parser_is_op(p, ')') ||
           jinja_parser_is_op(p, ']') || jinja_parser_is_op(p, '=') || jinja_parser_is_name(p, "in");
}

enum status jinja_parse_tuple(struct jinja_parser *p, int with_conditional, struct jinja_node **out)
{
    struct jinja_node_list list = { 0 };
    TRY(with_conditional ? jinja_parse_expression(p, out) : jinja_parse_condition(p, out));
    if (!jinja_parser_is_op(p, ','))
        return STATUS_OK;
    TRY(jinja_parser_push(p, &list, *out));
    while (jinja_parser_skip_op(p, ',') && !ends_tuple(p)) {
        struct jinja_node *element;
        TRY(with_conditional ? jinja_parse_expression(p, &element) : jinja_parse_condition(p, &element));
        TRY(jinja_parser_push(p, &list, element));
    }
    TRY(jinja_parser_node(p, NODE_TUPLE, out));
    (*out)->nodes = list.nodes;
    return STATUS_OK;
}

enum status jinja_parse_target(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_node_list list = { 0 };
    do {
        TRY(primary(p, out));
        TRY(postfix(p, out));
        TRY(jinja_parser_push(p, &list, *out));
    } while (jinja_parser_skip_op(p, ',') && !ends_tuple(p));
    if (list.nodes.n == 1)
        return STATUS_OK;
    TRY(jinja_parser_node(p, NODE_TUPLE, out));
    (*out)->nodes = list.nodes;
    return STATUS_OK;
}
