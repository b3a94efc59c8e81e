/* cmd_compare.c - `latentd compare`: MLA against MLRA and the rest, per device. */
#include "base/file.h"
#include "base/interrupt.h"
#include "base/options.h"
#include "bench/compare_html.h"
#include "bench/compare_run.h"
#include "bench/compare_study.h"
#include "bench/compare_summary.h"
#include "bench/compare_text.h"
#include "model/model.h"
#include "server/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_REPORT = 256 << 20 };

struct compare_options {
    const char *study, *preset, *models, *formulations, *profiles, *kernels;
    const char *html, *csv, *json, *markdown, *charts;
    int quick, serial, every_rank;
    int part, weights;
    unsigned cache_types;
    struct option_ints degrees, contexts, batches;
    int block_size, repeats;
    size_t device_memory, max_memory;
};

#define FIELD(kind, field) OPTION_##kind(struct compare_options, field)

static const struct option_row rows[] = {
    { "study", FIELD(STRING, study), .fallback = "", .value = "NAME",
      .help = "a standard question: standard (all), paper-kernel, fair, degrees; or a sweep of your own, below" },
    { "quick", FIELD(FLAG, quick), .fallback = "off", .help = "fewer and shorter contexts: under a minute" },
    { .heading = "A sweep of your own" },
    { "preset", FIELD(STRING, preset), .fallback = "", .value = "NAME",
      .help = "formulations of a known shape: paper, paper-64, seed, demo" },
    { "models", FIELD(STRING, models), .fallback = "", .value = "NAME=DIR,..",
      .help = "formulations with the shapes of model directories" },
    { "formulations", FIELD(STRING, formulations), .fallback = "", .value = "NAME,..",
      .help = "of those, only these; the first is what the others are compared with" },
    { "part", FIELD(CHOICE, part), .fallback = "attention", .choices = compare_part_choices,
      .help = "what is run: attention over the cache, its layer, with the MLP, or the whole model" },
    { "ranks", FIELD(INTS, degrees), .fallback = "1,2,4", .min = 1, .max = COMPARE_MAX_RANKS,
      .help = "degrees of tensor parallelism" },
    { "contexts", FIELD(INTS, contexts), .fallback = "1024,8192,32768", .min = 1, .max = 1 << 24,
      .help = "tokens of each sequence, at most 16 numbers" },
    { "batches", FIELD(INTS, batches), .fallback = "1", .min = 1, .max = 256,
      .help = "sequences that decode together, at most 16 numbers" },
    { "cache-type", FIELD(CHOICES, cache_types), .fallback = "bf16", .choices = "f32 bf16 int8",
      .help = "types of the cached rows" },
    { .heading = "How" },
    { "weight-type", FIELD(CHOICE, weights), .fallback = "bf16", .choices = "f32 bf16 int8 int4", .help = "type of the weights" },
    { "kernels", FIELD(STRING, kernels), .fallback = "", .value = "NAME",
      .help = "table of kernels; the fastest if not given" },
    { "block-size", FIELD(INT, block_size), .fallback = "256", .min = 1, .max = CACHE_MAX_BLOCK_SIZE,
      .help = "tokens of a cache block; a divisor of 256" },
    { "repeats", FIELD(INT, repeats), .fallback = "5", .min = 1, .max = 15, .help = "samples of which the median is taken" },
    { "serial-ranks", FIELD(INT, serial), .fallback = "-1", .min = -1, .max = 1,
      .help = "1: run ranks one after the other; 0: all at once; -1: one after the other if cores are too few" },
    { "every-rank", FIELD(FLAG, every_rank), .fallback = "off", .help = "run also the ranks whose work equals another's" },
    { "max-memory", FIELD(SIZE, max_memory), .fallback = "8GiB", .min = 1 << 20, .max = INT64_MAX,
      .help = "bound of what is built at one time" },
    { "device-memory", FIELD(SIZE, device_memory), .fallback = "80GB", .min = 1 << 20, .max = INT64_MAX,
      .help = "of one device, for the tokens that fit" },
    { "profile", FIELD(STRING, profiles), .fallback = "host,h100-sxm", .value = "NAME,..",
      .help = "modelled devices: host, a100, h100-sxm, h200, b200, mi300x, xeon-2s, or a JSON file" },
    { .heading = "Reports" },
    { "html", FIELD(STRING, html), .fallback = "", .value = "FILE", .help = "one self-contained page" },
    { "csv", FIELD(STRING, csv), .fallback = "", .value = "FILE", .help = "a line per device and point" },
    { "json", FIELD(STRING, json), .fallback = "", .value = "FILE", .help = "everything" },
    { "markdown", FIELD(STRING, markdown), .fallback = "", .value = "FILE", .help = "a table per sweep" },
    { "chart-library", FIELD(STRING, charts), .fallback = "", .value = "DIR",
      .help = "directory with uPlot.iife.min.js and uPlot.min.css, embedded in the page" },
};

