#include "model/jinja_sort.h"

#include "model/jinja_operators.h"
#include "model/jinja_run.h"
#include "model/jinja_text.h"

#include <string.h>

/* One step of a path: digits index a list, anything else names a field. */
static struct jinja_value path_step(const char *text, size_t len)
{
    int64_t index = 0;
    size_t i = 0;
    for (; i < len && i < 9 && text[i] >= '0' && text[i] <= '9'; i++)
        index = index * 10 + (text[i] - '0');
    return len > 0 && i == len ? jinja_int(index) : jinja_string(text, len);
}

enum status jinja_path(struct jinja_run *run, const struct jinja_value *value, const struct jinja_value *path,
                       struct jinja_value *out)
{
    *out = *value;
    if (path->type != JINJA_STRING)
        return jinja_item(run, value, path, out);
    for (size_t at = 0; at <= path->len;) {
        const char *dot = at < path->len ? memchr(path->text + at, '.', path->len - at) : NULL;
        size_t len = dot == NULL ? path->len - at : (size_t)(dot - path->text) - at;
        struct jinja_value object = *out, step = path_step(path->text + at, len);
        TRY(jinja_item(run, &object, &step, out));
        at += len + 1;
    }
    return STATUS_OK;
}

/* What elements are ordered by. */
struct sort_by {
    const struct jinja_value *attribute;    /* UNDEFINED or NONE: the element itself */
    int case_sensitive;
    int reverse;
};

struct keyed {
    struct jinja_value key, value;
};

static enum status key_of(struct jinja_run *run, const struct sort_by *by, const struct jinja_value *value,
                          struct jinja_value *out)
{
    *out = *value;
    if (by->attribute->type != JINJA_UNDEFINED && by->attribute->type != JINJA_NONE)
        TRY(jinja_path(run, value, by->attribute, out));
    if (out->type != JINJA_STRING || by->case_sensitive)
        return STATUS_OK;
    struct jinja_value text = *out;
    size_t mark = jinja_mark(run);
    TRY(jinja_write_case(run, &text, JINJA_LOWER));
    return jinja_capture(run, mark, out);
}

static enum status keyed_elements(struct jinja_run *run, const struct jinja_value *value,
                                  const struct sort_by *by,
                                  struct keyed **out, size_t *n)
{
    struct jinja_list elements;
    void *memory;
    TRY(jinja_elements(run, value, &elements));
    TRY(jinja_take(run, elements.n * sizeof **out, &memory));
    *out = memory;
    *n = elements.n;
    for (size_t i = 0; i < elements.n; i++) {
        TRY(jinja_step(run, 1));
        (*out)[i].value = elements.at[i];
        TRY(key_of(run, by, &elements.at[i], &(*out)[i].key));
    }
    return STATUS_OK;
}

/* Merges from[low..middle) and from[middle..high) into to[low..high); equal keys
 * keep their order, also when it is reversed. */
static enum status merge(struct jinja_run *run, const struct keyed *from, struct keyed *to,
                         const size_t part[3],
                         int reverse)
{
    size_t a = part[0], b = part[1];
    for (size_t i = part[0]; i < part[2]; i++) {
        int order = 0;
        if (a < part[1] && b < part[2]) {
            TRY(jinja_step(run, 1));
            TRY(jinja_compare(run, &from[a].key, &from[b].key, &order));
            order = reverse ? -order : order;
        }
        int left = b >= part[2] || (a < part[1] && order <= 0);
        to[i] = left ? from[a++] : from[b++];
    }
    return STATUS_OK;
}

/* A merge sort from the bottom up; *elements may end up in its second half. */
static enum status sort(struct jinja_run *run, struct keyed **elements, size_t n, int reverse)
{
    void *memory;
    TRY(jinja_take(run, n * sizeof **elements, &memory));
    struct keyed *from = *elements, *to = memory;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t middle = low + width < n ? low + width : n;
            size_t high = middle + width < n ? middle + width : n;
            TRY(merge(run, from, to, (const size_t[3]){ low, middle, high }, reverse));
        }
        struct keyed *swap = from;
        from = to;
        to = swap;
    }
    *elements = from;
    return STATUS_OK;
}

