#include "base/utf8.h"
#include "model/jinja_builtins.h"
#include "model/jinja_run.h"
#include "model/jinja_text.h"

#include <string.h>
#include <time.h>

#define MAX_RANGE 100000        /* as Jinja's sandbox has it */

/* Functions of the environment, and methods of lists, dicts and loops. */
#define FUNCTION(name)                                                                              \
    static enum status name(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)

FUNCTION(global_range)
{
    int64_t part[3] = { 0, 0, 1 };
    const struct jinja_arguments *all = call->all;
    if (all->n == 0 || all->n > 3 || all->n_named > 0)
        return jinja_fail(run, "range() takes 1 to 3 integers");
    for (size_t i = 0; i < all->n; i++) {
        if (all->positional[i].type == JINJA_UNDEFINED)
            return jinja_fail(run, "argument %zu of range() is undefined", i + 1);
        TRY(jinja_want_int(run, &all->positional[i], &part[all->n == 1 ? 1 : i]));
    }
    if (part[2] == 0)
        return jinja_fail(run, "the step of range() is zero");
    TRY(jinja_list_create(run, JINJA_LIST, 0, out));
    for (int64_t i = part[0]; part[2] > 0 ? i < part[1] : i > part[1];) {
        if (out->list->n == MAX_RANGE)
            return jinja_fail(run, "range() is longer than %d", MAX_RANGE);
        TRY(jinja_list_push(run, out->list, jinja_int(i)));
        if (__builtin_add_overflow(i, part[2], &i))
            break;
    }
    return STATUS_OK;
}

/* dict(mapping, a=1): also what a namespace begins with. */
static enum status gather(struct jinja_run *run, const struct jinja_call *call, enum jinja_type type,
                          struct jinja_value *out)
{
    const struct jinja_arguments *all = call->all;
    TRY(jinja_dict_create(run, type, out));
    if (all->n > 1 || (all->n == 1 && all->positional[0].type != JINJA_DICT))
        return jinja_fail(run, "dict() and namespace() take one mapping and keywords");
    for (size_t i = 0; all->n == 1 && i < all->positional[0].dict->n; i++) {
        struct jinja_entry entry = all->positional[0].dict->at[i];
        TRY(jinja_dict_put(run, out->dict, entry.key, entry.value));
    }
    for (size_t i = 0; i < all->n_named; i++)
        TRY(jinja_dict_put(run, out->dict, jinja_cstring(all->names[i]), all->named[i]));
    return STATUS_OK;
}

FUNCTION(global_dict)
{
    return gather(run, call, JINJA_DICT, out);
}

FUNCTION(global_namespace)
{
    return gather(run, call, JINJA_NAMESPACE, out);
}

/* The template speaks to the client: its sentence is passed on as it is. */
FUNCTION(global_raise_exception)
{
    struct jinja_value text;
    TRY(jinja_to_string(run, &call->argv[0], &text));
    *out = text;
    if (text.len > 300)
        text.len = 300 - utf8_incomplete_tail(text.text, 300);
    return fail(run->err, STATUS_BAD_REQUEST, "%.*s", (int)text.len, text.text);
}

FUNCTION(global_strftime_now)
{
    char format[128], text[512];
    struct tm local;
    time_t now = (time_t)run->now;
    struct jinja_value wanted = jinja_cstring("");
    TRY(jinja_want_string(run, &call->argv[0], &wanted));
    if (wanted.len >= sizeof format || localtime_r(&now, &local) == NULL)
        return jinja_fail(run, "strftime_now() takes a format of up to %zu bytes", sizeof format - 1);
    memcpy(format, wanted.text, wanted.len);
    format[wanted.len] = '\0';
    size_t n = strftime(text, sizeof text, format, &local);
    size_t mark = jinja_mark(run);
    TRY(jinja_write(run, text, n));
    return jinja_capture(run, mark, out);
}

static const struct jinja_builtin globals[] = {
    { "range", .any = 1, .run = global_range },
    { "dict", .any = 1, .run = global_dict },
    { "namespace", .any = 1, .run = global_namespace },
    { "raise_exception", { "message" }, .required = 1, .run = global_raise_exception },
    { "strftime_now", { "format" }, .required = 1, .run = global_strftime_now },
};

/* A tuple has list's methods but the three that change it. */
static enum status changeable(struct jinja_run *run, const struct jinja_call *call)
{
    if (call->self.type == JINJA_TUPLE)
        return jinja_fail(run, "a tuple cannot be changed");
    return STATUS_OK;
}

FUNCTION(list_append)
{
    TRY(changeable(run, call));
    *out = jinja_none();
    return jinja_list_push(run, call->self.list, call->argv[0]);
}

FUNCTION(list_extend)
{
    struct jinja_list more;
    TRY(changeable(run, call));
    TRY(jinja_elements(run, &call->argv[0], &more));
    for (size_t i = 0; i < more.n; i++)
        TRY(jinja_list_push(run, call->self.list, more.at[i]));
    *out = jinja_none();
    return STATUS_OK;
}

/* A place of the list, counted from its end if it is negative. */
static enum status place_of(struct jinja_run *run, const struct jinja_value *argument, size_t n, size_t *out)
{
    int64_t place = -1;
    TRY(jinja_want_int(run, argument, &place));
    place += place < 0 ? (int64_t)n : 0;
    if (place < 0 || (size_t)place >= n)
        return jinja_fail(run, "pop() from a place that the list of %zu elements does not have", n);
    *out = (size_t)place;
    return STATUS_OK;
}

FUNCTION(list_pop)
{
    struct jinja_list *list = call->self.list;
    size_t place = 0;
    TRY(changeable(run, call));
    TRY(place_of(run, &call->argv[0], list->n, &place));
    TRY(jinja_step(run, list->n / 16));
    *out = list->at[place];
    memmove(list->at + place, list->at + place + 1, (list->n - place - 1) * sizeof *list->at);
    list->n--;
    return STATUS_OK;
}

