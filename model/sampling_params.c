#include "model/sampling_params.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

/* One row for each number with a range; read by one loop. */
static const struct {
    const char *name;
    size_t offset;
    double min, max;
} ranges[] = {
#define ROW(field, low, high) { #field, offsetof(struct sampling_params, field), low, high }
    ROW(temperature,        0,    1e9),
    ROW(top_p,              0,    1),
    ROW(min_p,              0,    1),
    ROW(typical_p,          0,    1),
    ROW(repetition_penalty, 0.01, 100),
    ROW(presence_penalty,   -2,   2),
    ROW(frequency_penalty,  -2,   2),
#undef ROW
};

void sampling_params_init(struct sampling_params *params)
{
    params->temperature = 1;
    params->top_k = 0;
    params->top_p = 1;
    params->min_p = 0;
    params->typical_p = 1;
    params->repetition_penalty = 1;
    params->presence_penalty = 0;
    params->frequency_penalty = 0;
    params->seed = 0;
    params->want_logprob = 0;
    params->n_top = 0;
    params->n_bias = 0;
}

static enum status check_bias(const struct sampling_params *params, int32_t vocab, struct error *err)
{
    if (params->n_bias < 0 || params->n_bias > SAMPLING_MAX_BIAS)
        return fail(err, STATUS_BAD_REQUEST, "'logit_bias' may have at most %d entries, got %d",
                    SAMPLING_MAX_BIAS, params->n_bias);
    for (int i = 0; i < params->n_bias; i++) {
        const struct logit_bias *b = &params->bias[i];
        if (b->token < 0 || b->token >= vocab)
            return fail(err, STATUS_BAD_REQUEST, "'logit_bias' names token %d, the vocabulary is 0 to %d",
                        (int)b->token, (int)vocab - 1);
        if (!(b->bias >= -100.0f && b->bias <= 100.0f))
            return fail(err, STATUS_BAD_REQUEST,
                        "'logit_bias' of token %d must be between -100 and 100, got %g", (int)b->token,
                        (double)b->bias);
    }
    return STATUS_OK;
}

enum status sampling_params_check(const struct sampling_params *params, int32_t vocab, struct error *err)
{
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        double value = *(const double *)((const char *)params + ranges[i].offset);
        /* Written so that NaN fails too. */
        if (!(value >= ranges[i].min && value <= ranges[i].max))
            return fail(err, STATUS_BAD_REQUEST, "'%s' must be between %g and %g, got %g",
                        ranges[i].name, ranges[i].min, ranges[i].max, value);
    }
    if (params->top_k < -1)
        return fail(err, STATUS_BAD_REQUEST, "'top_k' must be -1, 0 or positive, got %" PRId64,
                    params->top_k);
    if (params->n_top < 0 || params->n_top > SAMPLING_MAX_TOP)
        return fail(err, STATUS_BAD_REQUEST, "'top_logprobs' must be between 0 and %d, got %d",
                    SAMPLING_MAX_TOP, params->n_top);
    return check_bias(params, vocab, err);
}
