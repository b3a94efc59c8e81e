#include "model/json_schema.h"

#include "model/schema_compiler.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned group;
} keywords[] = {
    { "title", KEYWORD_NOTE }, { "description", KEYWORD_NOTE }, { "default", KEYWORD_NOTE },
    { "examples", KEYWORD_NOTE }, { "deprecated", KEYWORD_NOTE }, { "readOnly", KEYWORD_NOTE },
    { "writeOnly", KEYWORD_NOTE }, { "$schema", KEYWORD_NOTE }, { "$id", KEYWORD_NOTE },
    { "$comment", KEYWORD_NOTE }, { "$defs", KEYWORD_NOTE }, { "definitions", KEYWORD_NOTE },
    { "discriminator", KEYWORD_NOTE },
    { "$ref", KEYWORD_CHOICE }, { "allOf", KEYWORD_CHOICE }, { "anyOf", KEYWORD_CHOICE },
    { "oneOf", KEYWORD_CHOICE },
    { "type", KEYWORD_TYPE },
    { "enum", KEYWORD_VALUES }, { "const", KEYWORD_VALUES },
    { "properties", KEYWORD_OBJECT }, { "required", KEYWORD_OBJECT },
    { "additionalProperties", KEYWORD_OBJECT }, { "minProperties", KEYWORD_OBJECT },
    { "maxProperties", KEYWORD_OBJECT },
    { "items", KEYWORD_ARRAY }, { "prefixItems", KEYWORD_ARRAY }, { "minItems", KEYWORD_ARRAY },
    { "maxItems", KEYWORD_ARRAY }, { "uniqueItems", KEYWORD_ARRAY },
    { "minLength", KEYWORD_STRING }, { "maxLength", KEYWORD_STRING }, { "pattern", KEYWORD_STRING },
    { "format", KEYWORD_STRING },
    { "minimum", KEYWORD_NUMBER }, { "maximum", KEYWORD_NUMBER },
    { "exclusiveMinimum", KEYWORD_NUMBER }, { "exclusiveMaximum", KEYWORD_NUMBER },
};

static const struct {
    const char *name;
    unsigned type;
} types[] = {
    { "null", TYPE_NULL },     { "boolean", TYPE_BOOLEAN }, { "object", TYPE_OBJECT },
    { "array", TYPE_ARRAY },   { "string", TYPE_STRING },   { "integer", TYPE_INTEGER },
    { "number", TYPE_NUMBER },
};

enum status schema_no_memory(struct schema_compiler *c)
{
    return fail(c->err, STATUS_NO_MEMORY, "no memory to compile a JSON schema");
}

json_t *schema_own(struct schema_compiler *c, json_t *schema)
{
    if (schema == NULL || json_array_append_new(c->owned, schema) != 0)
        return NULL;
    return schema;
}

json_t *schema_without(struct schema_compiler *c, json_t *schema, const char *keyword)
{
    json_t *copy = schema_own(c, json_copy(schema));
    if (copy != NULL)
        json_object_del(copy, keyword);
    return copy;
}

unsigned schema_keyword_group(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return keywords[i].group;
    return strncmp(name, "x-", 2) == 0 ? KEYWORD_NOTE : 0;
}

enum status schema_groups(struct schema_compiler *c, json_t *schema, unsigned *groups)
{
    const char *name;
    json_t *value;
    *groups = 0;
    json_object_foreach(schema, name, value) {
        unsigned group = schema_keyword_group(name);
        if (group == 0)
            return fail(c->err, STATUS_BAD_REQUEST, "the JSON schema keyword '%.60s' is not supported", name);
        *groups |= group;
    }
    return STATUS_OK;
}

static enum status add_type(struct schema_compiler *c, json_t *name, unsigned *set)
{
    const char *text = json_is_string(name) ? json_string_value(name) : "";
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, text) == 0) {
            *set |= types[i].type;
            return STATUS_OK;
        }
    return fail(c->err, STATUS_BAD_REQUEST,
                "JSON schema 'type' must name null, boolean, object, array, string, integer or number");
}

