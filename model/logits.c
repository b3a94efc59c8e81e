#include "model/logits.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    LANES = 8,          /* interleaved double sums; fixed, it decides the bits */
    BLOCK = 64,         /* floats looked at together; a multiple of LANES */
    MAX_LANES = 16      /* running maxima; any number gives the same result */
};

/* exp(x) for x <= 0, written so that a loop over it vectorises: no branch, no
 * call.  x = n ln 2 + r with n an integer (rounded by adding and taking off
 * 1.5 * 2^23) and |r| <= ln 2 / 2; exp(r) by its Taylor series up to r^7 / 7!,
 * which is 5e-9 away; 2^n by building the exponent bits.  Below -87 that would
 * leave the range of floats, and a mask turns whatever came out into 0 (written
 * as a conditional, gcc 12 keeps a branch and the loop is three times slower). */
static inline float exp_nonpositive(float x)
{
    const float round_bias = 12582912.0f;
    float shifted = x * 0x1.715476p+0f + round_bias;
    float n = shifted - round_bias;
    float r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;     /* ln 2 in two parts */
    float series = 1.0f / 5040;
    series = series * r + 1.0f / 720;
    series = series * r + 1.0f / 120;
    series = series * r + 1.0f / 24;
    series = series * r + 1.0f / 6;
    series = series * r + 0.5f;
    series = series * (r * r) + r;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4b400000u + 127u) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    float value = power + power * series;
    memcpy(&bits, &value, sizeof bits);
    bits &= 0u - (uint32_t)(x >= -87.0f);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The largest value, and in *is_finite whether all are finite: x - x is 0 for a
 * finite x and NaN for the others, and a NaN stays in a sum.  In lanes, because
 * a compiler may not reorder one running float maximum or sum. */
static float largest(const float *values, int32_t n, int *is_finite)
{
    float maxima[MAX_LANES], zeros[MAX_LANES] = { 0 };
    for (int32_t lane = 0; lane < MAX_LANES; lane++)
        maxima[lane] = -INFINITY;
    int32_t i = 0;
    for (; i + MAX_LANES <= n; i += MAX_LANES)
        for (int32_t lane = 0; lane < MAX_LANES; lane++) {
            float x = values[i + lane];
            maxima[lane] = x > maxima[lane] ? x : maxima[lane];
            zeros[lane] += x - x;
        }
    for (int32_t lane = 0; i < n; i++, lane++) {
        maxima[lane] = values[i] > maxima[lane] ? values[i] : maxima[lane];
        zeros[lane] += values[i] - values[i];
    }
    float max = maxima[0], zero = zeros[0];
    for (int32_t lane = 1; lane < MAX_LANES; lane++) {
        max = maxima[lane] > max ? maxima[lane] : max;
        zero += zeros[lane];
    }
    *is_finite = zero == 0.0f;
    return max;
}

enum status logits_max(const float *logits, int32_t n, float *max, struct error *err)
{
    assert(n > 0);
    int is_finite;
    *max = largest(logits, n, &is_finite);
    if (is_finite)
        return STATUS_OK;
    int32_t bad = 0;
    while (isfinite(logits[bad]))
        bad++;
    return fail(err, STATUS_INTERNAL, "the model gave a logit that is not finite: token %d of %d is %g",
                (int)bad, (int)n, (double)logits[bad]);
}

int32_t logits_argmax(const float *logits, int32_t n)
{
    int is_finite;
    float max = largest(logits, n, &is_finite);
    int32_t i = 0;
    while (i < n - 1 && logits[i] != max)
        i++;
    return i;
}

/* Join the lanes: ((0+4)+(2+6)) + ((1+5)+(3+7)). */
static double join(const double *lanes)
{
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

double logits_exp(float *out, const float *logits, int32_t n, float max, float scale)
{
    double lanes[LANES] = { 0 };
    for (int32_t start = 0; start < n; start += BLOCK) {
        size_t count = (size_t)(n - start < BLOCK ? n - start : BLOCK);
        /* A copy of fixed size that nothing else points to: loops over it vectorise
         * in every compiler without being told. */
        float terms[BLOCK];
        memcpy(terms, logits + start, count * sizeof *terms);
        for (size_t i = count; i < BLOCK; i++)
            terms[i] = -INFINITY;
        for (int32_t i = 0; i < BLOCK; i++)
            terms[i] = exp_nonpositive((terms[i] - max) * scale);
        for (int32_t i = 0; i < BLOCK; i += LANES)
            for (int32_t lane = 0; lane < LANES; lane++)
                lanes[lane] += (double)terms[i + lane];
        if (out != NULL)
            memcpy(out + start, terms, count * sizeof *terms);
    }
    return join(lanes);
}

enum status log_softmax_init(struct log_softmax *row, const float *logits, int32_t n, struct error *err)
{
    TRY(logits_max(logits, n, &row->max, err));
    /* The sum holds exp(0) = 1, so its logarithm is never negative and no
     * log-probability is above 0. */
    row->log_sum = log(logits_exp(NULL, logits, n, row->max, 1.0f));
    return STATUS_OK;
}

float log_softmax_of(const struct log_softmax *row, float logit)
{
    double logprob = ((double)logit - (double)row->max) - row->log_sum;
    return logprob < (double)LOGPROB_FLOOR ? LOGPROB_FLOOR : (float)logprob;
}

/* Put (token, logit) at its place in top[*n], which is sorted by falling logit
 * and has room for n_top; what falls off the end is forgotten.  Tokens arrive
 * in rising order, so an equal that is there already stays in front. */
static void insert(struct token_logprob *top, int *n, int n_top, int32_t token, float logit)
{
    int place = *n < n_top ? (*n)++ : n_top - 1;
    for (; place > 0 && top[place - 1].logprob < logit; place--)
        top[place] = top[place - 1];
    top[place] = (struct token_logprob){ .token = token, .logprob = logit };
}

int log_softmax_top(const struct log_softmax *row, const float *logits, int32_t n,
                    struct token_logprob *top, int n_top)
{
    if (n_top <= 0)
        return 0;
    int found = 0;
    int is_finite;
    for (int32_t start = 0; start < n; start += BLOCK) {
        int32_t end = n - start < BLOCK ? n : start + BLOCK;
        /* Most blocks hold nothing new; a vectorised look settles them. */
        if (found == n_top && largest(logits + start, end - start, &is_finite) <= top[n_top - 1].logprob)
            continue;
        for (int32_t i = start; i < end; i++)
            if (found < n_top || logits[i] > top[n_top - 1].logprob)
                insert(top, &found, n_top, i, logits[i]);
    }
    for (int i = 0; i < found; i++)
        top[i].logprob = log_softmax_of(row, top[i].logprob);
    return found;
}
