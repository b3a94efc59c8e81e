/* logits.h - what one row of logits says by itself: the largest, the
 * likeliest few, their log-probabilities.
 *
 * Log-probabilities are log-softmax of the row as given:
 *
 *   logprob(t) = (logits[t] - max) - log(sum over i of exp(logits[i] - max))
 *
 * exp is an own float version (relative error below 2e-7, 0 below -87), the
 * terms are added in double in eight interleaved sums (term i to sum i mod 8)
 * that are joined in a fixed tree, so the same row gives the same bits wherever
 * and with whatever it was computed.  A logprob below LOGPROB_FLOOR is reported
 * as LOGPROB_FLOOR: replies are JSON, which has no infinity.
 *
 * Threads: any.  Memory: none.
 */
#ifndef MODEL_LOGITS_H
#define MODEL_LOGITS_H

#include "base/status.h"

#include <stdint.h>

#define LOGPROB_FLOOR (-9999.0f)

struct token_logprob {
    int32_t token;
    float logprob;
};

/* The largest of logits[n], n > 0.
 * INTERNAL: one of them is NaN or infinite; the sentence says which. */
MUST_CHECK enum status logits_max(const float *logits, int32_t n, float *max, struct error *err);

/* The lowest index of the largest value; n > 0, no NaN (-infinity is allowed). */
int32_t logits_argmax(const float *logits, int32_t n);

/* out[i] = exp((logits[i] - max) * scale) and the sum of them all.  max is at least every
 * logits[i]; scale > 0.  -infinity gives 0.  out may be NULL (sum only). */
double logits_exp(float *out, const float *logits, int32_t n, float max, float scale);

/* Log-probabilities of one row, ready to be asked. */
struct log_softmax {
    float max;
    double log_sum;
};

/* INTERNAL: as logits_max. */
MUST_CHECK enum status log_softmax_init(struct log_softmax *row, const float *logits, int32_t n,
                                        struct error *err);

/* The same number for the same logit, whoever asks: the sampled token and its
 * entry among the top ones compare equal. */
float log_softmax_of(const struct log_softmax *row, float logit);

/* The n_top likeliest of logits[n], likeliest first, equals by lowest id, into
 * top[n_top]; returns how many there are: min(n_top, n).  All logits finite. */
int log_softmax_top(const struct log_softmax *row, const float *logits, int32_t n,
                    struct token_logprob *top, int n_top);

#endif
