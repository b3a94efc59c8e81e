/* tokenizer.h - text <-> tokens, from a Hugging Face tokenizer.json.
 *
 *   text --added tokens--> segments --normalizer--> --pretokenizer--> pieces
 *        --bpe--> ids --post-processor--> <bos> ids
 *
 *   id --decoder--> bytes --detokenizer--> characters
 *
 * Total on any bytes: a byte that is not part of valid UTF-8 is a piece of its
 * own.  A byte-level tokenizer gives it its byte token, one with byte_fallback
 * its <0xHH>, any other its unknown token; the first two give the same bytes back.
 *
 * What a file asks for and this build does not do is refused at load with
 * UNSUPPORTED, never ignored.  Ignored are "truncation", "padding" and the pair
 * template.  Limits: 64 MiB of file, ids below VOCAB_MAX_IDS.
 *
 * Threads: read-only after load.  Every function may be called from any thread at
 * the same time; a call has its own scratch memory and gives it back.
 * Memory: tables at load; encode allocates in proportion to the text.
 */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H

#include "base/buf.h"
#include "base/status.h"
#include "model/token_array.h"
#include "model/token_decoder.h"

#include <stddef.h>
#include <stdint.h>

#define TOKENIZER_MAX_TEXT ((size_t)16 << 20)       /* bytes of one text */

struct tokenizer;                   /* opaque */

/* dir has tokenizer.json and, optionally, tokenizer_config.json.  The caller gives
 * *out to tokenizer_destroy.
 * IO: a file cannot be read.  BAD_MODEL, UNSUPPORTED: the sentence names file,
 * section and reason.  NO_MEMORY.  *out is untouched on failure. */
MUST_CHECK enum status tokenizer_load(struct tokenizer **out, const char *dir, struct error *err);

struct tokenizer_files {            /* the same two files, in memory */
    const char *json;
    size_t json_len;
    const char *config;             /* NULL: there is none */
    size_t config_len;
};
MUST_CHECK enum status tokenizer_load_memory(struct tokenizer **out, const struct tokenizer_files *files,
                                             struct error *err);
void tokenizer_destroy(struct tokenizer *t);        /* NULL is allowed */

/* ---- text to tokens ---- */

struct tokenizer_input {
    const char *text;               /* [len] any bytes */
    size_t len;
    int add_special;                /* put the tokens of the post-processor around it */
    int specials_are_text;          /* "<|eot|>" in the text is text, not the token */
};

/* Append the tokens to out.  out->n counts all of them, also those past out->max.
 * TOO_LARGE: more than out->max tokens (the stored ones are right), or text
 *   longer than TOKENIZER_MAX_TEXT, or text that is too costly for a pattern.
 * NO_MEMORY. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *t, const struct tokenizer_input *input,
                                        struct token_array *out, struct error *err);

/* ---- tokens ---- */

int32_t tokenizer_n_ids(const struct tokenizer *t);         /* largest id + 1 */

/* The bytes id stands for in a text, *len of them; "" with *len 0 for an id that
 * has none or does not exist.  Special tokens have their content here. */
const char *tokenizer_token_bytes(const struct tokenizer *t, int32_t id, size_t *len);

/* The text of id as the file has it (mapped bytes); NULL for an unused id. */
const char *tokenizer_token_text(const struct tokenizer *t, int32_t id, size_t *len);

int tokenizer_is_special(const struct tokenizer *t, int32_t id);    /* any integer is allowed */

/* The token whose text is exactly this (as the file has it), or -1. */
int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t len);

/* The roles of tokenizer_config.json, or -1. */
int32_t tokenizer_bos(const struct tokenizer *t);
int32_t tokenizer_eos(const struct tokenizer *t);
int32_t tokenizer_pad(const struct tokenizer *t);

/* What is special about the first token of a text; for detokenizer.c. */
struct token_start tokenizer_start(const struct tokenizer *t);

#endif
