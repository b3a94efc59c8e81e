#include "model/schema_compiler.h"

#include "model/char_class.h"

#include <stdlib.h>
#include <string.h>

#define MAX_MEMBERS 1024

/* A member the schema names. */
struct member {
    const char *name;
    json_t *schema;
    int is_required;
};

struct object_shape {
    struct member *members;     /* [MAX_MEMBERS] in the order they are written */
    int n;
    json_t *additional;         /* schema of other members; NULL: there are none */
    int64_t min, max;           /* of members, when none is named */
    struct char_class *class;   /* working memory of the names */
};

/* ---- reading ---- */

static enum status add_member(struct schema_compiler *c, struct object_shape *o, const char *name,
                              json_t *schema)
{
    if (o->n == MAX_MEMBERS)
        return fail(c->err, STATUS_TOO_LARGE, "a JSON schema object has more than %d properties",
                    MAX_MEMBERS);
    if (strlen(name) > JSON_SCHEMA_MAX_NAME)
        return fail(c->err, STATUS_TOO_LARGE, "a property name in the JSON schema is longer than %d bytes",
                    JSON_SCHEMA_MAX_NAME);
    o->members[o->n++] = (struct member){ .name = name, .schema = schema };
    return STATUS_OK;
}

static enum status read_properties(struct schema_compiler *c, json_t *schema, struct object_shape *o)
{
    json_t *properties = json_object_get(schema, "properties"), *value;
    const char *name;
    if (properties != NULL && !json_is_object(properties))
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'properties' must be an object");
    json_object_foreach(properties, name, value)
        TRY(add_member(c, o, name, value));
    return STATUS_OK;
}

static struct member *find_member(struct object_shape *o, const char *name)
{
    for (int i = 0; i < o->n; i++)
        if (strcmp(o->members[i].name, name) == 0)
            return &o->members[i];
    return NULL;
}

/* Names that only "required" has follow the others, as additional members do. */
static enum status read_required(struct schema_compiler *c, json_t *schema, struct object_shape *o)
{
    json_t *required = json_object_get(schema, "required"), *item;
    json_t *additional = json_object_get(schema, "additionalProperties");
    size_t i;
    if (required != NULL && !json_is_array(required))
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'required' must be an array");
    json_array_foreach(required, i, item) {
        if (!json_is_string(item))
            return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'required' must hold strings");
        const char *name = json_string_value(item);
        if (find_member(o, name) == NULL)
            TRY(add_member(c, o, name, additional == NULL ? json_true() : additional));
        find_member(o, name)->is_required = 1;
    }
    return STATUS_OK;
}

static enum status read_shape(struct schema_compiler *c, json_t *schema, struct object_shape *o)
{
    json_t *additional = json_object_get(schema, "additionalProperties");
    int64_t min = 0;
    o->max = JSON_UNBOUNDED;
    TRY(read_properties(c, schema, o));
    TRY(read_required(c, schema, o));
    TRY(schema_count(c, schema, "minProperties", &min));
    TRY(schema_count(c, schema, "maxProperties", &o->max));
    o->min = min;
    if (additional == NULL && o->n == 0)
        additional = json_true();
    o->additional = additional == NULL || json_is_false(additional) ? NULL : additional;
    if (o->n > 0 && (min > 0 || o->max != JSON_UNBOUNDED))
        return fail(c->err, STATUS_BAD_REQUEST,
                    "JSON schema 'minProperties' and 'maxProperties' are not supported beside 'properties' "
                    "or 'required'");
    /* A name may come twice, and a reader then counts it once. */
    if (min > 1)
        return fail(c->err, STATUS_BAD_REQUEST, "JSON schema 'minProperties' is supported up to 1");
    return STATUS_OK;
}

/* ---- names ---- */

