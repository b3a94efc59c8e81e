/* test_load_dataset - prompts have the asked length, repeat by seed, and share what they should. */
#include "base/file.h"
#include "bench/load_dataset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t some_ids[] = { 11, 12, 13, 14, 15, 16, 17, 18 };

static const struct load_vocabulary with_ids = {
    .ids = some_ids, .n_ids = 8, .tokens_per_word = 2, .bytes_per_token = 2,
};
static const struct load_vocabulary without_ids = { .tokens_per_word = 1, .bytes_per_token = 4 };

static struct load_dataset_options defaults(enum load_dataset_kind kind,
                                            const struct load_vocabulary *vocabulary)
{
    return (struct load_dataset_options){
        .kind = kind, .vocabulary = vocabulary, .input_tokens = 40, .output_tokens = 20, .n_prefixes = 3,
        .prefix_tokens = 16, .trace_block_tokens = 8, .max_row_tokens = 1000,
    };
}

static struct load_dataset *create(const struct load_dataset_options *options)
{
    struct load_dataset *d = NULL;
    assert_int_equal(load_dataset_create(&d, options, NULL), STATUS_OK);
    return d;
}

/* The object {FIELD} of prompt index; the caller drops it. */
static json_t *prompt(const struct load_dataset *d, uint64_t seed, size_t index, struct load_lengths *lengths)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    assert_int_equal(buf_add_text(&text, "{"), STATUS_OK);
    *lengths = (struct load_lengths){ 0 };
    assert_int_equal(load_dataset_write(d, seed, index, &text, lengths), STATUS_OK);
    assert_int_equal(buf_add_text(&text, "}"), STATUS_OK);
    json_t *object = json_loadb(text.data, text.len, 0, NULL);
    assert_non_null(object);
    buf_clear(&text);
    return object;
}

static size_t n_words(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == ' ';
    return n;
}

static const char *write_file(const char *text)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/test_load_dataset.%ld", (long)getpid());
    assert_int_equal(file_replace(path, text, strlen(text), NULL), STATUS_OK);
    return path;
}

static void random_ids_have_exactly_the_asked_length(void **state)
{
    (void)state;
    struct load_dataset_options o = defaults(LOAD_RANDOM, &with_ids);
    o.range = 0.5;
    struct load_dataset *d = create(&o);
    assert_true(load_dataset_uses_ids(d));
    size_t shortest = 1000, longest = 0;
    for (size_t i = 0; i < 500; i++) {
        struct load_lengths lengths;
        json_t *object = prompt(d, 1, i, &lengths);
        json_t *ids = json_object_get(object, "prompt");
        size_t n = json_array_size(ids);
        assert_int_equal(n, lengths.input_tokens);
        assert_true(n >= 20 && n <= 60 && lengths.output_tokens >= 10 && lengths.output_tokens <= 30);
        for (size_t k = 0; k < n; k++) {
            json_int_t id = json_integer_value(json_array_get(ids, k));
            assert_true(id >= 11 && id <= 18);
        }
        shortest = n < shortest ? n : shortest;
        longest = n > longest ? n : longest;
        json_decref(object);
    }
    assert_true(shortest == 20 && longest == 60);       /* both ends are reached in 500 draws */
    load_dataset_destroy(d);
}

