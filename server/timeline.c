#include "server/timeline.h"

#include "base/rng.h"
#include "model/grammar.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Text that is not shown yet: at most the beginning of a stop string and what
 * one token adds. */
#define MAX_HELD_BYTES ((size_t)1 << 20)
enum { HELD_RESERVE = 16384 };

struct timeline {
    struct timeline_options options;
    struct sampler *sampler;
    struct stop_matcher *stops;
    struct detokenizer detokenizer;
    struct buf held;                /* text from `shown` on */
    size_t shown;                   /* bytes of the choice's text that were emitted */
    int32_t n_output;
    int ended;
    int32_t banned[MODEL_MAX_EOS + REQUEST_MAX_STOP_TOKENS];    /* before min_new_tokens */
    int n_banned;
};

static int is_eos(const struct timeline *t, int32_t token)
{
    const struct model_config *c = t->options.config;
    for (int i = 0; i < c->n_eos_tokens; i++)
        if (c->eos_tokens[i] == token)
            return 1;
    return 0;
}

static int is_stop_token(const struct timeline *t, int32_t token)
{
    const struct request *r = t->options.request;
    for (int i = 0; i < r->n_stop_tokens; i++)
        if (r->stop_tokens[i] == token)
            return 1;
    return !r->ignore_eos && is_eos(t, token);
}

static void collect_banned(struct timeline *t)
{
    const struct request *r = t->options.request;
    const struct model_config *c = t->options.config;
    for (int i = 0; i < r->n_stop_tokens; i++)
        t->banned[t->n_banned++] = r->stop_tokens[i];
    for (int i = 0; i < c->n_eos_tokens; i++)
        t->banned[t->n_banned++] = c->eos_tokens[i];
}

static enum status start_sampler(struct timeline *t, struct error *err)
{
    const struct request *r = t->options.request;
    int32_t vocab = t->options.config->n_usable_tokens;
    TRY(sampler_create(&t->sampler, vocab, r->n_prompt + r->max_new_tokens, err));
    struct sampling_params params = r->sampling;
    params.seed = rng_sub_seed(r->sampling.seed, (uint64_t)t->options.choice);
    sampler_start(t->sampler, &params);
    sampler_push_prompt(t->sampler, r->prompt, r->n_prompt);
    return STATUS_OK;
}

static int cursor_of(const struct timeline *t)
{
    return t->options.request->first_cursor + t->options.choice;
}

static enum status start(struct timeline *t, struct error *err)
{
    const struct request *r = t->options.request;
    TRY(start_sampler(t, err));
    TRY(stop_matcher_create(&t->stops, &STOP_LIMITS_DEFAULT, err));
    stop_matcher_start(t->stops, r->stops, r->n_stops, r->include_stop);
    if (buf_reserve(&t->held, HELD_RESERVE) != STATUS_OK)
        return fail(err, STATUS_NO_MEMORY, "no memory for the text of a choice");
    detokenizer_init(&t->detokenizer, t->options.tokenizer, r->skip_special_tokens, 1);
    collect_banned(t);
    if (r->grammar != NULL)
        grammar_start(r->grammar, cursor_of(t));
    return STATUS_OK;
}

