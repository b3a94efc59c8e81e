/* bench_model.h - a model and its sequences, for measuring steps without a server.
 *
 *   sequence s   positions [0, length), blocks s * k .. s * k + k - 1, in order;
 *                how long sequences are may change between steps, as long as all
 *                of them fit into the blocks there are
 *   cache        filled with random rows: a depth of a million tokens costs no
 *                forward pass
 *   step         the next rows of the first sequences; tokens are random, since
 *                what a step costs does not depend on them
 *
 * Owner: the thread that creates it.  Memory: at create.
 */
#ifndef BENCH_BENCH_MODEL_H
#define BENCH_BENCH_MODEL_H

#include "bench/bench_probe.h"
#include "model/model.h"

struct bench_model;             /* opaque */

struct bench_model_options {
    const char *dir;
    const char *kernels;        /* NULL: the fastest table */
    int weight_type;            /* as in model_options */
    enum cache_type cache_type;
    int n_ranks;
    int mla_by_chunk;
    int block_size;
    int n_sequences;            /* at most */
    int length;                 /* positions of each, at most */
    int64_t n_blocks;           /* for all of them; 0: n_sequences of that length */
    int max_rows;               /* of a step */
};

/* The failures of model_load. */
MUST_CHECK enum status bench_model_create(struct bench_model **out, const struct bench_model_options *options,
                                          struct error *err);
void bench_model_destroy(struct bench_model *model);        /* NULL is allowed */

struct model *bench_model_model(const struct bench_model *model);

/* Random numbers in every block of every rank; before a run or in it, between steps. */
void bench_model_fill(struct bench_model *model, uint64_t seed);

/* Blocks that one sequence of `length` positions takes. */
int64_t bench_model_blocks(int length, int block_size);

/* From now on sequences have `length` positions. */
void bench_model_aim(struct bench_model *model, int length);

/* lead(context) is called with the ranks ready; it makes the steps. */
MUST_CHECK enum status bench_model_run(struct bench_model *model, enum status (*lead)(void *context),
                                       void *context);

/* n_rows tokens each of sequences [first, first + n_sequences), from `position` on;
 * the logits of the last row of each.  n_rows * n_sequences <= max_rows. */
struct bench_step {
    int first_sequence, n_sequences;
    int position, n_rows;
};
MUST_CHECK enum status bench_model_step(struct bench_model *model, const struct bench_step *step);

/* The time of some steps: wall clock, and CPU time of the busiest rank, waiting in
 * collectives left out.  The second is what the work itself takes, however many
 * others want the cores. */
enum { BENCH_MAX_RANKS = 64 };
struct bench_timer {
    int64_t wall_ns, busy_ns[BENCH_MAX_RANKS];
};
void bench_timer_start(struct bench_timer *timer, const struct bench_model *model);
void bench_timer_stop(const struct bench_timer *timer, const struct bench_model *model, double *wall_s,
                      double *busy_s);

/* What the ranks together read and multiply.  Only inside a run; makes two short
 * steps to find it out, which also warm up. */
struct bench_cost {
    double step_bytes;          /* weights, once a step */
    double cached_bytes;        /* a cached row, read once by each query row of its sequence */
    double row_macs;            /* a row through all layers */
    double logit_row_macs;      /* and the head */
    double cached_row_macs;     /* a query row with a cached row */
    enum peak_kind attend_peak; /* what these run at: f32, or that of rows used as they are cached */
    int attend_products;        /* of each: 2 where numbers have two digits (attention/kernels.h) */
};
MUST_CHECK enum status bench_model_cost(struct bench_model *model, struct bench_cost *out);

/* The work of one or more steps, and the least time it could take. */
struct bench_work {
    double steps, rows, logit_rows, cached_rows;
    double streamed_rows;       /* cached rows, each counted once a step however many rows query it */
};
void bench_work_add(struct bench_work *work, const struct bench_step *step);
double bench_work_bytes(const struct bench_work *work, const struct bench_cost *cost);
double bench_work_macs(const struct bench_work *work, const struct bench_cost *cost);

/* Seconds: the larger of the bytes at read bandwidth and the multiply-adds at their
 * peaks. */
double bench_work_least_time(const struct bench_work *work, const struct bench_cost *cost,
                             const struct bench_limits *limits, int weight_type);

#endif
