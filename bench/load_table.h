/* load_table.h - a report as plain text for a terminal.
 *
 * One run: a block of figures, then one row per metric.  Several: one row per
 * run.  The labels of the figures are the ones other load generators print, so
 * that scripts that look for "Successful requests:" go on working.
 *
 * Owner: the caller.  Memory: the buffer's.
 */
#ifndef BENCH_LOAD_TABLE_H
#define BENCH_LOAD_TABLE_H

#include "base/buf.h"
#include "bench/load_report.h"

/* Failures of buf_add. */
MUST_CHECK enum status load_table_write(const struct load_report *report, struct buf *out);

/* One line about one run, for a sweep in progress; without a newline. */
MUST_CHECK enum status load_table_line(const struct load_point *point, struct buf *out);

#endif
