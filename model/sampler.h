/* sampler.h - one row of logits in, one token out.
 *
 * A sampler is the sampling state of one sequence: its parameters, its random
 * numbers and the tokens seen so far.  Stages, always in this order:
 *
 *   logits[vocab] ---------------------------+--> logprob, top (raw model distribution)
 *     | 1 penalties   repetition, then frequency and presence
 *     | 2 logit_bias
 *     | 3 bans        grammar mask, then banned tokens (min_tokens, ignore_eos)
 *     | 4 temperature   <= 1e-5: the likeliest token is taken and 5..9 are skipped
 *     | 5 top_k       the k likeliest
 *     | 6 top_p       the fewest likeliest whose mass reaches p of what is left
 *     | 7 min_p       at least min_p times as likely as the likeliest
 *     | 8 typical_p   the fewest most typical whose mass reaches p of what is left
 *     v 9 draw        in token order, exactly one random number per pick
 *
 *   - Penalties: repetition divides a positive logit and multiplies a negative
 *     one, once for each distinct token of prompt and output; frequency takes
 *     off its value per occurrence and presence once, both counting output only.
 *   - Among equals the lowest token id wins, in every stage.  Every stage keeps
 *     at least one token.
 *   - Logprobs are log-softmax of the logits as the model gave them, before
 *     stage 1 (logits.h), so a banned or cut token still has one.
 *   - The result depends on the arguments and the sampler's own history only:
 *     not on the batch, the rank count or the time.
 *
 * Owner:  the engine thread.  One scratch serves any number of samplers, one at
 * a time.  Memory: all of it at create; start, push and pick allocate nothing.
 */
#ifndef MODEL_SAMPLER_H
#define MODEL_SAMPLER_H

#include "model/logits.h"
#include "model/sampling_params.h"

struct sampler;                 /* opaque; made once per seat, used for many sequences */
struct sampler_scratch;         /* opaque; vocabulary-sized working memory */

/* What one pick is given. */
struct sampler_input {
    const float *logits;        /* [vocab], not changed */
    const uint64_t *allowed;    /* bit t set: token t fits the grammar; NULL: all do.
                                 * [(vocab + 63) / 64], bits past vocab ignored */
    const int32_t *banned;      /* [n_banned] tokens that must not come now; ids outside
                                 * the vocabulary are ignored */
    int n_banned;
};

struct sampled {
    int32_t token;
    float logprob;              /* of token; 0 unless params.want_logprob */
    int n_top;
    struct token_logprob top[SAMPLING_MAX_TOP];     /* likeliest first; [n_top] */
};

/* vocab > 0.  max_tokens > 0: prompt and output of a sequence together.
 * NO_MEMORY: *out is untouched. */
MUST_CHECK enum status sampler_create(struct sampler **out, int32_t vocab, int32_t max_tokens,
                                      struct error *err);
void sampler_destroy(struct sampler *sampler);          /* NULL is allowed */

MUST_CHECK enum status sampler_scratch_create(struct sampler_scratch **out, int32_t vocab,
                                              struct error *err);
void sampler_scratch_destroy(struct sampler_scratch *scratch);      /* NULL is allowed */

/* A new sequence: forget the old one, copy params (which have passed
 * sampling_params_check) and seed the random numbers. */
void sampler_start(struct sampler *sampler, const struct sampling_params *params);

/* Prompt tokens, each within the vocabulary; may be called several times. */
void sampler_push_prompt(struct sampler *sampler, const int32_t *tokens, int32_t n);

/* Draw the next token and remember it as output.  scratch was made for the same
 * vocabulary.  If the banned tokens are all that the grammar allows, the grammar
 * wins and the ban is dropped for this pick.
 * INTERNAL: a logit is not finite, or the mask allows no token at all; nothing
 * changed in the sampler. */
MUST_CHECK enum status sampler_pick(struct sampler *sampler, const struct sampler_input *input,
                                    struct sampler_scratch *scratch, struct sampled *out,
                                    struct error *err);

#endif
