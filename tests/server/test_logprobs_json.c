/* test_logprobs_json - log-probabilities in the two shapes: parts of characters, equal texts, offsets. */
#include "server/logprobs_json.h"
#include "tests/server/bytewise_tokenizer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct tokenizer *tokenizer;

static struct logprobs_entry entry(int32_t token, float logprob)
{
    return (struct logprobs_entry){ .token = token, .has_value = 1, .logprob = logprob };
}

static void add(struct logprobs_json *l, struct logprobs_entry e)
{
    assert_int_equal(logprobs_json_add(l, &e), STATUS_OK);
}

static void assert_flushed(struct logprobs_json *l, const char *expected)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    assert_int_equal(logprobs_json_flush(l, &out), STATUS_OK);
    assert_string_equal(out.data, expected);
    buf_clear(&out);
}

static void the_legacy_shape_has_four_parallel_arrays(void **state)
{
    (void)state;
    struct logprobs_json l;
    struct token_logprob top[] = { { 'x', -0.5f }, { 'a', -1 } };
    logprobs_json_init(&l, LOGPROBS_LEGACY, tokenizer, 1);
    add(&l, (struct logprobs_entry){ .token = 'p' });
    add(&l, (struct logprobs_entry){ .token = 'a', .has_value = 1, .logprob = -1, .top = top, .n_top = 2 });
    add(&l, (struct logprobs_entry){ .token = 'q', .has_value = 1, .logprob = -3, .top = top, .n_top = 1 });
    assert_flushed(&l,
                   "{\"tokens\":[\"p\",\"a\",\"q\"],\"token_logprobs\":[null,-1,-3],\"top_logprobs\":[null,"
                   "{\"x\":-0.5,\"a\":-1},{\"x\":-0.5,\"q\":-3}],\"text_offset\":[0,1,2]}");
    add(&l, entry('z', -2));                        /* offsets go on from chunk to chunk */
    assert_flushed(&l, "{\"tokens\":[\"z\"],\"token_logprobs\":[-2],\"top_logprobs\":[{\"z\":-2}],"
                       "\"text_offset\":[3]}");
    logprobs_json_clear(&l);
}

static void the_chat_shape_has_bytes(void **state)
{
    (void)state;
    struct logprobs_json l;
    struct token_logprob top[] = { { '"', -0.5f }, { 0xc3, -1 } };
    logprobs_json_init(&l, LOGPROBS_CHAT, tokenizer, 1);
    add(&l,
        (struct logprobs_entry){ .token = '"', .has_value = 1, .logprob = -0.5f, .top = top, .n_top = 2 });
    assert_flushed(&l, "{\"content\":[{\"token\":\"\\\"\",\"logprob\":-0.5,\"bytes\":[34],\"top_logprobs\":["
                       "{\"token\":\"\\\"\",\"logprob\":-0.5,\"bytes\":[34]},"
                       "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-1,\"bytes\":[195]}]}],\"refusal\":null}");
    assert_flushed(&l, "{\"content\":[],\"refusal\":null}");
    logprobs_json_clear(&l);
}

static void parts_of_a_character_are_written_as_bytes_and_count_once(void **state)
{
    (void)state;
    struct logprobs_json l;
    logprobs_json_init(&l, LOGPROBS_LEGACY, tokenizer, 1);
    static const int32_t tokens[] = { 'a', 0xe6, 0xad, 0xa6, 'b' };
    for (int i = 0; i < 5; i++)
        add(&l, entry(tokens[i], -1));
    assert_flushed(
        &l, "{\"tokens\":[\"a\",\"bytes:\\\\xe6\",\"bytes:\\\\xad\",\"bytes:\\\\xa6\",\"b\"],"
            "\"token_logprobs\":[-1,-1,-1,-1,-1],\"top_logprobs\":[{\"a\":-1},{\"bytes:\\\\xe6\":-1},"
            "{\"bytes:\\\\xad\":-1},{\"bytes:\\\\xa6\":-1},{\"b\":-1}],\"text_offset\":[0,1,2,2,2]}");
    logprobs_json_clear(&l);
}

static void special_tokens_move_the_offset_only_if_they_are_shown(void **state)
{
    (void)state;
    for (int skip = 0; skip < 2; skip++) {
        struct logprobs_json l;
        logprobs_json_init(&l, LOGPROBS_LEGACY, tokenizer, skip);
        add(&l, entry(BYTE_SEP, -1));
        add(&l, entry('a', -1));
        assert_int_equal(l.offset, skip ? 1 : 8);   /* "<|sep|>" has 7 characters */
        logprobs_json_clear(&l);
    }
}

static void a_text_is_a_key_once_and_the_likelier_token_has_it(void **state)
{
    (void)state;
    struct logprobs_json l;
    struct token_logprob top[] = { { 'a', -0.5f }, { 'a', -1 }, { 'b', -2 } };
    logprobs_json_init(&l, LOGPROBS_LEGACY, tokenizer, 1);
    add(&l,
        (struct logprobs_entry){ .token = 'a', .has_value = 1, .logprob = -0.5f, .top = top, .n_top = 3 });
    assert_flushed(&l,
                   "{\"tokens\":[\"a\"],\"token_logprobs\":[-0.5],\"top_logprobs\":[{\"a\":-0.5,\"b\":-2}],"
                   "\"text_offset\":[0]}");
    logprobs_json_clear(&l);
}

static void no_probability_is_a_number(void **state)
{
    (void)state;
    struct logprobs_json l;
    logprobs_json_init(&l, LOGPROBS_LEGACY, tokenizer, 1);
    add(&l, entry('a', -INFINITY));
    add(&l, entry('b', LOGPROB_FLOOR));
    assert_flushed(&l, "{\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[-9999.0,-9999],\"top_logprobs\":"
                       "[{\"a\":-9999.0},{\"b\":-9999}],\"text_offset\":[0,1]}");
    logprobs_json_clear(&l);
}

static void appended_entries_keep_their_order_and_offsets(void **state)
{
    (void)state;
    struct logprobs_json prompt, choice;
    logprobs_json_init(&prompt, LOGPROBS_LEGACY, tokenizer, 1);
    logprobs_json_init(&choice, LOGPROBS_LEGACY, tokenizer, 1);
    add(&prompt, (struct logprobs_entry){ .token = 'a' });
    add(&prompt, entry('b', -1));
    assert_int_equal(logprobs_json_append(&choice, &prompt), STATUS_OK);
    add(&choice, entry('c', -2));
    assert_flushed(&choice,
                   "{\"tokens\":[\"a\",\"b\",\"c\"],\"token_logprobs\":[null,-1,-2],\"top_logprobs\":"
                   "[null,{\"b\":-1},{\"c\":-2}],\"text_offset\":[0,1,2]}");
    logprobs_json_clear(&prompt);
    logprobs_json_clear(&choice);
}

static int start(void **state)
{
    (void)state;
    tokenizer = bytewise_tokenizer_create();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    tokenizer_destroy(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_legacy_shape_has_four_parallel_arrays),
        cmocka_unit_test(the_chat_shape_has_bytes),
        cmocka_unit_test(parts_of_a_character_are_written_as_bytes_and_count_once),
        cmocka_unit_test(special_tokens_move_the_offset_only_if_they_are_shown),
        cmocka_unit_test(a_text_is_a_key_once_and_the_likelier_token_has_it),
        cmocka_unit_test(no_probability_is_a_number),
        cmocka_unit_test(appended_entries_keep_their_order_and_offsets),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