static enum status sorted_list(struct jinja_run *run, const struct jinja_value *value,
                               const struct sort_by *by,
                               struct jinja_value *out)
{
    struct keyed *elements;
    size_t n;
    TRY(keyed_elements(run, value, by, &elements, &n));
    TRY(sort(run, &elements, n, by->reverse));
    TRY(jinja_list_create(run, JINJA_LIST, n, out));
    for (size_t i = 0; i < n; i++)
        TRY(jinja_list_push(run, out->list, elements[i].value));
    return STATUS_OK;
}

enum status jinja_filter_sort(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct sort_by by = { &call->argv[2], jinja_truth(&call->argv[1]), jinja_truth(&call->argv[0]) };
    return sorted_list(run, &call->self, &by, out);
}

enum status jinja_filter_dictsort(struct jinja_run *run, const struct jinja_call *call,
                                  struct jinja_value *out)
{
    const struct jinja_value place = jinja_int(jinja_is_text(&call->argv[1], "value"));
    const struct sort_by by = { &place, jinja_truth(&call->argv[0]), jinja_truth(&call->argv[2]) };
    struct jinja_value items;
    if (call->self.type != JINJA_DICT)
        return jinja_fail(run, "dictsort needs a mapping, not '%s'", jinja_type_name(&call->self));
    TRY(jinja_builtin_call(run, jinja_builtin_find(JINJA_DICT_METHOD, "items", 5), call->self,
                           &(struct jinja_arguments){ 0 }, &items));
    return sorted_list(run, &items, &by, out);
}

static enum status extreme(struct jinja_run *run, const struct jinja_call *call, int sign,
                           struct jinja_value *out)
{
    const struct sort_by by = { &call->argv[1], jinja_truth(&call->argv[0]), 0 };
    struct keyed *elements;
    size_t n, best = 0;
    TRY(keyed_elements(run, &call->self, &by, &elements, &n));
    for (size_t i = 1; i < n; i++) {
        int order;
        TRY(jinja_compare(run, &elements[i].key, &elements[best].key, &order));
        best = order * sign > 0 ? i : best;
    }
    *out = n == 0 ? jinja_undefined(NULL, 0) : elements[best].value;
    return STATUS_OK;
}

enum status jinja_filter_min(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return extreme(run, call, -1, out);
}

enum status jinja_filter_max(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return extreme(run, call, 1, out);
}

enum status jinja_filter_unique(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct sort_by by = { &call->argv[1], jinja_truth(&call->argv[0]), 0 };
    struct keyed *elements;
    struct jinja_value seen;
    size_t n;
    TRY(keyed_elements(run, &call->self, &by, &elements, &n));
    TRY(jinja_dict_create(run, JINJA_DICT, &seen));
    TRY(jinja_list_create(run, JINJA_LIST, 0, out));
    for (size_t i = 0; i < n; i++) {
        struct jinja_value *old;
        TRY(jinja_dict_find(run, seen.dict, &elements[i].key, &old));
        if (old != NULL)
            continue;
        TRY(jinja_dict_put(run, seen.dict, elements[i].key, jinja_none()));
        TRY(jinja_list_push(run, out->list, elements[i].value));
    }
    return STATUS_OK;
}

/* What map and the pickers walk over: anything false is nothing, even none. */
static enum status walked(struct jinja_run *run, const struct jinja_value *value, struct jinja_list *out)
{
    *out = (struct jinja_list){ 0 };
    return jinja_truth(value) ? jinja_elements(run, value, out) : STATUS_OK;
}

