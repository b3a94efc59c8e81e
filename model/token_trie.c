#include "model/token_trie.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct token_trie {
    int32_t vocab;
    uint32_t n_nodes, n_tokens;
    struct token_trie_node *nodes;      /* [n_nodes] preorder */
    int32_t *tokens;                    /* [n_tokens] sorted by their bytes */
    char *bytes;                        /* of all tokens, one after the other */
    size_t *offsets;                    /* [vocab + 1] token t: bytes[offsets[t] .. offsets[t + 1]) */
};

/* A token with its bytes, for sorting. */
struct entry {
    const char *bytes;
    size_t len;
    int32_t token;
};

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    size_t common = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->bytes, y->bytes, common);
    if (order != 0)
        return order;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

/* Copy the bytes of every token; returns the number that go into the tree, or -1
 * if memory ran out. */
static int64_t copy_bytes(struct token_trie *trie, const struct token_trie_source *source)
{
    size_t total = 0;
    const char *bytes;
    for (int32_t t = 0; t < trie->vocab; t++) {
        size_t len = source->bytes_of(source->context, t, &bytes);
        total += len <= TOKEN_TRIE_MAX_BYTES ? len : 0;
    }
    trie->bytes = malloc(total + 1);
    trie->offsets = malloc(((size_t)trie->vocab + 1) * sizeof *trie->offsets);
    if (trie->bytes == NULL || trie->offsets == NULL)
        return -1;
    size_t at = 0;
    int64_t n = 0;
    for (int32_t t = 0; t < trie->vocab; t++) {
        size_t len = source->bytes_of(source->context, t, &bytes);
        trie->offsets[t] = at;
        if (len == 0 || len > TOKEN_TRIE_MAX_BYTES)
            continue;
        assert(at + len <= total);
        memcpy(trie->bytes + at, bytes, len);
        at += len;
        n++;
    }
    trie->offsets[trie->vocab] = at;
    return n;
}

static size_t common_prefix(const struct entry *a, const struct entry *b)
{
    size_t n = 0;
    while (n < a->len && n < b->len && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Preorder nodes from the sorted entries: each adds the part of its path that the
 * one before it does not have. */
static void build_nodes(struct token_trie *trie, const struct entry *entries)
{
    uint32_t path[TOKEN_TRIE_MAX_BYTES + 1];    /* node at each depth of the last entry */
    size_t depth = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < trie->n_tokens; k++) {
        const struct entry *e = &entries[k];
        size_t shared = k == 0 ? 0 : common_prefix(&entries[k - 1], e);
        for (; depth > shared; depth--)
            trie->nodes[path[depth]].skip = n;
        for (; depth < e->len; depth++) {
            path[depth + 1] = n;
            trie->nodes[n++] = (struct token_trie_node){
                .first_token = k, .byte = (uint8_t)e->bytes[depth], .depth = (uint8_t)(depth + 1) };
        }
        struct token_trie_node *node = &trie->nodes[path[e->len]];
        node->first_token = node->n_tokens == 0 ? k : node->first_token;
        node->n_tokens++;
        trie->tokens[k] = e->token;
    }
    for (; depth > 0; depth--)
        trie->nodes[path[depth]].skip = n;
    trie->n_nodes = n;
}

static uint32_t count_nodes(const struct entry *entries, uint32_t n)
{
    size_t count = 0;
    for (uint32_t k = 0; k < n; k++)
        count += entries[k].len - (k == 0 ? 0 : common_prefix(&entries[k - 1], &entries[k]));
    return (uint32_t)count;
}

static enum status build(struct token_trie *trie, const struct token_trie_source *source)
{
    int64_t n = copy_bytes(trie, source);
    if (n < 0)
        return STATUS_NO_MEMORY;
    trie->n_tokens = (uint32_t)n;
    struct entry *entries = malloc(((size_t)n + 1) * sizeof *entries);
    trie->tokens = malloc(((size_t)n + 1) * sizeof *trie->tokens);
    if (entries == NULL || trie->tokens == NULL) {
        free(entries);
        return STATUS_NO_MEMORY;
    }
    uint32_t k = 0;
    for (int32_t t = 0; t < trie->vocab; t++) {
        size_t len = trie->offsets[t + 1] - trie->offsets[t];
        if (len > 0)
            entries[k++] = (struct entry){ trie->bytes + trie->offsets[t], len, t };
    }
    qsort(entries, k, sizeof *entries, compare);
    trie->nodes = malloc(((size_t)count_nodes(entries, k) + 1) * sizeof *trie->nodes);
    if (trie->nodes != NULL)
        build_nodes(trie, entries);
    free(entries);
    return trie->nodes == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

enum status token_trie_create(struct token_trie **out, const struct token_trie_source *source,
                              struct error *err)
{
    assert(source->vocab > 0);
    struct token_trie *trie = calloc(1, sizeof *trie);
    if (trie != NULL)
        trie->vocab = source->vocab;
    if (trie == NULL || build(trie, source) != STATUS_OK) {
        token_trie_destroy(trie);
        return fail(err, STATUS_NO_MEMORY, "no memory for the tree of %d tokens", (int)source->vocab);
    }
    *out = trie;
    return STATUS_OK;
}

void token_trie_destroy(struct token_trie *trie)
{
    if (trie == NULL)
        return;
    free(trie->nodes);
    free(trie->tokens);
    free(trie->bytes);
    free(trie->offsets);
    free(trie);
}

int32_t token_trie_vocab(const struct token_trie *trie)
{
    return trie->vocab;
}

const struct token_trie_node *token_trie_nodes(const struct token_trie *trie, uint32_t *n)
{
    *n = trie->n_nodes;
    return trie->nodes;
}

const int32_t *token_trie_tokens(const struct token_trie *trie)
{
    return trie->tokens;
}

size_t token_trie_bytes(const struct token_trie *trie, int32_t token, const char **bytes)
{
    *bytes = trie->bytes + trie->offsets[token];
    return trie->offsets[token + 1] - trie->offsets[token];
}
