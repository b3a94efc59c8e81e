/* added_tokens.h - the "added_tokens" of a tokenizer.json: texts that are one
 * token whatever the model would make of them ("<|im_start|>", "<think>").
 *
 * They are searched leftmost, then longest, through a tree of their bytes:
 *
 *   raw text          those with normalized false, in the text as it came
 *   normalised text   the others, by their normalised content
 *
 * lstrip / rstrip take the white space before / behind along; single_word holds
 * only if no letter or digit touches it.  White space that was taken along is not
 * searched again (the reference would find an added token of spaces in it).
 *
 * Threads: read-only after create, safe from any.  Memory: all at create.
 */
#ifndef MODEL_ADDED_TOKENS_H
#define MODEL_ADDED_TOKENS_H

#include "model/normalizer.h"
#include "model/vocab.h"

#include <stdint.h>

#define ADDED_TOKEN_MAX_BYTES 4096

struct added_token {
    char *content;                  /* 0-terminated */
    size_t len;
    int32_t id;
    int special, lstrip, rstrip, single_word, normalized;
};

enum added_stage { ADDED_RAW, ADDED_NORMALIZED };

struct added_search {
    enum added_stage stage;
    const char *text;               /* valid UTF-8 */
    size_t len;
    int specials_are_text;          /* 1: special tokens are passed over */
};

struct added_match {
    size_t begin, end;              /* with the white space it takes along */
    int32_t id;
};

struct added_tokens;                /* opaque */

/* list may be NULL: none.  An id must agree with vocab where either side knows
 * it.  The caller gives *out to added_tokens_destroy.
 * BAD_MODEL: a field has a wrong type or range, an id or content used twice, a
 * disagreement with vocab.  NO_MEMORY. */
MUST_CHECK enum status added_tokens_create(struct added_tokens **out, const json_t *list,
                                           const struct vocab *vocab,
                                           const struct normalizer *normalizer, const char *where,
                                           struct error *err);
void added_tokens_destroy(struct added_tokens *a);      /* NULL is allowed */

/* The first match at or behind from; 1 and *match, or 0.  O(len * longest). */
int added_tokens_next(const struct added_tokens *a, const struct added_search *search, size_t from,
                      struct added_match *match);

/* The token with that id or content, or NULL. */
const struct added_token *added_tokens_at(const struct added_tokens *a, int32_t id);
const struct added_token *added_tokens_find(const struct added_tokens *a, const char *content, size_t len);

int32_t added_tokens_n_ids(const struct added_tokens *a);       /* largest id + 1, or 0 */

#endif
