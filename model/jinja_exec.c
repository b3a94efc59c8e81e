#include "model/jinja_exec.h"

#include "model/jinja_eval.h"
#include "model/jinja_scope.h"
#include "model/jinja_text.h"

#include <string.h>

static enum status assign(struct jinja_run *run, const struct jinja_node *target, struct jinja_value value);

/* a, b = pair */
static enum status unpack(struct jinja_run *run, const struct jinja_nodes *targets, struct jinja_value value)
{
    struct jinja_list elements;
    TRY(jinja_elements(run, &value, &elements));
    if (elements.n != targets->n)
        return jinja_fail(run, "%zu values are assigned to %zu names", elements.n, targets->n);
    TRY(jinja_enter(run));
    for (size_t i = 0; i < targets->n; i++)
        TRY(assign(run, targets->at[i], elements.at[i]));
    jinja_leave(run);
    return STATUS_OK;
}

static enum status assign(struct jinja_run *run, const struct jinja_node *target, struct jinja_value value)
{
    struct jinja_value object;
    if (target->kind == NODE_NAME)
        return jinja_scope_set(run, target->name, value);
    if (target->kind == NODE_TUPLE)
        return unpack(run, &target->nodes, value);
    TRY(jinja_eval(run, target->attribute.object, &object));
    if (object.type != JINJA_NAMESPACE)
        return jinja_fail(run, "only a namespace has attributes that can be set, not '%s'",
                          jinja_type_name(&object));
    return jinja_dict_put(run, object.dict, jinja_cstring(target->attribute.name), value);
}

/* What body prints, taken aside instead of to the output. */
static enum status capture(struct jinja_run *run, const struct jinja_nodes *body, struct jinja_value *out)
{
    size_t mark = jinja_mark(run);
    TRY(jinja_exec(run, body));
    return jinja_capture(run, mark, out);
}

static enum status exec_if(struct jinja_run *run, const struct jinja_node *node)
{
    for (size_t i = 0; i < node->branches.n; i++) {
        const struct jinja_branch *branch = &node->branches.at[i];
        struct jinja_value test = jinja_bool(1);
        if (branch->test != NULL)
            TRY(jinja_eval(run, branch->test, &test));
        if (jinja_truth(&test))
            return jinja_exec(run, &branch->body);
    }
    return STATUS_OK;
}

/* The elements that the condition after the iterable lets pass. */
static enum status chosen(struct jinja_run *run, const struct jinja_node *node, const struct jinja_list *all,
                          struct jinja_list *out)
{
    *out = *all;
    if (node->loop.test == NULL)
        return STATUS_OK;
    *out = (struct jinja_list){ 0 };
    for (size_t i = 0; i < all->n; i++) {
        struct jinja_value pass;
        jinja_scope_reset(run);
        TRY(assign(run, node->loop.target, all->at[i]));
        TRY(jinja_eval(run, node->loop.test, &pass));
        if (jinja_truth(&pass))
            TRY(jinja_list_push(run, out, all->at[i]));
    }
    return STATUS_OK;
}

static enum status iterate(struct jinja_run *run, const struct jinja_node *node,
                           const struct jinja_list *elements)
{
    void *memory;
    TRY(jinja_take(run, sizeof(struct jinja_loop), &memory));
    struct jinja_loop *loop = memory;
    *loop = (struct jinja_loop){ .items = elements->at, .n = elements->n };
    const struct jinja_value value = { .type = JINJA_LOOP, .loop = loop };
    for (size_t i = 0; i < elements->n; i++) {
        loop->index0 = i;
        jinja_scope_reset(run);
        TRY(jinja_scope_set(run, node->loop.loop_name, value));
        TRY(assign(run, node->loop.target, elements->at[i]));
        TRY(jinja_exec(run, &node->loop.body));
        if (run->flow == JINJA_BREAK)
            break;
        run->flow = JINJA_GO_ON;
    }
    run->flow = JINJA_GO_ON;
    return STATUS_OK;
}

/* Changing a list inside its own loop does not change the loop: it walks over
 * the elements there were at its start. */
