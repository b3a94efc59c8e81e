/* compare_plot.h - one drawing of a comparison: curves or dots on linear or
 * logarithmic axes, as inline SVG, with its numbers beside it as JSON for a
 * chart library.
 *
 *   <figure class="plot"><figcaption>title</figcaption>
 *     <svg> .. </svg>
 *     <script type="application/json"> {"x":..,"curves":[..]} </script>
 *   </figure>
 *
 * Colours are the page's --c0 .. --c7; curves beyond eight repeat them dashed,
 * and every curve has its name in the legend, so that print without colour can
 * be read.  A point's tooltip holds its values.  Curves through the same points
 * would hide each other: they are drawn once and named together, "a = b".
 *
 * Threads: any; memory: the buffer's.
 */
#ifndef BENCH_COMPARE_PLOT_H
#define BENCH_COMPARE_PLOT_H

#include "base/buf.h"

enum { COMPARE_PLOT_CURVES = 20, COMPARE_PLOT_POINTS = 32 };

struct compare_curve {
    char name[64];
    double x[COMPARE_PLOT_POINTS], y[COMPARE_PLOT_POINTS];     /* finite; > 0 on a logarithmic axis */
    int n;
    int is_dots;                /* no line between the points */
    int is_bare;                /* no marks at the points: a bound, not data */
};

struct compare_plot {
    const char *title, *x_label, *y_label;
    int x_log, y_log;           /* 0: linear from 0; else the base of the ticks, 2 or 10 */
    struct compare_curve curves[COMPARE_PLOT_CURVES];
    int n_curves;
};

/* The next curve, cleared, called name; NULL when there are no more. */
struct compare_curve *compare_plot_curve(struct compare_plot *plot, const char *name);
/* Ignored when the curve is NULL or full, or a number cannot be drawn. */
void compare_curve_add(const struct compare_plot *plot, struct compare_curve *curve, double x, double y);

/* Nothing is written for a plot without points.  Failures of buf_add. */
MUST_CHECK enum status compare_plot_write(const struct compare_plot *plot, struct buf *out);

#endif
