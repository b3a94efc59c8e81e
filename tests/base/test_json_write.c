/* test_json_write - what is written is read back by jansson as the same text and the same number. */
#include "base/json_write.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The value jansson reads in out, which must be one value and nothing more. */
static json_t *read_back(const struct buf *out)
{
    json_error_t where;
    json_t *value = json_loadb(out->data, out->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
    if (value == NULL)
        fail_msg("'%.*s' is not JSON: %s", (int)out->len, out->data, where.text);
    return value;
}

static void valid_text_comes_back_byte_for_byte(void **state)
{
    (void)state;
    static const struct { const char *text; size_t len; } cases[] = {
        { "", 0 }, { "plain", 5 }, { "\"quoted\\ \"", 10 }, { "a\nb\rc\td\be\ff", 11 }, { "nul\0in", 6 },
        { "\x01\x1f\x7f", 3 }, { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9 }, { "</script>", 9 },
        { "\xe2\x80\xa8\xe2\x80\xa9", 6 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf out;
        buf_init(&out, 1000);
        assert_int_equal(json_write_string(&out, cases[i].text, cases[i].len), STATUS_OK);
        json_t *value = read_back(&out);
        assert_int_equal(json_string_length(value), cases[i].len);
        assert_memory_equal(json_string_value(value), cases[i].text, cases[i].len);
        json_decref(value);
        buf_clear(&out);
    }
}

static void no_control_byte_is_ever_written_raw(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1000);
    for (int c = 0; c < 0x20; c++) {
        char text = (char)c;
        assert_int_equal(json_write_string(&out, &text, 1), STATUS_OK);
    }
    for (size_t i = 0; i < out.len; i++)
        assert_true((unsigned char)out.data[i] >= 0x20);
    buf_clear(&out);
}

static void invalid_bytes_become_the_replacement_character(void **state)
{
    (void)state;
    static const struct { const char *text, *want; } cases[] = {
        { "\xff", "\xef\xbf\xbd" }, { "a\xc3", "a\xef\xbf\xbd" }, { "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, { "\xc3(", "\xef\xbf\xbd(" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf out;
        buf_init(&out, 100);
        assert_int_equal(json_write_cstring(&out, cases[i].text), STATUS_OK);
        json_t *value = read_back(&out);
        assert_string_equal(json_string_value(value), cases[i].want);
        json_decref(value);
        buf_clear(&out);
    }
}

static void random_bytes_always_make_valid_json(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 6);
    for (int round = 0; round < 20000; round++) {
        char text[40];
        size_t len = rng_below(&rng, sizeof text);
        for (size_t i = 0; i < len; i++) {
            uint64_t x = rng_next(&rng);
            text[i] = (char)(x & 1 ? x >> 8 : 0x80 | (x >> 8 & 0x7f));
        }
        struct buf out;
        buf_init(&out, 1000);
        assert_int_equal(json_write_string(&out, text, len), STATUS_OK);
        json_decref(read_back(&out));
        buf_clear(&out);
    }
}

static void a_string_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    for (size_t max = 0; max < 12; max++) {
        struct buf out;
        buf_init(&out, max);
        assert_int_equal(json_write_cstring(&out, "ab\n\x01"), max < 12 ? STATUS_TOO_LARGE : STATUS_OK);
        buf_clear(&out);
    }
}

static void integers_come_back_at_both_ends(void **state)
{
    (void)state;
    static const int64_t values[] = { 0, 1, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 53, 42 };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct buf out;
        buf_init(&out, 100);
        assert_int_equal(json_write_int(&out, values[i]), STATUS_OK);
        json_t *value = read_back(&out);
        assert_true(json_is_integer(value) && json_integer_value(value) == values[i]);
        json_decref(value);
        buf_clear(&out);
    }
}

/* Digits that carry value: no leading zeros, no exponent. */
static int significant_digits(const char *text)
{
    int n = 0, zeros = 0;
    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text == '0' && n == 0)
            continue;
        if (*text < '0' || *text > '9')
            continue;
        n++;
        zeros = *text == '0' ? zeros + 1 : 0;
    }
    return n - zeros;
}

static void random_floats_come_back_exactly_in_the_fewest_digits(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < 200000; round++) {
        uint32_t bits = (uint32_t)rng_next(&rng);
        float x;
        memcpy(&x, &bits, sizeof x);
        if (fpclassify(x) != FP_NORMAL)     /* a subnormal float has fewer digits than the search starts at */
            continue;
        struct buf out;
        buf_init(&out, 100);
        assert_int_equal(json_write_float(&out, x), STATUS_OK);
        if ((float)strtod(out.data, NULL) != x)
            fail_msg("%a was written as %s", (double)x, out.data);
        char shorter[400];
        int digits = significant_digits(out.data);
        snprintf(shorter, sizeof shorter, "%.*g", digits > 1 ? digits - 1 : 1, (double)x);
        if (digits > 1 && strtof(shorter, NULL) == x)
            fail_msg("%s would do for %s", shorter, out.data);
        if (round % 100 == 0)
            json_decref(read_back(&out));
        buf_clear(&out);
    }
}

static void the_smallest_floats_come_back_exactly(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x800000; bits += 37) {
        float x;
        memcpy(&x, &bits, sizeof x);
        struct buf out;
        buf_init(&out, 100);
        assert_int_equal(json_write_float(&out, x), STATUS_OK);
        if (strtof(out.data, NULL) != x)
            fail_msg("%a was written as %s", (double)x, out.data);
        buf_clear(&out);
    }
}

static void random_doubles_come_back_exactly(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 8);
    for (int round = 0; round < 100000; round++) {
        uint64_t bits = rng_next(&rng);
        double x;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x))
            continue;
        struct buf out;
        buf_init(&out, 100);
        assert_int_equal(json_write_double(&out, x), STATUS_OK);
        if (strtod(out.data, NULL) != x)
            fail_msg("%a was written as %s", x, out.data);
        buf_clear(&out);
    }
}

static void numbers_that_json_has_not_become_the_agreed_value(void **state)
{
    (void)state;
    static const double values[] = { INFINITY, -INFINITY, NAN };
    for (size_t i = 0; i < 3; i++) {
        struct buf out;
        buf_init(&out, 100);
        assert_int_equal(json_write_float(&out, (float)values[i]), STATUS_OK);
        assert_string_equal(out.data, "-9999.0");
        buf_reset(&out);
        assert_int_equal(json_write_double(&out, values[i]), STATUS_OK);
        assert_string_equal(out.data, "-9999.0");
        buf_clear(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_text_comes_back_byte_for_byte),
        cmocka_unit_test(no_control_byte_is_ever_written_raw),
        cmocka_unit_test(invalid_bytes_become_the_replacement_character),
        cmocka_unit_test(random_bytes_always_make_valid_json),
        cmocka_unit_test(a_string_that_does_not_fit_is_refused),
        cmocka_unit_test(integers_come_back_at_both_ends),
        cmocka_unit_test(random_floats_come_back_exactly_in_the_fewest_digits),
        cmocka_unit_test(the_smallest_floats_come_back_exactly),
        cmocka_unit_test(random_doubles_come_back_exactly),
        cmocka_unit_test(numbers_that_json_has_not_become_the_agreed_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
