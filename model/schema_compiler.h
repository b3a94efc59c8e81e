/* schema_compiler.h - what the files that compile a JSON Schema share.
 *
 *   json_schema.c     entry, $ref, the order in which keywords are looked at
 *   schema_merge.c    allOf: two schemas into one
 *   schema_types.c    numbers, strings, arrays
 *   schema_object.c   objects
 *
 * Nothing outside these files includes this header.  Schemas that merging makes
 * are kept in `owned` until the end, so a json_t pointer is a schema's identity.
 */
#ifndef MODEL_SCHEMA_COMPILER_H
#define MODEL_SCHEMA_COMPILER_H

#include "model/json_rules.h"
#include "model/json_schema.h"

#include <jansson.h>

/* What a keyword speaks about; a schema's keywords as a set of these. */
enum keyword_group {
    KEYWORD_NOTE   = 1 << 0,        /* has no meaning for the text */
    KEYWORD_CHOICE = 1 << 1,        /* $ref allOf anyOf oneOf */
    KEYWORD_TYPE   = 1 << 2,
    KEYWORD_VALUES = 1 << 3,        /* enum const */
    KEYWORD_OBJECT = 1 << 4,
    KEYWORD_ARRAY  = 1 << 5,
    KEYWORD_STRING = 1 << 6,
    KEYWORD_NUMBER = 1 << 7
};

enum schema_type {
    TYPE_NULL = 1 << 0, TYPE_BOOLEAN = 1 << 1, TYPE_OBJECT = 1 << 2, TYPE_ARRAY = 1 << 3,
    TYPE_STRING = 1 << 4, TYPE_INTEGER = 1 << 5, TYPE_NUMBER = 1 << 6
};

struct schema_ref {
    const json_t *target;
    uint32_t rule;
};

struct schema_compiler {
    json_t *root;
    json_t *owned;                  /* array of the schemas made here */
    struct byte_program *program;
    struct json_rules rules;
    struct schema_ref *refs;        /* [n_refs], written in order */
    int n_refs;
    int depth;                      /* schemas we are inside of */
    size_t n_schemas;               /* compiled so far, and members and values that merging looked at */
    struct error *err;
};

/* One value that fits the schema, in front of next; *entry is where it begins. */
MUST_CHECK enum status schema_emit(struct schema_compiler *c, json_t *schema, uint32_t next, uint32_t *entry);

/* The group of one keyword; 0 if it is not known. */
unsigned schema_keyword_group(const char *name);

/* The set of keyword groups of an object schema; BAD_REQUEST names an unknown one. */
MUST_CHECK enum status schema_groups(struct schema_compiler *c, json_t *schema, unsigned *groups);

/* The set of types that "type" names. */
MUST_CHECK enum status schema_types(struct schema_compiler *c, json_t *type, unsigned *types);

/* One level deeper and n_more pieces of work.  TOO_LARGE or BAD_REQUEST: past a
 * limit; the level was not entered. */
MUST_CHECK enum status schema_enter(struct schema_compiler *c, size_t n_more);
void schema_leave(struct schema_compiler *c);

/* The schema a $ref points to. */
MUST_CHECK enum status schema_resolve(struct schema_compiler *c, json_t *ref, json_t **target);

/* A copy of an object schema without one keyword; NULL if memory ran out. */
json_t *schema_without(struct schema_compiler *c, json_t *schema, const char *keyword);

/* Keep a new reference until the end; returns it, or NULL if memory ran out. */
json_t *schema_own(struct schema_compiler *c, json_t *schema);

/* Both schemas at once (schema_merge.c).  $ref and allOf of either are resolved. */
MUST_CHECK enum status schema_merge(struct schema_compiler *c, json_t *a, json_t *b, json_t **merged);

/* A whole number >= 0 in *out; absent leaves it. */
MUST_CHECK enum status schema_count(struct schema_compiler *c, json_t *schema, const char *keyword,
                                    int64_t *out);

MUST_CHECK enum status schema_emit_number(struct schema_compiler *c, json_t *schema, int is_integer,
                                          uint32_t next, uint32_t *entry);
MUST_CHECK enum status schema_emit_string(struct schema_compiler *c, json_t *schema, uint32_t next,
                                          uint32_t *entry);
MUST_CHECK enum status schema_emit_array(struct schema_compiler *c, json_t *schema, uint32_t next,
                                         uint32_t *entry);
MUST_CHECK enum status schema_emit_object(struct schema_compiler *c, json_t *schema, uint32_t next,
                                          uint32_t *entry);

/* The value itself, spelled compactly, in front of next. */
MUST_CHECK enum status schema_emit_constant(struct schema_compiler *c, json_t *value, uint32_t next,
                                            uint32_t *entry);

MUST_CHECK enum status schema_no_memory(struct schema_compiler *c);

#endif
