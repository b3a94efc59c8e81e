/* test_regex - random patterns and texts decided as PCRE2 decides them; what is refused is named. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/rng.h"
#include "model/byte_machine.h"
#include "model/regex.h"

#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_PATTERN = 400, MAX_TEXT = 64, MAX_STATES = 512 };

/* ---- the machine under test ---- */

struct matcher {
    struct byte_program program;
    struct byte_machine *machine;
};

static enum status matcher_init(struct matcher *m, const struct regex_source *source, struct error *err)
{
    uint32_t entry = 0;
    m->machine = NULL;
    byte_program_init(&m->program, 100000);
    uint32_t end = byte_program_return(&m->program);
    TRY(regex_emit(source, &m->program, end, &entry, err));
    byte_program_rule_set(&m->program, 0, entry);
    TRY(byte_program_seal(&m->program, 64, err));
    return byte_machine_create(&m->machine, &m->program, 64, MAX_STATES, err);
}

static struct regex_source source_of(const char *pattern, enum char_spelling spelling)
{
    return (struct regex_source){ .pattern = pattern, .len = strlen(pattern), .spelling = spelling };
}

static void matcher_clear(struct matcher *m)
{
    byte_machine_destroy(m->machine);
    byte_program_clear(&m->program);
}

static int matches(struct matcher *m, const char *text, size_t len)
{
    uint32_t state = byte_machine_first(m->machine);
    for (size_t i = 0; i < len; i++) {
        enum status status = byte_machine_step(m->machine, state, (uint8_t)text[i], &state);
        if (status == STATUS_BUSY) {
            byte_machine_collect(m->machine, &state, 1);
            status = byte_machine_step(m->machine, state, (uint8_t)text[i], &state);
        }
        assert_int_equal(status, STATUS_OK);
    }
    return byte_machine_is_accepting(m->machine, state);
}

/* ---- random patterns ---- */

struct pattern {
    char text[MAX_PATTERN];
    size_t len;
};

static void add(struct pattern *p, const char *text)
{
    size_t len = strlen(text);
    assert_true(p->len + len < MAX_PATTERN);
    memcpy(p->text + p->len, text, len + 1);
    p->len += len;
}

static const char *pick(struct rng *rng, const char *const *from, size_t n)
{
    return from[rng_below(rng, n)];
}

static const char *const characters[] = { "a",
                                          "b",
                                          "c",
                                          "0",
                                          " ",
                                          "\n",
                                          "\xc3\xa4",
                                          "\xc3\xbf",
                                          "\xe2\x82\xac",
                                          "\xef\xbf\xbd",
                                          "\xf0\x9f\x98\x80",
                                          "_",
                                          "Z",
                                          "-",
                                          "\"",
                                          "\\" };
enum { N_CHARACTERS = sizeof characters / sizeof characters[0] };

static void add_atom(struct pattern *p, struct rng *rng)
{
    static const char *const atoms[] = { "a",
                                         "b",
                                         "c",
                                         "a",
                                         "b",
                                         "\xc3\xa4",
                                         "\xe2\x82\xac",
                                         ".",
                                         "\\d",
                                         "\\D",
                                         "\\w",
                                         "\\W",
                                         "\\s",
                                         "\\S",
                                         "[abc]",
                                         "[^a]",
                                         "[a-c0-9]",
                                         "[\\d_]",
                                         "[^\\s\\w]",
                                         "[\xc3\xa0-\xe2\x82\xac]",
                                         "[^\xc3\xa4-\xf0\x9f\x98\x80]",
                                         "\\n",
                                         "\\x41",
                                         "[\\n-c]",
                                         "\\.",
                                         "[-a]",
                                         "[a-]",
                                         "[\\]^]",
                                         "[^\\D]",
                                         "\\\\",
                                         "}",
                                         "]" };
    add(p, pick(rng, atoms, sizeof atoms / sizeof atoms[0]));
}

