#include "base/json_read.h"

#include "base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* 1e3 and 1000.0 are integers as well: what counts is the number, not how it is written. */
static int read_whole(const json_t *value, int64_t *out)
{
    double real = json_real_value(value);
    if (json_is_integer(value))
        *out = json_integer_value(value);
    else if (json_is_real(value) && trunc(real) == real && fabs(real) < ldexp(1, 63))
        *out = (int64_t)real;
    else
        return 0;
    return 1;
}

/* Token ids, which come by the thousand, are integers only if they are written so. */
static const char *real_phrase(const json_t *value)
{
    double real = json_real_value(value);
    int64_t whole;
    return trunc(real) != real       ? "a number with a fraction"
         : read_whole(value, &whole) ? "a number with a point or exponent"
                                     : "an integer of more than 64 bits";
}

const char *json_type_phrase(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:  return "an object";
    case JSON_ARRAY:   return "an array";
    case JSON_STRING:  return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL:    return real_phrase(value);
    case JSON_TRUE:    return "true";
    case JSON_FALSE:   return "false";
    case JSON_NULL:    return "null";
    }
    return "something else";
}

const json_t *json_read_any(const struct json_reader *r, const char *field)
{
    const json_t *value = json_object_get(r->object, field);
    return value == NULL || json_is_null(value) ? NULL : value;
}

static enum status wrong_type(const struct json_reader *r, const char *field,
                              const char *expected, const json_t *got, struct error *err)
{
    return fail(err, r->code, "%s%s'%s' must be %s, got %s", r->where, *r->where ? ": " : "",
                field, expected, json_type_phrase(got));
}

enum status json_read_int(const struct json_reader *r, const char *field,
                          int64_t min, int64_t max, int64_t *out, struct error *err)
{
    const json_t *value = json_read_any(r, field);
    if (value == NULL)
        return STATUS_OK;
    int64_t got;
    if (!read_whole(value, &got))
        return wrong_type(r, field, "an integer", value, err);
    if (got < min || got > max)
        return fail(err, r->code, "%s%s'%s' must be between %" PRId64 " and %" PRId64 ", got %" PRId64,
                    r->where, *r->where ? ": " : "", field, min, max, got);
    *out = got;
    return STATUS_OK;
}

enum status json_read_double(const struct json_reader *r, const char *field,
                             double min, double max, double *out, struct error *err)
{
    const json_t *value = json_read_any(r, field);
    if (value == NULL)
        return STATUS_OK;
    if (!json_is_number(value))
        return wrong_type(r, field, "a number", value, err);
    double got = json_number_value(value);
    if (!(got >= min && got <= max))
        return fail(err, r->code, "%s%s'%s' must be between %g and %g, got %g",
                    r->where, *r->where ? ": " : "", field, min, max, got);
    *out = got;
    return STATUS_OK;
}

enum status json_read_bool(const struct json_reader *r, const char *field,
                           int *out, struct error *err)
{
    const json_t *value = json_read_any(r, field);
    if (value == NULL)
        return STATUS_OK;
    if (!json_is_boolean(value))
        return wrong_type(r, field, "true or false", value, err);
    *out = json_is_true(value);
    return STATUS_OK;
}

enum status json_read_string(const struct json_reader *r, const char *field,
                             const char **out, size_t *len, struct error *err)
{
    const json_t *value = json_read_any(r, field);
    if (value == NULL)
        return STATUS_OK;
    if (!json_is_string(value))
        return wrong_type(r, field, "a string", value, err);
    *out = json_string_value(value);
    *len = json_string_length(value);
    return STATUS_OK;
}

enum status json_read_object(const struct json_reader *r, const char *field,
                             const json_t **out, struct error *err)
{
    const json_t *value = json_read_any(r, field);
    if (value == NULL)
        return STATUS_OK;
    if (!json_is_object(value))
        return wrong_type(r, field, "an object", value, err);
    *out = value;
    return STATUS_OK;
}

enum status json_read_array(const struct json_reader *r, const char *field,
                            const json_t **out, struct error *err)
{
    const json_t *value = json_read_any(r, field);
    if (value == NULL)
        return STATUS_OK;
    if (!json_is_array(value))
        return wrong_type(r, field, "an array", value, err);
    *out = value;
    return STATUS_OK;
}

enum status json_read_file(const char *path, size_t max_bytes, enum status code,
                           json_t **out, struct error *err)
{
    struct buf text;
    buf_init(&text, max_bytes);
    enum status s = file_read(path, &text, err);
    if (s != STATUS_OK) {
        buf_clear(&text);
        return s == STATUS_TOO_LARGE ? fail(err, code, "%s is larger than %zu bytes", path, max_bytes) : s;
    }
    json_error_t where;
    *out = json_loadb(text.data == NULL ? "" : text.data, text.len, JSON_ALLOW_NUL, &where);
    buf_clear(&text);
    if (*out == NULL)
        return fail(err, code, "%s is not valid JSON: line %d column %d: %s",
                    path, where.line, where.column, where.text);
    return STATUS_OK;
}
