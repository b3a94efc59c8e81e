/* test_determinism - the same requests give the same tokens and logprobs whatever runs beside them and on any ranks. */
#include "base/clock.h"
#include "base/rng.h"
#include "server/engine.h"
#include "tests/server/model_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_REQUESTS = 32, MAX_OUTPUT = 24, MAX_CHOICES = 3, MAX_PROMPT = 180, MAX_LENGTH = 224, MAX_ROWS = 192 };

/* What one choice produced. */
struct outcome {
    int n;
    int32_t tokens[MAX_OUTPUT];
    float logprobs[MAX_OUTPUT];
    struct token_logprob top[MAX_OUTPUT][2];
};

struct outcomes {
    struct outcome of[N_REQUESTS][MAX_CHOICES];
};

struct setting {
    const char *label;
    int n_ranks;
    enum cache_type cache;
    int by_chunk;
    int chunk;                  /* max_prefill_chunk */
    int prefix;
    int warm;                   /* run everything once before */
    int together;               /* 0: one after the other */
    int shuffled;
    int n_blocks;               /* small: forces preemption */
};

/* ---- the requests ---- */

/* Prompts of mixed lengths, some with a common beginning, one of more rows than attention works on together. */
static int make_prompt(int i, int32_t vocab, int32_t prompt[MAX_PROMPT])
{
    struct rng rng;
    rng_seed(&rng, (uint64_t)(i / 4));
    int n = 0, shared = i % 3 == 0 ? 33 : 0;
    for (; n < shared; n++)
        prompt[n] = (int32_t)rng_below(&rng, (uint64_t)vocab);
    rng_seed(&rng, 1000 + (uint64_t)i);
    int own = i == 6 ? 140 : 1 + (int)rng_below(&rng, 40);
    for (int k = 0; k < own; k++)
        prompt[n++] = (int32_t)rng_below(&rng, (uint64_t)vocab);
    return n;
}

static struct request *make_request(int i, int32_t vocab)
{
    struct request *r;
    int32_t prompt[MAX_PROMPT];
    assert_int_equal(request_create(&r, NULL), STATUS_OK);
    int n = make_prompt(i, vocab, prompt);
    assert_int_equal(request_set_prompt(r, prompt, n, NULL), STATUS_OK);
    r->max_new_tokens = 4 + i * 7 % (MAX_OUTPUT - 4);
    r->n_choices = i % 8 == 5 ? MAX_CHOICES : 1;
    r->ignore_eos = 1;
    r->sampling.temperature = i % 2 == 0 ? 0 : 0.8;
    r->sampling.top_p = i % 5 == 0 ? 0.9 : 1;
    r->sampling.repetition_penalty = i % 7 == 0 ? 1.2 : 1;
    r->sampling.seed = (uint64_t)i * 77;
    r->sampling.want_logprob = 1;
    r->sampling.n_top = 2;
    r->arrival_ns = clock_now_ns();
    r->owner = (void *)(intptr_t)i;
    return r;
}

/* ---- running them ---- */

static int take_events(struct running_model *m, int n_wanted, struct outcomes *out)
{
    int done = 0;
    while (done < n_wanted) {
        struct engine_event e;
        running_model_wait(m, &e);
        if (e.kind == ENGINE_FAILED)
            fail_msg("request failed: %s", e.failure.text);
        if (e.kind == ENGINE_TOKEN && out != NULL) {
            struct outcome *o = &out->of[(intptr_t)e.request->owner][e.choice];
            assert_true(o->n < MAX_OUTPUT);
            o->tokens[o->n] = e.token;
            o->logprobs[o->n] = e.logprob;
            memcpy(o->top[o->n++], e.top, sizeof o->top[0]);
        }
        if (e.kind == ENGINE_DONE) {
            request_destroy(e.request);
            done++;
        }
    }
    return done;
}

static void submit(struct running_model *m, int i)
{
    struct error err;
    struct request *r = make_request(i, model_config(m->model)->n_usable_tokens);
    if (engine_submit(m->engine, r, &err) != STATUS_OK)
        fail_msg("submit: %s", err.text);
}

