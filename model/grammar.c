#include "model/grammar.h"

#include "model/byte_machine.h"
#include "model/json_rules.h"
#include "model/json_schema.h"
#include "model/regex.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAX_END_TOKENS 32

struct mask_slot {
    uint32_t state;             /* BYTE_MACHINE_DEAD: free */
    uint64_t used;              /* when it was asked for last */
};

struct grammar {
    struct byte_program program;            /* fixed at create */
    struct byte_machine *machine;
    const struct token_trie *trie;
    size_t n_words;                         /* of one mask */
    int n_cursors;
    int32_t end_tokens[MAX_END_TOKENS];
    int n_end_tokens;
    /* States that must survive a collect: where each cursor stands, then the path of
     * the walk through the trie, one for each depth. */
    uint32_t *roots;                        /* [n_cursors + TOKEN_TRIE_MAX_BYTES + 1] */
    uint32_t *path;                         /* roots + n_cursors */
    struct mask_slot *slots;                /* [max_masks] */
    uint64_t *masks;                        /* [max_masks][n_words] */
    uint32_t max_masks;
    uint64_t max_work;
    uint64_t clock;
};

static uint32_t n_roots(const struct grammar *g)
{
    return (uint32_t)g->n_cursors + TOKEN_TRIE_MAX_BYTES + 1;
}

/* ---- compiling ---- */

static enum status emit(struct byte_program *program, const struct grammar_options *options,
                        struct error *err)
{
    uint32_t entry = 0, end;
    struct json_rules rules;
    struct regex_source whole = { options->text, options->len, CHARS_UTF8, .is_search = 0 };
    switch (options->kind) {
    case GRAMMAR_JSON_SCHEMA:
        return json_schema_emit(options->text, options->len, program, err);
    case GRAMMAR_REGEX:
        end = byte_program_return(program);
        TRY(regex_emit(&whole, program, end, &entry, err));
        break;
    case GRAMMAR_JSON_OBJECT:
        json_rules_init(&rules, program);
        entry = json_rules_object(&rules, byte_program_return(program));
        break;
    }
    byte_program_rule_set(program, 0, entry);
    return STATUS_OK;
}

static enum status compile(struct grammar *g, const struct grammar_options *options, struct error *err)
{
    const struct grammar_limits *limits = &options->limits;
    if (options->len > limits->max_text)
        return fail(err, STATUS_TOO_LARGE, "the grammar has %zu bytes, limit %zu", options->len,
                    limits->max_text);
    TRY(emit(&g->program, options, err));
    TRY(byte_program_seal(&g->program, limits->max_depth, err));
    return byte_machine_create(&g->machine, &g->program, limits->max_depth, limits->max_states, err);
}

static enum status allocate(struct grammar *g, struct error *err)
{
    g->roots = calloc(n_roots(g), sizeof *g->roots);
    g->slots = calloc(g->max_masks, sizeof *g->slots);
    g->masks = calloc(g->max_masks * g->n_words, sizeof *g->masks);
    if (g->roots == NULL || g->slots == NULL || g->masks == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the token masks of a grammar");
    g->path = g->roots + g->n_cursors;
    for (int i = 0; i < g->n_cursors; i++)
        grammar_start(g, i);
    return STATUS_OK;
}

enum status grammar_create(struct grammar **out, const struct grammar_options *options, struct error *err)
{
    assert(options->n_cursors > 0 && options->limits.max_masks > 0 &&
           options->n_end_tokens <= MAX_END_TOKENS);
    struct grammar *g = calloc(1, sizeof *g);
    if (g == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a grammar");
    g->trie = options->trie;
    g->n_words = ((size_t)token_trie_vocab(g->trie) + 63) / 64;
    g->n_cursors = options->n_cursors;
    g->max_masks = options->limits.max_masks;
    g->max_work = options->limits.max_work;
    for (int i = 0; i < options->n_end_tokens; i++)
        if (options->end_tokens[i] >= 0 && options->end_tokens[i] < token_trie_vocab(g->trie))
            g->end_tokens[g->n_end_tokens++] = options->end_tokens[i];
    byte_program_init(&g->program, options->limits.max_code);
    enum status status = compile(g, options, err);
    if (status == STATUS_OK)
        status = allocate(g, err);
    if (status != STATUS_OK) {
        grammar_destroy(g);
        return status;
    }
    *out = g;
    return STATUS_OK;
}

void grammar_destroy(struct grammar *g)
{
    if (g == NULL)
        return;
    byte_machine_destroy(g->machine);
    byte_program_clear(&g->program);
    free(g->roots);
    free(g->slots);
    free(g->masks);
    free(g);
}

void grammar_start(struct grammar *g, int cursor)
{
    assert(cursor >= 0 && cursor < g->n_cursors);
    g->roots[cursor] = byte_machine_first(g->machine);
}

/* ---- walking ---- */

/* One byte from *from (one of the roots).  When the machine is full, everything
 * that is not a root is forgotten, the masks with it, and the byte tried again:
 * a second failure means that this one state does not fit. */
static enum status step(struct grammar *g, const uint32_t *from, uint8_t byte, uint32_t *to,
                        struct error *err)
{
    enum status status = byte_machine_step(g->machine, *from, byte, to);
    if (status == STATUS_BUSY) {
        byte_machine_collect(g->machine, g->roots, n_roots(g));
        for (uint32_t i = 0; i < g->max_masks; i++)
            g->slots[i].state = BYTE_MACHINE_DEAD;
        status = byte_machine_step(g->machine, *from, byte, to);
    }
    if (status == STATUS_OK)
        return STATUS_OK;
    return fail(err, STATUS_TOO_LARGE,
                "the grammar is too ambiguous here: its states need more memory or work than its limits");
}

/* Set the bits of all tokens that keep the state path[0] alive. */
static enum status walk(struct grammar *g, uint64_t *mask, struct error *err)
{
    uint32_t n;
    const struct token_trie_node *nodes = token_trie_nodes(g->trie, &n);
    const int32_t *tokens = token_trie_tokens(g->trie);
    for (uint32_t i = 0; i < n;) {
        const struct token_trie_node *node = &nodes[i];
        uint32_t state;
        TRY(step(g, &g->path[node->depth - 1], node->byte, &state, err));
        if (state == BYTE_MACHINE_DEAD) {
            i = node->skip;
            continue;
        }
        g->path[node->depth] = state;
        for (uint32_t k = node->first_token; k < node->first_token + node->n_tokens; k++)
            mask[tokens[k] / 64] |= (uint64_t)1 << (tokens[k] % 64);
        i++;
    }
    return STATUS_OK;
}

static uint32_t least_recently_used(const struct grammar *g)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < g->max_masks; i++)
        if (g->slots[i].used < g->slots[least].used)
            least = i;
    return least;
}

