/* token_history.h - which tokens a sequence has seen, and how often.
 *
 * What penalties ask: each distinct token of prompt and output once, with the
 * number of times it came as output.
 *
 *   prompt 7 7 3, output 3 9 9     seen[]:  {7, 0} {3, 1} {9, 2}
 *                                  slots[]: hash of a token -> its place in seen, or -1
 *
 * Owner:  whoever holds it; no locking.  Memory: one allocation at create, for
 * min(vocab, max_tokens) distinct tokens; reset costs only what was used.
 */
#ifndef MODEL_TOKEN_HISTORY_H
#define MODEL_TOKEN_HISTORY_H

#include "base/status.h"

#include <stdint.h>

struct token_history;           /* opaque */

struct token_seen {
    int32_t token;
    int32_t n_output;           /* 0: in the prompt only */
};

/* vocab, max_tokens > 0.  NO_MEMORY: *out is untouched. */
MUST_CHECK enum status token_history_create(struct token_history **out, int32_t vocab, int32_t max_tokens,
                                            struct error *err);
void token_history_destroy(struct token_history *history);     /* NULL is allowed */

void token_history_reset(struct token_history *history);

/* One more token, 0 <= token < vocab; at most max_tokens pushes between resets. */
void token_history_push(struct token_history *history, int32_t token, int is_output);

/* The distinct tokens in order of first appearance; valid until the next push. */
const struct token_seen *token_history_seen(const struct token_history *history, int32_t *n);

#endif
