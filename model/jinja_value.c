#include "model/jinja_value.h"

#include "base/utf8.h"
#include "model/jinja_run.h"

#include <string.h>

#define SMALL_DICT 8            /* up to here a scan is as fast as an index */

struct jinja_value jinja_undefined(const char *name, size_t len)
{
    return (struct jinja_value){ .type = JINJA_UNDEFINED, .text = name, .len = len };
}

struct jinja_value jinja_none(void)
{
    return (struct jinja_value){ .type = JINJA_NONE };
}

struct jinja_value jinja_bool(int truth)
{
    return (struct jinja_value){ .type = JINJA_BOOL, .integer = truth != 0 };
}

struct jinja_value jinja_int(int64_t integer)
{
    return (struct jinja_value){ .type = JINJA_INT, .integer = integer };
}

struct jinja_value jinja_float(double number)
{
    return (struct jinja_value){ .type = JINJA_FLOAT, .number = number };
}

struct jinja_value jinja_string(const char *text, size_t len)
{
    return (struct jinja_value){ .type = JINJA_STRING, .text = text, .len = len };
}

struct jinja_value jinja_cstring(const char *text)
{
    return jinja_string(text, strlen(text));
}

const char *jinja_type_name(const struct jinja_value *value)
{
    static const char *const names[] = {
        [JINJA_UNDEFINED] = "undefined", [JINJA_NONE] = "NoneType", [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int", [JINJA_FLOAT] = "float", [JINJA_STRING] = "str", [JINJA_LIST] = "list",
        [JINJA_TUPLE] = "tuple", [JINJA_DICT] = "dict", [JINJA_NAMESPACE] = "Namespace",
        [JINJA_LOOP] = "LoopContext", [JINJA_MACRO] = "Macro", [JINJA_FUNCTION] = "function",
    };
    return names[value->type];
}

int jinja_truth(const struct jinja_value *value)
{
    switch (value->type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:      return 0;
    case JINJA_BOOL:
    case JINJA_INT:       return value->integer != 0;
    case JINJA_FLOAT:     return value->number < 0 || value->number > 0 || value->number != value->number;
    case JINJA_STRING:    return value->len > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:     return value->list->n > 0;
    case JINJA_DICT:      return value->dict->n > 0;
    case JINJA_NAMESPACE:
    case JINJA_LOOP:
    case JINJA_MACRO:
    case JINJA_FUNCTION:  return 1;
    }
    return 0;
}

int jinja_is_number(const struct jinja_value *value)
{
    return value->type == JINJA_BOOL || value->type == JINJA_INT || value->type == JINJA_FLOAT;
}

int jinja_is_text(const struct jinja_value *value, const char *text)
{
    size_t len = strlen(text);
    return value->type == JINJA_STRING && value->len == len && memcmp(value->text, text, len) == 0;
}

double jinja_number(const struct jinja_value *value)
{
    return value->type == JINJA_FLOAT ? value->number : (double)value->integer;
}

enum status jinja_list_create(struct jinja_run *run, enum jinja_type type, size_t room,
                              struct jinja_value *out)
{
    void *list, *at = NULL;
    TRY(jinja_take(run, sizeof(struct jinja_list), &list));
    if (room > SIZE_MAX / sizeof(struct jinja_value))
        return jinja_fail(run, "a list of %zu elements is too long", room);
    if (room > 0)
        TRY(jinja_take(run, room * sizeof(struct jinja_value), &at));
    *(struct jinja_list *)list = (struct jinja_list){ .at = at, .capacity = room };
    *out = (struct jinja_value){ .type = type, .list = list };
    return STATUS_OK;
}

/* A copy of n elements of `size` bytes in memory for twice as many. */
static enum status grow(struct jinja_run *run, const void *at, size_t n, size_t size, size_t *capacity,
                        void **out)
{
    size_t larger = *capacity == 0 ? 4 : *capacity * 2;
    if (larger > SIZE_MAX / 2 / size)
        return jinja_fail(run, "a collection of %zu elements is too long", n);
    TRY(jinja_take(run, larger * size, out));
    if (n > 0)
        memcpy(*out, at, n * size);
    *capacity = larger;
    return STATUS_OK;
}

enum status jinja_list_push(struct jinja_run *run, struct jinja_list *list, struct jinja_value value)
{
    if (list->n == list->capacity) {
        void *at;
        TRY(grow(run, list->at, list->n, sizeof value, &list->capacity, &at));
        list->at = at;
    }
    list->at[list->n++] = value;
    return STATUS_OK;
}

enum status jinja_dict_create(struct jinja_run *run, enum jinja_type type, struct jinja_value *out)
{
    void *dict;
    TRY(jinja_take(run, sizeof(struct jinja_dict), &dict));
    *out = (struct jinja_value){ .type = type, .dict = dict };
    return STATUS_OK;
}

/* Equal keys have equal hashes: every number is hashed as its double. */
static enum status hash(struct jinja_run *run, const struct jinja_value *key, uint64_t *out)
{
    uint64_t h = 1469598103934665603u;
    double number = jinja_is_number(key) ? jinja_number(key) + 0.0 : 0;     /* -0.0 becomes 0.0 */
    const unsigned char *bytes = (const unsigned char *)&number;
    size_t n = sizeof number;
    if (key->type == JINJA_LIST || key->type == JINJA_DICT)
        return jinja_fail(run, "unhashable type: '%s'", jinja_type_name(key));
    if (key->type == JINJA_STRING) {
        TRY(jinja_search(run, key->len));
        bytes = (const unsigned char *)key->text;
        n = key->len;
    }
    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    if (key->type == JINJA_TUPLE) {
        TRY(jinja_enter(run));
        for (size_t i = 0; i < key->list->n; i++) {
            uint64_t element;
            TRY(hash(run, &key->list->at[i], &element));
            h = (h ^ element) * 1099511628211u;
        }
        jinja_leave(run);
    }
    *out = h ^ h >> 32;
    return STATUS_OK;
}

/* The place in index of the entry with this key, or the empty place for it. */
static enum status probe(struct jinja_run *run, const struct jinja_dict *dict, const struct jinja_value *key,
                         size_t *out)
{
    uint64_t h;
    TRY(hash(run, key, &h));
    size_t place = (size_t)h & (dict->index_size - 1);
    while (dict->index[place] != 0) {
        int same;
        TRY(jinja_step(run, 1));
        TRY(jinja_equal(run, &dict->at[dict->index[place] - 1].key, key, &same));
        if (same)
            break;
        place = (place + 1) & (dict->index_size - 1);
    }
    *out = place;
    return STATUS_OK;
}

static enum status build_index(struct jinja_run *run, struct jinja_dict *dict)
{
    size_t size = 4 * SMALL_DICT;
    while (size < dict->n * 2)
        size *= 2;
    size *= 2;
    void *index;
    TRY(jinja_take(run, size * sizeof *dict->index, &index));
    dict->index = index;
    dict->index_size = size;
    for (size_t i = 0; i < dict->n; i++) {
        size_t place;
        TRY(probe(run, dict, &dict->at[i].key, &place));
        dict->index[place] = (uint32_t)(i + 1);
    }
    return STATUS_OK;
}

enum status jinja_dict_find(struct jinja_run *run, struct jinja_dict *dict, const struct jinja_value *key,
                            struct jinja_value **out)
{
    *out = NULL;
    if (dict->n <= SMALL_DICT) {
        uint64_t unused;
        if (key->type != JINJA_STRING)
            TRY(hash(run, key, &unused));       /* refuses what cannot be a key */
        for (size_t i = 0; i < dict->n && *out == NULL; i++) {
            int same;
            TRY(jinja_equal(run, &dict->at[i].key, key, &same));
            if (same)
                *out = &dict->at[i].value;
        }
        return STATUS_OK;
    }
    if (dict->index == NULL || dict->index_size < dict->n * 2)
        TRY(build_index(run, dict));
    size_t place;
    TRY(probe(run, dict, key, &place));
    if (dict->index[place] != 0)
        *out = &dict->at[dict->index[place] - 1].value;
    return STATUS_OK;
}

/* An entry whose key is known to be new. */
static enum status dict_append(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                               struct jinja_value value)
{
    if (dict->n == dict->capacity) {
        void *at;
        TRY(grow(run, dict->at, dict->n, sizeof *dict->at, &dict->capacity, &at));
        dict->at = at;
    }
    if (dict->n >= UINT32_MAX - 1)
        return jinja_fail(run, "a dict has too many entries");
    if (dict->index != NULL) {
        size_t place;
        TRY(probe(run, dict, &key, &place));
        dict->index[place] = (uint32_t)(dict->n + 1);
    }
    dict->at[dict->n++] = (struct jinja_entry){ .key = key, .value = value };
    return STATUS_OK;
}

enum status jinja_dict_put(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                           struct jinja_value value)
{
    struct jinja_value *old;
    TRY(jinja_dict_find(run, dict, &key, &old));
    if (old == NULL)
        return dict_append(run, dict, key, value);
    *old = value;
    return STATUS_OK;
}

void jinja_dict_remove(struct jinja_dict *dict, size_t position)
{
    memmove(dict->at + position, dict->at + position + 1, (dict->n - position - 1) * sizeof *dict->at);
    dict->n--;
    dict->index = NULL;
    dict->index_size = 0;
}

static enum status equal_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b,
                               int *out)
{
    *out = a->n == b->n;
    TRY(jinja_step(run, *out ? a->n / 4 : 0));
    for (size_t i = 0; i < a->n && *out; i++)
        TRY(jinja_equal(run, &a->at[i], &b->at[i], out));
    return STATUS_OK;
}

