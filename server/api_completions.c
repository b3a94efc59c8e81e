/* api_completions.c - POST /v1/completions: prompts in, continuations out. */
#include "server/api_call.h"
#include "server/api_generate.h"
#include "server/api_intake.h"
#include "server/api_request.h"

#include <stdlib.h>

struct completions_body {
    struct generate_body g;
    const json_t *prompt;
    int64_t best_of, logprobs;      /* 0: as n; GENERATE_ABSENT: none */
    int echo;
};

static const struct body_field fields[] = {
    { "prompt", BODY_ANY(struct completions_body, prompt),
      .schema = API_PROMPTS_SCHEMA,
      .help = "a text, an array of texts, an array of tokens, or an array of such arrays" },
    GENERATE_FIELDS(struct completions_body),
    { "best_of", BODY_INT(struct completions_body, best_of), .min = 1, .max = REQUEST_MAX_CHOICES,
      .help = "generate so many and return the n with the highest mean log-probability" },
    { "logprobs", BODY_INT(struct completions_body, logprobs), .min = 0, .max = SAMPLING_MAX_TOP,
      .help = "log-probabilities of the tokens and of so many likeliest ones" },
    { "echo", BODY_FLAG(struct completions_body, echo), .help = "the prompt comes before the text" },
    { "add_special_tokens", BODY_FLAG(struct completions_body, g.add_special),
      .help = "put the tokenizer's special tokens around the prompt" },
    { "suffix", BODY_REFUSED, .help = "this model fills no gaps" },
};
const struct body_table api_completions_fields = BODY_TABLE(fields);

/* What only this endpoint knows, checked. */
static enum status check(const struct completions_body *b, struct api_refusal *why)
{
    if (b->best_of != 0 && b->best_of < b->g.n)
        return api_refuse(why, "best_of", STATUS_BAD_REQUEST, "'best_of' is %d, which is less than 'n', %d",
                          (int)b->best_of, (int)b->g.n);
    if (b->g.stream && b->best_of > b->g.n)
        return api_refuse(why, "best_of", STATUS_BAD_REQUEST,
                          "'best_of' above 'n' cannot be streamed: the best is known at the end");
    return STATUS_OK;
}

static enum status make_call(struct api *api, const struct completions_body *b, const struct api_prompts *prompts,
                             struct api_call **out, struct api_refusal *why)
{
    int n_choices = (int)(b->best_of != 0 ? b->best_of : b->g.n);
    int has_logprobs = b->logprobs != GENERATE_ABSENT;
    struct generate_extra extra = {
        .param = "prompt", .n_choices = n_choices, .default_max_tokens = 16,
        .want_logprob = has_logprobs || n_choices > b->g.n, .n_top = has_logprobs ? (int)b->logprobs : 0,
        .want_prompt_logprobs = b->echo && has_logprobs,
    };
    struct api_generate_options options = {
        .api = api, .body = &b->g, .prompts = prompts, .extra = &extra,
        .shape = REPLY_COMPLETION, .id_prefix = "cmpl-", .n_returned = (int)b->g.n,
        .want_logprobs = has_logprobs, .echo = b->echo,
    };
    return api_generate_make(&options, out, why);
}

static enum status read_fields(struct api *api, const json_t *object, struct completions_body *b,
                               struct api_call **out, struct api_refusal *why)
{
    struct api_prompts prompts;
    TRY(body_fields_read(&api_completions_fields, object, b, &why->param, &why->err));
    TRY(check(b, why));
    struct api_prompts_rules rules = { .api = api, .field = "prompt", .add_special = b->g.add_special,
                                       .max_prompts = api->options.limits.max_prompts };
    TRY(api_prompts_read(&prompts, b->prompt, &rules, why));
    int n_choices = (int)(b->best_of != 0 ? b->best_of : b->g.n);
    enum status s = generate_check(&b->g, api, prompts.n, n_choices, why);
    if (s == STATUS_OK)
        s = make_call(api, b, &prompts, out, why);
    api_prompts_clear(&prompts);
    return s;
}

static enum status read_completions(struct api *api, const json_t *object, struct api_intake_result *out,
                                    struct api_refusal *why)
{
    struct completions_body body = { .logprobs = GENERATE_ABSENT };
    generate_body_init(&body.g, api);
    enum status s = read_fields(api, object, &body, &out->call, why);
    generate_body_clear(&body.g);
    return s;
}

void api_handle_completions(void *context, struct http_exchange *ex)
{
    api_intake(context, ex, read_completions);
}
