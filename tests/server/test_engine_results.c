/* test_engine_results - what the engine refuses, what it shares, and that embeddings, prompt logprobs and failures are right. */
#include "base/buf.h"
#include "base/file.h"
#include "model/safetensors.h"
#include "tests/server/step_gate.h"

#include <math.h>

enum { BLOCK = 16 };

struct world {
    struct running_model running;
    struct step_gate gate;
};

static void open_dir(struct world *w, const char *dir, int n_ranks, int n_blocks)
{
    struct model_options model = {
        .n_ranks = n_ranks, .weight_type = MODEL_WEIGHTS_AUTO, .block_size = BLOCK, .n_blocks = n_blocks,
        .max_rows = 64, .max_length = 200,
    };
    struct engine_options options = {
        .scheduler = { .max_sequences = 8, .max_step_tokens = 64, .max_queue = 2, .max_prefill_chunk = 24,
                       .prefix_cache = 1 },
        .on_step = step_gate_on_step, .step_context = &w->gate, .max_events = 4096,
    };
    step_gate_init(&w->gate);
    engine_fixture_open(&w->running, dir, &model, options);
}

static void open_world(struct world *w, int n_blocks)
{
    open_dir(w, fixture_model("mlra"), 2, n_blocks);
}

static void close_world(struct world *w)
{
    step_gate_open(&w->gate);
    running_model_close(&w->running);
}

static struct outcome *new_outcomes(size_t n)
{
    struct outcome *o = calloc(n, sizeof *o);
    assert_non_null(o);
    return o;
}

/* ---- refusals ---- */

static void refuse(struct world *w, struct request *r, enum status want, const char *number_1, const char *number_2)
{
    struct error err = { 0 };
    assert_int_equal(engine_submit(w->running.engine, r, &err), want);
    if (strstr(err.text, number_1) == NULL || strstr(err.text, number_2) == NULL)
        fail_msg("'%s' has not %s and %s", err.text, number_1, number_2);
    request_destroy(r);
}

static void a_request_that_can_never_fit_is_refused_with_the_numbers(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, 6);
    refuse(&w, fixture_request(1, 150, 51), STATUS_BAD_REQUEST, "201", "200");
    refuse(&w, fixture_request(1, 90, 20), STATUS_BAD_REQUEST, "7 cache blocks", "there are 6");
    struct request *r = fixture_request(1, 10, 5);
    r->n_choices = 11;
    refuse(&w, r, STATUS_BAD_REQUEST, "11 choices", "seats (8) and places in the queue (2)");
    r = fixture_request(1, 10, 5);
    r->prompt[7] = FIXTURE_VOCAB;
    refuse(&w, r, STATUS_BAD_REQUEST, "token 7 is 320", "320 tokens");
    r = fixture_request(1, 10, 5);
    r->prompt[0] = -1;
    refuse(&w, r, STATUS_BAD_REQUEST, "token 0 is -1", "320 tokens");
    struct outcome *o = new_outcomes(1);
    fixture_run(&w.running, fixture_request(1, 90, 6), o);
    assert_int_equal(o->of[0].n, 6);
    free(o);
    close_world(&w);
}

static void beyond_seats_and_queue_a_request_is_refused_and_n_counts_as_n(void **state)
{
    (void)state;
    struct world w;
    struct outcome *o = new_outcomes(9);
    open_world(&w, 100);
    step_gate_close(&w.gate);
    for (int i = 0; i < 7; i++)
        fixture_submit(&w.running, fixture_request((uint64_t)i, 10, 8), &o[i]);
    struct request *four = fixture_request(8, 10, 8);
    four->n_choices = 4;
    refuse(&w, four, STATUS_OVERLOADED, "7 sequences", "limit is 10");
    struct request *three = fixture_request(8, 10, 8);
    three->n_choices = 3;
    fixture_submit(&w.running, three, &o[7]);
    refuse(&w, fixture_request(9, 10, 8), STATUS_OVERLOADED, "10 sequences", "limit is 10");
    step_gate_open(&w.gate);
    for (int i = 0; i < 8; i++) {
        fixture_finish(&w.running, &o[i]);
        assert_int_equal(o[i].failed, 0);
    }
    fixture_run(&w.running, fixture_request(9, 10, 8), &o[8]);
    assert_int_equal(o[7].usage.output_tokens, 24);
    free(o);
    close_world(&w);
}

