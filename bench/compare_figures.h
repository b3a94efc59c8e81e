/* compare_figures.h - the drawings of a comparison, each made of its results.
 * Nothing is written for one without points.  Threads: any; memory: the buffer's. */
#ifndef BENCH_COMPARE_FIGURES_H
#define BENCH_COMPARE_FIGURES_H

#include "base/buf.h"
#include "bench/compare_result.h"

/* Failures of buf_add; the first also those of compare_cache_row. */
MUST_CHECK enum status compare_figure_cache(struct buf *out, struct error *err);

/* The degrees of a sweep that each get drawings of their own: those of its
 * entries, ascending, if contenders are compared on as many devices; else one 0,
 * which stands for all together.  Returns how many. */
int compare_figure_degrees(const struct compare_sweep *sweep, int degrees[COMPARE_MAX_RANKS]);

/* Speed-up over the context, of the table (sweep, batch, cache type) that r
 * belongs to, on n_ranks devices (0: all); profile: index, or -1 for measured. */
MUST_CHECK enum status compare_figure_speedup(const struct compare_session *session, const struct compare_result *r,
                                              int n_ranks, int profile, struct buf *out);

/* Arithmetic rate over multiply-adds per byte, under the host's roofline, of
 * each contender's attention at its longest context and the first batch. */
MUST_CHECK enum status compare_figure_roofline(const struct compare_session *session, int sweep, int n_ranks,
                                               struct buf *out);

/* Tokens/s per device over tokens/s per user, a dot per batch; of all contenders
 * on all degrees, or of those on n_ranks. */
MUST_CHECK enum status compare_figure_pareto(const struct compare_session *session, int sweep, int n_ranks,
                                             struct buf *out);

#endif
