/* bench_tiny.h - decode steps of a model so small that its arithmetic hardly counts:
 * what is left is what a step costs beside it.
 *
 * The model is written to a folder of its own below TMPDIR, loaded, and removed.
 *
 * Owner: the calling thread.  Memory: freed before return.
 */
#ifndef BENCH_BENCH_TINY_H
#define BENCH_BENCH_TINY_H

#include "base/status.h"
#include "bench/load_stats.h"

struct bench_tiny {
    int n_ranks, batch;
    int by_chunk, depth;            /* how attention is shared (MLA's heads, or chunks of the context); cached tokens */
    int steps, repetitions;         /* a sample is so many steps */
    struct load_series *us;         /* out: microseconds of a step */
    int n_layers;                   /* out */
    double meetings;                /* out: of a rank in a step */
    double waited_us;               /* out: in a step, of the rank that waits least */
};

/* IO: the folder; else the failures of model_load and of its steps. */
MUST_CHECK enum status bench_tiny_run(struct bench_tiny *tiny, struct error *err);

int bench_tiny_ranks_valid(int n_ranks);

#endif
