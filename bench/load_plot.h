/* load_plot.h - one line plot as inline SVG.
 *
 *   title
 *   40 |        __*        lines with their names above the frame, both axes
 *   20 |   __*--           from 0, round ticks, grid behind
 *    0 +----------
 *      0     5    10  x label
 *
 * Colours are the page's CSS variables --c0 .. --c3, --ink, --faint, so one
 * drawing serves light and dark.  With has_marks every point is a dot whose
 * tooltip holds its values.
 *
 * Owner: the caller.  Memory: the buffer's.
 */
#ifndef BENCH_LOAD_PLOT_H
#define BENCH_LOAD_PLOT_H

#include "base/buf.h"

#include <stddef.h>

enum { LOAD_PLOT_CURVES = 4 };

struct load_curve {
    const char *name;           /* plain text, no markup */
    const double *x, *y;        /* [n], finite, >= 0; x ascending */
    size_t n;
};

struct load_plot {
    const char *title, *x_label;
    struct load_curve curves[LOAD_PLOT_CURVES];
    int n_curves;
    int has_marks;
};

/* Failures of buf_add. */
MUST_CHECK enum status load_plot_write(const struct load_plot *plot, struct buf *out);

/* A round step (1, 2 or 5 times a power of ten) that cuts 0 .. max into at most
 * six parts; 1 if max is not above 0. */
double load_plot_step(double max);

#endif
