/* test_engine - cancelled, paused, drained, stopped and failed requests end as they should and disturb nobody else. */
#include "tests/server/step_gate.h"

enum { BLOCK = 8, SEATS = 3, LONG = 96 };

struct world {
    struct running_model running;
    struct step_gate gate;
};

static struct model_options two_ranks(int n_blocks)
{
    return (struct model_options){
        .n_ranks = 2, .weight_type = MODEL_WEIGHTS_AUTO, .block_size = BLOCK, .n_blocks = n_blocks,
        .max_rows = 64, .max_length = 200,
    };
}

static void open_world(struct world *w, struct model_fault fault)
{
    struct model_options model = two_ranks(100);
    model.fault = fault;
    step_gate_init(&w->gate);
    struct engine_options options = {
        .scheduler = { .max_sequences = SEATS, .max_step_tokens = 64, .max_queue = 8, .max_prefill_chunk = 16,
                       .prefix_cache = 1 },
        .on_step = step_gate_on_step, .step_context = &w->gate, .max_events = 4096,
    };
    engine_fixture_open(&w->running, fixture_model("mlra"), &model, options);
}

static void close_world(struct world *w)
{
    step_gate_open(&w->gate);
    running_model_close(&w->running);
}

static const struct model_fault no_fault = { 0 };

static int same_choice(const struct choice_outcome *a, const struct choice_outcome *b)
{
    return a->n == b->n && memcmp(a->tokens, b->tokens, sizeof a->tokens) == 0
        && memcmp(a->logprobs, b->logprobs, sizeof a->logprobs) == 0
        && a->n_text == b->n_text && memcmp(a->text, b->text, (size_t)a->n_text) == 0;
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->failed, 0);
    assert_int_equal(b->failed, 0);
    assert_true(same_choice(&a->of[0], &b->of[0]));
}

/* ---- cancelling ---- */

/* A is decoding, B is in prefill, C decodes beside them, D waits for a seat. */
struct four {
    struct outcome a, b, c, d;
};

static struct request *request_a(void) { return fixture_request(1, 10, 60); }
static struct request *request_b(void) { return fixture_request(2, LONG, 20); }
static struct request *request_c(void) { return fixture_request(3, 20, 40); }
static struct request *request_d(void) { return fixture_request(4, 12, 15); }

static void run_alone(struct world *w, struct four *want)
{
    fixture_run(&w->running, request_a(), &want->a);
    fixture_run(&w->running, request_b(), &want->b);
    fixture_run(&w->running, request_c(), &want->c);
    fixture_run(&w->running, request_d(), &want->d);
    engine_reset_prefixes(w->running.engine);
}

static void start_four(struct world *w, struct four *f)
{
    memset(f, 0, sizeof *f);
    step_gate_close(&w->gate);
    fixture_submit(&w->running, request_a(), &f->a);
    fixture_submit(&w->running, request_c(), &f->c);
    step_gate_pass(&w->gate, 4);
    fixture_submit(&w->running, request_b(), &f->b);
    fixture_submit(&w->running, request_d(), &f->d);
    step_gate_pass(&w->gate, 4);
    fixture_take_present(&w->running);
    struct engine_state s = fixture_state(&w->running);
    assert_int_equal(s.n_running, 3);
    assert_int_equal(s.n_waiting, 1);
    assert_true(f->a.of[0].n > 0 && f->c.of[0].n > 0);
    assert_int_equal(f->b.of[0].n, 0);
}

/* Cancel one, and let the step that is under way pass: it must be back then. */
static void cancel_in_one_step(struct world *w, struct outcome *o)
{
    int n_before = o->of[0].n;
    fixture_cancel(&w->running, o);
    step_gate_pass(&w->gate, 1);
    fixture_take_present(&w->running);
    assert_int_equal(o->n_last, 1);
    assert_int_equal(o->failed, 0);
    assert_int_equal(o->of[0].n_ends, 1);
    assert_int_equal(o->of[0].finish, FINISH_CANCELLED);
    assert_true(o->of[0].n <= n_before + 1);
}

static void check_cancel(size_t which)
{
    struct world w;
    struct four *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    open_world(&w, no_fault);
    run_alone(&w, want);
    start_four(&w, got);
    struct outcome *outcomes[] = { &got->a, &got->b, &got->c, &got->d };
    const struct outcome *wanted[] = { &want->a, &want->b, &want->c, &want->d };
    cancel_in_one_step(&w, outcomes[which]);
    step_gate_pass(&w.gate, 1);             /* numbers are published at the end of a turn */
    assert_int_equal(fixture_state(&w.running).n_cancelled, 1);
    step_gate_open(&w.gate);
    for (size_t i = 0; i < 4; i++) {
        if (i == which)
            continue;
        fixture_finish(&w.running, outcomes[i]);
        assert_same(outcomes[i], wanted[i]);
    }
    close_world(&w);
    free(want);
    free(got);
}