static void words_stand_in_where_there_are_no_ids(void **state)
{
    (void)state;
    const struct {
        const struct load_vocabulary *vocabulary;
        enum load_endpoint endpoint;
        int use_words;
        size_t words;
    } rows[] = {
        { &without_ids, LOAD_COMPLETIONS, 0, 40 },
        { &without_ids, LOAD_CHAT, 0, 40 },
        { &with_ids, LOAD_CHAT, 0, 20 },        /* two tokens a word */
        { &with_ids, LOAD_COMPLETIONS, 1, 20 },
    };
    for (size_t i = 0; i < 4; i++) {
        struct load_dataset_options o = defaults(LOAD_RANDOM, rows[i].vocabulary);
        o.endpoint = rows[i].endpoint;
        o.use_words = rows[i].use_words;
        struct load_dataset *d = create(&o);
        struct load_lengths lengths;
        json_t *object = prompt(d, 1, 0, &lengths);
        json_t *message = json_array_get(json_object_get(object, "messages"), 0);
        const char *text = json_string_value(rows[i].endpoint == LOAD_CHAT
                                                 ? json_object_get(message, "content")
                                                 : json_object_get(object, "prompt"));
        assert_int_equal(n_words(text), rows[i].words);
        if (rows[i].endpoint == LOAD_CHAT)
            assert_string_equal(json_string_value(json_object_get(message, "role")), "user");
        json_decref(object);
        load_dataset_destroy(d);
    }
}

static void a_seed_repeats_and_another_differs(void **state)
{
    (void)state;
    struct load_dataset_options o = defaults(LOAD_RANDOM, &with_ids);
    struct load_dataset *d = create(&o);
    struct load_lengths l;
    json_t *a = prompt(d, 1, 5, &l), *b = prompt(d, 1, 5, &l), *c = prompt(d, 1, 6, &l),
           *e = prompt(d, 2, 5, &l);
    assert_true(json_equal(a, b));
    assert_false(json_equal(a, c));
    assert_false(json_equal(a, e));
    json_decref(a), json_decref(b), json_decref(c), json_decref(e);
    load_dataset_destroy(d);
}

static void shared_prefixes_are_few_and_what_follows_differs(void **state)
{
    (void)state;
    struct load_dataset_options o = defaults(LOAD_SHARED_PREFIX, &with_ids);
    struct load_dataset *d = create(&o);
    char seen[8][200];
    int n_seen = 0, counts[8] = { 0 };
    for (size_t i = 0; i < 300; i++) {
        struct load_lengths l;
        json_t *object = prompt(d, 1, i, &l);
        json_t *ids = json_object_get(object, "prompt");
        assert_int_equal(json_array_size(ids), 56);
        assert_int_equal(l.input_tokens, 56);
        char head[200] = "";
        for (size_t k = 0; k < 16; k++)
            snprintf(head + strlen(head), sizeof head - strlen(head), "%lld,",
                     (long long)json_integer_value(json_array_get(ids, k)));
        int at = 0;
        while (at < n_seen && strcmp(seen[at], head) != 0)
            at++;
        assert_true(at < 8);
        if (at == n_seen)
            strcpy(seen[n_seen++], head);
        counts[at]++;
        json_decref(object);
    }
    assert_int_equal(n_seen, 3);
    for (int i = 0; i < 3; i++)
        assert_true(counts[i] > 60 && counts[i] < 140);
    load_dataset_destroy(d);
}

static void jsonl_rows_of_every_form(void **state)
{
    (void)state;
    const char *path = write_file("{\"prompt\":\"say \\\"hi\\\"\\n\",\"max_tokens\":7}\n"
                                  "\n"
                                  "{\"prompt\":[1,2,3]}\r\n"
                                  "{\"text\":\"t\",\"output_tokens\":9,\"unknown\":{}}\n"
                                  "{\"input_length\":30,\"output_length\":5}");
    struct load_dataset_options o = defaults(LOAD_JSONL, &with_ids);
    o.path = path;
    o.output_tokens = 0;
    struct load_dataset *d = create(&o);
    const int64_t outputs[] = { 7, 128, 9, 5 };
    assert_int_equal(load_dataset_rows(d)->n, 4);
    assert_false(load_dataset_rows(d)->have_timestamps);
    for (size_t i = 0; i < 8; i++) {            /* over again after the last */
        struct load_lengths l;
        json_t *object = prompt(d, 1, i, &l);
        json_t *value = json_object_get(object, "prompt");
        assert_int_equal(l.output_tokens, outputs[i % 4]);
        if (i % 4 == 0)
            assert_string_equal(json_string_value(value), "say \"hi\"\n");
        if (i % 4 == 1)
            assert_int_equal(json_array_size(value), 3);
        if (i % 4 == 3)
            assert_int_equal(json_array_size(value), 30);
        json_decref(object);
    }
    load_dataset_destroy(d);
    unlink(path);
}

