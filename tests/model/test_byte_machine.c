/* test_byte_machine - nesting and its limit, what seal refuses, and that forgetting states changes nothing.
 */
#include "base/rng.h"
#include "model/byte_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Rule 0: balanced brackets of two kinds around letters, ( [ a ] ) a. */
static void write_brackets(struct byte_program *p)
{
    byte_program_init(p, 1000);
    uint32_t rule = byte_program_rule_new(p);
    uint32_t loop = byte_program_loop_begin(p);
    uint32_t round = byte_program_call(p, rule, byte_program_range(p, ')', ')', loop));
    uint32_t square = byte_program_call(p, rule, byte_program_range(p, ']', ']', loop));
    uint32_t body = byte_program_split(p, byte_program_range(p, '(', '(', round),
                                       byte_program_range(p, '[', '[', square));
    body = byte_program_split(p, body, byte_program_range(p, 'a', 'c', loop));
    byte_program_loop_end(p, loop, body, byte_program_return(p));
    byte_program_rule_set(p, rule, loop);
    byte_program_rule_set(p, 0, byte_program_call(p, rule, byte_program_return(p)));
}

/* The oracle: a stack.  -1: not a beginning of any text; else the open brackets left. */
static int open_brackets(const char *text, size_t len, int max_depth)
{
    char stack[64];
    int depth = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '(' || c == '[') {
            if (depth == max_depth)
                return -1;
            stack[depth++] = c == '(' ? ')' : ']';
        } else if (c == ')' || c == ']') {
            if (depth == 0 || stack[--depth] != c)
                return -1;
        } else if (c < 'a' || c > 'c') {
            return -1;
        }
    }
    return depth;
}

static void check_text(struct byte_machine *m, const char *text, size_t len, int max_depth, int *n_full)
{
    uint32_t state = byte_machine_first(m);
    for (size_t i = 0; i < len; i++) {
        uint32_t next;
        enum status status = byte_machine_step(m, state, (uint8_t)text[i], &next);
        if (status == STATUS_BUSY) {
            ++*n_full;
            byte_machine_collect(m, &state, 1);
            status = byte_machine_step(m, state, (uint8_t)text[i], &next);
        }
        assert_int_equal(status, STATUS_OK);
        state = next;
        int want = open_brackets(text, i + 1, max_depth);
        assert_int_equal(state != BYTE_MACHINE_DEAD, want >= 0);
        assert_int_equal(byte_machine_is_accepting(m, state), want == 0);
        if (want < 0)
            return;
    }
}

static void nesting_is_followed_up_to_its_limit(void **state)
{
    (void)state;
    static const char letters[] = "((([[[)))]]]abcd";
    struct byte_program p;
    struct byte_machine *m;
    struct rng rng;
    rng_seed(&rng, 1);
    write_brackets(&p);
    assert_int_equal(byte_program_seal(&p, 9, NULL), STATUS_OK);
    /* Few states: the machine is full all the time. */
    for (uint32_t max_states = 8; max_states <= 4096; max_states *= 512) {
        int n_full = 0;
        assert_int_equal(byte_machine_create(&m, &p, 9, max_states, NULL), STATUS_OK);
        for (int round = 0; round < 20000; round++) {
            char text[64];
            size_t len = rng_below(&rng, sizeof text + 1);
            int depth = 0;
            for (size_t i = 0; i < len; i++) {
                /* Mostly what fits: the matching bracket if one is to be closed. */
                text[i] = letters[rng_below(&rng, sizeof letters - 1)];
                depth = open_brackets(text, i + 1, 100);
                if (depth < 0 && rng_below(&rng, 20) > 0)
                    text[i] = 'a';
            }
            /* One frame goes to the outermost call. */
            check_text(m, text, len, 8, &n_full);
        }
        assert_int_equal(n_full > 100, max_states == 8);
        byte_machine_destroy(m);
    }
    byte_program_clear(&p);
}

