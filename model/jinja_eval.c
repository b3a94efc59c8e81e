#include "model/jinja_eval.h"

#include "model/jinja_exec.h"
#include "model/jinja_operators.h"
#include "model/jinja_scope.h"
#include "model/jinja_text.h"

#include <string.h>

/* Arguments while they are being evaluated. */
struct gathered {
    struct jinja_list positional, named;
    const char **names;         /* [capacity of named] */
    size_t n_names;
};

static enum status add_named(struct jinja_run *run, struct gathered *all, const char *name,
                             struct jinja_value value)
{
    for (size_t i = 0; i < all->n_names; i++)
        if (strcmp(all->names[i], name) == 0)
            return jinja_fail(run, "the keyword '%s' is given twice", name);
    TRY(jinja_list_push(run, &all->named, value));
    all->names[all->n_names++] = name;
    return STATUS_OK;
}

/* Room for the names of the keywords, those of **mapping included. */
static enum status name_room(struct jinja_run *run, size_t n, struct gathered *all)
{
    void *names;
    TRY(jinja_take(run, n * sizeof *all->names, &names));
    all->names = names;
    return STATUS_OK;
}

static enum status add_mapping(struct jinja_run *run, const struct jinja_value *mapping, struct gathered *all)
{
    if (mapping->type != JINJA_DICT)
        return jinja_fail(run, "** needs a mapping, not '%s'", jinja_type_name(mapping));
    for (size_t i = 0; i < mapping->dict->n; i++) {
        const struct jinja_value *key = &mapping->dict->at[i].key;
        void *name;
        if (key->type != JINJA_STRING || (key->len > 0 && memchr(key->text, '\0', key->len) != NULL))
            return jinja_fail(run, "the keys of a ** mapping must be names");
        TRY(jinja_take(run, key->len + 1, &name));
        memcpy(name, key->text, key->len);
        TRY(jinja_step(run, all->n_names / 8));
        TRY(add_named(run, all, name, mapping->dict->at[i].value));
    }
    return STATUS_OK;
}

/* caller: one more keyword of that name, or NULL. */
static enum status gather(struct jinja_run *run, const struct jinja_argument_nodes *nodes,
                          const struct jinja_value *caller, struct jinja_arguments *out)
{
    struct gathered all = { 0 };
    struct jinja_value value, mapping = { .type = JINJA_UNDEFINED };
    struct jinja_list more = { 0 };
    for (size_t i = 0; i < nodes->positional.n; i++) {
        TRY(jinja_eval(run, nodes->positional.at[i], &value));
        TRY(jinja_list_push(run, &all.positional, value));
    }
    if (nodes->star != NULL) {
        TRY(jinja_eval(run, nodes->star, &value));
        TRY(jinja_elements(run, &value, &more));
    }
    for (size_t i = 0; i < more.n; i++)
        TRY(jinja_list_push(run, &all.positional, more.at[i]));
    if (nodes->double_star != NULL)
        TRY(jinja_eval(run, nodes->double_star, &mapping));
    TRY(name_room(run, nodes->values.n + 1 + (mapping.type == JINJA_DICT ? mapping.dict->n : 0), &all));
    for (size_t i = 0; i < nodes->values.n; i++) {
        TRY(jinja_eval(run, nodes->values.at[i], &value));
        TRY(add_named(run, &all, nodes->names[i], value));
    }
    if (nodes->double_star != NULL)
        TRY(add_mapping(run, &mapping, &all));
    if (caller != NULL)
        TRY(add_named(run, &all, "caller", *caller));
    *out = (struct jinja_arguments){ all.positional.at, all.positional.n, all.names, all.named.at,
                                     all.n_names };
    return STATUS_OK;
}

enum status jinja_eval_call(struct jinja_run *run, const struct jinja_node *node,
                            const struct jinja_value *caller,
                            struct jinja_value *out)
{
    struct jinja_value callee;
    struct jinja_arguments arguments;
    uint32_t line = run->line;
    TRY(jinja_eval(run, node->call.callee, &callee));
    if (callee.type != JINJA_MACRO && callee.type != JINJA_FUNCTION) {
        if (callee.type == JINJA_UNDEFINED && callee.text != NULL)
            return jinja_fail(run, "'%.*s' is undefined and cannot be called",
                              (int)(callee.len < 80 ? callee.len : 80), callee.text);
        return jinja_fail(run, "'%s' cannot be called", jinja_type_name(&callee));
    }
    TRY(gather(run, &node->call.arguments, caller, &arguments));
    run->line = node->line;
    if (callee.type == JINJA_MACRO)
        TRY(jinja_exec_macro(run, callee.macro, &arguments, out));
    else
        TRY(jinja_builtin_call(run, callee.function->builtin, callee.function->self, &arguments, out));
    run->line = line;
    return STATUS_OK;
}

/* The input is the first of the arguments; the row gets it as self. */
static enum status filter_or_test(struct jinja_run *run, const struct jinja_node *node,
                                  struct jinja_value *out)
{
    struct jinja_arguments arguments;
    if (node->call.builtin == NULL)
        return jinja_fail(run, "there is no %s named '%.80s'", node->kind == NODE_FILTER ? "filter" : "test",
                          node->call.name);
    TRY(gather(run, &node->call.arguments, NULL, &arguments));
    struct jinja_value input = arguments.positional[0];
    arguments.positional++;
    arguments.n--;
    TRY(jinja_builtin_call(run, node->call.builtin, input, &arguments, out));
    if (node->negated)
        *out = jinja_bool(!jinja_truth(out));
    return STATUS_OK;
}