enum status schema_types(struct schema_compiler *c, json_t *type, unsigned *set)
{
    *set = 0;
    if (!json_is_array(type))
        return add_type(c, type, set);
    size_t i;
    json_t *name;
    json_array_foreach(type, i, name)
        TRY(add_type(c, name, set));
    return STATUS_OK;
}

/* ---- references ---- */

/* One step of a JSON pointer: the member of `at` that [text, text + len) names. */
static json_t *pointer_step(json_t *at, const char *text, size_t len)
{
    char name[JSON_SCHEMA_MAX_NAME + 1];
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '~' && i + 1 < len && (text[i + 1] == '0' || text[i + 1] == '1'))
            c = text[++i] == '0' ? '~' : '/';
        if (n == JSON_SCHEMA_MAX_NAME)
            return NULL;
        name[n++] = c;
    }
    name[n] = '\0';
    if (json_is_array(at)) {
        char *end;
        unsigned long k = strtoul(name, &end, 10);
        return *end == '\0' && n > 0 ? json_array_get(at, k) : NULL;
    }
    return json_object_get(at, name);
}

enum status schema_resolve(struct schema_compiler *c, json_t *ref, json_t **target)
{
    const char *text = json_string_value(ref);
    if (text == NULL || text[0] != '#' || (text[1] != '\0' && text[1] != '/'))
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema '$ref' must be \"#\" or begin with \"#/\"");
    json_t *at = c->root;
    for (text++; *text == '/' && at != NULL;) {
        size_t len = strcspn(text + 1, "/");
        at = pointer_step(at, text + 1, len);
        text += len + 1;
    }
    if (at == NULL)
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema '$ref' to '%.100s' leads nowhere",
                    json_string_value(ref));
    *target = at;
    return STATUS_OK;
}

/* The rule of a $ref target; a new one is written later, by emit_refs. */
static enum status rule_of(struct schema_compiler *c, const json_t *target, uint32_t *rule)
{
    for (int i = 0; i < c->n_refs; i++)
        if (c->refs[i].target == target) {
            *rule = c->refs[i].rule;
            return STATUS_OK;
        }
    if (c->n_refs == JSON_SCHEMA_MAX_REFS)
        return fail(c->err, STATUS_TOO_LARGE, "the JSON schema refers to more than %d places",
                    JSON_SCHEMA_MAX_REFS);
    *rule = byte_program_rule_new(c->program);
    c->refs[c->n_refs++] = (struct schema_ref){ target, *rule };
    return STATUS_OK;
}

/* Keywords beside a $ref hold as well; notes do not count. */
static enum status emit_ref(struct schema_compiler *c, json_t *schema, uint32_t next, uint32_t *entry)
{
    json_t *target, *others = schema_without(c, schema, "$ref"), *merged;
    unsigned groups;
    if (others == NULL)
        return schema_no_memory(c);
    TRY(schema_resolve(c, json_object_get(schema, "$ref"), &target));
    TRY(schema_groups(c, others, &groups));
    if ((groups & ~(unsigned)KEYWORD_NOTE) != 0) {
        TRY(schema_merge(c, others, target, &merged));
        return schema_emit(c, merged, next, entry);
    }
    uint32_t rule = 0;
    TRY(rule_of(c, target, &rule));
    *entry = byte_program_call(c->program, rule, next);
    return STATUS_OK;
}

static enum status emit_refs(struct schema_compiler *c)
{
    for (int i = 0; i < c->n_refs; i++) {
        uint32_t entry = 0;
        json_t *target = (json_t *)c->refs[i].target;
        TRY(schema_emit(c, target, byte_program_return(c->program), &entry));
        byte_program_rule_set(c->program, c->refs[i].rule, entry);
    }
    return STATUS_OK;
}

/* ---- choices ---- */

static void add_way(struct schema_compiler *c, uint32_t way, uint32_t *entry, int *n_ways)
{
    *entry = *n_ways == 0 ? way : byte_program_split(c->program, *entry, way);
    ++*n_ways;
}

static enum status emit_all_of(struct schema_compiler *c, json_t *schema, uint32_t next, uint32_t *entry)
{
    json_t *merged;
    TRY(schema_merge(c, schema, json_true(), &merged));
    return schema_emit(c, merged, next, entry);
}

