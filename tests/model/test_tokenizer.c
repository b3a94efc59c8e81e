/* test_tokenizer - the same tokens and the same text as the reference implementation, for every kind of file.
 *
 * The expected values in tests/model/data come from Hugging Face tokenizers
 * (make_tokenizer_cases.py); the properties need no oracle.
 */
#include "base/json_read.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "model/detokenizer.h"
#include "model/tokenizer.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA "tests/model/data/"
#define MAX_IDS 65536

static const char *const names[] = {
    "gpt2", "llama3", "deepseek_v3", "deepseek_v2", "kimi", "words", "llama2", "gemma",
    "metaspace_first", "metaspace_always", "metaspace_never", "demo",
};
#define N_NAMES (sizeof names / sizeof *names)

static const char *const byte_level_names[] = { "gpt2", "llama3", "deepseek_v3", "deepseek_v2", "kimi",
                                               "demo" };
#define N_BYTE_LEVEL (sizeof byte_level_names / sizeof *byte_level_names)

/* JSON written with ' for ", so that it can be read in C. */
static const char *with_quotes(char *out, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i <= n; i++)
        out[i] = text[i] == '\'' ? '"' : text[i];
    return out;
}

static json_t *read_cases(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, DATA "tokenizer_%s.json", name);
    json_t *root = NULL;
    struct error err;
    if (json_read_file(path, 1 << 24, STATUS_BAD_MODEL, &root, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return root;
}

static enum status load_json(struct tokenizer **t, const json_t *tokenizer, const char *config,
                             struct error *err)
{
    char *text = json_dumps(tokenizer, 0);
    assert_non_null(text);
    const struct tokenizer_files files = { .json = text, .json_len = strlen(text), .config = config,
                                           .config_len = config == NULL ? 0 : strlen(config) };
    enum status s = tokenizer_load_memory(t, &files, err);
    free(text);
    return s;
}

static struct tokenizer *must_load(const json_t *tokenizer, const char *config)
{
    struct tokenizer *t = NULL;
    struct error err;
    if (load_json(&t, tokenizer, config, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return t;
}

static struct tokenizer *load_named(const char *name)
{
    json_t *root = read_cases(name);
    struct tokenizer *t = must_load(json_object_get(root, "tokenizer"), NULL);
    json_decref(root);
    return t;
}

static size_t encode(const struct tokenizer *t, const char *text, size_t len, int add_special, int32_t *ids)
{
    struct token_array out = { .ids = ids, .max = MAX_IDS };
    struct error err;
    const struct tokenizer_input in = { .text = text, .len = len, .add_special = add_special };
    if (tokenizer_encode(t, &in, &out, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return out.n;
}

static size_t encode_text(const struct tokenizer *t, const char *text, int32_t *ids)
{
    return encode(t, text, strlen(text), 0, ids);
}

/* ---- against the reference ---- */

static int same_ids(const json_t *want, const int32_t *got, size_t n)
{
    int same = json_array_size(want) == n;
    for (size_t i = 0; same && i < n; i++)
        same = json_integer_value(json_array_get(want, i)) == got[i];
    return same;
}

static void check_ids(const char *name, const char *text, const json_t *want, const int32_t *got, size_t n)
{
    if (same_ids(want, got, n))
        return;
    char *wanted = json_dumps(want, JSON_COMPACT);
    char line[4096] = "";
    size_t used = 0;
    for (size_t i = 0; i < n && used + 16 < sizeof line; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%d,", got[i]);
    fail_msg("%s: '%s': want %s got [%s]", name, text, wanted, line);
}

static void every_case_of_the_reference_gives_the_same_tokens(void **state)
{
    (void)state;
    static int32_t ids[MAX_IDS];
    for (size_t i = 0; i < N_NAMES; i++) {
        json_t *root = read_cases(names[i]);
        struct tokenizer *t = must_load(json_object_get(root, "tokenizer"), NULL);
        const json_t *cases = json_object_get(root, "cases");
        assert_true(json_array_size(cases) > 80);
        for (size_t k = 0; k < json_array_size(cases); k++) {
            const json_t *c = json_array_get(cases, k);
            const json_t *text = json_object_get(c, "text");
            size_t n = encode(t, json_string_value(text), json_string_length(text), 0, ids);
            check_ids(names[i], json_string_value(text), json_object_get(c, "ids"), ids, n);
            n = encode(t, json_string_value(text), json_string_length(text), 1, ids);
            check_ids(names[i], json_string_value(text), json_object_get(c, "with_special"), ids, n);
        }
        tokenizer_destroy(t);
        json_decref(root);
    }
}

static void check_text(const char *name, const json_t *c, const char *field, const struct tokenizer *t,
                       int skip)
{
    const json_t *list = json_object_get(c, "ids");
    const json_t *want = json_object_get(c, field);
    if (want == NULL)
        return;                     /* a case the reference breaks: an_added_token_keeps_its_letters */
    struct buf out;
    buf_init(&out, 1 << 20);
    struct detokenizer d;
    detokenizer_init(&d, t, skip, 0);
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_int_equal(detokenizer_push(&d, (int32_t)json_integer_value(json_array_get(list, i)), &out),
                         STATUS_OK);
    assert_int_equal(detokenizer_flush(&d, &out), STATUS_OK);
    if (out.len != json_string_length(want) ||
        (out.len > 0 && memcmp(out.data, json_string_value(want), out.len) != 0))
        fail_msg("%s: %s: want '%s' got '%s'", name, field, json_string_value(want), out.data);
    buf_clear(&out);
}

static void every_case_of_the_reference_gives_the_same_text_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NAMES; i++) {
        json_t *root = read_cases(names[i]);
        struct tokenizer *t = must_load(json_object_get(root, "tokenizer"), NULL);
        const json_t *cases = json_object_get(root, "cases");
        for (size_t k = 0; k < json_array_size(cases); k++) {
            check_text(names[i], json_array_get(cases, k), "decoded", t, 0);
            check_text(names[i], json_array_get(cases, k), "decoded_skip", t, 1);
        }
        tokenizer_destroy(t);
        json_decref(root);
    }
}

/* Where we differ on purpose: the reference takes the letters of an added token
 * for mapped bytes and yields broken characters. */
static void an_added_token_keeps_its_letters(void **state)
{
    (void)state;
    int32_t ids[64];
    struct tokenizer *t = load_named("llama3");
    size_t n = encode_text(t, "die Gr\xc3\xb6\xc3\x9f" "e", ids);
    assert_int_equal(ids[n - 1], tokenizer_find(t, "Gr\xc3\xb6\xc3\x9f" "e", 7));
    struct buf out;
    buf_init(&out, 100);
    assert_int_equal(detokenizer_decode(t, ids, n, 1, &out), STATUS_OK);
    assert_string_equal(out.data, "die Gr\xc3\xb6\xc3\x9f" "e");
    buf_clear(&out);
    tokenizer_destroy(t);
}

/* ---- properties ---- */

/* Random bytes that are text in places: pieces of UTF-8, spaces, broken sequences. */
static size_t random_text(struct rng *rng, char *text, size_t max)
{
    static const char *const parts[] = { " ", "  ", "\n", "a", "the", "1234", "\xc3\xa9",
                                         "\xe6\xb7\xb1\xe5\xba\xa6",
                                         "\xf0\x9f\x91\xa8\xe2\x80\x8d", "\xe6\xad", "\xff", "\xc0\x80",
                                         "\xed\xa0\x80",
                                         "'s", "<s>", "<think>", "word", "\r\n", "!?", "\xe2\x96\x81" };
    size_t n = 0, want = (size_t)rng_below(rng, max);
    while (n < want) {
        if (rng_below(rng, 4) == 0) {
            text[n++] = (char)rng_below(rng, 256);
            continue;
        }
        const char *part = parts[rng_below(rng, sizeof parts / sizeof *parts)];
        if (n + strlen(part) > want)
            break;
        memcpy(text + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

static void byte_level_tokenizers_give_any_bytes_back(void **state)
{
    (void)state;
    static int32_t ids[MAX_IDS];
    char text[400];
    struct rng rng;
    rng_seed(&rng, 7);
    for (size_t i = 0; i < N_BYTE_LEVEL; i++) {
        struct tokenizer *t = load_named(byte_level_names[i]);
        for (int round = 0; round < 500; round++) {
            size_t len = random_text(&rng, text, sizeof text);
            size_t n = encode(t, text, len, 0, ids), at = 0;
            for (size_t k = 0; k < n; k++) {
                size_t n_bytes;
                const char *bytes = tokenizer_token_bytes(t, ids[k], &n_bytes);
                assert_true(n_bytes > 0 && at + n_bytes <= len);
                assert_memory_equal(bytes, text + at, n_bytes);
                at += n_bytes;
            }
            assert_int_equal(at, len);
        }
        tokenizer_destroy(t);
    }
}

static void byte_fallback_gives_stray_bytes_back(void **state)
{
    (void)state;
    static int32_t ids[MAX_IDS];
    struct tokenizer *t = load_named("gemma");
    const char text[] = "ab\xff\xfe c\xe6\xad d";
    size_t n = encode_text(t, text, ids);
    char got[64] = "";
    for (size_t k = 0; k < n; k++) {
        size_t n_bytes;
        const char *bytes = tokenizer_token_bytes(t, ids[k], &n_bytes);
        strncat(got, bytes, n_bytes);
    }
    assert_string_equal(got, text);
    tokenizer_destroy(t);
}

static void every_tokenizer_accepts_any_bytes(void **state)
{
    (void)state;
    static int32_t ids[MAX_IDS];
    char text[300];
    struct rng rng;
    rng_seed(&rng, 11);
    for (size_t i = 0; i < N_NAMES; i++) {
        struct tokenizer *t = load_named(names[i]);
        for (int round = 0; round < 300; round++) {
            size_t len = random_text(&rng, text, sizeof text);
            size_t n = encode(t, text, len, round & 1, ids);
            for (size_t k = 0; k < n; k++)
                assert_true(ids[k] >= 0 && ids[k] < tokenizer_n_ids(t));
        }
        tokenizer_destroy(t);
    }
}

static void a_partial_character_is_tokenised_without_an_error(void **state)
{
    (void)state;
    static int32_t ids[MAX_IDS];
    struct tokenizer *t = load_named("llama3");
    assert_int_equal(encode(t, "\xe6\xad", 2, 0, ids), 2);
    size_t len;
    assert_memory_equal(tokenizer_token_bytes(t, ids[0], &len), "\xe6", 2);
    assert_memory_equal(tokenizer_token_bytes(t, ids[1], &len), "\xad", 2);
    tokenizer_destroy(t);
}

/* The same result from two calls at once, under the thread sanitizer too. */
struct worker {
    const struct tokenizer *t;
    uint64_t sum;
};

static void *encode_many(void *arg)
{
    struct worker *w = arg;
    char text[400];
    int32_t *ids = malloc(MAX_IDS * sizeof *ids);
    struct rng rng;
    rng_seed(&rng, 5);
    for (int round = 0; round < 200; round++) {
        struct token_array out = { .ids = ids, .max = MAX_IDS };
        const struct tokenizer_input in = { .text = text, .len = random_text(&rng, text, sizeof text) };
        if (tokenizer_encode(w->t, &in, &out, NULL) != STATUS_OK)
            break;
        for (size_t i = 0; i < out.n; i++)
            w->sum = w->sum * 31 + (uint64_t)ids[i];
    }
    free(ids);
    return NULL;
}

static void two_threads_may_encode_at_the_same_time(void **state)
{
    (void)state;
    struct tokenizer *t = load_named("deepseek_v3");
    struct worker workers[3] = { { .t = t }, { .t = t }, { .t = t } };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_many, &workers[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    encode_many(&workers[2]);
    assert_true(workers[2].sum != 0);
    assert_true(workers[0].sum == workers[2].sum && workers[1].sum == workers[2].sum);
    tokenizer_destroy(t);
}

/* ---- size and time ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Runs on which a quadratic step would take minutes to hours. */
static void a_megabyte_without_a_cut_takes_seconds_at_most(void **state)
{
    (void)state;
    static const char *const runs[] = { " ", "a", "ab", "\n", " \n", "9", ".", "\t", "\xe6\xb7\xb1", "\xff",
                                        "'", "<",
                                        "<|im_start|>", "e\xcc\x81\xcc\x96", "\xcc\x81\xcc\x96", "word",
                                        "\xe2\x96\x81", "the " };
    size_t len = 1 << 20;
    char *text = malloc(len + 1);
    struct token_array out = { 0 };
    for (size_t i = 0; i < N_NAMES; i++) {
        struct tokenizer *t = load_named(names[i]);
        for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
            for (size_t at = 0; at < len; at++)
                text[at] = runs[k][at % strlen(runs[k])];
            text[len] = 'x';
            double before = seconds();
            out.n = 0;
            const struct tokenizer_input in = { .text = text, .len = len + 1 };
            assert_int_equal(tokenizer_encode(t, &in, &out, NULL), STATUS_TOO_LARGE);
            if (out.n == 0)
                fail_msg("%s: a run of '%s' gave no tokens", names[i], runs[k]);
            double took = seconds() - before;
            if (getenv("SHOWTIME")) printf("%s '%s' %.3f %zu\n", names[i], runs[k], took, out.n);
            if (took > 20)
                fail_msg("%s: a run of '%s' took %.1f s", names[i], runs[k], took);
        }
        tokenizer_destroy(t);
    }
    free(text);
}

static void too_many_tokens_are_counted_and_the_first_are_right(void **state)
{
    (void)state;
    struct tokenizer *t = load_named("gpt2");
    static int32_t all[MAX_IDS];
    int32_t few[3] = { -1, -1, -1 };
    const char *text = "one 2 three!";
    size_t n = encode_text(t, text, all);
    assert_true(n > 2);
    struct token_array out = { .ids = few, .max = 2 };
    struct error err;
    assert_int_equal(tokenizer_encode(t, &(struct tokenizer_input){ .text = text, .len = 12 }, &out, &err),
                     STATUS_TOO_LARGE);
    assert_int_equal(out.n, n);
    assert_memory_equal(few, all, 8);
    assert_int_equal(few[2], -1);
    assert_non_null(strstr(err.text, "limit 2"));
    const struct tokenizer_input huge = { .text = text, .len = TOKENIZER_MAX_TEXT + 1 };
    assert_int_equal(tokenizer_encode(t, &huge, &out, &err), STATUS_TOO_LARGE);
    tokenizer_destroy(t);
}

/* ---- special tokens and their roles ---- */

static void special_tokens_can_be_kept_as_text(void **state)
{
    (void)state;
    static int32_t ids[MAX_IDS];
    struct tokenizer *t = load_named("llama3");
    int32_t start = tokenizer_find(t, "<|im_start|>", 12);
    assert_true(start > 0 && tokenizer_is_special(t, start));
    assert_false(tokenizer_is_special(t, tokenizer_find(t, "<think>", 7)));
    assert_false(tokenizer_is_special(t, -1) || tokenizer_is_special(t, INT32_MAX));
    const char *text = "a<|im_start|>b<think>";
    struct token_array out = { .ids = ids, .max = MAX_IDS };
    const struct tokenizer_input in = { .text = text, .len = strlen(text), .specials_are_text = 1 };
    assert_int_equal(tokenizer_encode(t, &in, &out, NULL), STATUS_OK);
    for (size_t i = 0; i < out.n; i++)
        assert_int_not_equal(ids[i], start);
    assert_int_equal(ids[out.n - 1], tokenizer_find(t, "<think>", 7));
    out.n = 0;
    assert_int_equal(tokenizer_encode(t, &(struct tokenizer_input){ .text = text, .len = strlen(text) },
                                      &out, NULL),
                     STATUS_OK);
    assert_int_equal(ids[1], start);
    tokenizer_destroy(t);
}

static const struct {
    const char *name, *config;
    int n_before, n_after;          /* tokens around the text */
    int bos, eos;                   /* 1: known */
} frames[] = {
    { "deepseek_v3", "{'add_bos_token':true,'bos_token':{'content':'<s>'},'eos_token':'</s>'}",
      1, 0, 1, 1 },
    { "deepseek_v3",
      "{'add_bos_token':true,'add_eos_token':true,'bos_token':'<s>','eos_token':'</s>'}",
      1, 1, 1, 1 },
    { "deepseek_v3", "{'add_bos_token':false,'bos_token':'<s>'}", 0, 0, 1, 0 },
    { "deepseek_v3", "{'add_bos_token':true,'bos_token':null}", 0, 0, 0, 0 },
    { "deepseek_v3", "{'add_bos_token':true,'bos_token':'<nowhere>'}", 0, 0, 0, 0 },
    { "deepseek_v3", "{}", 0, 0, 0, 0 },
    { "llama3", "{'add_bos_token':true,'bos_token':'<s>'}", 1, 0, 1, 0 },
    { "llama3", "{'add_bos_token':false,'bos_token':'<s>'}", 1, 0, 1, 0 },
    { "llama3",
      "{'add_bos_token':false,'bos_token':'<s>','tokenizer_class':'LlamaTokenizerFast'}", 0, 0, 1, 0 },
};

static void the_config_decides_about_bos_and_eos(void **state)
{
    (void)state;
    static int32_t ids[MAX_IDS], plain[MAX_IDS];
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        json_t *root = read_cases(frames[i].name);
        char config[256];
        with_quotes(config, frames[i].config);
        struct tokenizer *t = must_load(json_object_get(root, "tokenizer"), config);
        json_decref(root);
        assert_int_equal(tokenizer_bos(t), frames[i].bos ? 0 : -1);
        assert_int_equal(tokenizer_eos(t), frames[i].eos ? 1 : -1);
        assert_int_equal(tokenizer_pad(t), -1);
        size_t n_plain = encode(t, "hi", 2, 0, plain);
        size_t n = encode(t, "hi", 2, 1, ids), n_before = (size_t)frames[i].n_before;
        assert_int_equal(n, n_plain + n_before + (size_t)frames[i].n_after);
        assert_memory_equal(ids + n_before, plain, n_plain * sizeof *ids);
        if (frames[i].n_before)
            assert_int_equal(ids[0], 0);
        if (frames[i].n_after)
            assert_int_equal(ids[n - 1], 1);
        tokenizer_destroy(t);
    }
}

static void tokens_know_their_text_and_bytes(void **state)
{
    (void)state;
    struct tokenizer *t = load_named("gpt2");
    size_t len;
    int32_t space = tokenizer_find(t, "\xc4\xa0", 2);
    assert_true(space >= 0);
    assert_string_equal(tokenizer_token_bytes(t, space, &len), " ");
    assert_string_equal(tokenizer_token_text(t, space, &len), "\xc4\xa0");
    assert_string_equal(tokenizer_token_bytes(t, tokenizer_find(t, "<s>", 3), &len), "<s>");
    assert_int_equal(tokenizer_find(t, "not a token", 11), -1);
    assert_string_equal(tokenizer_token_bytes(t, -1, &len), "");
    assert_int_equal(len, 0);
    assert_string_equal(tokenizer_token_bytes(t, tokenizer_n_ids(t), &len), "");
    assert_null(tokenizer_token_text(t, tokenizer_n_ids(t), &len));
    tokenizer_destroy(t);

    t = load_named("llama2");
    int32_t byte = tokenizer_find(t, "<0xE6>", 6);
    assert_string_equal(tokenizer_token_bytes(t, byte, &len), "\xe6");
    assert_string_equal(tokenizer_token_text(t, byte, &len), "<0xE6>");
    tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_of_the_reference_gives_the_same_tokens),
        cmocka_unit_test(every_case_of_the_reference_gives_the_same_text_back),
        cmocka_unit_test(an_added_token_keeps_its_letters),
        cmocka_unit_test(byte_level_tokenizers_give_any_bytes_back),
        cmocka_unit_test(byte_fallback_gives_stray_bytes_back),
        cmocka_unit_test(every_tokenizer_accepts_any_bytes),
        cmocka_unit_test(a_partial_character_is_tokenised_without_an_error),
        cmocka_unit_test(two_threads_may_encode_at_the_same_time),
        cmocka_unit_test(a_megabyte_without_a_cut_takes_seconds_at_most),
        cmocka_unit_test(too_many_tokens_are_counted_and_the_first_are_right),
        cmocka_unit_test(special_tokens_can_be_kept_as_text),
        cmocka_unit_test(the_config_decides_about_bos_and_eos),
        cmocka_unit_test(tokens_know_their_text_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
