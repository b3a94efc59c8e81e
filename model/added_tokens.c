#include "model/added_tokens.h"

#include "base/json_read.h"
#include "model/text_rule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOKENS 65536
#define NO_NODE    (-1)

/* The children of a node are a list of siblings.  A node is a byte of some
 * token's content; tokens with a common beginning share nodes. */
struct node {
    int32_t child, sibling;         /* NO_NODE */
    int32_t token;                  /* index of the token that ends here, or -1 */
    unsigned char byte;
};

struct tree {
    struct node *nodes;
    int32_t n, room;
    int32_t roots[256];             /* node of a first byte, or NO_NODE */
};

struct added_tokens {
    struct added_token *tokens;     /* by id */
    size_t n;
    struct tree trees[2];           /* by stage */
};

static enum status out_of_memory(struct error *err)
{
    return fail(err, STATUS_NO_MEMORY, "no memory for added tokens");
}

/* ---- the trees ---- */

static enum status new_node(struct tree *t, unsigned char byte, int32_t *out)
{
    if (t->n == t->room) {
        int32_t room = 2 * t->room + 256;
        struct node *nodes = reallocarray(t->nodes, (size_t)room, sizeof *nodes);
        if (nodes == NULL)
            return STATUS_NO_MEMORY;
        t->nodes = nodes;
        t->room = room;
    }
    t->nodes[t->n] = (struct node){ .child = NO_NODE, .sibling = NO_NODE, .token = -1, .byte = byte };
    *out = t->n++;
    return STATUS_OK;
}

static int32_t child_of(const struct tree *t, int32_t node, unsigned char byte)
{
    int32_t child = t->nodes[node].child;
    while (child != NO_NODE && t->nodes[child].byte != byte)
        child = t->nodes[child].sibling;
    return child;
}

/* Of two tokens with equal normalised content the first keeps the place. */
static enum status tree_add(struct tree *t, const char *text, size_t len, int32_t token)
{
    int32_t node = NO_NODE;
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text[i];
        int32_t next = i == 0 ? t->roots[byte] : child_of(t, node, byte);
        if (next == NO_NODE) {
            TRY(new_node(t, byte, &next));
            if (i == 0) {
                t->roots[byte] = next;
            } else {
                t->nodes[next].sibling = t->nodes[node].child;
                t->nodes[node].child = next;
            }
        }
        node = next;
    }
    if (node != NO_NODE && t->nodes[node].token < 0)
        t->nodes[node].token = token;
    return STATUS_OK;
}

/* The longest token that starts at text, or -1; *end is its length. */
static int32_t tree_longest(const struct tree *t, const char *text, size_t len, size_t *end)
{
    int32_t token = -1, node = t->roots[(unsigned char)text[0]];
    for (size_t i = 1; node != NO_NODE; i++) {
        if (t->nodes[node].token >= 0) {
            token = t->nodes[node].token;
            *end = i;
        }
        node = i < len ? child_of(t, node, (unsigned char)text[i]) : NO_NODE;
    }
    return token;
}

/* ---- reading ---- */

static enum status read_token(struct added_token *t, const json_t *entry, const char *where,
                              struct error *err)
{
    if (!json_is_object(entry))
        return fail(err, STATUS_BAD_MODEL, "%.200s: an entry must be an object, got %s", where,
                    json_type_phrase(entry));
    const struct json_reader r = { .object = entry, .where = where, .code = STATUS_BAD_MODEL };
    const char *content = NULL;
    int64_t id = -1;
    TRY(json_read_string(&r, "content", &content, &t->len, err));
    TRY(json_read_int(&r, "id", 0, VOCAB_MAX_IDS - 1, &id, err));
    if (content == NULL || id < 0)
        return fail(err, STATUS_BAD_MODEL, "%.200s: an entry has no 'content' or no 'id'", where);
    if (t->len > ADDED_TOKEN_MAX_BYTES)
        return fail(err, STATUS_BAD_MODEL, "%.200s: a content has %zu bytes, limit %d", where, t->len,
                    ADDED_TOKEN_MAX_BYTES);
    TRY(json_read_bool(&r, "special", &t->special, err));
    TRY(json_read_bool(&r, "lstrip", &t->lstrip, err));
    TRY(json_read_bool(&r, "rstrip", &t->rstrip, err));
    TRY(json_read_bool(&r, "single_word", &t->single_word, err));
    t->normalized = !t->special;
    TRY(json_read_bool(&r, "normalized", &t->normalized, err));
    t->id = (int32_t)id;
    t->content = malloc(t->len + 1);
    if (t->content == NULL)
        return out_of_memory(err);
    memcpy(t->content, content, t->len);
    t->content[t->len] = '\0';
    return STATUS_OK;
}

