/* test_status - the table of failures is complete, and fail() writes one bounded line. */
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#undef fail    /* cmocka's; the one meant here is ours */
#include <string.h>

static const enum status all[] = {
#define X(code, http, text) STATUS_##code,
    STATUS_MAP(X)
#undef X
};
#define N_STATUS (sizeof all / sizeof all[0])

static void every_status_has_its_own_name_a_meaning_and_an_http_code(void **state)
{
    (void)state;
    assert_int_equal(STATUS_OK, 0);
    for (size_t i = 0; i < N_STATUS; i++) {
        assert_int_equal(all[i], i);
        assert_true(strlen(status_name(all[i])) > 0 && strlen(status_meaning(all[i])) > 0);
        assert_in_range(status_http(all[i]), 200, 599);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(status_name(all[i]), status_name(all[j]));
    }
}

static void the_codes_that_clients_act_on_are_fixed(void **state)
{
    (void)state;
    static const struct { enum status s; const char *name; int http; } rows[] = {
        { STATUS_OK, "OK", 200 }, { STATUS_BAD_REQUEST, "BAD_REQUEST", 400 },
        { STATUS_UNAUTHORIZED, "UNAUTHORIZED", 401 }, { STATUS_NOT_FOUND, "NOT_FOUND", 404 },
        { STATUS_BAD_METHOD, "BAD_METHOD", 405 }, { STATUS_TIMED_OUT, "TIMED_OUT", 408 },
        { STATUS_TOO_LARGE, "TOO_LARGE", 413 }, { STATUS_OVERLOADED, "OVERLOADED", 429 },
        { STATUS_INTERNAL, "INTERNAL", 500 }, { STATUS_BUSY, "BUSY", 503 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(status_name(rows[i].s), rows[i].name);
        assert_int_equal(status_http(rows[i].s), rows[i].http);
    }
}

static void fail_returns_the_code_and_writes_the_sentence(void **state)
{
    (void)state;
    struct error err = { .code = STATUS_OK };
    enum status s = fail(&err, STATUS_TOO_LARGE, "prompt has %d tokens, limit %d", 5000, 4096);
    assert_int_equal(s, STATUS_TOO_LARGE);
    assert_int_equal(err.code, STATUS_TOO_LARGE);
    assert_string_equal(err.text, "prompt has 5000 tokens, limit 4096");
    assert_int_equal(fail(NULL, STATUS_BUSY, "nobody %s", "listens"), STATUS_BUSY);
}

static void a_sentence_is_one_line_whatever_is_quoted_in_it(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(fail(&err, STATUS_IO, "a%sb", "\r\n\x1b[31m\x7f\t"), STATUS_IO);
    assert_string_equal(err.text, "a   [31m  b");
}

static void a_long_sentence_is_cut_and_terminated(void **state)
{
    (void)state;
    char long_text[1000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    struct error err;
    assert_int_equal(fail(&err, STATUS_IO, "%s", long_text), STATUS_IO);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static enum status step(int *calls, enum status s)
{
    (*calls)++;
    return s;
}

static enum status three_steps(int *calls, enum status second)
{
    TRY(step(calls, STATUS_OK));
    TRY(step(calls, second));
    TRY(step(calls, STATUS_OK));
    return STATUS_OK;
}

static void try_stops_at_the_first_failure_and_hands_it_up(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(three_steps(&calls, STATUS_OK), STATUS_OK);
    assert_int_equal(calls, 3);
    calls = 0;
    assert_int_equal(three_steps(&calls, STATUS_PEER_FAILED), STATUS_PEER_FAILED);
    assert_int_equal(calls, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_name_a_meaning_and_an_http_code),
        cmocka_unit_test(the_codes_that_clients_act_on_are_fixed),
        cmocka_unit_test(fail_returns_the_code_and_writes_the_sentence),
        cmocka_unit_test(a_sentence_is_one_line_whatever_is_quoted_in_it),
        cmocka_unit_test(a_long_sentence_is_cut_and_terminated),
        cmocka_unit_test(try_stops_at_the_first_failure_and_hands_it_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
