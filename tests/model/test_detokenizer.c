/* test_detokenizer - text comes in whole characters, and the pieces together are the whole. */
#include "base/rng.h"
#include "base/utf8.h"
#include "model/detokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define META "\xe2\x96\x81"             /* U+2581 */

/* Tokens 0..255 are the bytes; 256 is "<end>", special; 257 is "<note>", not. */
static struct tokenizer *byte_tokenizer(void)
{
    json_t *vocab = json_object(), *added = json_array();
    for (int b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        json_object_set_new(vocab, text, json_integer(b));
    }
    json_array_append_new(added, json_pack("{s:i,s:s,s:b}", "id", 256, "content", "<end>", "special", 1));
    json_array_append_new(added, json_pack("{s:i,s:s}", "id", 257, "content", "<note>"));
    json_t *root = json_pack("{s:{s:o,s:[],s:b},s:o,s:{s:s}}", "model", "vocab", vocab, "merges",
                             "byte_fallback", 1,
                             "added_tokens", added, "decoder", "type", "ByteFallback");
    char *text = json_dumps(root, 0);
    struct tokenizer *t = NULL;
    struct error err;
    if (tokenizer_load_memory(&t, &(struct tokenizer_files){ .json = text, .json_len = strlen(text) },
                              &err) != STATUS_OK)
        fail_msg("%s", err.text);
    free(text);
    json_decref(root);
    return t;
}

/* U+FFFD for each longest beginning of a character: the rule of Unicode 15
 * section 3.9, table 3-7, written as its table of second bytes. */
static size_t reference_decode(const unsigned char *in, size_t n, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        unsigned c = in[i];
        size_t need = 9;                    /* no character begins with c */
        if (c < 0x80)
            need = 0;
        else if (c >= 0xc2 && c <= 0xf4)
            need = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
        size_t have = 0;
        unsigned low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
        unsigned high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        while (need != 9 && have < need && i + 1 + have < n && in[i + 1 + have] >= low &&
               in[i + 1 + have] <= high) {
            have++;
            low = 0x80;
            high = 0xbf;
        }
        if (have == need) {
            memcpy(out + used, in + i, need + 1);
            used += need + 1;
        } else {
            memcpy(out + used, "\xef\xbf\xbd", 3);
            used += 3;
        }
        i += 1 + have;
    }
    return used;
}

static void random_bytes_come_out_as_whole_characters(void **state)
{
    (void)state;
    struct tokenizer *t = byte_tokenizer();
    struct rng rng;
    rng_seed(&rng, 19);
    static const unsigned char likely[] = { 'a', 0xe6, 0xb7, 0xb1, 0xf0, 0x9f, 0x91, 0xa8, 0xc3, 0xa9, 0xed,
                                            0xa0, 0xe0, 0xf4, 0x90, 0x80, 0xbf, 0xff, 0xc0, 0xc1, 0xf5 };
    for (int round = 0; round < 20000; round++) {
        unsigned char in[24];
        char want[96];
        size_t n = (size_t)rng_below(&rng, sizeof in);
        for (size_t i = 0; i < n; i++)
            in[i] = rng_below(&rng, 8) == 0 ? (unsigned char)rng_below(&rng, 256)
                                            : likely[rng_below(&rng, sizeof likely)];
        size_t n_want = reference_decode(in, n, want);
        struct buf out;
        buf_init(&out, 200);
        struct detokenizer d;
        detokenizer_init(&d, t, 1, 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(detokenizer_push(&d, in[i], &out), STATUS_OK);
            assert_true(utf8_is_valid(out.data == NULL ? "" : out.data, out.len));
            assert_true(d.n_pending <= 3);
        }
        assert_int_equal(detokenizer_flush(&d, &out), STATUS_OK);
        assert_int_equal(out.len, n_want);
        if (n_want > 0)
            assert_memory_equal(out.data, want, n_want);
        buf_clear(&out);
    }
    tokenizer_destroy(t);
}

static void a_character_appears_with_its_last_byte(void **state)
{
    (void)state;
    struct tokenizer *t = byte_tokenizer();
    struct buf out;
    buf_init(&out, 100);
    struct detokenizer d;
    detokenizer_init(&d, t, 1, 0);
    const unsigned char thumb[4] = { 0xf0, 0x9f, 0x91, 0x8d };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(detokenizer_push(&d, thumb[i], &out), STATUS_OK);
        assert_int_equal(out.len, i == 3 ? 4 : 0);
    }
    assert_int_equal(detokenizer_push(&d, 0xf0, &out), STATUS_OK);
    assert_int_equal(detokenizer_push(&d, 0x9f, &out), STATUS_OK);
    assert_int_equal(out.len, 4);
    assert_int_equal(detokenizer_flush(&d, &out), STATUS_OK);
    assert_string_equal(out.data, "\xf0\x9f\x91\x8d\xef\xbf\xbd");
    assert_int_equal(detokenizer_flush(&d, &out), STATUS_OK);
    assert_int_equal(out.len, 7);
    buf_clear(&out);
    tokenizer_destroy(t);
}

