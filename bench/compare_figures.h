/* compare_figures.h - the drawings of a comparison, each made of its results.
 * Nothing is written for one without points.  Threads: any; memory: the buffer's. */
#ifndef BENCH_COMPARE_FIGURES_H
#define BENCH_COMPARE_FIGURES_H

#include "base/buf.h"
#include "bench/compare_result.h"

/* Failures of buf_add; the first also those of compare_cache_row. */
MUST_CHECK enum status compare_figure_cache(struct buf *out, struct error *err);

/* Of the table (sweep, batch, cache type) that r belongs to. */
MUST_CHECK enum status compare_figure_speedup(const struct compare_session *session, const struct compare_result *r,
                                              struct buf *out);
MUST_CHECK enum status compare_figure_modelled(const struct compare_session *session, const struct compare_result *r,
                                               int profile, struct buf *out);

/* Arithmetic rate over multiply-adds per byte, under the host's roofline, of
 * each contender's attention at its longest context. */
MUST_CHECK enum status compare_figure_roofline(const struct compare_session *session, int sweep, struct buf *out);

/* Tokens/s per device over tokens/s per user, a dot per batch. */
MUST_CHECK enum status compare_figure_pareto(const struct compare_session *session, int sweep, struct buf *out);

#endif
