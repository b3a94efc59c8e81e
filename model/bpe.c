#include "model/bpe.h"

#include "base/json_read.h"
#include "base/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MERGES (1 << 23)
#define MAX_TOKEN_BYTES 4096        /* of a text that a merge makes */
#define NO_SYMBOL  (-1)
#define NO_MERGE   UINT32_MAX

/* One merge in an open-addressing table; rank NO_MERGE marks a free slot. */
struct merge {
    int32_t left, right;
    int32_t merged;                 /* the token that left and right become */
    uint32_t rank;                  /* place in the file: lower goes first */
};

struct bpe {
    struct vocab *vocab;
    struct merge *merges;           /* [n_slots] */
    size_t n_slots;                 /* a power of two, at least twice the merges */
    int32_t byte_ids[256];          /* <0xHH>, or -1; used if byte_fallback */
    int32_t unknown;                /* -1: there is none */
    int byte_fallback, fuse_unknown, ignore_merges;
};

/* The symbols of a piece form a list; a merge keeps the left one. */
struct bpe_symbol {
    int32_t id;
    int32_t prev, next;             /* NO_SYMBOL at the ends */
};

/* ---- the table of merges ---- */

static uint64_t hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* The merge of the pair, or the free slot where it would go. */
static struct merge *merge_slot(const struct bpe *bpe, int32_t left, int32_t right)
{
    size_t slot = hash_pair(left, right) & (bpe->n_slots - 1);
    while (bpe->merges[slot].rank != NO_MERGE &&
           (bpe->merges[slot].left != left || bpe->merges[slot].right != right))
        slot = (slot + 1) & (bpe->n_slots - 1);
    return &bpe->merges[slot];
}

/* A merge is "a b" or ["a", "b"]; texts of the first form contain no space. */
static int split_merge(const json_t *merge, const char **text, size_t *len)
{
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        for (size_t i = 0; i < 2; i++) {
            const json_t *half = json_array_get(merge, i);
            if (!json_is_string(half))
                return 0;
            text[i] = json_string_value(half);
            len[i] = json_string_length(half);
        }
        return 1;
    }
    const char *both = json_string_value(merge);
    const char *space = both == NULL ? NULL : memchr(both, ' ', json_string_length(merge));
    if (space == NULL)
        return 0;
    text[0] = both;
    len[0] = (size_t)(space - both);
    text[1] = space + 1;
    len[1] = json_string_length(merge) - len[0] - 1;
    return memchr(text[1], ' ', len[1]) == NULL;
}

static enum status add_merge(struct bpe *bpe, const json_t *merge, uint32_t rank, const char *where,
                             struct error *err)
{
    const char *text[2];
    size_t len[2];
    if (!split_merge(merge, text, len))
        return fail(err, STATUS_BAD_MODEL, "%.150s: merge %u is neither \"a b\" nor [\"a\", \"b\"]", where,
                    rank);
    char joined[MAX_TOKEN_BYTES];
    if (len[0] + len[1] > sizeof joined)
        return fail(err, STATUS_BAD_MODEL, "%.150s: merge %u has %zu bytes, limit %zu",
                    where, rank, len[0] + len[1], sizeof joined);
    memcpy(joined, text[0], len[0]);
    memcpy(joined + len[0], text[1], len[1]);
    struct merge m = {
        .left = vocab_find(bpe->vocab, text[0], len[0]),
        .right = vocab_find(bpe->vocab, text[1], len[1]),
        .merged = vocab_find(bpe->vocab, joined, len[0] + len[1]),
        .rank = rank,
    };
    if (m.left < 0 || m.right < 0 || m.merged < 0)
        return fail(err, STATUS_BAD_MODEL, "%.150s: merge %u ('%.*s' and '%.*s') is not in the vocabulary",
                    where, rank,
                    (int)(len[0] < 40 ? len[0] : 40), text[0], (int)(len[1] < 40 ? len[1] : 40), text[1]);
    /* The last of equal merges counts, as in the reference implementation. */
    *merge_slot(bpe, m.left, m.right) = m;
    return STATUS_OK;
}

