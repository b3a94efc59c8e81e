#include "model/jinja_builtins.h"
#include "model/jinja_lex.h"
#include "model/jinja_operators.h"
#include "model/jinja_run.h"
#include "model/jinja_text.h"

/* One test is one expression over v (the value) and type. */
#define TEST(name, expression)                                                                      \
    static enum status test_##name(struct jinja_run *run, const struct jinja_call *call,            \
                                   struct jinja_value *out)                                         \
    {                                                                                               \
        const struct jinja_value *v = &call->self;                                                  \
        enum jinja_type type = v->type;                                                             \
        (void)run;                                                                                  \
        (void)type;                                                                                 \
        *out = jinja_bool(expression);                                                              \
        return STATUS_OK;                                                                           \
    }

TEST(defined, type != JINJA_UNDEFINED)
TEST(undefined, type == JINJA_UNDEFINED)
TEST(none, type == JINJA_NONE)
TEST(boolean, type == JINJA_BOOL)
TEST(true, type == JINJA_BOOL && v->integer)
TEST(false, type == JINJA_BOOL && !v->integer)
TEST(integer, type == JINJA_INT)
TEST(float, type == JINJA_FLOAT)
TEST(number, jinja_is_number(v))
TEST(string, type == JINJA_STRING)
TEST(mapping, type == JINJA_DICT)
TEST(callable, type == JINJA_MACRO || type == JINJA_FUNCTION)
TEST(filter, type == JINJA_STRING && jinja_builtin_find(JINJA_FILTER, v->text, v->len) != NULL)
TEST(test, type == JINJA_STRING && jinja_builtin_find(JINJA_TEST, v->text, v->len) != NULL)

/* Undefined walks like an empty list, as in Jinja. */
TEST(iterable, type == JINJA_STRING || type == JINJA_LIST || type == JINJA_TUPLE || type == JINJA_DICT ||
               type == JINJA_LOOP || type == JINJA_UNDEFINED)
TEST(sequence, type == JINJA_STRING || type == JINJA_LIST || type == JINJA_TUPLE || type == JINJA_DICT ||
               type == JINJA_UNDEFINED)

static enum status test_sameas(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_value *a = &call->self, *b = &call->argv[0];
    int same = a->type == b->type;
    if (same && (a->type == JINJA_LIST || a->type == JINJA_TUPLE))
        same = a->list == b->list;
    else if (same && a->type == JINJA_DICT)
        same = a->dict == b->dict;
    else if (same)
        TRY(jinja_equal(run, a, b, &same));
    *out = jinja_bool(same);
    return STATUS_OK;
}

static enum status test_in(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    int found;
    TRY(jinja_contains(run, &call->argv[0], &call->self, &found));
    *out = jinja_bool(found);
    return STATUS_OK;
}

/* The comparison tests, each an operator under a name. */
#define COMPARISON(name, op)                                                                        \
    static enum status test_##name(struct jinja_run *run, const struct jinja_call *call,            \
                                   struct jinja_value *out)                                         \
    {                                                                                               \
        int truth;                                                                                  \
        TRY(jinja_test_operator(run, op, &call->self, &call->argv[0], &truth));                     \
        *out = jinja_bool(truth);                                                                   \
        return STATUS_OK;                                                                           \
    }

COMPARISON(eq, JINJA_OP('=', '='))
COMPARISON(ne, JINJA_OP('!', '='))
COMPARISON(lt, '<')
COMPARISON(le, JINJA_OP('<', '='))
COMPARISON(gt, '>')
COMPARISON(ge, JINJA_OP('>', '='))

static enum status divisible(struct jinja_run *run, const struct jinja_value *value, struct jinja_value by,
                             int want, struct jinja_value *out)
{
    struct jinja_value rest;
    TRY(jinja_operate(run, '%', value, &by, &rest));
    *out = jinja_bool(jinja_truth(&rest) != want);
    return STATUS_OK;
}

static enum status test_divisibleby(struct jinja_run *run, const struct jinja_call *call,
                                    struct jinja_value *out)
{
    return divisible(run, &call->self, call->argv[0], 1, out);
}

static enum status test_even(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return divisible(run, &call->self, jinja_int(2), 1, out);
}

static enum status test_odd(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return divisible(run, &call->self, jinja_int(2), 0, out);
}

/* A string with a letter, all of whose letters are of one case. */
static enum status of_case(struct jinja_run *run, const struct jinja_call *call, enum jinja_case to,
                           struct jinja_value *out)
{
    struct jinja_value text, mapped, other;
    TRY(jinja_to_string(run, &call->self, &text));
    size_t mark = jinja_mark(run);
    TRY(jinja_write_case(run, &text, to));
    TRY(jinja_capture(run, mark, &mapped));
    TRY(jinja_write_case(run, &text, to == JINJA_LOWER ? JINJA_UPPER : JINJA_LOWER));
    TRY(jinja_capture(run, mark, &other));
    int same, cased;
    TRY(jinja_equal(run, &text, &mapped, &same));
    TRY(jinja_equal(run, &mapped, &other, &cased));
    *out = jinja_bool(same && !cased);
    return STATUS_OK;
}

static enum status test_lower(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return of_case(run, call, JINJA_LOWER, out);
}

static enum status test_upper(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return of_case(run, call, JINJA_UPPER, out);
}

/* `x is eq(undefined)` is a question too, so the other side is not required. */
#define OTHER { "other" }

static const struct jinja_builtin rows[] = {
    { "defined", .run = test_defined },
    { "undefined", .run = test_undefined },
    { "none", .run = test_none },
    { "boolean", .run = test_boolean },
    { "true", .run = test_true },
    { "false", .run = test_false },
    { "integer", .run = test_integer },
    { "float", .run = test_float },
    { "number", .run = test_number },
    { "string", .run = test_string },
    { "mapping", .run = test_mapping },
    { "iterable", .run = test_iterable },
    { "sequence", .run = test_sequence },
    { "callable", .run = test_callable },
    { "filter", .run = test_filter },
    { "test", .run = test_test },
    { "even", .run = test_even },
    { "odd", .run = test_odd },
    { "lower", .run = test_lower },
    { "upper", .run = test_upper },
    { "divisibleby", { "num" }, .required = 1, .run = test_divisibleby },
    { "sameas", OTHER, .run = test_sameas },
    { "in", { "seq" }, .run = test_in },
    { "eq", OTHER, .run = test_eq },
    { "equalto", OTHER, .run = test_eq },
    { "==", OTHER, .run = test_eq },
    { "ne", OTHER, .run = test_ne },
    { "!=", OTHER, .run = test_ne },
    { "lt", OTHER, .run = test_lt },
    { "lessthan", OTHER, .run = test_lt },
    { "<", OTHER, .run = test_lt },
    { "le", OTHER, .run = test_le },
    { "<=", OTHER, .run = test_le },
    { "gt", OTHER, .run = test_gt },
    { "greaterthan", OTHER, .run = test_gt },
    { ">", OTHER, .run = test_gt },
    { "ge", OTHER, .run = test_ge },
    { ">=", OTHER, .run = test_ge },
};

const struct jinja_builtin_table jinja_tests = { rows, sizeof rows / sizeof rows[0] };
