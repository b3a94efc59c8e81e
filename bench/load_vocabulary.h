/* load_vocabulary.h - what random prompts are made of.
 *
 * Two forms.  Token ids, taken from what the server's /tokenize makes of common
 * words: every id is ordinary text for that model, and a prompt of n ids is
 * exactly n tokens (plus what the server puts in front).  Words, where there is
 * no /tokenize or the endpoint takes text only: the length is then right on
 * average, by the tokens per word that /tokenize counted, else by 1.
 *
 * Owner: the caller; read-only after learn.  Memory: the ids.
 */
#ifndef BENCH_LOAD_VOCABULARY_H
#define BENCH_LOAD_VOCABULARY_H

#include "base/buf.h"
#include "base/rng.h"
#include "bench/load_server.h"

struct load_vocabulary {
    int64_t *ids;               /* [n_ids], distinct; NULL: unknown */
    size_t n_ids;
    double tokens_per_word;     /* 1 until learnt */
    double bytes_per_token;     /* 4 until learnt */
};

void load_vocabulary_init(struct load_vocabulary *v);
void load_vocabulary_clear(struct load_vocabulary *v);

/* Ask the server.  UNSUPPORTED: it has no /tokenize; v is as before. */
MUST_CHECK enum status load_vocabulary_learn(struct load_vocabulary *v, const struct load_server *server,
                                             const char *model, struct error *err);

/* Append n random ids separated by ','; needs n_ids > 0.  Failures of buf_add. */
MUST_CHECK enum status load_vocabulary_write_ids(const struct load_vocabulary *v, struct rng *rng, int64_t n,
                                                 struct buf *out);

/* Append about n_tokens worth of words, each followed by a blank; plain ASCII,
 * so it needs no escapes in JSON. */
MUST_CHECK enum status load_vocabulary_write_words(const struct load_vocabulary *v, struct rng *rng,
                                                   int64_t n_tokens, struct buf *out);

#endif
