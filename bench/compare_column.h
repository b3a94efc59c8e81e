/* compare_column.h - the columns of every table of a comparison, in one table.
 *
 * Each says where its numbers come from: counted (arithmetic over shapes),
 * measured (a clock of this machine), or modelled (a profile); never two of them.
 * Modelled columns exist once per profile.
 *
 * Threads: any; memory: none.
 */
#ifndef BENCH_COMPARE_COLUMN_H
#define BENCH_COMPARE_COLUMN_H

#include "bench/compare_result.h"

enum compare_source { COMPARE_COUNTED, COMPARE_MEASURED, COMPARE_MODELLED };

struct compare_column {
    const char *key;            /* "device_ms": of CSV and JSON */
    const char *title;          /* "device ms" */
    const char *help;           /* one sentence without full stop */
    enum compare_source source;
    int decimals;
    /* Of a whole step; profile is for modelled columns.  NAN: there is none. */
    double (*value)(const struct compare_session *session, const struct compare_result *r, int profile);
};

struct compare_device_column {
    const char *key, *title, *help;
    enum compare_source source;
    int decimals;
    double (*value)(const struct compare_result *r, int rank);
};

extern const struct compare_column compare_columns[];
extern const int compare_column_count;
extern const struct compare_device_column compare_device_columns[];
extern const int compare_device_column_count;

const char *compare_source_name(enum compare_source source);    /* "counted" */

#endif