static enum status exec_for(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *outer = run->scope;
    struct jinja_value iterable;
    struct jinja_list all, elements;
    void *copy;
    TRY(jinja_eval(run, node->loop.iterable, &iterable));
    TRY(jinja_elements(run, &iterable, &all));
    TRY(jinja_take(run, all.n * sizeof *all.at, &copy));
    if (all.n > 0)
        memcpy(copy, all.at, all.n * sizeof *all.at);
    all.at = copy;
    all.capacity = all.n;
    TRY(jinja_scope_open(run, outer));
    TRY(chosen(run, node, &all, &elements));
    TRY(elements.n > 0 ? iterate(run, node, &elements) : jinja_exec(run, &node->loop.otherwise));
    jinja_scope_close(run, outer);
    return STATUS_OK;
}

static enum status exec_set(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value;
    TRY(jinja_eval(run, node->set.value, &value));
    return assign(run, node->set.target, value);
}

/* The body of a set or filter block, printed aside and put through the filters. */
static enum status exec_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *outer = run->scope;
    struct jinja_value value;
    TRY(jinja_scope_open(run, outer));
    TRY(capture(run, &node->set.body, &run->input));
    jinja_scope_close(run, outer);
    TRY(jinja_eval(run, node->set.value, &value));
    if (node->kind == NODE_FILTER_BLOCK)
        return jinja_write_str(run, &value);
    return assign(run, node->set.target, value);
}

static enum status exec_with(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *outer = run->scope;
    TRY(jinja_scope_open(run, outer));
    struct jinja_scope *inner = run->scope;
    for (size_t i = 0; i < node->with.values.n; i++) {
        struct jinja_value value;
        jinja_scope_close(run, outer);      /* the values do not see each other */
        TRY(jinja_eval(run, node->with.values.at[i], &value));
        jinja_scope_close(run, inner);
        TRY(jinja_scope_set(run, node->with.names[i], value));
    }
    TRY(jinja_exec(run, &node->with.body));
    jinja_scope_close(run, outer);
    return STATUS_OK;
}

static enum status make_macro(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    void *memory;
    TRY(jinja_take(run, sizeof(struct jinja_macro), &memory));
    struct jinja_macro *macro = memory;
    *macro = (struct jinja_macro){ .node = node, .closure = run->scope };
    *out = (struct jinja_value){ .type = JINJA_MACRO, .macro = macro };
    return STATUS_OK;
}

static enum status exec_macro_statement(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value macro;
    TRY(make_macro(run, node, &macro));
    return jinja_scope_set(run, node->macro.name, macro);
}

static enum status exec_call_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value caller, printed;
    TRY(make_macro(run, node, &caller));
    TRY(jinja_eval_call(run, node->macro.call, &caller, &printed));
    return jinja_write_str(run, &printed);
}

/* The place of a keyword among the parameters, or n_parameters. */
static size_t parameter_place(const struct jinja_node *node, const char *name)
{
    size_t i = 0;
    while (i < node->macro.n_parameters && strcmp(node->macro.parameters[i], name) != 0)
        i++;
    return i;
}

/* varargs and kwargs: what fits no parameter, for a macro that asks for it. */
static enum status bind_rest(struct jinja_run *run, const struct jinja_node *node,
                             const struct jinja_arguments *arguments)
{
    struct jinja_value rest, named;
    TRY(jinja_list_create(run, JINJA_TUPLE, 0, &rest));
    TRY(jinja_dict_create(run, JINJA_DICT, &named));
    for (size_t i = node->macro.n_parameters; i < arguments->n; i++)
        TRY(jinja_list_push(run, rest.list, arguments->positional[i]));
    for (size_t i = 0; i < arguments->n_named; i++)
        if (parameter_place(node, arguments->names[i]) == node->macro.n_parameters)
            TRY(jinja_dict_put(run, named.dict, jinja_cstring(arguments->names[i]), arguments->named[i]));
    TRY(jinja_scope_set(run, node->macro.rest_names[0], rest));
    return jinja_scope_set(run, node->macro.rest_names[1], named);
}

