#include "server/api_generate.h"

#include "base/clock.h"
#include "model/detokenizer.h"
#include "server/api_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the reply as a call's output ---- */

/* Both live as long as the call, which outlives its requests. */
struct generation {
    struct reply *reply;
    struct grammar *grammar;        /* NULL: free text; shared by all requests */
};

static enum status take_event(void *state, int prompt, const struct engine_event *event, struct buf *out,
                              struct error *err)
{
    const struct generation *generation = state;
    return reply_take(generation->reply, prompt, event, out, err);
}

static enum status finish_reply(void *state, struct buf *out, struct error *err)
{
    const struct generation *generation = state;
    return reply_finish(generation->reply, out, err);
}

static void destroy_generation(void *state)
{
    struct generation *generation = state;
    reply_destroy(generation->reply);
    grammar_destroy(generation->grammar);
    free(generation);
}

static const struct call_output generation_output = {
    .take = take_event, .finish = finish_reply, .destroy = destroy_generation,
};

/* ---- make it ---- */

/* Ids are unique within this process, and those of two processes differ. */
static void make_id(struct api *api, const char *prefix, char *out, size_t max)
{
    snprintf(out, max, "%s%016" PRIx64 "%08" PRIx64, prefix, api->id_salt, atomic_fetch_add(&api->next_call, 1) + 1);
}

static int32_t count_prompt_tokens(const struct api_prompts *prompts)
{
    int32_t n = 0;
    for (int i = 0; i < prompts->n; i++)
        n += prompts->prompts[i].n;
    return n;
}

static enum status make_reply(const struct api_generate_options *o, struct reply **out, struct error *err)
{
    struct api *api = o->api;
    const struct model_config *config = model_config(api->options.model);
    char id[64];
    make_id(api, o->id_prefix, id, sizeof id);
    struct reply_options options = {
        .shape = o->shape, .id = id, .model = api->options.model_name, .created = clock_unix_seconds(),
        .tokenizer = api->options.tokenizer, .end_tokens = config->eos_tokens,
        .n_end_tokens = config->n_eos_tokens, .n_prompts = o->prompts->n, .n_choices = o->extra->n_choices,
        .n_returned = o->n_returned, .is_stream = o->body->stream, .include_usage = o->body->include_usage,
        .usage_in_chunks = o->body->usage_in_chunks, .prompt_tokens = count_prompt_tokens(o->prompts),
        .want_logprobs = o->want_logprobs, .want_token_ids = o->body->want_token_ids, .echo = o->echo,
    };
    return reply_create(out, &options, err);
}

/* A prompt given as text is shown as it was given, one given as tokens as they read. */
static enum status set_echo(const struct api_generate_options *o, struct reply *reply, int prompt,
                            struct error *err)
{
    const struct api_prompt *p = &o->prompts->prompts[prompt];
    struct buf text;
    if (p->text != NULL)
        return reply_set_echo(reply, prompt, p->text, p->len, err);
    buf_init(&text, REPLY_MAX_BYTES);
    enum status s = detokenizer_decode(o->api->options.tokenizer, p->ids, (size_t)p->n, o->body->skip_special,
                                       &text);
    s = s == STATUS_OK ? reply_set_echo(reply, prompt, text.data, text.len, err)
                       : fail(err, s, "the text of a prompt is larger than %zu bytes", REPLY_MAX_BYTES);
    buf_clear(&text);
    return s;
}

static enum status make_generation(const struct api_generate_options *o, struct generation **out,
                                   struct api_refusal *why)
{
    struct generation *generation = calloc(1, sizeof *generation);
    if (generation == NULL)
        return api_refuse(why, NULL, STATUS_NO_MEMORY, "no memory for a call");
    enum status s = make_reply(o, &generation->reply, &why->err);
    if (s == STATUS_OK)
        s = generate_grammar(o->body, o->api, o->prompts->n * o->extra->n_choices, &generation->grammar, why);
    if (s != STATUS_OK) {
        destroy_generation(generation);
        return s;
    }
    *out = generation;
    return STATUS_OK;
}

static enum status fill_call(const struct api_generate_options *o, const struct generation *generation,
                             struct api_call *call, struct api_refusal *why)
{
    for (int i = 0; i < o->prompts->n; i++) {
        struct request *request;
        if (o->echo)
            TRY(set_echo(o, generation->reply, i, &why->err));
        TRY(generate_request(o->body, o->api, &o->prompts->prompts[i], o->extra, &request, why));
        request->grammar = generation->grammar;
        request->first_cursor = i * o->extra->n_choices;
        api_call_set_request(call, i, request);
    }
    return STATUS_OK;
}

enum status api_generate_make(const struct api_generate_options *o, struct api_call **out,
                              struct api_refusal *why)
{
    struct generation *generation = NULL;
    struct api_call *call;
    TRY(make_generation(o, &generation, why));
    struct api_call_options options = {
        .api = o->api, .output = &generation_output, .state = generation,
        .n_requests = o->prompts->n, .n_choices = o->extra->n_choices, .is_stream = o->body->stream,
    };
    enum status s = api_call_create(&call, &options, &why->err);
    if (s != STATUS_OK) {
        destroy_generation(generation);
        return s;
    }
    s = fill_call(o, generation, call, why);
    if (s != STATUS_OK) {
        api_call_destroy(call);
        return s;
    }
    *out = call;
    return STATUS_OK;
}
