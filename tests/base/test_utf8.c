/* test_utf8 - every sequence up to three bytes, and four-byte ones by sample, against a decoder of values. */
#include "base/rng.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

/* Encode a code point; the length. */
static size_t encode(uint32_t point, unsigned char out[4])
{
    if (point < 0x80) {
        out[0] = (unsigned char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (unsigned char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    static const unsigned char mark[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    out[0] = (unsigned char)(mark[n] | point);
    return n;
}

/* The oracle: take the bits, look at the value, and ask whether this is how the
 * value is written.  No table of allowed bytes. */
static size_t decoded_length(const unsigned char *text, size_t len)
{
    if (len == 0)
        return 0;
    size_t n = 1;
    while (n < 5 && (text[0] & (0x80 >> n)) != 0)
        n++;
    if ((text[0] & 0x80) == 0)
        return 1;
    if (n == 1 || n > 4 || n > len)
        return 0;
    uint32_t point = text[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (text[i] >> 6 != 2)
            return 0;
        point = point << 6 | (text[i] & 0x3f);
    }
    unsigned char again[4];
    if (point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff) || encode(point, again) != n)
        return 0;
    return n;
}

static void compare(const unsigned char *text, size_t len)
{
    size_t got = utf8_sequence_length((const char *)text, len);
    size_t want = decoded_length(text, len);
    if (got != want)
        fail_msg("%02x %02x %02x %02x of %zu: got %zu, want %zu",
                 text[0], text[1], text[2], text[3], len, got, want);
}

static void all_sequences_of_up_to_three_bytes_are_judged_right(void **state)
{
    (void)state;
    for (uint32_t x = 0; x < 1u << 24; x++) {
        unsigned char text[4] = { (unsigned char)(x >> 16), (unsigned char)(x >> 8), (unsigned char)x, 0 };
        compare(text, 3);
        if ((x & 0xff) == 0)
            compare(text, 2);
        if ((x & 0xffff) == 0)
            compare(text, 1);
    }
    assert_int_equal(utf8_sequence_length("a", 0), 0);
}

static void four_byte_sequences_are_judged_right_at_every_edge(void **state)
{
    (void)state;
    static const unsigned char edges[] = { 0x00, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff };
    enum { n = sizeof edges };
    for (int lead = 0; lead < 256; lead++)
        for (int second = 0; second < 256; second++)
            for (size_t k = 0; k < n * n; k++) {
                unsigned char text[4] = {
                    (unsigned char)lead, (unsigned char)second, edges[k / n], edges[k % n],
                };
                compare(text, 4);
            }
    struct rng rng;
    rng_seed(&rng, 4);
    for (int i = 0; i < 2000000; i++) {
        uint64_t x = rng_next(&rng);
        unsigned char text[4] = { (unsigned char)(0xe0 | (x & 31)), (unsigned char)(x >> 8),
                                  (unsigned char)(x >> 16), (unsigned char)(x >> 24) };
        compare(text, 1 + (x >> 32) % 4);
    }
}

static void every_code_point_is_valid_whole_and_incomplete_when_cut(void **state)
{
    (void)state;
    for (uint32_t point = 0; point <= 0x10ffff; point++) {
        unsigned char bytes[4];
        size_t n = encode(point, bytes);
        const char *text = (const char *)bytes;
        int surrogate = point >= 0xd800 && point <= 0xdfff;
        if (utf8_is_valid(text, n) == surrogate || utf8_incomplete_tail(text, n) != 0)
            fail_msg("U+%04X as a whole", point);
        for (size_t cut = 1; cut < n && !surrogate; cut++)
            if (utf8_incomplete_tail(text, cut) != cut || utf8_is_valid(text, cut))
                fail_msg("U+%04X cut after %zu", point, cut);
    }
}

/* What may still become valid: some continuation makes it so.  Tried out, with a
 * byte from each stretch that the encoding tells apart. */
static int can_be_completed(const unsigned char *tail, size_t len)
{
    static const unsigned char more[] = { 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf };
    enum { n_more = sizeof more };
    unsigned char text[6];
    memcpy(text, tail, len);
    for (size_t k = 0; k < n_more * n_more * n_more; k++) {
        text[len] = more[k % n_more];
        text[len + 1] = more[k / n_more % n_more];
        text[len + 2] = more[k / n_more / n_more];
        for (size_t n = len + 1; n <= 4; n++)
            if (decoded_length(text, n) == n)
                return 1;
    }
    return 0;
}

static void the_incomplete_tail_is_exactly_what_more_bytes_could_complete(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 5);
    static const unsigned char leads[] = {
        0x41, 0x80, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5,
    };
    for (int i = 0; i < 20000; i++) {
        uint64_t x = rng_next(&rng);
        unsigned char text[4] = { 'x', leads[x % sizeof leads], (unsigned char)(0x70 + (x >> 8) % 0x60),
                                  (unsigned char)(0x70 + (x >> 16) % 0x60) };
        size_t len = 2 + (x >> 24) % 3;
        size_t want = 0;
        for (size_t back = 1; back < len && want == 0; back++)
            if (can_be_completed(text + len - back, back))
                want = back;
        size_t got = utf8_incomplete_tail((const char *)text, len);
        if (got != want)
            fail_msg("%02x %02x %02x of %zu: got %zu, want %zu", text[1], text[2], text[3], len, got, want);
    }
}

static void characters_are_counted_and_stray_bytes_count_one_each(void **state)
{
    (void)state;
    assert_int_equal(utf8_count("", 0), 0);
    assert_int_equal(utf8_count("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 10), 4);
    assert_int_equal(utf8_count("\xff\xfe" "a\xe2\x82", 5), 5);
    assert_true(utf8_is_valid("", 0));
    assert_true(utf8_is_valid("\0", 1));
    assert_false(utf8_is_valid("ok\xc0\x80", 4));
    assert_true(utf8_is_valid(UTF8_REPLACEMENT, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sequences_of_up_to_three_bytes_are_judged_right),
        cmocka_unit_test(four_byte_sequences_are_judged_right_at_every_edge),
        cmocka_unit_test(every_code_point_is_valid_whole_and_incomplete_when_cut),
        cmocka_unit_test(the_incomplete_tail_is_exactly_what_more_bytes_could_complete),
        cmocka_unit_test(characters_are_counted_and_stray_bytes_count_one_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
