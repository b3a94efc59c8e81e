#include "bench/load_dataset.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Streams of random numbers that never meet: of a prompt, of a shared prefix,
 * of a trace's block. */
enum { STREAM_PROMPT, STREAM_PREFIX, STREAM_BLOCK };

enum { DEFAULT_OUTPUT_TOKENS = 128 };

struct load_dataset {
    struct load_dataset_options options;
    struct load_rows rows;
    int uses_ids;
};

/* ---- pieces of random text ---- */

static struct rng stream(uint64_t seed, int which, uint64_t index)
{
    struct rng rng;
    rng_seed(&rng, rng_sub_seed(rng_sub_seed(seed, (uint64_t)which), index));
    return rng;
}

/* A run of n tokens; has_before: something stands in front of it. */
static enum status write_piece(const struct load_dataset *d, struct rng *rng, int64_t n, int has_before,
                               struct buf *out)
{
    if (n <= 0)
        return STATUS_OK;
    if (!d->uses_ids)
        return load_vocabulary_write_words(d->options.vocabulary, rng, n, out);
    if (has_before)
        TRY(buf_add_char(out, ','));
    return load_vocabulary_write_ids(d->options.vocabulary, rng, n, out);
}

static int64_t draw_length(const struct load_dataset *d, struct rng *rng, int64_t length)
{
    int64_t spread = (int64_t)floor((double)length * d->options.range);
    int64_t low = length - spread < 1 ? 1 : length - spread;
    return low + (int64_t)rng_below(rng, (uint64_t)(length + spread - low + 1));
}

/* The field around random text: where it opens, and where it closes. */
static enum status open_field(const struct load_dataset *d, struct buf *out)
{
    if (d->options.endpoint == LOAD_CHAT)
        return buf_add_text(out, "\"messages\":[{\"role\":\"user\",\"content\":\"");
    return buf_add_text(out, d->uses_ids ? "\"prompt\":[" : "\"prompt\":\"");
}

static enum status close_field(const struct load_dataset *d, struct buf *out)
{
    if (d->options.endpoint == LOAD_CHAT)
        return buf_add_text(out, "\"}]");
    return buf_add_text(out, d->uses_ids ? "]" : "\"");
}

/* ---- the kinds ---- */

static enum status write_random(const struct load_dataset *d, uint64_t seed, size_t index, struct buf *out,
                                struct load_lengths *lengths)
{
    struct rng rng = stream(seed, STREAM_PROMPT, index);
    int64_t prefix = d->options.kind == LOAD_SHARED_PREFIX ? d->options.prefix_tokens : 0;
    int64_t input = draw_length(d, &rng, d->options.input_tokens);
    lengths->output_tokens = draw_length(d, &rng, d->options.output_tokens);
    lengths->input_tokens = prefix + input;
    TRY(open_field(d, out));
    if (prefix > 0) {
        struct rng common = stream(seed, STREAM_PREFIX, rng_below(&rng, (uint64_t)d->options.n_prefixes));
        TRY(write_piece(d, &common, prefix, 0, out));
    }
    TRY(write_piece(d, &rng, input, prefix > 0, out));
    return close_field(d, out);
}

/* Blocks named by hash ids, then what is left as text of this row alone. */
static enum status write_blocks(const struct load_dataset *d, const struct load_row *row, uint64_t seed,
                                size_t index, struct buf *out)
{
    int64_t left = row->input_tokens;
    TRY(open_field(d, out));
    for (size_t i = 0; i < row->n_hash_ids && left > 0; i++) {
        struct rng rng = stream(seed, STREAM_BLOCK, (uint64_t)row->hash_ids[i]);
        int64_t n = left < d->options.trace_block_tokens ? left : d->options.trace_block_tokens;
        TRY(write_piece(d, &rng, n, i > 0, out));
        left -= n;
    }
    struct rng rng = stream(seed, STREAM_PROMPT, index);
    TRY(write_piece(d, &rng, left, row->n_hash_ids > 0, out));
    return close_field(d, out);
}

static enum status write_row(const struct load_dataset *d, uint64_t seed, size_t index, struct buf *out,
                             struct load_lengths *lengths)
{
    const struct load_row *row = &d->rows.at[index % d->rows.n];
    lengths->input_tokens = row->input_tokens;
    lengths->output_tokens = d->options.output_tokens > 0 ? d->options.output_tokens
                             : row->output_tokens > 0     ? row->output_tokens
                                                          : DEFAULT_OUTPUT_TOKENS;
    switch (row->form) {
    case LOAD_ROW_LENGTHS:
        return write_blocks(d, row, seed, index, out);
    case LOAD_ROW_MESSAGES:
        TRY(buf_add_text(out, "\"messages\":"));
        return buf_add_text(out, row->json);
    case LOAD_ROW_TEXT:
    case LOAD_ROW_IDS:
        break;
    }
    if (d->options.endpoint == LOAD_COMPLETIONS) {
        TRY(buf_add_text(out, "\"prompt\":"));
        return buf_add_text(out, row->json);
    }
    TRY(buf_add_text(out, "\"messages\":[{\"role\":\"user\",\"content\":"));
    TRY(buf_add_text(out, row->json));
    return buf_add_text(out, "}]");
}

