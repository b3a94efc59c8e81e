/* load_chunk.h - what one piece of an OpenAI-compatible reply says.
 *
 * The same reader serves both endpoints, streamed and whole:
 *
 *   completions, either form     choices[].text
 *   chat, streamed               choices[].delta.content, .reasoning_content, .reasoning
 *   chat, whole                  choices[].message.content, .reasoning_content, .reasoning
 *
 * A chunk whose text is empty or null (the role chunk of a chat, the finish
 * chunk, the usage chunk) carries no token: it moves no latency figure.
 *
 * Owner: the caller.  Memory: a JSON tree that is gone when the call returns.
 */
#ifndef BENCH_LOAD_CHUNK_H
#define BENCH_LOAD_CHUNK_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct load_chunk {
    size_t text_bytes;          /* over all choices; 0: no token in this chunk */
    size_t n_token_ids;         /* choices[].token_ids, where the server sends them */
    int is_done;                /* "[DONE]": the stream's last event */
    int is_finished;            /* a choice has its finish_reason */
    int has_usage;
    int64_t prompt_tokens;      /* the three below: valid with has_usage */
    int64_t cached_tokens;
    int64_t completion_tokens;
    int has_error;              /* a top-level "error": the server gave up */
    char error_text[160];       /* its message */
};

/* BAD_REQUEST: data[0..len) is neither [DONE] nor a JSON object. */
MUST_CHECK enum status load_chunk_parse(struct load_chunk *out, const char *data, size_t len,
                                        struct error *err);

#endif
