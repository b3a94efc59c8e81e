/* load_html.h - a report as one HTML page that needs nothing beside it.
 *
 * No script, no font, no address: style and drawings are inline, light and dark
 * follow the reader's system.  One run: distributions and a timeline.  Several:
 * the latencies and the throughput over the load.  Every number drawn is also
 * in a table.
 *
 * Owner: the caller.  Memory: the buffer's, and the curves while they are drawn.
 */
#ifndef BENCH_LOAD_HTML_H
#define BENCH_LOAD_HTML_H

#include "base/buf.h"
#include "bench/load_report.h"

/* Failures of buf_add.  Sorts the report's series. */
MUST_CHECK enum status load_html_write(struct load_report *report, struct buf *out);

/* Append text with the five characters that mean something in HTML escaped. */
MUST_CHECK enum status load_html_escape(struct buf *out, const char *text);

#endif
