#include "model/jinja_builtins.h"

#include "model/jinja_run.h"

#include <string.h>

static const struct jinja_builtin_table *const tables[JINJA_BUILTIN_KINDS] = {
    [JINJA_FILTER] = &jinja_filters,
    [JINJA_TEST] = &jinja_tests,
    [JINJA_GLOBAL] = &jinja_globals,
    [JINJA_STRING_METHOD] = &jinja_string_methods,
    [JINJA_LIST_METHOD] = &jinja_list_methods,
    [JINJA_DICT_METHOD] = &jinja_dict_methods,
    [JINJA_LOOP_METHOD] = &jinja_loop_methods,
};

const struct jinja_builtin *jinja_builtin_find(enum jinja_builtin_kind kind, const char *name, size_t len)
{
    const struct jinja_builtin_table *table = tables[kind];
    for (size_t i = 0; i < table->n; i++)
        if (strlen(table->rows[i].name) == len && memcmp(table->rows[i].name, name, len) == 0)
            return &table->rows[i];
    return NULL;
}

static enum status bind_named(struct jinja_run *run, const struct jinja_builtin *builtin, const char *name,
                              struct jinja_value value, struct jinja_call *call)
{
    for (int i = 0; i < JINJA_MAX_ARGV && builtin->parameters[i] != NULL; i++) {
        if (strcmp(builtin->parameters[i], name) == 0) {
            call->argv[i] = value;
            return STATUS_OK;
        }
    }
    return jinja_fail(run, "%s() has no parameter '%s'", builtin->name, name);
}

enum status jinja_builtin_call(struct jinja_run *run, const struct jinja_builtin *builtin,
                               struct jinja_value self,
                               const struct jinja_arguments *arguments, struct jinja_value *out)
{
    struct jinja_call call = { .self = self, .all = arguments };
    TRY(jinja_step(run, 1));
    if (builtin->any)
        return builtin->run(run, &call, out);
    for (size_t i = 0; i < arguments->n; i++) {
        if (i >= JINJA_MAX_ARGV || builtin->parameters[i] == NULL)
            return jinja_fail(run, "%s() takes %zu arguments, %zu were given", builtin->name, i,
                              arguments->n);
        call.argv[i] = arguments->positional[i];
    }
    for (size_t i = 0; i < arguments->n_named; i++)
        TRY(bind_named(run, builtin, arguments->names[i], arguments->named[i], &call));
    for (int i = 0; i < builtin->required; i++)
        if (call.argv[i].type == JINJA_UNDEFINED)
            return jinja_fail(run, "%s() needs the argument '%s'", builtin->name, builtin->parameters[i]);
    return builtin->run(run, &call, out);
}

enum status jinja_want_int(struct jinja_run *run, const struct jinja_value *argument, int64_t *out)
{
    if (argument->type == JINJA_UNDEFINED)
        return STATUS_OK;
    if (argument->type != JINJA_INT && argument->type != JINJA_BOOL)
        return jinja_fail(run, "expected an integer, got '%s'", jinja_type_name(argument));
    *out = argument->integer;
    return STATUS_OK;
}

enum status jinja_want_string(struct jinja_run *run, const struct jinja_value *argument,
                              struct jinja_value *out)
{
    if (argument->type == JINJA_UNDEFINED)
        return STATUS_OK;
    if (argument->type != JINJA_STRING)
        return jinja_fail(run, "expected a string, got '%s'", jinja_type_name(argument));
    *out = *argument;
    return STATUS_OK;
}
