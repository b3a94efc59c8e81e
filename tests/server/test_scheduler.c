/* test_scheduler - who computes what in a step: order, budget, room, pauses. */
#include "tests/server/scheduler_fixture.h"

/* --- budget and order ------------------------------------------------------ */

static void test_decode_rows_come_first_and_prefill_fills_the_budget(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &roomy);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 5, .max_new_tokens = 20 });
    step(&f);
    assert_int_equal(f.plan.n_tokens, 5);
    assert_int_equal(a->state, SEQUENCE_DECODE);
    struct sequence *b = submit(&f, (struct ask){ .first = 50, .n_prompt = 40, .max_new_tokens = 5 });
    static const int32_t chunks[] = { 15, 15, 10 };
    for (int i = 0; i < 3; i++) {
        step(&f);
        assert_int_equal(f.plan.n_decode_rows, 1);
        assert_ptr_equal(f.plan.rows[0].sequence, a);
        assert_int_equal(f.plan.rows[0].first_position, 5 + i);
        assert_true(f.plan.rows[0].wants_logits);
        assert_ptr_equal(f.plan.rows[1].sequence, b);
        assert_int_equal(f.plan.rows[1].first_position, 15 * i);
        assert_int_equal(f.plan.rows[1].n_tokens, chunks[i]);
        assert_int_equal(f.plan.rows[1].wants_logits, i == 2);
    }
    step(&f);
    assert_int_equal(f.plan.n_decode_rows, 2);
    stop(&f);
}

static void test_a_prefill_chunk_limit_leaves_budget_for_the_next(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.max_prefill_chunk = 6;
    start(&f, &options);
    struct sequence *s[3];
    for (int i = 0; i < 3; i++)
        s[i] = submit(&f, (struct ask){ .first = 50 * i, .n_prompt = 20, .max_new_tokens = 1 });
    plan(&f);
    assert_int_equal(planned(&f, s[0]), 6);
    assert_int_equal(planned(&f, s[1]), 6);
    assert_int_equal(planned(&f, s[2]), 4);
    commit(&f);
    stop(&f);
}

static void test_seats_go_in_order_of_arrival(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.max_sequences = 2;
    start(&f, &options);
    struct sequence *s[4];
    for (int i = 0; i < 4; i++)
        s[i] = submit(&f, (struct ask){ .first = 10 * i, .n_prompt = 2, .max_new_tokens = 2 + 2 * (i == 1) });
    step(&f);
    assert_true(planned(&f, s[0]) && planned(&f, s[1]) && !planned(&f, s[2]));
    step(&f);
    assert_int_equal(s[0]->state, SEQUENCE_FINISHED);
    step(&f);
    assert_true(planned(&f, s[1]) && planned(&f, s[2]) && !planned(&f, s[3]));
    stop(&f);
}

static void test_nobody_passes_the_first_that_lacks_room(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.n_blocks = 6;
    start(&f, &options);
    struct sequence *runs = submit(&f, (struct ask){ .n_prompt = 16, .max_new_tokens = 4 });
    step(&f);
    struct sequence *large = submit(&f, (struct ask){ .first = 100, .n_prompt = 15, .max_new_tokens = 1 });
    struct sequence *small = submit(&f, (struct ask){ .first = 200, .n_prompt = 1, .max_new_tokens = 1 });
    for (int i = 0; i < 3; i++) {
        step(&f);
        assert_true(planned(&f, runs) && !planned(&f, large) && !planned(&f, small));
    }
    assert_int_equal(runs->state, SEQUENCE_FINISHED);
    step(&f);
    assert_int_equal(planned(&f, large), 15);
    assert_int_equal(planned(&f, small), 1);
    stop(&f);
}

static void test_a_smaller_priority_goes_first_and_starves_nobody(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.max_sequences = 1;
    options.policy = SCHEDULER_PRIORITY;
    options.priority_places = 3;
    start(&f, &options);
    struct sequence *patient = submit(&f, (struct ask){ .n_prompt = 1, .max_new_tokens = 1 });
    struct sequence *urgent[5];
    int n_before = 0;
    for (int i = 0; i < 5; i++)
        urgent[i] = submit(&f, (struct ask){ .first = 9 * i, .n_prompt = 1, .max_new_tokens = 1, .priority = -1 });
    while (patient->state != SEQUENCE_FINISHED)
        step(&f);
    for (int i = 0; i < 5; i++)
        n_before += urgent[i]->state == SEQUENCE_FINISHED;
    assert_int_equal(n_before, 2);          /* arrivals 2 and 3 have places -1 and 0, arrival 4 has place 1 */
    stop(&f);
}

