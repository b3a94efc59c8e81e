#include "server/api_request.h"

#include "base/json_read.h"
#include "server/request.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void generate_body_init(struct generate_body *g, const struct api *api)
{
    const struct api_defaults *d = &api->options.defaults;
    *g = (struct generate_body){
        .temperature = d->temperature, .top_p = d->top_p, .min_p = d->min_p, .top_k = d->top_k,
        .typical_p = 1, .repetition_penalty = d->repetition_penalty, .n = 1, .seed = GENERATE_ABSENT,
        .max_tokens = GENERATE_ABSENT, .skip_special = 1, .add_special = 1,
    };
}

void generate_body_clear(struct generate_body *g)
{
    api_constraint_clear(&g->constraint);
}

/* ---- once for a call ---- */

static enum status check_counts(const struct generate_body *g, const struct api *api, int n_prompts,
                                int n_choices, struct api_refusal *why)
{
    const struct api_limits *limits = &api->options.limits;
    if (n_choices > limits->max_choices)
        return api_refuse(why, g->n == n_choices ? "n" : "best_of", STATUS_BAD_REQUEST,
                          "%d choices were asked for, and the limit is %d", n_choices, limits->max_choices);
    if ((int64_t)n_prompts * n_choices > limits->max_sequences)
        return api_refuse(why, "n", STATUS_BAD_REQUEST,
                          "%d prompts with %d choices each are more than the limit of %d "
                          "sequences",
                          n_prompts, n_choices, limits->max_sequences);
    if (g->max_tokens >= 0 && g->min_tokens > g->max_tokens)
        return api_refuse(why, "min_tokens", STATUS_BAD_REQUEST,
                          "'min_tokens' is %" PRId64 ", which is more than "
                          "'max_tokens', %" PRId64,
                          g->min_tokens, g->max_tokens);
    return STATUS_OK;
}

static enum status read_stream_options(struct generate_body *g, struct api_refusal *why)
{
    struct json_reader r = { .object = g->stream_options, .where = "stream_options",
                             .code = STATUS_BAD_REQUEST };
    if (g->stream_options == NULL)
        return STATUS_OK;
    why->param = "stream_options";
    TRY(json_read_bool(&r, "continuous_usage_stats", &g->usage_in_chunks, &why->err));
    return json_read_bool(&r, "include_usage", &g->include_usage, &why->err);
}

enum status generate_check(struct generate_body *g, const struct api *api, int n_prompts, int n_choices,
                           struct api_refusal *why)
{
    TRY(check_counts(g, api, n_prompts, n_choices, why));
    TRY(read_stream_options(g, why));
    return api_constraint_read(&g->constraint, &g->constraint_fields, why);
}

/* ---- stops ---- */

static enum status add_stop(struct request *r, const struct api *api, const json_t *value,
                            struct api_refusal *why)
{
    if (!json_is_string(value))
        return api_refuse(why, "stop", STATUS_BAD_REQUEST,
                          "'stop' must be a string or an array of strings, got %s%s",
                          json_type_phrase(value), json_is_array(value) ? " in it" : "");
    if (r->n_stops >= api->options.limits.max_stop_strings)
        return api_refuse(why, "stop", STATUS_BAD_REQUEST, "'stop' has more than %d strings, the limit",
                          api->options.limits.max_stop_strings);
    return request_add_stop(r, json_string_value(value), json_string_length(value), &why->err);
}

static enum status add_stops(struct request *r, const struct generate_body *g, const struct api *api,
                             struct api_refusal *why)
{
    if (g->stop == NULL)
        return STATUS_OK;
    if (!json_is_array(g->stop))
        TRY(add_stop(r, api, g->stop, why));
    for (size_t i = 0; i < json_array_size(g->stop); i++)
        TRY(add_stop(r, api, json_array_get(g->stop, i), why));
    why->param = "stop";
    return stop_strings_check(r->stops, r->n_stops, &STOP_LIMITS_DEFAULT, &why->err);
}

