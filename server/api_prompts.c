#include "server/api_prompts.h"

#include "base/json_read.h"
#include "model/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum status no_memory(struct api_refusal *why)
{
    return api_refuse(why, NULL, STATUS_NO_MEMORY, "no memory for the prompt");
}

/* ---- tokens ---- */

static enum status read_id(const json_t *value, size_t at, const struct api_prompts_rules *rules, int32_t *id,
                           struct api_refusal *why)
{
    int32_t n_ids = api_n_token_ids(rules->api);
    if (!json_is_integer(value))
        return api_refuse(why, rules->field, STATUS_BAD_REQUEST, "'%s' has %s where token %zu is expected",
                          rules->field, json_type_phrase(value), at);
    json_int_t got = json_integer_value(value);
    if (got < 0 || got >= n_ids)
        return api_refuse(why, rules->field, STATUS_BAD_REQUEST, "token %zu of '%s' is %" PRId64
                          ", and the vocabulary is 0 to %d", at, rules->field, (int64_t)got, n_ids - 1);
    *id = (int32_t)got;
    return STATUS_OK;
}

enum status api_token_ids_read(const json_t *array, const struct api_prompts_rules *rules, int32_t **ids,
                               size_t *n, struct api_refusal *why)
{
    size_t count = json_array_size(array);
    int32_t *list = malloc((count + 1) * sizeof *list);
    if (list == NULL)
        return no_memory(why);
    for (size_t i = 0; i < count; i++) {
        enum status s = read_id(json_array_get(array, i), i, rules, &list[i], why);
        if (s != STATUS_OK) {
            free(list);
            return s;
        }
    }
    *ids = list;
    *n = count;
    return STATUS_OK;
}

static enum status read_tokens(struct api_prompt *out, const json_t *array,
                               const struct api_prompts_rules *rules, struct api_refusal *why)
{
    size_t n = json_array_size(array);
    int32_t max = api_max_length(rules->api);
    if (n == 0)
        return api_refuse(why, rules->field, STATUS_BAD_REQUEST, "'%s' has a prompt without tokens",
                          rules->field);
    if (n > (size_t)max)
        return api_refuse_length(why, rules->field, (int64_t)n, 0, max);
    TRY(api_token_ids_read(array, rules, &out->ids, &n, why));
    out->n = (int32_t)n;
    return STATUS_OK;
}

/* ---- texts ---- */

/* A prompt needs a token to compute; for an empty text that is the begin of text, if the model has one. */
static enum status use_begin(struct api_prompt *out, const struct api_prompts_rules *rules,
                             struct api_refusal *why)
{
    int32_t bos = tokenizer_bos(rules->api->options.tokenizer);
    if (bos < 0 || bos >= api_n_token_ids(rules->api))
        return api_refuse(why, rules->field, STATUS_BAD_REQUEST,
                          "'%s' is empty, and this model has no token that "
                          "begins a text",
                          rules->field);
    out->ids[0] = bos;
    out->n = 1;
    return STATUS_OK;
}

static enum status encode(struct api_prompt *out, int32_t max, const struct api_prompts_rules *rules,
                          struct api_refusal *why)
{
    struct tokenizer_input input = { .text = out->text, .len = out->len, .add_special = rules->add_special };
    struct token_array tokens = { .ids = out->ids, .max = (size_t)max };
    enum status s = tokenizer_encode(rules->api->options.tokenizer, &input, &tokens, &why->err);
    if (s == STATUS_TOO_LARGE && tokens.n > tokens.max)
        return api_refuse_length(why, rules->field, (int64_t)tokens.n, 0, max);
    why->param = rules->field;
    TRY(s);
    out->n = (int32_t)tokens.n;
    for (int32_t i = 0; i < out->n; i++)
        if (out->ids[i] >= api_n_token_ids(rules->api))
            return api_refuse(why, rules->field, STATUS_BAD_REQUEST,
                              "'%s' becomes token %d, which the model does "
                              "not have",
                              rules->field, (int)out->ids[i]);
    return out->n == 0 ? use_begin(out, rules, why) : STATUS_OK;
}

enum status api_prompt_encode(struct api_prompt *out, const char *text, size_t len,
                              const struct api_prompts_rules *rules, struct api_refusal *why)
{
    int32_t max = api_max_length(rules->api);
    *out = (struct api_prompt){ .text = text, .len = len };
    out->ids = malloc((size_t)max * sizeof *out->ids);
    if (out->ids == NULL)
        return no_memory(why);
    enum status s = encode(out, max, rules, why);
    if (s != STATUS_OK) {
        api_prompt_clear(out);
        return s;
    }
    int32_t *fitted = realloc(out->ids, (size_t)out->n * sizeof *fitted);
    if (fitted != NULL)
        out->ids = fitted;
    return STATUS_OK;
}

void api_prompt_clear(struct api_prompt *prompt)
{
    free(prompt->ids);
    *prompt = (struct api_prompt){ .ids = NULL };
}

/* ---- lists ---- */

static enum status read_one(struct api_prompt *out, const json_t *value,
                            const struct api_prompts_rules *rules, struct api_refusal *why)
{
    if (json_is_string(value))
        return api_prompt_encode(out, json_string_value(value), json_string_length(value), rules, why);
    if (json_is_array(value))
        return read_tokens(out, value, rules, why);
    return api_refuse(why, rules->field, STATUS_BAD_REQUEST,
                      "'%s' must be a string, an array of strings, an array of "
                      "tokens or an array of such arrays, got %s in it",
                      rules->field, json_type_phrase(value));
}

static enum status read_all(struct api_prompts *out, const json_t *value,
                            const struct api_prompts_rules *rules, struct api_refusal *why)
{
    int is_one = !json_is_array(value) || json_is_integer(json_array_get(value, 0));
    size_t n = is_one ? 1 : json_array_size(value);
    if (n == 0)
        return api_refuse(why, rules->field, STATUS_BAD_REQUEST, "'%s' is an empty array", rules->field);
    if (n > (size_t)rules->max_prompts)
        return api_refuse(why, rules->field, STATUS_BAD_REQUEST, "'%s' has %zu prompts, and the limit is %d",
                          rules->field, n, rules->max_prompts);
    out->prompts = calloc(n, sizeof *out->prompts);
    if (out->prompts == NULL)
        return no_memory(why);
    for (size_t i = 0; i < n; i++) {
        out->n = (int)i + 1;
        TRY(read_one(&out->prompts[i], is_one ? value : json_array_get(value, i), rules, why));
    }
    return STATUS_OK;
}

enum status api_prompts_read(struct api_prompts *out, const json_t *value,
                             const struct api_prompts_rules *rules, struct api_refusal *why)
{
    *out = (struct api_prompts){ .n = 0 };
    if (value == NULL)
        return api_refuse(why, rules->field, STATUS_BAD_REQUEST, "'%s' is required", rules->field);
    enum status s = read_all(out, value, rules, why);
    if (s != STATUS_OK)
        api_prompts_clear(out);
    return s;
}

void api_prompts_clear(struct api_prompts *p)
{
    for (int i = 0; i < p->n; i++)
        api_prompt_clear(&p->prompts[i]);
    free(p->prompts);
    *p = (struct api_prompts){ .n = 0 };
}
