#include "model/schema_compiler.h"

#include <string.h>

/* How two values of one keyword become one. */
enum merge_rule {
    MERGE_LARGER,           /* the larger number holds */
    MERGE_SMALLER,
    MERGE_TYPES,            /* what both name */
    MERGE_VALUES,           /* what both list */
    MERGE_UNION,            /* all names of both lists */
    MERGE_PROPERTIES,       /* all properties; one that both have must fit both */
    MERGE_BOTH              /* a schema that must fit both */
};

static const struct {
    const char *keyword;
    enum merge_rule rule;
} rules[] = {
    { "minimum", MERGE_LARGER }, { "exclusiveMinimum", MERGE_LARGER }, { "minLength", MERGE_LARGER },
    { "minItems", MERGE_LARGER }, { "minProperties", MERGE_LARGER },
    { "maximum", MERGE_SMALLER }, { "exclusiveMaximum", MERGE_SMALLER }, { "maxLength", MERGE_SMALLER },
    { "maxItems", MERGE_SMALLER }, { "maxProperties", MERGE_SMALLER },
    { "type", MERGE_TYPES },
    { "enum", MERGE_VALUES },
    { "required", MERGE_UNION },
    { "properties", MERGE_PROPERTIES },
    { "items", MERGE_BOTH }, { "additionalProperties", MERGE_BOTH },
};

static json_t *both(json_t *a, json_t *b)
{
    return json_pack("{s:[O, O]}", "allOf", a, b);
}

static json_t *merge_lists(json_t *a, json_t *b, int is_union)
{
    json_t *out = is_union ? json_copy(a) : json_array(), *x, *y;
    size_t i, k;
    json_array_foreach(b, i, x) {
        int found = 0;
        json_array_foreach(a, k, y)
            found |= json_equal(x, y);
        if (found != is_union)
            json_array_append(out, x);
    }
    return out;
}

/* Types as a list of names; "integer" is also a "number". */
static enum status merge_types(struct schema_compiler *c, json_t *a, json_t *b, json_t **out)
{
    static const char *const names[] = {
        "null", "boolean", "object", "array", "string", "integer", "number"
    };
    unsigned x, y;
    TRY(schema_types(c, a, &x));
    TRY(schema_types(c, b, &y));
    x |= x & TYPE_NUMBER ? TYPE_INTEGER : 0;
    y |= y & TYPE_NUMBER ? TYPE_INTEGER : 0;
    *out = json_array();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((x & y) >> i & 1)
            json_array_append_new(*out, json_string(names[i]));
    return STATUS_OK;
}

static json_t *merge_properties(json_t *a, json_t *b)
{
    json_t *out = json_copy(a), *value;
    const char *name;
    json_object_foreach(b, name, value) {
        json_t *mine = json_object_get(a, name);
        if (mine == NULL)
            json_object_set(out, name, value);
        else if (!json_equal(mine, value))
            json_object_set_new(out, name, both(mine, value));
    }
    return out;
}

static enum status apply_rule(struct schema_compiler *c, enum merge_rule rule, json_t *a, json_t *b,
                              json_t **out)
{
    int numbers = json_is_number(a) && json_is_number(b), lists = json_is_array(a) && json_is_array(b);
    *out = NULL;
    switch (rule) {
    case MERGE_LARGER:
    case MERGE_SMALLER:
        if (numbers)
            *out = (json_number_value(a) > json_number_value(b)) == (rule == MERGE_LARGER) ? a : b;
        json_incref(*out);
        break;
    case MERGE_TYPES:
        return merge_types(c, a, b, out);
    case MERGE_VALUES:
    case MERGE_UNION:
        *out = lists ? merge_lists(a, b, rule == MERGE_UNION) : NULL;
        break;
    case MERGE_PROPERTIES:
        *out = json_is_object(a) && json_is_object(b) ? merge_properties(a, b) : NULL;
        break;
    case MERGE_BOTH:
        *out = json_is_false(a) || json_is_false(b) ? json_false() : both(a, b);
        break;
    }
    return STATUS_OK;
}

/* What joining two lists or objects costs, in schemas. */
static size_t cost_of(json_t *a, json_t *b)
{
    if (json_is_array(a) && json_is_array(b))
        return json_array_size(a) * json_array_size(b) / 64;
    return json_is_object(a) && json_is_object(b) ? json_object_size(a) + json_object_size(b) : 0;
}