static enum status read_merges(struct bpe *bpe, const struct json_reader *r, struct error *err)
{
    const json_t *list = NULL;
    TRY(json_read_array(r, "merges", &list, err));
    size_t n = json_array_size(list);
    if (n > MAX_MERGES)
        return fail(err, STATUS_BAD_MODEL, "%.150s: %zu merges, limit %d", r->where, n, MAX_MERGES);
    bpe->n_slots = 16;
    while (bpe->n_slots < 2 * n)
        bpe->n_slots *= 2;
    bpe->merges = malloc(bpe->n_slots * sizeof *bpe->merges);
    if (bpe->merges == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for %zu merges", n);
    for (size_t i = 0; i < bpe->n_slots; i++)
        bpe->merges[i] = (struct merge){ .rank = NO_MERGE };
    for (size_t i = 0; i < n; i++)
        TRY(add_merge(bpe, json_array_get(list, i), (uint32_t)i, r->where, err));
    return STATUS_OK;
}

/* ---- reading the model ---- */

static enum status refuse_feature(const struct json_reader *r, const char *field, struct error *err)
{
    const json_t *value = json_read_any(r, field);
    if (value == NULL || (json_is_string(value) && json_string_length(value) == 0) ||
        (json_is_number(value) && json_number_value(value) == 0))
        return STATUS_OK;
    return fail(err, STATUS_UNSUPPORTED, "%.150s: '%s' is set, which this build cannot do", r->where, field);
}

static enum status read_unknown(struct bpe *bpe, const struct json_reader *r, struct error *err)
{
    const char *text = NULL;
    size_t len = 0;
    bpe->unknown = -1;
    TRY(json_read_string(r, "unk_token", &text, &len, err));
    if (text == NULL)
        return STATUS_OK;
    bpe->unknown = vocab_find(bpe->vocab, text, len);
    if (bpe->unknown < 0)
        return fail(err, STATUS_BAD_MODEL, "%.150s: unk_token '%.80s' is not in the vocabulary", r->where,
                    text);
    return STATUS_OK;
}

static void find_byte_tokens(struct bpe *bpe)
{
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        int len = snprintf(text, sizeof text, "<0x%02X>", b);
        bpe->byte_ids[b] = vocab_find(bpe->vocab, text, (size_t)len);
    }
}

static enum status read_model(struct bpe *bpe, const struct json_reader *r, struct error *err)
{
    const char *type = "BPE";           /* older files do not say */
    size_t len = 0;
    TRY(json_read_string(r, "type", &type, &len, err));
    if (strcmp(type, "BPE") != 0)
        return fail(err, STATUS_UNSUPPORTED, "%.150s: the model is of type '%.40s', this build reads BPE",
                    r->where, type);
    TRY(refuse_feature(r, "dropout", err));
    TRY(refuse_feature(r, "continuing_subword_prefix", err));
    TRY(refuse_feature(r, "end_of_word_suffix", err));
    TRY(json_read_bool(r, "byte_fallback", &bpe->byte_fallback, err));
    TRY(json_read_bool(r, "fuse_unk", &bpe->fuse_unknown, err));
    TRY(json_read_bool(r, "ignore_merges", &bpe->ignore_merges, err));
    const json_t *vocab = NULL;
    TRY(json_read_object(r, "vocab", &vocab, err));
    if (vocab == NULL || json_object_size(vocab) == 0)
        return fail(err, STATUS_BAD_MODEL, "%.150s: there is no vocabulary", r->where);
    TRY(vocab_create(&bpe->vocab, vocab, r->where, err));
    find_byte_tokens(bpe);
    TRY(read_unknown(bpe, r, err));
    return read_merges(bpe, r, err);
}

enum status bpe_create(struct bpe **out, const json_t *model, const char *where, struct error *err)
{
    struct bpe *bpe = calloc(1, sizeof *bpe);
    if (bpe == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a tokenizer model");
    const struct json_reader r = { .object = model, .where = where, .code = STATUS_BAD_MODEL };
    enum status s = read_model(bpe, &r, err);
    if (s != STATUS_OK) {
        bpe_destroy(bpe);
        return s;
    }
    *out = bpe;
    return STATUS_OK;
}

void bpe_destroy(struct bpe *bpe)
{
    if (bpe == NULL)
        return;
    vocab_destroy(bpe->vocab);
    free(bpe->merges);
    free(bpe);
}

const struct vocab *bpe_vocab(const struct bpe *bpe)
{
    return bpe->vocab;
}

/* ---- the heap of candidate merges ----
 *
 * An entry is rank << 32 | place of the left symbol, so the smallest entry is
 * the merge to do next.  Entries are not removed when a neighbour changes; a
 * popped entry counts only if its pair still has its rank. */

static void heap_push(uint64_t *heap, size_t *n, uint64_t entry)
{
    size_t i = (*n)++;
    while (i > 0 && heap[(i - 1) / 2] > entry) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = entry;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= *n)
            break;
        if (child + 1 < *n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* ---- encoding ---- */

/* Room for n symbols.  The heap starts with n - 1 entries; each of at most n - 1
 * merges takes one out and puts two in, so 2 n are enough. */
static enum status reserve(struct bpe_scratch *scratch, size_t n)
{
    if (n <= scratch->room)
        return STATUS_OK;
    size_t room = n + n / 2 + 64;
    struct bpe_symbol *symbols = reallocarray(scratch->symbols, room, sizeof *symbols);
    if (symbols == NULL)
        return STATUS_NO_MEMORY;
    scratch->symbols = symbols;
    uint64_t *heap = reallocarray(scratch->heap, 2 * room, sizeof *heap);
    if (heap == NULL)
        return STATUS_NO_MEMORY;
    scratch->heap = heap;
    scratch->room = room;
    return STATUS_OK;
}

void bpe_scratch_clear(struct bpe_scratch *scratch)
{
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (struct bpe_scratch){ 0 };
}

static int has_byte_tokens(const struct bpe *bpe, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bpe->byte_ids[(unsigned char)text[i]] < 0)
            return 0;
    }
    return 1;
}