static void a_cancelled_decode_ends_within_a_step_and_the_others_keep_their_bits(void **state)
{
    (void)state;
    check_cancel(0);
}

static void a_cancelled_prefill_ends_within_a_step_and_the_others_keep_their_bits(void **state)
{
    (void)state;
    check_cancel(1);
}

static void a_cancelled_waiting_request_ends_within_a_step_and_the_others_keep_their_bits(void **state)
{
    (void)state;
    check_cancel(3);
}

static void what_a_cancelled_request_computed_is_found_by_the_next(void **state)
{
    (void)state;
    struct world w;
    struct four *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    open_world(&w, no_fault);
    run_alone(&w, want);
    start_four(&w, got);
    cancel_in_one_step(&w, &got->b);
    step_gate_open(&w.gate);
    struct outcome again;
    fixture_run(&w.running, request_b(), &again);
    assert_true(again.usage.cached_tokens >= BLOCK);
    assert_true(again.usage.cached_tokens < LONG);
    assert_int_equal(again.usage.cached_tokens % BLOCK, 0);
    assert_same(&again, &want->b);
    fixture_finish(&w.running, &got->a);
    fixture_finish(&w.running, &got->c);
    fixture_finish(&w.running, &got->d);
    close_world(&w);
    free(want);
    free(got);
}