/* ---- sharing ---- */

static void eight_equal_prompts_at_once_are_computed_once(void **state)
{
    (void)state;
    struct world w;
    struct outcome *o = new_outcomes(8);
    open_world(&w, 100);
    step_gate_close(&w.gate);
    for (int i = 0; i < 8; i++)
        fixture_submit(&w.running, fixture_request(1, 64, 5), &o[i]);
    step_gate_open(&w.gate);
    for (int i = 0; i < 8; i++) {
        fixture_finish(&w.running, &o[i]);
        assert_int_equal(o[i].failed, 0);
        assert_memory_equal(o[i].of[0].tokens, o[0].of[0].tokens, sizeof o[0].of[0].tokens);
        assert_memory_equal(o[i].of[0].logprobs, o[0].of[0].logprobs, sizeof o[0].of[0].logprobs);
        assert_int_equal(o[i].usage.cached_tokens, i == 0 ? 0 : 48);
    }
    /* One computes 64 tokens; the others find three blocks and compute the last, for its logits. */
    struct engine_state s = fixture_state(&w.running);
    assert_int_equal(s.prompt_tokens, 64 + 7 * 16);
    assert_int_equal(s.prefix_queries, 8 * 64);
    assert_int_equal(s.prefix_hits, 7 * 48);
    free(o);
    close_world(&w);
}

static void who_has_the_last_event_finds_the_request_counted(void **state)
{
    (void)state;
    struct world w;
    struct outcome *o = new_outcomes(1);
    open_world(&w, 100);
    w.gate.linger_ns = 100000000;       /* the engine is still busy with its last step */
    fixture_run(&w.running, fixture_request(1, 40, 3), o);
    struct engine_state s = fixture_state(&w.running);
    assert_int_equal(s.prompt_tokens, 40);
    assert_int_equal(s.output_tokens, 3);
    assert_int_equal(s.n_steps, 4);
    assert_int_equal(s.n_running, 0);
    free(o);
    close_world(&w);
}

static void a_prompt_without_output_is_computed_and_ends_by_length(void **state)
{
    (void)state;
    struct world w;
    struct outcome *o = new_outcomes(1);
    open_world(&w, 100);
    struct request *r = fixture_request(1, 40, 0);
    r->n_choices = 2;
    fixture_run(&w.running, r, o);
    assert_int_equal(o->usage.output_tokens, 0);
    assert_int_equal(o->of[0].n + o->of[1].n, 0);
    assert_int_equal(o->of[0].n_ends + o->of[1].n_ends, 2);
    assert_int_equal(o->of[1].finish, FINISH_LENGTH);
    assert_int_equal(fixture_state(&w.running).prompt_tokens, 40);
    free(o);
    close_world(&w);
}

/* ---- prompt logprobs and embeddings ---- */

static struct request *with_prompt_logprobs(void)
{
    struct request *r = fixture_request(6, 120, 4);
    r->want_prompt_logprobs = 1;
    return r;
}

static struct request *embedding(void)
{
    struct request *r = fixture_request(7, 120, 0);
    r->task = REQUEST_EMBED;
    return r;
}

/* What was generated has the same logprobs when it is given; prompt and generated
 * tokens are computed in two ways, so nearly the same. */
static void prompt_logprobs_are_those_of_generating_the_same_tokens(void **state)
{
    (void)state;
    struct world w;
    struct outcome *made = new_outcomes(1), *given = new_outcomes(1);
    open_world(&w, 100);
    fixture_run(&w.running, fixture_request(1, 30, 40), made);
    struct request *r = fixture_request(1, 30, 1);
    int32_t prompt[70];
    memcpy(prompt, r->prompt, 30 * sizeof *prompt);
    memcpy(prompt + 30, made->of[0].tokens, 40 * sizeof *prompt);
    assert_int_equal(request_set_prompt(r, prompt, 70, NULL), STATUS_OK);
    r->want_prompt_logprobs = 1;
    fixture_run(&w.running, r, given);
    assert_int_equal(given->n_prompt_tokens, 70);
    for (int i = 0; i < 40; i++)
        assert_true(fabsf(given->prompt_logprobs[30 + i] - made->of[0].logprobs[i]) < 1e-3f);
    free(made);
    free(given);
    close_world(&w);
}

