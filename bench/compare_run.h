/* compare_run.h - a session of sweeps, run point by point.
 *
 * In one point all contenders take their samples in turns, so that a disturbance
 * of the machine falls on all of them alike; a result is the median.
 *
 * Owner: one thread.  Memory: the session's results; contenders come and go.
 */
#ifndef BENCH_COMPARE_RUN_H
#define BENCH_COMPARE_RUN_H

#include "bench/compare_result.h"

/* Measures the host.  settings: kernels and the rest filled in; `host` among the
 * profiles is filled in here.  The session is large: on the heap.  The caller
 * gives *out to compare_session_destroy.  NO_MEMORY, PEER_FAILED. */
MUST_CHECK enum status compare_session_create(struct compare_session **out, const struct compare_settings *settings,
                                              struct error *err);
void compare_session_destroy(struct compare_session *session);      /* NULL is allowed */

/* An entry for every formulation of the sweep's set on every one of degrees[n]
 * that is valid for it, the first formulation first; the others are noted in
 * sweep->refused.  BAD_OPTION: none is left, or there are too many. */
MUST_CHECK enum status compare_sweep_cross(struct compare_sweep *sweep, const int *degrees, int n,
                                           struct error *err);

/* Run session->sweeps[i], which the caller has filled in.  BAD_OPTION: the part
 * cannot be run with all ranks at once.  CANCELLED: settings.is_interrupted said
 * so; points that were complete are among the results.  NO_MEMORY, PEER_FAILED. */
MUST_CHECK enum status compare_run_sweep(struct compare_session *session, int i, struct error *err);

#endif
