#include "model/jinja_scope.h"

#include "model/jinja_builtins.h"
#include "model/jinja_run.h"

#include <string.h>

struct binding {
    const char *name;
    struct jinja_value value;
};

struct jinja_scope {
    struct jinja_scope *parent;
    struct binding *at;         /* [n] */
    size_t n, capacity;
};

enum status jinja_scope_open(struct jinja_run *run, struct jinja_scope *parent)
{
    void *scope;
    TRY(jinja_take(run, sizeof(struct jinja_scope), &scope));
    run->scope = scope;
    run->scope->parent = parent;
    return STATUS_OK;
}

void jinja_scope_close(struct jinja_run *run, struct jinja_scope *to)
{
    run->scope = to;
}

void jinja_scope_reset(struct jinja_run *run)
{
    run->scope->n = 0;
}

static struct jinja_value *find(const struct jinja_scope *scope, const char *name)
{
    for (size_t i = 0; i < scope->n; i++)
        if (scope->at[i].name == name)
            return &scope->at[i].value;
    return NULL;
}

enum status jinja_scope_set(struct jinja_run *run, const char *name, struct jinja_value value)
{
    struct jinja_scope *scope = run->scope;
    struct jinja_value *old = find(scope, name);
    if (old != NULL) {
        *old = value;
        return STATUS_OK;
    }
    if (scope->n == scope->capacity) {
        size_t capacity = scope->capacity == 0 ? 4 : scope->capacity * 2;
        void *at;
        TRY(jinja_take(run, capacity * sizeof *scope->at, &at));
        if (scope->n > 0)
            memcpy(at, scope->at, scope->n * sizeof *scope->at);
        scope->at = at;
        scope->capacity = capacity;
    }
    scope->at[scope->n++] = (struct binding){ .name = name, .value = value };
    return STATUS_OK;
}

static enum status global(struct jinja_run *run, const char *name, struct jinja_value *out)
{
    const struct jinja_builtin *builtin = jinja_builtin_find(JINJA_GLOBAL, name, strlen(name));
    *out = jinja_undefined(name, strlen(name));
    if (builtin == NULL)
        return STATUS_OK;
    void *memory;
    TRY(jinja_take(run, sizeof(struct jinja_function), &memory));
    struct jinja_function *function = memory;
    function->builtin = builtin;
    *out = (struct jinja_value){ .type = JINJA_FUNCTION, .function = function };
    return STATUS_OK;
}

enum status jinja_scope_get(struct jinja_run *run, const char *name, struct jinja_value *out)
{
    const struct jinja_value key = jinja_cstring(name);
    struct jinja_value *found = NULL;
    for (const struct jinja_scope *scope = run->scope; scope != NULL && found == NULL; scope = scope->parent)
        found = find(scope, name);
    if (found == NULL)
        TRY(jinja_dict_find(run, run->context.dict, &key, &found));
    if (found == NULL)
        return global(run, name, out);
    *out = *found;
    return STATUS_OK;
}