static void test_priority_does_not_matter_to_first_come_first_served(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.max_sequences = 1;
    start(&f, &options);
    struct sequence *first = submit(&f, (struct ask){ .n_prompt = 1, .max_new_tokens = 1 });
    struct sequence *urgent = submit(&f, (struct ask){ .first = 9, .n_prompt = 1, .max_new_tokens = 1,
                                                       .priority = -1000 });
    step(&f);
    assert_int_equal(first->state, SEQUENCE_FINISHED);
    assert_int_equal(urgent->state, SEQUENCE_WAITING);
    stop(&f);
}

/* --- room ------------------------------------------------------------------ */

static void test_the_youngest_is_preempted_and_comes_back_to_its_place(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.n_blocks = 6;
    options.max_sequences = 2;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 8, .max_new_tokens = 12 });
    struct sequence *b = submit(&f, (struct ask){ .first = 50, .n_prompt = 7, .max_new_tokens = 12 });
    struct sequence *c = submit(&f, (struct ask){ .first = 90, .n_prompt = 1, .max_new_tokens = 1 });
    while (b->state != SEQUENCE_PREEMPTED)
        step(&f);
    assert_int_equal(a->n_preemptions, 0);
    assert_int_equal(block_table_count(b->blocks), 0);
    assert_int_equal(b->n_computed, 0);
    int32_t n_known = b->n_tokens;
    assert_true(n_known > 7);
    step(&f);
    assert_int_equal(b->state, SEQUENCE_WAITING);
    while (a->state != SEQUENCE_FINISHED)
        step(&f);
    assert_int_equal(c->state, SEQUENCE_WAITING);           /* b is before it */
    step(&f);
    assert_int_equal(planned(&f, b), n_known);              /* prompt and output again */
    assert_int_equal(f.plan.rows[0].first_position, 0);
    assert_true(f.plan.rows[0].wants_logits);
    assert_int_equal(scheduler_stats(f.sched).n_preemptions, 1);
    stop(&f);
}

static void test_whoever_is_last_stands_still_instead_of_taking_from_others(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.n_blocks = 4;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 9, .max_new_tokens = 3 });    /* 3 blocks for good */
    step(&f);
    struct sequence *b = submit(&f, (struct ask){ .first = 50, .n_prompt = 4, .max_new_tokens = 4 });
    step(&f);
    assert_int_equal(planned(&f, b), 4);
    step(&f);                                               /* b needs a second block, a finishes */
    assert_int_equal(planned(&f, a), 1);
    assert_int_equal(planned(&f, b), 0);
    assert_int_equal(b->state, SEQUENCE_DECODE);
    assert_int_equal(a->state, SEQUENCE_FINISHED);
    step(&f);
    assert_int_equal(planned(&f, b), 1);
    assert_int_equal(scheduler_stats(f.sched).n_preemptions, 0);
    stop(&f);
}

static void test_admission_leaves_the_blocks_that_running_prompts_still_need(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.n_blocks = 4;
    options.block_size = 16;
    options.max_prefill_chunk = 8;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 48, .max_new_tokens = 1 });   /* 3 of 4 blocks */
    struct sequence *b = submit(&f, (struct ask){ .first = 50, .n_prompt = 3, .max_new_tokens = 9 });
    struct sequence *c = submit(&f, (struct ask){ .first = 90, .n_prompt = 3, .max_new_tokens = 1 });
    step(&f);
    assert_int_equal(planned(&f, a), 8);
    assert_int_equal(planned(&f, b), 3);                    /* the fourth block */
    assert_int_equal(planned(&f, c), 0);
    assert_int_equal(scheduler_stats(f.sched).blocks.n_free, 2);
    while (a->state != SEQUENCE_FINISHED) {
        step(&f);
        assert_true(planned(&f, a) > 0);
        assert_int_equal(planned(&f, c), 0);
    }
    step(&f);
    assert_int_equal(planned(&f, c), 3);
    assert_int_equal(scheduler_stats(f.sched).n_preemptions, 0);
    stop(&f);
}

static void test_unused_prefixes_are_evicted_before_anyone_is_preempted(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.n_blocks = 6;
    options.prefix_cache = 1;
    start(&f, &options);
    submit(&f, (struct ask){ .n_prompt = 16, .max_new_tokens = 1 });
    step(&f);
    assert_int_equal(scheduler_stats(f.sched).blocks.n_idle, 4);
    struct sequence *b = submit(&f, (struct ask){ .first = 50, .n_prompt = 16, .max_new_tokens = 8 });
    while (b->state != SEQUENCE_FINISHED)
        step(&f);
    assert_int_equal(scheduler_stats(f.sched).n_preemptions, 0);
    assert_int_equal(scheduler_stats(f.sched).blocks.n_evicted, 4);
    stop(&f);
}