static enum status emit_any_of(struct schema_compiler *c, json_t *schema, const char *keyword,
                               uint32_t next, uint32_t *entry)
{
    json_t *branches = json_object_get(schema, keyword), *branch;
    json_t *others = schema_without(c, schema, keyword);
    unsigned groups;
    size_t i;
    int n_ways = 0;
    if (others == NULL)
        return schema_no_memory(c);
    if (!json_is_array(branches) || json_array_size(branches) == 0)
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema '%s' must be an array that is not empty",
                    keyword);
    TRY(schema_groups(c, others, &groups));
    json_array_foreach(branches, i, branch) {
        uint32_t way = 0;
        if ((groups & ~(unsigned)KEYWORD_NOTE) != 0)
            TRY(schema_merge(c, others, branch, &branch));
        TRY(schema_emit(c, branch, next, &way));
        add_way(c, way, entry, &n_ways);
    }
    return STATUS_OK;
}

/* ---- values ---- */

static unsigned type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:    return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:   return TYPE_BOOLEAN;
    case JSON_OBJECT:  return TYPE_OBJECT;
    case JSON_ARRAY:   return TYPE_ARRAY;
    case JSON_STRING:  return TYPE_STRING;
    case JSON_INTEGER: return TYPE_INTEGER | TYPE_NUMBER;
    case JSON_REAL:    return TYPE_NUMBER;
    }
    return 0;
}

/* enum and const: the values that have one of the types. */
static enum status emit_values(struct schema_compiler *c, json_t *schema, unsigned set, uint32_t next,
                               uint32_t *entry)
{
    json_t *values = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const"), *value;
    int n_ways = 0;
    size_t i;
    if (values == NULL) {
        values = schema_own(c, json_array());
        if (values == NULL || json_array_append(values, constant) != 0)
            return schema_no_memory(c);
    }
    if (!json_is_array(values))
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'enum' must be an array");
    *entry = byte_program_fail(c->program);
    json_array_foreach(values, i, value) {
        uint32_t way = 0;
        if ((type_of(value) & set) == 0 || (constant != NULL && !json_equal(constant, value)))
            continue;
        TRY(schema_emit_constant(c, value, next, &way));
        add_way(c, way, entry, &n_ways);
    }
    return STATUS_OK;
}

/* ---- types ---- */

/* The types a schema without "type" speaks about. */
static unsigned implied_types(unsigned groups)
{
    unsigned set = 0;
    set |= groups & KEYWORD_OBJECT ? TYPE_OBJECT : 0;
    set |= groups & KEYWORD_ARRAY ? TYPE_ARRAY : 0;
    set |= groups & KEYWORD_STRING ? TYPE_STRING : 0;
    set |= groups & KEYWORD_NUMBER ? TYPE_NUMBER : 0;
    return set;
}

static enum status emit_type(struct schema_compiler *c, json_t *schema, unsigned type, uint32_t next,
                             uint32_t *entry)
{
    switch (type) {
    case TYPE_OBJECT:  return schema_emit_object(c, schema, next, entry);
    case TYPE_ARRAY:   return schema_emit_array(c, schema, next, entry);
    case TYPE_STRING:  return schema_emit_string(c, schema, next, entry);
    case TYPE_INTEGER: return schema_emit_number(c, schema, 1, next, entry);
    case TYPE_NUMBER:  return schema_emit_number(c, schema, 0, next, entry);
    case TYPE_BOOLEAN:
        *entry = byte_program_split(c->program, byte_program_literal(c->program, "true", 4, next),
                                    byte_program_literal(c->program, "false", 5, next));
        return STATUS_OK;
    default:
        *entry = byte_program_literal(c->program, "null", 4, next);
        return STATUS_OK;
    }
}

static enum status emit_types(struct schema_compiler *c, json_t *schema, unsigned set, uint32_t next,
                              uint32_t *entry)
{
    int n_ways = 0;
    if (set & TYPE_NUMBER)
        set &= ~(unsigned)TYPE_INTEGER;
    *entry = byte_program_fail(c->program);
    for (unsigned type = 1; type <= TYPE_NUMBER; type <<= 1) {
        uint32_t way = 0;
        if ((set & type) == 0)
            continue;
        TRY(emit_type(c, schema, type, next, &way));
        add_way(c, way, entry, &n_ways);
    }
    return STATUS_OK;
}

