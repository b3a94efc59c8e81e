/* test_sequence - one timeline of tokens: what may follow what, and how much room is left. */
#include "server/sequence.h"
#include "server/sequence_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct sequence *new_sequence(int32_t n_prompt, int32_t max_new_tokens)
{
    int32_t prompt[8] = { 10, 11, 12, 13, 14, 15, 16, 17 };
    struct sequence *seq = NULL;
    struct sequence_options options = {
        .id = 5, .prompt = prompt, .n_prompt = n_prompt, .max_new_tokens = max_new_tokens, .n_choices = 1,
        .block_size = 4,
    };
    assert_int_equal(sequence_create(&seq, &options, NULL), STATUS_OK);
    return seq;
}

static void test_exactly_the_moves_of_the_picture_are_legal(void **state)
{
    (void)state;
    static const char *const legal[] = {
        "WAITING PREFILL", "WAITING DECODE", "WAITING FINISHED", "PREFILL DECODE", "PREFILL PREEMPTED",
        "PREFILL FINISHED", "DECODE PREEMPTED", "DECODE FINISHED", "PREEMPTED WAITING", "PREEMPTED FINISHED",
    };
    size_t n_legal = 0;
    for (int from = 0; from < SEQUENCE_N_STATES; from++) {
        for (int to = 0; to < SEQUENCE_N_STATES; to++) {
            char move[64];
            snprintf(move, sizeof move, "%s %s", sequence_state_name((enum sequence_state)from),
                     sequence_state_name((enum sequence_state)to));
            int expected = 0;
            for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++)
                expected |= strcmp(legal[i], move) == 0;
            n_legal += (size_t)expected;
            assert_int_equal(sequence_may_move((enum sequence_state)from, (enum sequence_state)to), expected);
        }
    }
    assert_int_equal(n_legal, sizeof legal / sizeof legal[0]);
}

static void test_tokens_are_appended_until_there_is_no_room(void **state)
{
    (void)state;
    struct sequence *seq = new_sequence(3, 2);
    assert_int_equal(seq->state, SEQUENCE_WAITING);
    assert_int_equal(block_table_capacity(seq->blocks), 2);
    assert_int_equal(sequence_room(seq), 2);
    sequence_append(seq, 77);
    sequence_append(seq, 78);
    assert_int_equal(sequence_room(seq), 0);
    assert_int_equal(sequence_n_output(seq), 2);
    static const int32_t expected[] = { 10, 11, 12, 77, 78 };
    assert_memory_equal(seq->tokens, expected, sizeof expected);
    sequence_destroy(seq);
}

static void test_prompts_that_cannot_be_held_are_refused(void **state)
{
    (void)state;
    int32_t token = 1;
    struct sequence *seq = NULL;
    struct error err;
    struct sequence_options options = { .prompt = &token, .n_prompt = 0, .n_choices = 1, .block_size = 4 };
    assert_int_equal(sequence_create(&seq, &options, &err), STATUS_BAD_REQUEST);
    assert_string_equal(err.text, "the prompt has no tokens");
    options.n_prompt = 1;
    options.max_new_tokens = INT32_MAX;
    assert_int_equal(sequence_create(&seq, &options, &err), STATUS_BAD_REQUEST);
    assert_null(seq);
}

static void set_place(struct sequence *seq, uint64_t arrival, int32_t priority, int32_t choice)
{
    seq->arrival = arrival;
    seq->priority = priority;
    seq->choice = choice;
}

static void test_a_list_is_in_order_of_place_then_arrival_then_choice(void **state)
{
    (void)state;
    struct sequence *s[5];
    for (int i = 0; i < 5; i++)
        s[i] = new_sequence(1, 1);
    set_place(s[0], 1, 1, 0);       /* places 11, 2, 2, -7, 11 with ten places a priority */
    set_place(s[1], 2, 0, 1);
    set_place(s[2], 2, 0, 0);
    set_place(s[3], 3, -1, 0);
    set_place(s[4], 11, 0, 0);
    static const int expected[2][5] = { { 0, 2, 1, 3, 4 }, { 3, 2, 1, 0, 4 } };
    for (int with_priority = 0; with_priority < 2; with_priority++) {
        struct sequence_list list;
        assert_int_equal(sequence_list_init(&list, 5, with_priority ? 10 : 0, NULL), STATUS_OK);
        for (int i = 4; i >= 0; i--)
            sequence_list_insert(&list, s[i]);
        for (int i = 0; i < 5; i++) {
            assert_ptr_equal(list.items[i], s[expected[with_priority][i]]);
            assert_int_equal(sequence_list_find(&list, list.items[i]), i);
        }
        sequence_list_remove(&list, s[2]);
        assert_int_equal(list.n_items, 4);
        assert_ptr_equal(list.items[1], s[1]);
        sequence_list_clear(&list);
    }
    for (int i = 0; i < 5; i++)
        sequence_destroy(s[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exactly_the_moves_of_the_picture_are_legal),
        cmocka_unit_test(test_tokens_are_appended_until_there_is_no_room),
        cmocka_unit_test(test_prompts_that_cannot_be_held_are_refused),
        cmocka_unit_test(test_a_list_is_in_order_of_place_then_arrival_then_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
