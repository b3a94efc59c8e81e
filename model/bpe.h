/* bpe.h - byte-pair encoding of one piece of text.
 *
 *   piece  "lower"    symbols   l o w e r
 *   merges, first = lowest rank:  (l o)  (e r)  (lo w)
 *                               lo w e r -> lo w er -> low er
 *
 * A piece starts as its characters (each must be a text of the vocabulary) and
 * the pair of neighbours with the lowest rank is merged, leftmost first, until
 * no pair has a rank.  A heap of pairs makes that O(n log n) for a piece of n
 * characters, so a megabyte without spaces is no problem.
 *
 * A character the vocabulary lacks becomes, in this order of preference, the
 * tokens <0xHH> of its bytes (byte_fallback), the unknown token (runs of them
 * become one if fuse_unk), or nothing.  A byte that is not valid UTF-8 counts as
 * a character of its own.
 *
 * Threads: a struct bpe is read-only after create, safe from any; a struct
 * bpe_scratch belongs to one call at a time.
 * Memory: the tables at create; the scratch grows to 28 bytes per byte of the
 * longest piece.
 */
#ifndef MODEL_BPE_H
#define MODEL_BPE_H

#include "base/status.h"
#include "model/token_array.h"
#include "model/vocab.h"

#include <jansson.h>

struct bpe;                         /* opaque */

struct bpe_scratch {                /* all zero is ready for use */
    struct bpe_symbol *symbols;
    uint64_t *heap;
    size_t room;                    /* symbols there is memory for */
};

/* model is the "model" object of a tokenizer.json.  The caller gives *out to
 * bpe_destroy.
 * UNSUPPORTED: the type is not BPE, or a feature that no latent-attention
 * checkpoint uses (dropout, subword prefix, word suffix).
 * BAD_MODEL: a field has a wrong type, a merge names a text that is not in the
 * vocabulary, the unknown token is not in it.  NO_MEMORY. */
MUST_CHECK enum status bpe_create(struct bpe **out, const json_t *model, const char *where,
                                  struct error *err);
void bpe_destroy(struct bpe *bpe);              /* NULL is allowed */

const struct vocab *bpe_vocab(const struct bpe *bpe);

/* Append the tokens of piece[0..len) to out; len <= INT32_MAX.  Total: any bytes
 * are accepted.  NO_MEMORY: out has what was pushed before the call. */
MUST_CHECK enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
                                  const char *piece, size_t len, struct token_array *out);

void bpe_scratch_clear(struct bpe_scratch *scratch);    /* frees; usable again */

#endif