/* Code point of the character at text, and its bytes in *len; text is UTF-8. */
static uint32_t character_at(const char *text, size_t *len)
{
    unsigned char lead = (unsigned char)text[0];
    *len = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t c = *len == 1 ? lead : lead & (0xffu >> (*len + 1));
    for (size_t i = 1; i < *len; i++)
        c = c << 6 | ((unsigned char)text[i] & 0x3fu);
    return c;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Where the names lead and what is written so far. */
struct name_writer {
    struct schema_compiler *c;
    struct char_class *class;
    const char **names;         /* sorted, different, with the same `at` bytes in front */
    uint32_t rest, close;       /* anything more and the quote; only the quote */
};

/* Names [first, last) agree in their first `at` bytes, which are behind us.  A
 * character that none of them goes on with leads to a name of its own; the quote
 * may come unless one of them ends here. */
static uint32_t other_name_from(struct name_writer *w, int first, int last, size_t at)
{
    struct byte_program *p = w->c->program;
    int ends_here = w->names[first][at] == '\0';
    uint32_t pc = ends_here ? byte_program_fail(p) : w->close;
    for (int i = first + ends_here; i < last;) {
        size_t len, same;
        uint32_t c = character_at(w->names[i] + at, &len);
        int end = i + 1;
        while (end < last && character_at(w->names[end] + at, &same) == c)
            end++;
        uint32_t inner = other_name_from(w, i, end, at + len);
        *w->class = (struct char_class){ .n = 1, .ranges = { { c, c } } };
        pc = byte_program_split(p, char_class_emit(w->class, CHARS_JSON, p, inner), pc);
        i = end;
    }
    /* U+0001.. minus the characters just seen. */
    w->class->n = 0;
    for (int i = first + ends_here; i < last; i++) {
        size_t len;
        uint32_t c = character_at(w->names[i] + at, &len);
        int is_new = w->class->n == 0 || w->class->ranges[w->class->n - 1].lo != c;
        /* Hundreds of names that differ here: no other name is let through here. */
        if (is_new && !char_class_add(w->class, c, c))
            return pc;
    }
    if (!char_class_close(w->class, 1))
        return pc;
    return byte_program_split(p, char_class_emit(w->class, CHARS_JSON, p, w->rest), pc);
}

/* The quoted name of a member that is not one of the listed, then next. */
static enum status emit_other_name(struct schema_compiler *c, const struct object_shape *o, uint32_t next,
                                   uint32_t *entry)
{
    if (o->n == 0) {
        *entry = json_rules_string(&c->rules, 0, JSON_UNBOUNDED, next);
        return STATUS_OK;
    }
    struct name_writer w = { .c = c, .class = o->class, .names = calloc((size_t)o->n, sizeof *w.names) };
    if (w.names == NULL)
        return schema_no_memory(c);
    for (int i = 0; i < o->n; i++)
        w.names[i] = o->members[i].name;
    qsort(w.names, (size_t)o->n, sizeof *w.names, by_name);
    w.close = byte_program_range(c->program, '"', '"', next);
    w.rest = byte_program_loop_begin(c->program);
    byte_program_loop_end(c->program, w.rest, json_rules_character(&c->rules, w.rest), w.close);
    *entry = byte_program_range(c->program, '"', '"', other_name_from(&w, 0, o->n, 0));
    free(w.names);
    return STATUS_OK;
}

/* ---- writing ---- */

/* : value and the space behind it, then next. */
static enum status emit_member_value(struct schema_compiler *c, json_t *schema, uint32_t next,
                                     uint32_t *entry)
{
    uint32_t value = 0;
    TRY(schema_emit(c, schema, json_rules_space(&c->rules, next), &value));
    uint32_t colon = byte_program_range(c->program, ':', ':', json_rules_space(&c->rules, value));
    *entry = json_rules_space(&c->rules, colon);
    return STATUS_OK;
}

/* A rule for one additional member and the space behind it. */
static enum status emit_additional(struct schema_compiler *c, const struct object_shape *o, uint32_t *rule)
{
    uint32_t value = 0, entry = 0;
    *rule = byte_program_rule_new(c->program);
    TRY(emit_member_value(c, o->additional, byte_program_return(c->program), &value));
    TRY(emit_other_name(c, o, value, &entry));
    byte_program_rule_set(c->program, *rule, entry);
    return STATUS_OK;
}

static enum status emit_named(struct schema_compiler *c, const struct member *m, uint32_t next,
                              uint32_t *entry)
{
    uint32_t value = 0;
    TRY(emit_member_value(c, m->schema, next, &value));
    json_t *name = schema_own(c, json_string(m->name));
    if (name == NULL)
        return schema_no_memory(c);
    return schema_emit_constant(c, name, value, entry);
}

/* From the last member to the first.  At member i, `empty` is where the text goes
 * on if nothing has been written yet, `some` if something has: it differs in the
 * comma only, so each member is written once.
 *
 *   empty(i) = member(i) some(i+1)  or, if i is optional,  empty(i+1)
 *   some(i)  = , member(i) some(i+1)  or, if i is optional,  some(i+1)
 */
static enum status emit_members(struct schema_compiler *c, const struct object_shape *o, uint32_t empty,
                                uint32_t some, uint32_t *entry)
{
    for (int i = o->n - 1; i >= 0; i--) {
        const struct member *m = &o->members[i];
        uint32_t member = 0;
        TRY(emit_named(c, m, some, &member));
        uint32_t comma = json_rules_comma(&c->rules, member);
        empty = m->is_required ? member : byte_program_split(c->program, member, empty);
        some = m->is_required ? comma : byte_program_split(c->program, comma, some);
    }
    *entry = empty;
    return STATUS_OK;
}

static enum status emit_shape(struct schema_compiler *c, const struct object_shape *o, uint32_t next,
                              uint32_t *entry)
{
    uint32_t close = byte_program_range(c->program, '}', '}', next);
    uint32_t empty = close, some = close, inner = 0, rule = 0;
    if (o->additional != NULL) {
        TRY(emit_additional(c, o, &rule));
        empty = json_rules_list(&c->rules, rule, o->min, o->max, close);
        some = byte_program_loop_begin(c->program);
        byte_program_loop_end(c->program, some,
                              json_rules_comma(&c->rules, byte_program_call(c->program, rule, some)),
                              close);
    } else if (o->min > 0) {
        empty = byte_program_fail(c->program);
    }
    TRY(emit_members(c, o, empty, some, &inner));
    *entry = json_rules_open(&c->rules, '{', inner);
    return STATUS_OK;
}

enum status schema_emit_object(struct schema_compiler *c, json_t *schema, uint32_t next, uint32_t *entry)
{
    struct object_shape o = {
        .members = calloc(MAX_MEMBERS, sizeof *o.members),
        .class = malloc(sizeof *o.class),
    };
    enum status status = STATUS_OK;
    if (o.members == NULL || o.class == NULL)
        status = schema_no_memory(c);
    if (status == STATUS_OK)
        status = read_shape(c, schema, &o);
    if (status == STATUS_OK)
        status = emit_shape(c, &o, next, entry);
    free(o.members);
    free(o.class);
    return status;
}
