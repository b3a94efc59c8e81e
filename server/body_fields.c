#include "server/body_fields.h"

#include "base/json_read.h"
#include "base/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- reading ---- */

/* What a client may send that does not mean the feature. */
static int is_off(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:  return json_object_size(value) == 0;
    case JSON_ARRAY:   return json_array_size(value) == 0;
    case JSON_STRING:  return json_string_length(value) == 0;
    case JSON_INTEGER: return json_integer_value(value) == 0;
    case JSON_REAL:    return !(json_real_value(value) < 0 || json_real_value(value) > 0);
    case JSON_FALSE:
    case JSON_NULL:    return 1;
    case JSON_TRUE:    return 0;
    }
    return 0;
}

static enum status read_field(const struct json_reader *r, const struct body_field *f, void *values,
                              struct error *err)
{
    char *at = (char *)values + f->offset;
    const json_t *any = json_read_any(r, f->name);
    switch (f->kind) {
    case BODY_KIND_FLAG:
        return json_read_bool(r, f->name, (int *)at, err);
    case BODY_KIND_INT:
        return json_read_int(r, f->name, f->min, f->max, (int64_t *)at, err);
    case BODY_KIND_NUMBER:
        return json_read_double(r, f->name, f->low, f->high, (double *)at, err);
    case BODY_KIND_TEXT: {
        struct body_text *text = (struct body_text *)at;
        return json_read_string(r, f->name, &text->bytes, &text->len, err);
    }
    case BODY_KIND_OBJECT:
        return json_read_object(r, f->name, (const json_t **)at, err);
    case BODY_KIND_ARRAY:
        return json_read_array(r, f->name, (const json_t **)at, err);
    case BODY_KIND_ANY:
        if (any != NULL)
            *(const json_t **)at = any;
        return STATUS_OK;
    case BODY_KIND_REFUSED:
        if (any != NULL && !is_off(any))
            return fail(err, STATUS_BAD_REQUEST, "'%s' is not supported: %s", f->name, f->help);
        return STATUS_OK;
    case BODY_KIND_IGNORED:
        return STATUS_OK;
    }
    return STATUS_OK;
}

enum status body_fields_read(const struct body_table *table, const json_t *object, void *values,
                             const char **param, struct error *err)
{
    struct json_reader reader = { .object = object, .where = "", .code = STATUS_BAD_REQUEST };
    for (size_t i = 0; i < table->n_fields; i++) {
        enum status s = read_field(&reader, &table->fields[i], values, err);
        if (s != STATUS_OK) {
            *param = table->fields[i].name;
            return s;
        }
    }
    return STATUS_OK;
}

/* jansson's own sentence quotes the text, so it is not passed on. */
static const char *parse_reason(const json_error_t *e)
{
    switch (json_error_code(e)) {
    case json_error_stack_overflow:    return "it is nested too deeply";
    case json_error_premature_end_of_input: return "it ends too early";
    case json_error_end_of_input_expected:  return "something follows its end";
    case json_error_invalid_utf8:      return "it is not UTF-8";
    case json_error_null_character:    return "it holds a NUL character in a name";
    case json_error_null_byte_in_key:  return "it holds a NUL character in a name";
    case json_error_numeric_overflow:  return "a number is out of range";
    case json_error_out_of_memory:     return "there is no memory for it";
    default:                           return "there is a syntax error";
    }
}

/* Counts what stands between values; text that is no JSON may be counted wrongly, and is refused anyway. */
static enum status check_values(const char *bytes, size_t len, struct error *err)
{
    size_t n_values = 1, n_containers = 0;
    int in_string = 0;
    for (size_t i = 0; i < len; i++) {
        char c = bytes[i];
        if (c == '"')
            in_string = !in_string;
        else if (in_string)
            i += c == '\\';
        else if (c == '[' || c == '{')
            n_containers++;
        else if (c == ',' || c == ':')
            n_values++;
    }
    if (n_containers > BODY_MAX_CONTAINERS)
        return fail(err, STATUS_TOO_LARGE, "the body has %zu objects and arrays, and the limit is %zu",
                    n_containers, BODY_MAX_CONTAINERS);
    if (n_values + n_containers > BODY_MAX_VALUES)
        return fail(err, STATUS_TOO_LARGE, "the body has %zu values, and the limit is %zu",
                    n_values + n_containers, BODY_MAX_VALUES);
    return STATUS_OK;
}

enum status body_parse(const char *bytes, size_t len, json_t **out, struct error *err)
{
    json_error_t where;
    if (len == 0)
        return fail(err, STATUS_BAD_REQUEST, "the request has no body; a JSON object is expected");
    TRY(check_values(bytes, len, err));
    json_t *body = json_loadb(bytes, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (body == NULL)
        return fail(err, STATUS_BAD_REQUEST, "the body is not valid JSON: %s (line %d, column %d)",
                    parse_reason(&where), where.line, where.column);
    if (!json_is_object(body)) {
        enum status s = fail(err, STATUS_BAD_REQUEST, "the body must be a JSON object, got %s",
                             json_type_phrase(body));
        json_decref(body);
        return s;
    }
    *out = body;
    return STATUS_OK;
}

/* ---- the schema ---- */

static enum status write_range(const struct body_field *f, struct buf *out)
{
    if (f->kind == BODY_KIND_INT) {
        if (f->min > INT64_MIN)
            TRY(buf_printf(out, ",\"minimum\":%" PRId64, f->min));
        if (f->max < INT64_MAX)
            TRY(buf_printf(out, ",\"maximum\":%" PRId64, f->max));
    }
    if (f->kind == BODY_KIND_NUMBER)
        TRY(buf_printf(out, ",\"minimum\":%.17g,\"maximum\":%.17g", f->low, f->high));
    return STATUS_OK;
}

static enum status write_type(const struct body_field *f, struct buf *out)
{
    static const char *const types[] = {
        [BODY_KIND_FLAG] = "boolean", [BODY_KIND_INT] = "integer", [BODY_KIND_NUMBER] = "number",
        [BODY_KIND_TEXT] = "string", [BODY_KIND_OBJECT] = "object", [BODY_KIND_ARRAY] = "array",
    };
    if (f->schema != NULL)
        return buf_printf(out, "%s,", f->schema);
    if (f->kind == BODY_KIND_ANY || f->kind == BODY_KIND_REFUSED || f->kind == BODY_KIND_IGNORED)
        return STATUS_OK;
    TRY(buf_printf(out, "\"type\":[\"%s\",\"null\"]", types[f->kind]));
    TRY(write_range(f, out));
    return buf_add_char(out, ',');
}

static enum status write_help(const struct body_field *f, struct buf *out)
{
    char help[512];
    const char *prefix = f->kind == BODY_KIND_REFUSED ? "Not supported: "
                       : f->kind == BODY_KIND_IGNORED ? "Accepted and ignored: " : "";
    snprintf(help, sizeof help, "%s%s.", prefix, f->help);
    TRY(buf_add_text(out, "\"description\":"));
    return json_write_cstring(out, help);
}

enum status body_fields_write_schema(const struct body_table *table, struct buf *out)
{
    for (size_t i = 0; i < table->n_fields; i++) {
        const struct body_field *f = &table->fields[i];
        if (i > 0)
            TRY(buf_add_char(out, ','));
        TRY(json_write_cstring(out, f->name));
        TRY(buf_add_text(out, ":{"));
        TRY(write_type(f, out));
        TRY(write_help(f, out));
        TRY(buf_add_char(out, '}'));
    }
    return STATUS_OK;
}
