/* byte_tokenizer.h - a tokenizer for models that were never trained on text: every
 * byte is a token, and the rest of the vocabulary are letter groups, so that any id
 * a model yields has a text.
 *
 *   0 .. 255     the bytes, byte b has id b
 *   256 .. 259   <|bos|> <|eos|> <|im_start|> <|im_end|>
 *   260 ..       one letter more than an earlier group:
 *                "aa" "ab" .. "zz" " a" .. " z" "aaa" ..
 *                each with the BPE merge that makes it
 *
 * Written as tokenizer.json, tokenizer_config.json and chat_template.jinja (ChatML).
 *
 * Threads: any.  Memory: the text of one file at a time.
 */
#ifndef MODEL_BYTE_TOKENIZER_H
#define MODEL_BYTE_TOKENIZER_H

#include "base/status.h"

enum {
    BYTE_TOKENIZER_BOS = 256, BYTE_TOKENIZER_EOS, BYTE_TOKENIZER_START, BYTE_TOKENIZER_END,
    BYTE_TOKENIZER_MIN,         /* the smallest vocabulary */
};

/* Write the three files to dir, which exists.
 * BAD_OPTION: vocab is below BYTE_TOKENIZER_MIN.  IO, NO_MEMORY. */
MUST_CHECK enum status byte_tokenizer_write(const char *dir, int vocab, struct error *err);

#endif