static enum status add_stop_tokens(struct request *r, const struct generate_body *g, const struct api *api,
                                   struct api_refusal *why)
{
    struct api_prompts_rules rules = { .api = api, .field = "stop_token_ids" };
    size_t n = json_array_size(g->stop_token_ids);
    int32_t *ids;
    if (n == 0)
        return STATUS_OK;
    if (n > REQUEST_MAX_STOP_TOKENS)
        return api_refuse(why, rules.field, STATUS_BAD_REQUEST,
                          "'stop_token_ids' has %zu tokens, and the limit is %d", n,
                          REQUEST_MAX_STOP_TOKENS);
    TRY(api_token_ids_read(g->stop_token_ids, &rules, &ids, &n, why));
    memcpy(r->stop_tokens, ids, n * sizeof *ids);
    r->n_stop_tokens = (int)n;
    free(ids);
    return STATUS_OK;
}

/* ---- sampling ---- */

/* "123" and nothing else. */
static int read_decimal(const char *text, int64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9' || strlen(text) > 18)
        return 0;
    *out = strtoll(text, &end, 10);
    return *end == '\0';
}

static enum status add_biases(struct request *r, const struct generate_body *g, const struct api *api,
                              struct api_refusal *why)
{
    const char *key;
    json_t *value;
    if (json_object_size(g->logit_bias) > SAMPLING_MAX_BIAS)
        return api_refuse(why, "logit_bias", STATUS_BAD_REQUEST,
                          "'logit_bias' has %zu entries, and the limit is %d",
                          json_object_size(g->logit_bias), SAMPLING_MAX_BIAS);
    json_object_foreach((json_t *)g->logit_bias, key, value) {
        int64_t token;
        if (!read_decimal(key, &token) || token >= api_n_token_ids(api))
            return api_refuse(why, "logit_bias", STATUS_BAD_REQUEST,
                              "the names in 'logit_bias' must be tokens, 0 to %d", api_n_token_ids(api) - 1);
        if (!json_is_number(value) || !(json_number_value(value) >= -100 && json_number_value(value) <= 100))
            return api_refuse(why, "logit_bias", STATUS_BAD_REQUEST,
                              "the bias of token %" PRId64
                              " in 'logit_bias' must be a number between -100 and 100",
                              token);
        r->sampling.bias[r->sampling.n_bias++] =
            (struct logit_bias){ .token = (int32_t)token, .bias = (float)json_number_value(value) };
    }
    return STATUS_OK;
}

static enum status random_seed(uint64_t *seed, struct api_refusal *why)
{
    if (getrandom(seed, sizeof *seed, 0) != (ssize_t)sizeof *seed)
        return api_refuse(why, NULL, STATUS_INTERNAL, "the system gave no random numbers");
    return STATUS_OK;
}

static enum status set_sampling(struct request *r, const struct generate_body *g, const struct api *api,
                                const struct generate_extra *extra, struct api_refusal *why)
{
    struct sampling_params *p = &r->sampling;
    p->temperature = g->temperature;
    p->top_k = g->top_k;
    p->top_p = g->top_p;
    p->min_p = g->min_p;
    p->typical_p = g->typical_p;
    p->repetition_penalty = g->repetition_penalty;
    p->presence_penalty = g->presence_penalty;
    p->frequency_penalty = g->frequency_penalty;
    p->want_logprob = extra->want_logprob;
    p->n_top = extra->n_top;
    if (g->seed == GENERATE_ABSENT || g->seed == -1)
        TRY(random_seed(&p->seed, why));
    else
        p->seed = (uint64_t)g->seed;
    TRY(add_biases(r, g, api, why));
    why->param = NULL;
    return sampling_params_check(p, api_n_token_ids(api), &why->err);
}

