/* test_body_fields - every kind of field: types, ranges, null, refusal, and the schema that says the same. */
#include "server/body_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct values {
    int flag;
    int64_t whole;
    double number;
    struct body_text text;
    const json_t *object, *array, *any;
};

static const struct body_field rows[] = {
    { "flag", BODY_FLAG(struct values, flag), .help = "a flag" },
    { "whole", BODY_INT(struct values, whole), .min = -2, .max = 7, .help = "a whole number" },
    { "whole_too", BODY_INT(struct values, whole), .min = 0, .max = INT64_MAX, .help = "the same" },
    { "number", BODY_NUMBER(struct values, number), .low = 0, .high = 1.5, .help = "a number" },
    { "text", BODY_TEXT(struct values, text), .help = "a \"text\"" },
    { "object", BODY_OBJECT(struct values, object), .help = "an object" },
    { "array", BODY_ARRAY(struct values, array), .help = "an array" },
    { "any", BODY_ANY(struct values, any), .schema = "\"type\":[\"string\",\"integer\"]", .help = "either" },
    { "refused", BODY_REFUSED, .help = "it cannot be done" },
    { "ignored", BODY_IGNORED, .help = "it means nothing" },
};
static const struct body_table table = BODY_TABLE(rows);

/* The field at fault, or NULL if all was read; the sentence in err. */
static const char *fault(const char *body, struct values *values, struct error *err)
{
    json_t *object = NULL;
    const char *param = NULL;
    assert_int_equal(body_parse(body, strlen(body), &object, err), STATUS_OK);
    enum status s = body_fields_read(&table, object, values, &param, err);
    assert_true((s == STATUS_OK) == (param == NULL));
    assert_true(s == STATUS_OK || s == STATUS_BAD_REQUEST);
    /* What was borrowed is looked at by the caller only while the object lives. */
    json_decref(object);
    return param;
}

static void values_are_read_and_absent_ones_left(void **state)
{
    (void)state;
    struct values v = { .flag = 5, .whole = 6, .number = 0.25 };
    struct error err;
    assert_null(fault("{}", &v, &err));
    assert_null(fault("{\"flag\":null,\"whole\":null,\"number\":null,\"text\":null,\"object\":null,"
                      "\"array\":null,\"any\":null,\"refused\":null,\"ignored\":null}", &v, &err));
    assert_true(v.flag == 5 && v.whole == 6 && v.number < 0.3 && v.text.bytes == NULL && v.any == NULL);
    assert_null(fault("{\"flag\":true,\"whole\":-2,\"number\":1,\"unknown\":[1],\"ignored\":{\"a\":5}}",
                      &v, &err));
    assert_true(v.flag == 1 && v.whole == -2 && v.number > 0.9);
    assert_null(fault("{\"whole\":1,\"whole_too\":9000000000}", &v, &err));
    assert_true(v.whole == 9000000000);
}

static void a_field_at_fault_is_named(void **state)
{
    (void)state;
    static const struct { const char *param, *body; } cases[] = {
        { "flag", "{\"flag\":1}" }, { "flag", "{\"flag\":\"true\"}" },
        { "whole", "{\"whole\":1.5}" }, { "whole", "{\"whole\":\"1\"}" }, { "whole", "{\"whole\":true}" },
        { "whole", "{\"whole\":-3}" }, { "whole", "{\"whole\":8}" }, { "whole_too", "{\"whole_too\":-1}" },
        { "number", "{\"number\":\"1\"}" }, { "number", "{\"number\":1.51}" },
        { "number", "{\"number\":-0.1}" },
        { "text", "{\"text\":5}" }, { "text", "{\"text\":[\"a\"]}" },
        { "object", "{\"object\":[]}" }, { "array", "{\"array\":{}}" }, { "array", "{\"array\":\"\"}" },
        { "refused", "{\"refused\":true}" }, { "refused", "{\"refused\":-1}" },
        { "refused", "{\"refused\":0.5}" },
        { "refused", "{\"refused\":\"x\"}" }, { "refused", "{\"refused\":[null]}" },
        { "refused", "{\"refused\":{\"a\":null}}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct values v = { .flag = 0 };
        struct error err;
        const char *param = fault(cases[i].body, &v, &err);
        assert_non_null(param);
        assert_string_equal(param, cases[i].param);
        assert_non_null(strstr(err.text, cases[i].param));
    }
}

static void a_refused_field_may_be_off(void **state)
{
    (void)state;
    static const char *const off[] = { "null", "false", "0", "0.0", "-0.0", "\"\"", "[]", "{}" };
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        char body[64];
        struct values v = { .flag = 0 };
        struct error err;
        snprintf(body, sizeof body, "{\"refused\":%s}", off[i]);
        assert_null(fault(body, &v, &err));
    }
}

