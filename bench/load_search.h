/* load_search.h - the largest rate at which a bound still holds.
 *
 *   rate:   1   2   4   8        double while it holds (halve if the first fails)
 *           ok  ok  ok  no
 *                   4  6  8      then cut the gap in half
 *                      ok
 *                      6 7 8     until it is within tolerance of the rate that holds
 *
 * It assumes that a bound broken at one rate is broken at every higher one; a
 * noisy server can break that, and the answer is then one of its borders.
 *
 * Pure arithmetic.  Owner: the caller.  Memory: none.
 */
#ifndef BENCH_LOAD_SEARCH_H
#define BENCH_LOAD_SEARCH_H

struct load_search_options {
    double first_rate;          /* > 0 */
    double max_rate;            /* >= first_rate */
    double tolerance;           /* > 0: stop when (fails - holds) / holds is not above it */
    int max_runs;               /* >= 1 */
};

struct load_search {
    struct load_search_options options;
    double holds;               /* the largest rate known to hold; 0: none */
    double fails;               /* the smallest known to fail; 0: none */
    double rate;                /* being measured */
    int n_runs;
};

void load_search_init(struct load_search *search, const struct load_search_options *options);

/* 1: measure at *rate and report.  0: the search is over. */
int load_search_next(struct load_search *search, double *rate);
void load_search_report(struct load_search *search, int holds);

#endif
