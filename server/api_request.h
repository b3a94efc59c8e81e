/* api_request.h - the sampling fields that completions and chat share, and the requests they become.
 *
 *   body --GENERATE_FIELDS--> struct generate_body --generate_check--> (all of it once)
 *                                                  --generate_request--> struct request, for each prompt
 *
 * Threads: any.  Memory: texts and arrays are borrowed from the body; the constraint is owned.
 */
#ifndef SERVER_API_REQUEST_H
#define SERVER_API_REQUEST_H

#include "server/api_constraint.h"
#include "server/api_private.h"
#include "server/api_prompts.h"

#define GENERATE_ABSENT INT64_MIN       /* max_tokens, seed: the client did not say */
#define GENERATE_MAX_TOKENS 1000000000

struct generate_body {
    double temperature, top_p, min_p, typical_p;
    double repetition_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, seed, n, priority;
    int64_t max_tokens, min_tokens;     /* max_tokens -1: to the end of the context */
    const json_t *logit_bias, *stop, *stop_token_ids, *stream_options;
    struct body_text cache_salt;
    int ignore_eos, include_stop, skip_special, add_special;
    int stream, want_token_ids;
    struct api_constraint_body constraint_fields;
    /* made by generate_check */
    struct api_constraint constraint;
    int include_usage, usage_in_chunks;
};

/* The rows of these fields, for a body of `type` that has a struct generate_body `g`. */
#define GENERATE_FIELDS(type)                                                                               \
    { "model", BODY_IGNORED, .schema = "\"type\":[\"string\",\"null\"]",                                    \
      .help = "must be a served name or absent; there is one model" },                                      \
    { "max_tokens", BODY_INT(type, g.max_tokens), .min = -1, .max = GENERATE_MAX_TOKENS,                    \
      .help = "tokens to generate at most; -1: up to the end of the context" },                             \
    { "min_tokens", BODY_INT(type, g.min_tokens), .min = 0, .max = GENERATE_MAX_TOKENS,                     \
      .help = "the text does not end before that many tokens" },                                            \
    { "n", BODY_INT(type, g.n), .min = 1, .max = REQUEST_MAX_CHOICES, .help = "choices for each prompt" },  \
    { "temperature", BODY_NUMBER(type, g.temperature), .low = 0, .high = 1e9,                               \
      .help = "0 (up to 1e-5): the likeliest token" },                                                      \
    { "top_k", BODY_INT(type, g.top_k), .min = -1, .max = INT32_MAX,                                        \
      .help = "keep the k likeliest tokens; 0 or -1: all" },                                                \
    { "top_p", BODY_NUMBER(type, g.top_p), .low = 0, .high = 1,                                             \
      .help = "keep the fewest likeliest tokens whose mass reaches p" },                                    \
    { "min_p", BODY_NUMBER(type, g.min_p), .low = 0, .high = 1,                                             \
      .help = "keep tokens at least p times as likely as the likeliest" },                                  \
    { "typical_p", BODY_NUMBER(type, g.typical_p), .low = 0, .high = 1,                                     \
      .help = "keep the fewest most typical tokens whose mass reaches p" },                                 \
    { "repetition_penalty", BODY_NUMBER(type, g.repetition_penalty), .low = 0.01, .high = 100,              \
      .help = "divides the logits of tokens of prompt and output, once each" },                             \
    { "presence_penalty", BODY_NUMBER(type, g.presence_penalty), .low = -2, .high = 2,                      \
      .help = "taken off the logits of tokens of the output, once each" },                                  \
    { "frequency_penalty", BODY_NUMBER(type, g.frequency_penalty), .low = -2, .high = 2,                    \
      .help = "taken off the logits of tokens of the output, per occurrence" },                             \
    { "logit_bias", BODY_OBJECT(type, g.logit_bias),                                                        \
      .schema = "\"type\":[\"object\",\"null\"],\"propertyNames\":{\"pattern\":\"^[0-9]{1,18}$\"},"         \
                "\"additionalProperties\":{\"type\":\"number\",\"minimum\":-100,\"maximum\":100}",          \
      .help = "{\"token id\": -100 to 100}, added to the logits" },                                         \
    { "seed", BODY_INT(type, g.seed), .min = -INT64_MAX, .max = INT64_MAX,                                  \
      .help = "the same seed gives the same text; absent or -1: a random one" },                            \
    { "stop", BODY_ANY(type, g.stop),                                                                       \
      .schema = "\"oneOf\":[{\"type\":\"string\",\"minLength\":1},{\"type\":\"array\",\"items\":"           \
                "{\"type\":\"string\",\"minLength\":1}},{\"type\":\"null\"}]",                              \
      .help = "texts that end the output; they are not part of it" },                                       \
    { "stop_token_ids", BODY_ARRAY(type, g.stop_token_ids),                                                 \
      .schema = "\"type\":[\"array\",\"null\"],\"items\":" API_TOKEN_SCHEMA,                                \
      .help = "tokens that end the output" },                                                               \
    { "include_stop_str_in_output", BODY_FLAG(type, g.include_stop),                                        \
      .help = "the stop text is part of the output" },                                                      \
    { "ignore_eos", BODY_FLAG(type, g.ignore_eos), .help = "the model's end of text ends nothing" },        \
    { "skip_special_tokens", BODY_FLAG(type, g.skip_special), .help = "special tokens have no text" },      \
    { "stream", BODY_FLAG(type, g.stream), .help = "send server-sent events as tokens come" },              \
    { "stream_options", BODY_OBJECT(type, g.stream_options),                                                \
      .help = "include_usage: the usage in a last chunk; "                                                  \
              "continuous_usage_stats: so far, in every chunk" },                                           \
    { "priority", BODY_INT(type, g.priority), .min = -SCHEDULER_MAX_PRIORITY, .max = SCHEDULER_MAX_PRIORITY, \
      .help = "smaller goes first, if the server's policy is priority" },                                   \
    { "cache_salt", BODY_TEXT(type, g.cache_salt),                                                          \
      .help = "only requests with the same salt share cached prefixes" },                                   \
    { "return_token_ids", BODY_FLAG(type, g.want_token_ids), .help = "choices carry token_ids" },           \
    API_CONSTRAINT_FIELDS(type, g.constraint_fields),                                                       \
    { "prompt_logprobs", BODY_REFUSED, .help = "use echo and logprobs of /v1/completions" },                \
    { "use_beam_search", BODY_REFUSED, .help = "use n or best_of" },                                        \
    { "user", BODY_IGNORED, .help = "a name for the end user" },                                            \
    { "store", BODY_IGNORED, .help = "nothing is stored" },                                                 \
    { "metadata", BODY_IGNORED, .help = "nothing is stored" },                                              \
    { "service_tier", BODY_IGNORED, .help = "there is one" }

