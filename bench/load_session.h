/* load_session.h - what one call of `latentd bench serve` does: look at the
 * server, make the prompts, then one run, a sweep, or a search.
 *
 *   options -> server, model, vocabulary -> dataset -> run, run, .. -> report
 *
 * Owner: the calling thread.  Memory: the dataset and the results of all runs.
 */
#ifndef BENCH_LOAD_SESSION_H
#define BENCH_LOAD_SESSION_H

#include "bench/load_options.h"
#include "bench/load_report.h"
#include "bench/load_run.h"

/* What a session tells while it goes on; each may be NULL. */
struct load_session_events {
    void (*on_note)(void *context, const char *sentence);
    void (*on_progress)(void *context, const struct load_progress *progress);
    void (*on_point)(void *context, const struct load_point *point);    /* a run of several is over */
    void *context;
};

/* Fills *report, which the caller gives to load_report_clear in any case.
 * BAD_OPTION: the options do not fit each other, or the URL or --extra is not
 * one.  IO: the server cannot be reached, or the file not read.  BAD_REQUEST:
 * the file's rows.  UNSUPPORTED: no model name, no /tokenize, no reset route.
 * A server that refuses requests is not a failure: the report tells. */
MUST_CHECK enum status load_session_run(const struct load_options *options,
                                        const struct load_session_events *events, struct load_report *report,
                                        struct error *err);

#endif