static enum status make_mask(struct grammar *g, uint32_t slot, const uint32_t *cursor, struct error *err)
{
    uint64_t *mask = g->masks + slot * g->n_words;
    memset(mask, 0, g->n_words * sizeof *mask);
    g->slots[slot].state = BYTE_MACHINE_DEAD;
    g->path[0] = *cursor;
    byte_machine_allow(g->machine, g->max_work);
    enum status status = walk(g, mask, err);
    memset(g->path, 0, (TOKEN_TRIE_MAX_BYTES + 1) * sizeof *g->path);
    TRY(status);
    for (int i = 0; i < g->n_end_tokens; i++) {
        uint64_t bit = (uint64_t)1 << (g->end_tokens[i] % 64);
        if (byte_machine_is_accepting(g->machine, *cursor))
            mask[g->end_tokens[i] / 64] |= bit;
        else
            mask[g->end_tokens[i] / 64] &= ~bit;
    }
    /* The walk may have renumbered the states; the cursor was renumbered with them. */
    g->slots[slot].state = *cursor;
    return STATUS_OK;
}

enum status grammar_mask(struct grammar *g, int cursor, const uint64_t **mask, struct error *err)
{
    assert(cursor >= 0 && cursor < g->n_cursors);
    uint32_t slot = 0;
    while (slot < g->max_masks && g->slots[slot].state != g->roots[cursor])
        slot++;
    if (slot == g->max_masks) {
        slot = least_recently_used(g);
        TRY(make_mask(g, slot, &g->roots[cursor], err));
    }
    g->slots[slot].used = ++g->clock;
    *mask = g->masks + slot * g->n_words;
    return STATUS_OK;
}

static int is_end_token(const struct grammar *g, int32_t token)
{
    for (int i = 0; i < g->n_end_tokens; i++)
        if (g->end_tokens[i] == token)
            return 1;
    return 0;
}

enum status grammar_advance(struct grammar *g, int cursor, int32_t token, struct error *err)
{
    assert(cursor >= 0 && cursor < g->n_cursors);
    if (is_end_token(g, token)) {
        if (grammar_is_accepting(g, cursor))
            return STATUS_OK;
        return fail(err, STATUS_INTERNAL, "end token %d came before the text was complete", (int)token);
    }
    const char *bytes = NULL;
    size_t len =
        token < 0 || token >= token_trie_vocab(g->trie) ? 0 : token_trie_bytes(g->trie, token, &bytes);
    g->path[0] = len == 0 ? BYTE_MACHINE_DEAD : g->roots[cursor];
    enum status status = STATUS_OK;
    byte_machine_allow(g->machine, g->max_work);
    for (size_t i = 0; i < len && status == STATUS_OK && g->path[0] != BYTE_MACHINE_DEAD; i++)
        status = step(g, &g->path[0], (uint8_t)bytes[i], &g->path[0], err);
    uint32_t state = g->path[0];
    g->path[0] = BYTE_MACHINE_DEAD;
    TRY(status);
    if (state == BYTE_MACHINE_DEAD)
        return fail(err, STATUS_INTERNAL, "token %d does not fit the grammar", (int)token);
    g->roots[cursor] = state;
    return STATUS_OK;
}

int grammar_is_accepting(const struct grammar *g, int cursor)
{
    return byte_machine_is_accepting(g->machine, g->roots[cursor]);
}

int grammar_is_finished(const struct grammar *g, int cursor)
{
    return byte_machine_is_finished(g->machine, g->roots[cursor]);
}
