/* body_fields.h - the JSON fields of a request body, described by a table.
 *
 * A row says everything about a field: its name, where its value goes, its type, its
 * range and its sentence of help.  The same rows read the body and write its schema
 * into the OpenAPI document, so the document cannot say anything else.
 *
 *     struct detokenize_body { const json_t *tokens; int skip_special_tokens; };
 *
 *     static const struct body_field fields[] = {
 *         { "tokens", BODY_ARRAY(struct detokenize_body, tokens), .help = "token ids" },
 *         { "skip_special_tokens", BODY_FLAG(struct detokenize_body, skip_special_tokens),
 *           .help = "leave special tokens out" },
 *     };
 *
 * Rules
 *   - a missing field and a null field leave the value untouched: it holds the default;
 *   - a field of another type or out of range is refused with a sentence that names it;
 *   - a REFUSED field may be absent, null, false, 0, "", [] or {}: a client that sends
 *     what it does not use is served, one that means it is told;
 *   - an IGNORED field and every unknown one are not looked at;
 *   - two rows may fill one value (max_tokens, max_completion_tokens): the later wins.
 *
 * Threads: any.  Memory: none; texts, objects and arrays are borrowed from the body.
 */
#ifndef SERVER_BODY_FIELDS_H
#define SERVER_BODY_FIELDS_H

#include "base/buf.h"
#include "base/status.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum body_field_kind {
    BODY_KIND_FLAG,             /* int: true or false */
    BODY_KIND_INT,              /* int64_t: min <= value <= max */
    BODY_KIND_NUMBER,           /* double: low <= value <= high; never NaN or infinite */
    BODY_KIND_TEXT,             /* struct body_text */
    BODY_KIND_OBJECT,           /* const json_t *, an object */
    BODY_KIND_ARRAY,            /* const json_t *, an array */
    BODY_KIND_ANY,              /* const json_t *, looked at by the endpoint; `schema` says what it may be */
    BODY_KIND_REFUSED,          /* help is the reason */
    BODY_KIND_IGNORED,          /* accepted because clients send it */
};

struct body_text {
    const char *bytes;          /* NULL: absent */
    size_t len;                 /* may hold NUL bytes */
};

struct body_field {
    const char *name;
    enum body_field_kind kind;  /* kind and offset: written by the macros below */
    size_t offset;
    int64_t min, max;           /* INT */
    double low, high;           /* NUMBER */
    const char *schema;         /* JSON schema of the value; NULL: what the kind says */
    const char *help;           /* one sentence without full stop */
};

#define BODY_FLAG(type, field)   BODY_AT_(FLAG, type, field, int: 0)
#define BODY_INT(type, field)    BODY_AT_(INT, type, field, int64_t: 0)
#define BODY_NUMBER(type, field) BODY_AT_(NUMBER, type, field, double: 0)
#define BODY_TEXT(type, field)   BODY_AT_(TEXT, type, field, struct body_text: 0)
#define BODY_OBJECT(type, field) BODY_AT_(OBJECT, type, field, const json_t *: 0)
#define BODY_ARRAY(type, field)  BODY_AT_(ARRAY, type, field, const json_t *: 0)
#define BODY_ANY(type, field)    BODY_AT_(ANY, type, field, const json_t *: 0)
#define BODY_REFUSED             .kind = BODY_KIND_REFUSED
#define BODY_IGNORED             .kind = BODY_KIND_IGNORED

/* A field of another type does not compile. */
#define BODY_AT_(kind_, type, field, ...) \
    .kind = BODY_KIND_##kind_, .offset = offsetof(type, field) + _Generic(((type *)NULL)->field, __VA_ARGS__)

struct body_table {
    const struct body_field *fields;    /* [n_fields] */
    size_t n_fields;
};

/* The rows of an array as a table. */
#define BODY_TABLE(rows) { (rows), sizeof (rows) / sizeof (rows)[0] }

/* Fill *values from the object.
 * BAD_REQUEST: *param is the field at fault (a constant of the table). */
MUST_CHECK enum status body_fields_read(const struct body_table *table, const json_t *object, void *values,
                                        const char **param, struct error *err);

/* Append "name":{schema} of every row, separated by commas; IGNORED rows too.
 * The failures of buf_add. */
MUST_CHECK enum status body_fields_write_schema(const struct body_table *table, struct buf *out);

/* What a value takes in memory has little to do with its text: "1," becomes some 50 bytes, "{}," some 400.
 * With these bounds the values of a body of any size take less than 400 MiB. */
#define BODY_MAX_VALUES ((size_t)4 << 20)
#define BODY_MAX_CONTAINERS ((size_t)256 << 10)         /* objects and arrays */

/* The body of a request as an object; the caller gives *out to json_decref.
 * BAD_REQUEST: it is no JSON object; the sentence says where and repeats nothing of it.
 * TOO_LARGE: more values than the bounds; nothing was allocated. */
MUST_CHECK enum status body_parse(const char *bytes, size_t len, json_t **out, struct error *err);

#endif
