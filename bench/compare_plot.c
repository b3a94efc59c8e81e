#include "bench/compare_plot.h"

#include "base/json_write.h"
#include "bench/load_html.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 560, HEIGHT = 330, LEFT = 60, RIGHT = 20, TOP = 12, BOTTOM = 48, LEGEND_ROW = 19, LEGEND_COLUMNS = 2,
       LEGEND_NAME = 130, N_COLOURS = 8 };

/* One axis: values [low, high] onto pixels [from, to]. */
struct axis {
    double low, high;
    int log;
    double from, to;
};

struct compare_curve *compare_plot_curve(struct compare_plot *plot, const char *name)
{
    if (plot->n_curves == COMPARE_PLOT_CURVES)
        return NULL;
    struct compare_curve *curve = &plot->curves[plot->n_curves++];
    *curve = (struct compare_curve){ .n = 0 };
    snprintf(curve->name, sizeof curve->name, "%s", name);
    return curve;
}

void compare_curve_add(const struct compare_plot *plot, struct compare_curve *curve, double x, double y)
{
    if (curve == NULL || curve->n == COMPARE_PLOT_POINTS || !isfinite(x) || !isfinite(y)
        || (plot->x_log && x <= 0) || (plot->y_log && y <= 0))
        return;
    curve->x[curve->n] = x;
    curve->y[curve->n++] = y;
}

/* ---- axes ---- */

static double place(const struct axis *a, double value)
{
    double t = a->log ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
    return a->from + t * (a->to - a->from);
}

/* A round step that cuts [0, high] into at most six parts. */
static double linear_step(double high)
{
    double step = pow(10, floor(log10(high > 0 ? high : 1)));
    static const double parts[] = { 0.2, 0.5, 1, 2 };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (high / (step * parts[i]) <= 6)
            return step * parts[i];
    return step * 5;
}

static int span_of(const struct compare_plot *plot, int is_x, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (int c = 0; c < plot->n_curves; c++)
        for (int i = 0; i < plot->curves[c].n; i++) {
            double value = is_x ? plot->curves[c].x[i] : plot->curves[c].y[i];
            *low = value < *low ? value : *low;
            *high = value > *high ? value : *high;
        }
    return *high >= *low;
}

static struct axis make_axis(double low, double high, int log_base, double from, double to)
{
    struct axis a = { .log = log_base, .from = from, .to = to };
    if (log_base) {
        a.low = pow(log_base, floor(log(low) / log(log_base) + 1e-9));
        a.high = pow(log_base, ceil(log(high) / log(log_base) - 1e-9));
        a.high = a.high > a.low ? a.high : a.low * log_base;
        return a;
    }
    double step = linear_step(high);
    a.high = step * ceil(high / step + 1e-9);
    return a;
}

/* 1, 2, 5, 10 .. on a short decimal axis. */
static double next_part_of_decade(double value)
{
    double digit = value / pow(10, floor(log10(value) + 1e-9));
    return value * (digit > 1.5 && digit < 2.5 ? 2.5 : 2);
}

/* The first tick is a.low; 0: there is none after value. */
static double next_tick(const struct axis *a, double value)
{
    double next = value + linear_step(a->high);
    if (a->log) {
        double powers = log(a->high / a->low) / log(a->log);
        next = a->log == 10 && powers < 2.5 ? next_part_of_decade(value) : value * pow(a->log, ceil(powers / 10));
    }
    return next <= a->high * (1 + 1e-9) ? next : 0;
}

static void tick_text(double value, int log_base, char *out, size_t max)
{
    if (log_base == 2 && value >= 1048576)
        snprintf(out, max, "%gM", value / 1048576);
    else if (log_base == 2 && value >= 1024)
        snprintf(out, max, "%gK", value / 1024);
    else
        snprintf(out, max, value >= 1e5 || (value < 1e-3 && value > 0) ? "%.0e" : "%g", value);
}

