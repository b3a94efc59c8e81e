/* test_stop_matcher - whatever the pieces, what is shown equals a search in the whole text. */
#include "base/rng.h"
#include "base/utf8.h"
#include "model/stop_matcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_TEXT = 400, MAX_STOPS = 6 };

static const struct stop_limits limits = { .max_stops = MAX_STOPS, .max_bytes = 32 };

static int set_up(void **state)
{
    struct stop_matcher *m;
    assert_int_equal(stop_matcher_create(&m, &limits, NULL), STATUS_OK);
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    stop_matcher_destroy(*state);
    return 0;
}

static struct stop_string stop(const char *text)
{
    return (struct stop_string){ text, strlen(text) };
}

/* The oracle: at each end byte, is there a stop string that ends here?  Longest first. */
static struct stop_result search(const char *text, size_t len, const struct stop_string *stops, int n_stops,
                                 int include_stop)
{
    for (size_t end = 1; end <= len; end++) {
        int which = -1;
        for (int i = 0; i < n_stops; i++)
            if (stops[i].len <= end && memcmp(text + end - stops[i].len, stops[i].text, stops[i].len) == 0 &&
                (which < 0 || stops[i].len > stops[which].len))
                which = i;
        if (which >= 0)
            return (struct stop_result){ include_stop ? end : end - stops[which].len, 1, which };
    }
    return (struct stop_result){ len, 0, -1 };
}

/* What may be shown after a text that has no stop in it: all but the longest
 * ending that is a proper beginning of a stop string. */
static size_t shown(const char *text, size_t len, const struct stop_string *stops, int n_stops)
{
    size_t held = 0;
    for (int i = 0; i < n_stops; i++)
        for (size_t k = 1; k < stops[i].len && k <= len; k++)
            if (k > held && memcmp(text + len - k, stops[i].text, k) == 0)
                held = k;
    return len - held;
}

static void assert_same(struct stop_result got, struct stop_result want)
{
    assert_int_equal(got.stopped, want.stopped);
    assert_int_equal(got.which, want.which);
    assert_int_equal(got.safe, want.safe);
}

/* Characters of one to four bytes, few of them so that stops really occur. */
static size_t random_text(struct rng *rng, char *text, size_t max_characters, int variety)
{
    static const char *const characters[] = {
        "a", "b", "\xc3\xa4", "\xc3\xa5", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x81", "\n"
    };
    size_t len = 0, n = rng_below(rng, max_characters + 1);
    for (size_t i = 0; i < n; i++) {
        const char *c = characters[rng_below(rng, (uint64_t)variety)];
        memcpy(text + len, c, strlen(c));
        len += strlen(c);
    }
    return len;
}

static void any_pieces_show_what_a_search_in_the_whole_text_shows(void **state)
{
    struct stop_matcher *m = *state;
    struct rng rng;
    rng_seed(&rng, 3);
    int n_stopped = 0;
    for (int round = 0; round < 40000; round++) {
        char text[MAX_TEXT], stop_text[MAX_STOPS][32];
        struct stop_string stops[MAX_STOPS];
        int n_stops = (int)rng_below(&rng, MAX_STOPS + 1), variety = 2 + (int)rng_below(&rng, 7);
        for (int i = 0; i < n_stops; i++) {
            size_t len;
            do
                len = random_text(&rng, stop_text[i], 7, variety);
            while (len == 0);
            stops[i] = (struct stop_string){ stop_text[i], len };
        }
        size_t len = random_text(&rng, text, 90, variety);
        int include_stop = (int)rng_below(&rng, 2);
        struct stop_result want = search(text, len, stops, n_stops, include_stop);
        n_stopped += want.stopped;
        assert_int_equal(stop_strings_check(stops, n_stops, &limits, NULL), STATUS_OK);
        stop_matcher_start(m, stops, n_stops, include_stop);
        struct stop_result got = { 0, 0, -1 };
        size_t at = 0, last_safe = 0;
        while (at < len && !got.stopped) {
            size_t piece = 0;
            for (uint64_t k = rng_below(&rng, 5); k > 0 && at + piece < len; k--)
                piece += utf8_sequence_length(text + at + piece, len - at - piece);
            got = stop_matcher_push(m, text + at, piece);
            at += piece;
            assert_true(got.safe >= last_safe && got.safe <= at);
            assert_true(utf8_is_valid(text + last_safe, got.safe - last_safe));
            if (!got.stopped)
                assert_int_equal(got.safe, shown(text, at, stops, n_stops));
            last_safe = got.safe;
        }
        assert_same(stop_matcher_finish(m), want);
        if (want.stopped)
            assert_same(stop_matcher_push(m, "b", 1), want);
    }
    assert_true(n_stopped > 10000 && n_stopped < 39000);
}