enum status generate_grammar(const struct generate_body *g, const struct api *api, int n_cursors,
                             struct grammar **out, struct api_refusal *why)
{
    const struct api_constraint *c = &g->constraint;
    const struct model_config *config = model_config(api->options.model);
    int32_t end_tokens[MODEL_MAX_EOS];
    *out = NULL;
    if (!c->is_set)
        return STATUS_OK;
    for (int i = 0; i < config->n_eos_tokens; i++)
        end_tokens[i] = config->eos_tokens[i];
    struct grammar_options options = {
        .kind = c->kind, .text = c->text.len > 0 ? c->text.data : "", .len = c->text.len, .trie = api->trie,
        .end_tokens = end_tokens, .n_end_tokens = config->n_eos_tokens, .n_cursors = n_cursors,
        .limits = api->options.limits.grammar,
    };
    /* Every cursor may stand somewhere else, and a mask is dear. */
    if (options.limits.max_masks < (uint32_t)n_cursors)
        options.limits.max_masks = (uint32_t)n_cursors;
    why->param = c->param;
    enum status s = grammar_create(out, &options, &why->err);
    /* A constraint that is too large is the client's mistake, not a body that is too large. */
    if (s == STATUS_TOO_LARGE)
        s = why->err.code = STATUS_BAD_REQUEST;
    return s;
}

/* ---- a request ---- */

/* A limit the client named is kept or refused; one it left open is what fits. */
static enum status set_max_tokens(struct request *r, const struct generate_body *g, const struct api *api,
                                  const struct generate_extra *extra, struct api_refusal *why)
{
    int32_t max_length = api_max_length(api);
    int64_t room = max_length - r->n_prompt;
    int64_t n = g->max_tokens == GENERATE_ABSENT ? extra->default_max_tokens : g->max_tokens;
    if (g->max_tokens < 0) {
        n = n < 0 || n > room ? room : n;
        n = n < g->min_tokens ? g->min_tokens : n;
        n = n < 1 ? 1 : n;
    }
    if (n > room)
        return api_refuse_length(why, extra->param, r->n_prompt, n, max_length);
    r->max_new_tokens = (int32_t)n;
    r->min_new_tokens = (int32_t)g->min_tokens;
    return STATUS_OK;
}

/* A prefix is shared only by those who know the salt; what the cache keeps is its digest. */
static void set_salt(struct request *r, const struct generate_body *g)
{
    if (g->cache_salt.bytes != NULL && g->cache_salt.len > 0)
        SHA256((const unsigned char *)g->cache_salt.bytes, g->cache_salt.len, r->salt.bytes);
}

static enum status fill(struct request *r, const struct generate_body *g, const struct api *api,
                        const struct api_prompt *prompt, const struct generate_extra *extra,
                        struct api_refusal *why)
{
    r->task = REQUEST_GENERATE;
    r->n_choices = extra->n_choices;
    r->priority = (int32_t)g->priority;
    r->ignore_eos = g->ignore_eos;
    r->include_stop = g->include_stop;
    r->skip_special_tokens = g->skip_special;
    r->want_prompt_logprobs = extra->want_prompt_logprobs;
    set_salt(r, g);
    TRY(request_set_prompt(r, prompt->ids, prompt->n, &why->err));
    TRY(set_max_tokens(r, g, api, extra, why));
    TRY(add_stops(r, g, api, why));
    TRY(add_stop_tokens(r, g, api, why));
    return set_sampling(r, g, api, extra, why);
}

enum status generate_request(const struct generate_body *g, const struct api *api,
                             const struct api_prompt *prompt, const struct generate_extra *extra,
                             struct request **out, struct api_refusal *why)
{
    struct request *r;
    TRY(request_create(&r, &why->err));
    enum status s = fill(r, g, api, prompt, extra, why);
    if (s != STATUS_OK) {
        request_destroy(r);
        return s;
    }
    *out = r;
    return STATUS_OK;
}
