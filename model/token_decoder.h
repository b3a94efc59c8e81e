/* token_decoder.h - the "decoder" section of a tokenizer.json: which bytes a
 * token stands for, and what is special about the first one.
 *
 *   ByteLevel                           U+0120 "Hi"  ->  " Hi"
 *   Replace, ByteFallback, Fuse, Strip  U+2581 "Hi"  ->  " Hi"    <0xE6>  ->  byte E6
 *   Metaspace                           U+2581 "Hi"  ->  " Hi"
 *
 * Every supported decoder turns each token into bytes by itself; what is left is
 * a rule for the beginning of a text (struct token_start), so text can be decoded
 * token by token.  A decoder that needs more (a Strip at the end of the fused
 * text, a Replace behind Fuse, no decoder at all) is refused at load.
 *
 * Threads: read-only after create, safe from any.
 * Memory: token_decoder_bytes grows the buffers it is given.
 */
#ifndef MODEL_TOKEN_DECODER_H
#define MODEL_TOKEN_DECODER_H

#include "base/buf.h"
#include "model/pattern.h"

#include <jansson.h>

struct token_decoder;               /* opaque */

struct token_start {
    int32_t drop_bytes;             /* Strip: this many of drop at most are dropped from the front */
    char drop;                      /* an ASCII character, usually ' ' */
    int drop_spaces_of_first;       /* Metaspace: all spaces of the first token */
};

struct token_text {                 /* one token as its file has it */
    const char *text;
    size_t len;
    int is_added;                   /* an added token: ByteLevel leaves it as it is */
};

/* The caller gives *out to token_decoder_destroy.  UNSUPPORTED, BAD_MODEL, NO_MEMORY. */
MUST_CHECK enum status token_decoder_create(struct token_decoder **out, const json_t *section,
                                            const char *where,
                                            struct error *err);
void token_decoder_destroy(struct token_decoder *d);    /* NULL is allowed */

struct token_start token_decoder_start(const struct token_decoder *d);

/* Replace the content of out by the bytes of the token; spare is used in between.
 * Failures of buf_add and pattern_find. */
MUST_CHECK enum status token_decoder_bytes(const struct token_decoder *d, const struct token_text *token,
                                           struct pattern_scratch *scratch, struct buf *out,
                                           struct buf *spare);

#endif