static enum status write_axes(const struct compare_plot *plot, const struct axis *x, const struct axis *y,
                              struct buf *out)
{
    char text[32];
    double v = x->low;
    do {
        double at = place(x, v);
        tick_text(v, plot->x_log, text, sizeof text);
        TRY(buf_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                            "text-anchor=\"middle\">%s</text>", at, y->from, y->to, at, y->from + 16, text));
        v = next_tick(x, v);
    } while (v > 0);
    v = y->low;
    do {
        double at = place(y, v);
        tick_text(v, plot->y_log, text, sizeof text);
        TRY(buf_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                            "text-anchor=\"end\">%s</text>", x->from, at, x->to, x->from - 6, at + 4, text));
        v = next_tick(y, v);
    } while (v > 0);
    TRY(buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", (x->from + x->to) / 2, y->from + 37));
    TRY(load_html_escape(out, plot->x_label));
    TRY(buf_printf(out, "</text><text transform=\"translate(14 %.1f)rotate(-90)\" text-anchor=\"middle\">",
                   (y->from + y->to) / 2));
    TRY(load_html_escape(out, plot->y_label));
    return buf_add_text(out, "</text>\n");
}

/* ---- curves ---- */

static enum status write_curve(const struct compare_curve *c, int index, const struct axis *x, const struct axis *y,
                               struct buf *out)
{
    int colour = index % N_COLOURS;
    if (!c->is_dots && c->n > 1) {
        TRY(buf_printf(out, "<path class=\"line\" style=\"stroke:var(--c%d)%s\" d=\"", colour,
                       index >= N_COLOURS ? ";stroke-dasharray:5 3" : ""));
        for (int i = 0; i < c->n; i++)
            TRY(buf_printf(out, "%c%.1f %.1f", i > 0 ? 'L' : 'M', place(x, c->x[i]), place(y, c->y[i])));
        TRY(buf_add_text(out, "\"/>"));
    }
    for (int i = 0; i < c->n && !c->is_bare; i++) {
        TRY(buf_printf(out, "<circle r=\"3.5\" style=\"fill:var(--c%d)\" cx=\"%.1f\" cy=\"%.1f\"><title>", colour,
                       place(x, c->x[i]), place(y, c->y[i])));
        TRY(load_html_escape(out, c->name));
        TRY(buf_printf(out, ": %.6g, %.4g</title></circle>", c->x[i], c->y[i]));
    }
    return buf_add_char(out, '\n');
}

static int same_points(const struct compare_curve *a, const struct compare_curve *b)
{
    size_t bytes = (size_t)a->n * sizeof *a->x;
    return a->n == b->n && memcmp(a->x, b->x, bytes) == 0 && memcmp(a->y, b->y, bytes) == 0;
}

/* The first curve through the points of curve c; c itself if there is none before it. */
static int first_like(const struct compare_plot *plot, int c)
{
    for (int i = 0; i < c; i++)
        if (same_points(&plot->curves[i], &plot->curves[c]))
            return i;
    return c;
}

/* "GLA-4 = MLRA-2 = MLRA-4" */
static void join_names(const struct compare_plot *plot, int c, char *out, size_t max)
{
    snprintf(out, max, "%s", plot->curves[c].name);
    for (int i = c + 1; i < plot->n_curves; i++)
        if (first_like(plot, i) == c)
            snprintf(out + strlen(out), max - strlen(out), " = %s", plot->curves[i].name);
}

static enum status write_legend_entry(const struct compare_plot *plot, int c, int place, struct buf *out)
{
    double x = LEFT + place % LEGEND_COLUMNS * (double)(WIDTH - LEFT - RIGHT) / LEGEND_COLUMNS;
    double y = HEIGHT + 8 + place / LEGEND_COLUMNS * LEGEND_ROW;
    char name[LEGEND_NAME];
    join_names(plot, c, name, sizeof name);
    if (plot->curves[c].is_dots)
        TRY(buf_printf(out, "<circle r=\"4\" style=\"fill:var(--c%d)\" cx=\"%.1f\" cy=\"%.1f\"/>", c % N_COLOURS,
                       x + 10, y));
    else
        TRY(buf_printf(out, "<path class=\"line\" style=\"stroke:var(--c%d)%s\" d=\"M%.1f %.1fh20\"/>", c % N_COLOURS,
                       c >= N_COLOURS ? ";stroke-dasharray:5 3" : "", x, y));
    TRY(buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\">", x + 26, y + 4));
    TRY(load_html_escape(out, name));
    return buf_add_text(out, "</text>");
}

