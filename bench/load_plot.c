#include "bench/load_plot.h"

#include <math.h>

enum { WIDTH = 560, HEIGHT = 280, LEFT = 64, RIGHT = 16, TOP = 58, BOTTOM = 44, MAX_PARTS = 6 };

struct frame {
    double x_max, y_max;        /* the values at the right and the upper edge */
    double x_step, y_step;
};

double load_plot_step(double max)
{
    if (!(max > 0))
        return 1;
    double power = pow(10, floor(log10(max / MAX_PARTS)));
    static const double steps[] = { 1, 2, 5, 10 };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (max / (steps[i] * power) <= MAX_PARTS)
            return steps[i] * power;
    return 20 * power;
}

static double x_at(const struct frame *f, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * x / f->x_max;
}

static double y_at(const struct frame *f, double y)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / f->y_max;
}

static struct frame frame_of(const struct load_plot *plot)
{
    double x_max = 0, y_max = 0;
    for (int c = 0; c < plot->n_curves; c++)
        for (size_t i = 0; i < plot->curves[c].n; i++) {
            x_max = fmax(x_max, plot->curves[c].x[i]);
            y_max = fmax(y_max, plot->curves[c].y[i]);
        }
    struct frame f = { .x_step = load_plot_step(x_max), .y_step = load_plot_step(y_max) };
    f.x_max = x_max > 0 ? x_max : 1;
    f.y_max = fmax(1, ceil(y_max / f.y_step - 1e-9)) * f.y_step;
    return f;
}

static enum status write_axes(const struct frame *f, const struct load_plot *plot, struct buf *out)
{
    for (double y = 0; y <= f->y_max * 1.0001; y += f->y_step) {
        TRY(buf_printf(out, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"var(--faint)\"/>",
                       LEFT, WIDTH - RIGHT, y_at(f, y), y_at(f, y)));
        TRY(buf_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>", LEFT - 6,
                       y_at(f, y) + 4, y));
    }
    for (double x = 0; x <= f->x_max * 1.0001; x += f->x_step)
        TRY(buf_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>", x_at(f, x),
                       HEIGHT - BOTTOM + 16, x));
    return buf_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", WIDTH - RIGHT, HEIGHT - 8,
                      plot->x_label);
}

static enum status write_legend(const struct load_plot *plot, struct buf *out)
{
    int x = LEFT;
    for (int c = 0; c < plot->n_curves && plot->n_curves > 1; c++) {
        TRY(buf_printf(
            out, "<rect x=\"%d\" y=\"32\" width=\"14\" height=\"4\" rx=\"2\" fill=\"var(--c%d)\"/>", x, c));
        TRY(buf_printf(out, "<text x=\"%d\" y=\"38\">%s</text>", x + 20, plot->curves[c].name));
        x += 120;
    }
    return STATUS_OK;
}

static enum status write_marks(const struct frame *f, const struct load_plot *plot, int c, struct buf *out)
{
    const struct load_curve *curve = &plot->curves[c];
    for (size_t i = 0; i < curve->n; i++)
        TRY(buf_printf(
            out,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"var(--c%d)\"><title>%s: %.6g at %.6g</title>"
            "</circle>",
            x_at(f, curve->x[i]), y_at(f, curve->y[i]), c, curve->name, curve->y[i], curve->x[i]));
    return STATUS_OK;
}

static enum status write_curve(const struct frame *f, const struct load_plot *plot, int c, struct buf *out)
{
    const struct load_curve *curve = &plot->curves[c];
    TRY(buf_printf(out, "<polyline fill=\"none\" stroke=\"var(--c%d)\" stroke-width=\"2\" points=\"", c));
    for (size_t i = 0; i < curve->n; i++)
        TRY(buf_printf(out, "%.1f,%.1f ", x_at(f, curve->x[i]), y_at(f, curve->y[i])));
    TRY(buf_add_text(out, "\"/>"));
    return plot->has_marks ? write_marks(f, plot, c, out) : STATUS_OK;
}

enum status load_plot_write(const struct load_plot *plot, struct buf *out)
{
    struct frame f = frame_of(plot);
    TRY(buf_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">", WIDTH, HEIGHT,
                   plot->title));
    TRY(buf_printf(out, "<text class=\"title\" x=\"%d\" y=\"16\">%s</text>", LEFT, plot->title));
    TRY(write_legend(plot, out));
    TRY(write_axes(&f, plot, out));
    for (int c = 0; c < plot->n_curves; c++)
        TRY(write_curve(&f, plot, c, out));
    return buf_add_text(out, "</svg>\n");
}
