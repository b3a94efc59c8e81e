/* test_bpe - the heap merges as the definition says: lowest rank first, then leftmost. */
#include "base/rng.h"
#include "model/bpe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct bpe *make(const char *json)
{
    json_t *model = json_loads(json, 0, NULL);
    assert_non_null(model);
    struct bpe *bpe = NULL;
    struct error err;
    if (bpe_create(&bpe, model, "test", &err) != STATUS_OK)
        fail_msg("%s", err.text);
    json_decref(model);
    return bpe;
}

static void expect(const struct bpe *bpe, const char *text, const char *want)
{
    int32_t ids[256];
    struct token_array out = { .ids = ids, .max = 256 };
    struct bpe_scratch scratch = { 0 };
    char got[1024] = "";
    assert_int_equal(bpe_encode(bpe, &scratch, text, strlen(text), &out), STATUS_OK);
    for (size_t i = 0; i < out.n; i++) {
        size_t len;
        strcat(got, i == 0 ? "" : "|");
        strcat(got, vocab_text(bpe_vocab(bpe), ids[i], &len));
    }
    assert_string_equal(got, want);
    bpe_scratch_clear(&scratch);
}

static void the_lowest_rank_goes_first_then_the_leftmost(void **state)
{
    (void)state;
    struct bpe *bpe = make("{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"aa\":5,\"abc\":6},"
                           "\"merges\":[\"b c\",\"a a\",\"a b\",\"ab c\"]}");
    expect(bpe, "abc", "a|bc");
    expect(bpe, "aaa", "aa|a");
    expect(bpe, "aaaa", "aa|aa");
    expect(bpe, "ab", "ab");
    expect(bpe, "abab", "ab|ab");
    expect(bpe, "", "");
    expect(bpe, "axb", "ab");               /* no unknown token: x is dropped before the merges */
    bpe_destroy(bpe);
}

static void a_whole_piece_can_go_before_the_merges(void **state)
{
    (void)state;
    const char *form = "{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"bc\":3,\"abc\":4},\"merges\":[[\"b\",\"c\"]],"
                       "\"ignore_merges\":%s}";
    char json[256];
    snprintf(json, sizeof json, form, "false");
    struct bpe *bpe = make(json);
    expect(bpe, "abc", "a|bc");
    bpe_destroy(bpe);
    snprintf(json, sizeof json, form, "true");
    bpe = make(json);
    expect(bpe, "abc", "abc");
    expect(bpe, "abca", "a|bc|a");
    bpe_destroy(bpe);
}

static void unknown_characters_are_bytes_or_the_unknown_token(void **state)
{
    (void)state;
    const char *form = "{\"vocab\":{\"?\":0,\"a\":1,\"<0xC3>\":2,\"<0xA9>\":3,\"<0xFF>\":4},\"merges\":[],"
                       "\"unk_token\":\"?\",\"byte_fallback\":%s,\"fuse_unk\":%s}";
    char json[256];
    snprintf(json, sizeof json, form, "true", "false");
    struct bpe *bpe = make(json);
    expect(bpe, "a\xc3\xa9" "a", "a|<0xC3>|<0xA9>|a");
    expect(bpe, "a\xff", "a|<0xFF>");
    expect(bpe, "xy" "a", "?|?|a");         /* their byte tokens are missing */
    bpe_destroy(bpe);
    snprintf(json, sizeof json, form, "false", "true");
    bpe = make(json);
    expect(bpe, "xy\xc3\xa9" "axa", "?|a|?|a");
    bpe_destroy(bpe);
}

/* ---- against the definition ---- */

#define N_LETTERS 4
#define MAX_MERGES 60

struct model {
    char texts[N_LETTERS + MAX_MERGES][64];
    int n_texts;
    int left[MAX_MERGES], right[MAX_MERGES], merged[MAX_MERGES];
    int n_merges;
};

static int find_text(const struct model *m, const char *text)
{
    for (int i = 0; i < m->n_texts; i++) {
        if (strcmp(m->texts[i], text) == 0)
            return i;
    }
    return -1;
}