/* The oracle: one step over the whole prompt in a model without an engine. */
struct mean_of_hidden {
    struct model *model;
    const struct request *request;
    double sum[FIXTURE_HIDDEN];
};

static enum status add_hidden(void *context)
{
    struct mean_of_hidden *mean = context;
    int32_t blocks[16];
    int n = mean->request->n_prompt;
    for (int i = 0; i < 16; i++)
        blocks[i] = i;
    struct span span = { .n_rows = n, .length = n, .causal = 1, .blocks = blocks };
    struct batch batch = { .spans = &span, .n_spans = 1, .tokens = mean->request->prompt, .n_rows = n };
    TRY(model_step(mean->model, &batch));
    for (int row = 0; row < n; row++)
        for (int i = 0; i < FIXTURE_HIDDEN; i++)
            mean->sum[i] += (double)model_hidden(mean->model)[row * FIXTURE_HIDDEN + i];
    return STATUS_OK;
}

static void an_embedding_is_the_mean_of_the_hidden_rows(void **state)
{
    (void)state;
    struct world w;
    struct outcome *o = new_outcomes(1);
    open_world(&w, 100);
    fixture_run(&w.running, embedding(), o);
    assert_int_equal(o->n_embedding, FIXTURE_HIDDEN);
    struct model_options options = {
        .n_ranks = 1, .weight_type = MODEL_WEIGHTS_AUTO, .block_size = BLOCK, .n_blocks = 20, .max_rows = 128,
    };
    struct mean_of_hidden mean = { .request = embedding() };
    assert_int_equal(model_load(&mean.model, fixture_model("mlra"), &options, NULL), STATUS_OK);
    assert_int_equal(model_run(mean.model, add_hidden, &mean), STATUS_OK);
    for (int i = 0; i < FIXTURE_HIDDEN; i++)
        assert_true(o->embedding[i] == (float)(mean.sum[i] / 120));
    model_destroy(mean.model);
    request_destroy((struct request *)mean.request);
    free(o);
    close_world(&w);
}

/* A paused request is the first that loses its blocks: pause it in its prefill,
 * let another take them all, and go on. */
static void run_preempted(struct world *w, struct request *r, struct outcome *out)
{
    struct outcome *other = new_outcomes(1);
    step_gate_close(&w->gate);
    fixture_submit(&w->running, r, out);
    step_gate_pass(&w->gate, 4);
    fixture_pause(&w->running, out, 1);
    step_gate_pass(&w->gate, 1);
    step_gate_open(&w->gate);
    fixture_run(&w->running, fixture_request(99, 120, 30), other);
    fixture_pause(&w->running, out, 0);
    fixture_finish(&w->running, out);
    assert_int_equal(out->failed, 0);
    assert_true(out->usage.preemptions > 0);
    free(other);
}

static void prompt_logprobs_and_embeddings_survive_a_preemption(void **state)
{
    (void)state;
    struct world w;
    struct outcome *o = new_outcomes(4);
    open_world(&w, 12);
    fixture_run(&w.running, with_prompt_logprobs(), &o[0]);
    run_preempted(&w, with_prompt_logprobs(), &o[1]);
    assert_int_equal(o[0].n_prompt_tokens, 120);
    assert_int_equal(o[1].n_prompt_tokens, 120);
    assert_memory_equal(o[0].prompt_logprobs, o[1].prompt_logprobs, sizeof o[0].prompt_logprobs);
    assert_memory_equal(o[0].of[0].logprobs, o[1].of[0].logprobs, sizeof o[0].of[0].logprobs);
    fixture_run(&w.running, embedding(), &o[2]);
    run_preempted(&w, embedding(), &o[3]);
    assert_memory_equal(o[2].embedding, o[3].embedding, sizeof o[2].embedding);
    free(o);
    close_world(&w);
}

/* ---- a weight that is not finite ---- */

enum { POISONED_TOKEN = 300 };      /* fixture_request uses 0..255 */