const struct option_table cmd_compare_options = {
    .command = "compare",
    .help = "compare MLA, MLRA and the rest per device: bytes, time, and a report",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .notes = "Without --study, --preset and --models the standard study is run.\n"
             "What the numbers mean: docs/COMPARE.md.\n",
    .family = command_tables,
};

/* ---- options -> session ---- */

static enum status read_profiles(const char *list, struct compare_settings *settings, struct error *err)
{
    while (*list != '\0') {
        char name[256];
        size_t n = strcspn(list, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, list);
        if (settings->n_profiles == COMPARE_MAX_PROFILES)
            return fail(err, STATUS_BAD_OPTION, "--profile takes at most %d profiles", COMPARE_MAX_PROFILES);
        struct compare_profile *p = &settings->profiles[settings->n_profiles++];
        if (strcmp(name, "host") == 0)
            snprintf(p->name, sizeof p->name, "host");
        else
            TRY(compare_profile_find(name, p, err));
        list += n + (list[n] == ',');
    }
    return STATUS_OK;
}

static enum status read_settings(const struct compare_options *o, struct compare_settings *out, struct error *err)
{
    *out = (struct compare_settings){
        .weight_type = (enum weight_type)o->weights, .block_size = o->block_size,
        .n_repeats = o->repeats, .serial = o->serial, .every_rank = o->every_rank,
        .device_memory = (int64_t)o->device_memory, .max_memory = (int64_t)o->max_memory,
    };
    if (256 % o->block_size != 0)
        return fail(err, STATUS_BAD_OPTION, "--block-size must divide 256, got %d", o->block_size);
    TRY(model_select_kernels(*o->kernels != '\0' ? o->kernels : NULL, &out->kernels, err));
    return read_profiles(o->profiles, out, err);
}

static enum status own_sweep(const struct compare_options *o, struct compare_sweep *sweep, struct error *err)
{
    if (o->contexts.n > COMPARE_MAX_STEPS || o->batches.n > COMPARE_MAX_STEPS)
        return fail(err, STATUS_BAD_OPTION, "--contexts and --batches take at most %d numbers", COMPARE_MAX_STEPS);
    *sweep = (struct compare_sweep){
        .name = "sweep", .title = "Sweep", .part = (enum compare_part)o->part, .same_degree = 1,
        .cache_types = o->cache_types, .n_contexts = o->contexts.n, .n_batches = o->batches.n,
    };
    for (int i = 0; i < o->contexts.n; i++)
        sweep->contexts[i] = o->contexts.at[i];
    for (int i = 0; i < o->batches.n; i++)
        sweep->batches[i] = (int)o->batches.at[i];
    if (*o->preset != '\0')
        TRY(compare_add_preset(&sweep->set, o->preset, err));
    if (*o->models != '\0')
        TRY(compare_add_models(&sweep->set, o->models, err));
    if (*o->formulations != '\0')
        TRY(compare_keep(&sweep->set, o->formulations, err));
    int degrees[OPTION_LIST_MAX];
    for (int i = 0; i < o->degrees.n; i++)
        degrees[i] = (int)o->degrees.at[i];
    return compare_sweep_cross(sweep, degrees, o->degrees.n, err);
}

static enum status choose_sweeps(const struct compare_options *o, struct compare_session *session, struct error *err)
{
    int is_own = *o->preset != '\0' || *o->models != '\0';
    if (*o->study != '\0' && is_own)
        return fail(err, STATUS_BAD_OPTION, "--study has formulations of its own; it goes without --preset and --models");
    if (!is_own)
        return compare_study(*o->study != '\0' ? o->study : "standard", o->quick, session->sweeps,
                             &session->n_sweeps, err);
    session->n_sweeps = 1;
    return own_sweep(o, &session->sweeps[0], err);
}

/* ---- reports ---- */

typedef enum status (*writer)(const struct compare_session *session, struct buf *out, struct error *err);