/* map(attribute="name", default=..): the fields of the elements. */
static enum status map_attribute(struct jinja_run *run, const struct jinja_call *call,
                                 struct jinja_list *elements,
                                 struct jinja_list *out)
{
    struct jinja_value path = jinja_undefined(NULL, 0), fallback = path;
    for (size_t i = 0; i < call->all->n_named; i++) {
        if (strcmp(call->all->names[i], "attribute") == 0)
            path = call->all->named[i];
        else if (strcmp(call->all->names[i], "default") == 0)
            fallback = call->all->named[i];
        else
            return jinja_fail(run, "map() has no parameter '%s'", call->all->names[i]);
    }
    for (size_t i = 0; i < elements->n; i++) {
        struct jinja_value field;
        TRY(jinja_step(run, 1));
        TRY(jinja_path(run, &elements->at[i], &path, &field));
        TRY(jinja_list_push(run, out, field.type == JINJA_UNDEFINED ? fallback : field));
    }
    return STATUS_OK;
}

/* The filter or test named by the argument at `place`, and the arguments after it. */
static enum status named_builtin(struct jinja_run *run, const struct jinja_call *call, size_t place,
                                 enum jinja_builtin_kind kind, const struct jinja_builtin **builtin,
                                 struct jinja_arguments *rest)
{
    const struct jinja_value *name = &call->all->positional[place];
    *builtin = name->type == JINJA_STRING ? jinja_builtin_find(kind, name->text, name->len) : NULL;
    if (*builtin == NULL)
        return jinja_fail(run, "there is no %s of that name", kind == JINJA_FILTER ? "filter" : "test");
    *rest = *call->all;
    rest->positional += place + 1;
    rest->n -= place + 1;
    return STATUS_OK;
}

enum status jinja_filter_map(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_builtin *filter;
    struct jinja_arguments rest;
    struct jinja_list elements;
    TRY(jinja_enter(run));
    TRY(walked(run, &call->self, &elements));
    TRY(jinja_list_create(run, JINJA_LIST, elements.n, out));
    if (call->all->n == 0) {
        TRY(map_attribute(run, call, &elements, out->list));
    } else {
        TRY(named_builtin(run, call, 0, JINJA_FILTER, &filter, &rest));
        for (size_t i = 0; i < elements.n; i++) {
            struct jinja_value mapped;
            TRY(jinja_builtin_call(run, filter, elements.at[i], &rest, &mapped));
            TRY(jinja_list_push(run, out->list, mapped));
        }
    }
    jinja_leave(run);
    return STATUS_OK;
}

/* Elements (or with has_path, whose field of that path) pass the test named after
 * it; without a test, those that are true. */
static enum status pick(struct jinja_run *run, const struct jinja_call *call, int has_path, int want,
                        struct jinja_value *out)
{
    const struct jinja_builtin *test = NULL;
    struct jinja_arguments rest;
    struct jinja_list elements;
    size_t place = (size_t)has_path;
    if (call->all->n < place)
        return jinja_fail(run, "selectattr and rejectattr need the name of an attribute");
    if (call->all->n > place)
        TRY(named_builtin(run, call, place, JINJA_TEST, &test, &rest));
    TRY(walked(run, &call->self, &elements));
    TRY(jinja_list_create(run, JINJA_LIST, 0, out));
    for (size_t i = 0; i < elements.n; i++) {
        struct jinja_value subject = elements.at[i];
        TRY(jinja_step(run, 1));
        if (has_path)
            TRY(jinja_path(run, &elements.at[i], &call->all->positional[0], &subject));
        if (test != NULL)
            TRY(jinja_builtin_call(run, test, subject, &rest, &subject));
        if (jinja_truth(&subject) == want)
            TRY(jinja_list_push(run, out->list, elements.at[i]));
    }
    return STATUS_OK;
}

enum status jinja_filter_select(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return pick(run, call, 0, 1, out);
}

enum status jinja_filter_reject(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return pick(run, call, 0, 0, out);
}

enum status jinja_filter_selectattr(struct jinja_run *run, const struct jinja_call *call,
                                    struct jinja_value *out)
{
    return pick(run, call, 1, 1, out);
}

enum status jinja_filter_rejectattr(struct jinja_run *run, const struct jinja_call *call,
                                    struct jinja_value *out)
{
    return pick(run, call, 1, 0, out);
}