static enum status count_equal(struct jinja_run *run, const struct jinja_call *call, int64_t *n,
                               int64_t *first)
{
    const struct jinja_list *list = call->self.list;
    *n = 0;
    *first = -1;
    TRY(jinja_step(run, list->n / 4));
    for (size_t i = 0; i < list->n; i++) {
        int same;
        TRY(jinja_equal(run, &list->at[i], &call->argv[0], &same));
        *n += same;
        if (same && *first < 0)
            *first = (int64_t)i;
    }
    return STATUS_OK;
}

FUNCTION(list_count)
{
    int64_t n, first;
    TRY(count_equal(run, call, &n, &first));
    *out = jinja_int(n);
    return STATUS_OK;
}

FUNCTION(list_index)
{
    int64_t n, first;
    TRY(count_equal(run, call, &n, &first));
    *out = jinja_int(first);
    return first < 0 ? jinja_fail(run, "the value is not in the list") : STATUS_OK;
}

static const struct jinja_builtin list_methods[] = {
    { "append", { "object" }, .run = list_append },
    { "count", { "value" }, .run = list_count },
    { "extend", { "iterable" }, .required = 1, .run = list_extend },
    { "index", { "value" }, .run = list_index },
    { "pop", { "index" }, .run = list_pop },
};

FUNCTION(dict_get)
{
    struct jinja_value *found;
    TRY(jinja_dict_find(run, call->self.dict, &call->argv[0], &found));
    *out = found != NULL ? *found : call->argv[1].type == JINJA_UNDEFINED ? jinja_none() : call->argv[1];
    return STATUS_OK;
}

FUNCTION(dict_items)
{
    const struct jinja_dict *dict = call->self.dict;
    TRY(jinja_list_create(run, JINJA_LIST, dict->n, out));
    for (size_t i = 0; i < dict->n; i++) {
        struct jinja_value pair;
        TRY(jinja_list_create(run, JINJA_TUPLE, 2, &pair));
        TRY(jinja_list_push(run, pair.list, dict->at[i].key));
        TRY(jinja_list_push(run, pair.list, dict->at[i].value));
        TRY(jinja_list_push(run, out->list, pair));
    }
    return STATUS_OK;
}

static enum status column(struct jinja_run *run, const struct jinja_dict *dict, int keys,
                          struct jinja_value *out)
{
    TRY(jinja_list_create(run, JINJA_LIST, dict->n, out));
    for (size_t i = 0; i < dict->n; i++)
        TRY(jinja_list_push(run, out->list, keys ? dict->at[i].key : dict->at[i].value));
    return STATUS_OK;
}

FUNCTION(dict_keys)
{
    return column(run, call->self.dict, 1, out);
}

FUNCTION(dict_values)
{
    return column(run, call->self.dict, 0, out);
}

FUNCTION(dict_copy)
{
    const struct jinja_arguments all = { .positional = &call->self, .n = 1 };
    const struct jinja_call copied = { .all = &all };
    return gather(run, &copied, JINJA_DICT, out);
}

FUNCTION(dict_update)
{
    struct jinja_value more;
    TRY(gather(run, call, JINJA_DICT, &more));
    for (size_t i = 0; i < more.dict->n; i++)
        TRY(jinja_dict_put(run, call->self.dict, more.dict->at[i].key, more.dict->at[i].value));
    *out = jinja_none();
    return STATUS_OK;
}

FUNCTION(dict_pop)
{
    struct jinja_dict *dict = call->self.dict;
    struct jinja_value *found;
    TRY(jinja_dict_find(run, dict, &call->argv[0], &found));
    *out = call->argv[1];
    if (found == NULL && out->type == JINJA_UNDEFINED)
        return jinja_fail(run, "pop() of a key that the dict does not have");
    if (found == NULL)
        return STATUS_OK;
    *out = *found;
    for (size_t i = 0; i < dict->n; i++) {
        if (&dict->at[i].value == found) {
            jinja_dict_remove(dict, i);
            break;
        }
    }
    return jinja_step(run, dict->n / 16);
}

static const struct jinja_builtin dict_methods[] = {
    { "copy", .run = dict_copy },
    { "get", { "key", "default" }, .run = dict_get },
    { "items", .run = dict_items },
    { "keys", .run = dict_keys },
    { "pop", { "key", "default" }, .run = dict_pop },
    { "update", .any = 1, .run = dict_update },
    { "values", .run = dict_values },
};

FUNCTION(loop_cycle)
{
    const struct jinja_arguments *all = call->all;
    if (all->n == 0)
        return jinja_fail(run, "cycle() needs at least one value");
    *out = all->positional[call->self.loop->index0 % all->n];
    return STATUS_OK;
}

FUNCTION(loop_changed)
{
    struct jinja_loop *loop = call->self.loop;
    int same;
    TRY(jinja_equal(run, &loop->changed, &call->argv[0], &same));
    *out = jinja_bool(!same || loop->index0 == 0);
    loop->changed = call->argv[0];
    return STATUS_OK;
}

static const struct jinja_builtin loop_methods[] = {
    { "cycle", .any = 1, .run = loop_cycle },
    { "changed", { "value" }, .run = loop_changed },
};

#define TABLE(rows) { rows, sizeof rows / sizeof rows[0] }

const struct jinja_builtin_table jinja_globals = TABLE(globals);
const struct jinja_builtin_table jinja_list_methods = TABLE(list_methods);
const struct jinja_builtin_table jinja_dict_methods = TABLE(dict_methods);
const struct jinja_builtin_table jinja_loop_methods = TABLE(loop_methods);
