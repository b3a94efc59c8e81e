/* test_scheduler_life - coming and going: refusals, forks, cancelling in any state. */
#include "tests/server/scheduler_fixture.h"

/* --- refusals -------------------------------------------------------------- */

static void test_what_can_never_fit_is_refused_with_the_numbers(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.n_blocks = 16;
    options.policy = SCHEDULER_PRIORITY;
    start(&f, &options);
    submit(&f, (struct ask){ .n_prompt = 60, .max_new_tokens = 4 });
    refuse(&f, (struct ask){ .n_prompt = 60, .max_new_tokens = 5 }, STATUS_BAD_REQUEST,
           "prompt of 60 tokens + max_tokens 5 needs 17 cache blocks of 4 tokens, there are 16");
    refuse(&f, (struct ask){ .n_prompt = 100, .max_new_tokens = 101 }, STATUS_BAD_REQUEST,
           "prompt of 100 tokens + max_tokens 101 is 201 tokens, the context holds 200");
    refuse(&f, (struct ask){ .n_prompt = 1, .priority = 1001 }, STATUS_BAD_REQUEST,
           "priority is 1001, allowed are -1000 to 1000");
    refuse(&f, (struct ask){ .n_prompt = 1, .n_choices = 17 }, STATUS_BAD_REQUEST,
           "17 choices are more than there are seats (8) and places in the queue (8)");
    struct scheduler_demand demand = { .n_prompt = INT32_MAX, .max_new_tokens = INT32_MAX, .n_choices = 1 };
    assert_int_equal(scheduler_check_fits(f.sched, &demand, NULL), STATUS_BAD_REQUEST);
    stop(&f);
}

static void test_a_full_queue_is_overloaded_and_every_choice_counts(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.max_sequences = 2;
    options.max_queue = 3;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 1, .max_new_tokens = 3, .n_choices = 3 });
    refuse(&f, (struct ask){ .n_prompt = 1, .n_choices = 3 }, STATUS_OVERLOADED,
           "3 sequences run or wait, 3 more do not fit: seats 2, places in the queue 3");
    submit(&f, (struct ask){ .n_prompt = 1, .max_new_tokens = 3 });
    submit(&f, (struct ask){ .n_prompt = 1, .max_new_tokens = 3 });
    refuse(&f, (struct ask){ .n_prompt = 1 }, STATUS_OVERLOADED,
           "5 sequences run or wait, 1 more do not fit: seats 2, places in the queue 3");
    scheduler_cancel(f.sched, a);                           /* gives its three places back */
    submit(&f, (struct ask){ .n_prompt = 1, .n_choices = 3 });
    stop(&f);
}

static void test_waiting_prompts_are_bounded_by_tokens_too(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.max_queue_tokens = 50;
    start(&f, &options);
    struct sequence *large = submit(&f, (struct ask){ .n_prompt = 90, .max_new_tokens = 1 });   /* alone: fits */
    refuse(&f, (struct ask){ .n_prompt = 1 }, STATUS_OVERLOADED,
           "prompts of 90 tokens wait, 1 more pass the limit of 50 tokens in the queue");
    step(&f);
    assert_int_equal(large->state, SEQUENCE_PREFILL);       /* admitted: it no longer waits */
    submit(&f, (struct ask){ .first = 100, .n_prompt = 20 });
    submit(&f, (struct ask){ .first = 100, .n_prompt = 30 });
    assert_int_equal(scheduler_stats(f.sched).n_waiting_tokens, 50);
    refuse(&f, (struct ask){ .n_prompt = 1 }, STATUS_OVERLOADED,
           "prompts of 50 tokens wait, 1 more pass the limit of 50 tokens in the queue");
    stop(&f);
}

static void test_options_out_of_range_are_named(void **state)
{
    (void)state;
    struct scheduler *sched = NULL;
    struct scheduler_options options = roomy;
    struct error err;
    options.max_step_tokens = 7;
    assert_int_equal(scheduler_create(&sched, &options, &err), STATUS_BAD_OPTION);
    assert_string_equal(err.text, "max_step_tokens is 7, allowed are 8 to 2147483647");
    options = roomy;
    options.n_blocks = 0;
    assert_int_equal(scheduler_create(&sched, &options, &err), STATUS_BAD_OPTION);
    assert_null(sched);
}

/* --- forks ----------------------------------------------------------------- */

static struct sequence *fork_of(struct fixture *f, struct sequence *parent, int32_t choice)
{
    struct sequence *child = make(f, (struct ask){
        .n_prompt = parent->n_prompt, .max_new_tokens = parent->max_tokens_total - parent->n_prompt,
        .choice = choice,
    });
    scheduler_fork(f->sched, parent, child);
    return child;
}

static void test_forks_share_the_prompt_and_copy_its_unfinished_block_once_less(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &roomy);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 10, .max_new_tokens = 9, .n_choices = 3 });
    plan(&f);
    commit(&f);
    struct sequence *b = fork_of(&f, a, 1), *c = fork_of(&f, a, 2);
    assert_int_equal(b->state, SEQUENCE_DECODE);
    assert_true(b->awaits_token);
    assert_int_equal(scheduler_stats(f.sched).blocks.n_held, 3);
    block_id shared = block_table_ids(a->blocks)[2];
    push(&f);
    plan(&f);
    assert_int_equal(f.plan.n_decode_rows, 3);
    assert_int_equal(f.plan.n_copies, 2);                   /* the last one writes the original */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f.plan.copies[i].source, shared);
        assert_int_equal(f.plan.copies[i].destination, block_table_ids(f.plan.rows[i].sequence->blocks)[2]);
    }
    assert_int_equal(block_table_ids(c->blocks)[2], shared);
    assert_int_equal(block_table_ids(a->blocks)[1], block_table_ids(c->blocks)[1]);
    assert_int_equal(scheduler_stats(f.sched).blocks.n_held, 5);
    commit(&f);
    push(&f);
    plan(&f);
    assert_int_equal(f.plan.n_copies, 0);
    commit(&f);
    stop(&f);
}