static void messages_go_to_chat_only_and_ids_to_completions_only(void **state)
{
    (void)state;
    const struct {
        const char *row;
        enum load_endpoint endpoint;
        enum status status;
    } rows[] = {
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", LOAD_CHAT, STATUS_OK },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", LOAD_COMPLETIONS, STATUS_BAD_REQUEST },
        { "{\"prompt\":[1]}", LOAD_CHAT, STATUS_BAD_REQUEST },
        { "{\"prompt\":\"x\"}", LOAD_CHAT, STATUS_OK },
    };
    for (size_t i = 0; i < 4; i++) {
        struct load_dataset_options o = defaults(LOAD_JSONL, &without_ids);
        o.path = write_file(rows[i].row);
        o.endpoint = rows[i].endpoint;
        struct load_dataset *d = NULL;
        assert_int_equal(load_dataset_create(&d, &o, NULL), rows[i].status);
        if (d != NULL) {
            struct load_lengths l;
            json_t *object = prompt(d, 1, 0, &l);
            json_t *message = json_array_get(json_object_get(object, "messages"), 0);
            assert_string_equal(json_string_value(json_object_get(message, "content")), "x");
            json_decref(object);
        }
        load_dataset_destroy(d);
        unlink(o.path);
    }
}

static void a_trace_is_sorted_and_equal_hash_ids_share_blocks(void **state)
{
    (void)state;
    struct load_dataset_options o = defaults(LOAD_JSONL, &with_ids);
    o.path = write_file("{\"timestamp\":300,\"input_length\":20,\"output_length\":3,\"hash_ids\":[7,8,9]}\n"
                        "{\"timestamp\":100,\"input_length\":18,\"output_length\":2,\"hash_ids\":[7,8,10]}\n"
                        "{\"timestamp\":200,\"input_length\":12,\"output_length\":1,\"hash_ids\":[7]}\n");
    struct load_dataset *d = create(&o);
    const struct load_rows *rows = load_dataset_rows(d);
    assert_true(rows->have_timestamps);
    assert_true(rows->at[0].timestamp_ms == 100 && rows->at[1].timestamp_ms == 200
                && rows->at[2].timestamp_ms == 300);
    struct load_lengths l;
    json_t *objects[3];
    for (size_t i = 0; i < 3; i++) {
        objects[i] = prompt(d, 1, i, &l);
        assert_int_equal(json_array_size(json_object_get(objects[i], "prompt")), rows->at[i].input_tokens);
    }
    json_t *a = json_object_get(objects[0], "prompt"), *b = json_object_get(objects[1], "prompt"),
           *c = json_object_get(objects[2], "prompt");
    for (size_t k = 0; k < 16; k++)             /* blocks 7 and 8 of 8 tokens */
        assert_true(json_equal(json_array_get(a, k), json_array_get(c, k)));
    int n_same = 0;
    for (size_t k = 16; k < 18; k++)
        n_same += json_equal(json_array_get(a, k), json_array_get(c, k));
    for (size_t k = 8; k < 12; k++)
        n_same += json_equal(json_array_get(a, k), json_array_get(b, k));
    for (size_t k = 0; k < 8; k++)
        assert_true(json_equal(json_array_get(a, k), json_array_get(b, k)));
    assert_true(n_same < 6);
    for (size_t i = 0; i < 3; i++)
        json_decref(objects[i]);
    load_dataset_destroy(d);
    unlink(o.path);
}