static void add_pattern(struct pattern *p, struct rng *rng, int depth)
{
    static const char *const repeats[] = { "?",     "*",  "+",   "{2}", "{0,2}", "{1,}",
                                           "{2,3}", "*?", "{0}", "??",  "{3,5}?" };
    int n = (int)rng_below(rng, 4);
    for (int i = 0; i < n && p->len < MAX_PATTERN / 2; i++) {
        if (depth > 0 && rng_below(rng, 3) == 0) {
            add(p, rng_below(rng, 2) == 0 ? "(" : "(?:");
            add_pattern(p, rng, depth - 1);
            add(p, ")");
        } else {
            add_atom(p, rng);
        }
        if (rng_below(rng, 3) == 0)
            add(p, pick(rng, repeats, sizeof repeats / sizeof repeats[0]));
    }
    if (p->len < MAX_PATTERN / 2 && rng_below(rng, 4) == 0) {
        add(p, "|");
        add_pattern(p, rng, depth);
    }
}

static size_t random_text(struct rng *rng, char *text)
{
    size_t len = 0;
    for (int n = (int)rng_below(rng, 9); n > 0; n--) {
        /* Mostly the letters that patterns are made of. */
        const char *c = characters[rng_below(rng, rng_below(rng, 3) == 0 ? N_CHARACTERS : 3)];
        memcpy(text + len, c, strlen(c));
        len += strlen(c);
    }
    return len;
}

static pcre2_code *oracle_compile(const struct pattern *p, uint32_t options)
{
    int code;
    PCRE2_SIZE where;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)p->text, p->len, PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | options,
                                   &code, &where, NULL);
    if (re == NULL)
        fail_msg("PCRE2 refuses %s at %zu: %d", p->text, where, code);
    return re;
}

static int oracle_matches(pcre2_code *re, pcre2_match_data *data, const char *text, size_t len)
{
    int found = pcre2_match(re, (PCRE2_SPTR)text, len, 0, 0, data, NULL);
    assert_true(found >= 0 || found == PCRE2_ERROR_NOMATCH);
    return found >= 0;
}

static void compare(const struct pattern *p, int is_search, struct rng *rng, int *n_matches)
{
    struct regex_source source = { p->text, p->len, CHARS_UTF8, is_search };
    struct matcher m;
    struct error err;
    if (matcher_init(&m, &source, &err) != STATUS_OK) {
        /* A pattern like \D\d{0}[^\s\S] fits nothing; no random pattern is refused otherwise. */
        assert_non_null(strstr(err.text, "no finite text"));
        matcher_clear(&m);
        return;
    }
    pcre2_code *re = oracle_compile(p, is_search ? 0 : PCRE2_ANCHORED | PCRE2_ENDANCHORED);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(re, NULL);
    for (int i = 0; i < 30; i++) {
        char text[MAX_TEXT];
        size_t len = random_text(rng, text);
        int want = oracle_matches(re, data, text, len);
        *n_matches += want;
        if (matches(&m, text, len) != want)
            fail_msg("pattern %s, text '%.*s': PCRE2 says %d", p->text, (int)len, text, want);
    }
    pcre2_match_data_free(data);
    pcre2_code_free(re);
    matcher_clear(&m);
}

static void whole_texts_match_as_with_pcre2(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    int n_matches = 0;
    for (int round = 0; round < 4000; round++) {
        struct pattern p = { .text = "" };
        add_pattern(&p, &rng, 3);
        compare(&p, 0, &rng, &n_matches);
    }
    assert_true(n_matches > 6000);
}

static void searches_find_as_pcre2_does(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 2);
    int n_matches = 0;
    for (int round = 0; round < 2000; round++) {
        struct pattern p = { .text = "" };
        for (int ways = 1 + (int)rng_below(&rng, 2); ways > 0; ways--) {
            add(&p, rng_below(&rng, 2) == 0 ? "^" : "");
            /* An alternative inside would take the anchor away from the others. */
            add_atom(&p, &rng);
            add(&p, rng_below(&rng, 2) == 0 ? "(?:" : "(");
            add_pattern(&p, &rng, 2);
            add(&p, rng_below(&rng, 2) == 0 ? ")" : ")$");
            add(&p, ways > 1 ? "|" : "");
        }
        compare(&p, 1, &rng, &n_matches);
    }
    assert_true(n_matches > 3000);
}

