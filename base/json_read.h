/* json_read.h - typed, range-checked fields of a JSON object (jansson).
 *
 * One rule for every reader in the project: a missing field and a null field
 * both mean "absent" and leave *out untouched; a field of another type or out
 * of range is refused with a sentence that names it, what was expected and
 * what was got.  Unknown fields are the caller's business (requests ignore
 * them).  `code` is the status a bad field yields: BAD_REQUEST for a request,
 * BAD_MODEL for a model's config.
 *
 * Threads: any.  Memory: none.
 */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

struct json_reader {
    const json_t *object;       /* a JSON object, borrowed */
    const char *where;          /* "config.json" or "" ; prefixes the sentence */
    enum status code;           /* returned for a bad field */
};

/* The field, or NULL if it is missing or null. */
const json_t *json_read_any(const struct json_reader *r, const char *field);

/* Whole numbers, however they are written (1e3, 1000.0). */
MUST_CHECK enum status json_read_int(const struct json_reader *r, const char *field,
                                     int64_t min, int64_t max, int64_t *out, struct error *err);
/* Integers are accepted; NaN and infinities cannot occur in JSON text. */
MUST_CHECK enum status json_read_double(const struct json_reader *r, const char *field,
                                        double min, double max, double *out, struct error *err);
MUST_CHECK enum status json_read_bool(const struct json_reader *r, const char *field,
                                      int *out, struct error *err);
/* *out is borrowed from the object; *len counts bytes (a string may hold NUL). */
MUST_CHECK enum status json_read_string(const struct json_reader *r, const char *field,
                                        const char **out, size_t *len, struct error *err);
MUST_CHECK enum status json_read_object(const struct json_reader *r, const char *field,
                                        const json_t **out, struct error *err);
MUST_CHECK enum status json_read_array(const struct json_reader *r, const char *field,
                                       const json_t **out, struct error *err);

/* "an integer", "a string", .. for sentences. */
const char *json_type_phrase(const json_t *value);

/* The whole file as JSON.  IO: cannot be read.  code: larger than max_bytes or
 * not JSON (the sentence has line and column).  The caller gives *out to
 * json_decref. */
MUST_CHECK enum status json_read_file(const char *path, size_t max_bytes, enum status code,
                                      json_t **out, struct error *err);

#endif
