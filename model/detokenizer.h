/* detokenizer.h - tokens to text, one token at a time, whole characters only.
 *
 *   token        "caf"     C3        A9        " ok"
 *   appended     "caf"     ""        "é"       " ok"
 *   pending      -         C3        -         -
 *
 * What is appended is always valid UTF-8 (a cut never falls inside a character).
 * Bytes that cannot become a character are replaced by U+FFFD, one for each
 * longest beginning of a character, as soon as that is certain; at flush the
 * pending rest is.  Appending all pieces gives what one decode of all tokens
 * gives, wherever the pieces are cut.
 *
 * Owner: whoever holds the struct; the tokenizer outlives it.
 * Memory: none but what the output grows.
 */
#ifndef MODEL_DETOKENIZER_H
#define MODEL_DETOKENIZER_H

#include "base/buf.h"
#include "model/tokenizer.h"

struct detokenizer {
    const struct tokenizer *tokenizer;
    int skip_special;               /* special tokens have no text */
    int first;                      /* no token yet, and the text begins here */
    int32_t drop_bytes;             /* still to be dropped at the front */
    char pending[4];                /* the beginning of a character */
    size_t n_pending;               /* 0..3 */
};

/* continues 1: the tokens follow on others (a completion behind its prompt), so
 * the rules for the first token of a text do not apply. */
void detokenizer_init(struct detokenizer *d, const struct tokenizer *t, int skip_special, int continues);

/* Append the characters that id completes.  An id without text appends nothing.
 * TOO_LARGE, NO_MEMORY: out cannot grow; what was appended before stays. */
MUST_CHECK enum status detokenizer_push(struct detokenizer *d, int32_t id, struct buf *out);

/* No token follows: a pending beginning becomes U+FFFD.  Failures as push. */
MUST_CHECK enum status detokenizer_flush(struct detokenizer *d, struct buf *out);

/* All at once: init, push every id of ids[n], flush. */
MUST_CHECK enum status detokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                                          int skip_special, struct buf *out);

#endif
