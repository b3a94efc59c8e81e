/* normalizer.h - the "normalizer" section of a tokenizer.json: text rewritten
 * before it is cut into pieces.
 *
 * Known steps: NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, and
 * Sequences of them.  Anything else is refused at load.
 *
 * One bound is ours: in a run of more than 256 combining marks (Unicode's own
 * stream-safe format allows 30) the canonical order is restored within stretches
 * of 256, because ordering a run of n marks costs n * n steps.
 *
 * Threads: read-only after create, safe from any.
 * Memory: normalizer_run grows the two buffers it is given.
 */
#ifndef MODEL_NORMALIZER_H
#define MODEL_NORMALIZER_H

#include "base/buf.h"
#include "model/pattern.h"

#include <jansson.h>

struct normalizer;                  /* opaque */

struct normalizer_input {
    const char *text;               /* valid UTF-8; not inside out or spare */
    size_t len;
    int joined;                     /* 1: directly behind a byte that is not text: Prepend does nothing */
};

/* section may be NULL or null: the identity.  The caller gives *out to
 * normalizer_destroy.  UNSUPPORTED, BAD_MODEL, NO_MEMORY. */
MUST_CHECK enum status normalizer_create(struct normalizer **out, const json_t *section, const char *where,
                                         struct error *err);
void normalizer_destroy(struct normalizer *n);      /* NULL is allowed */

/* Replace the content of out by the normalised text; spare is used in between.
 * TOO_LARGE: the text grew past out->max, or a pattern passed its step limit.
 * NO_MEMORY. */
MUST_CHECK enum status normalizer_run(const struct normalizer *n, const struct normalizer_input *input,
                                      struct pattern_scratch *scratch, struct buf *out, struct buf *spare);

#endif