static void random_model(struct model *m, struct rng *rng)
{
    memset(m, 0, sizeof *m);
    m->n_texts = N_LETTERS;
    for (int i = 0; i < N_LETTERS; i++)
        m->texts[i][0] = (char)('a' + i);
    for (int k = 0; k < MAX_MERGES; k++) {
        int left = (int)rng_below(rng, (uint64_t)m->n_texts);
        int right = (int)rng_below(rng, (uint64_t)m->n_texts);
        char joined[128];
        snprintf(joined, sizeof joined, "%s%s", m->texts[left], m->texts[right]);
        int seen = 0;
        for (int i = 0; i < m->n_merges; i++)
            seen |= m->left[i] == left && m->right[i] == right;
        if (seen || strlen(joined) > 12)
            continue;
        int merged = find_text(m, joined);
        if (merged < 0) {
            merged = m->n_texts++;
            strcpy(m->texts[merged], joined);
        }
        m->left[m->n_merges] = left;
        m->right[m->n_merges] = right;
        m->merged[m->n_merges++] = merged;
    }
}

static struct bpe *build(const struct model *m)
{
    json_t *vocab = json_object(), *merges = json_array();
    for (int i = 0; i < m->n_texts; i++)
        json_object_set_new(vocab, m->texts[i], json_integer(i));
    for (int i = 0; i < m->n_merges; i++)
        json_array_append_new(merges, json_pack("[s,s]", m->texts[m->left[i]], m->texts[m->right[i]]));
    json_t *model = json_pack("{s:o,s:o}", "vocab", vocab, "merges", merges);
    struct bpe *bpe = NULL;
    assert_int_equal(bpe_create(&bpe, model, "test", NULL), STATUS_OK);
    json_decref(model);
    return bpe;
}

/* Straight from the definition, one pass over all pairs for each merge. */
static size_t naive(const struct model *m, const char *text, int *ids)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        ids[i] = text[i] - 'a';
    for (;;) {
        int best = m->n_merges;
        size_t place = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            for (int k = 0; k < best; k++) {
                if (m->left[k] == ids[i] && m->right[k] == ids[i + 1]) {
                    best = k;
                    place = i;
                }
            }
        }
        if (best == m->n_merges)
            return n;
        ids[place] = m->merged[best];
        memmove(ids + place + 1, ids + place + 2, (n - place - 2) * sizeof *ids);
        n--;
    }
}

static void random_models_merge_as_the_definition_says(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 3);
    struct bpe_scratch scratch = { 0 };
    for (int round = 0; round < 200; round++) {
        struct model m;
        random_model(&m, &rng);
        struct bpe *bpe = build(&m);
        for (int k = 0; k < 20; k++) {
            char text[128] = "";
            size_t len = (size_t)rng_below(&rng, 100);
            for (size_t i = 0; i < len; i++)
                text[i] = (char)('a' + rng_below(&rng, k < 5 ? 1 : N_LETTERS));
            int want[128];
            int32_t got[128];
            size_t n = naive(&m, text, want);
            struct token_array out = { .ids = got, .max = 128 };
            assert_int_equal(bpe_encode(bpe, &scratch, text, len, &out), STATUS_OK);
            assert_int_equal(out.n, n);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(got[i], want[i]);
        }
        bpe_destroy(bpe);
    }
    bpe_scratch_clear(&scratch);
}

static void sixteen_megabytes_in_one_piece_take_seconds(void **state)
{
    (void)state;
    struct bpe *bpe = make("{\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2,\"b\":3,\"ab\":4},"
                           "\"merges\":[\"a a\",\"aa aa\",\"a b\"]}");
    size_t len = (size_t)16 << 20;
    char *text = malloc(len);
    memset(text, 'a', len);
    struct bpe_scratch scratch = { 0 };
    struct token_array out = { 0 };
    clock_t before = clock();
    assert_int_equal(bpe_encode(bpe, &scratch, text, len, &out), STATUS_OK);
    assert_int_equal(out.n, len / 4);
    assert_true((double)(clock() - before) / CLOCKS_PER_SEC < 60);
    bpe_scratch_clear(&scratch);
    free(text);
    bpe_destroy(bpe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_rank_goes_first_then_the_leftmost),
        cmocka_unit_test(a_whole_piece_can_go_before_the_merges),
        cmocka_unit_test(unknown_characters_are_bytes_or_the_unknown_token),
        cmocka_unit_test(random_models_merge_as_the_definition_says),
        cmocka_unit_test(sixteen_megabytes_in_one_piece_take_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
