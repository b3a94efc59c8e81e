/* load_report.h - what a session of runs is written down as.
 *
 *   load_report
 *     where, what, how        one line each, the same in every form
 *     points[0..n)            one per run: its load, its figures, its result
 *
 * The forms: a table for the terminal (load_table.h), JSON and CSV (here), and
 * one HTML page (load_html.h).  All print the same figures; JSON and the page
 * carry the definitions too, so a file can be read without this program.
 *
 * Owner: one thread.  Memory: the results of all runs until clear.
 */
#ifndef BENCH_LOAD_REPORT_H
#define BENCH_LOAD_REPORT_H

#include "base/buf.h"
#include "bench/load_result.h"

enum { LOAD_MAX_POINTS = 64 };

struct load_point {
    char label[64];             /* "8 in flight", "4.00 requests/s" */
    double rate;                /* requests per second asked for; 0: closed loop; may be INFINITY */
    size_t max_in_flight;
    int holds;                  /* an SLA search's verdict: 1, 0; -1: none was asked for */
    struct load_result *result; /* owned */
    struct load_figures figures;
};

struct load_report {
    char where[512];            /* "http://host:8080, model demo, completions, streamed" */
    char arrival[160];
    char dataset[400];
    char goals[160];            /* "TTFT <= 500 ms"; "" if none were set */
    char search[240];           /* the outcome of an SLA search; "" if there was none */
    uint64_t seed;
    double best_rate;           /* of the SLA search; 0: none holds */
    int has_search;
    struct load_point points[LOAD_MAX_POINTS];
    size_t n_points;
};

void load_report_clear(struct load_report *report);

/* *point with its result is taken over and its figures are filled in.
 * n_points < LOAD_MAX_POINTS. */
void load_report_add(struct load_report *report, const struct load_point *point);

/* Did the user end a run?  Its figures are of what was measured until then. */
int load_report_was_interrupted(const struct load_report *report);

/* "holds", "broken", or "" when no verdict was asked for. */
const char *load_report_verdict(const struct load_point *point);

/* Append the form.  is_detailed: one object per request as well.  Failures of
 * buf_add. */
MUST_CHECK enum status load_report_json(const struct load_report *report, int is_detailed, struct buf *out);

/* One line per point under one line of column names. */
MUST_CHECK enum status load_report_csv(const struct load_report *report, struct buf *out);

#endif
