/* test_token_trie - the tree holds every token once, in preorder, with skips that jump over subtrees. */
#include "base/rng.h"
#include "model/token_trie.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 2000, MAX_LEN = 300 };

struct token {
    char bytes[MAX_LEN];
    size_t len;
};

static size_t bytes_of(void *context, int32_t token, const char **bytes)
{
    const struct token *tokens = context;
    *bytes = tokens[token].bytes;
    return tokens[token].len;
}

static void the_example_of_the_header_holds(void **state)
{
    (void)state;
    struct token tokens[5] = { { "a", 1 }, { "ab", 2 }, { "abc", 3 }, { "b", 1 }, { "ab", 2 } };
    struct token_trie_source source = { .vocab = 5, .bytes_of = bytes_of, .context = tokens };
    struct token_trie *trie;
    assert_int_equal(token_trie_create(&trie, &source, NULL), STATUS_OK);
    uint32_t n;
    const struct token_trie_node *nodes = token_trie_nodes(trie, &n);
    static const struct { uint8_t byte, depth; uint32_t skip, n_tokens; } want[] = {
        { 'a', 1, 3, 1 }, { 'b', 2, 3, 2 }, { 'c', 3, 3, 1 }, { 'b', 1, 4, 1 } };
    assert_int_equal(n, 4);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(nodes[i].byte, want[i].byte);
        assert_int_equal(nodes[i].depth, want[i].depth);
        assert_int_equal(nodes[i].skip, want[i].skip);
        assert_int_equal(nodes[i].n_tokens, want[i].n_tokens);
    }
    assert_int_equal(token_trie_tokens(trie)[nodes[1].first_token], 1);
    assert_int_equal(token_trie_tokens(trie)[nodes[1].first_token + 1], 4);
    token_trie_destroy(trie);
    token_trie_destroy(NULL);
}

/* Random tokens with shared beginnings, some empty, some of the longest length and past it. */
static void make_tokens(struct token *tokens, struct rng *rng)
{
    for (int t = 0; t < VOCAB; t++) {
        tokens[t].len = 0;
        if (t > 0 && rng_below(rng, 2) == 0)
            tokens[t] = tokens[rng_below(rng, (uint64_t)t)];
        size_t extra =
            rng_below(rng, 20) == 0 ? TOKEN_TRIE_MAX_BYTES - 2 + rng_below(rng, 5) : rng_below(rng, 4);
        for (; extra > 0 && tokens[t].len < MAX_LEN; extra--)
            tokens[t].bytes[tokens[t].len++] = (char)rng_below(rng, 4 + 252 * (uint64_t)(t % 2));
    }
}

static void every_token_is_found_on_its_path_and_nowhere_else(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 9);
    struct token *tokens = calloc(VOCAB, sizeof *tokens);
    for (int round = 0; round < 20; round++) {
        make_tokens(tokens, &rng);
        struct token_trie_source source = { .vocab = VOCAB, .bytes_of = bytes_of, .context = tokens };
        struct token_trie *trie;
        assert_int_equal(token_trie_create(&trie, &source, NULL), STATUS_OK);
        assert_int_equal(token_trie_vocab(trie), VOCAB);
        uint32_t n;
        const struct token_trie_node *nodes = token_trie_nodes(trie, &n);
        int n_found[VOCAB] = { 0 };
        char path[TOKEN_TRIE_MAX_BYTES];
        for (uint32_t i = 0; i < n; i++) {
            path[nodes[i].depth - 1] = (char)nodes[i].byte;
            assert_true(nodes[i].depth == 1 || i > 0);
            /* skip is the first later node that is not deeper. */
            uint32_t skip = i + 1;
            while (skip < n && nodes[skip].depth > nodes[i].depth)
                skip++;
            assert_int_equal(nodes[i].skip, skip);
            for (uint32_t k = 0; k < nodes[i].n_tokens; k++) {
                int32_t t = token_trie_tokens(trie)[nodes[i].first_token + k];
                n_found[t]++;
                assert_int_equal(tokens[t].len, nodes[i].depth);
                assert_memory_equal(tokens[t].bytes, path, tokens[t].len);
            }
        }
        for (int32_t t = 0; t < VOCAB; t++) {
            const char *bytes;
            int is_in = tokens[t].len > 0 && tokens[t].len <= TOKEN_TRIE_MAX_BYTES;
            assert_int_equal(n_found[t], is_in);
            assert_int_equal(token_trie_bytes(trie, t, &bytes), is_in ? tokens[t].len : 0);
            if (is_in)
                assert_memory_equal(bytes, tokens[t].bytes, tokens[t].len);
        }
        token_trie_destroy(trie);
    }
    free(tokens);
}

static void a_vocabulary_without_text_gives_an_empty_tree(void **state)
{
    (void)state;
    struct token tokens[3] = { { "", 0 } };
    struct token_trie_source source = { .vocab = 3, .bytes_of = bytes_of, .context = tokens };
    struct token_trie *trie;
    assert_int_equal(token_trie_create(&trie, &source, NULL), STATUS_OK);
    uint32_t n;
    token_trie_nodes(trie, &n);
    assert_int_equal(n, 0);
    token_trie_destroy(trie);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_header_holds),
        cmocka_unit_test(every_token_is_found_on_its_path_and_nowhere_else),
        cmocka_unit_test(a_vocabulary_without_text_gives_an_empty_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