static void only_valid_utf8_is_matched(void **state)
{
    (void)state;
    struct regex_source source = source_of("[^x]*", CHARS_UTF8);
    struct matcher m;
    assert_int_equal(matcher_init(&m, &source, NULL), STATUS_OK);
    static const char *const bad[] = {
        "\x80",         "\xc0\x80",     "\xc1\xbf",         "\xe0\x9f\xbf",
        "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
        "\xf5",         "\xc3",         "\xe2\x82",         "\xff"
    };
    static const char *const good[] = { "\xc2\x80",         "\xdf\xbf",
                                        "\xe0\xa0\x80",     "\xed\x9f\xbf",
                                        "\xee\x80\x80",     "\xf0\x90\x80\x80",
                                        "\xf4\x8f\xbf\xbf", "" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(matches(&m, bad[i], strlen(bad[i])));
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(matches(&m, good[i], strlen(good[i])));
    matcher_clear(&m);
}

/* Every character against every boundary of a random class, both spellings. */
static void classes_hold_exactly_their_characters(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 4);
    static const uint32_t edges[] = { 1,      8,       0x1f,    0x20,    '"',     '\\',     0x7f,
                                      0x80,   0x7ff,   0x800,   0xfff,   0x1000,  0xd7ff,   0xe000,
                                      0xffff, 0x10000, 0x3ffff, 0x40000, 0xfffff, 0x100000, 0x10ffff };
    enum { N_EDGES = sizeof edges / sizeof edges[0] };
    for (int round = 0; round < 300; round++) {
        struct char_class c = { 0 };
        uint32_t lo[3], hi[3];
        int n = 1 + (int)rng_below(&rng, 3), negate = (int)rng_below(&rng, 2);
        for (int i = 0; i < n; i++) {
            uint32_t a = edges[rng_below(&rng, N_EDGES)], b = edges[rng_below(&rng, N_EDGES)];
            lo[i] = a < b ? a : b;
            hi[i] = a < b ? b : a;
            assert_true(char_class_add(&c, lo[i], hi[i]));
        }
        assert_true(char_class_close(&c, negate));
        struct matcher m = { .machine = NULL };
        byte_program_init(&m.program, 10000);
        uint32_t entry = char_class_emit(&c, CHARS_UTF8, &m.program, byte_program_return(&m.program));
        byte_program_rule_set(&m.program, 0, entry);
        if (byte_program_seal(&m.program, 1, NULL) == STATUS_OK)
            assert_int_equal(byte_machine_create(&m.machine, &m.program, 1, 64, NULL), STATUS_OK);
        for (int i = 0; i < 3 * N_EDGES; i++) {
            uint32_t x = edges[i / 3] + (uint32_t)(i % 3) - 1;
            if (x > CHAR_MAX || (x >= 0xd800 && x <= 0xdfff))
                continue;
            int want = negate;
            for (int k = 0; k < n; k++)
                if (x >= lo[k] && x <= hi[k])
                    want = !negate;
            char text[8];
            int len = x < 0x80 ? (text[0] = (char)x, 1)
                    : x < 0x800 ? (text[0] = (char)(0xc0 | x >> 6), text[1] = (char)(0x80 | (x & 63)), 2)
                    : x < 0x10000 ? (text[0] = (char)(0xe0 | x >> 12), text[1] = (char)(0x80 | (x >> 6 & 63)),
                                     text[2] = (char)(0x80 | (x & 63)), 3)
                    : (text[0] = (char)(0xf0 | x >> 18), text[1] = (char)(0x80 | (x >> 12 & 63)),
                       text[2] = (char)(0x80 | (x >> 6 & 63)), text[3] = (char)(0x80 | (x & 63)), 4);
            assert_int_equal(m.machine != NULL && matches(&m, text, (size_t)len), want);
        }
        matcher_clear(&m);
    }
}