static void a_cancelled_request_of_four_choices_gives_all_its_blocks_back(void **state)
{
    (void)state;
    struct world w;
    struct outcome *o = calloc(1, sizeof *o);
    open_world(&w, no_fault);
    step_gate_close(&w.gate);
    struct request *r = fixture_request(5, 30, 100);
    r->n_choices = 4;
    r->sampling.temperature = 1;
    fixture_submit(&w.running, r, o);
    step_gate_pass(&w.gate, 5);
    fixture_cancel(&w.running, o);
    step_gate_pass(&w.gate, 2);
    fixture_take_present(&w.running);
    assert_int_equal(o->n_last, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(o->of[i].n_ends, 1);
    struct engine_state s = fixture_state(&w.running);
    assert_int_equal(s.n_running + s.n_waiting, 0);
    assert_int_equal(s.n_free_blocks + s.n_cached_blocks, s.n_blocks);
    close_world(&w);
    free(o);
}

/* ---- pausing ---- */

static void a_paused_request_takes_no_step_while_others_finish(void **state)
{
    (void)state;
    struct world w;
    struct four *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    open_world(&w, no_fault);
    run_alone(&w, want);
    start_four(&w, got);
    fixture_pause(&w.running, &got->a, 1);
    step_gate_pass(&w.gate, 1);
    fixture_take_present(&w.running);
    int n = got->a.of[0].n;
    step_gate_open(&w.gate);
    fixture_finish(&w.running, &got->b);
    fixture_finish(&w.running, &got->c);
    fixture_finish(&w.running, &got->d);
    assert_int_equal(got->a.of[0].n, n);
    assert_int_equal(got->a.n_last, 0);
    assert_int_equal(fixture_state(&w.running).n_paused, 1);
    assert_same(&got->b, &want->b);
    assert_same(&got->c, &want->c);
    assert_same(&got->d, &want->d);
    fixture_pause(&w.running, &got->a, 0);
    fixture_finish(&w.running, &got->a);
    assert_same(&got->a, &want->a);
    close_world(&w);
    free(want);
    free(got);
}

static void a_paused_request_can_be_cancelled(void **state)
{
    (void)state;
    struct world w;
    struct outcome *o = calloc(1, sizeof *o);
    open_world(&w, no_fault);
    step_gate_close(&w.gate);
    fixture_submit(&w.running, request_a(), o);
    step_gate_pass(&w.gate, 3);
    fixture_pause(&w.running, o, 1);
    step_gate_pass(&w.gate, 2);
    step_gate_open(&w.gate);
    fixture_cancel(&w.running, o);
    fixture_finish(&w.running, o);
    assert_int_equal(o->of[0].finish, FINISH_CANCELLED);
    close_world(&w);
    free(o);
}

/* ---- the end ---- */

static void a_draining_engine_refuses_and_finishes_what_it_has(void **state)
{
    (void)state;
    struct world w;
    struct outcome *o = calloc(1, sizeof *o);
    struct error err;
    open_world(&w, no_fault);
    fixture_submit(&w.running, request_a(), o);
    engine_drain(w.running.engine);
    struct request *late = request_d();
    assert_int_equal(engine_submit(w.running.engine, late, &err), STATUS_BUSY);
    request_destroy(late);
    fixture_finish(&w.running, o);
    assert_int_equal(o->failed, 0);
    assert_int_equal(o->of[0].n, 60);
    close_world(&w);
    free(o);
}

static void a_stopped_engine_fails_everything_it_has_once_with_the_reason(void **state)
{
    (void)state;
    struct world w;
    struct four *got = malloc(sizeof *got);
    open_world(&w, no_fault);
    start_four(&w, got);
    engine_stop(w.running.engine, "the test pulls the plug");
    step_gate_open(&w.gate);
    struct outcome *outcomes[] = { &got->a, &got->b, &got->c, &got->d };
    for (size_t i = 0; i < 4; i++) {
        fixture_finish(&w.running, outcomes[i]);
        assert_int_equal(outcomes[i]->failed, 1);
        assert_int_equal(outcomes[i]->failure.code, STATUS_BUSY);
        assert_string_equal(outcomes[i]->failure.text, "the test pulls the plug");
    }
    close_world(&w);
    free(got);
}

static void check_dead_rank(int rank)
{
    struct world w;
    struct four *got = malloc(sizeof *got);
    struct error err;
    open_world(&w, (struct model_fault){ .kind = MODEL_FAULT_DIE, .rank = rank, .step = 12 });
    start_four(&w, got);
    step_gate_open(&w.gate);
    struct outcome *outcomes[] = { &got->a, &got->b, &got->c, &got->d };
    for (size_t i = 0; i < 4; i++) {
        fixture_finish(&w.running, outcomes[i]);
        assert_int_equal(outcomes[i]->failed, 1);
        assert_int_equal(outcomes[i]->failure.code, STATUS_INTERNAL);
        assert_non_null(strstr(outcomes[i]->failure.text, "device"));
    }
    assert_true(engine_join(w.running.engine, (int64_t)10 * 1000000000));
    assert_int_equal(fixture_state(&w.running).failed, 1);
    struct request *late = request_d();
    assert_int_equal(engine_submit(w.running.engine, late, &err), STATUS_BUSY);
    request_destroy(late);
    close_world(&w);
    free(got);
}

static void a_rank_that_dies_fails_every_request_and_the_engine_says_so(void **state)
{
    (void)state;
    check_dead_rank(0);
    check_dead_rank(1);
}

static void an_engine_that_waits_for_room_in_the_queue_of_events_can_be_joined_by_taking_them(void **state)
{
    (void)state;
    struct running_model m;
    struct model_options model = two_ranks(100);
    struct engine_options options = {
        .scheduler = { .max_sequences = SEATS, .max_step_tokens = 64, .max_queue = 8 }, .max_events = 4,
    };
    struct outcome *o = calloc(1, sizeof *o);
    engine_fixture_open(&m, fixture_model("mlra"), &model, options);
    fixture_submit(&m, request_a(), o);
    while (fixture_state(&m).output_tokens < 4)
        usleep(1000);
    engine_stop(m.engine, "the test is over");
    int n_tries = 0;
    while (!engine_join(m.engine, 20000000)) {
        assert_true(n_tries++ < 500);
        fixture_take_present(&m);
    }
    fixture_take_present(&m);
    assert_int_equal(o->n_last, 1);
    running_model_close(&m);
    free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancelled_decode_ends_within_a_step_and_the_others_keep_their_bits),
        cmocka_unit_test(a_cancelled_prefill_ends_within_a_step_and_the_others_keep_their_bits),
        cmocka_unit_test(a_cancelled_waiting_request_ends_within_a_step_and_the_others_keep_their_bits),
        cmocka_unit_test(what_a_cancelled_request_computed_is_found_by_the_next),
        cmocka_unit_test(a_cancelled_request_of_four_choices_gives_all_its_blocks_back),
        cmocka_unit_test(a_paused_request_takes_no_step_while_others_finish),
        cmocka_unit_test(a_paused_request_can_be_cancelled),
        cmocka_unit_test(a_draining_engine_refuses_and_finishes_what_it_has),
        cmocka_unit_test(a_stopped_engine_fails_everything_it_has_once_with_the_reason),
        cmocka_unit_test(a_rank_that_dies_fails_every_request_and_the_engine_says_so),
        cmocka_unit_test(an_engine_that_waits_for_room_in_the_queue_of_events_can_be_joined_by_taking_them),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