/* 0 -> x | d e B,  B -> ( 0 ):  behind "d" two more frames are needed, and the "e"
 * between hides that from whoever looks one byte ahead only. */
static void a_way_that_could_not_be_finished_is_not_begun(void **state)
{
    (void)state;
    struct byte_program p;
    struct byte_machine *m;
    byte_program_init(&p, 100);
    uint32_t inner = byte_program_rule_new(&p), end = byte_program_return(&p);
    uint32_t close = byte_program_range(&p, ')', ')', end);
    byte_program_rule_set(&p, inner, byte_program_range(&p, '(', '(', byte_program_call(&p, 0, close)));
    uint32_t deeper = byte_program_literal(&p, "de", 2, byte_program_call(&p, inner, byte_program_return(&p)));
    uint32_t flat = byte_program_range(&p, 'x', 'x', byte_program_return(&p));
    byte_program_rule_set(&p, 0, byte_program_split(&p, flat, deeper));
    assert_int_equal(byte_program_seal(&p, 3, NULL), STATUS_OK);
    assert_int_equal(byte_machine_create(&m, &p, 3, 64, NULL), STATUS_OK);
    uint32_t at = byte_machine_first(m), next;
    for (const char *c = "de("; *c != '\0'; c++) {
        assert_int_equal(byte_machine_step(m, at, (uint8_t)*c, &at), STATUS_OK);
        assert_int_not_equal(at, BYTE_MACHINE_DEAD);
    }
    assert_int_equal(byte_machine_step(m, at, 'd', &next), STATUS_OK);
    assert_int_equal(next, BYTE_MACHINE_DEAD);
    assert_int_equal(byte_machine_step(m, at, 'x', &at), STATUS_OK);
    assert_int_equal(byte_machine_step(m, at, ')', &at), STATUS_OK);
    assert_true(byte_machine_is_finished(m, at));
    byte_machine_destroy(m);
    byte_program_clear(&p);
}

static void roots_survive_a_collect_with_new_numbers(void **state)
{
    (void)state;
    struct byte_program p;
    struct byte_machine *m;
    write_brackets(&p);
    assert_int_equal(byte_program_seal(&p, 20, NULL), STATUS_OK);
    assert_int_equal(byte_machine_create(&m, &p, 20, 256, NULL), STATUS_OK);
    static const char *const texts[] = { "((([", "", "([([(", "a", "()", "[(", ")" };
    enum { N = sizeof texts / sizeof texts[0] };
    uint32_t roots[N];
    for (int i = 0; i < N; i++) {
        roots[i] = byte_machine_first(m);
        for (const char *c = texts[i]; *c != '\0'; c++)
            assert_int_equal(byte_machine_step(m, roots[i], (uint8_t)*c, &roots[i]), STATUS_OK);
    }
    for (int round = 0; round < 3; round++) {
        byte_machine_collect(m, roots, N);
        for (int i = 0; i < N; i++) {
            assert_int_equal(roots[i] == BYTE_MACHINE_DEAD, i == N - 1);
            uint32_t end = roots[i];
            for (size_t k = strlen(texts[i]); k-- > 0;)
                if (texts[i][k] == '(' || texts[i][k] == '[')
                    if (open_brackets(texts[i], strlen(texts[i]), 100) > 0)
                        assert_int_equal(byte_machine_step(m, end, texts[i][k] == '(' ? ')' : ']', &end),
                                         STATUS_OK);
            assert_int_equal(byte_machine_is_accepting(m, end), i != N - 1);
        }
    }
    byte_machine_destroy(m);
    byte_program_clear(&p);
}