static enum status equal_dicts(struct jinja_run *run, const struct jinja_dict *a, struct jinja_dict *b,
                               int *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && *out; i++) {
        struct jinja_value *other;
        TRY(jinja_step(run, 1));
        TRY(jinja_dict_find(run, b, &a->at[i].key, &other));
        *out = other != NULL;
        if (other != NULL)
            TRY(jinja_equal(run, &a->at[i].value, other, out));
    }
    return STATUS_OK;
}

static int equal_numbers(const struct jinja_value *a, const struct jinja_value *b)
{
    if (a->type != JINJA_FLOAT && b->type != JINJA_FLOAT)
        return a->integer == b->integer;
    double x = jinja_number(a), y = jinja_number(b);
    return x <= y && x >= y;
}

enum status jinja_equal(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                        int *out)
{
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = equal_numbers(a, b);
        return STATUS_OK;
    }
    *out = 0;
    if (a->type != b->type)
        return STATUS_OK;
    switch (a->type) {
    case JINJA_STRING:
        TRY(jinja_scan(run, a->len));
        *out = a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
        return STATUS_OK;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        TRY(jinja_enter(run));
        TRY(jinja_step(run, 1));
        TRY(a->type == JINJA_DICT ? equal_dicts(run, a->dict, b->dict, out)
                                  : equal_lists(run, a->list, b->list, out));
        jinja_leave(run);
        return STATUS_OK;
    case JINJA_NAMESPACE: *out = a->dict == b->dict; return STATUS_OK;
    case JINJA_LOOP:      *out = a->loop == b->loop; return STATUS_OK;
    case JINJA_MACRO:     *out = a->macro == b->macro; return STATUS_OK;
    case JINJA_FUNCTION:  *out = a->function == b->function; return STATUS_OK;
    default:              *out = 1; return STATUS_OK;       /* undefined, none */
    }
}