static void json_spelling_escapes_what_a_string_may_not_hold(void **state)
{
    (void)state;
    struct matcher m;
    struct regex_source source = source_of("[\\n\\x01\"\\\\a]+", CHARS_JSON);
    assert_int_equal(matcher_init(&m, &source, NULL), STATUS_OK);
    static const char *const good[] = { "a", "\\n", "\\u0001", "\\\"", "\\\\", "a\\na" };
    static const char *const bad[] = { "\n", "\x01", "\"", "\\", "\\u000a", "\\u0061", "b", "\\t" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(matches(&m, good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(matches(&m, bad[i], strlen(bad[i])));
    matcher_clear(&m);
}

static void what_is_not_supported_is_named(void **state)
{
    (void)state;
    static const struct { const char *pattern; const char *named;
    } rows[] = {
        { "(?=a)b", "(?" },
        { "(?!a)", "(?" },
        { "(?<n>a)", "(?" },
        { "(?i)a", "(?" },
        { "(a)\\1", "back-ref" },
        { "\\bword", "word boundaries" },
        { "\\pL", "Unicode properties" },
        { "a++", "possessive" },
        { "a**", "repeat of a repeat" },
        { "*a", "nothing to repeat" },
        { "a{1001}", "1000" },
        { "a{3,2}", "larger number first" },
        { "a{", "{" },
        { "a{,3}", "{" },
        { "(a", "( is not closed" },
        { "a)", ") that closes nothing" },
        { "[a", "[ is not closed" },
        { "[]", "empty class" },
        { "[b-a]", "order" },
        { "[a-\\d]", "order" },
        { "[[:alpha:]]", "named classes" },
        { "a^b", "^ is supported" },
        { "(^a)", "^ is supported" },
        { "a$b", "$ is supported" },
        { "\\q", "not known" },
        { "a\\", "backslash" },
        { "\\x4", "two hex" },
        { "\\u12g4", "four hex" },
        { "\\ud800", "surrogate" },
        { "\xff", "UTF-8" },
        { "(*UTF)a", "verbs" },
        { "[^\\s\\S]", "no finite text" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct regex_source source = source_of(rows[i].pattern, CHARS_UTF8);
        struct matcher m;
        struct error err;
        if (matcher_init(&m, &source, &err) != STATUS_BAD_REQUEST)
            fail_msg("%s is accepted", rows[i].pattern);
        if (strstr(err.text, rows[i].named) == NULL)
            fail_msg("%s: %s", rows[i].pattern, err.text);
        matcher_clear(&m);
    }
}

static void limits_hold(void **state)
{
    (void)state;
    struct matcher m;
    struct error err;
    char *long_text = malloc(REGEX_MAX_BYTES + 2);
    memset(long_text, 'a', REGEX_MAX_BYTES + 1);
    struct regex_source source = { long_text, REGEX_MAX_BYTES + 1, CHARS_UTF8, 0 };
    assert_int_equal(matcher_init(&m, &source, &err), STATUS_TOO_LARGE);
    matcher_clear(&m);
    source.len = REGEX_MAX_BYTES;
    assert_int_equal(matcher_init(&m, &source, &err), STATUS_OK);
    assert_true(matches(&m, long_text, REGEX_MAX_BYTES));
    assert_false(matches(&m, long_text, REGEX_MAX_BYTES - 1));
    matcher_clear(&m);
    memset(long_text, '(', REGEX_MAX_DEPTH + 1);
    assert_int_equal(matcher_init(&m, &source, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "64 groups"));
    matcher_clear(&m);
    /* Repeats of repeats multiply the texts, not the program. */
    source = source_of("((([a-z]{1000}){1000}){1000}){0,1000}", CHARS_UTF8);
    assert_int_equal(matcher_init(&m, &source, &err), STATUS_OK);
    assert_true(matches(&m, "", 0));
    assert_false(matches(&m, long_text + 100, 1000));
    matcher_clear(&m);
    source = source_of("(?:\\w.{1000}){1000}|(?:\\W.{1000}){1000}|(?:a.{1000}){1000}", CHARS_UTF8);
    byte_program_init(&m.program, 3000);
    uint32_t entry;
    assert_int_equal(regex_emit(&source, &m.program, 0, &entry, &err), STATUS_OK);
    assert_int_equal(byte_program_seal(&m.program, 64, &err), STATUS_TOO_LARGE);
    byte_program_clear(&m.program);
    free(long_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_texts_match_as_with_pcre2),
        cmocka_unit_test(searches_find_as_pcre2_does),
        cmocka_unit_test(only_valid_utf8_is_matched),
        cmocka_unit_test(classes_hold_exactly_their_characters),
        cmocka_unit_test(json_spelling_escapes_what_a_string_may_not_hold),
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
