/* reply_private.h - a reply's choices, for reply.c and its two writers. */
#ifndef SERVER_REPLY_PRIVATE_H
#define SERVER_REPLY_PRIVATE_H

#include "server/logprobs_json.h"
#include "server/reply.h"

struct choice {
    int has_begun;                  /* the echo, if any, is in it */
    int has_role;                   /* a chat stream has sent its role chunk */
    int has_ended;
    enum finish_reason finish;
    struct buf stop_reason;         /* JSON: the stop string or token that ended it; empty: null */
    struct buf text;                /* not written yet */
    struct buf token_ids;           /* likewise: "5,17,3" */
    struct logprobs_json logprobs;  /* likewise */
    double logprob_sum;             /* of all its tokens; for best_of */
    int32_t n_tokens;
};

struct reply {
    struct reply_options options;   /* id and model: copies, owned */
    struct buf prefix;              /* of a chunk or body: from "{" to "choices":[ */
    struct choice *choices;         /* [n_prompts][n_choices] */
    struct prompt_echo {
        struct buf text;
        struct logprobs_json logprobs;
    } *echoes;                      /* [n_prompts] */
    struct engine_usage usage;      /* of the prompts that are done */
    int32_t n_tokens;               /* generated so far, by all choices */
};

/* Append the choice's text as a JSON string; the text is then empty. */
MUST_CHECK enum status reply_write_text(struct choice *choice, struct buf *out);

/* Append ,"logprobs":..,"finish_reason":.. and the fields beyond OpenAI's. */
MUST_CHECK enum status reply_write_tail(struct reply *reply, struct choice *choice, int with_finish,
                                        struct buf *out);

/* Append "usage":{..}. */
MUST_CHECK enum status reply_write_usage(const struct reply *reply, struct buf *out);

/* What is new in the choice as a chunk (nothing if nothing is), and the choice emptied; then, if the
 * choice has ended, its finish chunk. */
MUST_CHECK enum status reply_stream_choice(struct reply *reply, int index, struct choice *choice,
                                           struct buf *out);
MUST_CHECK enum status reply_stream_finish(struct reply *reply, struct buf *out);

/* The whole body. */
MUST_CHECK enum status reply_json_finish(struct reply *reply, struct buf *out);

#endif