static void a_body_that_is_no_object_is_refused_without_repeating_it(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "", " ", "[]", "5", "\"secret\"", "null", "{", "{\"secret\"", "{secret}", "{\"a\":1}secret",
        "{\"a\":1e999}", "{\"a\":\"\xff\"}", "{\"a\":\"\\ud800\"}", "{\"a\\u0000\":1}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        json_t *object = NULL;
        struct error err;
        assert_int_equal(body_parse(bodies[i], strlen(bodies[i]), &object, &err), STATUS_BAD_REQUEST);
        assert_null(object);
        assert_null(strstr(err.text, "secret"));
    }
    char *deep = malloc(40001);
    json_t *object = NULL;
    struct error err;
    memset(deep, '[', 20000);
    memset(deep + 20000, ']', 20000);
    assert_int_equal(body_parse(deep, 40000, &object, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "nested too deeply"));
    free(deep);
}

/* {"a":[unit,unit, .. ,unit]} with n of them, for free; *len is its length. */
static char *body_of_many(const char *unit, size_t n, size_t *len)
{
    size_t each = strlen(unit) + 1;
    char *body = malloc(n * each + 64);
    assert_non_null(body);
    char *at = body + sprintf(body, "{\"a\":[%s", unit);
    for (size_t i = 1; i < n; i++) {
        *at++ = ',';
        memcpy(at, unit, each - 1);
        at += each - 1;
    }
    at += sprintf(at, "]}");
    *len = (size_t)(at - body);
    return body;
}

static void a_body_of_too_many_values_is_refused_before_it_costs_memory(void **state)
{
    (void)state;
    /* Beside the units there are the object, the array and the name with its colon. */
    static const struct {
        const char *unit;
        size_t n;
        enum status status;
    } cases[] = {
        { "1", 1000, STATUS_OK },
        { "{}", BODY_MAX_CONTAINERS - 2, STATUS_OK },
        { "{}", BODY_MAX_CONTAINERS - 1, STATUS_TOO_LARGE },
        { "[]", (size_t)10 << 20, STATUS_TOO_LARGE },
        { "1", BODY_MAX_VALUES, STATUS_TOO_LARGE },
        { "\"[{,:\\\",[{\"", BODY_MAX_CONTAINERS, STATUS_OK },   /* inside of strings nothing counts */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err;
        json_t *object = NULL;
        size_t len;
        char *body = body_of_many(cases[i].unit, cases[i].n, &len);
        assert_int_equal(body_parse(body, len, &object, &err), cases[i].status);
        if (cases[i].status != STATUS_OK)
            assert_non_null(strstr(err.text, "and the limit is "));
        json_decref(object);
        free(body);
    }
}

static void a_text_keeps_its_nul(void **state)
{
    (void)state;
    struct values v = { .flag = 0 };
    struct error err;
    json_t *object;
    const char *param = NULL, *body = "{\"text\":\"a\\u0000b\"}";
    assert_int_equal(body_parse(body, strlen(body), &object, &err), STATUS_OK);
    assert_int_equal(body_fields_read(&table, object, &v, &param, &err), STATUS_OK);
    assert_int_equal(v.text.len, 3);
    assert_memory_equal(v.text.bytes, "a\0b", 3);
    json_decref(object);
}

static void the_schema_says_what_the_reader_does(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1 << 16);
    assert_int_equal(body_fields_write_schema(&table, &out), STATUS_OK);
    static const char expected[] =
        "\"flag\":{\"type\":[\"boolean\",\"null\"],\"description\":\"a flag.\"},"
        "\"whole\":{\"type\":[\"integer\",\"null\"],\"minimum\":-2,\"maximum\":7,"
        "\"description\":\"a whole number.\"},"
        "\"whole_too\":{\"type\":[\"integer\",\"null\"],\"minimum\":0,\"description\":\"the same.\"},"
        "\"number\":{\"type\":[\"number\",\"null\"],\"minimum\":0,\"maximum\":1.5,"
        "\"description\":\"a number.\"},"
        "\"text\":{\"type\":[\"string\",\"null\"],\"description\":\"a \\\"text\\\".\"},"
        "\"object\":{\"type\":[\"object\",\"null\"],\"description\":\"an object.\"},"
        "\"array\":{\"type\":[\"array\",\"null\"],\"description\":\"an array.\"},"
        "\"any\":{\"type\":[\"string\",\"integer\"],\"description\":\"either.\"},"
        "\"refused\":{\"description\":\"Not supported: it cannot be done.\"},"
        "\"ignored\":{\"description\":\"Accepted and ignored: it means nothing.\"}";
    assert_string_equal(out.data, expected);
    buf_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_and_absent_ones_left),
        cmocka_unit_test(a_field_at_fault_is_named),
        cmocka_unit_test(a_refused_field_may_be_off),
        cmocka_unit_test(a_body_that_is_no_object_is_refused_without_repeating_it),
        cmocka_unit_test(a_body_of_too_many_values_is_refused_before_it_costs_memory),
        cmocka_unit_test(a_text_keeps_its_nul),
        cmocka_unit_test(the_schema_says_what_the_reader_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