/* The defaults, before the fields are read. */
void generate_body_init(struct generate_body *g, const struct api *api);
void generate_body_clear(struct generate_body *g);

/* What holds for all prompts of the call: types inside arrays, counts, the constraint.
 * n_prompts x n_choices sequences are asked for. */
MUST_CHECK enum status generate_check(struct generate_body *g, const struct api *api, int n_prompts,
                                      int n_choices, struct api_refusal *why);

/* The constraint of a checked body, compiled once for all sequences of the call; NULL for free text.  The caller
 * gives *out to grammar_destroy when no request uses it any more.
 * BAD_REQUEST: it is not valid, not supported, or too large. */
MUST_CHECK enum status generate_grammar(const struct generate_body *g, const struct api *api, int n_cursors,
                                        struct grammar **out, struct api_refusal *why);

/* What differs from prompt to prompt, and between the endpoints. */
struct generate_extra {
    const char *param;              /* the field the prompt came from */
    int n_choices;                  /* generated: n, or best_of */
    int64_t default_max_tokens;     /* -1: to the end of the context */
    int want_logprob;               /* of every token */
    int n_top;                      /* likeliest tokens beside it */
    int want_prompt_logprobs;
};

/* A request for one prompt, without grammar.  The caller gives *out to the call or to request_destroy.
 * BAD_REQUEST: prompt and max_tokens pass the context, or a sampling field does not fit the model. */
MUST_CHECK enum status generate_request(const struct generate_body *g, const struct api *api,
                                        const struct api_prompt *prompt, const struct generate_extra *extra,
                                        struct request **out, struct api_refusal *why);

#endif
