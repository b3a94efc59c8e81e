#include "server/reply_private.h"

#include "base/json_write.h"
#include "base/version.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- create ---- */

static enum logprobs_shape logprobs_shape_of(const struct reply *r)
{
    return r->options.shape == REPLY_CHAT ? LOGPROBS_CHAT : LOGPROBS_LEGACY;
}

static enum status write_prefix(struct reply *r)
{
    static const char *const objects[2][2] = {
        [REPLY_COMPLETION] = { "text_completion", "text_completion" },
        [REPLY_CHAT] = { "chat.completion", "chat.completion.chunk" },
    };
    struct buf *p = &r->prefix;
    TRY(buf_add_text(p, r->options.is_stream ? "data: {\"id\":" : "{\"id\":"));
    TRY(json_write_cstring(p, r->options.id));
    TRY(buf_printf(p, ",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":",
                   objects[r->options.shape][r->options.is_stream], r->options.created));
    TRY(json_write_cstring(p, r->options.model));
    return buf_add_text(p, ",\"system_fingerprint\":\"latentd-" LATENTD_VERSION "\",\"choices\":[");
}

static void init_choice(struct reply *r, struct choice *c)
{
    buf_init(&c->stop_reason, REPLY_MAX_BYTES);
    buf_init(&c->text, REPLY_MAX_BYTES);
    buf_init(&c->token_ids, REPLY_MAX_BYTES);
    logprobs_json_init(&c->logprobs, logprobs_shape_of(r), r->options.tokenizer, 1);
}

static enum status fill(struct reply *r)
{
    size_t n_prompts = (size_t)r->options.n_prompts;
    size_t n = n_prompts * (size_t)r->options.n_choices;
    buf_init(&r->prefix, REPLY_MAX_BYTES);
    r->options.id = strdup(r->options.id);
    r->options.model = strdup(r->options.model);
    r->choices = calloc(n, sizeof *r->choices);
    r->echoes = calloc(n_prompts, sizeof *r->echoes);
    if (r->options.id == NULL || r->options.model == NULL || r->choices == NULL || r->echoes == NULL)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        init_choice(r, &r->choices[i]);
    for (size_t p = 0; p < n_prompts; p++) {
        buf_init(&r->echoes[p].text, REPLY_MAX_BYTES);
        logprobs_json_init(&r->echoes[p].logprobs, logprobs_shape_of(r), r->options.tokenizer, 1);
    }
    return write_prefix(r);
}

