/* model.h - a loaded model on its ranks: rows of tokens in, logits out.
 *
 *   model_load   weights packed per rank, cache and scratch made: from here on
 *                nothing allocates
 *   model_run    opens the team; `lead` runs as rank 0
 *   model_step   one pass of the token rows of a step through all layers
 *
 *   tokens -> embedding -> layer 0 .. layer n-1 -> norm -> head -> logits
 *             REPLICATED   layer.c                REPLICATED  SHARDED(vocab)
 *
 * Every rank writes the logits of its share of the vocabulary; what the caller
 * sees is whole.
 *
 * Threads: load, step and destroy by the thread that leads the team; the
 * counters by any.  Memory: all at load.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "cache/block_table.h"
#include "model/model_config.h"

struct model;               /* opaque */

enum { MODEL_WEIGHTS_AUTO = -1 };       /* as the files have them: f32 stays, the rest is bf16 */

/* For tests: what one rank does instead of one of its steps. */
enum model_fault_kind { MODEL_FAULT_NONE, MODEL_FAULT_STALL, MODEL_FAULT_DIE };

struct model_fault {
    enum model_fault_kind kind;     /* stall: sleep for ever; die: fail the step */
    int rank;
    uint64_t step;                  /* from 0 */
};

struct model_options {
    int n_ranks;
    int weight_type;            /* enum weight_type, or MODEL_WEIGHTS_AUTO */
    enum cache_type cache_type;
    int block_size;
    int mla_by_chunk;           /* MLA's cache sharded by chunk of positions, not replicated; other kinds
                                   are not affected */
    int attention_chunk;        /* positions of a partial softmax (attention/attend.h); 0: the default */
    /* Blocks: n_blocks if given; else what max_cache_sequences need at full length;
     * in any case no more than device_memory and max_cache_bytes allow. */
    int n_blocks;
    int max_cache_sequences;
    size_t device_memory;       /* of one rank: weights and cache; 0: no bound */
    size_t max_cache_bytes;     /* of all ranks together; 0: no bound */
    int max_rows;               /* token rows of a step */
    int max_logit_rows;         /* rows of a step whose logits are wanted */
    int max_length;             /* positions of a sequence; 0: as the model says */
    const char *kernels;        /* name of a table (attention/kernels.h); NULL: the fastest */
    int bind_ranks;             /* see team.h */
    /* Called while loading; done of total bytes.  NULL: nobody wants to know. */
    void (*progress)(void *context, size_t done, size_t total);
    void *progress_context;
    struct model_fault fault;   /* all zero: none */
};

/* One step.  Row r of span s is the token at position first_position + r of its
 * sequence; its block table covers it. */
struct batch {
    const struct span *spans;
    int n_spans;
    const int32_t *tokens;      /* [n_rows] */
    int n_rows;
    const int32_t *logit_rows;  /* [n_logit_rows] rows whose logits are wanted, ascending */
    int n_logit_rows;
    const struct block_copy *copies;    /* done before the rows */
    int n_copies;
};

/* NOT_FOUND, IO, BAD_MODEL, BAD_OPTION (ranks, sizes that do not fit), NO_MEMORY. */
MUST_CHECK enum status model_load(struct model **out, const char *dir, const struct model_options *options,
                                  struct error *err);
void model_destroy(struct model *model);        /* NULL is allowed */

const struct model_config *model_config(const struct model *model);
const struct model_options *model_options(const struct model *model);   /* with what was left open filled in */

MUST_CHECK enum status model_run(struct model *model, enum status (*lead)(void *context), void *context);

/* BAD_REQUEST never: the caller has checked tokens and positions.  PEER_FAILED. */
MUST_CHECK enum status model_step(struct model *model, const struct batch *batch);

/* Of the last step: logits [n_logit_rows][vocab]; hidden [n_rows][H] after the
 * final norm (for logit rows only the head needs it, embeddings use it too). */
const float *model_logits(const struct model *model);
const float *model_hidden(const struct model *model);

void model_poison(struct model *model);

/* The contents of a cache block on all ranks, [store][layer][block_bytes]: a store
 * a rank, or one for all of them where MLA is sharded by chunk.  Between steps, by
 * the thread that leads the team, or before model_run. */
size_t model_block_bytes(const struct model *model);
void model_read_block(const struct model *model, int32_t block, void *out);
void model_write_block(struct model *model, int32_t block, const void *bytes);

const char *model_kernels_name(const struct model *model);      /* the table in use */

/* A table by name, NULL for the fastest.  BAD_OPTION: the sentence has the names. */
MUST_CHECK enum status model_select_kernels(const char *name, const struct kernels **out, struct error *err);

/* What one device (rank) holds and has done; any thread, a recent moment. */
struct device_report {
    int heads_begin, heads_end;         /* query heads it computes */
    int n_latents;                      /* latents (or KV heads) it caches */
    int first_latent;
    size_t weight_bytes;                /* it reads in a step */
    size_t cache_bytes_per_token;       /* all layers */
    size_t cache_bytes;                 /* reserved */
    int64_t tokens_that_fit;            /* in device_memory, or in the cache there is */
    uint64_t cache_bytes_read, cache_bytes_written, weight_bytes_read;
    uint64_t multiply_adds;
    uint64_t collective_bytes, collectives;
    int64_t busy_ns, waited_ns;
    uint64_t steps;
};
void model_device_report(const struct model *model, int rank, struct device_report *out);

#endif
