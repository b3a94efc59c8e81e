#include "model/schema_compiler.h"

#include "base/json_write.h"
#include "model/json_number.h"
#include "model/regex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CONSTANT_BYTES 16384

/* ---- constants ---- */

/* JSON text of a value, compact, members in their order. */
static enum status write_value(struct buf *out, json_t *value, int depth)
{
    const char *name;
    json_t *item;
    size_t i = 0;
    if (depth > JSON_SCHEMA_MAX_DEPTH)
        return STATUS_TOO_LARGE;
    switch (json_typeof(value)) {
    case JSON_NULL:    return buf_add_text(out, "null");
    case JSON_TRUE:    return buf_add_text(out, "true");
    case JSON_FALSE:   return buf_add_text(out, "false");
    case JSON_INTEGER: return json_write_int(out, json_integer_value(value));
    case JSON_REAL:    return json_write_double(out, json_real_value(value));
    case JSON_STRING:  return json_write_string(out, json_string_value(value), json_string_length(value));
    case JSON_ARRAY:
        json_array_foreach(value, i, item) {
            TRY(buf_add_char(out, i == 0 ? '[' : ','));
            TRY(write_value(out, item, depth + 1));
        }
        return buf_add_text(out, i == 0 ? "[]" : "]");
    case JSON_OBJECT:
        json_object_foreach(value, name, item) {
            TRY(buf_add_char(out, i++ == 0 ? '{' : ','));
            TRY(json_write_cstring(out, name));
            TRY(buf_add_char(out, ':'));
            TRY(write_value(out, item, depth + 1));
        }
        return buf_add_text(out, i == 0 ? "{}" : "}");
    }
    return STATUS_INTERNAL;
}

enum status schema_emit_constant(struct schema_compiler *c, json_t *value, uint32_t next, uint32_t *entry)
{
    struct buf text;
    buf_init(&text, MAX_CONSTANT_BYTES);
    enum status status = write_value(&text, value, 0);
    if (status == STATUS_OK)
        *entry = byte_program_literal(c->program, text.data, text.len, next);
    else if (status == STATUS_TOO_LARGE)
        status = fail(c->err, status, "a value in the JSON schema is longer than %d bytes or too deep",
                      MAX_CONSTANT_BYTES);
    else
        status = schema_no_memory(c);
    buf_clear(&text);
    return status;
}

/* ---- counts ---- */

enum status schema_count(struct schema_compiler *c, json_t *schema, const char *keyword, int64_t *out)
{
    json_t *value = json_object_get(schema, keyword);
    if (value == NULL)
        return STATUS_OK;
    double number = json_is_number(value) ? json_number_value(value) : -1;
    if (!(number >= 0 && number <= 1e9) || floor(number) < number)
        return fail(c->err, STATUS_BAD_REQUEST,
                    "JSON schema '%s' must be a whole number between 0 and 1000000000", keyword);
    *out = (int64_t)number;
    return STATUS_OK;
}

/* ---- numbers ---- */

/* A bound of a range; `sign` is 1 for a lower bound, -1 for an upper one, and what
 * follows is written for lower bounds with everything multiplied by it. */
struct bound {
    int sign;
    int of_integer;
    int is_set;
    double value;
    int excluded;
};

static enum status read_bound(struct schema_compiler *c, json_t *schema, const char *keyword, int excluded,
                              struct bound *bound)
{
    json_t *json = json_object_get(schema, keyword);
    if (json == NULL)
        return STATUS_OK;
    if (!json_is_number(json))
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema '%s' must be a number", keyword);
    double value = json_number_value(json) * bound->sign, whole = ceil(value);
    if (whole > value) {
        if (!bound->of_integer)
            return fail(c->err, STATUS_BAD_REQUEST,
                        "JSON schema '%s' of a number must be a whole number; others are supported for "
                        "integers only",
                        keyword);
        excluded = 0;
    }
    if (!bound->is_set || whole > bound->value || (whole >= bound->value && excluded))
        *bound = (struct bound){ bound->sign, bound->of_integer, .is_set = 1, .value = whole,
                                 .excluded = excluded };
    return STATUS_OK;
}

