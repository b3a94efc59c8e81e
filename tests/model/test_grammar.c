/* test_grammar - masks against partial matching by PCRE2, cursors, end tokens, little memory, no
 * allocation. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/rng.h"
#include "model/grammar.h"

#include <malloc.h>
#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 700, END = 3, OTHER_END = 699, MAX_TEXT = 400 };

struct vocabulary {
    char bytes[VOCAB][8];
    size_t len[VOCAB];
    struct token_trie *trie;
};

static size_t bytes_of(void *context, int32_t token, const char **bytes)
{
    struct vocabulary *v = context;
    *bytes = v->bytes[token];
    return v->len[token];
}

/* All bytes, and random pieces of a JSON-like alphabet; some twice.  The end
 * tokens are control tokens, but OTHER_END also has text. */
static int set_up(void **state)
{
    static const char alphabet[] = "{}[]\":, \nabc019-.\xc3\xa4tru";
    struct vocabulary *v = calloc(1, sizeof *v);
    struct rng rng;
    rng_seed(&rng, 21);
    for (int t = 4; t < VOCAB; t++) {
        v->len[t] = t < 260 ? 1 : 1 + rng_below(&rng, 6);
        for (size_t i = 0; i < v->len[t]; i++)
            v->bytes[t][i] = t < 260 ? (char)(t - 4) : alphabet[rng_below(&rng, sizeof alphabet - 1)];
    }
    struct token_trie_source source = { .vocab = VOCAB, .bytes_of = bytes_of, .context = v };
    assert_int_equal(token_trie_create(&v->trie, &source, NULL), STATUS_OK);
    *state = v;
    return 0;
}

static int tear_down(void **state)
{
    struct vocabulary *v = *state;
    token_trie_destroy(v->trie);
    free(v);
    return 0;
}

static struct grammar_options options_of(struct vocabulary *v, enum grammar_kind kind, const char *text)
{
    static const int32_t ends[] = { END, OTHER_END, -1, VOCAB + 5 };
    return (struct grammar_options){
        .kind = kind, .text = text, .len = text == NULL ? 0 : strlen(text), .trie = v->trie,
        .end_tokens = ends, .n_end_tokens = 4, .n_cursors = 3, .limits = GRAMMAR_LIMITS_DEFAULT,
    };
}