static enum status bind_keywords(struct jinja_run *run, const struct jinja_node *node,
                                 const struct jinja_arguments *arguments, int *given)
{
    for (size_t i = 0; i < arguments->n_named; i++) {
        size_t place = parameter_place(node, arguments->names[i]);
        int is_caller = strcmp(arguments->names[i], "caller") == 0;
        if (place < node->macro.n_parameters) {
            if (given[place])
                return jinja_fail(run, "macro '%s' got two values for '%s'", node->macro.name,
                                  arguments->names[i]);
            given[place] = 1;
            TRY(jinja_scope_set(run, node->macro.parameters[place], arguments->named[i]));
        } else if (is_caller) {
            TRY(jinja_scope_set(run, node->macro.caller_name, arguments->named[i]));
        } else if (!node->macro.takes_rest) {
            return jinja_fail(run, "macro '%s' has no parameter '%s'", node->macro.name, arguments->names[i]);
        }
    }
    return STATUS_OK;
}

/* Defaults are evaluated last, so that one may use the parameters before it. */
static enum status bind_parameters(struct jinja_run *run, const struct jinja_node *node,
                                   const struct jinja_arguments *arguments)
{
    void *memory;
    size_t n = node->macro.n_parameters;
    if (arguments->n > n && !node->macro.takes_rest)
        return jinja_fail(run, "macro '%s' takes %zu arguments, %zu were given", node->macro.name, n,
                          arguments->n);
    TRY(jinja_take(run, n * sizeof(int), &memory));
    int *given = memory;
    for (size_t i = 0; i < n && i < arguments->n; i++) {
        given[i] = 1;
        TRY(jinja_scope_set(run, node->macro.parameters[i], arguments->positional[i]));
    }
    TRY(bind_keywords(run, node, arguments, given));
    if (node->macro.takes_rest)
        TRY(bind_rest(run, node, arguments));
    for (size_t i = 0; i < n; i++) {
        const char *name = node->macro.parameters[i];
        struct jinja_value value = jinja_undefined(name, strlen(name));
        if (given[i])
            continue;
        if (node->macro.defaults[i] != NULL)
            TRY(jinja_eval(run, node->macro.defaults[i], &value));
        TRY(jinja_scope_set(run, name, value));
    }
    return STATUS_OK;
}

enum status jinja_exec_macro(struct jinja_run *run, const struct jinja_macro *macro,
                             const struct jinja_arguments *arguments, struct jinja_value *out)
{
    struct jinja_scope *outer = run->scope;
    TRY(jinja_enter(run));
    TRY(jinja_scope_open(run, macro->closure));
    TRY(bind_parameters(run, macro->node, arguments));
    TRY(capture(run, &macro->node->macro.body, out));
    jinja_scope_close(run, outer);
    jinja_leave(run);
    return STATUS_OK;
}

static enum status exec_print(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value;
    TRY(jinja_eval(run, node->three[0], &value));
    return jinja_write_str(run, &value);
}

static enum status exec_node(struct jinja_run *run, const struct jinja_node *node)
{
    switch (node->kind) {
    case NODE_TEXT:         return jinja_write(run, node->constant.text, node->constant.len);
    case NODE_PRINT:        return exec_print(run, node);
    case NODE_IF:           return exec_if(run, node);
    case NODE_FOR:          return exec_for(run, node);
    case NODE_SET:          return exec_set(run, node);
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK: return exec_block(run, node);
    case NODE_MACRO:        return exec_macro_statement(run, node);
    case NODE_CALL_BLOCK:   return exec_call_block(run, node);
    case NODE_WITH:         return exec_with(run, node);
    case NODE_BREAK:        run->flow = JINJA_BREAK; return STATUS_OK;
    case NODE_CONTINUE:     run->flow = JINJA_CONTINUE; return STATUS_OK;
    default:                return jinja_fail(run, "a value stands where a statement is needed");
    }
}

enum status jinja_exec(struct jinja_run *run, const struct jinja_nodes *body)
{
    TRY(jinja_enter(run));
    for (size_t i = 0; i < body->n && run->flow == JINJA_GO_ON; i++) {
        TRY(jinja_step(run, 1));
        run->line = body->at[i]->line;
        TRY(exec_node(run, body->at[i]));
    }
    jinja_leave(run);
    return STATUS_OK;
}