static enum status write_report(const struct compare_session *session, const char *path, writer write,
                                struct error *err)
{
    if (*path == '\0')
        return STATUS_OK;
    struct buf text;
    buf_init(&text, MAX_REPORT);
    enum status s = write(session, &text, err);
    if (s == STATUS_TOO_LARGE)
        fail(err, s, "%s would be larger than %d MiB", path, MAX_REPORT >> 20);
    if (s == STATUS_OK)
        s = file_replace(path, text.data, text.len, err);
    buf_clear(&text);
    return s;
}

static enum status write_page(const struct compare_session *session, const struct compare_options *o,
                              struct error *err)
{
    if (*o->html == '\0')
        return STATUS_OK;
    struct buf text;
    buf_init(&text, MAX_REPORT);
    enum status s = compare_write_html(session, *o->charts != '\0' ? o->charts : NULL, &text, err);
    if (s == STATUS_OK)
        s = file_replace(o->html, text.data, text.len, err);
    buf_clear(&text);
    return s;
}

static enum status write_reports(const struct compare_session *session, const struct compare_options *o,
                                 struct error *err)
{
    struct buf text;
    buf_init(&text, MAX_REPORT);
    enum status s = compare_write_summary(session, &text, err);
    if (s == STATUS_OK)
        fputs(text.data, stdout);
    buf_clear(&text);
    TRY(s);
    TRY(write_report(session, o->csv, compare_write_csv, err));
    TRY(write_report(session, o->json, compare_write_json, err));
    TRY(write_report(session, o->markdown, compare_write_markdown, err));
    return write_page(session, o, err);
}

/* Before the run, not after its minutes. */
static enum status check_reports(const struct compare_options *o, struct error *err)
{
    const char *const paths[] = { o->html, o->csv, o->json, o->markdown };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (*paths[i] != '\0')
            TRY(file_check_replace(paths[i], err));
    if (*o->html == '\0' || *o->charts == '\0')
        return STATUS_OK;
    struct buf library;
    buf_init(&library, MAX_REPORT);
    enum status s = compare_add_library(o->charts, &library, err);
    buf_clear(&library);
    return s;
}

/* ---- run ---- */

/* On a terminal, one line that is written over. */
static void show(void *context, const char *what, int done, int total)
{
    (void)context;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rcomparing: %s, step %d of %d\x1b[K%s", what, done, total, done == total ? "\r\x1b[K" : "");
}

static int is_interrupted(void *context)
{
    return interrupt_has_come(context);
}

static enum status run_sweeps(struct compare_session *session, struct error *err)
{
    enum status s = STATUS_OK;
    for (int i = 0; i < session->n_sweeps && s == STATUS_OK; i++)
        s = compare_run_sweep(session, i, err);
    if (s != STATUS_OK && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\x1b[K");
    return s;
}

/* What was measured before an interrupt is reported too; the status stays. */
static enum status run_and_report(struct compare_session *session, const struct compare_options *o,
                                  struct error *err)
{
    enum status s = run_sweeps(session, err);
    if (s != STATUS_OK && (s != STATUS_CANCELLED || session->n_results == 0))
        return s;
    struct error late;
    enum status written = write_reports(session, o, &late);
    if (written != STATUS_OK)
        *err = late;
    return written != STATUS_OK ? written : s;
}

static enum status compare(const struct compare_options *o, struct interrupt *interrupt, struct error *err)
{
    struct compare_settings settings;
    TRY(read_settings(o, &settings, err));
    TRY(check_reports(o, err));
    settings.progress = show;
    settings.is_interrupted = is_interrupted;
    settings.context = interrupt;
    struct compare_session *session;
    TRY(compare_session_create(&session, &settings, err));
    enum status s = choose_sweeps(o, session, err);
    if (s == STATUS_OK)
        s = run_and_report(session, o, err);
    compare_session_destroy(session);
    return s;
}

int cmd_compare(int argc, char **argv)
{
    struct compare_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_compare_options, argc, argv, &values);
    if (done >= 0)
        return done;
    struct error err;
    struct interrupt interrupt;
    /* Before any thread is started: one that does not hold the signals back would get them. */
    enum status s = interrupt_open(&interrupt, &err);
    if (s == STATUS_OK) {
        s = compare(&values, &interrupt, &err);
        interrupt_close(&interrupt);
    }
    options_destroy(options);
    if (s != STATUS_OK)
        fprintf(stderr, "latentd compare: %s\n", err.text);
    return s == STATUS_OK ? EXIT_SUCCESS : s == STATUS_BAD_OPTION ? EXIT_USAGE : EXIT_FAILURE;
}
