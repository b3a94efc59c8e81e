/* load_rows.h - the requests written down in a file.
 *
 * JSONL, one object a line (empty lines are skipped):
 *
 *   {"prompt": "text" or [ids], "max_tokens": 64}          also "text"
 *   {"messages": [{"role": "user", "content": "hi"}], "output_tokens": 64}
 *   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}
 *
 * The third is a trace row: timestamp in milliseconds; without a prompt of its
 * own it gets a random one of input_length tokens, in which each hash id stands
 * for one block of tokens, so that rows with equal leading ids share a prefix.
 * Where rows have timestamps they are sorted by them.
 *
 * ShareGPT JSON: [{"conversations": [{"value": "question"}, {"value": "answer"}, ..]}, ..];
 * the first turn is the prompt, the length of the second the number of tokens
 * asked for.
 *
 * Owner: the caller; read-only after reading.  Memory: about the file's size.
 */
#ifndef BENCH_LOAD_ROWS_H
#define BENCH_LOAD_ROWS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum load_row_form {
    LOAD_ROW_LENGTHS,           /* no prompt: input_tokens says how long */
    LOAD_ROW_TEXT,
    LOAD_ROW_IDS,
    LOAD_ROW_MESSAGES
};

struct load_row {
    enum load_row_form form;
    char *json;                 /* the prompt or the messages as JSON; NULL for LENGTHS */
    size_t text_bytes;          /* TEXT: of the prompt before it became JSON */
    int64_t input_tokens;       /* 0: unknown */
    int64_t output_tokens;      /* 0: unknown */
    double timestamp_ms;        /* valid if the rows have_timestamps */
    int64_t *hash_ids;          /* [n_hash_ids] */
    size_t n_hash_ids;
};

struct load_rows {
    struct load_row *at;        /* [n] */
    size_t n;
    size_t capacity;
    int have_timestamps;        /* every row has one, ascending */
};

/* IO: not readable.  BAD_REQUEST: a line is not such an object, or there is no
 * row; the sentence has path and line.  TOO_LARGE: more than 1 GiB.  NO_MEMORY. */
MUST_CHECK enum status load_rows_read_jsonl(struct load_rows *out, const char *path, struct error *err);

/* As above.  Conversations of fewer than two turns are left out, and so are
 * those whose two turns are more than max_tokens at bytes_per_token. */
MUST_CHECK enum status load_rows_read_sharegpt(struct load_rows *out, const char *path,
                                               double bytes_per_token, int64_t max_tokens, struct error *err);

void load_rows_clear(struct load_rows *rows);

#endif
