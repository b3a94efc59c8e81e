/* load_stats.h - samples of one quantity, and what is printed about them.
 *
 * Percentiles are exact: every sample is kept and sorted, none is put into a
 * histogram bucket.  The price is memory, so a series has a required maximum;
 * samples past it are counted in n_lost and the reports say so.
 *
 *   percentile p of n sorted samples: the value at position p/100 * (n - 1),
 *   linear between neighbours (numpy's default, so other tools agree);
 *   std: over n, not n - 1.
 *
 * Owner: the caller; no locking.  Memory: grows by doubling on push.
 */
#ifndef BENCH_LOAD_STATS_H
#define BENCH_LOAD_STATS_H

#include <stddef.h>

struct load_series {
    double *values;         /* [capacity]; ascending once sorted is set */
    size_t n;
    size_t capacity;
    size_t max;             /* the largest n allowed */
    size_t n_lost;          /* samples that found no room */
    int sorted;
};

/* All zero when there are no samples. */
struct load_summary {
    size_t n;
    size_t n_lost;
    double mean, std, min, max;
    double p50, p90, p95, p99;
};

void load_series_init(struct load_series *s, size_t max);
void load_series_clear(struct load_series *s);      /* frees; usable again after init */
void load_series_reset(struct load_series *s);      /* n = 0, memory kept */

/* Never fails: without room or memory the sample is counted in n_lost. */
void load_series_push(struct load_series *s, double value);

/* Every sample of from, pushed in its order. */
void load_series_append(struct load_series *s, const struct load_series *from);

/* 0 <= p <= 100; 0 when there are no samples.  Sorts on first use. */
double load_series_percentile(struct load_series *s, double p);

struct load_summary load_series_summarise(struct load_series *s);

#endif
