#include "model/jinja_builtins.h"
#include "model/jinja_operators.h"
#include "model/jinja_run.h"
#include "model/jinja_sort.h"
#include "model/jinja_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every filter has this shape, so only its name is written out. */
#define FILTER(name)                                                                                \
    static enum status filter_##name(struct jinja_run *run, const struct jinja_call *call,          \
                                     struct jinja_value *out)

FILTER(same)
{
    (void)run;
    *out = call->self;
    return STATUS_OK;
}

FILTER(string)
{
    return jinja_to_string(run, &call->self, out);
}

FILTER(default)
{
    (void)run;
    int missing = call->self.type == JINJA_UNDEFINED || (jinja_truth(&call->argv[1]) &&
                                                         !jinja_truth(&call->self));
    *out = !missing ? call->self : call->argv[0].type == JINJA_UNDEFINED ? jinja_cstring("") : call->argv[0];
    return STATUS_OK;
}

FILTER(length)
{
    size_t n;
    TRY(jinja_length(run, &call->self, &n));
    *out = jinja_int((int64_t)n);
    return STATUS_OK;
}

static enum status edge(struct jinja_run *run, const struct jinja_value *value, int last,
                        struct jinja_value *out)
{
    struct jinja_list elements;
    TRY(jinja_elements(run, value, &elements));
    *out = elements.n == 0 ? jinja_undefined(NULL, 0) : elements.at[last ? elements.n - 1 : 0];
    return STATUS_OK;
}

FILTER(first)
{
    return edge(run, &call->self, 0, out);
}

FILTER(last)
{
    return edge(run, &call->self, 1, out);
}

FILTER(list)
{
    struct jinja_list elements;
    TRY(jinja_elements(run, &call->self, &elements));
    TRY(jinja_list_create(run, JINJA_LIST, elements.n, out));
    for (size_t i = 0; i < elements.n; i++)
        TRY(jinja_list_push(run, out->list, elements.at[i]));
    return STATUS_OK;
}

FILTER(reverse)
{
    const struct jinja_slice backwards = { jinja_none(), jinja_none(), jinja_int(-1) };
    struct jinja_value elements = call->self;
    if (elements.type != JINJA_STRING)
        TRY(filter_list(run, call, &elements));
    return jinja_slice(run, &elements, &backwards, out);
}

FILTER(items)
{
    if (call->self.type == JINJA_UNDEFINED)
        return jinja_list_create(run, JINJA_LIST, 0, out);
    if (call->self.type != JINJA_DICT)
        return jinja_fail(run, "items needs a mapping, not '%s'", jinja_type_name(&call->self));
    return jinja_builtin_call(run, jinja_builtin_find(JINJA_DICT_METHOD, "items", 5), call->self,
                              &(struct jinja_arguments){ 0 }, out);
}

FILTER(trim)
{
    struct jinja_value text, set = call->argv[0];
    TRY(jinja_to_string(run, &call->self, &text));
    TRY(jinja_want_string(run, &call->argv[0], &set));
    return jinja_strip(run, text, set.type == JINJA_STRING ? &set : NULL, JINJA_BOTH, out);
}

static enum status map_case(struct jinja_run *run, const struct jinja_value *value, enum jinja_case to,
                            struct jinja_value *out)
{
    struct jinja_value text;
    TRY(jinja_to_string(run, value, &text));
    size_t mark = jinja_mark(run);
    TRY(jinja_write_case(run, &text, to));
    return jinja_capture(run, mark, out);
}

FILTER(lower)
{
    return map_case(run, &call->self, JINJA_LOWER, out);
}

FILTER(upper)
{
    return map_case(run, &call->self, JINJA_UPPER, out);
}

FILTER(title)
{
    return map_case(run, &call->self, JINJA_TITLE, out);
}

FILTER(capitalize)
{
    return map_case(run, &call->self, JINJA_CAPITAL, out);
}

