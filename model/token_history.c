#include "model/token_history.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct token_history {
    uint32_t n_slots;           /* a power of two, at least twice max_seen */
    int32_t max_seen;
    int32_t n_seen;
    int32_t *slots;             /* [n_slots] place in seen, or -1 */
    struct token_seen seen[];   /* [max_seen], then the slots */
};

enum status token_history_create(struct token_history **out, int32_t vocab, int32_t max_tokens,
                                 struct error *err)
{
    assert(vocab > 0 && max_tokens > 0);
    int32_t max_seen = vocab < max_tokens ? vocab : max_tokens;
    uint32_t n_slots = 16;
    while (n_slots / 2 < (uint32_t)max_seen)
        n_slots *= 2;
    size_t seen_bytes = (size_t)max_seen * sizeof(struct token_seen);
    size_t slot_bytes = (size_t)n_slots * sizeof(int32_t);
    struct token_history *history = malloc(sizeof *history + seen_bytes + slot_bytes);
    if (history == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the history of %d tokens", (int)max_tokens);
    history->n_slots = n_slots;
    history->max_seen = max_seen;
    history->n_seen = 0;
    history->slots = (int32_t *)(history->seen + max_seen);
    memset(history->slots, -1, slot_bytes);
    *out = history;
    return STATUS_OK;
}

void token_history_destroy(struct token_history *history)
{
    free(history);
}

/* The slot that holds token, or the empty one where it belongs. */
static int32_t *find_slot(struct token_history *history, int32_t token)
{
    uint32_t i = (uint32_t)token * 2654435769u;
    i ^= i >> 15;
    for (;; i++) {
        int32_t *slot = &history->slots[i & (history->n_slots - 1)];
        if (*slot < 0 || history->seen[*slot].token == token)
            return slot;
    }
}

void token_history_reset(struct token_history *history)
{
    /* Backwards: the last token that came was put behind all others in its run
     * of slots, so taking it away never hides one that is still to be found. */
    while (history->n_seen > 0) {
        int32_t token = history->seen[history->n_seen - 1].token;
        *find_slot(history, token) = -1;
        history->n_seen--;
    }
}

void token_history_push(struct token_history *history, int32_t token, int is_output)
{
    int32_t *slot = find_slot(history, token);
    if (*slot < 0) {
        assert(history->n_seen < history->max_seen);
        *slot = history->n_seen++;
        history->seen[*slot] = (struct token_seen){ .token = token };
    }
    history->seen[*slot].n_output += is_output;
}

const struct token_seen *token_history_seen(const struct token_history *history, int32_t *n)
{
    *n = history->n_seen;
    return history->seen;
}