static void test_a_fork_at_a_block_boundary_copies_nothing(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &roomy);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 8, .max_new_tokens = 9, .n_choices = 2 });
    plan(&f);
    commit(&f);
    struct sequence *b = fork_of(&f, a, 1);
    push(&f);
    plan(&f);
    assert_int_equal(f.plan.n_copies, 0);
    assert_int_not_equal(block_table_ids(a->blocks)[2], block_table_ids(b->blocks)[2]);
    commit(&f);
    stop(&f);
}

static void test_a_fork_without_a_seat_waits_behind_its_parent_with_its_first_token(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.max_sequences = 1;
    options.prefix_cache = 1;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 10, .max_new_tokens = 3, .n_choices = 2 });
    struct sequence *later = submit(&f, (struct ask){ .first = 50, .n_prompt = 1, .max_new_tokens = 1 });
    plan(&f);
    commit(&f);
    struct sequence *b = fork_of(&f, a, 1);
    assert_int_equal(b->state, SEQUENCE_WAITING);
    push(&f);
    assert_int_equal(sequence_n_output(b), 1);
    while (a->state != SEQUENCE_FINISHED)
        step(&f);
    step(&f);
    assert_int_equal(planned(&f, b), 3);                    /* 8 of 11 tokens are cached */
    assert_int_equal(b->n_cached_tokens, 0);                /* as its parent's: the client's prompt was not */
    assert_int_equal(later->state, SEQUENCE_WAITING);
    stop(&f);
}

/* --- leaving --------------------------------------------------------------- */

static void test_cancelling_ends_exactly_that_sequence_in_any_state(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.max_sequences = 3;
    options.max_prefill_chunk = 4;
    start(&f, &options);
    struct sequence *stays = submit(&f, (struct ask){ .n_prompt = 2, .max_new_tokens = 6 });
    struct sequence *decodes = submit(&f, (struct ask){ .first = 50, .n_prompt = 2, .max_new_tokens = 6 });
    struct sequence *prefills = submit(&f, (struct ask){ .first = 90, .n_prompt = 40, .max_new_tokens = 6 });
    struct sequence *waits = submit(&f, (struct ask){ .first = 150, .n_prompt = 2, .max_new_tokens = 6 });
    step(&f);
    struct sequence *leaving[] = { decodes, prefills, waits };
    static const enum sequence_state expected[] = { SEQUENCE_DECODE, SEQUENCE_PREFILL, SEQUENCE_WAITING };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(leaving[i]->state, expected[i]);
        scheduler_cancel(f.sched, leaving[i]);
        scheduler_cancel(f.sched, leaving[i]);
        assert_int_equal(leaving[i]->state, SEQUENCE_FINISHED);
        assert_true(leaving[i]->cancelled);
        assert_int_equal(block_table_count(leaving[i]->blocks), 0);
    }
    assert_int_equal(scheduler_stats(f.sched).blocks.n_held, 1);
    step(&f);
    assert_int_equal(f.plan.n_rows, 1);
    while (stays->state != SEQUENCE_FINISHED)
        step(&f);
    assert_false(stays->cancelled);
    assert_int_equal(sequence_n_output(stays), 6);
    stop(&f);
}

static void test_a_cancelled_prefill_leaves_its_finished_prefix(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.prefix_cache = 1;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    step(&f);
    scheduler_cancel(f.sched, a);
    struct sequence *b = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    plan(&f);
    assert_int_equal(b->n_cached_tokens, 16);
    assert_int_equal(f.plan.rows[0].first_position, 16);
    commit(&f);
    stop(&f);
}

static void test_a_row_cancelled_before_commit_publishes_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.prefix_cache = 1;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 12, .max_new_tokens = 1 });
    plan(&f);
    assert_int_equal(scheduler_stats(f.sched).prefix.n_published, 0);
    scheduler_cancel(f.sched, a);
    commit(&f);
    assert_false(a->awaits_token);
    assert_int_equal(a->n_computed, 0);
    assert_int_equal(scheduler_stats(f.sched).prefix.n_published, 0);
    assert_int_equal(scheduler_stats(f.sched).blocks.n_free, 100);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_can_never_fit_is_refused_with_the_numbers),
        cmocka_unit_test(test_a_full_queue_is_overloaded_and_every_choice_counts),
        cmocka_unit_test(test_waiting_prompts_are_bounded_by_tokens_too),
        cmocka_unit_test(test_options_out_of_range_are_named),
        cmocka_unit_test(test_forks_share_the_prompt_and_copy_its_unfinished_block_once_less),
        cmocka_unit_test(test_a_fork_at_a_block_boundary_copies_nothing),
        cmocka_unit_test(test_a_fork_without_a_seat_waits_behind_its_parent_with_its_first_token),
        cmocka_unit_test(test_cancelling_ends_exactly_that_sequence_in_any_state),
        cmocka_unit_test(test_a_cancelled_prefill_leaves_its_finished_prefix),
        cmocka_unit_test(test_a_row_cancelled_before_commit_publishes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