/* A bound past what is ever written is as good as this. */
static int64_t bound_value(const struct bound *bound)
{
    return (int64_t)fmin(fmax(bound->value, -4e18), 4e18) * bound->sign;
}

enum status schema_emit_number(struct schema_compiler *c, json_t *schema, int is_integer, uint32_t next,
                               uint32_t *entry)
{
    struct bound min = { .sign = 1, .of_integer = is_integer },
                 max = { .sign = -1, .of_integer = is_integer };
    TRY(read_bound(c, schema, "minimum", 0, &min));
    TRY(read_bound(c, schema, "exclusiveMinimum", 1, &min));
    TRY(read_bound(c, schema, "maximum", 0, &max));
    TRY(read_bound(c, schema, "exclusiveMaximum", 1, &max));
    if (!min.is_set && !max.is_set) {
        *entry = is_integer ? json_rules_integer(&c->rules, next) : json_rules_number(&c->rules, next);
        return STATUS_OK;
    }
    struct json_number_range range = {
        .is_integer = is_integer,
        .min = min.is_set ? bound_value(&min) : INT64_MIN, .min_excluded = min.excluded,
        .max = max.is_set ? bound_value(&max) : INT64_MAX, .max_excluded = max.excluded,
    };
    *entry = json_number_emit(&range, c->program, next);
    return STATUS_OK;
}

/* ---- strings ---- */

#define DATE "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])" \
             "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))" \
             "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
#define HOUR_AND_MINUTE "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME HOUR_AND_MINUTE ":[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" HOUR_AND_MINUTE ")"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define BYTE_NUMBER "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

static const struct {
    const char *name;
    const char *pattern;
} formats[] = {
    { "date", DATE },
    { "date-time", DATE "T" TIME },
    { "time", TIME },
    { "uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}" },
    { "email", "[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@" LABEL "(?:\\." LABEL ")+" },
    { "hostname", LABEL "(?:\\." LABEL ")*" },
    { "ipv4", BYTE_NUMBER "(?:\\." BYTE_NUMBER "){3}" },
    { "uri", "[A-Za-z][A-Za-z0-9+.-]*://(?:[A-Za-z0-9!#$&'()*+,./:;=?@_~-]|%[0-9A-Fa-f]{2})+" },
};

static enum status emit_pattern(struct schema_compiler *c, const struct regex_source *pattern,
                                uint32_t next, uint32_t *entry)
{
    uint32_t close = byte_program_range(c->program, '"', '"', next), inner = 0;
    TRY(regex_emit(pattern, c->program, close, &inner, c->err));
    *entry = byte_program_range(c->program, '"', '"', inner);
    return STATUS_OK;
}

static enum status emit_format(struct schema_compiler *c, json_t *format, uint32_t next, uint32_t *entry)
{
    const char *name = json_is_string(format) ? json_string_value(format) : "";
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0) {
            struct regex_source source = { formats[i].pattern, strlen(formats[i].pattern), CHARS_JSON, 0 };
            return emit_pattern(c, &source, next, entry);
        }
    return fail(c->err, STATUS_BAD_REQUEST, "the JSON schema format '%.40s' is not supported", name);
}

enum status schema_emit_string(struct schema_compiler *c, json_t *schema, uint32_t next, uint32_t *entry)
{
    json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    int64_t min = 0, max = JSON_UNBOUNDED;
    TRY(schema_count(c, schema, "minLength", &min));
    TRY(schema_count(c, schema, "maxLength", &max));
    int has_length = min > 0 || max != JSON_UNBOUNDED;
    if ((pattern != NULL) + (format != NULL) + has_length > 1)
        return fail(c->err, STATUS_BAD_REQUEST,
                    "JSON schema 'pattern', 'format' and 'minLength'/'maxLength' are not supported together");
    if (format != NULL)
        return emit_format(c, format, next, entry);
    if (pattern != NULL && !json_is_string(pattern))
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'pattern' must be a string");
    if (pattern != NULL) {
        struct regex_source source = { json_string_value(pattern), json_string_length(pattern), CHARS_JSON,
                                       1 };
        return emit_pattern(c, &source, next, entry);
    }
    *entry = json_rules_string(&c->rules, min, max, next);
    return STATUS_OK;
}