enum status reply_create(struct reply **out, const struct reply_options *options, struct error *err)
{
    assert(options->n_returned <= options->n_choices && options->n_prompts > 0);
    struct reply *r = calloc(1, sizeof *r);
    if (r == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a reply");
    r->options = *options;
    if (fill(r) != STATUS_OK) {
        reply_destroy(r);
        return fail(err, STATUS_NO_MEMORY, "no memory for a reply of %d choices",
                    options->n_prompts * options->n_choices);
    }
    *out = r;
    return STATUS_OK;
}

static void clear_choice(struct choice *c)
{
    buf_clear(&c->stop_reason);
    buf_clear(&c->text);
    buf_clear(&c->token_ids);
    logprobs_json_clear(&c->logprobs);
}

void reply_destroy(struct reply *r)
{
    if (r == NULL)
        return;
    for (int i = 0; r->choices != NULL && i < r->options.n_prompts * r->options.n_choices; i++)
        clear_choice(&r->choices[i]);
    for (int p = 0; r->echoes != NULL && p < r->options.n_prompts; p++) {
        buf_clear(&r->echoes[p].text);
        logprobs_json_clear(&r->echoes[p].logprobs);
    }
    free(r->choices);
    free(r->echoes);
    free((char *)r->options.id);
    free((char *)r->options.model);
    buf_clear(&r->prefix);
    free(r);
}

enum status reply_set_echo(struct reply *r, int prompt, const char *text, size_t len, struct error *err)
{
    if (len > 0 && buf_add(&r->echoes[prompt].text, text, len) != STATUS_OK)
        return fail(err, STATUS_NO_MEMORY, "no memory for the echo of a prompt");
    return STATUS_OK;
}

/* ---- events ---- */

/* A token that ended the choice, or that has no text in the reply, is not among the logprobs: their
 * tokens, put together, are the text. */
static int is_hidden(const struct reply *r, const struct request *request, int32_t token)
{
    for (int i = 0; i < request->n_stop_tokens; i++)
        if (request->stop_tokens[i] == token)
            return 1;
    for (int i = 0; !request->ignore_eos && i < r->options.n_end_tokens; i++)
        if (r->options.end_tokens[i] == token)
            return 1;
    return request->skip_special_tokens && tokenizer_is_special(r->options.tokenizer, token);
}

static enum status add_prompt_token(struct reply *r, int prompt, const struct engine_event *e)
{
    if (!r->options.echo || !r->options.want_logprobs)
        return STATUS_OK;
    r->echoes[prompt].logprobs.skip_special = e->request->skip_special_tokens;
    return logprobs_json_add(&r->echoes[prompt].logprobs, &(struct logprobs_entry){
        .token = e->token, .has_value = e->position > 0, .logprob = e->logprob,
        .top = e->top, .n_top = e->n_top });
}

static enum status begin_choice(struct reply *r, int prompt, struct choice *c)
{
    const struct prompt_echo *echo = &r->echoes[prompt];
    c->has_begun = 1;
    if (!r->options.echo)
        return STATUS_OK;
    if (echo->text.len > 0)
        TRY(buf_add(&c->text, echo->text.data, echo->text.len));
    return logprobs_json_append(&c->logprobs, &echo->logprobs);
}

static enum status add_token(struct reply *r, struct choice *c, const struct engine_event *e)
{
    c->logprob_sum += (double)e->logprob;
    c->n_tokens++;
    r->n_tokens++;
    if (r->options.want_token_ids)
        TRY(buf_printf(&c->token_ids, c->token_ids.len > 0 ? ",%d" : "%d", (int)e->token));
    if (!r->options.want_logprobs || is_hidden(r, e->request, e->token))
        return STATUS_OK;
    c->logprobs.skip_special = e->request->skip_special_tokens;
    return logprobs_json_add(&c->logprobs, &(struct logprobs_entry){
        .token = e->token, .has_value = 1, .logprob = e->logprob, .top = e->top, .n_top = e->n_top });
}

static enum status end_choice(struct choice *c, const struct engine_event *e)
{
    const struct request *request = e->request;
    c->has_ended = 1;
    c->finish = e->finish;
    if (e->stop_index >= 0 && e->stop_index < request->n_stops)
        return json_write_string(&c->stop_reason, request->stops[e->stop_index].text,
                                 request->stops[e->stop_index].len);
    for (int i = 0; i < request->n_stop_tokens; i++)
        if (request->stop_tokens[i] == e->stop_token)
            return json_write_int(&c->stop_reason, e->stop_token);
    return STATUS_OK;
}

static enum status take_choice_event(struct reply *r, int prompt, const struct engine_event *e,
                                     struct buf *out)
{
    assert(e->choice >= 0 && e->choice < r->options.n_choices);
    int index = prompt * r->options.n_choices + e->choice;
    struct choice *c = &r->choices[index];
    if (!c->has_begun)
        TRY(begin_choice(r, prompt, c));
    if (e->kind != ENGINE_CHOICE_END && e->n_text > 0)
        TRY(buf_add(&c->text, e->text, (size_t)e->n_text));
    if (e->kind == ENGINE_TOKEN)
        TRY(add_token(r, c, e));
    if (e->kind == ENGINE_CHOICE_END)
        TRY(end_choice(c, e));
    return r->options.is_stream ? reply_stream_choice(r, index, c, out) : STATUS_OK;
}

void reply_add_usage(struct engine_usage *sum, const struct engine_usage *u)
{
    sum->prompt_tokens += u->prompt_tokens;
    sum->cached_tokens += u->cached_tokens;
    sum->output_tokens += u->output_tokens;
    sum->preemptions += u->preemptions;
    sum->queue_ns = u->queue_ns > sum->queue_ns ? u->queue_ns : sum->queue_ns;
    sum->prefill_ns = u->prefill_ns > sum->prefill_ns ? u->prefill_ns : sum->prefill_ns;
    sum->decode_ns = u->decode_ns > sum->decode_ns ? u->decode_ns : sum->decode_ns;
}

static enum status take(struct reply *r, int prompt, const struct engine_event *e, struct buf *out)
{
    switch (e->kind) {
    case ENGINE_PROMPT_TOKEN:
        return add_prompt_token(r, prompt, e);
    case ENGINE_TEXT:
    case ENGINE_TOKEN:
    case ENGINE_CHOICE_END:
        return take_choice_event(r, prompt, e, out);
    case ENGINE_DONE:
        reply_add_usage(&r->usage, &e->usage);
        return STATUS_OK;
    case ENGINE_EMBEDDING:
    case ENGINE_FAILED:
        break;
    }
    assert(0 && "not an event of a reply");
    return STATUS_INTERNAL;
}

/* The buffers have no sentence of their own. */
static enum status tell(enum status s, struct error *err)
{
    if (s == STATUS_OK)
        return s;
    return s == STATUS_TOO_LARGE ? fail(err, s, "the reply is larger than %zu bytes", REPLY_MAX_BYTES)
                                 : fail(err, s, "no memory for the reply");
}

enum status reply_take(struct reply *r, int prompt, const struct engine_event *event, struct buf *out,
                       struct error *err)
{
    assert(prompt >= 0 && prompt < r->options.n_prompts);
    return tell(take(r, prompt, event, out), err);
}

enum status reply_finish(struct reply *r, struct buf *out, struct error *err)
{
    return tell(r->options.is_stream ? reply_stream_finish(r, out) : reply_json_finish(r, out), err);
}

/* ---- what both writers write ---- */

static const char *finish_text(enum finish_reason finish)
{
    switch (finish) {
    case FINISH_STOP:      return "\"stop\"";
    case FINISH_LENGTH:    return "\"length\"";
    case FINISH_CANCELLED: return "\"abort\"";
    }
    return "null";
}

enum status reply_write_text(struct choice *c, struct buf *out)
{
    enum status s = json_write_string(out, c->text.len > 0 ? c->text.data : "", c->text.len);
    buf_reset(&c->text);
    return s;
}

enum status reply_write_tail(struct reply *r, struct choice *c, int with_finish, struct buf *out)
{
    TRY(buf_add_text(out, ",\"logprobs\":"));
    if (c->logprobs.n_entries > 0)
        TRY(logprobs_json_flush(&c->logprobs, out));
    else
        TRY(buf_add_text(out, "null"));
    TRY(buf_printf(out, ",\"finish_reason\":%s", with_finish ? finish_text(c->finish) : "null"));
    if (with_finish)
        TRY(buf_printf(out, ",\"stop_reason\":%s", c->stop_reason.len > 0 ? c->stop_reason.data : "null"));
    if (r->options.want_token_ids) {
        TRY(buf_printf(out, ",\"token_ids\":[%s]", c->token_ids.len > 0 ? c->token_ids.data : ""));
        buf_reset(&c->token_ids);
    }
    return buf_add_char(out, '}');
}

enum status reply_write_usage(const struct reply *r, struct buf *out)
{
    const struct engine_usage *u = &r->usage;
    return buf_printf(out, "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
                      "\"prompt_tokens_details\":{\"cached_tokens\":%d}}", u->prompt_tokens, u->output_tokens,
                      u->prompt_tokens + u->output_tokens, u->cached_tokens);
}
