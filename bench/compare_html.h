/* compare_html.h - a comparison as one HTML page that needs nothing beside it.
 *
 * Style, data and drawings are inline; light and dark follow the reader's system,
 * and it prints.  Every drawing is inline SVG.  With a chart library (uPlot's
 * uPlot.iife.min.js and uPlot.min.css in one directory) its text is embedded too
 * and takes the drawings' place on a screen: hover, zoom, hide a curve.
 *
 * Threads: any; memory: the buffer's.
 */
#ifndef BENCH_COMPARE_HTML_H
#define BENCH_COMPARE_HTML_H

#include "base/buf.h"
#include "bench/compare_result.h"

/* Only the library's text, which compare_write_html embeds; nothing when dir is
 * NULL.  Failures of buf_add; IO: it cannot be read. */
MUST_CHECK enum status compare_add_library(const char *dir, struct buf *out, struct error *err);

/* chart_library: the directory, or NULL.  Failures of buf_add; IO: the library
 * cannot be read; those of compare_cache_row. */
MUST_CHECK enum status compare_write_html(const struct compare_session *session, const char *chart_library,
                                          struct buf *out, struct error *err);

#endif