static void sharegpt_takes_the_first_question_and_the_answers_length(void **state)
{
    (void)state;
    struct load_dataset_options o = defaults(LOAD_SHAREGPT, &without_ids);
    o.output_tokens = 0;
    o.max_row_tokens = 15;
    o.path = write_file(
        "[{\"conversations\":[{\"from\":\"human\",\"value\":\"12345678\"},"
        "{\"from\":\"gpt\",\"value\":\"123456789012\"},{\"value\":\"more\"}]},"
        "{\"conversations\":[{\"value\":\"alone\"}]},"
        "{\"conversations\":[{\"value\":\"\"},{\"value\":\"x\"}]},"
        "{\"nothing\":1}, 7,"
        "{\"conversations\":[{\"value\":\"q\"},{\"value\":\"a very long answer that is past the limit of "
        "fifteen tokens, at four bytes each\"}]}]");
    struct load_dataset *d = create(&o);
    assert_int_equal(load_dataset_rows(d)->n, 1);
    struct load_lengths l;
    json_t *object = prompt(d, 1, 0, &l);
    assert_string_equal(json_string_value(json_object_get(object, "prompt")), "12345678");
    assert_int_equal(l.input_tokens, 2);
    assert_int_equal(l.output_tokens, 3);
    json_decref(object);
    load_dataset_destroy(d);
    unlink(o.path);
}

static void bad_files_are_refused_with_their_line(void **state)
{
    (void)state;
    const struct {
        enum load_dataset_kind kind;
        const char *text, *says;
    } rows[] = {
        { LOAD_JSONL, "{\"prompt\":\"x\"}\n{\"prompt\":\n", "line 2" },
        { LOAD_JSONL, "[1]\n", "line 1" },
        { LOAD_JSONL, "\n\n{\"prompt\":7}\n", "line 3" },
        { LOAD_JSONL, "{\"messages\":\"x\"}\n", "line 1" },
        { LOAD_JSONL, "{\"max_tokens\":4}\n", "neither" },
        { LOAD_JSONL, "{\"prompt\":\"x\",\"max_tokens\":-4}\n", "max_tokens" },
        { LOAD_JSONL, "{\"prompt\":\"x\",\"max_tokens\":\"4\"}\n", "max_tokens" },
        { LOAD_JSONL, "{\"input_length\":1.5}\n", "input_length" },
        { LOAD_JSONL, "{\"prompt\":\"x\",\"timestamp\":\"now\"}\n", "timestamp" },
        { LOAD_JSONL, "", "no row" },
        { LOAD_SHAREGPT, "{}", "array" },
        { LOAD_SHAREGPT, "[]", "no conversation" },
        { LOAD_SHAREGPT, "[", "JSON" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct load_dataset_options o = defaults(rows[i].kind, &with_ids);
        o.path = write_file(rows[i].text);
        struct load_dataset *d = NULL;
        struct error err = { 0 };
        assert_int_equal(load_dataset_create(&d, &o, &err), STATUS_BAD_REQUEST);
        if (strstr(err.text, rows[i].says) == NULL)
            fail_msg("row %zu says: %s", i, err.text);
        assert_null(d);
        unlink(o.path);
    }
    struct load_dataset_options o = defaults(LOAD_JSONL, &with_ids);
    o.path = "/no/such/file";
    struct load_dataset *d = NULL;
    assert_int_equal(load_dataset_create(&d, &o, NULL), STATUS_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ids_have_exactly_the_asked_length),
        cmocka_unit_test(words_stand_in_where_there_are_no_ids),
        cmocka_unit_test(a_seed_repeats_and_another_differs),
        cmocka_unit_test(shared_prefixes_are_few_and_what_follows_differs),
        cmocka_unit_test(jsonl_rows_of_every_form),
        cmocka_unit_test(messages_go_to_chat_only_and_ids_to_completions_only),
        cmocka_unit_test(a_trace_is_sorted_and_equal_hash_ids_share_blocks),
        cmocka_unit_test(sharegpt_takes_the_first_question_and_the_answers_length),
        cmocka_unit_test(bad_files_are_refused_with_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