static int compare_sizes(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

/* -1, 0 or 1.  The order of UTF-8 bytes is the order of the characters. */
static int compare_strings(const struct jinja_value *a, const struct jinja_value *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->text, b->text, n);
    return order != 0 ? (order > 0) - (order < 0) : compare_sizes(a->len, b->len);
}

static enum status compare_lists(struct jinja_run *run, const struct jinja_list *a,
                                 const struct jinja_list *b,
                                 int *out)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        int same;
        TRY(jinja_step(run, 1));
        TRY(jinja_equal(run, &a->at[i], &b->at[i], &same));
        if (!same)
            return jinja_compare(run, &a->at[i], &b->at[i], out);
    }
    *out = compare_sizes(a->n, b->n);
    return STATUS_OK;
}

enum status jinja_compare(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                          int *out)
{
    if (jinja_is_number(a) && jinja_is_number(b)) {
        double x = jinja_number(a), y = jinja_number(b);
        *out = (x > y) - (x < y);
        if (a->type != JINJA_FLOAT && b->type != JINJA_FLOAT)
            *out = (a->integer > b->integer) - (a->integer < b->integer);
        return STATUS_OK;
    }
    if (a->type == JINJA_STRING && b->type == JINJA_STRING) {
        TRY(jinja_scan(run, a->len));
        *out = compare_strings(a, b);
        return STATUS_OK;
    }
    if (a->type == b->type && (a->type == JINJA_LIST || a->type == JINJA_TUPLE)) {
        TRY(jinja_enter(run));
        TRY(compare_lists(run, a->list, b->list, out));
        jinja_leave(run);
        return STATUS_OK;
    }
    return jinja_fail(run, "'%s' and '%s' have no order", jinja_type_name(a), jinja_type_name(b));
}