FILTER(replace)
{
    struct jinja_call method = *call;
    struct jinja_value parts[2];
    TRY(jinja_to_string(run, &call->self, &method.self));
    TRY(jinja_to_string(run, &call->argv[0], &parts[0]));
    TRY(jinja_to_string(run, &call->argv[1], &parts[1]));
    method.argv[0] = parts[0];
    method.argv[1] = parts[1];
    return jinja_builtin_find(JINJA_STRING_METHOD, "replace", 7)->run(run, &method, out);
}

FILTER(join)
{
    struct jinja_list elements;
    size_t mark = jinja_mark(run);
    TRY(jinja_elements(run, &call->self, &elements));
    for (size_t i = 0; i < elements.n; i++) {
        struct jinja_value element = elements.at[i];
        TRY(jinja_step(run, 1));
        if (i > 0)
            TRY(jinja_write_str(run, &call->argv[0]));
        if (call->argv[1].type != JINJA_UNDEFINED)
            TRY(jinja_path(run, &element, &call->argv[1], &element));
        TRY(jinja_write_str(run, &element));
    }
    return jinja_capture(run, mark, out);
}

/* The amount of one level: a number of spaces, or the text itself. */
static enum status indentation(struct jinja_run *run, const struct jinja_value *width, int64_t spaces,
                               struct jinja_value *out)
{
    const struct jinja_value space = jinja_string(" ", 1);
    *out = *width;
    if (width->type == JINJA_STRING)
        return STATUS_OK;
    TRY(jinja_want_int(run, width, &spaces));
    const struct jinja_value times = jinja_int(spaces);
    return jinja_operate(run, '*', &space, &times, out);
}

FILTER(indent)
{
    struct jinja_value text, margin;
    int first = jinja_truth(&call->argv[1]), blank = jinja_truth(&call->argv[2]);
    TRY(jinja_to_string(run, &call->self, &text));
    TRY(indentation(run, &call->argv[0], 4, &margin));
    size_t mark = jinja_mark(run);
    for (size_t at = 0, n = 0; at <= text.len; n++) {
        const char *end = at < text.len ? memchr(text.text + at, '\n', text.len - at) : NULL;
        size_t len = end == NULL ? text.len - at : (size_t)(end - text.text) - at;
        TRY(jinja_step(run, 1));
        if (n == 0 ? first : blank || len > 0)
            TRY(jinja_write(run, margin.text, margin.len));
        TRY(jinja_write(run, text.text + at, len + (end != NULL)));
        at += len + 1;
    }
    return jinja_capture(run, mark, out);
}

/* Python's json.dumps, as the environment of chat templates has it. */
FILTER(tojson)
{
    struct jinja_json_style style = { .ascii = jinja_truth(&call->argv[0]),
                                      .sort_keys = jinja_truth(&call->argv[3]),
                                      .item = jinja_cstring(", "), .key = jinja_cstring(": ") };
    struct jinja_value margin;
    const struct jinja_value *separators = &call->argv[2];
    if (call->argv[1].type != JINJA_UNDEFINED && call->argv[1].type != JINJA_NONE) {
        TRY(indentation(run, &call->argv[1], 0, &margin));
        style.indent = &margin;
        style.item = jinja_cstring(",");
    }
    if (separators->type == JINJA_LIST || separators->type == JINJA_TUPLE) {
        if (separators->list->n != 2)
            return jinja_fail(run, "tojson needs two separators, got %zu", separators->list->n);
        TRY(jinja_want_string(run, &separators->list->at[0], &style.item));
        TRY(jinja_want_string(run, &separators->list->at[1], &style.key));
    }
    size_t mark = jinja_mark(run);
    TRY(jinja_write_json(run, &call->self, &style));
    return jinja_capture(run, mark, out);
}

