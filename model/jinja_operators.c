#include "model/jinja_operators.h"

#include "model/jinja_builtins.h"
#include "model/jinja_lex.h"
#include "model/jinja_node.h"
#include "model/jinja_run.h"
#include "model/jinja_text.h"

#include <math.h>
#include <string.h>

static enum status mismatch(struct jinja_run *run, const char *what, const struct jinja_value *a,
                            const struct jinja_value *b)
{
    const struct jinja_value *undefined = a->type == JINJA_UNDEFINED ? a : b;
    if (undefined->type == JINJA_UNDEFINED && undefined->text != NULL)
        return jinja_fail(run, "'%.*s' is undefined", (int)(undefined->len < 80 ? undefined->len : 80),
                          undefined->text);
    return jinja_fail(run, "%s does not go with '%s' and '%s'", what, jinja_type_name(a), jinja_type_name(b));
}

static enum status concatenate(struct jinja_run *run, const struct jinja_value *a,
                               const struct jinja_value *b,
                               struct jinja_value *out)
{
    if (a->type == JINJA_STRING) {
        size_t mark = jinja_mark(run);
        TRY(jinja_write(run, a->text, a->len));
        TRY(jinja_write(run, b->text, b->len));
        return jinja_capture(run, mark, out);
    }
    TRY(jinja_list_create(run, a->type, a->list->n + b->list->n, out));
    for (size_t i = 0; i < a->list->n; i++)
        TRY(jinja_list_push(run, out->list, a->list->at[i]));
    for (size_t i = 0; i < b->list->n; i++)
        TRY(jinja_list_push(run, out->list, b->list->at[i]));
    return STATUS_OK;
}

static enum status repeat(struct jinja_run *run, const struct jinja_value *what, int64_t times,
                          struct jinja_value *out)
{
    size_t mark = jinja_mark(run);
    if (what->type == JINJA_STRING) {
        for (int64_t i = 0; i < times && what->len > 0; i++) {
            TRY(jinja_step(run, 1));
            TRY(jinja_write(run, what->text, what->len));
        }
        return jinja_capture(run, mark, out);
    }
    TRY(jinja_list_create(run, what->type, 0, out));
    for (int64_t i = 0; i < times && what->list->n > 0; i++)
        for (size_t j = 0; j < what->list->n; j++) {
            TRY(jinja_step(run, 1));
            TRY(jinja_list_push(run, out->list, what->list->at[j]));
        }
    return STATUS_OK;
}

static enum status power(struct jinja_run *run, int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    int overflow = 0;
    while (exponent > 0 && !overflow) {
        if (exponent & 1)
            overflow = __builtin_mul_overflow(result, base, &result);
        exponent >>= 1;
        if (exponent > 0)
            overflow |= __builtin_mul_overflow(base, base, &base);
    }
    if (overflow)
        return jinja_fail(run, "the result of ** does not fit 64 bits");
    *out = result;
    return STATUS_OK;
}

/* Division rounds down and the remainder has the sign of the divisor. */
static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static enum status operate_ints(struct jinja_run *run, int op, int64_t a, int64_t b, struct jinja_value *out)
{
    int64_t result = 0;
    int overflow = 0;
    switch (op) {
    case '+': overflow = __builtin_add_overflow(a, b, &result); break;
    case '-': overflow = __builtin_sub_overflow(a, b, &result); break;
    case '*': overflow = __builtin_mul_overflow(a, b, &result); break;
    case JINJA_OP('*', '*'):
        TRY(power(run, a, b, &result));
        break;
    default:
        overflow = a == INT64_MIN && b == -1;
        if (!overflow)
            result = op == '%' ? a - b * floor_divide(a, b) : floor_divide(a, b);
    }
    if (overflow)
        return jinja_fail(run, "an integer does not fit 64 bits");
    *out = jinja_int(result);
    return STATUS_OK;
}

static double operate_floats(int op, double a, double b)
{
    switch (op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return a / b;
    case '%': return a - b * floor(a / b);
    case JINJA_OP('/', '/'): return floor(a / b);
    default:  return pow(a, b);
    }
}

