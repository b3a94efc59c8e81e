/* compare_count.h - what one decode step asks of each device, by arithmetic
 * over the shapes alone: bytes, multiply-adds, collectives.  Nothing is run.
 *
 *   point   formulation x n_ranks x context x batch x cache type, for one part
 *   part    kernel     softmax attention over the cached rows, and W_UV
 *           attention  the attention layer: projections, kernel, W_O
 *           layer      and the MLP
 *           model      all layers, and the head
 *
 * A step decodes one token of each of `batch` sequences, each of which has
 * `context` tokens, the new one included.
 *
 * Bytes of cache are what must be read at least: each cached row once.  A rank
 * with many query rows may read it again (attend.h works on 24 at a time); what
 * that costs is in the measured time, not in this count.
 *
 * Threads: any; memory: none.
 */
#ifndef BENCH_COMPARE_COUNT_H
#define BENCH_COMPARE_COUNT_H

#include "attention/linear.h"
#include "bench/compare_formulation.h"

enum compare_part { COMPARE_KERNEL, COMPARE_ATTENTION, COMPARE_LAYER, COMPARE_MODEL };

enum { COMPARE_MAX_RANKS = 16, COMPARE_MAX_EXCHANGES = 6 };

struct compare_point {
    const struct compare_formulation *formulation;
    enum compare_part part;
    int n_ranks;                /* valid for the formulation */
    int64_t context;
    int batch;
    enum cache_type cache_type;
    enum weight_type weight_type;
    int block_size;
};

/* One collective as one rank sees it, in numbers (not bytes). */
struct compare_exchange {
    int64_t sent;               /* published, f32, as latentd does it: nodes of a sum included */
    int64_t read;               /* read out of all outboxes and added or copied */
    int64_t link;               /* that cross one device's link with the usual ring algorithm */
    int repeats;                /* times in a step: once, or once a layer */
};

/* The work of one rank in one step. */
struct compare_work {
    int n_heads, n_latents;     /* query heads computed; latents or KV heads cached */
    int64_t cache_bytes_per_token;      /* one layer; by chunk: the rank's share */
    int64_t cache_bytes_read, cache_bytes_written;
    int64_t projection_weights, mlp_weights, head_weights;      /* numbers read, all layers of the part */
    int64_t small_weights;      /* of the projections: kept in weight_type_of_small (linear.h) */
    int64_t projection_macs, attend_macs, mlp_macs, head_macs;
    struct compare_exchange exchanges[COMPARE_MAX_EXCHANGES];
    int n_exchanges;
};

/* May the formulation lie on n_ranks ranks?  BAD_OPTION: the sentence has the
 * valid degrees. */
MUST_CHECK enum status compare_check_ranks(const struct compare_formulation *f, int n_ranks, struct error *err);

void compare_count(const struct compare_point *point, int rank, struct compare_work *out);

int64_t compare_weight_bytes(const struct compare_point *point, const struct compare_work *work);
int64_t compare_projection_bytes(const struct compare_point *point, const struct compare_work *work);   /* of that */
int64_t compare_macs(const struct compare_work *work);
int64_t compare_collective_bytes(const struct compare_work *work);      /* sent by this rank, f32 */

/* Tokens of whole sequences' cache, all layers, that fit beside the whole
 * model's weights on the fullest rank's device of so many bytes; 0 if not even
 * the weights do. */
int64_t compare_tokens_that_fit(const struct compare_point *point, int64_t device_memory);

/* The heads whose columns of W_O a rank reads. */
struct head_range compare_output_heads(const struct compare_formulation *f, int n_ranks, int rank);

/* Positions below context whose cached rows rank holds. */
int64_t compare_own_positions(const struct compare_formulation *f, int n_ranks, int rank, int64_t context);

const char *compare_part_name(enum compare_part part);
extern const char compare_part_choices[];       /* in the order of the enum */

#endif