static void add_symbol(struct bpe_symbol *symbols, int32_t *n, int32_t id)
{
    symbols[*n] = (struct bpe_symbol){ .id = id, .prev = *n - 1, .next = *n + 1 };
    (*n)++;
}

/* The characters of a piece as symbols; at most one per byte.  An unknown
 * character is held back until the next known one, so that fuse_unk can join
 * a run of them; byte tokens do not end the run (the reference does the same). */
static int32_t start_symbols(const struct bpe *bpe, struct bpe_symbol *symbols, const char *piece, size_t len)
{
    int32_t n = 0;
    int unknown_held = 0;
    for (size_t i = 0, step; i < len; i += step) {
        step = utf8_sequence_length(piece + i, len - i);
        if (step == 0)
            step = 1;
        int32_t id = vocab_find(bpe->vocab, piece + i, step);
        if (id >= 0) {
            if (unknown_held)
                add_symbol(symbols, &n, bpe->unknown);
            unknown_held = 0;
            add_symbol(symbols, &n, id);
        } else if (bpe->byte_fallback && has_byte_tokens(bpe, piece + i, step)) {
            for (size_t k = 0; k < step; k++)
                add_symbol(symbols, &n, bpe->byte_ids[(unsigned char)piece[i + k]]);
        } else if (bpe->unknown >= 0) {
            if (unknown_held && !bpe->fuse_unknown)
                add_symbol(symbols, &n, bpe->unknown);
            unknown_held = 1;
        }
    }
    if (unknown_held)
        add_symbol(symbols, &n, bpe->unknown);
    if (n > 0)
        symbols[n - 1].next = NO_SYMBOL;
    return n;
}

/* Offer the pair that starts at place, if it has a merge. */
static void offer(const struct bpe *bpe, struct bpe_scratch *scratch, size_t *n_heap, int32_t place)
{
    if (place == NO_SYMBOL)
        return;
    const struct bpe_symbol *left = &scratch->symbols[place];
    if (left->next == NO_SYMBOL)
        return;
    const struct merge *m = merge_slot(bpe, left->id, scratch->symbols[left->next].id);
    if (m->rank != NO_MERGE)
        heap_push(scratch->heap, n_heap, (uint64_t)m->rank << 32 | (uint32_t)place);
}

static void merge_all(const struct bpe *bpe, struct bpe_scratch *scratch, int32_t n_symbols)
{
    struct bpe_symbol *symbols = scratch->symbols;
    size_t n_heap = 0;
    for (int32_t i = 0; i < n_symbols; i++)
        offer(bpe, scratch, &n_heap, i);
    while (n_heap > 0) {
        uint64_t top = heap_pop(scratch->heap, &n_heap);
        int32_t place = (int32_t)(uint32_t)top;
        struct bpe_symbol *left = &symbols[place];
        if (left->id < 0 || left->next == NO_SYMBOL)
            continue;                       /* swallowed, or last by now */
        struct bpe_symbol *right = &symbols[left->next];
        const struct merge *m = merge_slot(bpe, left->id, right->id);
        if (m->rank != top >> 32)
            continue;                       /* another pair by now */
        left->id = m->merged;
        left->next = right->next;
        right->id = -1;
        if (left->next != NO_SYMBOL)
            symbols[left->next].prev = place;
        offer(bpe, scratch, &n_heap, left->prev);
        offer(bpe, scratch, &n_heap, place);
    }
}

enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
                       const char *piece, size_t len, struct token_array *out)
{
    assert(len <= INT32_MAX);
    if (len == 0)
        return STATUS_OK;
    if (bpe->ignore_merges) {
        int32_t id = vocab_find(bpe->vocab, piece, len);
        if (id >= 0) {
            token_array_push(out, id);
            return STATUS_OK;
        }
    }
    TRY(reserve(scratch, len));
    int32_t n = start_symbols(bpe, scratch->symbols, piece, len);
    merge_all(bpe, scratch, n);
    for (int32_t i = n > 0 ? 0 : NO_SYMBOL; i != NO_SYMBOL; i = scratch->symbols[i].next)
        token_array_push(out, scratch->symbols[i].id);
    return STATUS_OK;
}
