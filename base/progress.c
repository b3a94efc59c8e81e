#include "base/progress.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <unistd.h>

#define QUIET_NS ((int64_t)1000000000)
#define REDRAW_NS ((int64_t)100000000)
#define LOG_EVERY_NS ((int64_t)5000000000)

enum { BAR_CELLS = 24 };

void progress_start(struct progress *p, const char *what)
{
    *p = (struct progress){ .what = what, .started_ns = clock_now_ns() };
    p->is_terminal = isatty(STDERR_FILENO);
    p->shown_ns = p->started_ns;
}

static void draw(struct progress *p, size_t done, size_t total, double left_seconds)
{
    char bar[BAR_CELLS + 1];
    size_t full = done * BAR_CELLS / total;
    for (size_t i = 0; i < BAR_CELLS; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    char line[256];
    int n = snprintf(line, sizeof line, "\r%.60s  [%s] %3zu %%  %.2f of %.2f GB  %.0f s left\x1b[K",
                     p->what, bar, done * 100 / total, (double)done / 1e9, (double)total / 1e9,
                     left_seconds);
    p->has_bar = write(STDERR_FILENO, line, (size_t)n) > 0;
}

void progress_update(struct progress *p, size_t done, size_t total)
{
    int64_t now = clock_now_ns();
    if (now - p->started_ns < QUIET_NS || total == 0)
        return;
    if (now - p->shown_ns < (p->is_terminal ? REDRAW_NS : LOG_EVERY_NS))
        return;
    p->shown_ns = now;
    done = done < total ? done : total;
    double seconds = (double)(now - p->started_ns) / 1e9;
    double left = done > 0 ? seconds * (double)(total - done) / (double)done : 0;
    if (p->is_terminal)
        draw(p, done, total, left);
    else
        log_info("%s percent=%zu seconds_left=%.0f", p->what, done * 100 / total, left);
}

void progress_end(struct progress *p)
{
    if (p->has_bar && write(STDERR_FILENO, "\r\x1b[K", 4) < 0)
        return;
    p->has_bar = 0;
}
