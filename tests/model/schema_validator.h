/* schema_validator.h - JSON Schema on a parsed document, written plainly for the
 * tests: it shares nothing with the code under test.
 *
 * validates(root, schema, value): 1 if the value fits; root is where $ref begins.
 * It knows the keywords of model/json_schema.h, reads oneOf as anyOf, and of the
 * formats checks the dates.
 */
#ifndef TESTS_MODEL_SCHEMA_VALIDATOR_H
#define TESTS_MODEL_SCHEMA_VALIDATOR_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/utf8.h"

#include <jansson.h>
#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int validates(json_t *root, json_t *schema, json_t *value);

static int has_type(json_t *value, const char *type)
{
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value);
    if (strcmp(type, "number") == 0)
        return json_is_number(value);
    if (strcmp(type, "null") == 0)
        return json_is_null(value);
    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(value);
    if (strcmp(type, "string") == 0)
        return json_is_string(value);
    return strcmp(type, "array") == 0 ? json_is_array(value) : json_is_object(value);
}

static int type_fits(json_t *type, json_t *value)
{
    size_t i;
    json_t *one;
    if (json_is_string(type))
        return has_type(value, json_string_value(type));
    json_array_foreach(type, i, one)
        if (has_type(value, json_string_value(one)))
            return 1;
    return 0;
}

static int same_value(json_t *a, json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) >= json_number_value(b) && json_number_value(a) <= json_number_value(b);
    return json_equal(a, b);
}

static int number_fits(json_t *schema, double x)
{
    json_t *k;
    return !(((k = json_object_get(schema, "minimum")) != NULL && x < json_number_value(k)) ||
             ((k = json_object_get(schema, "maximum")) != NULL && x > json_number_value(k)) ||
             ((k = json_object_get(schema, "exclusiveMinimum")) != NULL && x <= json_number_value(k)) ||
             ((k = json_object_get(schema, "exclusiveMaximum")) != NULL && x >= json_number_value(k)));
}

static int pattern_found(const char *pattern, const char *text, size_t len)
{
    int code;
    PCRE2_SIZE where;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &code, &where, NULL);
    assert_non_null(re);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(re, NULL);
    int found = pcre2_match(re, (PCRE2_SPTR)text, len, 0, 0, data, NULL) >= 0;
    pcre2_match_data_free(data);
    pcre2_code_free(re);
    return found;
}

static int is_date(const char *s)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int y, m, d, n = 0;
    if (strlen(s) < 10 || sscanf(s, "%4d-%2d-%2d%n", &y, &m, &d, &n) != 3 || n != 10 || m < 1 || m > 12)
        return 0;
    int is_leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    return d >= 1 && d <= days[m - 1] + (m == 2 && is_leap);
}

static int string_fits(json_t *schema, json_t *value)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);
    json_int_t n = (json_int_t)utf8_count(text, len);
    json_t *k;
    if (!utf8_is_valid(text, len))
        return 0;
    if ((k = json_object_get(schema, "minLength")) != NULL && n < json_integer_value(k))
        return 0;
    if ((k = json_object_get(schema, "maxLength")) != NULL && n > json_integer_value(k))
        return 0;
    if ((k = json_object_get(schema, "pattern")) != NULL && !pattern_found(json_string_value(k), text, len))
        return 0;
    k = json_object_get(schema, "format");
    return k == NULL || strncmp(json_string_value(k), "date", 4) != 0 || is_date(text);
}

static int array_fits(json_t *root, json_t *schema, json_t *value)
{
    json_t *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items"),
           *item, *k;
    json_int_t n = (json_int_t)json_array_size(value);
    size_t i;
    if ((k = json_object_get(schema, "minItems")) != NULL && n < json_integer_value(k))
        return 0;
    if ((k = json_object_get(schema, "maxItems")) != NULL && n > json_integer_value(k))
        return 0;
    json_array_foreach(value, i, item) {
        json_t *its = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (its != NULL && !validates(root, its, item))
            return 0;
    }
    return 1;
}

static int object_fits(json_t *root, json_t *schema, json_t *value)
{
    json_t *properties = json_object_get(schema, "properties"),
           *rest = json_object_get(schema, "additionalProperties");
    json_t *required = json_object_get(schema, "required"), *item, *k;
    json_int_t n = (json_int_t)json_object_size(value);
    const char *name;
    size_t i;
    if ((k = json_object_get(schema, "minProperties")) != NULL && n < json_integer_value(k))
        return 0;
    if ((k = json_object_get(schema, "maxProperties")) != NULL && n > json_integer_value(k))
        return 0;
    json_array_foreach(required, i, item)
        if (json_object_get(value, json_string_value(item)) == NULL)
            return 0;
    json_object_foreach(value, name, item) {
        json_t *its = json_object_get(properties, name);
        its = its != NULL ? its : rest;
        if (its != NULL && !validates(root, its, item))
            return 0;
    }
    return 1;
}

static json_t *resolve(json_t *root, const char *ref)
{
    json_t *at = root;
    char step[100];
    for (ref++; *ref == '/'; ref += strlen(step) + 1) {
        snprintf(step, sizeof step, "%.*s", (int)strcspn(ref + 1, "/"), ref + 1);
        at = json_object_get(at, step);
    }
    return at;
}

static int choices_fit(json_t *root, json_t *schema, json_t *value)
{
    static const char *const any_of[] = { "anyOf", "oneOf" };
    json_t *branch, *k;
    size_t i;
    for (int which = 0; which < 2; which++) {
        int found = 0;
        k = json_object_get(schema, any_of[which]);
        json_array_foreach(k, i, branch)
            found |= validates(root, branch, value);
        if (k != NULL && !found)
            return 0;
    }
    k = json_object_get(schema, "allOf");
    json_array_foreach(k, i, branch)
        if (!validates(root, branch, value))
            return 0;
    k = json_object_get(schema, "$ref");
    return k == NULL || validates(root, resolve(root, json_string_value(k)), value);
}

static int validates(json_t *root, json_t *schema, json_t *value)
{
    json_t *k, *one;
    size_t i;
    if (json_is_boolean(schema))
        return json_is_true(schema);
    if ((k = json_object_get(schema, "type")) != NULL && !type_fits(k, value))
        return 0;
    if ((k = json_object_get(schema, "const")) != NULL && !same_value(k, value))
        return 0;
    if ((k = json_object_get(schema, "enum")) != NULL) {
        int found = 0;
        json_array_foreach(k, i, one)
            found |= same_value(one, value);
        if (!found)
            return 0;
    }
    if (!choices_fit(root, schema, value))
        return 0;
    if (json_is_number(value))
        return number_fits(schema, json_number_value(value));
    if (json_is_string(value))
        return string_fits(schema, value);
    if (json_is_array(value))
        return array_fits(root, schema, value);
    return !json_is_object(value) || object_fits(root, schema, value);
}

#endif
