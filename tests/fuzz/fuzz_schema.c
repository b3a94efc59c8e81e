/* fuzz_schema - any bytes as a JSON schema: refused with a sentence, or every text it lets through is JSON.
 */
#include "base/rng.h"
#include "model/grammar.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { END = 256, VOCAB = 257, MAX_DOC = 600 };

static size_t bytes_of(void *context, int32_t token, const char **bytes)
{
    *bytes = (const char *)context + token;
    return token == END ? 0 : 1;
}

static int is_allowed(const uint64_t *mask, int32_t t)
{
    return (int)(mask[t / 64] >> (t % 64) & 1);
}

/* A random allowed token, rather one that closes something; -1: none is. */
static int32_t choose(const uint64_t *mask, struct rng *rng)
{
    static const int32_t closing[] = { END, '"', '}', ']' };
    for (size_t i = 0; i < sizeof closing / sizeof closing[0]; i++)
        if (is_allowed(mask, closing[i]) && rng_below(rng, 3) == 0)
            return closing[i];
    int32_t t = (int32_t)rng_below(rng, VOCAB);
    for (int i = 0; i < VOCAB; i++, t = (t + 1) % VOCAB)
        if (is_allowed(mask, t))
            return t;
    return -1;
}

static void walk(struct grammar *g, struct rng *rng)
{
    char doc[MAX_DOC];
    grammar_start(g, 0);
    for (size_t len = 0; len < MAX_DOC; len++) {
        const uint64_t *mask;
        if (grammar_mask(g, 0, &mask, NULL) != STATUS_OK)
            return;
        int32_t token = choose(mask, rng);
        if (token < 0 || grammar_advance(g, 0, token, NULL) != STATUS_OK)
            abort();        /* a dead end, or a mask that lies */
        if (token == END) {
            json_t *value = json_loadb(doc, len, JSON_DECODE_ANY, NULL);
            if (value == NULL)
                abort();
            json_decref(value);
            return;
        }
        doc[len] = (char)token;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    struct token_trie_source source = { .vocab = VOCAB, .bytes_of = bytes_of, .context = bytes };
    struct token_trie *trie;
    if (token_trie_create(&trie, &source, NULL) != STATUS_OK)
        return 0;
    static const int32_t end = END;
    struct grammar_options options = {
        .kind = GRAMMAR_JSON_SCHEMA, .text = (const char *)data, .len = size, .trie = trie,
        .end_tokens = &end, .n_end_tokens = 1, .n_cursors = 1, .limits = GRAMMAR_LIMITS_DEFAULT,
    };
    options.limits.max_code = 20000;
    options.limits.max_states = 128;
    options.limits.max_masks = 4;
    struct grammar *g = NULL;
    struct error err = { .code = STATUS_OK };
    enum status status = grammar_create(&g, &options, &err);
    if (status != STATUS_OK && (err.code != status || memchr(err.text, 0, sizeof err.text) == NULL))
        abort();
    struct rng rng;
    rng_seed(&rng, size);
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        walk(g, &rng);
    grammar_destroy(g);
    token_trie_destroy(trie);
    return 0;
}
