/* reply.h - the engine's events of one HTTP call turned into the bytes of its reply.
 *
 *   events --> choice: text, logprobs, token ids, finish --+--> reply_stream.c: one chunk an event
 *   (of any prompt and choice, interleaved)                +--> reply_json.c: all of it, once
 *
 * There is one path: an event is added to its choice by the same code in either case.  A stream then
 * writes the choice out and empties it, a whole reply waits for the end.  So the texts of a stream, put
 * together, are the text of the whole reply, and so are logprobs and token ids.
 *
 * Choice i of prompt p has index p * n_returned + i.  With n_choices > n_returned (best_of) the
 * n_returned choices with the highest mean log-probability are kept, best first; not in a stream.
 *
 * What a stream looks like: a chat choice begins with a role chunk that is written together with its
 * first content, never earlier; a chunk has content or a finish reason, never both; the last chunk of a
 * choice has an empty delta; then, if asked, one chunk with no choices and the usage; then [DONE].
 * usage_in_chunks adds to every chunk what all choices together have used so far; how many prompt tokens
 * were cached is known at the end only, and told there.
 *
 * Pure: events in, bytes out; no exchange, no clock.  Owner: the loop thread.
 * Memory: at create and as the reply grows; a stream reuses what its largest chunk took.
 */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include "server/engine.h"

#define REPLY_MAX_BYTES ((size_t)64 << 20)

enum reply_shape { REPLY_COMPLETION, REPLY_CHAT };

struct reply;               /* opaque */

struct reply_options {
    enum reply_shape shape;
    const char *id;                     /* "cmpl-..", copied */
    const char *model;                  /* the served name, copied */
    int64_t created;                    /* Unix seconds */
    const struct tokenizer *tokenizer;  /* outlives the reply */
    const int *end_tokens;              /* [n_end_tokens] the model's; outlives the reply */
    int n_end_tokens;
    int n_prompts;
    int n_choices;                      /* generated for each prompt */
    int n_returned;                     /* of them; <= n_choices, equal in a stream */
    int is_stream;
    int include_usage;                  /* a stream's usage chunk */
    int usage_in_chunks;                /* and what was used so far, in every chunk */
    int32_t prompt_tokens;              /* of all prompts, for usage_in_chunks */
    int want_logprobs;
    int want_token_ids;
    int echo;                           /* completions: the prompt comes before the text */
};

/* NO_MEMORY. */
MUST_CHECK enum status reply_create(struct reply **out, const struct reply_options *options,
                                    struct error *err);
void reply_destroy(struct reply *reply);        /* NULL is allowed */

/* What echo shows of a prompt, copied.  NO_MEMORY. */
MUST_CHECK enum status reply_set_echo(struct reply *reply, int prompt, const char *text, size_t len,
                                      struct error *err);

/* Take one event of prompt (0 <= prompt < n_prompts), any kind but FAILED and EMBEDDING.  A stream appends
 * what the event makes visible, perhaps nothing, to out; a whole reply appends nothing.
 * TOO_LARGE: the reply passes REPLY_MAX_BYTES.  NO_MEMORY. */
MUST_CHECK enum status reply_take(struct reply *reply, int prompt, const struct engine_event *event,
                                  struct buf *out, struct error *err);

/* All prompts are done: append the rest, which is usage and [DONE] or the whole JSON.  Failures as above. */
MUST_CHECK enum status reply_finish(struct reply *reply, struct buf *out, struct error *err);

/* Tokens and preemptions of two requests of one call add up; of times the longer one counts. */
void reply_add_usage(struct engine_usage *sum, const struct engine_usage *usage);

#endif