/* ---- arrays ---- */

/* What an array may hold. */
struct array_shape {
    json_t *prefix;             /* array of schemas, or NULL */
    size_t n_prefix;
    uint32_t item;              /* rule of one further item and the space behind it; 0: none */
    int64_t min, max;           /* max may be JSON_UNBOUNDED */
};

static enum status read_shape(struct schema_compiler *c, json_t *schema, struct array_shape *shape)
{
    json_t *items = json_object_get(schema, "items"), *unique = json_object_get(schema, "uniqueItems");
    *shape = (struct array_shape){ .prefix = json_object_get(schema, "prefixItems"), .max = JSON_UNBOUNDED };
    if (unique != NULL && !json_is_false(unique))
        return fail(c->err, STATUS_BAD_REQUEST,
                    "the JSON schema keyword 'uniqueItems' is supported as false only");
    if (shape->prefix != NULL && !json_is_array(shape->prefix))
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'prefixItems' must be an array");
    TRY(schema_count(c, schema, "minItems", &shape->min));
    TRY(schema_count(c, schema, "maxItems", &shape->max));
    shape->n_prefix = json_array_size(shape->prefix);
    if (items == NULL && shape->prefix == NULL)
        items = json_true();
    if (items != NULL && !json_is_false(items)) {
        uint32_t entry = 0;
        shape->item = byte_program_rule_new(c->program);
        TRY(schema_emit(c, items, json_rules_space(&c->rules, byte_program_return(c->program)), &entry));
        byte_program_rule_set(c->program, shape->item, entry);
    } else if (shape->max == JSON_UNBOUNDED || shape->max > (int64_t)shape->n_prefix) {
        shape->max = (int64_t)shape->n_prefix;
    }
    return STATUS_OK;
}

/* Item k (from 0) and the space behind it. */
static enum status emit_item(struct schema_compiler *c, const struct array_shape *shape, int64_t k,
                             uint32_t next, uint32_t *entry)
{
    if (k < (int64_t)shape->n_prefix)
        return schema_emit(c, json_array_get(shape->prefix, (size_t)k), json_rules_space(&c->rules, next),
                           entry);
    *entry = byte_program_call(c->program, shape->item, next);
    return STATUS_OK;
}

/* From the last item that is told apart to the first.  pc: what may follow after
 * k items. */
static enum status emit_items(struct schema_compiler *c, const struct array_shape *shape, uint32_t close,
                              uint32_t *entry)
{
    int64_t n_prefix = (int64_t)shape->n_prefix, k = shape->max;
    uint32_t pc = close;
    if (shape->max == JSON_UNBOUNDED) {
        pc = byte_program_loop_begin(c->program);
        uint32_t more = json_rules_comma(&c->rules, byte_program_call(c->program, shape->item, pc));
        byte_program_loop_end(c->program, pc, more, close);
        k = shape->min > n_prefix ? shape->min : n_prefix;
        k = k > 1 ? k : 1;
    }
    for (k--; k >= 0 && !c->program->is_full; k--) {
        TRY(emit_item(c, shape, k, pc, &pc));
        if (k > 0)
            pc = json_rules_comma(&c->rules, pc);
        if (k >= shape->min)
            pc = byte_program_split(c->program, pc, close);
    }
    *entry = pc;
    return STATUS_OK;
}

enum status schema_emit_array(struct schema_compiler *c, json_t *schema, uint32_t next, uint32_t *entry)
{
    struct array_shape shape;
    TRY(read_shape(c, schema, &shape));
    if (shape.max != JSON_UNBOUNDED && shape.max < shape.min) {
        *entry = byte_program_fail(c->program);
        return STATUS_OK;
    }
    uint32_t inner = byte_program_range(c->program, ']', ']', next);
    TRY(emit_items(c, &shape, inner, &inner));
    *entry = json_rules_open(&c->rules, '[', inner);
    return STATUS_OK;
}