static void run_requests(struct running_model *m, const struct setting *s, struct outcomes *out)
{
    int order[N_REQUESTS];
    struct rng rng;
    rng_seed(&rng, 5);
    for (int i = 0; i < N_REQUESTS; i++)
        order[i] = i;
    for (int i = N_REQUESTS - 1; s->shuffled && i > 0; i--) {
        int k = (int)rng_below(&rng, (uint64_t)i + 1), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    for (int i = 0; i < N_REQUESTS; i++) {
        submit(m, order[i]);
        if (!s->together)
            take_events(m, 1, out);
    }
    if (s->together)
        take_events(m, N_REQUESTS, out);
}

/* weights: an enum weight_type, or MODEL_WEIGHTS_AUTO. */
static uint64_t run_weights(const char *dir, const struct setting *s, int weights, struct outcomes *out)
{
    struct model_options model = {
        .n_ranks = s->n_ranks, .weight_type = weights, .cache_type = s->cache, .block_size = 16,
        .mla_by_chunk = s->by_chunk, .n_blocks = s->n_blocks, .max_rows = MAX_ROWS, .max_length = MAX_LENGTH,
    };
    struct scheduler_options scheduler = {
        .max_sequences = 12, .max_step_tokens = MAX_ROWS, .max_queue = 64, .max_prefill_chunk = s->chunk,
        .prefix_cache = s->prefix, .reuse_generated = s->prefix,
    };
    struct running_model m;
    running_model_open(&m, dir, &model, &scheduler);
    memset(out, 0, sizeof *out);
    if (s->warm)
        run_requests(&m, s, NULL);
    run_requests(&m, s, out);
    struct engine_state state;
    engine_read_state(m.engine, &state);
    running_model_close(&m);
    return state.n_preemptions;
}

static uint64_t run_setting(const char *dir, const struct setting *s, struct outcomes *out)
{
    return run_weights(dir, s, MODEL_WEIGHTS_AUTO, out);
}

static void compare(const char *dir, const struct setting *s, const struct outcomes *got,
                    const struct outcomes *want)
{
    for (int i = 0; i < N_REQUESTS; i++)
        for (int c = 0; c < MAX_CHOICES; c++)
            if (memcmp(&got->of[i][c], &want->of[i][c], sizeof got->of[i][c]) != 0)
                fail_msg("%s, %s, %s cache: request %d choice %d differs", dir, s->label,
                         cache_type_name(s->cache), i, c);
}

static const struct setting settings[] = {
    { "together", 1, 0, 0, 0, 0, 0, 1, 0, 400 },
    { "together, shuffled, prefixes", 1, 0, 0, 0, 1, 0, 1, 1, 400 },
    { "chunks of 1", 1, 0, 0, 1, 0, 0, 1, 0, 400 },
    { "chunks of 7, prefixes", 1, 0, 0, 7, 1, 0, 1, 1, 400 },
    { "chunks of 64", 1, 0, 0, 64, 0, 0, 1, 1, 400 },
    { "warm prefixes", 1, 0, 0, 0, 1, 1, 1, 0, 400 },
    { "warm prefixes, alone", 1, 0, 0, 7, 1, 1, 0, 0, 400 },
    { "preempted", 1, 0, 0, 0, 0, 0, 1, 0, 14 },
    { "preempted, prefixes, chunks of 7", 1, 0, 0, 7, 1, 0, 1, 1, 14 },
    { "2 ranks", 2, 0, 0, 7, 1, 0, 1, 1, 400 },
    { "2 ranks by chunk, preempted", 2, 0, 1, 0, 1, 0, 1, 0, 14 },
    { "4 ranks", 4, 0, 0, 0, 0, 0, 1, 0, 400 },
    { "4 ranks by chunk", 4, 0, 1, 0, 1, 0, 1, 1, 400 },
    { "8 ranks", 8, 0, 0, 0, 1, 0, 1, 0, 400 },
};

/* Degrees that are no power of two, of models with 12 heads: the trees of the sums
 * are the same, only their subtrees lie otherwise. */
static const struct setting other_degrees[] = {
    { "3 ranks", 3, 0, 0, 7, 1, 0, 1, 1, 400 },
    { "3 ranks by chunk, preempted", 3, 0, 1, 0, 1, 0, 1, 0, 14 },
    { "6 ranks", 6, 0, 0, 0, 0, 0, 1, 0, 400 },
    { "6 ranks by chunk", 6, 0, 1, 0, 1, 0, 1, 1, 400 },
    { "12 ranks", 12, 0, 0, 0, 1, 0, 1, 0, 400 },
};

static void check_other_degrees(const char *dir)
{
    struct outcomes *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    struct setting alone = { "alone", 1, CACHE_F32, 0, 0, 0, 0, 0, 0, 400 };
    run_setting(dir, &alone, want);
    int n_runs = 0;
    for (size_t i = 0; i < sizeof other_degrees / sizeof other_degrees[0]; i++) {
        if (!running_model_ranks_valid(dir, other_degrees[i].n_ranks))
            continue;
        run_setting(dir, &other_degrees[i], got);
        compare(dir, &other_degrees[i], got, want);
        n_runs++;
    }
    assert_true(n_runs > 0);
    printf("%s: %d settings of %d requests on degrees that are no power of two\n", dir, n_runs, N_REQUESTS);
    free(want);
    free(got);
}

static void check_model(const char *dir)
{
    struct outcomes *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    int n_runs = 0;
    uint64_t n_preemptions = 0;
#ifdef __SANITIZE_ADDRESS__
    int n_caches = 1;           /* the sanitizer looks for bad accesses, not for bits: it is slow */
#else
    int n_caches = 3;
#endif
    for (int cache = 0; cache < n_caches; cache++) {
        struct setting alone = { "alone", 1, (enum cache_type)cache, 0, 0, 0, 0, 0, 0, 400 };
        run_setting(dir, &alone, want);
        for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
            struct setting s = settings[i];
            s.cache = (enum cache_type)cache;
            if (!running_model_ranks_valid(dir, s.n_ranks))
                continue;
            n_preemptions += run_setting(dir, &s, got);
            compare(dir, &s, got, want);
            n_runs++;
        }
    }
    assert_true(n_preemptions > 0);
    printf("%s: %d settings of %d requests, %llu preemptions\n", dir, n_runs, N_REQUESTS,
           (unsigned long long)n_preemptions);
    free(want);
    free(got);
}

