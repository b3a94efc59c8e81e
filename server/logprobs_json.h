/* logprobs_json.h - log-probabilities of a run of tokens, as the two endpoints show them.
 *
 *   LEGACY (completions)   {"tokens":[" a","bytes:\\xe2"],"token_logprobs":[null,-1.5],
 *                           "top_logprobs":[null,{" a":-1.5}],"text_offset":[0,2]}
 *   CHAT                   {"content":[{"token":" a","logprob":-1.5,"bytes":[32,97],
 *                           "top_logprobs":[{"token":..,"logprob":..,"bytes":[..]}]}],"refusal":null}
 *
 * - A token's text is its bytes.  Bytes that are no UTF-8 (a part of a character) are written
 *   "bytes:\xNN.." in the legacy shape, whose tokens are keys and must stay distinct, and with U+FFFD
 *   in the chat shape, which has the bytes beside it.
 * - top_logprobs has the n_top likeliest tokens and, in the legacy shape, the token itself if it is not
 *   among them.  Its value and its entry come from one number, so they compare equal.  Of two tokens
 *   with the same text only the likelier is a key.
 * - text_offset counts characters that begin before the token, special tokens without text left out.
 * - The first token of a prompt has no probability: null.
 *
 * Entries are appended while tokens come and written when a chunk or the reply goes out.
 * Owner: the loop thread.  Memory: grows with the entries, up to LOGPROBS_MAX_BYTES.
 */
#ifndef SERVER_LOGPROBS_JSON_H
#define SERVER_LOGPROBS_JSON_H

#include "base/buf.h"
#include "model/logits.h"
#include "model/tokenizer.h"

#define LOGPROBS_MAX_BYTES ((size_t)64 << 20)

enum logprobs_shape { LOGPROBS_LEGACY, LOGPROBS_CHAT };

struct logprobs_json {
    enum logprobs_shape shape;
    const struct tokenizer *tokenizer;  /* borrowed */
    int skip_special;                   /* special tokens have no text in the reply */
    int n_entries;                      /* waiting to be written */
    int64_t offset;                     /* characters so far */
    struct buf tokens;                  /* LEGACY: elements of the four arrays; CHAT: of "content" */
    struct buf values, tops, offsets;   /* LEGACY */
};

struct logprobs_entry {
    int32_t token;
    int has_value;                      /* 0: the first token of a prompt */
    float logprob;
    const struct token_logprob *top;    /* [n_top] likeliest first */
    int n_top;
};

void logprobs_json_init(struct logprobs_json *l, enum logprobs_shape shape, const struct tokenizer *tokenizer,
                        int skip_special);
void logprobs_json_clear(struct logprobs_json *l);

/* Append one token.  The failures of buf_add. */
MUST_CHECK enum status logprobs_json_add(struct logprobs_json *l, const struct logprobs_entry *entry);

/* The entries of `from`, which has the same shape, come behind those of l. */
MUST_CHECK enum status logprobs_json_append(struct logprobs_json *l, const struct logprobs_json *from);

/* Append the object to out and forget the entries; offsets go on. */
MUST_CHECK enum status logprobs_json_flush(struct logprobs_json *l, struct buf *out);

#endif