static void equal_sets_are_one_state(void **state)
{
    (void)state;
    struct byte_program p;
    struct byte_machine *m;
    write_brackets(&p);
    assert_int_equal(byte_program_seal(&p, 20, NULL), STATUS_OK);
    assert_int_equal(byte_machine_create(&m, &p, 20, 64, NULL), STATUS_OK);
    uint32_t a, b;
    assert_int_equal(byte_machine_step(m, byte_machine_first(m), 'a', &a), STATUS_OK);
    assert_int_equal(byte_machine_step(m, byte_machine_first(m), 'c', &b), STATUS_OK);
    assert_int_equal(a, b);
    assert_int_equal(byte_machine_step(m, a, '(', &b), STATUS_OK);
    assert_int_equal(byte_machine_step(m, b, ')', &b), STATUS_OK);
    assert_int_equal(a, b);
    byte_machine_destroy(m);
    byte_program_clear(&p);
}

/* (a|b)*a(a|b){12} has 2^13 deterministic states. */
static void a_machine_too_small_for_a_language_still_decides_it(void **state)
{
    (void)state;
    struct byte_program p;
    struct byte_machine *m;
    struct rng rng;
    rng_seed(&rng, 2);
    byte_program_init(&p, 1000);
    uint32_t pc = byte_program_return(&p);
    for (int i = 0; i < 12; i++)
        pc = byte_program_range(&p, 'a', 'b', pc);
    pc = byte_program_range(&p, 'a', 'a', pc);
    uint32_t loop = byte_program_loop_begin(&p);
    byte_program_loop_end(&p, loop, byte_program_range(&p, 'a', 'b', loop), pc);
    byte_program_rule_set(&p, 0, loop);
    assert_int_equal(byte_program_seal(&p, 1, NULL), STATUS_OK);
    assert_int_equal(byte_machine_create(&m, &p, 1, 64, NULL), STATUS_OK);
    char text[4000];
    uint32_t at = byte_machine_first(m);
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = rng_below(&rng, 2) == 0 ? 'a' : 'b';
        if (byte_machine_step(m, at, (uint8_t)text[i], &at) == STATUS_BUSY) {
            byte_machine_collect(m, &at, 1);
            assert_int_equal(byte_machine_step(m, at, (uint8_t)text[i], &at), STATUS_OK);
        }
        assert_int_equal(byte_machine_is_accepting(m, at), i >= 12 && text[i - 12] == 'a');
    }
    byte_machine_destroy(m);
    byte_program_clear(&p);
}

static void a_state_that_never_fits_is_too_large(void **state)
{
    (void)state;
    struct byte_program p;
    struct byte_machine *m;
    byte_program_init(&p, 5000);
    /* After n bytes 'a' the text may be at any of the last n places. */
    uint32_t pc = byte_program_return(&p);
    for (int i = 0; i < 1000; i++)
        pc = byte_program_range(&p, 'a', 'a', pc);
    uint32_t loop = byte_program_loop_begin(&p);
    byte_program_loop_end(&p, loop, byte_program_range(&p, 'a', 'a', loop), pc);
    byte_program_rule_set(&p, 0, loop);
    assert_int_equal(byte_program_seal(&p, 1, NULL), STATUS_OK);
    assert_int_equal(byte_machine_create(&m, &p, 1, 16, NULL), STATUS_OK);
    uint32_t at = byte_machine_first(m);
    enum status status = STATUS_OK;
    int n = 0;
    for (; n < 1000 && status == STATUS_OK; n++) {
        status = byte_machine_step(m, at, 'a', &at);
        if (status == STATUS_BUSY) {
            byte_machine_collect(m, &at, 1);
            status = byte_machine_step(m, at, 'a', &at);
        }
    }
    assert_int_equal(status, STATUS_TOO_LARGE);
    assert_in_range(n, 20, 600);
    byte_machine_destroy(m);
    byte_program_clear(&p);
}

/* What seal refuses, one program each. */
static enum status seal(void (*write)(struct byte_program *p), uint32_t max_depth, struct error *err)
{
    struct byte_program p;
    byte_program_init(&p, 100);
    write(&p);
    enum status status = byte_program_seal(&p, max_depth, err);
    byte_program_clear(&p);
    return status;
}

