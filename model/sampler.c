#include "model/sampler.h"

#include "base/rng.h"
#include "model/candidates.h"
#include "model/token_history.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct sampler {
    int32_t vocab;                      /* fixed at create */
    struct token_history *history;      /* filled only while a penalty asks for it */
    int wants_history;                  /* fixed at start */
    struct sampling_params params;
    struct rng rng;                     /* moves with every draw */
};

struct sampler_scratch {
    int32_t vocab;
    float *adjusted;                    /* [vocab] logits after penalties, bias and bans */
    float *weights;                     /* [vocab] exp of them */
    struct candidates list;             /* [vocab] */
};

enum status sampler_create(struct sampler **out, int32_t vocab, int32_t max_tokens, struct error *err)
{
    assert(vocab > 0 && max_tokens > 0);
    struct sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a sampler");
    enum status s = token_history_create(&sampler->history, vocab, max_tokens, err);
    if (s != STATUS_OK) {
        free(sampler);
        return s;
    }
    sampler->vocab = vocab;
    sampling_params_init(&sampler->params);
    *out = sampler;
    return STATUS_OK;
}

void sampler_destroy(struct sampler *sampler)
{
    if (sampler == NULL)
        return;
    token_history_destroy(sampler->history);
    free(sampler);
}

enum status sampler_scratch_create(struct sampler_scratch **out, int32_t vocab, struct error *err)
{
    assert(vocab > 0);
    struct sampler_scratch *scratch = calloc(1, sizeof *scratch);
    if (scratch == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for sampling scratch");
    size_t n = (size_t)vocab;
    scratch->vocab = vocab;
    scratch->adjusted = malloc(n * sizeof *scratch->adjusted);
    scratch->weights = malloc(n * sizeof *scratch->weights);
    scratch->list.items = malloc(n * sizeof *scratch->list.items);
    scratch->list.work = malloc(n * sizeof *scratch->list.work);
    if (scratch->adjusted == NULL || scratch->weights == NULL || scratch->list.items == NULL ||
        scratch->list.work == NULL) {
        sampler_scratch_destroy(scratch);
        return fail(err, STATUS_NO_MEMORY, "no memory for sampling scratch of %d tokens", (int)vocab);
    }
    *out = scratch;
    return STATUS_OK;
}

void sampler_scratch_destroy(struct sampler_scratch *scratch)
{
    if (scratch == NULL)
        return;
    free(scratch->adjusted);
    free(scratch->weights);
    free(scratch->list.items);
    free(scratch->list.work);
    free(scratch);
}

void sampler_start(struct sampler *sampler, const struct sampling_params *params)
{
    size_t used = offsetof(struct sampling_params, bias) + (size_t)params->n_bias * sizeof params->bias[0];
    memcpy(&sampler->params, params, used);
    sampler->wants_history = params->repetition_penalty != 1 || params->presence_penalty != 0 ||
                             params->frequency_penalty != 0;
    token_history_reset(sampler->history);
    rng_seed(&sampler->rng, params->seed);
}

void sampler_push_prompt(struct sampler *sampler, const int32_t *tokens, int32_t n)
{
    if (!sampler->wants_history)
        return;
    for (int32_t i = 0; i < n; i++) {
        assert(tokens[i] >= 0 && tokens[i] < sampler->vocab);
        token_history_push(sampler->history, tokens[i], 0);
    }
}

/* Back to float without becoming infinite: -infinity means "banned" below. */
static float clamp_to_float(double value)
{
    return (float)fmin(fmax(value, -(double)FLT_MAX), (double)FLT_MAX);
}

/* Stage 1.  A cost per distinct token seen, not per token of the vocabulary. */
static void apply_penalties(const struct sampler *sampler, float *row)
{
    const struct sampling_params *p = &sampler->params;
    int32_t n;
    const struct token_seen *seen = token_history_seen(sampler->history, &n);
    for (int32_t i = 0; i < n; i++) {
        double logit = (double)row[seen[i].token];
        logit = logit > 0 ? logit / p->repetition_penalty : logit * p->repetition_penalty;
        if (seen[i].n_output > 0)
            logit -= p->frequency_penalty * seen[i].n_output + p->presence_penalty;
        row[seen[i].token] = clamp_to_float(logit);
    }
}

/* Stage 3, first half. */
static void apply_mask(float *row, const uint64_t *allowed, int32_t vocab)
{
    for (int32_t start = 0; start < vocab; start += 64) {
        uint64_t word = allowed[start / 64];
        if (word == UINT64_MAX)
            continue;
        int32_t end = vocab - start < 64 ? vocab : start + 64;
        for (int32_t t = start; t < end; t++)
            if ((word >> (t - start) & 1) == 0)
                row[t] = -INFINITY;
    }
}

/* Stages 1 to 3 into the scratch; with_bans: whether banned tokens are taken out. */
static void adjust(const struct sampler *sampler, const struct sampler_input *input, float *row,
                   int with_bans)
{
    memcpy(row, input->logits, (size_t)sampler->vocab * sizeof *row);
    apply_penalties(sampler, row);
    for (int i = 0; i < sampler->params.n_bias; i++) {
        const struct logit_bias *b = &sampler->params.bias[i];
        row[b->token] = clamp_to_float((double)row[b->token] + (double)b->bias);
    }
    if (input->allowed != NULL)
        apply_mask(row, input->allowed, sampler->vocab);
    for (int i = 0; with_bans && i < input->n_banned; i++)
        if (input->banned[i] >= 0 && input->banned[i] < sampler->vocab)
            row[input->banned[i]] = -INFINITY;
}

/* The row after stages 1 to 3 and its likeliest token. */
struct prepared {
    const float *row;           /* [vocab] */
    int32_t best;
};

/* When nothing has to be
 * changed, which is the common case, the model's row itself is used. */
static enum status prepare(const struct sampler *sampler, const struct sampler_input *input,
                           struct sampler_scratch *scratch, struct prepared *out, struct error *err)
{
    out->row = input->logits;
    if (sampler->wants_history || sampler->params.n_bias > 0 || input->allowed != NULL ||
        input->n_banned > 0) {
        adjust(sampler, input, scratch->adjusted, 1);
        out->row = scratch->adjusted;
    }
    out->best = logits_argmax(out->row, sampler->vocab);
    if (out->row[out->best] != -INFINITY)
        return STATUS_OK;
    adjust(sampler, input, scratch->adjusted, 0);
    out->best = logits_argmax(out->row, sampler->vocab);
    if (out->row[out->best] == -INFINITY)
        return fail(err, STATUS_INTERNAL, "the grammar allows none of the %d tokens here",
                    (int)sampler->vocab);
    return STATUS_OK;
}

/* Draw from the whole vocabulary: u of total, counted in token order.  Groups of
 * tokens are skipped by their sum; best stands in should rounding leave no one. */
static int32_t draw_from_all(const float *weights, int32_t n, double target, int32_t best)
{
    enum { GROUP = 64 };
    double mass = 0;
    for (int32_t start = 0; start < n; start += GROUP) {
        int32_t end = n - start < GROUP ? n : start + GROUP;
        double lanes[4] = { 0 };
        for (int32_t i = start; i < end; i++)
            lanes[i % 4] += (double)weights[i];
        double group = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
        if (mass + group <= target) {
            mass += group;
            continue;
        }
        for (int32_t i = start; i < end; i++) {
            mass += (double)weights[i];
            if (mass > target && weights[i] > 0.0f)
                return i;
        }
    }
    return best;
}

/* Stages 4 to 9. */
static int32_t draw(struct sampler *sampler, const struct prepared *prepared, struct sampler_scratch *scratch)
{
    const struct sampling_params *p = &sampler->params;
    int32_t vocab = sampler->vocab;
    const float *row = prepared->row;
    float max = row[prepared->best];
    double total = logits_exp(scratch->weights, row, vocab, max, (float)(1.0 / p->temperature));
    double u = rng_uniform(&sampler->rng);
    int cuts_count = p->top_k > 0 && p->top_k < vocab;
    int cuts_mass = p->top_p < 1;
    int is_typical = p->typical_p > 0 && p->typical_p < 1;
    if (!cuts_count && !cuts_mass && p->min_p <= 0 && !is_typical)
        return draw_from_all(scratch->weights, vocab, u * total, prepared->best);

    struct candidates *list = &scratch->list;
    struct candidates_source source = {
        .logits = row, .weights = scratch->weights, .n = vocab, .max = max,
        .need_count = cuts_count ? p->top_k : 0,
        .need_mass = cuts_mass ? p->top_p * total : 0,
    };
    candidates_gather(list, &source);
    if (cuts_count)
        candidates_keep_count(list, p->top_k);
    if (cuts_mass)
        candidates_keep_mass(list, p->top_p * (cuts_count ? candidates_mass(list) : total));
    if (p->min_p > 0)
        candidates_keep_share(list, p->min_p);
    if (is_typical)
        candidates_keep_typical(list, p->typical_p);
    return candidates_draw(list, u);
}

static void report_logprobs(const struct log_softmax *softmax, const float *logits, int32_t vocab,
                            int n_top, struct sampled *out)
{
    out->logprob = log_softmax_of(softmax, logits[out->token]);
    out->n_top = log_softmax_top(softmax, logits, vocab, out->top, n_top);
}

enum status sampler_pick(struct sampler *sampler, const struct sampler_input *input,
                         struct sampler_scratch *scratch, struct sampled *out, struct error *err)
{
    assert(scratch->vocab == sampler->vocab);
    const struct sampling_params *p = &sampler->params;
    struct log_softmax softmax = { 0 };
    if (p->want_logprob)
        TRY(log_softmax_init(&softmax, input->logits, sampler->vocab, err));
    else
        TRY(logits_max(input->logits, sampler->vocab, &softmax.max, err));
    struct prepared prepared;
    TRY(prepare(sampler, input, scratch, &prepared, err));
    int is_greedy = p->temperature <= SAMPLING_GREEDY_TEMPERATURE;
    out->token = is_greedy ? prepared.best : draw(sampler, &prepared, scratch);
    out->logprob = 0;
    out->n_top = 0;
    if (p->want_logprob)
        report_logprobs(&softmax, input->logits, sampler->vocab, p->n_top, out);
    if (sampler->wants_history)
        token_history_push(sampler->history, out->token, 1);
    return STATUS_OK;
}
