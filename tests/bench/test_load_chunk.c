/* test_load_chunk - text, tokens, usage, ends and errors are found in every reply shape clients meet. */
#include "bench/load_chunk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct load_chunk parse(const char *data)
{
    struct load_chunk chunk;
    assert_int_equal(load_chunk_parse(&chunk, data, strlen(data), NULL), STATUS_OK);
    return chunk;
}

static void text_is_counted_in_each_shape(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t bytes;
    } rows[] = {
        { "{\"choices\":[{\"text\":\"abc\"}]}", 3 },
        { "{\"choices\":[{\"text\":\"a\\u0000c\"}]}", 3 },
        { "{\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}", 2 },
        { "{\"choices\":[{\"delta\":{\"reasoning_content\":\"abcd\"}}]}", 4 },
        { "{\"choices\":[{\"delta\":{\"reasoning\":\"a\"}}]}", 1 },
        { "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"abcde\"}}]}", 5 },
        { "{\"choices\":[{\"text\":\"a\"},{\"text\":\"bc\"}]}", 3 },
        { "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}", 0 },
        { "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}", 0 },
        { "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}", 0 },
        { "{\"choices\":[],\"usage\":null}", 0 },
        { "{\"choices\":[{\"text\":7}]}", 0 },
        { "{\"choices\":{\"text\":\"abc\"}}", 0 },
        { "{}", 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(parse(rows[i].data).text_bytes, rows[i].bytes);
}

static void usage_is_read_with_its_cached_tokens(void **state)
{
    (void)state;
    struct load_chunk c = parse("{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,"
                                "\"prompt_tokens_details\":{\"cached_tokens\":8}}}");
    assert_true(c.has_usage);
    assert_int_equal(c.prompt_tokens, 9);
    assert_int_equal(c.completion_tokens, 4);
    assert_int_equal(c.cached_tokens, 8);
    c = parse("{\"usage\":{\"prompt_tokens\":-3,\"completion_tokens\":\"x\"}}");
    assert_int_equal(c.prompt_tokens, 0);
    assert_int_equal(c.completion_tokens, 0);
    assert_false(parse("{\"usage\":null}").has_usage);
}

static void finish_reason_null_is_not_an_end(void **state)
{
    (void)state;
    assert_false(parse("{\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}").is_finished);
    assert_true(parse("{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}").is_finished);
}

static void token_ids_are_counted(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"choices\":[{\"text\":\"a\",\"token_ids\":[1,2,3]}]}").n_token_ids, 3);
}

static void errors_in_each_shape(void **state)
{
    (void)state;
    assert_string_equal(parse("{\"error\":{\"message\":\"no room\"}}").error_text, "no room");
    assert_string_equal(parse("{\"error\":\"no room\"}").error_text, "no room");
    assert_string_equal(parse("{\"error\":true,\"message\":\"m\"}").error_text, "m");
    assert_string_equal(parse("{\"error\":{}}").error_text, "no message");
    assert_false(parse("{\"error\":null,\"choices\":[]}").has_error);
    assert_false(parse("{\"error\":false}").has_error);
}

static void done_ends_the_stream(void **state)
{
    (void)state;
    assert_true(parse("[DONE]").is_done);
    assert_true(parse("[DONE] ").is_done);
    assert_false(parse("{}").is_done);
}

static void what_is_not_a_json_object_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",  "[DON",     "null", "[1]",      "\"a\"",
        "{", "{\"a\":}", "{}x",  "\xff\xfe", "{\"choices\":[{\"text\":\"\xff\"}]}"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct load_chunk chunk;
        struct error err = { 0 };
        assert_int_equal(load_chunk_parse(&chunk, rows[i], strlen(rows[i]), &err), STATUS_BAD_REQUEST);
        assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_counted_in_each_shape),
        cmocka_unit_test(usage_is_read_with_its_cached_tokens),
        cmocka_unit_test(finish_reason_null_is_not_an_end),
        cmocka_unit_test(token_ids_are_counted),
        cmocka_unit_test(errors_in_each_shape),
        cmocka_unit_test(done_ends_the_stream),
        cmocka_unit_test(what_is_not_a_json_object_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
