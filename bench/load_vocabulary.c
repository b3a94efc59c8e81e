#include "bench/load_vocabulary.h"

#include <math.h>
#include <stdlib.h>

static const char *const words[] = {
    "the",    "of",    "and",   "to",     "in",    "that",    "was",     "he",      "for",   "it",
    "with",   "as",    "his",   "on",     "be",    "at",      "by",      "had",     "not",   "are",
    "but",    "from",  "or",    "have",   "an",    "they",    "which",   "one",     "you",   "were",
    "her",    "all",   "she",   "there",  "would", "their",   "we",      "him",     "been",  "has",
    "when",   "who",   "will",  "more",   "no",    "if",      "out",     "so",      "said",  "what",
    "up",     "its",   "about", "into",   "than",  "them",    "can",     "only",    "other", "new",
    "some",   "could", "time",  "these",  "two",   "may",     "then",    "do",      "first", "any",
    "my",     "now",   "such",  "like",   "our",   "over",    "man",     "me",      "even",  "most",
    "made",   "after", "also",  "did",    "many",  "before",  "must",    "through", "years", "where",
    "much",   "your",  "way",   "well",   "down",  "should",  "because", "each",    "just",  "those",
    "people", "how",   "too",   "little", "state", "good",    "very",    "make",    "world", "still",
    "own",    "see",   "men",   "work",   "long",  "get",     "here",    "between", "both",  "life",
    "being",  "under", "never", "day",    "same",  "another", "know",    "while",   "last",
};

enum { N_WORDS = sizeof words / sizeof words[0], MAX_IDS = 4096 };

void load_vocabulary_init(struct load_vocabulary *v)
{
    *v = (struct load_vocabulary){ .tokens_per_word = 1, .bytes_per_token = 4 };
}

void load_vocabulary_clear(struct load_vocabulary *v)
{
    free(v->ids);
    load_vocabulary_init(v);
}

static enum status write_all_words(struct buf *text)
{
    for (size_t i = 0; i < N_WORDS; i++) {
        TRY(buf_add_text(text, words[i]));
        TRY(buf_add_char(text, ' '));
    }
    return STATUS_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static size_t keep_distinct(int64_t *ids, size_t n)
{
    qsort(ids, n, sizeof *ids, compare_ids);
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++)
        if (n_kept == 0 || ids[n_kept - 1] != ids[i])
            ids[n_kept++] = ids[i];
    return n_kept;
}

enum status load_vocabulary_learn(struct load_vocabulary *v, const struct load_server *server,
                                  const char *model, struct error *err)
{
    struct buf text;
    buf_init(&text, 64 * 1024);
    int64_t *ids = calloc(MAX_IDS, sizeof *ids);
    size_t n = 0;
    enum status s = ids != NULL ? write_all_words(&text) : STATUS_NO_MEMORY;
    if (s == STATUS_OK)
        s = load_server_tokenize(server, model, text.data, ids, MAX_IDS, &n, err);
    else
        fail(err, s, "no memory for the vocabulary");
    if (s == STATUS_OK) {
        free(v->ids);
        v->ids = ids;
        v->tokens_per_word = (double)n / N_WORDS;
        v->bytes_per_token = (double)text.len / (double)n;
        v->n_ids = keep_distinct(ids, n < MAX_IDS ? n : MAX_IDS);
    } else {
        free(ids);
    }
    buf_clear(&text);
    return s;
}

enum status load_vocabulary_write_ids(const struct load_vocabulary *v, struct rng *rng, int64_t n,
                                      struct buf *out)
{
    for (int64_t i = 0; i < n; i++)
        TRY(buf_printf(out, "%s%lld", i > 0 ? "," : "", (long long)v->ids[rng_below(rng, v->n_ids)]));
    return STATUS_OK;
}

enum status load_vocabulary_write_words(const struct load_vocabulary *v, struct rng *rng, int64_t n_tokens,
                                        struct buf *out)
{
    int64_t n_words = llround((double)n_tokens / v->tokens_per_word);
    if (n_words < 1 && n_tokens > 0)
        n_words = 1;
    for (int64_t i = 0; i < n_words; i++) {
        TRY(buf_add_text(out, words[rng_below(rng, N_WORDS)]));
        TRY(buf_add_char(out, ' '));
    }
    return STATUS_OK;
}
