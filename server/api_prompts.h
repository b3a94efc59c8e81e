/* api_prompts.h - the `prompt` or `input` of a body as token arrays.
 *
 *   "text"              one prompt, tokenised
 *   ["text", ..]        one for each
 *   [1, 2, 3]           one, as it is
 *   [[1, 2], "a", ..]   one for each
 *
 * Threads: any.  Memory: the lists; texts are borrowed from the body.
 */
#ifndef SERVER_API_PROMPTS_H
#define SERVER_API_PROMPTS_H

#include "server/api_private.h"
#include "server/api_refusal.h"

/* A token id, and the forms above, for the OpenAPI document: a model's own bounds are not in it. */
#define API_TOKEN_SCHEMA "{\"type\":\"integer\",\"minimum\":0}"
#define API_PROMPTS_SCHEMA                                                                                  \
    "\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"minItems\":1,\"items\":{\"oneOf\":["                    \
    "{\"type\":\"string\"}," API_TOKEN_SCHEMA ",{\"type\":\"array\",\"minItems\":1,"                        \
    "\"items\":" API_TOKEN_SCHEMA "}]}}]"

struct api_prompt {
    int32_t *ids;               /* [n], owned by the list; n >= 1 */
    int32_t n;
    const char *text;           /* [len]; NULL: it was given as tokens */
    size_t len;
};

struct api_prompts {
    struct api_prompt *prompts; /* [n] */
    int n;
};

struct api_prompts_rules {
    const struct api *api;
    const char *field;          /* "prompt": for the sentences */
    int max_prompts;
    int add_special;            /* put the tokens of the post-processor around texts */
};

/* value may be NULL (absent).  On failure *out is empty.
 * BAD_REQUEST: not one of the forms, empty, too many prompts, a token that does not exist, or longer than the
 * context.  TOO_LARGE: more text than the tokenizer takes.  NO_MEMORY. */
MUST_CHECK enum status api_prompts_read(struct api_prompts *out, const json_t *value,
                                        const struct api_prompts_rules *rules, struct api_refusal *why);
void api_prompts_clear(struct api_prompts *prompts);

/* One text as one prompt, for chat, whose text is not in the body.  out->text is text. */
MUST_CHECK enum status api_prompt_encode(struct api_prompt *out, const char *text, size_t len,
                                         const struct api_prompts_rules *rules, struct api_refusal *why);
void api_prompt_clear(struct api_prompt *prompt);

/* The prompt that the `messages` of a body become (api_chat.c).  Failures as above; BAD_REQUEST also when the
 * template refuses them, UNSUPPORTED when there is none. */
MUST_CHECK enum status api_chat_encode(const struct api *api, const json_t *body, struct api_prompt *out,
                                       struct api_refusal *why);

/* [1, 2, 3] as ids[*n] for free; *n may be 0. */
MUST_CHECK enum status api_token_ids_read(const json_t *array, const struct api_prompts_rules *rules,
                                          int32_t **ids, size_t *n, struct api_refusal *why);

#endif
