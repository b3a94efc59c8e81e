#include "model/jinja_parse.h"

#include "model/jinja_parse_expr.h"

#include <string.h>

static enum status body(struct jinja_parser *p, const char *const *ends, struct jinja_nodes *out);

static const char *const endif_words[] = { "elif", "else", "endif", NULL };
static const char *const endfor_words[] = { "else", "endfor", NULL };

static enum status end_of_block(struct jinja_parser *p)
{
    if (p->at->kind != TOKEN_BLOCK_END)
        return jinja_parser_fail(p, "expected %%}, found '%.*s'", (int)(p->at->len < 40 ? p->at->len : 40),
                                 p->at->text);
    p->at++;
    return STATUS_OK;
}

/* The rest of a block, its body, and the block that ends it. */
static enum status body_until(struct jinja_parser *p, const char *word, struct jinja_nodes *out)
{
    const char *const ends[] = { word, NULL };
    TRY(end_of_block(p));
    TRY(body(p, ends, out));
    p->at++;
    return end_of_block(p);
}

static enum status statement_if(struct jinja_parser *p, struct jinja_node **out)
{
    size_t capacity = 4;
    void *memory;
    TRY(jinja_parser_node(p, NODE_IF, out));
    TRY(jinja_parser_take(p, capacity * sizeof(struct jinja_branch), &memory));
    struct jinja_branch *branches = memory;
    size_t n = 0;
    int closed = 0, is_else = 0;
    while (!closed) {
        if (n == capacity) {
            TRY(jinja_parser_take(p, 2 * capacity * sizeof *branches, &memory));
            memcpy(memory, branches, n * sizeof *branches);
            branches = memory;
            capacity *= 2;
        }
        if (!is_else)
            TRY(jinja_parse_tuple(p, 1, &branches[n].test));
        TRY(end_of_block(p));
        TRY(body(p, endif_words, &branches[n++].body));
        if (is_else && !jinja_parser_is_name(p, "endif"))
            return jinja_parser_fail(p, "only endif may follow else");
        is_else = jinja_parser_skip_name(p, "else");
        closed = !is_else && !jinja_parser_skip_name(p, "elif");
    }
    p->at++;
    (*out)->branches.at = branches;
    (*out)->branches.n = n;
    return end_of_block(p);
}

/* Names that something is assigned to: a name, a tuple of targets, and (if
 * may_be_attribute) namespace.name. */
static enum status target(struct jinja_parser *p, int may_be_attribute, struct jinja_node **out)
{
    struct jinja_node *pending[64];
    size_t n = 0;
    TRY(jinja_parse_target(p, out));
    pending[n++] = *out;
    while (n > 0) {
        struct jinja_node *node = pending[--n];
        int is_attribute = may_be_attribute && node->kind == NODE_ATTRIBUTE &&
                           node->attribute.object->kind == NODE_NAME;
        if (node->kind == NODE_TUPLE && node->nodes.n <= sizeof pending / sizeof pending[0] - n) {
            memcpy(pending + n, node->nodes.at, node->nodes.n * sizeof pending[0]);
            n += node->nodes.n;
        } else if (node->kind != NODE_NAME && !is_attribute) {
            return jinja_parser_fail(p, "this cannot be assigned to");
        }
    }
    return STATUS_OK;
}

static enum status statement_for(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_parser_node(p, NODE_FOR, out));
    TRY(jinja_parser_intern(p, "loop", 4, &(*out)->loop.loop_name));
    TRY(target(p, 0, &(*out)->loop.target));
    if (!jinja_parser_skip_name(p, "in"))
        return jinja_parser_fail(p, "expected 'in'");
    TRY(jinja_parse_tuple(p, 0, &(*out)->loop.iterable));
    if (jinja_parser_skip_name(p, "if"))
        TRY(jinja_parse_expression(p, &(*out)->loop.test));
    if (jinja_parser_is_name(p, "recursive"))
        return jinja_parser_fail(p, "recursive loops are not supported");
    TRY(end_of_block(p));
    p->n_loops++;
    TRY(body(p, endfor_words, &(*out)->loop.body));
    p->n_loops--;
    if (jinja_parser_skip_name(p, "else"))
        return body_until(p, "endfor", &(*out)->loop.otherwise);
    p->at++;
    return end_of_block(p);
}