static void the_reported_cases_of_other_servers_hold(void **state)
{
    struct stop_matcher *m = *state;
    struct stop_string both[] = { stop("AB"), stop("A") };
    stop_matcher_start(m, both, 2, 0);
    assert_same(stop_matcher_push(m, "xAB", 3), (struct stop_result){ 1, 1, 1 });

    struct stop_string newline[] = { stop("\n") };
    stop_matcher_start(m, newline, 1, 0);
    assert_same(stop_matcher_push(m, "?\n", 2), (struct stop_result){ 1, 1, 0 });

    struct stop_string names[] = { stop("\n"), stop("Zed:") };
    stop_matcher_start(m, names, 2, 0);
    assert_int_equal(stop_matcher_push(m, " Zed", 4).safe, 1);
    assert_int_equal(stop_matcher_push(m, "!", 1).safe, 5);
    assert_same(stop_matcher_finish(m), (struct stop_result){ 5, 0, -1 });

    /* A stop inside the beginning of another one ends the text at once. */
    struct stop_string nested[] = { stop("ABCD"), stop("BC") };
    stop_matcher_start(m, nested, 2, 0);
    assert_same(stop_matcher_push(m, "xABCD", 5), (struct stop_result){ 2, 1, 1 });
}

static void text_that_cannot_become_a_stop_is_never_held(void **state)
{
    struct stop_matcher *m = *state;
    struct stop_string longest[] = { stop("<a very long stop string here>") };
    stop_matcher_start(m, longest, 1, 0);
    size_t pushed = 0;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(stop_matcher_push(m, "token ", 6).safe, pushed += 6);
}

static void no_stops_means_everything_passes(void **state)
{
    struct stop_matcher *m = *state;
    stop_matcher_start(m, NULL, 0, 0);
    assert_int_equal(stop_matcher_push(m, "anything\n", 9).safe, 9);
    assert_same(stop_matcher_finish(m), (struct stop_result){ 9, 0, -1 });
}

static void bad_stop_strings_are_named(void **state)
{
    (void)state;
    struct error err;
    struct stop_string stops[MAX_STOPS + 1];
    for (int i = 0; i <= MAX_STOPS; i++)
        stops[i] = stop("x");
    assert_int_equal(stop_strings_check(stops, MAX_STOPS, &limits, &err), STATUS_OK);
    assert_int_equal(stop_strings_check(stops, MAX_STOPS + 1, &limits, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "at most 6 strings, got 7"));
    stops[1] = stop("");
    assert_int_equal(stop_strings_check(stops, 2, &limits, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "string 1 is empty"));
    stops[1] = stop("0123456789012345678901234567890123");
    assert_int_equal(stop_strings_check(stops, 2, &limits, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "34 bytes, limit 32"));
    stops[1] = stop("\xc3");
    assert_int_equal(stop_strings_check(stops, 2, &limits, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "UTF-8"));
}

#define WITH_MATCHER(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_MATCHER(any_pieces_show_what_a_search_in_the_whole_text_shows),
        WITH_MATCHER(the_reported_cases_of_other_servers_hold),
        WITH_MATCHER(text_that_cannot_become_a_stop_is_never_held),
        WITH_MATCHER(no_stops_means_everything_passes),
        WITH_MATCHER(bad_stop_strings_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
