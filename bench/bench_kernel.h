/* bench_kernel.h - one kernel timed alone, on the calling thread's CPU time.
 *
 * Linear layers (bench_linear.c) go round so many weight matrices that each call
 * reads its weights from memory, as a layer of a model does.  Everything else
 * (bench_rows.c) works on rows that lie in the nearest caches, as they do between
 * two kernels of a layer.
 *
 * Threads: any, one at a time on a core.  Memory: freed before return.
 */
#ifndef BENCH_BENCH_KERNEL_H
#define BENCH_BENCH_KERNEL_H

#include "base/options.h"
#include "bench/bench_probe.h"
#include "bench/bench_table.h"
#include "model/model.h"

/* Of one call. */
struct bench_kernel_result {
    const char *name, *shape;
    double bytes, macs;
    int from_memory;                /* where the bytes come from: memory, or the nearest cache */
    enum peak_kind kind;            /* the peak that its multiply-adds are measured against */
    struct load_series *seconds;    /* the samples */
};

struct bench_linear_spec {
    const struct kernels *kernels;
    enum weight_type type;
    int inputs, outputs;
    const struct option_ints *rows;
    int repetitions;
    void (*on_result)(void *context, const struct bench_kernel_result *result);
    void *context;
};
/* linear_apply of that type, for each number of rows.  NO_MEMORY. */
MUST_CHECK enum status bench_linear_run(const struct bench_linear_spec *spec, struct error *err);

struct bench_rows_spec {
    const struct kernels *kernels;
    int repetitions;
    void (*on_result)(void *context, const struct bench_kernel_result *result);
    void *context;
};
/* Every other kernel of the table.  NO_MEMORY. */
MUST_CHECK enum status bench_rows_run(const struct bench_rows_spec *spec, struct error *err);

#endif
