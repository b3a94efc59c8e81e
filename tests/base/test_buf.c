/* test_buf - a buffer grows up to its maximum and not a byte further, and refuses whole. */
#include "base/buf.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void an_empty_buffer_holds_nothing_and_owns_nothing(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    assert_null(b.data);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_add(&b, "", 0), STATUS_OK);
    assert_int_equal(b.len, 0);
    buf_reset(&b);
    buf_drop_front(&b, 0);
    buf_clear(&b);
    buf_clear(&b);
}

static void exactly_max_bytes_fit_and_one_more_is_refused_whole(void **state)
{
    (void)state;
    for (size_t max = 0; max < 300; max++) {
        struct buf b;
        buf_init(&b, max);
        for (size_t i = 0; i < max; i++)
            assert_int_equal(buf_add_char(&b, (char)('a' + i % 26)), STATUS_OK);
        assert_int_equal(buf_add_char(&b, '!'), STATUS_TOO_LARGE);
        assert_int_equal(buf_add_text(&b, "!!"), STATUS_TOO_LARGE);
        assert_int_equal(buf_printf(&b, "%d", 7), STATUS_TOO_LARGE);
        assert_int_equal(buf_reserve(&b, 1), STATUS_TOO_LARGE);
        assert_int_equal(b.len, max);
        assert_true(b.capacity <= max + 1);
        for (size_t i = 0; i < max; i++)
            assert_int_equal(b.data[i], 'a' + (int)(i % 26));
        if (max > 0)
            assert_int_equal(b.data[max], '\0');
        buf_clear(&b);
    }
}

static void a_write_longer_than_the_room_changes_nothing(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 8);
    assert_int_equal(buf_add_text(&b, "12345"), STATUS_OK);
    assert_int_equal(buf_add_text(&b, "6789"), STATUS_TOO_LARGE);
    assert_string_equal(b.data, "12345");
    assert_int_equal(buf_reserve(&b, SIZE_MAX), STATUS_TOO_LARGE);
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 4), STATUS_TOO_LARGE);
    assert_int_equal(buf_add_text(&b, "678"), STATUS_OK);
    assert_string_equal(b.data, "12345678");
    buf_clear(&b);
}

static void nothing_is_allocated_while_a_reserve_lasts(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100000);
    assert_int_equal(buf_reserve(&b, 50000), STATUS_OK);
    const char *data = b.data;
    size_t capacity = b.capacity;
    for (int i = 0; i < 50000; i++)
        assert_int_equal(buf_add_char(&b, 'x'), STATUS_OK);
    assert_ptr_equal(b.data, data);
    assert_int_equal(b.capacity, capacity);
    buf_reset(&b);
    assert_ptr_equal(b.data, data);
    assert_string_equal(b.data, "");
    buf_clear(&b);
    assert_int_equal(b.max, 100000);
}

static void printf_appends_text_longer_than_any_first_guess(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 5000);
    assert_int_equal(buf_printf(&b, "%s-%d;", "a", -5), STATUS_OK);
    assert_int_equal(buf_printf(&b, "%4000d", 1), STATUS_OK);
    assert_int_equal(b.len, 5 + 4000);
    assert_int_equal(memcmp(b.data, "a--5;", 5), 0);
    assert_int_equal(b.data[4004], '1');
    buf_clear(&b);
}

static void bytes_may_hold_zeros(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 16);
    assert_int_equal(buf_add(&b, "a\0b\0", 4), STATUS_OK);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, "a\0b\0", 5);
    buf_clear(&b);
}

/* The oracle is a plain array of the largest size. */
static void random_writes_and_drops_leave_what_an_array_would_hold(void **state)
{
    (void)state;
    enum { max = 700 };
    struct rng rng;
    rng_seed(&rng, 3);
    struct buf b;
    buf_init(&b, max);
    char want[max + 1];
    size_t len = 0;
    for (int round = 0; round < 20000; round++) {
        char piece[64];
        size_t n = rng_below(&rng, sizeof piece);
        if (rng_below(&rng, 3) == 0) {
            n = len > 0 ? rng_below(&rng, len + 1) : 0;
            buf_drop_front(&b, n);
            memmove(want, want + n, len - n);
            len -= n;
        } else {
            for (size_t i = 0; i < n; i++)
                piece[i] = (char)rng_next(&rng);
            int fits = len + n <= max;
            assert_int_equal(buf_add(&b, piece, n), fits ? STATUS_OK : STATUS_TOO_LARGE);
            if (fits) {
                memcpy(want + len, piece, n);
                len += n;
            }
        }
        assert_int_equal(b.len, len);
        if (len > 0)
            assert_memory_equal(b.data, want, len);
    }
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_holds_nothing_and_owns_nothing),
        cmocka_unit_test(exactly_max_bytes_fit_and_one_more_is_refused_whole),
        cmocka_unit_test(a_write_longer_than_the_room_changes_nothing),
        cmocka_unit_test(nothing_is_allocated_while_a_reserve_lasts),
        cmocka_unit_test(printf_appends_text_longer_than_any_first_guess),
        cmocka_unit_test(bytes_may_hold_zeros),
        cmocka_unit_test(random_writes_and_drops_leave_what_an_array_would_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