/* A copy of the model whose embedding of one token holds an infinity. */
static const char *poisoned_model(void)
{
    static char dir[540];
    char path[600], source[512];
    snprintf(source, sizeof source, "%s", fixture_model("mlra"));
    snprintf(dir, sizeof dir, "%s-poisoned", source);
    mkdir(dir, 0755);
    static const char *const names[] = { "config.json", "tokenizer.json", "tokenizer_config.json",
                                         "model.safetensors" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct buf bytes;
        buf_init(&bytes, (size_t)64 << 20);
        snprintf(path, sizeof path, "%s/%s", source, names[i]);
        if (!file_exists(path))
            continue;
        assert_int_equal(file_read(path, &bytes, NULL), STATUS_OK);
        if (strcmp(names[i], "model.safetensors") == 0) {
            struct safetensors *set;
            assert_int_equal(safetensors_open_memory(&set, path, bytes.data, bytes.len, NULL), STATUS_OK);
            const struct tensor *t = safetensors_find(set, "model.embed_tokens.weight");
            assert_non_null(t);
            float infinity = INFINITY;
            size_t offset = (size_t)((const char *)t->data - bytes.data);
            memcpy(bytes.data + offset + (POISONED_TOKEN * FIXTURE_HIDDEN + 5) * sizeof(float), &infinity,
                   sizeof infinity);
            safetensors_close(set);
        }
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        assert_int_equal(file_replace(path, bytes.data, bytes.len, NULL), STATUS_OK);
        buf_clear(&bytes);
    }
    return dir;
}

static struct request *poisoned_request(int n_prompt)
{
    struct request *r = fixture_request(50, n_prompt, 20);
    r->prompt[n_prompt / 2] = POISONED_TOKEN;
    return r;
}

static void a_logit_that_is_not_finite_fails_its_own_request_only(void **state)
{
    (void)state;
    struct world w;
    struct outcome *want = new_outcomes(3), *got = new_outcomes(4);
    open_dir(&w, poisoned_model(), 2, 30);
    for (int i = 0; i < 3; i++)
        fixture_run(&w.running, fixture_request((uint64_t)i, 20 + i, 30), &want[i]);
    engine_reset_prefixes(w.running.engine);
    /* Several times, so that blocks that held what is not a number are used again;
     * the second length is more than one step takes. */
    for (int turn = 0; turn < 6; turn++) {
        memset(got, 0, 4 * sizeof *got);
        step_gate_close(&w.gate);
        fixture_submit(&w.running, fixture_request(0, 20, 30), &got[0]);
        fixture_submit(&w.running, poisoned_request(turn % 2 == 0 ? 15 : 130), &got[3]);
        fixture_submit(&w.running, fixture_request(1, 21, 30), &got[1]);
        fixture_submit(&w.running, fixture_request(2, 22, 30), &got[2]);
        step_gate_open(&w.gate);
        for (int i = 0; i < 4; i++)
            fixture_finish(&w.running, &got[i]);
        assert_int_equal(got[3].failed, 1);
        assert_int_equal(status_http(got[3].failure.code), 500);
        assert_non_null(strstr(got[3].failure.text, "finite"));
        for (int i = 0; i < 3; i++) {
            assert_int_equal(got[i].failed, 0);
            assert_memory_equal(got[i].of[0].tokens, want[i].of[0].tokens, sizeof want[i].of[0].tokens);
            assert_memory_equal(got[i].of[0].logprobs, want[i].of[0].logprobs, sizeof want[i].of[0].logprobs);
        }
        engine_reset_prefixes(w.running.engine);
    }
    free(want);
    free(got);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_can_never_fit_is_refused_with_the_numbers),
        cmocka_unit_test(beyond_seats_and_queue_a_request_is_refused_and_n_counts_as_n),
        cmocka_unit_test(eight_equal_prompts_at_once_are_computed_once),
        cmocka_unit_test(who_has_the_last_event_finds_the_request_counted),
        cmocka_unit_test(a_prompt_without_output_is_computed_and_ends_by_length),
        cmocka_unit_test(prompt_logprobs_are_those_of_generating_the_same_tokens),
        cmocka_unit_test(an_embedding_is_the_mean_of_the_hidden_rows),
        cmocka_unit_test(prompt_logprobs_and_embeddings_survive_a_preemption),
        cmocka_unit_test(a_logit_that_is_not_finite_fails_its_own_request_only),
    };
    return cmocka_run_group_tests_name("engine results", tests, NULL, NULL);
}
