/* load_dataset.h - what request i of a run asks for.
 *
 *   random          input_tokens in, output_tokens out, each uniform within
 *                   +- range of its length
 *   shared prefix   one of n_prefixes common beginnings of prefix_tokens, then
 *                   random text as above
 *   jsonl           the rows of a file, over again from the first when they end;
 *                   also traces
 *   sharegpt        the first question of each conversation
 *
 * Request i of seed s is the same on every machine; another seed gives other
 * random text, which a prefix cache warmed by an earlier run does not know.
 *
 * Owner: the caller; read-only after create.  Memory: the file's rows.
 */
#ifndef BENCH_LOAD_DATASET_H
#define BENCH_LOAD_DATASET_H

#include "base/buf.h"
#include "bench/load_rows.h"
#include "bench/load_vocabulary.h"

enum load_endpoint { LOAD_COMPLETIONS, LOAD_CHAT };
enum load_dataset_kind { LOAD_RANDOM, LOAD_SHARED_PREFIX, LOAD_JSONL, LOAD_SHAREGPT };

struct load_dataset_options {
    enum load_dataset_kind kind;
    enum load_endpoint endpoint;
    const struct load_vocabulary *vocabulary;   /* borrowed for the dataset's life */
    int use_words;              /* words even if the vocabulary has ids */
    const char *path;           /* JSONL, SHAREGPT */
    int64_t input_tokens;       /* >= 1 */
    int64_t output_tokens;      /* >= 1; 0 with a file: what each row says, else 128 */
    double range;               /* 0 .. 1 */
    int64_t n_prefixes;         /* >= 1 */
    int64_t prefix_tokens;      /* >= 0 */
    int64_t trace_block_tokens; /* tokens that one hash id stands for, >= 1 */
    int64_t max_row_tokens;     /* SHAREGPT: longer conversations are left out */
};

struct load_lengths {
    int64_t input_tokens;       /* as asked; 0: unknown */
    int64_t output_tokens;
};

struct load_dataset;            /* opaque */

/* IO, BAD_REQUEST, TOO_LARGE, NO_MEMORY: the file (load_rows.h).  BAD_REQUEST:
 * a row's form does not fit the endpoint (messages against ids). */
MUST_CHECK enum status load_dataset_create(struct load_dataset **out,
                                           const struct load_dataset_options *options, struct error *err);
void load_dataset_destroy(struct load_dataset *dataset); /* NULL is allowed */

/* Append the field that carries prompt `index`: "prompt":.. or "messages":[..].
 * TOO_LARGE, NO_MEMORY: failures of buf_add. */
MUST_CHECK enum status load_dataset_write(const struct load_dataset *dataset, uint64_t seed, size_t index,
                                          struct buf *out, struct load_lengths *lengths);

/* The rows of a file; NULL for the random kinds. */
const struct load_rows *load_dataset_rows(const struct load_dataset *dataset);

/* Random text is made of token ids, so its length is exact. */
int load_dataset_uses_ids(const struct load_dataset *dataset);

/* One phrase for the reports: "random, 128 +- 0 % in, 64 out, token ids". */
void load_dataset_describe(const struct load_dataset *dataset, char *out, size_t max);

#endif
