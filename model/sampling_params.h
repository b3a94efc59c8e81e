/* sampling_params.h - how one choice of a request wants its tokens drawn.
 *
 * Plain data, meant to be filled field by field from the JSON of a request and
 * then checked once, before anything is promised to the client.  The stages
 * these numbers drive, and their order, are documented in sampler.h.
 *
 * Owner: the request; a sampler copies what it is given.  Memory: none.
 */
#ifndef MODEL_SAMPLING_PARAMS_H
#define MODEL_SAMPLING_PARAMS_H

#include "base/status.h"

#include <stdint.h>

#define SAMPLING_MAX_BIAS 1024      /* logit_bias entries */
#define SAMPLING_MAX_TOP  20        /* top_logprobs entries */

/* At or below this temperature the most likely token is taken. */
#define SAMPLING_GREEDY_TEMPERATURE 1e-5

struct logit_bias {
    int32_t token;
    float bias;                     /* added to the token's logit, -100..100 */
};

struct sampling_params {
    double temperature;             /* 0..1e9 */
    int64_t top_k;                  /* keep the k likeliest; 0 or -1: all */
    double top_p;                   /* 0..1; 1: all */
    double min_p;                   /* 0..1; 0: all */
    double typical_p;               /* 0..1; 1: all (0 also means off) */
    double repetition_penalty;      /* 0.01..100; 1: none */
    double presence_penalty;        /* -2..2; 0: none */
    double frequency_penalty;       /* -2..2; 0: none */
    uint64_t seed;                  /* of this choice: rng_sub_seed(request's seed, choice) */
    int want_logprob;               /* 1: fill sampled.logprob and sampled.top */
    int n_top;                      /* 0..SAMPLING_MAX_TOP entries of sampled.top */
    int n_bias;                     /* 0..SAMPLING_MAX_BIAS */
    struct logit_bias bias[SAMPLING_MAX_BIAS];
};

/* Temperature 1, everything else off, seed 0. */
void sampling_params_init(struct sampling_params *params);

/* BAD_REQUEST: a field is not finite or out of range, or a bias names a token
 * outside 0..vocab-1; the sentence names the field, the range and the value. */
MUST_CHECK enum status sampling_params_check(const struct sampling_params *params, int32_t vocab,
                                             struct error *err);

#endif