/* One keyword that both schemas have, with different values. */
static enum status merge_keyword(struct schema_compiler *c, json_t *merged, const char *keyword, json_t *a,
                                 json_t *b)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].keyword, keyword) != 0)
            continue;
        json_t *value;
        TRY(schema_enter(c, cost_of(a, b)));
        schema_leave(c);
        TRY(apply_rule(c, rules[i].rule, a, b, &value));
        if (value == NULL)
            return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'allOf' joins '%s' of different kinds",
                        keyword);
        return json_object_set_new(merged, keyword, value) == 0 ? STATUS_OK : schema_no_memory(c);
    }
    return fail(c->err, STATUS_BAD_REQUEST,
                "JSON schema 'allOf' with different values of '%.60s' is not supported", keyword);
}

/* additionalProperties speaks about the names its own schema does not list, so a
 * schema that closes the object also closes it to the other one's names. */
static enum status check_closed(struct schema_compiler *c, json_t *closed, json_t *other)
{
    json_t *additional = json_object_get(closed, "additionalProperties"), *value;
    const char *name;
    if (additional == NULL || json_is_true(additional))
        return STATUS_OK;
    json_object_foreach(json_object_get(other, "properties"), name, value)
        if (json_object_get(json_object_get(closed, "properties"), name) == NULL)
            return fail(c->err, STATUS_BAD_REQUEST,
                        "JSON schema 'allOf' joins 'additionalProperties' with properties it does not list");
    return STATUS_OK;
}

/* Neither has $ref or allOf any more. */
static enum status merge_flat(struct schema_compiler *c, json_t *a, json_t *b, json_t **out)
{
    const char *keyword;
    json_t *value;
    TRY(check_closed(c, a, b));
    TRY(check_closed(c, b, a));
    json_t *merged = schema_own(c, json_copy(a));
    if (merged == NULL)
        return schema_no_memory(c);
    json_object_foreach(b, keyword, value) {
        json_t *mine = json_object_get(a, keyword);
        if (mine == NULL && json_object_set(merged, keyword, value) != 0)
            return schema_no_memory(c);
        if (mine != NULL && !json_equal(mine, value) && schema_keyword_group(keyword) != KEYWORD_NOTE)
            TRY(merge_keyword(c, merged, keyword, mine, value));
    }
    *out = merged;
    return STATUS_OK;
}

static enum status flatten(struct schema_compiler *c, json_t *schema, json_t **flat);

/* Merge `other`, flattened, into *flat, which is flat; true is no constraint and
 * false refuses everything. */
static enum status merge_into(struct schema_compiler *c, json_t **flat, json_t *other)
{
    TRY(flatten(c, other, &other));
    if (json_is_false(*flat) || json_is_true(other))
        return STATUS_OK;
    if (json_is_false(other) || json_is_true(*flat)) {
        *flat = other;
        return STATUS_OK;
    }
    return merge_flat(c, *flat, other, flat);
}

/* The same schema without $ref and allOf at its top. */
static enum status flatten_object(struct schema_compiler *c, json_t *schema, json_t **flat)
{
    json_t *parts = json_object_get(schema, "allOf"), *part, *ref = json_object_get(schema, "$ref");
    unsigned groups;
    size_t i;
    TRY(schema_groups(c, schema, &groups));
    *flat = schema;
    if (parts != NULL) {
        if (!json_is_array(parts))
            return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'allOf' must be an array");
        *flat = schema_without(c, *flat, "allOf");
    }
    if (ref != NULL && *flat != NULL)
        *flat = schema_without(c, *flat, "$ref");
    if (*flat == NULL)
        return schema_no_memory(c);
    if (ref != NULL) {
        json_t *target;
        TRY(schema_resolve(c, ref, &target));
        TRY(merge_into(c, flat, target));
    }
    json_array_foreach(parts, i, part)
        TRY(merge_into(c, flat, part));
    return STATUS_OK;
}

static enum status flatten(struct schema_compiler *c, json_t *schema, json_t **flat)
{
    if (json_is_boolean(schema)) {
        *flat = schema;
        return STATUS_OK;
    }
    if (!json_is_object(schema))
        return fail(c->err, STATUS_BAD_REQUEST, "a JSON schema must be an object, true or false");
    TRY(schema_enter(c, 1));
    enum status status = flatten_object(c, schema, flat);
    schema_leave(c);
    return status;
}

enum status schema_merge(struct schema_compiler *c, json_t *a, json_t *b, json_t **merged)
{
    TRY(flatten(c, a, merged));
    return merge_into(c, merged, b);
}