static int by_id(const void *left, const void *right)
{
    const struct added_token *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

/* Ids differ, contents differ, and the model's vocabulary says the same. */
static enum status check_tokens(struct added_tokens *a, const struct vocab *vocab, const char *where,
                                struct error *err)
{
    qsort(a->tokens, a->n, sizeof *a->tokens, by_id);
    for (size_t i = 0; i < a->n; i++) {
        const struct added_token *t = &a->tokens[i];
        size_t len;
        const char *known = vocab_text(vocab, t->id, &len);
        int32_t id = vocab_find(vocab, t->content, t->len);
        if (i > 0 && t->id == a->tokens[i - 1].id)
            return fail(err, STATUS_BAD_MODEL, "%.150s: id %" PRId32 " is used twice", where, t->id);
        int other_text = known != NULL && (len != t->len || memcmp(known, t->content, len) != 0);
        if (other_text || (id >= 0 && id != t->id))
            return fail(err, STATUS_BAD_MODEL,
                        "%.100s: '%.60s' has id %" PRId32 ", the vocabulary has '%.60s' there "
                        "and gives it id %" PRId32, where, t->content, t->id, known == NULL ? "" : known, id);
    }
    return STATUS_OK;
}

struct build {                      /* what a normalised content needs */
    const struct normalizer *normalizer;
    struct pattern_scratch *scratch;
    struct buf out, spare;
};

static enum status add_to_tree(struct added_tokens *a, int32_t i, struct build *b)
{
    const struct added_token *t = &a->tokens[i];
    if (!t->normalized)
        return tree_add(&a->trees[ADDED_RAW], t->content, t->len, i);
    const struct normalizer_input in = { .text = t->content, .len = t->len };
    TRY(normalizer_run(b->normalizer, &in, b->scratch, &b->out, &b->spare));
    return tree_add(&a->trees[ADDED_NORMALIZED], b->out.data == NULL ? "" : b->out.data, b->out.len, i);
}

static enum status build_trees(struct added_tokens *a, const struct normalizer *normalizer, const char *where,
                               struct error *err)
{
    memset(a->trees[ADDED_RAW].roots, 0xff, sizeof a->trees[0].roots);
    memset(a->trees[ADDED_NORMALIZED].roots, 0xff, sizeof a->trees[0].roots);
    struct build b = { .normalizer = normalizer };
    TRY(pattern_scratch_create(&b.scratch, err));
    buf_init(&b.out, 64 * ADDED_TOKEN_MAX_BYTES);
    buf_init(&b.spare, 64 * ADDED_TOKEN_MAX_BYTES);
    enum status s = STATUS_OK;
    for (size_t i = 0; s == STATUS_OK && i < a->n; i++)
        s = add_to_tree(a, (int32_t)i, &b);
    buf_clear(&b.out);
    buf_clear(&b.spare);
    pattern_scratch_destroy(b.scratch);
    if (s == STATUS_TOO_LARGE)
        return fail(err, STATUS_BAD_MODEL, "%.150s: a content is too large once normalised", where);
    return s == STATUS_OK ? s : out_of_memory(err);
}

static int by_content(const void *left, const void *right)
{
    const struct added_token *a = *(const struct added_token *const *)left;
    const struct added_token *b = *(const struct added_token *const *)right;
    int order = memcmp(a->content, b->content, a->len < b->len ? a->len : b->len);
    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

static enum status check_contents(const struct added_tokens *a, const char *where, struct error *err)
{
    const struct added_token **sorted = calloc(a->n + 1, sizeof *sorted);
    if (sorted == NULL)
        return out_of_memory(err);
    for (size_t i = 0; i < a->n; i++)
        sorted[i] = &a->tokens[i];
    qsort(sorted, a->n, sizeof *sorted, by_content);
    enum status s = STATUS_OK;
    for (size_t i = 1; s == STATUS_OK && i < a->n; i++) {
        if (by_content(&sorted[i - 1], &sorted[i]) == 0)
            s = fail(err, STATUS_BAD_MODEL, "%.150s: '%.80s' is listed twice", where, sorted[i]->content);
    }
    free(sorted);
    return s;
}

static enum status read_list(struct added_tokens *a, const json_t *list, const char *where, struct error *err)
{
    size_t n = json_array_size(list);
    if (n > MAX_TOKENS)
        return fail(err, STATUS_BAD_MODEL, "%.200s: %zu tokens, limit %d", where, n, MAX_TOKENS);
    a->tokens = calloc(n + 1, sizeof *a->tokens);
    if (a->tokens == NULL)
        return out_of_memory(err);
    for (size_t i = 0; i < n; i++) {
        enum status s = read_token(&a->tokens[a->n++], json_array_get(list, i), where, err);
        TRY(s);
    }
    return STATUS_OK;
}

enum status added_tokens_create(struct added_tokens **out, const json_t *list, const struct vocab *vocab,
                                const struct normalizer *normalizer, const char *where, struct error *err)
{
    struct added_tokens *a = calloc(1, sizeof *a);
    if (a == NULL)
        return out_of_memory(err);
    enum status s = read_list(a, list, where, err);
    if (s == STATUS_OK)
        s = check_tokens(a, vocab, where, err);
    if (s == STATUS_OK)
        s = check_contents(a, where, err);
    if (s == STATUS_OK)
        s = build_trees(a, normalizer, where, err);
    if (s != STATUS_OK) {
        added_tokens_destroy(a);
        return s;
    }
    *out = a;
    return STATUS_OK;
}

void added_tokens_destroy(struct added_tokens *a)
{
    if (a == NULL)
        return;
    for (size_t i = 0; i < a->n; i++)
        free(a->tokens[i].content);
    free(a->tokens);
    free(a->trees[ADDED_RAW].nodes);
    free(a->trees[ADDED_NORMALIZED].nodes);
    free(a);
}

/* ---- searching ---- */

/* No letter or digit touches text[begin, end). */
static int stands_alone(const struct added_search *s, size_t begin, size_t end)
{
    size_t step;
    if (end < s->len && text_rule_is_word(text_rule_char(s->text + end, s->len - end, &step)))
        return 0;
    if (begin == 0)
        return 1;
    size_t last = begin - 1;
    while (last > 0 && ((unsigned char)s->text[last] & 0xc0) == 0x80)
        last--;
    return !text_rule_is_word(text_rule_char(s->text + last, begin - last, &step));
}

int added_tokens_next(const struct added_tokens *a, const struct added_search *s, size_t from,
                      struct added_match *match)
{
    const struct tree *tree = &a->trees[s->stage];
    if (tree->n == 0)
        return 0;
    for (size_t i = from, end = 0; i < s->len;) {
        int32_t found = tree_longest(tree, s->text + i, s->len - i, &end);
        if (found < 0) {
            i++;
            continue;
        }
        const struct added_token *t = &a->tokens[found];
        if ((s->specials_are_text && t->special) || (t->single_word && !stands_alone(s, i, i + end))) {
            i += end;                       /* passed over whole, as in the reference */
            continue;
        }
        *match = (struct added_match){ .begin = i, .end = i + end, .id = t->id };
        if (t->lstrip)
            match->begin -= text_rule_space_after(s->text + from, i - from);
        if (t->rstrip)
            match->end += text_rule_space_before(s->text + match->end, s->len - match->end);
        return 1;
    }
    return 0;
}

const struct added_token *added_tokens_at(const struct added_tokens *a, int32_t id)
{
    struct added_token key = { .id = id };
    return a->n == 0 ? NULL : bsearch(&key, a->tokens, a->n, sizeof key, by_id);
}

const struct added_token *added_tokens_find(const struct added_tokens *a, const char *content, size_t len)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->tokens[i].len == len && memcmp(a->tokens[i].content, content, len) == 0)
            return &a->tokens[i];
    }
    return NULL;
}

int32_t added_tokens_n_ids(const struct added_tokens *a)
{
    return a->n == 0 ? 0 : a->tokens[a->n - 1].id + 1;
}