static const struct setting weight_settings[] = {
    { "together, shuffled, prefixes", 1, CACHE_BF16, 0, 7, 1, 0, 1, 1, 400 },
    { "preempted", 1, CACHE_BF16, 0, 0, 0, 0, 1, 0, 14 },
    { "2 ranks by chunk", 2, CACHE_BF16, 1, 0, 1, 0, 1, 1, 400 },
    { "4 ranks", 4, CACHE_BF16, 0, 7, 0, 0, 1, 0, 400 },
    { "8 ranks", 8, CACHE_BF16, 0, 0, 1, 0, 1, 1, 400 },
};

/* Products in f32, int8 and int4 are made by kernels of their own, and groups lie otherwise on each degree. */
static void check_weights(const char *dir)
{
    static const enum weight_type types[] = { WEIGHT_F32, WEIGHT_BF16, WEIGHT_INT8, WEIGHT_INT4 };
    enum { N_TYPES = sizeof types / sizeof types[0] };
    struct outcomes *want = malloc(N_TYPES * sizeof *want), *got = malloc(sizeof *got);
    static const struct setting alone = { "alone", 1, CACHE_BF16, 0, 0, 0, 0, 0, 0, 400 };
    for (int t = 0; t < N_TYPES; t++) {
        run_weights(dir, &alone, (int)types[t], &want[t]);
        for (int other = 0; other < t; other++)
            assert_memory_not_equal(&want[t], &want[other], sizeof *want);
        for (size_t i = 0; i < sizeof weight_settings / sizeof weight_settings[0]; i++) {
            const struct setting *s = &weight_settings[i];
            if (!running_model_ranks_valid(dir, s->n_ranks))
                continue;
            print_message("%s, %s weights, %s\n", dir, weight_type_name(types[t]), s->label);
            run_weights(dir, s, (int)types[t], got);
            compare(dir, s, got, &want[t]);
        }
    }
    free(want);
    free(got);
}

static void every_weight_type_is_deterministic(void **state)
{
    static const char *const kinds[] = { "mla", "mla_rope", "mlra", "mlra_4", "ccgqa", "gqa" };
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        check_weights(fixture_model(kinds[i]));
}

/* One test a formulation, so that a failure names it. */
#define FORMULATION(name) \
    static void name##_is_deterministic(void **state) { (void)state; check_model(fixture_model(#name)); } \
    static void name##_has_these_bits_on_any_degree(void **state) \
    { \
        (void)state; \
        check_other_degrees(fixture_model_of(#name, 12)); \
    }
FORMULATION(mla)
FORMULATION(mla_paper)
FORMULATION(mla_rope)
FORMULATION(mlra)
FORMULATION(mlra_2)
FORMULATION(mlra_4)
FORMULATION(gla_2)
FORMULATION(gla_4)
FORMULATION(cca)
FORMULATION(ccgqa)
FORMULATION(gqa)
FORMULATION(mha)
FORMULATION(mlra_4_gated)
FORMULATION(mlra_bitnet)

#define TESTS_OF(name) cmocka_unit_test(name##_is_deterministic), cmocka_unit_test(name##_has_these_bits_on_any_degree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TESTS_OF(mla),    TESTS_OF(mla_paper), TESTS_OF(mla_rope), TESTS_OF(mlra), TESTS_OF(mlra_2),
        TESTS_OF(mlra_4), TESTS_OF(gla_2),     TESTS_OF(gla_4),    TESTS_OF(cca),  TESTS_OF(ccgqa),
        TESTS_OF(gqa),    TESTS_OF(mha),       TESTS_OF(mlra_4_gated),             TESTS_OF(mlra_bitnet),
        cmocka_unit_test(every_weight_type_is_deterministic),
    };
    return cmocka_run_group_tests_name("determinism", tests, NULL, NULL);
}