static enum status emit_object_schema(struct schema_compiler *c, json_t *schema, uint32_t next,
                                      uint32_t *entry)
{
    unsigned groups, set;
    TRY(schema_groups(c, schema, &groups));
    if (json_object_get(schema, "allOf") != NULL)
        return emit_all_of(c, schema, next, entry);
    if (json_object_get(schema, "$ref") != NULL)
        return emit_ref(c, schema, next, entry);
    int any = json_object_get(schema, "anyOf") != NULL, one = json_object_get(schema, "oneOf") != NULL;
    if (any && one)
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'anyOf' together with 'oneOf' is not supported");
    if (any || one)
        return emit_any_of(c, schema, any ? "anyOf" : "oneOf", next, entry);

    json_t *type = json_object_get(schema, "type");
    set = type == NULL ? implied_types(groups) : 0;
    if (type != NULL)
        TRY(schema_types(c, type, &set));
    if (groups & KEYWORD_VALUES) {
        if (groups & (KEYWORD_OBJECT | KEYWORD_ARRAY | KEYWORD_STRING | KEYWORD_NUMBER))
            return fail(c->err, STATUS_BAD_REQUEST,
                        "JSON schema 'enum' and 'const' are supported together with 'type' only");
        return emit_values(c, schema, type == NULL ? ~0u : set, next, entry);
    }
    if (type == NULL && set == 0) {
        *entry = json_rules_value(&c->rules, next);
        return STATUS_OK;
    }
    return emit_types(c, schema, set, next, entry);
}

enum status schema_enter(struct schema_compiler *c, size_t n_more)
{
    c->n_schemas += n_more;
    if (c->n_schemas > JSON_SCHEMA_MAX_SCHEMAS)
        return fail(c->err, STATUS_TOO_LARGE, "the JSON schema holds or makes more than %d schemas",
                    JSON_SCHEMA_MAX_SCHEMAS);
    if (c->depth == JSON_SCHEMA_MAX_DEPTH)
        return fail(c->err, STATUS_BAD_REQUEST, "the JSON schema is nested more than %d deep",
                    JSON_SCHEMA_MAX_DEPTH);
    c->depth++;
    return STATUS_OK;
}

void schema_leave(struct schema_compiler *c)
{
    c->depth--;
}

enum status schema_emit(struct schema_compiler *c, json_t *schema, uint32_t next, uint32_t *entry)
{
    *entry = 0;
    if (c->program->is_full)        /* nothing more can be written; seal says so */
        return STATUS_OK;
    TRY(schema_enter(c, 1));
    enum status status = STATUS_OK;
    if (json_is_true(schema))
        *entry = json_rules_value(&c->rules, next);
    else if (json_is_false(schema))
        *entry = byte_program_fail(c->program);
    else if (json_is_object(schema))
        status = emit_object_schema(c, schema, next, entry);
    else
        status = fail(c->err, STATUS_BAD_REQUEST, "a JSON schema must be an object, true or false");
    schema_leave(c);
    return status;
}

enum status json_schema_emit(const char *text, size_t len, struct byte_program *program, struct error *err)
{
    json_error_t where;
    json_t *root = json_loadb(text, len, JSON_DECODE_ANY, &where);
    if (root == NULL)
        return fail(err, STATUS_BAD_REQUEST, "the JSON schema is not valid JSON: line %d column %d: %s",
                    where.line, where.column, where.text);
    struct schema_compiler c = { .root = root, .program = program, .err = err };
    json_rules_init(&c.rules, program);
    c.owned = json_array();
    c.refs = calloc(JSON_SCHEMA_MAX_REFS, sizeof *c.refs);
    enum status status = STATUS_OK;
    if (c.owned == NULL || c.refs == NULL)
        status = schema_no_memory(&c);
    uint32_t entry = 0;
    if (status == STATUS_OK)
        status = schema_emit(&c, root, byte_program_return(program), &entry);
    if (status == STATUS_OK) {
        byte_program_rule_set(program, 0, entry);
        status = emit_refs(&c);
    }
    free(c.refs);
    json_decref(c.owned);
    json_decref(root);
    return status;
}