static enum status operate_numbers(struct jinja_run *run, int op, const struct jinja_value *a,
                                   const struct jinja_value *b, struct jinja_value *out)
{
    int divides = op == '/' || op == '%' || op == JINJA_OP('/', '/');
    int whole = a->type != JINJA_FLOAT && b->type != JINJA_FLOAT && op != '/';
    if (divides && !jinja_truth(b))
        return jinja_fail(run, "division by zero");
    if (whole && !(op == JINJA_OP('*', '*') && b->integer < 0))
        return operate_ints(run, op, a->integer, b->integer, out);
    *out = jinja_float(operate_floats(op, jinja_number(a), jinja_number(b)));
    return STATUS_OK;
}

enum status jinja_operate(struct jinja_run *run, int op, const struct jinja_value *a,
                          const struct jinja_value *b,
                          struct jinja_value *out)
{
    int a_joins = a->type == JINJA_STRING || a->type == JINJA_LIST || a->type == JINJA_TUPLE;
    int b_joins = b->type == JINJA_STRING || b->type == JINJA_LIST || b->type == JINJA_TUPLE;
    if (jinja_is_number(a) && jinja_is_number(b))
        return operate_numbers(run, op, a, b, out);
    if (op == '+' && a_joins && a->type == b->type)
        return concatenate(run, a, b, out);
    if (op == '*' && a_joins && (b->type == JINJA_INT || b->type == JINJA_BOOL))
        return repeat(run, a, b->integer, out);
    if (op == '*' && b_joins && (a->type == JINJA_INT || a->type == JINJA_BOOL))
        return repeat(run, b, a->integer, out);
    char text[3] = { (char)(op > 255 ? op >> 8 : op), (char)(op > 255 ? op & 255 : 0), 0 };
    return mismatch(run, text, a, b);
}

enum status jinja_negate(struct jinja_run *run, const struct jinja_value *a, struct jinja_value *out)
{
    const struct jinja_value zero = jinja_int(0);
    if (!jinja_is_number(a))
        return mismatch(run, "-", a, a);
    if (a->type == JINJA_FLOAT) {
        *out = jinja_float(-a->number);
        return STATUS_OK;
    }
    return jinja_operate(run, '-', &zero, a, out);
}

enum status jinja_test_operator(struct jinja_run *run, int op, const struct jinja_value *a,
                                const struct jinja_value *b, int *out)
{
    int order = 0;
    if (op == JINJA_OP_IN || op == JINJA_OP_NOT_IN) {
        TRY(jinja_contains(run, b, a, out));
        *out ^= op == JINJA_OP_NOT_IN;
        return STATUS_OK;
    }
    if (op == JINJA_OP('=', '=') || op == JINJA_OP('!', '=')) {
        TRY(jinja_equal(run, a, b, out));
        *out ^= op == JINJA_OP('!', '=');
        return STATUS_OK;
    }
    if (a->type == JINJA_UNDEFINED || b->type == JINJA_UNDEFINED)
        return mismatch(run, "a comparison", a, b);
    TRY(jinja_compare(run, a, b, &order));
    *out = op == '<' ? order < 0 : op == '>' ? order > 0 : op == JINJA_OP('<', '=') ? order <= 0 : order >= 0;
    return STATUS_OK;
}

static enum status bind_method(struct jinja_run *run, const struct jinja_builtin *builtin,
                               const struct jinja_value *self, struct jinja_value *out)
{
    void *memory;
    TRY(jinja_take(run, sizeof(struct jinja_function), &memory));
    struct jinja_function *function = memory;
    *function = (struct jinja_function){ .builtin = builtin, .self = *self };
    *out = (struct jinja_value){ .type = JINJA_FUNCTION, .function = function };
    return STATUS_OK;
}

