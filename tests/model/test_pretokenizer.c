/* test_pretokenizer - pieces and normalised texts are those of the reference implementation.
 *
 * The expected values in tests/model/data come from Hugging Face tokenizers
 * (make_tokenizer_cases.py).
 */
#include "base/json_read.h"
#include "model/normalizer.h"
#include "model/pretokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define DATA "tests/model/data/"

static json_t *read_rows(const char *path)
{
    json_t *root = NULL;
    struct error err;
    if (json_read_file(path, 1 << 24, STATUS_BAD_MODEL, &root, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return root;
}

static struct pretokenizer *make(const json_t *section)
{
    struct pretokenizer *p = NULL;
    struct error err;
    if (pretokenizer_create(&p, section, "test", &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return p;
}

static struct pattern_scratch *make_scratch(void)
{
    struct pattern_scratch *scratch = NULL;
    assert_int_equal(pattern_scratch_create(&scratch, NULL), STATUS_OK);
    return scratch;
}

static int same_pieces(const struct pretokens *t, const json_t *want)
{
    if (t->pieces.n != json_array_size(want))
        return 0;
    for (size_t i = 0; i < t->pieces.n; i++) {
        const json_t *piece = json_array_get(want, i);
        struct piece p = t->pieces.at[i];
        if (p.end - p.begin != json_string_length(piece) ||
            memcmp(t->text.data + p.begin, json_string_value(piece), p.end - p.begin) != 0)
            return 0;
    }
    return 1;
}

static void report_pieces(const json_t *section, const json_t *c, const struct pretokens *t)
{
    char *spec = json_dumps(section, 0), *wanted = json_dumps(c, 0), got[2048] = "";
    size_t used = 0;
    for (size_t i = 0; i < t->pieces.n && used + 1 < sizeof got; i++)
        used += (size_t)snprintf(got + used, sizeof got - used, "'%.*s' ",
                                 (int)(t->pieces.at[i].end - t->pieces.at[i].begin),
                                 t->text.data + t->pieces.at[i].begin);
    fail_msg("%s: %s: got %s", spec, wanted, got);
}

static void every_piece_is_the_one_of_the_reference(void **state)
{
    (void)state;
    json_t *root = read_rows(DATA "pretokenizer_cases.json");
    const json_t *rows = json_object_get(root, "rows");
    struct pattern_scratch *scratch = make_scratch();
    assert_true(json_array_size(rows) > 60);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *section = json_object_get(json_array_get(rows, i), "pre_tokenizer");
        const json_t *cases = json_object_get(json_array_get(rows, i), "cases");
        struct pretokenizer *p = make(section);
        struct pretokens t;
        pretokens_init(&t, 1 << 20);
        for (size_t k = 0; k < json_array_size(cases); k++) {
            const json_t *c = json_array_get(cases, k), *text = json_array_get(c, 0);
            const struct pretokenizer_input in = { .text = json_string_value(text),
                                                   .len = json_string_length(text),
                                                   .is_first = 1 };
            assert_int_equal(pretokenizer_run(p, &in, scratch, &t), STATUS_OK);
            if (!same_pieces(&t, json_array_get(c, 1)))
                report_pieces(section, c, &t);
        }
        pretokens_clear(&t);
        pretokenizer_destroy(p);
    }
    pattern_scratch_destroy(scratch);
    json_decref(root);
}

static void every_normalised_text_is_the_one_of_the_reference(void **state)
{
    (void)state;
    json_t *root = read_rows(DATA "normalizer_cases.json");
    const json_t *rows = json_object_get(root, "rows");
    struct pattern_scratch *scratch = make_scratch();
    struct buf out, spare;
    buf_init(&out, 1 << 20);
    buf_init(&spare, 1 << 20);
    assert_true(json_array_size(rows) > 10);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *section = json_object_get(json_array_get(rows, i), "normalizer");
        const json_t *cases = json_object_get(json_array_get(rows, i), "cases");
        struct normalizer *n = NULL;
        assert_int_equal(normalizer_create(&n, section, "test", NULL), STATUS_OK);
        for (size_t k = 0; k < json_array_size(cases); k++) {
            const json_t *text = json_array_get(json_array_get(cases, k), 0);
            const json_t *want = json_array_get(json_array_get(cases, k), 1);
            const struct normalizer_input in = { .text = json_string_value(text),
                                                 .len = json_string_length(text) };
            assert_int_equal(normalizer_run(n, &in, scratch, &out, &spare), STATUS_OK);
            if (out.len != json_string_length(want) ||
                (out.len > 0 && memcmp(out.data, json_string_value(want), out.len) != 0))
                fail_msg("row %zu: '%s': want '%s' got '%s'", i, json_string_value(text),
                         json_string_value(want),
                         out.data);
        }
        normalizer_destroy(n);
    }
    buf_clear(&out);
    buf_clear(&spare);
    pattern_scratch_destroy(scratch);
    json_decref(root);
}

static void a_space_is_put_before_text_but_not_behind_a_stray_byte(void **state)
{
    (void)state;
    json_t *section = json_pack("{s:s,s:s}", "type", "Metaspace", "replacement", "_");
    struct pretokenizer *p = make(section);
    struct pattern_scratch *scratch = make_scratch();
    struct pretokens t;
    pretokens_init(&t, 100);
    struct pretokenizer_input in = { .text = "a b", .len = 3, .is_first = 1 };
    assert_int_equal(pretokenizer_run(p, &in, scratch, &t), STATUS_OK);
    assert_string_equal(t.text.data, "_a_b");
    assert_int_equal(t.pieces.n, 2);
    in = (struct pretokenizer_input){ .text = "a b", .len = 3, .joined = 1 };
    assert_int_equal(pretokenizer_run(p, &in, scratch, &t), STATUS_OK);
    assert_string_equal(t.text.data, "a_b");
    pretokens_clear(&t);
    pattern_scratch_destroy(scratch);
    pretokenizer_destroy(p);
    json_decref(section);
}

static void a_text_that_grows_past_the_limit_is_refused(void **state)
{
    (void)state;
    json_t *section = json_pack("{s:s,s:{s:s},s:s}", "type", "Replace", "pattern", "String", "a", "content",
                                "0123456789");
    struct normalizer *n = NULL;
    assert_int_equal(normalizer_create(&n, section, "test", NULL), STATUS_OK);
    struct pattern_scratch *scratch = make_scratch();
    struct buf out, spare;
    buf_init(&out, 25);
    buf_init(&spare, 25);
    struct normalizer_input in = { .text = "aa", .len = 2 };
    assert_int_equal(normalizer_run(n, &in, scratch, &out, &spare), STATUS_OK);
    assert_string_equal(out.data, "01234567890123456789");
    in = (struct normalizer_input){ .text = "aaa", .len = 3 };
    assert_int_equal(normalizer_run(n, &in, scratch, &out, &spare), STATUS_TOO_LARGE);
    buf_clear(&out);
    buf_clear(&spare);
    pattern_scratch_destroy(scratch);
    normalizer_destroy(n);
    json_decref(section);
}

/* ---- patterns ---- */

static enum status find(const char *regex, const char *text, size_t len, struct pattern_match *match,
                        int *found)
{
    struct pattern *p = NULL;
    struct error err;
    if (pattern_create(&p, regex, strlen(regex), "test", &err) != STATUS_OK)
        fail_msg("%s", err.text);
    struct pattern_scratch *scratch = make_scratch();
    enum status s = pattern_find(p, scratch, text, len, 0, match, found);
    pattern_scratch_destroy(scratch);
    pattern_destroy(p);
    return s;
}

static void an_expensive_pattern_ends_with_an_error_and_does_not_hang(void **state)
{
    (void)state;
    char text[400];
    memset(text, 'a', sizeof text);
    static const char *const costly[] = { "(a+)+b", "(a|aa)+$x", "(a*)*b", "(?:a?){60}a{60}b" };
    for (size_t i = 0; i < sizeof costly / sizeof *costly; i++) {
        struct pattern_match match;
        int found;
        clock_t before = clock();
        enum status s = find(costly[i], text, sizeof text, &match, &found);
        assert_true(s == STATUS_TOO_LARGE || (s == STATUS_OK && !found));
        assert_true((double)(clock() - before) / CLOCKS_PER_SEC < 20);
    }
}

static void spaces_at_the_end_of_a_line_are_found_in_linear_time(void **state)
{
    (void)state;
    struct pattern_match match;
    int found;
    assert_int_equal(find("\\s+$", "a  \n b  ", 8, &match, &found), STATUS_OK);
    assert_true(found && match.begin == 1 && match.end == 3);
    size_t len = 1 << 20;
    char *text = malloc(len);
    memset(text, ' ', len);
    text[len - 1] = 'x';
    clock_t before = clock();
    assert_int_equal(find("\\s+$", text, len, &match, &found), STATUS_OK);
    assert_false(found);
    assert_true((double)(clock() - before) / CLOCKS_PER_SEC < 5);
    free(text);
}

static void what_has_no_translation_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "[a[b]]", "[a&&b]", "[a&&[b]&&[c]]", "[^a&&[b]]", "a{2}+", "\\h",
                                       "[\\H]", "[a",
                                       "[a&&[b", "\\p{L", "\\", "(", "[[:alpha", "\\p{Nonsense}", "\\C" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pattern *p = NULL;
        struct error err = { 0 };
        enum status s = pattern_create(&p, bad[i], strlen(bad[i]), "test", &err);
        if (s != STATUS_UNSUPPORTED && s != STATUS_BAD_MODEL)
            fail_msg("'%s' was accepted", bad[i]);
        assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_is_the_one_of_the_reference),
        cmocka_unit_test(every_normalised_text_is_the_one_of_the_reference),
        cmocka_unit_test(a_space_is_put_before_text_but_not_behind_a_stray_byte),
        cmocka_unit_test(a_text_that_grows_past_the_limit_is_refused),
        cmocka_unit_test(an_expensive_pattern_ends_with_an_error_and_does_not_hang),
        cmocka_unit_test(spaces_at_the_end_of_a_line_are_found_in_linear_time),
        cmocka_unit_test(what_has_no_translation_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
