/* pretokenizer.h - the "pre_tokenizer" section of a tokenizer.json: cuts text
 * into the pieces that are encoded one by one.
 *
 *   "Hi 42 ok"  --Split/Digits/..-->  Hi | ' 42' | ' ok'  --ByteLevel-->  Hi | U+0120 42 | U+0120 ok
 *
 * Known steps: Split, ByteLevel, Digits, Punctuation, WhitespaceSplit, Metaspace,
 * and Sequences of them.  Later rules act inside each piece of earlier ones.
 * Nothing may follow a ByteLevel, which rewrites bytes (byte_level.h).
 *
 * Threads: read-only after create, safe from any; a struct pretokens belongs to
 * one call at a time.  Memory: the pretokens grow with the text.
 */
#ifndef MODEL_PRETOKENIZER_H
#define MODEL_PRETOKENIZER_H

#include "base/buf.h"
#include "model/pattern.h"
#include "model/pieces.h"

#include <jansson.h>

struct pretokenizer;                /* opaque */

struct pretokens {
    struct buf text;                /* what the pieces are ranges of */
    struct piece_list pieces;
    struct buf old_text;            /* of the step before */
    struct piece_list old_pieces;
};

struct pretokenizer_input {
    const char *text;               /* valid UTF-8 */
    size_t len;
    int is_first;                   /* 1: the beginning of the whole text */
    int joined;                     /* 1: directly behind a byte that is not text: no space is put before */
};

/* section may be NULL or null: one piece.  The caller gives *out to
 * pretokenizer_destroy.  UNSUPPORTED, BAD_MODEL, NO_MEMORY. */
MUST_CHECK enum status pretokenizer_create(struct pretokenizer **out, const json_t *section,
                                           const char *where,
                                           struct error *err);
void pretokenizer_destroy(struct pretokenizer *p);      /* NULL is allowed */

/* 1 if the pieces are mapped bytes (there is a ByteLevel). */
int pretokenizer_is_byte_level(const struct pretokenizer *p);

void pretokens_init(struct pretokens *t, size_t max_bytes);
void pretokens_clear(struct pretokens *t);

/* Replace the content of t by the pieces of the input.
 * TOO_LARGE: t's limit, or a pattern passed its step limit.  NO_MEMORY. */
MUST_CHECK enum status pretokenizer_run(const struct pretokenizer *p, const struct pretokenizer_input *input,
                                        struct pattern_scratch *scratch, struct pretokens *t);

#endif