static struct grammar *create(const struct grammar_options *options)
{
    struct grammar *g;
    struct error err;
    if (grammar_create(&g, options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return g;
}

static int bit(const uint64_t *mask, int32_t t)
{
    return (int)(mask[t / 64] >> (t % 64) & 1);
}

static int32_t random_allowed(const uint64_t *mask, struct rng *rng)
{
    int32_t t = (int32_t)rng_below(rng, VOCAB);
    for (int i = 0; i < VOCAB; i++, t = (t + 1) % VOCAB)
        if (bit(mask, t))
            return t;
    return -1;
}

/* Whether text can still become a match of a pattern that ends in \z: PCRE2's
 * partial matching decides. */
static int may_continue(pcre2_code *re, pcre2_match_data *data, const char *text, size_t len, int *is_match)
{
    *is_match = pcre2_match(re, (PCRE2_SPTR)text, len, 0, PCRE2_ANCHORED, data, NULL) >= 0;
    return *is_match || pcre2_match(re, (PCRE2_SPTR)text, len, 0, PCRE2_ANCHORED | PCRE2_PARTIAL_HARD, data,
                                    NULL) == PCRE2_ERROR_PARTIAL;
}

static void masks_equal_partial_matching_by_pcre2(void **state)
{
    struct vocabulary *v = *state;
    /* ASCII only: PCRE2 is run on bytes here. */
    static const char *const patterns[] = {
        "[a-c]{2,5}(?:,[a-c]{2})*",
        "\\{\"(?:true|tru|t)\": ?(?:-?[1-9][0-9]*|0)(?:\\.[0-9]+)?\\}",
        "(?:ab|abc|b)+9",
        "a?b?c?0?1?9?",
        "[ -~]{0,3}",
        "(?:a[bc]){1,3}|(?:a[01]){2}",
    };
    struct rng rng;
    rng_seed(&rng, 31);
    for (size_t k = 0; k < sizeof patterns / sizeof patterns[0]; k++) {
        int code;
        PCRE2_SIZE where;
        char whole[100];
        snprintf(whole, sizeof whole, "(?:%s)\\z", patterns[k]);
        pcre2_code *re = pcre2_compile((PCRE2_SPTR)whole, PCRE2_ZERO_TERMINATED, 0, &code, &where, NULL);
        pcre2_match_data *data = pcre2_match_data_create_from_pattern(re, NULL);
        /* A second run with little memory must give the same masks. */
        for (uint32_t max_states = 4096; max_states >= 24; max_states /= 170) {
            struct grammar_options options = options_of(v, GRAMMAR_REGEX, patterns[k]);
            options.limits.max_states = max_states;
            options.limits.max_masks = 2;
            struct grammar *g = create(&options);
            for (int round = 0; round < 15; round++) {
                char text[MAX_TEXT];
                size_t len = 0;
                grammar_start(g, 0);
                for (int step = 0; step < 12; step++) {
                    const uint64_t *mask;
                    int is_match, ignored;
                    assert_int_equal(grammar_mask(g, 0, &mask, NULL), STATUS_OK);
                    may_continue(re, data, text, len, &is_match);
                    for (int32_t t = 0; t < VOCAB; t++) {
                        memcpy(text + len, v->bytes[t], v->len[t]);
                        int want = v->len[t] > 0 && may_continue(re, data, text, len + v->len[t], &ignored);
                        want = t == END || t == OTHER_END ? is_match : want;
                        if (bit(mask, t) != want)
                            fail_msg("%s after %.*s", patterns[k], (int)(len + v->len[t]), text);
                    }
                    assert_int_equal(grammar_is_accepting(g, 0), is_match);
                    int32_t token = random_allowed(mask, &rng);
                    assert_true(token >= 0);
                    if (token == END || token == OTHER_END)
                        break;
                    assert_int_equal(grammar_advance(g, 0, token, NULL), STATUS_OK);
                    memcpy(text + len, v->bytes[token], v->len[token]);
                    len += v->len[token];
                }
            }
            grammar_destroy(g);
        }
        pcre2_match_data_free(data);
        pcre2_code_free(re);
    }
}

static void a_mask_is_what_advance_accepts(void **state)
{
    struct vocabulary *v = *state;
    static const char schema[] =
        "{\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":\"number\"}},"
        "\"b\":{\"type\":\"string\",\"maxLength\":9}},\"required\":[\"a\"]}";
    struct grammar_options options = options_of(v, GRAMMAR_JSON_SCHEMA, schema);
    options.limits.max_states = 96;
    options.limits.max_masks = 3;
    struct grammar *g = create(&options);
    struct rng rng;
    rng_seed(&rng, 41);
    int n_ended = 0;
    for (int round = 0; round < 60; round++) {
        int32_t tokens[200];
        int n = 0;
        grammar_start(g, 0);
        for (; n < 200; n++) {
            uint64_t copy[(VOCAB + 63) / 64];
            const uint64_t *mask;
            assert_int_equal(grammar_mask(g, 0, &mask, NULL), STATUS_OK);
            memcpy(copy, mask, sizeof copy);
            /* Another cursor tries every token from the same place. */
            for (int32_t t = (int32_t)rng_below(&rng, 7); t < VOCAB; t += 7) {
                grammar_start(g, 1);
                for (int i = 0; i < n; i++)
                    assert_int_equal(grammar_advance(g, 1, tokens[i], NULL), STATUS_OK);
                assert_int_equal(grammar_advance(g, 1, t, NULL) == STATUS_OK, bit(copy, t));
            }
            tokens[n] = random_allowed(copy, &rng);
            assert_true(tokens[n] >= 0);
            if (tokens[n] == END || tokens[n] == OTHER_END)
                break;
            assert_int_equal(grammar_advance(g, 0, tokens[n], NULL), STATUS_OK);
        }
        n_ended += n < 200;
    }
    assert_true(n_ended > 30);
    grammar_destroy(g);
}

static void cursors_do_not_disturb_each_other(void **state)
{
    struct vocabulary *v = *state;
    struct grammar_options options = options_of(v, GRAMMAR_JSON_OBJECT, NULL);
    options.limits.max_states = 64;
    struct grammar *g = create(&options), *alone[3];
    struct rng rng;
    rng_seed(&rng, 51);
    options.limits.max_states = 4096;
    for (int i = 0; i < 3; i++)
        alone[i] = create(&options);
    for (int step = 0; step < 1500; step++) {
        int c = (int)rng_below(&rng, 3);
        const uint64_t *mask, *want;
        assert_int_equal(grammar_mask(g, c, &mask, NULL), STATUS_OK);
        assert_int_equal(grammar_mask(alone[c], 0, &want, NULL), STATUS_OK);
        assert_memory_equal(mask, want, (VOCAB + 63) / 64 * sizeof *mask);
        int32_t token = random_allowed(mask, &rng);
        if (token == END || token == OTHER_END) {
            grammar_start(g, c);
            grammar_start(alone[c], 0);
            continue;
        }
        assert_int_equal(grammar_advance(g, c, token, NULL), STATUS_OK);
        assert_int_equal(grammar_advance(alone[c], 0, token, NULL), STATUS_OK);
    }
    grammar_destroy(g);
    for (int i = 0; i < 3; i++)
        grammar_destroy(alone[i]);
}

static void a_token_that_does_not_fit_leaves_the_cursor_in_place(void **state)
{
    struct vocabulary *v = *state;
    struct grammar_options options = options_of(v, GRAMMAR_REGEX, "ab");
    struct grammar *g = create(&options);
    struct error err;
    static const int32_t bad[] = { 'b' + 4, 0, END, OTHER_END, -1, VOCAB, 1 << 30 };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(grammar_advance(g, 0, bad[i], &err), STATUS_INTERNAL);
    assert_int_equal(grammar_advance(g, 0, 'a' + 4, NULL), STATUS_OK);
    assert_int_equal(grammar_advance(g, 0, 'a' + 4, &err), STATUS_INTERNAL);
    assert_false(grammar_is_finished(g, 0));
    assert_int_equal(grammar_advance(g, 0, 'b' + 4, NULL), STATUS_OK);
    assert_true(grammar_is_finished(g, 0));
    assert_int_equal(grammar_advance(g, 0, END, NULL), STATUS_OK);
    const uint64_t *mask;
    assert_int_equal(grammar_mask(g, 0, &mask, NULL), STATUS_OK);
    for (int32_t t = 0; t < VOCAB; t++)
        assert_int_equal(bit(mask, t), t == END || t == OTHER_END);
    grammar_destroy(g);
    grammar_destroy(NULL);
}

static void steps_allocate_nothing(void **state)
{
    struct vocabulary *v = *state;
    struct grammar_options options = options_of(v, GRAMMAR_JSON_OBJECT, NULL);
    options.limits.max_states = 128;
    struct grammar *g = create(&options);
    struct rng rng;
    rng_seed(&rng, 61);
    struct mallinfo2 before = mallinfo2();
    for (int step = 0; step < 1000; step++) {
        const uint64_t *mask;
        assert_int_equal(grammar_mask(g, 0, &mask, NULL), STATUS_OK);
        int32_t token = random_allowed(mask, &rng);
        if (token == END || token == OTHER_END)
            grammar_start(g, 0);
        else
            assert_int_equal(grammar_advance(g, 0, token, NULL), STATUS_OK);
    }
    assert_int_equal(mallinfo2().uordblks, before.uordblks);
    grammar_destroy(g);
}

static void limits_are_named(void **state)
{
    struct vocabulary *v = *state;
    struct grammar *g = NULL;
    struct error err;
    struct grammar_options options = options_of(v, GRAMMAR_REGEX, "[a-z]{100}x");
    options.limits.max_text = 10;
    assert_int_equal(grammar_create(&g, &options, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "11 bytes, limit 10"));
    options.limits.max_text = 11;
    options.limits.max_code = 50;
    assert_int_equal(grammar_create(&g, &options, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "50 instructions"));
    options = options_of(v, GRAMMAR_REGEX, "(?:a|b|c|aa|ab|ac|[a-z]{0,99})*(?:x{0,999}y{0,999}){0,999}");
    options.limits.max_states = 4;
    assert_int_equal(grammar_create(&g, &options, &err), STATUS_TOO_LARGE);
    assert_null(g);
}

/* Which of the last thousand characters were an 'a' makes a state of its own, and
 * one that is slow to make. */
static void work_on_a_mask_is_bounded(void **state)
{
    struct vocabulary *v = *state;
    struct grammar_options options = options_of(v, GRAMMAR_REGEX, "(?:[^a]|a)*a.{0,900}b");
    options.limits.max_work = 10000;
    struct grammar *g = create(&options);
    struct error err;
    const uint64_t *mask;
    enum status status = STATUS_OK;
    int n = 0;
    for (; n < 400 && status == STATUS_OK; n++) {
        status = grammar_mask(g, 0, &mask, &err);
        if (status == STATUS_OK)
            assert_int_equal(grammar_advance(g, 0, (n % 3 == 0 ? 'a' : 'c') + 4, NULL), STATUS_OK);
    }
    assert_int_equal(status, STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "ambiguous"));
    assert_true(n > 3);
    /* The grammar is still good for other texts. */
    grammar_start(g, 0);
    assert_int_equal(grammar_mask(g, 0, &mask, NULL), STATUS_OK);
    assert_true(bit(mask, 'c' + 4));
    grammar_destroy(g);
}

#define WITH_VOCABULARY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_VOCABULARY(masks_equal_partial_matching_by_pcre2),
        WITH_VOCABULARY(a_mask_is_what_advance_accepts),
        WITH_VOCABULARY(cursors_do_not_disturb_each_other),
        WITH_VOCABULARY(a_token_that_does_not_fit_leaves_the_cursor_in_place),
        WITH_VOCABULARY(steps_allocate_nothing),
        WITH_VOCABULARY(work_on_a_mask_is_bounded),
        WITH_VOCABULARY(limits_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
