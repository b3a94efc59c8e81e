/* bench_table.h - rows of results as Markdown, CSV or JSON, printed as they come.
 *
 *   columns    BENCH_WORDS("weights") BENCH_SAMPLES("t/s", 1) BENCH_NUMBER("GB/s", 1)
 *
 *   Markdown   | bf16 | 14.9 ± 0.3 | 26.1 |
 *   CSV        weights,t/s,t/s std,t/s min,t/s median,t/s max,GB/s
 *   JSON       [{"weights": "bf16", "t/s": {"mean": 14.9, "std": ..}, "GB/s": 26.1}]
 *
 * A row is one call per column, in their order; the last one prints it.
 *
 * Owner: one thread.  Memory: none.
 */
#ifndef BENCH_BENCH_TABLE_H
#define BENCH_BENCH_TABLE_H

#include "base/status.h"
#include "bench/load_stats.h"

#include <stdio.h>

enum bench_cells { BENCH_CELLS_TEXT, BENCH_CELLS_NUMBER, BENCH_CELLS_SUMMARY };

struct bench_column {
    const char *name;
    enum bench_cells cells;
    int decimals;               /* printed in Markdown */
};
#define BENCH_WORDS(name)               { name, BENCH_CELLS_TEXT, 0 }
#define BENCH_NUMBER(name, decimals)    { name, BENCH_CELLS_NUMBER, decimals }
#define BENCH_SAMPLES(name, decimals)   { name, BENCH_CELLS_SUMMARY, decimals }     /* of repetitions */

/* In the order of bench_format_choices. */
enum bench_format { BENCH_MARKDOWN, BENCH_CSV, BENCH_JSON };
#define BENCH_FORMAT_CHOICES "md csv json"

struct bench_table {
    FILE *out;
    enum bench_format format;
    const struct bench_column *columns;
    int n_columns;
    int at;                     /* column of the next cell */
    int n_rows;                 /* begun */
};

void bench_table_begin(struct bench_table *table, FILE *out, enum bench_format format,
                       const struct bench_column *columns, int n_columns);

void bench_table_text(struct bench_table *table, const char *text);     /* no control characters */
void bench_table_number(struct bench_table *table, double value);
void bench_table_summary(struct bench_table *table, const struct load_summary *summary);
void bench_table_none(struct bench_table *table);                       /* does not apply here */

/* IO: not all of it could be written. */
MUST_CHECK enum status bench_table_end(struct bench_table *table, struct error *err);

#endif
