/* tokenizer_spec.h - walks one section of a tokenizer.json.
 *
 * normalizer, pre_tokenizer, post_processor and decoder have the same form: null,
 * one step {"type": "X", ..}, or {"type": "Sequence", "<list>": [steps]}, nested.
 * The walk calls back for each step that is not a Sequence, in order.
 *
 * Threads: any.  Memory: none but the content's.
 */
#ifndef MODEL_TOKENIZER_SPEC_H
#define MODEL_TOKENIZER_SPEC_H

#include "base/buf.h"
#include "base/json_read.h"

#define TOKENIZER_MAX_STEPS   32    /* of one section */
#define TOKENIZER_MAX_CONTENT 4096  /* bytes of one replacement */

struct tokenizer_spec {
    const char *where;              /* "tokenizer.json: decoder"; starts every sentence */
    const char *list;               /* the field of a Sequence that has its steps */
    enum status (*add)(void *part, const struct json_reader *step, const char *type, struct error *err);
    void *part;                     /* given to add */
};

/* BAD_MODEL: a step is not an object with a type, more than TOKENIZER_MAX_STEPS
 * steps, nested too deeply; otherwise what add returns. */
MUST_CHECK enum status tokenizer_spec_walk(const struct tokenizer_spec *spec, const json_t *section,
                                           struct error *err);

/* A field that must be a string.  BAD_MODEL. */
MUST_CHECK enum status tokenizer_spec_text(const struct json_reader *step, const char *field,
                                           const char **text, size_t *len, struct error *err);

/* A field that must be a string, as bytes of its own: out is initialised here and
 * is the caller's to clear, also after a failure.  BAD_MODEL: no string, or longer
 * than TOKENIZER_MAX_CONTENT bytes.  NO_MEMORY. */
MUST_CHECK enum status tokenizer_spec_content(const struct json_reader *step, const char *field,
                                              struct buf *out, struct error *err);

/* "type 'X' is not one this build knows". */
enum status tokenizer_spec_unknown(const struct json_reader *step, const char *type, struct error *err);

#endif