static void calls_itself_first(struct byte_program *p)
{
    byte_program_rule_set(
        p, 0,
        byte_program_split(p, byte_program_call(p, 0, byte_program_return(p)), byte_program_return(p)));
}

/* 0 -> x 0 where x may be empty. */
static void calls_itself_behind_an_empty_rule(struct byte_program *p)
{
    uint32_t x = byte_program_rule_new(p), end = byte_program_return(p);
    byte_program_rule_set(p, x, byte_program_split(p, byte_program_range(p, 'a', 'a', end), end));
    uint32_t self = byte_program_call(p, x, byte_program_call(p, 0, byte_program_return(p)));
    byte_program_rule_set(
        p, 0, byte_program_split(p, self, byte_program_range(p, 'b', 'b', byte_program_return(p))));
}

/* 0 -> a 0: no text is finite. */
static void never_ends(struct byte_program *p)
{
    byte_program_rule_set(p, 0,
                          byte_program_range(p, 'a', 'a', byte_program_call(p, 0, byte_program_return(p))));
}

/* 0 -> 1 -> 2 -> 3 -> "a" */
static void needs_three_frames(struct byte_program *p)
{
    uint32_t rule[4] = { 0 };
    for (int i = 1; i < 4; i++)
        rule[i] = byte_program_rule_new(p);
    byte_program_rule_set(p, rule[3], byte_program_range(p, 'a', 'a', byte_program_return(p)));
    for (int i = 2; i >= 0; i--)
        byte_program_rule_set(p, rule[i], byte_program_call(p, rule[i + 1], byte_program_return(p)));
}

static void is_too_long(struct byte_program *p)
{
    uint32_t pc = byte_program_return(p);
    for (int i = 0; i < 200; i++)
        pc = byte_program_range(p, 'a', 'a', pc);
    byte_program_rule_set(p, 0, pc);
}

/* (((a*)*)*)* goes round without a byte, which is harmless. */
static void loops_in_loops(struct byte_program *p)
{
    uint32_t outer = byte_program_return(p), pc[4];
    for (int i = 0; i < 4; i++) {
        pc[i] = byte_program_loop_begin(p);
        byte_program_loop_end(p, pc[i], 0, outer);
        outer = pc[i];
    }
    uint32_t body = byte_program_range(p, 'a', 'a', pc[3]);
    for (int i = 3; i >= 0; i--) {
        byte_program_loop_end(p, pc[i], body, i == 0 ? 0 : pc[i - 1]);
        body = pc[i];
    }
    byte_program_rule_set(p, 0, pc[0]);
}

static void seal_refuses_what_cannot_be_run(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(seal(calls_itself_first, 9, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "refers to itself"));
    assert_int_equal(seal(calls_itself_behind_an_empty_rule, 9, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "refers to itself"));
    assert_int_equal(seal(never_ends, 9, &err), STATUS_BAD_REQUEST);
    assert_non_null(strstr(err.text, "no finite text"));
    assert_int_equal(seal(needs_three_frames, 2, &err), STATUS_BAD_REQUEST);
    assert_int_equal(seal(needs_three_frames, 3, &err), STATUS_OK);
    assert_int_equal(seal(is_too_long, 9, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "more than 100 instructions"));
    assert_int_equal(seal(loops_in_loops, 9, &err), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_is_followed_up_to_its_limit),
        cmocka_unit_test(a_way_that_could_not_be_finished_is_not_begun),
        cmocka_unit_test(roots_survive_a_collect_with_new_numbers),
        cmocka_unit_test(equal_sets_are_one_state),
        cmocka_unit_test(a_machine_too_small_for_a_language_still_decides_it),
        cmocka_unit_test(a_state_that_never_fits_is_too_large),
        cmocka_unit_test(seal_refuses_what_cannot_be_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
