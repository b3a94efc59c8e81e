/* compare_summary.h - the answers of a comparison: a small table per sweep for
 * the terminal, and where one contender overtakes another.
 * Threads: any; memory: the buffer's. */
#ifndef BENCH_COMPARE_SUMMARY_H
#define BENCH_COMPARE_SUMMARY_H

#include "base/buf.h"
#include "bench/compare_result.h"

/* The cached tokens (batch x context) past which a contender is faster than the
 * one it is compared with. */
struct compare_crossing {
    double measured;            /* of device times, between two contexts of the sweep; 0: faster at all of
                                   them; INFINITY: at none; NAN: not measured */
    double modelled;            /* of profile i's, likewise */
    double counted;             /* of bytes moved: extra weights / cached bytes saved a token; INFINITY:
                                   nothing is saved; 0: it has no extra weights */
};

/* r: any result of the contender, batch and cache type; profile: index, or -1. */
void compare_find_crossing(const struct compare_session *session, const struct compare_result *r, int profile,
                           struct compare_crossing *out);

/* Failures of buf_add. */
MUST_CHECK enum status compare_write_summary(const struct compare_session *session, struct buf *out,
                                             struct error *err);

#endif
