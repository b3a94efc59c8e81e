/* compare_cache_table.h - cached bytes of a token per device, in the units in
 * which the MLRA paper prints them: head widths (128 elements), one layer, 64
 * heads, 8 KV groups, on 1, 2, 4 and 8 devices.
 *
 * What this program can run is read off its own cache layout (the fullest rank);
 * the others follow from a formula and say so.  A cell that could be matched to a
 * number of the paper is marked printed; the rest are computed here.
 *
 * Threads: any; memory: none.
 */
#ifndef BENCH_COMPARE_CACHE_TABLE_H
#define BENCH_COMPARE_CACHE_TABLE_H

#include "base/status.h"

enum { COMPARE_CACHE_DEGREES = 4 };
extern const int compare_cache_degrees[COMPARE_CACHE_DEGREES];      /* 1, 2, 4, 8 */

struct compare_cache_row {
    const char *method;
    const char *basis;          /* "cache layout" or the formula */
    double units[COMPARE_CACHE_DEGREES];
    int is_printed[COMPARE_CACHE_DEGREES];
};

int compare_cache_row_count(void);
/* 0 <= i < count.  BAD_MODEL, BAD_OPTION: a shape of the table is wrong. */
MUST_CHECK enum status compare_cache_row(int i, struct compare_cache_row *out, struct error *err);

#endif