/* The fields of "loop". */
static int loop_field(const struct jinja_loop *loop, struct jinja_value name, struct jinja_value *out)
{
    const int64_t index0 = (int64_t)loop->index0, n = (int64_t)loop->n;
    const struct { const char *name; struct jinja_value value; } fields[] = {
        { "index", jinja_int(index0 + 1) },       { "index0", jinja_int(index0) },
        { "revindex", jinja_int(n - index0) },    { "revindex0", jinja_int(n - index0 - 1) },
        { "first", jinja_bool(index0 == 0) },     { "last", jinja_bool(index0 == n - 1) },
        { "length", jinja_int(n) },               { "depth", jinja_int(1) },
        { "depth0", jinja_int(0) },
        { "previtem", index0 > 0 ? loop->items[index0 - 1] : jinja_undefined("loop.previtem", 13) },
        { "nextitem", index0 + 1 < n ? loop->items[index0 + 1] : jinja_undefined("loop.nextitem", 13) },
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (jinja_is_text(&name, fields[i].name)) {
            *out = fields[i].value;
            return 1;
        }
    }
    return 0;
}

/* *found says whether out was set. */
static enum status method(struct jinja_run *run, const struct jinja_value *object, struct jinja_value name,
                          struct jinja_value *out, int *found)
{
    static const struct { enum jinja_type type; enum jinja_builtin_kind kind; } rows[] = {
        { JINJA_STRING, JINJA_STRING_METHOD }, { JINJA_LIST, JINJA_LIST_METHOD },
        { JINJA_TUPLE, JINJA_LIST_METHOD },    { JINJA_DICT, JINJA_DICT_METHOD },
        { JINJA_LOOP, JINJA_LOOP_METHOD },
    };
    const struct jinja_builtin *builtin = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].type == object->type)
            builtin = jinja_builtin_find(rows[i].kind, name.text, name.len);
    *found = builtin != NULL;
    return builtin == NULL ? STATUS_OK : bind_method(run, builtin, object, out);
}

static enum status field(struct jinja_run *run, const struct jinja_value *object,
                         const struct jinja_value *key,
                         struct jinja_value *out, int *found)
{
    struct jinja_value *value = NULL;
    *found = 0;
    if (key->type == JINJA_LIST || key->type == JINJA_DICT)
        return STATUS_OK;
    TRY(jinja_dict_find(run, object->dict, key, &value));
    *found = value != NULL;
    if (value != NULL)
        *out = *value;
    return STATUS_OK;
}

enum status jinja_attribute(struct jinja_run *run, const struct jinja_value *object, struct jinja_value name,
                            struct jinja_value *out)
{
    int found;
    if (object->type == JINJA_UNDEFINED)
        return mismatch(run, "an attribute", object, object);
    TRY(method(run, object, name, out, &found));
    if (!found && (object->type == JINJA_DICT || object->type == JINJA_NAMESPACE))
        TRY(field(run, object, &name, out, &found));
    if (!found && object->type == JINJA_LOOP)
        found = loop_field(object->loop, name, out);
    if (!found)
        *out = jinja_undefined(name.text, name.len);
    return STATUS_OK;
}

static int element(const struct jinja_value *object, int64_t index, struct jinja_value *out)
{
    size_t n = object->type == JINJA_STRING ? jinja_text_count(object->text, object->len) : object->list->n;
    if (index < 0)
        index += (int64_t)n;
    if (index < 0 || (size_t)index >= n)
        return 0;
    if (object->type != JINJA_STRING) {
        *out = object->list->at[index];
        return 1;
    }
    size_t at = jinja_text_offset(object->text, object->len, (size_t)index);
    *out = jinja_string(object->text + at, jinja_text_offset(object->text + at, object->len - at, 1));
    return 1;
}

enum status jinja_item(struct jinja_run *run, const struct jinja_value *object,
                       const struct jinja_value *index,
                       struct jinja_value *out)
{
    int found = 0;
    if (object->type == JINJA_UNDEFINED)
        return mismatch(run, "[..]", object, object);
    if (object->type == JINJA_DICT)
        TRY(field(run, object, index, out, &found));
    if (object->type == JINJA_STRING)
        TRY(jinja_spell(run, object->len));
    int ordered = object->type == JINJA_STRING || object->type == JINJA_LIST || object->type == JINJA_TUPLE;
    if (ordered && (index->type == JINJA_INT || index->type == JINJA_BOOL))
        found = element(object, index->integer, out);
    if (found)
        return STATUS_OK;
    if (index->type == JINJA_STRING)
        return jinja_attribute(run, object, *index, out);
    *out = jinja_undefined(NULL, 0);
    return STATUS_OK;
}

