/* vocab.h - the table text <-> token id of a tokenizer's model.
 *
 *   id      0        1       2       3       4
 *   text   "<s>"    "a"     (none)  "b"     "ab"        n_ids = 5
 *
 * Ids may have gaps; every text and every id is used once.  Texts are what the
 * file says: for a byte-level tokenizer they are mapped bytes (byte_level.h).
 *
 * Threads: read-only after create, safe from any.  Memory: all at create.
 */
#ifndef MODEL_VOCAB_H
#define MODEL_VOCAB_H

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define VOCAB_MAX_IDS (1 << 22)     /* an id is below this */

struct vocab;                       /* opaque */

/* object maps text to id.  The caller gives *out to vocab_destroy.
 * BAD_MODEL: an id is not an integer in [0, VOCAB_MAX_IDS), or is used twice;
 * the sentence starts with where.  NO_MEMORY. */
MUST_CHECK enum status vocab_create(struct vocab **out, const json_t *object, const char *where,
                                    struct error *err);
void vocab_destroy(struct vocab *v);        /* NULL is allowed */

/* The id of text[0..len), or -1.  O(len). */
int32_t vocab_find(const struct vocab *v, const char *text, size_t len);

/* The text of id and its length in bytes; NULL if no text has that id (any
 * integer is allowed).  Lives as long as v. */
const char *vocab_text(const struct vocab *v, int32_t id, size_t *len);

int32_t vocab_n_ids(const struct vocab *v);     /* largest id + 1 */

#endif
