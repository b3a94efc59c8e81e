#include "bench/cmd_bench_serve.h"

#include "base/file.h"
#include "bench/load_html.h"
#include "bench/load_session.h"
#include "bench/load_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_USAGE = 2 };

#define MAX_REPORT_BYTES ((size_t)1 << 30)

/* ---- while it runs ---- */

struct console {
    int shows_progress;         /* standard error is a terminal */
    int is_quiet;
};

static void print_note(void *context, const char *sentence)
{
    const struct console *console = context;
    if (!console->is_quiet)
        fprintf(stderr, "latentd: %s\n", sentence);
}

/* One line, written over itself. */
static void print_progress(void *context, const struct load_progress *p)
{
    const struct console *console = context;
    if (!console->shows_progress)
        return;
    char planned[32] = "";
    if (p->n_planned > 0)
        snprintf(planned, sizeof planned, "/%zu", p->n_planned);
    fprintf(stderr, "\r%s%7.1f s  %zu%s done, %zu in flight, %zu failed, %.2f req/s, %.1f chunks/s\033[K",
            p->is_warm_up ? "warm-up " : "", p->elapsed_s, p->n_ended, planned, p->n_in_flight, p->n_failed,
            p->requests_per_s, p->chunks_per_s);
    fflush(stderr);
}

static void end_progress(const struct console *console)
{
    if (console->shows_progress)
        fprintf(stderr, "\r\033[K");
}

static void print_point(void *context, const struct load_point *point)
{
    const struct console *console = context;
    struct buf line;
    buf_init(&line, 4096);
    end_progress(console);
    if (console->shows_progress && load_table_line(point, &line) == STATUS_OK)
        fprintf(stderr, "%s\n", line.data);
    buf_clear(&line);
}

/* ---- afterwards ---- */

static enum status write_json(struct load_report *report, const struct load_options *o, struct buf *out)
{
    return load_report_json(report, o->detail, out);
}

static enum status write_csv(struct load_report *report, const struct load_options *o, struct buf *out)
{
    (void)o;
    return load_report_csv(report, out);
}

static enum status write_html(struct load_report *report, const struct load_options *o, struct buf *out)
{
    (void)o;
    return load_html_write(report, out);
}

static enum status save(struct load_report *report, const struct load_options *o, struct error *err)
{
    const struct {
        const char *path;
        enum status (*write)(struct load_report *report, const struct load_options *o, struct buf *out);
    } forms[] = { { o->json, write_json }, { o->csv, write_csv }, { o->html, write_html } };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].path[0] == '\0')
            continue;
        struct buf text;
        buf_init(&text, MAX_REPORT_BYTES);
        enum status s = forms[i].write(report, o, &text);
        if (s != STATUS_OK)
            fail(err, s, "the report for %s does not fit %zu bytes of memory", forms[i].path, text.max);
        else
            s = file_replace(forms[i].path, text.data, text.len, err);
        buf_clear(&text);
        TRY(s);
    }
    return STATUS_OK;
}

/* Before the load, not after its minutes. */
static enum status check_outputs(const struct load_options *o, struct error *err)
{
    const char *const paths[] = { o->json, o->csv, o->html };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (paths[i][0] != '\0')
            TRY(file_check_replace(paths[i], err));
    return STATUS_OK;
}

static enum status print_table(const struct load_report *report, struct error *err)
{
    struct buf text;
    buf_init(&text, MAX_REPORT_BYTES);
    enum status s = load_table_write(report, &text);
    if (s == STATUS_OK)
        fwrite(text.data, 1, text.len, stdout);
    else
        fail(err, s, "the table does not fit in memory");
    buf_clear(&text);
    return s;
}

static int every_run_has_success(const struct load_report *report)
{
    for (size_t i = 0; i < report->n_points; i++)
        if (report->points[i].figures.outcomes[LOAD_OUTCOME_OK] == 0
            || report->points[i].result->was_interrupted)
            return 0;
    return 1;
}

static int run(const struct load_options *o)
{
    struct console console = { .shows_progress = !o->quiet && isatty(STDERR_FILENO), .is_quiet = o->quiet };
    struct load_session_events events = {
        .on_note = print_note, .on_progress = print_progress, .on_point = print_point, .context = &console,
    };
    struct load_report *report = calloc(1, sizeof *report);
    struct error err = { 0 };
    if (report == NULL) {
        fprintf(stderr, "latentd: no memory for the report\n");
        return EXIT_FAILURE;
    }
    enum status s = check_outputs(o, &err);
    if (s == STATUS_OK)
        s = load_session_run(o, &events, report, &err);
    end_progress(&console);
    if (report->n_points > 0) {
        struct error late = { 0 };
        enum status written = print_table(report, &late);
        if (written == STATUS_OK)
            written = save(report, o, &late);
        if (s == STATUS_OK && written != STATUS_OK) {
            s = written;
            err = late;
        }
    }
    if (s != STATUS_OK)
        fprintf(stderr, "latentd: %s\n", err.text);
    int code = s == STATUS_BAD_OPTION ? EXIT_USAGE
               : s != STATUS_OK || !every_run_has_success(report) ? EXIT_FAILURE
                                                                   : EXIT_SUCCESS;
    load_report_clear(report);
    free(report);
    return code;
}

int cmd_bench_serve(int argc, char **argv)
{
    struct load_options values = { 0 };
    struct options *options = NULL;
    int done = options_begin(&options, &cmd_bench_serve_options, argc, argv, &values);
    if (done >= 0)
        return done;
    int code = run(&values);
    options_destroy(options);
    return code;
}