static enum status write_legend(const struct compare_plot *plot, struct buf *out)
{
    int place = 0;
    for (int c = 0; c < plot->n_curves; c++)
        if (first_like(plot, c) == c)
            TRY(write_legend_entry(plot, c, place++, out));
    return STATUS_OK;
}

static int legend_rows(const struct compare_plot *plot)
{
    int n = 0;
    for (int c = 0; c < plot->n_curves; c++)
        n += first_like(plot, c) == c;
    return (n + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
}

static enum status write_numbers(const char *key, const double *values, int n, struct buf *out)
{
    TRY(buf_printf(out, ",\"%s\":[", key));
    for (int i = 0; i < n; i++)
        TRY(buf_printf(out, "%s%.8g", i > 0 ? "," : "", values[i]));
    return buf_add_char(out, ']');
}

/* Names are ours or an option's: '<' would end the script, so none is let through. */
static enum status write_data(const struct compare_plot *plot, struct buf *out)
{
    TRY(buf_printf(out, "<script type=\"application/json\">{\"xlog\":%d,\"ylog\":%d,\"xlabel\":", plot->x_log,
                   plot->y_log));
    TRY(json_write_cstring(out, plot->x_label));
    TRY(buf_add_text(out, ",\"ylabel\":"));
    TRY(json_write_cstring(out, plot->y_label));
    TRY(buf_add_text(out, ",\"curves\":["));
    for (int c = 0; c < plot->n_curves; c++) {
        const struct compare_curve *curve = &plot->curves[c];
        char name[sizeof curve->name];
        snprintf(name, sizeof name, "%s", curve->name);
        for (char *at = strpbrk(name, "<>&"); at != NULL; at = strpbrk(at, "<>&"))
            *at = '_';
        TRY(buf_printf(out, "%s{\"dots\":%d,\"bare\":%d,\"name\":", c > 0 ? "," : "", curve->is_dots, curve->is_bare));
        TRY(json_write_cstring(out, name));
        TRY(write_numbers("x", curve->x, curve->n, out));
        TRY(write_numbers("y", curve->y, curve->n, out));
        TRY(buf_add_char(out, '}'));
    }
    return buf_add_text(out, "]}</script>");
}

enum status compare_plot_write(const struct compare_plot *plot, struct buf *out)
{
    double x_low, x_high, y_low, y_high;
    if (!span_of(plot, 1, &x_low, &x_high) || !span_of(plot, 0, &y_low, &y_high))
        return STATUS_OK;
    struct axis x = make_axis(x_low, x_high, plot->x_log, LEFT, WIDTH - RIGHT);
    struct axis y = make_axis(y_low, y_high, plot->y_log, HEIGHT - BOTTOM, TOP);
    int height = HEIGHT + 4 + legend_rows(plot) * LEGEND_ROW;
    TRY(buf_add_text(out, "<figure class=\"plot\"><figcaption>"));
    TRY(load_html_escape(out, plot->title));
    TRY(buf_printf(out, "</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, height));
    TRY(write_axes(plot, &x, &y, out));
    for (int c = 0; c < plot->n_curves; c++)
        if (first_like(plot, c) == c)
            TRY(write_curve(&plot->curves[c], c, &x, &y, out));
    TRY(write_legend(plot, out));
    TRY(buf_add_text(out, "</svg>"));
    TRY(write_data(plot, out));
    return buf_add_text(out, "</figure>\n");
}