enum status load_dataset_write(const struct load_dataset *d, uint64_t seed, size_t index, struct buf *out,
                               struct load_lengths *lengths)
{
    if (d->rows.n > 0)
        return write_row(d, seed, index, out, lengths);
    return write_random(d, seed, index, out, lengths);
}

/* ---- create ---- */

static enum status check_rows(const struct load_dataset *d, struct error *err)
{
    for (size_t i = 0; i < d->rows.n; i++) {
        enum load_row_form form = d->rows.at[i].form;
        if (form == LOAD_ROW_MESSAGES && d->options.endpoint == LOAD_COMPLETIONS)
            return fail(err, STATUS_BAD_REQUEST, "row %zu of %s has messages: use --endpoint chat", i + 1,
                        d->options.path);
        if (form == LOAD_ROW_IDS && d->options.endpoint == LOAD_CHAT)
            return fail(err, STATUS_BAD_REQUEST, "row %zu of %s has token ids: use --endpoint completions",
                        i + 1, d->options.path);
    }
    return STATUS_OK;
}

static enum status read_rows(struct load_dataset *d, struct error *err)
{
    const struct load_dataset_options *o = &d->options;
    if (o->kind == LOAD_JSONL)
        TRY(load_rows_read_jsonl(&d->rows, o->path, err));
    else if (o->kind == LOAD_SHAREGPT)
        TRY(load_rows_read_sharegpt(&d->rows, o->path, o->vocabulary->bytes_per_token, o->max_row_tokens,
                                    err));
    return check_rows(d, err);
}

enum status load_dataset_create(struct load_dataset **out, const struct load_dataset_options *options,
                                struct error *err)
{
    int has_file = options->kind == LOAD_JSONL || options->kind == LOAD_SHAREGPT;
    assert(has_file ? options->path != NULL : options->input_tokens >= 1 && options->output_tokens >= 1);
    assert(options->range >= 0 && options->range <= 1 && options->n_prefixes >= 1);
    assert(options->trace_block_tokens >= 1);
    struct load_dataset *d = calloc(1, sizeof *d);
    if (d == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a dataset");
    d->options = *options;
    d->uses_ids = options->endpoint == LOAD_COMPLETIONS && !options->use_words
                  && options->vocabulary->n_ids > 0;
    enum status s = read_rows(d, err);
    if (s != STATUS_OK) {
        load_dataset_destroy(d);
        return s;
    }
    *out = d;
    return STATUS_OK;
}

void load_dataset_destroy(struct load_dataset *d)
{
    if (d == NULL)
        return;
    load_rows_clear(&d->rows);
    free(d);
}

const struct load_rows *load_dataset_rows(const struct load_dataset *d)
{
    return d->rows.n > 0 ? &d->rows : NULL;
}

int load_dataset_uses_ids(const struct load_dataset *d)
{
    return d->uses_ids;
}

/* "64", or "64 +- 50 %". */
static void describe_length(const struct load_dataset_options *o, char *out, size_t max)
{
    if (o->range > 0)
        snprintf(out, max, "%lld +- %.0f %%", (long long)o->input_tokens, o->range * 100);
    else
        snprintf(out, max, "%lld", (long long)o->input_tokens);
}

void load_dataset_describe(const struct load_dataset *d, char *out, size_t max)
{
    const struct load_dataset_options *o = &d->options;
    const char *form = d->uses_ids                            ? "token ids"
                       : o->vocabulary->n_ids > 0             ? "words, lengths right on average"
                                                              : "words, one taken for one token";
    char length[48];
    describe_length(o, length, sizeof length);
    switch (o->kind) {
    case LOAD_RANDOM:
        snprintf(out, max, "random, %s tokens in, %lld out, %s", length, (long long)o->output_tokens, form);
        break;
    case LOAD_SHARED_PREFIX:
        snprintf(out, max, "%lld shared prefixes of %lld tokens, then %s in, %lld out, %s",
                 (long long)o->n_prefixes, (long long)o->prefix_tokens, length, (long long)o->output_tokens, form);
        break;
    case LOAD_JSONL:
    case LOAD_SHAREGPT:
        snprintf(out, max, "%zu rows of %s%s", d->rows.n, o->path,
                 d->rows.have_timestamps ? ", with timestamps" : "");
        break;
    }
}
