/* test_scheduler_prefix - equal prompts are computed once, also when they come at the same time. */
#include "tests/server/scheduler_fixture.h"

/* --- prefixes -------------------------------------------------------------- */

static void test_a_repeated_prompt_is_computed_from_its_last_block_on(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.prefix_cache = 1;
    start(&f, &options);
    struct ask ask = { .n_prompt = 12, .max_new_tokens = 1 };
    assert_int_equal(submit(&f, ask)->n_cached_tokens, 0);
    step(&f);
    struct sequence *again = submit(&f, ask);
    struct sequence *salted = submit(&f, (struct ask){ .n_prompt = 12, .max_new_tokens = 1, .salt = 1 });
    plan(&f);
    assert_int_equal(planned(&f, again), 4);                /* all 12 are cached, the last has to be computed */
    assert_int_equal(again->n_cached_tokens, 8);
    assert_int_equal(planned(&f, salted), 12);
    assert_int_equal(salted->n_cached_tokens, 0);
    commit(&f);
    struct prefix_cache_stats stats = scheduler_stats(f.sched).prefix;
    assert_int_equal(stats.query_tokens, 36);
    assert_int_equal(stats.hit_tokens, 8);
    stop(&f);
}

static void test_eight_equal_prompts_at_once_compute_their_prefix_once(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.prefix_cache = 1;
    start(&f, &options);
    for (int i = 0; i < 8; i++)
        submit(&f, (struct ask){ .n_prompt = 41, .max_new_tokens = 1 });
    int32_t n_tokens = 0, n_finished = 0;
    for (int i = 0; i < 20; i++) {
        step(&f);
        n_tokens += f.plan.n_tokens;
    }
    for (int i = 0; i < 8; i++) {
        n_finished += f.all[i]->state == SEQUENCE_FINISHED;
        assert_int_equal(f.all[i]->n_cached_tokens, i == 0 ? 0 : 40);
    }
    assert_int_equal(n_finished, 8);
    assert_int_equal(n_tokens, 41 + 7);
    stop(&f);
}

static void test_whoever_waits_for_a_prefix_lets_others_pass(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.prefix_cache = 1;
    options.max_prefill_chunk = 8;
    options.max_step_tokens = 32;
    start(&f, &options);
    struct sequence *leader = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    struct sequence *follower = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    struct sequence *salted = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1, .salt = 1 });
    struct sequence *other = submit(&f, (struct ask){ .first = 90, .n_prompt = 8, .max_new_tokens = 1 });
    plan(&f);
    assert_int_equal(planned(&f, leader), 8);
    assert_int_equal(planned(&f, follower), 0);
    assert_int_equal(planned(&f, salted), 8);               /* the leader's prefix is not for it */
    assert_int_equal(planned(&f, other), 8);
    commit(&f);
    push(&f);
    scheduler_cancel(f.sched, leader);                      /* the follower goes on with what is there */
    plan(&f);
    assert_int_equal(planned(&f, follower), 8);
    assert_int_equal(follower->n_cached_tokens, 8);
    commit(&f);
    stop(&f);
}

static void test_the_wait_for_a_prefix_is_bounded_and_equal_blocks_become_one(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.prefix_cache = 1;
    options.max_prefill_chunk = 4;
    options.max_prefix_wait = 3;
    start(&f, &options);
    struct sequence *leader = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    struct sequence *follower = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    for (int i = 0; i < 3; i++) {
        step(&f);
        assert_int_equal(planned(&f, follower), 0);
    }
    plan(&f);
    assert_int_equal(planned(&f, follower), 4);
    assert_int_equal(follower->n_cached_tokens, 12);
    assert_int_not_equal(block_table_ids(leader->blocks)[3], block_table_ids(follower->blocks)[3]);
    commit(&f);                                             /* both have computed the fourth block */
    assert_memory_equal(block_table_ids(leader->blocks), block_table_ids(follower->blocks), 4 * sizeof(block_id));
    assert_int_equal(scheduler_stats(f.sched).prefix.n_merged, 1);
    assert_int_equal(scheduler_stats(f.sched).blocks.n_held, 4);
    stop(&f);
}

static void test_a_follower_does_not_wait_for_a_paused_leader(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.prefix_cache = 1;
    options.max_prefill_chunk = 8;
    start(&f, &options);
    struct sequence *leader = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    struct sequence *follower = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    step(&f);
    assert_int_equal(planned(&f, follower), 0);
    scheduler_set_paused(leader, 1);
    step(&f);
    assert_int_equal(planned(&f, follower), 8);
    assert_int_equal(follower->n_cached_tokens, 8);
    stop(&f);
}

static void test_a_preempted_sequence_finds_its_own_generated_blocks(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.prefix_cache = 1;
    options.max_sequences = 1;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 4, .max_new_tokens = 30 });
    while (a->n_tokens < 14)
        step(&f);
    scheduler_set_paused(a, 1);
    struct sequence *b = submit(&f, (struct ask){ .first = 90, .n_prompt = 4, .max_new_tokens = 1 });
    step(&f);
    assert_int_equal(b->state, SEQUENCE_FINISHED);
    assert_int_equal(a->n_computed, 0);
    scheduler_set_paused(a, 0);
    plan(&f);
    assert_int_equal(f.plan.rows[0].first_position, 12);    /* 3 of its blocks, 2 of them generated */
    assert_int_equal(planned(&f, a), 2);
    assert_int_equal(a->n_cached_tokens, 0);                /* what the client is told stays as it was */
    commit(&f);
    stop(&f);
}

static void test_reset_forgets_prefixes_also_of_running_sequences(void **state)
{
    (void)state;
    struct fixture f;
    struct scheduler_options options = roomy;
    options.prefix_cache = 1;
    options.max_prefill_chunk = 3;
    start(&f, &options);
    struct sequence *a = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    step(&f);
    scheduler_reset_prefixes(f.sched);
    while (a->state != SEQUENCE_FINISHED)
        step(&f);
    assert_int_equal(scheduler_stats(f.sched).prefix.n_published, 0);
    struct sequence *b = submit(&f, (struct ask){ .n_prompt = 40, .max_new_tokens = 1 });
    plan(&f);
    assert_int_equal(b->n_cached_tokens, 0);
    commit(&f);
    struct sequence *c = submit(&f, (struct ask){ .first = 100, .n_prompt = 40, .max_new_tokens = 1 });
    while (c->n_computed == 0)
        step(&f);
    assert_in_range(c->n_computed, 1, 3);                   /* within its first block */
    scheduler_reset_prefixes(f.sched);
    while (c->state != SEQUENCE_FINISHED)
        step(&f);
    assert_int_equal(scheduler_stats(f.sched).prefix.n_published, 0);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_repeated_prompt_is_computed_from_its_last_block_on),
        cmocka_unit_test(test_eight_equal_prompts_at_once_compute_their_prefix_once),
        cmocka_unit_test(test_whoever_waits_for_a_prefix_lets_others_pass),
        cmocka_unit_test(test_the_wait_for_a_prefix_is_bounded_and_equal_blocks_become_one),
        cmocka_unit_test(test_a_follower_does_not_wait_for_a_paused_leader),
        cmocka_unit_test(test_a_preempted_sequence_finds_its_own_generated_blocks),
        cmocka_unit_test(test_reset_forgets_prefixes_also_of_running_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