static enum status statement_set(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_parser_node(p, NODE_SET, out));
    TRY(target(p, 1, &(*out)->set.target));
    if (jinja_parser_skip_op(p, '=')) {
        TRY(jinja_parse_tuple(p, 1, &(*out)->set.value));
        return end_of_block(p);
    }
    struct jinja_node *input;
    (*out)->kind = NODE_SET_BLOCK;
    TRY(jinja_parser_node(p, NODE_INPUT, &input));
    TRY(jinja_parse_filters(p, input, &(*out)->set.value));
    return body_until(p, "endset", &(*out)->set.body);
}

/* (a, b=default), of a macro or of a call block. */
static enum status parameters(struct jinja_parser *p, struct jinja_node *macro)
{
    const char *names[32];
    struct jinja_node *defaults[32];
    size_t n = 0;
    void *memory;
    while (!jinja_parser_is_op(p, ')')) {
        if (n > 0)
            TRY(jinja_parser_expect_op(p, ','));
        if (jinja_parser_is_op(p, ')'))
            break;
        if (n == sizeof names / sizeof names[0])
            return jinja_parser_fail(p, "a macro has more than %zu parameters", n);
        TRY(jinja_parser_expect_name(p, &names[n]));
        defaults[n] = NULL;
        if (jinja_parser_skip_op(p, '='))
            TRY(jinja_parse_expression(p, &defaults[n]));
        n++;
    }
    p->at++;
    if (n == 0)
        return STATUS_OK;
    TRY(jinja_parser_take(p, n * sizeof names[0], &memory));
    macro->macro.parameters = memcpy(memory, names, n * sizeof names[0]);
    TRY(jinja_parser_take(p, n * sizeof defaults[0], &memory));
    macro->macro.defaults = memcpy(memory, defaults, n * sizeof defaults[0]);
    macro->macro.n_parameters = n;
    return STATUS_OK;
}

/* A macro's body is its own world: loops around it cannot be left from inside. */
static enum status macro_body(struct jinja_parser *p, const char *word, struct jinja_node *macro)
{
    int n_loops = p->n_loops, saw_rest = p->saw_rest;
    TRY(jinja_parser_intern(p, "caller", 6, &macro->macro.caller_name));
    TRY(jinja_parser_intern(p, "varargs", 7, &macro->macro.rest_names[0]));
    TRY(jinja_parser_intern(p, "kwargs", 6, &macro->macro.rest_names[1]));
    p->n_loops = 0;
    p->saw_rest = 0;
    TRY(body_until(p, word, &macro->macro.body));
    macro->macro.takes_rest = p->saw_rest;
    p->n_loops = n_loops;
    p->saw_rest = saw_rest;
    return STATUS_OK;
}

static enum status statement_macro(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_parser_node(p, NODE_MACRO, out));
    TRY(jinja_parser_expect_name(p, &(*out)->macro.name));
    TRY(jinja_parser_expect_op(p, '('));
    TRY(parameters(p, *out));
    return macro_body(p, "endmacro", *out);
}

static enum status statement_call(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_parser_node(p, NODE_CALL_BLOCK, out));
    (*out)->macro.name = "caller";
    if (jinja_parser_skip_op(p, '('))
        TRY(parameters(p, *out));
    TRY(jinja_parse_expression(p, &(*out)->macro.call));
    if ((*out)->macro.call->kind != NODE_CALL)
        return jinja_parser_fail(p, "a call block needs a call");
    return macro_body(p, "endcall", *out);
}

static enum status statement_filter(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_node *input;
    TRY(jinja_parser_node(p, NODE_FILTER_BLOCK, out));
    TRY(jinja_parser_node(p, NODE_INPUT, &input));
    TRY(jinja_parse_filter(p, input, &input));
    TRY(jinja_parse_filters(p, input, &(*out)->set.value));
    return body_until(p, "endfilter", &(*out)->set.body);
}

static enum status statement_with(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_node_list values = { 0 };
    const char *names[32];
    void *memory;
    TRY(jinja_parser_node(p, NODE_WITH, out));
    while (p->at->kind == TOKEN_NAME) {
        struct jinja_node *value;
        if (values.nodes.n == sizeof names / sizeof names[0])
            return jinja_parser_fail(p, "with sets more than %zu names", values.nodes.n);
        TRY(jinja_parser_expect_name(p, &names[values.nodes.n]));
        TRY(jinja_parser_expect_op(p, '='));
        TRY(jinja_parse_expression(p, &value));
        TRY(jinja_parser_push(p, &values, value));
        if (!jinja_parser_skip_op(p, ','))
            break;
    }
    TRY(jinja_parser_take(p, sizeof names, &memory));
    (*out)->with.names = memcpy(memory, names, values.nodes.n * sizeof names[0]);
    (*out)->with.values = values.nodes;
    return body_until(p, "endwith", &(*out)->with.body);
}