FILTER(escape)
{
    static const struct { char c; const char *entity; } entities[] = {
        { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&#34;" }, { '\'', "&#39;" },
    };
    struct jinja_value text;
    TRY(jinja_to_string(run, &call->self, &text));
    size_t mark = jinja_mark(run);
    TRY(jinja_spell(run, text.len));
    for (size_t i = 0; i < text.len; i++) {
        const char *entity = NULL;
        for (size_t j = 0; j < sizeof entities / sizeof entities[0]; j++)
            if (entities[j].c == text.text[i])
                entity = entities[j].entity;
        TRY(entity == NULL ? jinja_write(run, text.text + i, 1) : jinja_write_text(run, entity));
    }
    return jinja_capture(run, mark, out);
}

FILTER(abs)
{
    const struct jinja_value zero = jinja_int(0);
    int order;
    TRY(jinja_compare(run, &call->self, &zero, &order));
    *out = call->self;
    return order < 0 ? jinja_negate(run, &call->self, out) : STATUS_OK;
}

/* The number a string spells, all of it but for blanks around; 0 if it is none. */
static int parse_number(const struct jinja_value *text, int base, int whole, struct jinja_value *out)
{
    char digits[64], *end;
    struct jinja_value core = jinja_text_strip(*text, NULL, JINJA_BOTH);
    if (core.len == 0 || core.len >= sizeof digits || memchr(core.text, '\0', core.len) != NULL)
        return 0;
    memcpy(digits, core.text, core.len);
    digits[core.len] = '\0';
    errno = 0;
    if (whole)
        *out = jinja_int(strtoll(digits, &end, base));
    else
        *out = jinja_float(strtod(digits, &end));
    return *end == '\0' && (errno == 0 || !whole) && strpbrk(digits, "xXpP") == NULL;
}

FILTER(int)
{
    struct jinja_value number = call->self, whole;
    int64_t base = 10;
    *out = call->argv[0].type == JINJA_UNDEFINED ? jinja_int(0) : call->argv[0];
    TRY(jinja_want_int(run, &call->argv[1], &base));
    if (base < 2 || base > 36)
        return jinja_fail(run, "int has bases from 2 to 36, not %lld", (long long)base);
    if (number.type == JINJA_STRING && parse_number(&number, (int)base, 1, &whole)) {
        *out = whole;
        return STATUS_OK;
    }
    if (number.type == JINJA_STRING && (base != 10 || !parse_number(&call->self, 10, 0, &number)))
        return STATUS_OK;
    if (number.type == JINJA_FLOAT && fabs(number.number) < 9.2e18)
        *out = jinja_int((int64_t)number.number);
    else if (number.type == JINJA_INT || number.type == JINJA_BOOL)
        *out = jinja_int(number.integer);
    return STATUS_OK;
}

FILTER(float)
{
    (void)run;
    struct jinja_value number;
    *out = call->argv[0].type == JINJA_UNDEFINED ? jinja_float(0) : call->argv[0];
    if (jinja_is_number(&call->self))
        *out = jinja_float(jinja_number(&call->self));
    else if (call->self.type == JINJA_STRING && parse_number(&call->self, 10, 0, &number))
        *out = number;
    return STATUS_OK;
}

FILTER(round)
{
    int64_t digits = 0;
    struct jinja_value method = jinja_cstring("common");
    if (!jinja_is_number(&call->self))
        return jinja_fail(run, "round needs a number, not '%s'", jinja_type_name(&call->self));
    TRY(jinja_want_int(run, &call->argv[0], &digits));
    TRY(jinja_want_string(run, &call->argv[1], &method));
    if (digits < -300 || digits > 300)
        return jinja_fail(run, "round has from -300 to 300 digits, not %lld", (long long)digits);
    if (call->self.type == JINJA_INT && digits >= 0 && jinja_is_text(&method, "common")) {
        *out = call->self;
        return STATUS_OK;
    }
    double scale = pow(10, (double)digits), number = jinja_number(&call->self) * scale;
    if (jinja_is_text(&method, "ceil"))
        number = ceil(number);
    else
        number = jinja_is_text(&method, "floor") ? floor(number) : nearbyint(number);
    *out = jinja_float(number / scale);
    return STATUS_OK;
}

FILTER(sum)
{
    struct jinja_list elements;
    TRY(jinja_elements(run, &call->self, &elements));
    *out = call->argv[1].type == JINJA_UNDEFINED ? jinja_int(0) : call->argv[1];
    for (size_t i = 0; i < elements.n; i++) {
        struct jinja_value element = elements.at[i];
        TRY(jinja_step(run, 1));
        if (call->argv[0].type != JINJA_UNDEFINED && call->argv[0].type != JINJA_NONE)
            TRY(jinja_path(run, &element, &call->argv[0], &element));
        TRY(jinja_operate(run, '+', out, &element, out));
    }
    return STATUS_OK;
}

FILTER(wordcount)
{
    struct jinja_value text;
    int64_t words = 0;
    int in_word = 0;
    TRY(jinja_to_string(run, &call->self, &text));
    TRY(jinja_spell(run, text.len));
    for (size_t at = 0, bytes; at < text.len; at += bytes) {
        int blank = jinja_text_is_blank(jinja_text_char(text.text + at, text.len - at, &bytes));
        words += !blank && !in_word;
        in_word = !blank;
    }
    *out = jinja_int(words);
    return STATUS_OK;
}

FILTER(attr)
{
    struct jinja_value name = jinja_cstring("");
    TRY(jinja_want_string(run, &call->argv[0], &name));
    return jinja_attribute(run, &call->self, name, out);
}

static const struct jinja_builtin rows[] = {
    { "abs", .run = filter_abs },
    { "attr", { "name" }, .required = 1, .run = filter_attr },
    { "capitalize", .run = filter_capitalize },
    { "count", .run = filter_length },
    { "d", { "default_value", "boolean" }, .run = filter_default },
    { "default", { "default_value", "boolean" }, .run = filter_default },
    { "dictsort", { "case_sensitive", "by", "reverse" }, .run = jinja_filter_dictsort },
    { "e", .run = filter_escape },
    { "escape", .run = filter_escape },
    { "first", .run = filter_first },
    { "float", { "default" }, .run = filter_float },
    { "forceescape", .run = filter_escape },
    { "indent", { "width", "first", "blank" }, .run = filter_indent },
    { "int", { "default", "base" }, .run = filter_int },
    { "items", .run = filter_items },
    { "join", { "d", "attribute" }, .run = filter_join },
    { "last", .run = filter_last },
    { "length", .run = filter_length },
    { "list", .run = filter_list },
    { "lower", .run = filter_lower },
    { "map", .any = 1, .run = jinja_filter_map },
    { "max", { "case_sensitive", "attribute" }, .run = jinja_filter_max },
    { "min", { "case_sensitive", "attribute" }, .run = jinja_filter_min },
    { "reject", .any = 1, .run = jinja_filter_reject },
    { "rejectattr", .any = 1, .run = jinja_filter_rejectattr },
    { "replace", { "old", "new", "count" }, .required = 2, .run = filter_replace },
    { "reverse", .run = filter_reverse },
    { "round", { "precision", "method" }, .run = filter_round },
    { "safe", .run = filter_same },
    { "select", .any = 1, .run = jinja_filter_select },
    { "selectattr", .any = 1, .run = jinja_filter_selectattr },
    { "sort", { "reverse", "case_sensitive", "attribute" }, .run = jinja_filter_sort },
    { "string", .run = filter_string },
    { "sum", { "attribute", "start" }, .run = filter_sum },
    { "title", .run = filter_title },
    { "tojson", { "ensure_ascii", "indent", "separators", "sort_keys" }, .run = filter_tojson },
    { "trim", { "chars" }, .run = filter_trim },
    { "unique", { "case_sensitive", "attribute" }, .run = jinja_filter_unique },
    { "upper", .run = filter_upper },
    { "wordcount", .run = filter_wordcount },
};

const struct jinja_builtin_table jinja_filters = { rows, sizeof rows / sizeof rows[0] };
