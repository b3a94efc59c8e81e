/* engine_fixture.h - an engine with its hooks on a tiny model, requests for it, and what came of them, for tests. */
#ifndef TESTS_SERVER_ENGINE_FIXTURE_H
#define TESTS_SERVER_ENGINE_FIXTURE_H

#include "tests/server/model_fixture.h"

#include "base/clock.h"
#include "base/rng.h"

enum { OUTCOME_TOKENS = 256, OUTCOME_CHOICES = 4, OUTCOME_TEXT = 4096 };

struct choice_outcome {
    int n;
    int32_t tokens[OUTCOME_TOKENS];
    float logprobs[OUTCOME_TOKENS];
    int n_text;
    char text[OUTCOME_TEXT];
    int n_ends;                 /* CHOICE_END events */
    enum finish_reason finish;
    int stop_index;
};

/* What came back for one request; zeroed by the test, which submits with it. */
struct outcome {
    struct request *request;    /* NULL once it is back */
    struct choice_outcome of[OUTCOME_CHOICES];
    int n_prompt_tokens;        /* PROMPT_TOKEN events */
    float prompt_logprobs[OUTCOME_TOKENS];
    float embedding[FIXTURE_HIDDEN];
    int n_embedding;
    int n_last;                 /* DONE or FAILED events: 1 at the end */
    int failed;
    struct error failure;
    struct engine_usage usage;
};

/* options: whatever the test sets; model, tokenizer and the wake-up are filled in here. */
static inline void engine_fixture_open(struct running_model *m, const char *dir, const struct model_options *model,
                                       struct engine_options options)
{
    struct error err;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    if (model_load(&m->model, dir, model, &err) != STATUS_OK)
        fail_msg("load %s: %s", dir, err.text);
    if (tokenizer_load(&m->tokenizer, dir, &err) != STATUS_OK)
        fail_msg("tokenizer %s: %s", dir, err.text);
    options.model = m->model;
    options.tokenizer = m->tokenizer;
    options.max_events = options.max_events > 0 ? options.max_events : 256;
    options.on_event = running_model_on_event;
    options.context = m;
    if (engine_create(&m->engine, &options, &err) != STATUS_OK || engine_start(m->engine, &err) != STATUS_OK)
        fail_msg("engine: %s", err.text);
}

/* A greedy request for a prompt that depends on seed only. */
static inline struct request *fixture_request(uint64_t seed, int n_prompt, int max_new_tokens)
{
    int32_t prompt[OUTCOME_TOKENS];
    struct request *r;
    struct rng rng;
    rng_seed(&rng, seed);
    assert_true(n_prompt <= OUTCOME_TOKENS);
    for (int i = 0; i < n_prompt; i++)
        prompt[i] = (int32_t)rng_below(&rng, 256);
    assert_int_equal(request_create(&r, NULL), STATUS_OK);
    assert_int_equal(request_set_prompt(r, prompt, n_prompt, NULL), STATUS_OK);
    r->max_new_tokens = max_new_tokens;
    r->sampling.temperature = 0;
    r->sampling.want_logprob = 1;
    r->ignore_eos = 1;
    r->arrival_ns = clock_now_ns();
    snprintf(r->id, sizeof r->id, "test-%llu", (unsigned long long)seed);
    return r;
}

static inline void fixture_submit(struct running_model *m, struct request *r, struct outcome *out)
{
    struct error err;
    out->request = r;
    r->owner = out;
    if (engine_submit(m->engine, r, &err) != STATUS_OK)
        fail_msg("submit: %s", err.text);
}

static inline void outcome_take_token(struct outcome *out, const struct engine_event *e)
{
    struct choice_outcome *c = &out->of[e->choice];
    assert_int_equal(c->n_ends, 0);
    if (e->kind == ENGINE_TOKEN) {
        assert_true(c->n < OUTCOME_TOKENS);
        c->tokens[c->n] = e->token;
        c->logprobs[c->n++] = e->logprob;
    }
    assert_true(c->n_text + e->n_text < OUTCOME_TEXT);
    memcpy(c->text + c->n_text, e->text, (size_t)e->n_text);
    c->n_text += e->n_text;
}

static inline void outcome_take(const struct engine_event *e)
{
    struct outcome *out = e->request->owner;
    assert_int_equal(out->n_last, 0);
    switch (e->kind) {
    case ENGINE_TOKEN:
    case ENGINE_TEXT:
        outcome_take_token(out, e);
        break;
    case ENGINE_CHOICE_END:
        out->of[e->choice].n_ends++;
        out->of[e->choice].finish = e->finish;
        out->of[e->choice].stop_index = e->stop_index;
        break;
    case ENGINE_PROMPT_TOKEN:
        assert_int_equal(e->position, out->n_prompt_tokens);
        out->prompt_logprobs[out->n_prompt_tokens++] = e->logprob;
        break;
    case ENGINE_EMBEDDING:
        assert_int_equal(e->position, out->n_embedding);
        memcpy(out->embedding + out->n_embedding, e->values, (size_t)e->n_values * sizeof(float));
        out->n_embedding += e->n_values;
        break;
    case ENGINE_DONE:
    case ENGINE_FAILED:
        out->n_last++;
        out->failed = e->kind == ENGINE_FAILED;
        out->failure = e->failure;
        out->usage = e->usage;
        request_destroy(out->request);
        out->request = NULL;
        break;
    }
}

/* Take events until the request is back. */
static inline void fixture_finish(struct running_model *m, const struct outcome *out)
{
    while (out->n_last == 0) {
        struct engine_event event;
        running_model_wait(m, &event);
        outcome_take(&event);
    }
}

/* Take events until the choice has at least n tokens. */
static inline void fixture_await_tokens(struct running_model *m, const struct outcome *out, int choice, int n)
{
    while (out->of[choice].n < n && out->n_last == 0) {
        struct engine_event event;
        running_model_wait(m, &event);
        outcome_take(&event);
    }
}

static inline void fixture_cancel(struct running_model *m, struct outcome *out)
{
    if (out->request != NULL)
        atomic_store(&out->request->cancelled, 1);
    engine_nudge(m->engine);
}

static inline void fixture_pause(struct running_model *m, struct outcome *out, int paused)
{
    if (out->request != NULL)
        atomic_store(&out->request->paused, paused);
    engine_nudge(m->engine);
}

/* Submit, run to the end, and no failure. */
static inline void fixture_run(struct running_model *m, struct request *r, struct outcome *out)
{
    memset(out, 0, sizeof *out);
    fixture_submit(m, r, out);
    fixture_finish(m, out);
    if (out->failed)
        fail_msg("request failed: %s", out->failure.text);
}

static inline struct engine_state fixture_state(const struct running_model *m)
{
    struct engine_state state;
    engine_read_state(m->engine, &state);
    return state;
}

#endif