/* Marks what the model wrote, for training; here only a scope of names. */
static enum status statement_generation(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_parser_node(p, NODE_WITH, out));
    return body_until(p, "endgeneration", &(*out)->with.body);
}

static enum status leave_loop(struct jinja_parser *p, enum jinja_node_kind kind, struct jinja_node **out)
{
    if (p->n_loops == 0)
        return jinja_parser_fail(p, "break and continue belong into a for loop");
    TRY(jinja_parser_node(p, kind, out));
    return end_of_block(p);
}

static enum status statement_break(struct jinja_parser *p, struct jinja_node **out)
{
    return leave_loop(p, NODE_BREAK, out);
}

static enum status statement_continue(struct jinja_parser *p, struct jinja_node **out)
{
    return leave_loop(p, NODE_CONTINUE, out);
}

static enum status statement(struct jinja_parser *p, struct jinja_node **out)
{
    static const struct {
        const char *word;
        enum status (*parse)(struct jinja_parser *p, struct jinja_node **out);
    } rows[] = {
        { "if", statement_if },             { "for", statement_for },
        { "set", statement_set },           { "macro", statement_macro },
        { "call", statement_call },         { "filter", statement_filter },
        { "with", statement_with },         { "generation", statement_generation },
        { "break", statement_break },       { "continue", statement_continue },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (jinja_parser_skip_name(p, rows[i].word))
            return rows[i].parse(p, out);
    return jinja_parser_fail(p, "'%.*s' is no statement that a chat template may have here",
                             (int)(p->at->len < 40 ? p->at->len : 40), p->at->text);
}

static enum status text_or_print(struct jinja_parser *p, struct jinja_node **out)
{
    if (p->at->kind == TOKEN_TEXT) {
        TRY(jinja_parser_node(p, NODE_TEXT, out));
        (*out)->constant = jinja_string(p->at->text, p->at->len);
        p->at++;
        return STATUS_OK;
    }
    p->at++;
    TRY(jinja_parser_node(p, NODE_PRINT, out));
    TRY(jinja_parse_tuple(p, 1, &(*out)->three[0]));
    if (p->at->kind != TOKEN_PRINT_END)
        return jinja_parser_fail(p, "expected }}, found '%.*s'", (int)(p->at->len < 40 ? p->at->len : 40),
                                 p->at->text);
    p->at++;
    return STATUS_OK;
}

static int is_end(const struct jinja_parser *p, const char *const *ends)
{
    for (; *ends != NULL; ends++)
        if (jinja_parser_is_name(p, *ends))
            return 1;
    return 0;
}

/* Statements up to a block whose first word is in ends (NULL at its end), which
 * is left at that word; an empty ends means the end of the template. */
static enum status body(struct jinja_parser *p, const char *const *ends, struct jinja_nodes *out)
{
    struct jinja_node_list list = { 0 };
    TRY(jinja_parser_enter(p));
    for (;;) {
        struct jinja_node *node;
        if (p->at->kind == TOKEN_END && *ends == NULL)
            break;
        if (p->at->kind == TOKEN_END)
            return jinja_parser_fail(p, "the template ends where '%s' was expected", *ends);
        if (p->at->kind == TOKEN_BLOCK_BEGIN) {
            p->at++;
            if (is_end(p, ends))
                break;
            TRY(statement(p, &node));
        } else {
            TRY(text_or_print(p, &node));
        }
        TRY(jinja_parser_push(p, &list, node));
    }
    p->nesting--;
    *out = list.nodes;
    return STATUS_OK;
}

enum status jinja_parse(const struct jinja_tokens *tokens, struct jinja_arena *arena, struct jinja_nodes *out,
                        struct error *err)
{
    static const char *const no_ends[] = { NULL };
    struct jinja_parser parser = { .at = tokens->at, .arena = arena, .err = err };
    return body(&parser, no_ends, out);
}