/* --- pausing --------------------------------------------------------------- */

static void test_a_paused_sequence_takes_no_step_and_keeps_its_place(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &roomy);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 2, .max_new_tokens = 9 });
    struct sequence *b = submit(&f, (struct ask){ .first = 50, .n_prompt = 2, .max_new_tokens = 9 });
    step(&f);
    scheduler_set_paused(a, 1);
    step(&f);
    assert_true(!planned(&f, a) && planned(&f, b));
    assert_int_equal(a->state, SEQUENCE_DECODE);            /* there is room, so it keeps its blocks */
    assert_int_equal(scheduler_stats(f.sched).n_paused, 1);
    scheduler_set_paused(a, 0);
    step(&f);
    assert_ptr_equal(f.plan.rows[0].sequence, a);
    assert_int_equal(f.plan.rows[0].first_position, 2);
    stop(&f);
}

static void test_a_paused_sequence_gives_its_blocks_to_one_that_needs_them(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.n_blocks = 4;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 8, .max_new_tokens = 8 });
    step(&f);
    struct sequence *b = submit(&f, (struct ask){ .first = 50, .n_prompt = 3, .max_new_tokens = 9 });
    scheduler_set_paused(a, 1);
    while (b->state != SEQUENCE_FINISHED)
        step(&f);
    assert_int_equal(a->n_preemptions, 1);                  /* though it came first */
    scheduler_set_paused(a, 0);
    while (a->state != SEQUENCE_FINISHED)
        step(&f);
    assert_int_equal(sequence_n_output(a), 8);
    stop(&f);
}

static void test_paused_sequences_do_not_sit_on_all_seats(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.max_sequences = 2;
    start(&f, &options);
    struct sequence *s[3];
    for (int i = 0; i < 3; i++)
        s[i] = submit(&f, (struct ask){ .first = 50 * i, .n_prompt = 2, .max_new_tokens = 3 });
    step(&f);
    scheduler_set_paused(s[0], 1);
    step(&f);
    assert_false(planned(&f, s[2]));                        /* s[1] runs and will make room */
    scheduler_set_paused(s[1], 1);
    step(&f);
    assert_int_equal(planned(&f, s[2]), 2);
    assert_int_equal(s[1]->n_preemptions, 1);
    assert_int_equal(s[0]->n_preemptions, 0);
    stop(&f);
}

static void test_a_plan_without_rows_says_why(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &roomy);
    step(&f);
    assert_int_equal(f.plan.n_rows, 0);
    assert_int_equal(f.plan.reason, STEP_NO_SEQUENCES);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 2, .max_new_tokens = 3 });
    scheduler_set_paused(a, 1);
    step(&f);
    assert_int_equal(f.plan.n_rows, 0);
    assert_int_equal(f.plan.reason, STEP_ALL_PAUSED);
    scheduler_set_paused(a, 0);
    plan(&f);
    assert_int_equal(f.plan.reason, STEP_HAS_ROWS);
    commit(&f);
    plan(&f);                                               /* nobody has pushed the token */
    assert_int_equal(f.plan.n_rows, 0);
    assert_int_equal(f.plan.reason, STEP_AWAITS_TOKENS);
    commit(&f);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_rows_come_first_and_prefill_fills_the_budget),
        cmocka_unit_test(test_a_prefill_chunk_limit_leaves_budget_for_the_next),
        cmocka_unit_test(test_seats_go_in_order_of_arrival),
        cmocka_unit_test(test_nobody_passes_the_first_that_lacks_room),
        cmocka_unit_test(test_a_smaller_priority_goes_first_and_starves_nobody),
        cmocka_unit_test(test_priority_does_not_matter_to_first_come_first_served),
        cmocka_unit_test(test_the_youngest_is_preempted_and_comes_back_to_its_place),
        cmocka_unit_test(test_whoever_is_last_stands_still_instead_of_taking_from_others),
        cmocka_unit_test(test_admission_leaves_the_blocks_that_running_prompts_still_need),
        cmocka_unit_test(test_unused_prefixes_are_evicted_before_anyone_is_preempted),
        cmocka_unit_test(test_a_paused_sequence_takes_no_step_and_keeps_its_place),
        cmocka_unit_test(test_a_paused_sequence_gives_its_blocks_to_one_that_needs_them),
        cmocka_unit_test(test_paused_sequences_do_not_sit_on_all_seats),
        cmocka_unit_test(test_a_plan_without_rows_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
