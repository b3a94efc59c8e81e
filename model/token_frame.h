/* token_frame.h - the tokens a tokenizer puts around a text when it is asked to
 * add special tokens, and the ids of the special tokens that have a role.
 *
 *   before [bos]   text   after [eos]
 *
 * Two files speak about it: the "post_processor" of tokenizer.json (a
 * TemplateProcessing; ByteLevel adds nothing), and tokenizer_config.json:
 *
 *   add_bos_token true    bos comes first, if the template has not put it there
 *   add_bos_token false   a bos of the template is taken away, but only for the
 *                         Llama classes, whose code ignores the template
 *   add_eos_token         the same at the end
 *
 * Threads: read-only after reading.  Memory: none.
 */
#ifndef MODEL_TOKEN_FRAME_H
#define MODEL_TOKEN_FRAME_H

#include "base/status.h"
#include "model/token_array.h"

#include <jansson.h>

#define TOKEN_FRAME_MAX 16

struct token_frame {                /* plain data; all zero is not ready, see init */
    int32_t before[TOKEN_FRAME_MAX], after[TOKEN_FRAME_MAX];
    int n_before, n_after;
    int32_t bos, eos, pad;          /* -1: there is none */
};

void token_frame_init(struct token_frame *f);

/* section: post_processor, may be NULL or null.  UNSUPPORTED: a type other than
 * TemplateProcessing, ByteLevel, Sequence.  BAD_MODEL. */
MUST_CHECK enum status token_frame_read_processor(struct token_frame *f, const json_t *section,
                                                  const char *where,
                                                  struct error *err);

/* The id of a special token's content, or -1. */
typedef int32_t token_finder(const void *context, const char *content, size_t len);

/* config: the object of tokenizer_config.json.  A bos_token, eos_token or pad_token
 * (a string, or an object with "content") that is no token is taken as absent.
 * BAD_MODEL: a field has a wrong type. */
MUST_CHECK enum status token_frame_read_config(struct token_frame *f, const json_t *config, const char *where,
                                               token_finder *find, const void *context, struct error *err);

#endif