enum status jinja_contains(struct jinja_run *run, const struct jinja_value *box,
                           const struct jinja_value *item,
                           int *out)
{
    struct jinja_value *found;
    *out = 0;
    switch (box->type) {
    case JINJA_UNDEFINED:
        return STATUS_OK;
    case JINJA_STRING:
        if (item->type != JINJA_STRING)
            return jinja_fail(run, "'in <string>' needs a string on its left, not '%s'",
                              jinja_type_name(item));
        TRY(jinja_search(run, box->len));
        *out = item->len == 0 || memmem(box->text, box->len, item->text, item->len) != NULL;
        return STATUS_OK;
    case JINJA_LIST:
    case JINJA_TUPLE:
        TRY(jinja_step(run, box->list->n / 4));
        for (size_t i = 0; i < box->list->n && !*out; i++)
            TRY(jinja_equal(run, &box->list->at[i], item, out));
        return STATUS_OK;
    case JINJA_DICT:
        TRY(jinja_dict_find(run, box->dict, item, &found));
        *out = found != NULL;
        return STATUS_OK;
    default:
        return jinja_fail(run, "argument of type '%s' cannot be searched with 'in'", jinja_type_name(box));
    }
}

static enum status characters(struct jinja_run *run, const struct jinja_value *text, struct jinja_list *out)
{
    TRY(jinja_spell(run, text->len));
    for (size_t at = 0; at < text->len;) {
        size_t n = utf8_sequence_length(text->text + at, text->len - at);
        n = n == 0 ? 1 : n;
        TRY(jinja_list_push(run, out, jinja_string(text->text + at, n)));
        at += n;
    }
    return STATUS_OK;
}

enum status jinja_elements(struct jinja_run *run, const struct jinja_value *value, struct jinja_list *out)
{
    *out = (struct jinja_list){ 0 };
    switch (value->type) {
    case JINJA_UNDEFINED:
        return STATUS_OK;
    case JINJA_LIST:
    case JINJA_TUPLE:
        *out = *value->list;
        return STATUS_OK;
    case JINJA_STRING:
        return characters(run, value, out);
    case JINJA_DICT:
        for (size_t i = 0; i < value->dict->n; i++)
            TRY(jinja_list_push(run, out, value->dict->at[i].key));
        return STATUS_OK;
    default:
        return jinja_fail(run, "'%s' object is not iterable", jinja_type_name(value));
    }
}

static enum status from_array(struct jinja_run *run, const json_t *json, struct jinja_value *out)
{
    TRY(jinja_list_create(run, JINJA_LIST, json_array_size(json), out));
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct jinja_value element;
        TRY(jinja_from_json(run, json_array_get(json, i), &element));
        TRY(jinja_list_push(run, out->list, element));
    }
    return STATUS_OK;
}

static enum status from_object(struct jinja_run *run, const json_t *json, struct jinja_value *out)
{
    const char *key;
    json_t *field;
    TRY(jinja_dict_create(run, JINJA_DICT, out));
    json_object_foreach((json_t *)json, key, field) {
        struct jinja_value value;
        TRY(jinja_from_json(run, field, &value));
        TRY(dict_append(run, out->dict, jinja_cstring(key), value));
    }
    return STATUS_OK;
}

enum status jinja_from_json(struct jinja_run *run, const json_t *json, struct jinja_value *out)
{
    TRY(jinja_enter(run));
    switch (json_typeof(json)) {
    case JSON_OBJECT:  TRY(from_object(run, json, out)); break;
    case JSON_ARRAY:   TRY(from_array(run, json, out)); break;
    case JSON_STRING:  *out = jinja_string(json_string_value(json), json_string_length(json)); break;
    case JSON_INTEGER: *out = jinja_int(json_integer_value(json)); break;
    case JSON_REAL:    *out = jinja_float(json_real_value(json)); break;
    case JSON_TRUE:
    case JSON_FALSE:   *out = jinja_bool(json_is_true(json)); break;
    case JSON_NULL:    *out = jinja_none(); break;
    }
    jinja_leave(run);
    return STATUS_OK;
}