static enum status list_or_tuple(struct jinja_run *run, const struct jinja_node *node,
                                 struct jinja_value *out)
{
    enum jinja_type type = node->kind == NODE_LIST ? JINJA_LIST : JINJA_TUPLE;
    TRY(jinja_list_create(run, type, node->nodes.n, out));
    for (size_t i = 0; i < node->nodes.n; i++) {
        struct jinja_value element;
        TRY(jinja_eval(run, node->nodes.at[i], &element));
        TRY(jinja_list_push(run, out->list, element));
    }
    return STATUS_OK;
}

static enum status dict(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    TRY(jinja_dict_create(run, JINJA_DICT, out));
    for (size_t i = 0; i < node->nodes.n; i += 2) {
        struct jinja_value key, value;
        TRY(jinja_eval(run, node->nodes.at[i], &key));
        TRY(jinja_eval(run, node->nodes.at[i + 1], &value));
        TRY(jinja_dict_put(run, out->dict, key, value));
    }
    return STATUS_OK;
}

/* All operands first: evaluating one may print on its own and capture. */
static enum status concat(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value parts;
    TRY(list_or_tuple(run, node, &parts));
    size_t mark = jinja_mark(run);
    for (size_t i = 0; i < parts.list->n; i++)
        TRY(jinja_write_str(run, &parts.list->at[i]));
    return jinja_capture(run, mark, out);
}

static enum status conditional(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value test;
    TRY(jinja_eval(run, node->three[1], &test));
    if (jinja_truth(&test))
        return jinja_eval(run, node->three[0], out);
    if (node->three[2] != NULL)
        return jinja_eval(run, node->three[2], out);
    *out = jinja_undefined(NULL, 0);
    return STATUS_OK;
}

/* Python's and, or: the operand that decides is the value. */
static enum status logic(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    TRY(jinja_eval(run, node->three[0], out));
    if (jinja_truth(out) == (node->kind == NODE_AND))
        return jinja_eval(run, node->three[1], out);
    return STATUS_OK;
}

static enum status unary(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value operand;
    TRY(jinja_eval(run, node->three[0], &operand));
    *out = operand;
    if (node->kind == NODE_NOT)
        *out = jinja_bool(!jinja_truth(&operand));
    else if (node->kind == NODE_NEGATE)
        return jinja_negate(run, &operand, out);
    else if (!jinja_is_number(&operand))
        return jinja_fail(run, "+ needs a number, not '%s'", jinja_type_name(&operand));
    return STATUS_OK;
}

static enum status binary(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left, right;
    TRY(jinja_eval(run, node->three[0], &left));
    TRY(jinja_eval(run, node->three[1], &right));
    return jinja_operate(run, node->op, &left, &right, out);
}

/* a < b < c is a < b and b < c with b evaluated once. */
static enum status compare(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left, right;
    int truth = 1;
    TRY(jinja_eval(run, node->compare.first, &left));
    for (size_t i = 0; i < node->compare.rest.n && truth; i++) {
        TRY(jinja_eval(run, node->compare.rest.at[i], &right));
        TRY(jinja_test_operator(run, node->compare.ops[i], &left, &right, &truth));
        left = right;
    }
    *out = jinja_bool(truth);
    return STATUS_OK;
}

static enum status item(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object, index;
    TRY(jinja_eval(run, node->three[0], &object));
    TRY(jinja_eval(run, node->three[1], &index));
    return jinja_item(run, &object, &index, out);
}

static enum status attribute(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object;
    TRY(jinja_eval(run, node->attribute.object, &object));
    return jinja_attribute(run, &object, jinja_cstring(node->attribute.name), out);
}

static enum status optional(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    *out = jinja_none();
    return node == NULL ? STATUS_OK : jinja_eval(run, node, out);
}

static enum status slice(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object;
    struct jinja_slice bounds;
    TRY(jinja_eval(run, node->slice.object, &object));
    TRY(optional(run, node->slice.start, &bounds.start));
    TRY(optional(run, node->slice.stop, &bounds.stop));
    TRY(optional(run, node->slice.step, &bounds.step));
    return jinja_slice(run, &object, &bounds, out);
}

static enum status eval_node(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    switch (node->kind) {
    case NODE_CONST:       *out = node->constant; return STATUS_OK;
    case NODE_INPUT:       *out = run->input; return STATUS_OK;
    case NODE_NAME:        return jinja_scope_get(run, node->name, out);
    case NODE_LIST:
    case NODE_TUPLE:       return list_or_tuple(run, node, out);
    case NODE_DICT:        return dict(run, node, out);
    case NODE_CONCAT:      return concat(run, node, out);
    case NODE_CONDITIONAL: return conditional(run, node, out);
    case NODE_OR:
    case NODE_AND:         return logic(run, node, out);
    case NODE_NOT:
    case NODE_NEGATE:
    case NODE_PLUS:        return unary(run, node, out);
    case NODE_BINARY:      return binary(run, node, out);
    case NODE_COMPARE:     return compare(run, node, out);
    case NODE_ATTRIBUTE:   return attribute(run, node, out);
    case NODE_ITEM:        return item(run, node, out);
    case NODE_SLICE:       return slice(run, node, out);
    case NODE_CALL:        return jinja_eval_call(run, node, NULL, out);
    case NODE_FILTER:
    case NODE_TEST:        return filter_or_test(run, node, out);
    default:               return jinja_fail(run, "a statement stands where a value is needed");
    }
}

enum status jinja_eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    TRY(jinja_enter(run));
    TRY(jinja_step(run, 1));
    TRY(eval_node(run, node, out));
    jinja_leave(run);
    return STATUS_OK;
}
