/* compare_text.h - a comparison as CSV, JSON and Markdown.
 *
 *   CSV        one line per device of every point, with the step's columns too
 *   JSON       settings, machine, profiles, cache table, sweeps, and every point
 *              with its devices; an absent number is null
 *   Markdown   the cache table and a table per sweep
 *
 * Every column's key carries its source: counted_, measured_ or modelled_.
 *
 * Threads: any; memory: the buffer's.
 */
#ifndef BENCH_COMPARE_TEXT_H
#define BENCH_COMPARE_TEXT_H

#include "base/buf.h"
#include "bench/compare_result.h"

/* Failures of buf_add; JSON and Markdown also those of compare_cache_row. */
MUST_CHECK enum status compare_write_csv(const struct compare_session *session, struct buf *out, struct error *err);
MUST_CHECK enum status compare_write_json(const struct compare_session *session, struct buf *out, struct error *err);
MUST_CHECK enum status compare_write_markdown(const struct compare_session *session, struct buf *out,
                                              struct error *err);

#endif