/* A bound of a slice over n elements, moved into low .. high. */
static enum status bound(struct jinja_run *run, const struct jinja_value *value, int64_t n,
                         const int64_t range[2],
                         int64_t *out)
{
    if (value->type == JINJA_NONE)
        return STATUS_OK;
    if (value->type != JINJA_INT && value->type != JINJA_BOOL)
        return jinja_fail(run, "the bounds of a slice must be integers, not '%s'", jinja_type_name(value));
    int64_t at = value->integer < 0 ? value->integer + n : value->integer;
    *out = at < range[0] ? range[0] : at > range[1] ? range[1] : at;
    return STATUS_OK;
}

static enum status slice_bounds(struct jinja_run *run, const struct jinja_slice *slice, int64_t n,
                                int64_t *start,
                                int64_t *stop, int64_t *step)
{
    *step = 1;
    if (slice->step.type != JINJA_NONE)
        TRY(jinja_want_int(run, &slice->step, step));
    if (*step == 0)
        return jinja_fail(run, "the step of a slice is zero");
    if (*step < -n - 1 || *step > n + 1)
        *step = *step < 0 ? -n - 1 : n + 1;     /* one element either way, and no overflow */
    const int64_t range[2] = { *step > 0 ? 0 : -1, *step > 0 ? n : n - 1 };
    *start = *step > 0 ? range[0] : range[1];
    *stop = *step > 0 ? range[1] : range[0];
    TRY(bound(run, &slice->start, n, range, start));
    return bound(run, &slice->stop, n, range, stop);
}

static enum status slice_text(struct jinja_run *run, const struct jinja_value *text, const int64_t part[2],
                              struct jinja_value *out)
{
    size_t from = jinja_text_offset(text->text, text->len, (size_t)part[0]);
    size_t n = part[1] > part[0] ? (size_t)(part[1] - part[0]) : 0;
    TRY(jinja_spell(run, text->len));
    *out = jinja_string(text->text + from, jinja_text_offset(text->text + from, text->len - from, n));
    return STATUS_OK;
}

enum status jinja_slice(struct jinja_run *run, const struct jinja_value *object,
                        const struct jinja_slice *slice,
                        struct jinja_value *out)
{
    int64_t part[2], step;
    struct jinja_list elements;
    size_t n;
    if (object->type == JINJA_UNDEFINED)
        return mismatch(run, "a slice", object, object);
    if (object->type != JINJA_STRING && object->type != JINJA_LIST && object->type != JINJA_TUPLE)
        return jinja_fail(run, "'%s' has no slices", jinja_type_name(object));
    TRY(jinja_length(run, object, &n));
    TRY(slice_bounds(run, slice, (int64_t)n, &part[0], &part[1], &step));
    if (object->type == JINJA_STRING && step == 1)
        return slice_text(run, object, part, out);
    TRY(jinja_elements(run, object, &elements));
    TRY(jinja_list_create(run, object->type, 0, out));
    for (int64_t i = part[0]; step > 0 ? i < part[1] : i > part[1]; i += step)
        TRY(jinja_list_push(run, out->list, elements.at[i]));
    if (object->type != JINJA_STRING)
        return STATUS_OK;
    const struct jinja_list *characters = out->list;
    size_t mark = jinja_mark(run);
    for (size_t i = 0; i < characters->n; i++)
        TRY(jinja_write(run, characters->at[i].text, characters->at[i].len));
    return jinja_capture(run, mark, out);
}

enum status jinja_length(struct jinja_run *run, const struct jinja_value *value, size_t *out)
{
    switch (value->type) {
    case JINJA_UNDEFINED:
        *out = 0;
        return STATUS_OK;
    case JINJA_STRING:
        TRY(jinja_spell(run, value->len));
        *out = jinja_text_count(value->text, value->len);
        return STATUS_OK;
    case JINJA_LIST:
    case JINJA_TUPLE:
        *out = value->list->n;
        return STATUS_OK;
    case JINJA_DICT:
        *out = value->dict->n;
        return STATUS_OK;
    default:
        return jinja_fail(run, "'%s' has no length", jinja_type_name(value));
    }
}
