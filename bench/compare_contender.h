/* compare_contender.h - one formulation on its ranks, ready to be timed.
 *
 * Serial: the ranks are run one after the other on the calling thread, so that
 * time-sharing does not disturb their busy times; of ranks with equal work one
 * is built and stands for all, unless every_rank asks otherwise.  Together: a
 * team runs all ranks at once, and the step's wall time and the waiting are real.
 *
 * Owner: the calling thread, which leads the team.  Memory: all at create.
 */
#ifndef BENCH_COMPARE_CONTENDER_H
#define BENCH_COMPARE_CONTENDER_H

#include "bench/compare_result.h"

struct compare_contender;       /* opaque */

/* Bytes that compare_contender_create will take, weights and caches of all ranks
 * that will be built. */
int64_t compare_contender_bytes(const struct compare_settings *settings, const struct compare_point *largest,
                                int64_t max_tokens, int serial);

/* largest: context and batch of the largest step.  NO_MEMORY, PEER_FAILED. */
MUST_CHECK enum status compare_contender_create(struct compare_contender **out,
                                                const struct compare_settings *settings,
                                                const struct compare_pool *pool,
                                                const struct compare_point *largest, int64_t max_tokens,
                                                int serial, struct error *err);
void compare_contender_destroy(struct compare_contender *contender);    /* NULL is allowed */

/* Forget samples; the next ones are of this context and batch. */
void compare_contender_aim(struct compare_contender *contender, int64_t context, int batch);

/* Take one sample, with cold caches; keeps it unless it is a warm-up.
 * PEER_FAILED. */
MUST_CHECK enum status compare_contender_sample(struct compare_contender *contender,
                                                const struct compare_host *host, int is_warm_up,
                                                struct error *err);

/* CPU or wall nanoseconds of the last sample: to see how many are affordable. */
int64_t compare_contender_last_ns(const struct compare_contender *contender);

/* The medians into result's devices and wall time, and the collectives' cost.
 * PEER_FAILED, NO_MEMORY. */
MUST_CHECK enum status compare_contender_finish(struct compare_contender *contender,
                                                const struct compare_host *host,
                                                struct compare_result *result, struct error *err);

#endif