enum status timeline_create(struct timeline **out, const struct timeline_options *options, struct error *err)
{
    struct timeline *t = calloc(1, sizeof *t);
    if (t == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a choice of a request");
    t->options = *options;
    buf_init(&t->held, MAX_HELD_BYTES);
    enum status s = start(t, err);
    if (s != STATUS_OK) {
        timeline_destroy(t);
        return s;
    }
    *out = t;
    return STATUS_OK;
}

void timeline_destroy(struct timeline *t)
{
    if (t == NULL)
        return;
    sampler_destroy(t->sampler);
    stop_matcher_destroy(t->stops);
    buf_clear(&t->held);
    free(t);
}

static void emit(const struct timeline *t, struct engine_event *event)
{
    event->request = t->options.request;
    event->choice = t->options.choice;
    t->options.emit(t->options.context, event);
}

/* Bytes of text that fit into an event without cutting a character. */
static size_t whole_piece(const char *text, size_t n)
{
    if (n <= ENGINE_TEXT_BYTES)
        return n;
    size_t fits = ENGINE_TEXT_BYTES;
    while (fits > 0 && ((unsigned char)text[fits] & 0xc0) == 0x80)
        fits--;
    return fits;
}

/* Show the held text up to `safe` (counted from the start of the choice): TEXT
 * events for all but the last piece, which goes into *last. */
static void show(struct timeline *t, size_t safe, struct engine_event *last)
{
    size_t n = safe - t->shown, at = 0;
    assert(n <= t->held.len);
    size_t piece = n > 0 ? whole_piece(t->held.data, n) : 0;
    while (at + piece < n) {
        struct engine_event event = { .kind = ENGINE_TEXT, .n_text = (int32_t)piece };
        memcpy(event.text, t->held.data + at, piece);
        emit(t, &event);
        at += piece;
        piece = whole_piece(t->held.data + at, n - at);
    }
    if (piece > 0)
        memcpy(last->text, t->held.data + at, piece);
    last->n_text = (int32_t)piece;
    buf_drop_front(&t->held, n);
    t->shown = safe;
}

static void emit_end(struct timeline *t, enum finish_reason reason, int stop_index, int32_t stop_token)
{
    struct engine_event event = {
        .kind = ENGINE_CHOICE_END, .finish = reason, .stop_index = stop_index, .stop_token = stop_token,
    };
    t->ended = 1;
    emit(t, &event);
}

/* No token follows: an incomplete character and held text become visible.  A
 * stop string that only the flushed character completes still counts. */
static struct stop_result flush_text(struct timeline *t, struct engine_event *event)
{
    size_t before = t->held.len;
    struct stop_result r = { .safe = t->shown, .which = -1 };
    if (detokenizer_flush(&t->detokenizer, &t->held) == STATUS_OK)
        r = stop_matcher_push(t->stops, t->held.data + before, t->held.len - before);
    if (!r.stopped)
        r = stop_matcher_finish(t->stops);
    show(t, r.safe, event);
    return r;
}

void timeline_end(struct timeline *t, enum finish_reason reason)
{
    if (t->ended)
        return;
    struct engine_event event = { .kind = ENGINE_TEXT };
    flush_text(t, &event);
    if (event.n_text > 0)
        emit(t, &event);
    emit_end(t, reason, -1, -1);
}

/* Text of the token into held; the new visible part and whether it ends. */
static enum status take_token(struct timeline *t, const struct sampled *sampled, int *ended, struct error *err)
{
    const struct request *r = t->options.request;
    struct engine_event event = {
        .kind = ENGINE_TOKEN, .token = sampled->token, .logprob = sampled->logprob, .n_top = sampled->n_top,
    };
    memcpy(event.top, sampled->top, sizeof event.top);
    int ends = is_stop_token(t, sampled->token) && t->n_output >= r->min_new_tokens;
    int at_length = t->n_output >= r->max_new_tokens;
    int complete = r->grammar != NULL && grammar_is_finished(r->grammar, cursor_of(t));
    struct stop_result stop = { .safe = t->shown, .which = -1 };
    if (!ends) {
        size_t before = t->held.len;
        if (detokenizer_push(&t->detokenizer, sampled->token, &t->held) != STATUS_OK)
            return fail(err, STATUS_INTERNAL, "the text of a token is larger than %zu bytes", MAX_HELD_BYTES);
        stop = stop_matcher_push(t->stops, t->held.data + before, t->held.len - before);
    }
    *ended = ends || complete || at_length || stop.stopped;
    if (*ended && !stop.stopped)
        stop = flush_text(t, &event);
    else
        show(t, stop.safe, &event);
    emit(t, &event);
    if (stop.stopped)
        emit_end(t, FINISH_STOP, stop.which, -1);
    else if (ends || complete)
        emit_end(t, FINISH_STOP, -1, ends ? sampled->token : -1);
    else if (at_length)
        emit_end(t, FINISH_LENGTH, -1, -1);
    return STATUS_OK;
}

enum status timeline_push(struct timeline *t, const float *logits, struct sampler_scratch *scratch,
                          int32_t *token, int *ended, struct error *err)
{
    assert(!t->ended);
    struct sampler_input input = { .logits = logits };
    if (t->n_output < t->options.request->min_new_tokens) {
        input.banned = t->banned;
        input.n_banned = t->n_banned;
    }
    struct grammar *grammar = t->options.request->grammar;
    if (grammar != NULL)
        TRY(grammar_mask(grammar, cursor_of(t), &input.allowed, err));
    struct sampled sampled;
    TRY(sampler_pick(t->sampler, &input, scratch, &sampled, err));
    if (grammar != NULL)
        TRY(grammar_advance(grammar, cursor_of(t), sampled.token, err));
    t->n_output++;
    *token = sampled.token;
    return take_token(t, &sampled, ended, err);
}

int timeline_has_ended(const struct timeline *t)
{
    return t->ended;
}

int32_t timeline_n_output(const struct timeline *t)
{
    return t->n_output;
}