static void special_tokens_are_shown_or_skipped(void **state)
{
    (void)state;
    struct tokenizer *t = byte_tokenizer();
    const int32_t ids[] = { 'a', 0xc3, 256, 0xa9, 257, -5, 99999 };
    struct buf out;
    buf_init(&out, 100);
    assert_int_equal(detokenizer_decode(t, ids, 7, 1, &out), STATUS_OK);
    assert_string_equal(out.data, "a\xc3\xa9<note>");
    buf_reset(&out);
    assert_int_equal(detokenizer_decode(t, ids, 7, 0, &out), STATUS_OK);
    assert_string_equal(out.data, "a\xef\xbf\xbd<end>\xef\xbf\xbd<note>");
    buf_clear(&out);
    tokenizer_destroy(t);
}

static struct tokenizer *small_tokenizer(const char *decoder)
{
    char json[1024];
    snprintf(json, sizeof json,
             "{'model':{'vocab':{'" META "hi':0,'" META "':1,'" META META "x':2},"
             "'merges':[]},'added_tokens':[{'id':3,'content':'<s>','special':true}],'decoder':%s}", decoder);
    for (char *c = json; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;        /* JSON written with ' can be read in C */
    struct tokenizer *t = NULL;
    struct error err;
    if (tokenizer_load_memory(&t, &(struct tokenizer_files){ .json = json, .json_len = strlen(json) },
                              &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return t;
}

static void expect(const struct tokenizer *t, const int32_t *ids, size_t n, int continues, const char *want)
{
    struct buf out;
    buf_init(&out, 100);
    struct detokenizer d;
    detokenizer_init(&d, t, 1, continues);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(detokenizer_push(&d, ids[i], &out), STATUS_OK);
    assert_int_equal(detokenizer_flush(&d, &out), STATUS_OK);
    assert_string_equal(out.data == NULL ? "" : out.data, want);
    buf_clear(&out);
}

static void the_first_token_of_a_text_loses_its_space(void **state)
{
    (void)state;
    struct tokenizer *t = small_tokenizer("{'type':'Sequence','decoders':["
        "{'type':'Replace','pattern':{'String':'" META "'},'content':' '},{'type':'ByteFallback'},"
        "{'type':'Fuse'},"
        "{'type':'Strip','content':' ','start':1,'stop':0}]}");
    expect(t, (const int32_t[]){ 0, 0 }, 2, 0, "hi hi");
    expect(t, (const int32_t[]){ 3, 0, 0 }, 3, 0, "hi hi");
    expect(t, (const int32_t[]){ 1, 0 }, 2, 0, " hi");
    expect(t, (const int32_t[]){ 2 }, 1, 0, " x");
    expect(t, (const int32_t[]){ 0, 0 }, 2, 1, " hi hi");
    tokenizer_destroy(t);

    t = small_tokenizer("{'type':'Metaspace','replacement':'" META "'}");
    expect(t, (const int32_t[]){ 0, 0 }, 2, 0, "hi hi");
    expect(t, (const int32_t[]){ 3, 2, 2 }, 3, 0, "x  x");
    expect(t, (const int32_t[]){ 2 }, 1, 1, "  x");
    tokenizer_destroy(t);

    t = small_tokenizer("{'type':'Metaspace','replacement':'" META "','prepend_scheme':'never'}");
    expect(t, (const int32_t[]){ 0, 0 }, 2, 0, " hi hi");
    tokenizer_destroy(t);
}

static void a_full_output_is_reported(void **state)
{
    (void)state;
    struct tokenizer *t = byte_tokenizer();
    struct buf out;
    buf_init(&out, 2);
    const int32_t ids[] = { 'a', 'b', 'c' };
    assert_int_equal(detokenizer_decode(t, ids, 3, 1, &out), STATUS_TOO_LARGE);
    assert_string_equal(out.data, "ab");
    buf_clear(&out);
    tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_bytes_come_out_as_whole_characters),
        cmocka_unit_test(a_character_appears_with_its_last_byte),
        cmocka_unit_test(special_tokens_are_shown_or_skipped),
        cmocka_unit_test(the_first_token_of_a_text_loses_its_space),
        cmocka_unit_test(a_full_output_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
