#include "model/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct jinja_name {
    struct jinja_name *next;
    size_t len;
    char text[];
};

enum status jinja_parser_fail(struct jinja_parser *p, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return fail(p->err, STATUS_BAD_MODEL, "chat template, line %u: %s", p->at->line, text);
}

enum status jinja_parser_take(struct jinja_parser *p, size_t bytes, void **out)
{
    *out = jinja_arena_take(p->arena, bytes);
    if (*out == NULL)
        return fail(p->err, STATUS_TOO_LARGE, "the chat template needs more than %zu bytes", p->arena->max);
    return STATUS_OK;
}

enum status jinja_parser_enter(struct jinja_parser *p)
{
    if (p->nesting >= JINJA_MAX_NESTING)
        return jinja_parser_fail(p, "statements or brackets are nested deeper than %d", JINJA_MAX_NESTING);
    p->nesting++;
    return STATUS_OK;
}

enum status jinja_parser_node(struct jinja_parser *p, enum jinja_node_kind kind, struct jinja_node **out)
{
    void *node;
    TRY(jinja_parser_take(p, sizeof **out, &node));
    *out = node;
    (*out)->kind = kind;
    (*out)->line = p->at->line;
    return STATUS_OK;
}

enum status jinja_parser_push(struct jinja_parser *p, struct jinja_node_list *list, struct jinja_node *node)
{
    if (list->nodes.n == list->capacity) {
        size_t capacity = list->capacity == 0 ? 4 : list->capacity * 2;
        void *at;
        TRY(jinja_parser_take(p, capacity * sizeof node, &at));
        if (list->nodes.n > 0)
            memcpy(at, list->nodes.at, list->nodes.n * sizeof node);
        list->nodes.at = at;
        list->capacity = capacity;
    }
    list->nodes.at[list->nodes.n++] = node;
    return STATUS_OK;
}

int jinja_parser_is_op(const struct jinja_parser *p, int op)
{
    return p->at->kind == TOKEN_OPERATOR && p->at->op == op;
}

int jinja_token_is_name(const struct jinja_token *token, const char *name)
{
    size_t len = strlen(name);
    return token->kind == TOKEN_NAME && token->len == len && memcmp(token->text, name, len) == 0;
}

int jinja_parser_is_name(const struct jinja_parser *p, const char *name)
{
    return jinja_token_is_name(p->at, name);
}

int jinja_parser_skip_op(struct jinja_parser *p, int op)
{
    int found = jinja_parser_is_op(p, op);
    p->at += found;
    return found;
}

int jinja_parser_skip_name(struct jinja_parser *p, const char *name)
{
    int found = jinja_parser_is_name(p, name);
    p->at += found;
    return found;
}

enum status jinja_parser_expect_op(struct jinja_parser *p, int op)
{
    if (!jinja_parser_skip_op(p, op))
        return jinja_parser_fail(p, "expected '%c'", op);
    return STATUS_OK;
}

enum status jinja_parser_intern(struct jinja_parser *p, const char *text, size_t len, const char **out)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    struct jinja_name **bucket = &p->names[hash % JINJA_NAME_BUCKETS], *name = *bucket;
    while (name != NULL && (name->len != len || memcmp(name->text, text, len) != 0))
        name = name->next;
    if (name == NULL) {
        void *memory;
        TRY(jinja_parser_take(p, sizeof *name + len + 1, &memory));
        name = memory;
        name->next = *bucket;
        name->len = len;
        memcpy(name->text, text, len);
        *bucket = name;
    }
    *out = name->text;
    return STATUS_OK;
}

enum status jinja_parser_expect_name(struct jinja_parser *p, const char **out)
{
    if (p->at->kind != TOKEN_NAME)
        return jinja_parser_fail(p, "expected a name");
    if (jinja_token_is_name(p->at, "varargs") || jinja_token_is_name(p->at, "kwargs"))
        p->saw_rest = 1;
    TRY(jinja_parser_intern(p, p->at->text, p->at->len, out));
    p->at++;
    return STATUS_OK;
}

enum status jinja_parser_constant(struct jinja_parser *p, struct jinja_value value, struct jinja_node **out)
{
    TRY(jinja_parser_node(p, NODE_CONST, out));
    (*out)->constant = value;
    return STATUS_OK;
}
