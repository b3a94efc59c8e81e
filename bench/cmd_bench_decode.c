/* cmd_bench_decode.c - `latentd bench decode`: tokens a second by depth and batch,
 * against what memory and arithmetic allow. */
#include "bench/bench_commands.h"
#include "bench/bench_settings.h"

#include <stdlib.h>

struct decode_options {
    struct bench_settings settings;
    struct option_ints depths, batches;
    int tokens;
    int64_t max_cached;
};

static const struct option_row rows[] = {
    BENCH_SETTINGS_ROWS(struct decode_options),
    { "depths", OPTION_INTS(struct decode_options, depths), .fallback = "0", .min = 0, .max = 1 << 24,
      .help = "tokens that are cached before the first step" },
    { "batches", OPTION_INTS(struct decode_options, batches), .fallback = "1", .min = 1, .max = 1024,
      .help = "sequences that decode together" },
    { "tokens", OPTION_INT(struct decode_options, tokens), .fallback = "32", .min = 1, .max = 1 << 20,
      .help = "steps of a sample" },
    { "max-cached", OPTION_INT(struct decode_options, max_cached), .fallback = "65536", .min = 1,
      .max = INT32_MAX, .value = "TOKENS",
      .help = "pairs of depth and batch that would have more cached tokens are left out" },
};

const struct option_table cmd_bench_decode_options = {
    .command = "bench decode",
    .help = "decode steps by depth and batch, in process",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .notes = "The cache is filled with random rows, nothing is prefilled.  \"of limit\" is the least time that the\n"
             "bytes and multiply-adds of a step could take on the cores used, as measured just before and after,\n"
             "by the time the steps took (the median sample).  \"busy\" is the CPU time of the busiest rank, without\n"
             "waiting: what the steps take when nobody else wants the cores.\n",
};

static const struct bench_column columns[] = {
    BENCH_CASE_COLUMNS, BENCH_NUMBER("depth", 0), BENCH_NUMBER("batch", 0), BENCH_SAMPLES("t/s", 2),
    BENCH_NUMBER("ms a step", 3), BENCH_NUMBER("GB/s", 2), BENCH_NUMBER("read limit GB/s", 2),
    BENCH_NUMBER("GMAC/s", 1), BENCH_NUMBER("of limit %", 1), BENCH_NUMBER("busy ms", 3), BENCH_NUMBER("busy of limit %", 1),
};

/* One pair of depth and batch, and its samples in seconds. */
struct point {
    int depth, batch;
    struct load_series wall, busy;
};

struct run {
    const struct decode_options *options;
    struct bench_table table;
    /* of the case that runs */
    struct bench_model *model;
    struct bench_cost cost;
    struct point points[OPTION_LIST_MAX * OPTION_LIST_MAX];
    int n_points;
};

static enum status sample(struct run *run, struct point *point)
{
    struct bench_step step = { .n_sequences = point->batch, .position = point->depth, .n_rows = 1 };
    struct bench_timer timer;
    double wall, busy;
    bench_timer_start(&timer, run->model);
    for (int i = 0; i < run->options->tokens; i++, step.position++)
        TRY(bench_model_step(run->model, &step));
    bench_timer_stop(&timer, run->model, &wall, &busy);
    load_series_push(&point->wall, wall);
    load_series_push(&point->busy, busy);
    return STATUS_OK;
}

/* Repetitions go round all points, so that a noisy moment hits none of them alone. */
static enum status lead(void *context)
{
    struct run *run = context;
    TRY(bench_model_cost(run->model, &run->cost));
    for (int r = 0; r < run->options->settings.repetitions; r++)
        for (int i = 0; i < run->n_points; i++) {
            struct point *p = &run->points[i];
            bench_model_aim(run->model, p->depth + run->options->tokens);
            if (r == 0)
                TRY(bench_model_step(run->model, &(struct bench_step){
                    .n_sequences = p->batch, .position = p->depth, .n_rows = 1 }));
            TRY(sample(run, p));
        }
    return STATUS_OK;
}

static struct load_summary rates(const struct load_series *seconds, double n)
{
    struct load_series rate;
    load_series_init(&rate, seconds->n);
    for (size_t i = 0; i < seconds->n; i++)
        load_series_push(&rate, n / seconds->values[i]);
    struct load_summary summary = load_series_summarise(&rate);
    load_series_clear(&rate);
    return summary;
}

static void print_point(struct run *run, const struct bench_case *c, const struct bench_limits *limits,
                        struct point *p)
{
    struct bench_work work = { 0 };
    for (int t = 0; t < run->options->tokens; t++)
        bench_work_add(&work, &(struct bench_step){ .n_sequences = p->batch, .position = p->depth + t, .n_rows = 1 });
    struct load_summary rate = rates(&p->wall, work.rows);
    double wall = load_series_percentile(&p->wall, 50), busy = load_series_percentile(&p->busy, 50);
    double least = bench_work_least_time(&work, &run->cost, limits, c->weight_type);
    struct bench_table *t = &run->table;
    bench_case_cells(c, t);
    bench_table_number(t, p->depth);
    bench_table_number(t, p->batch);
    bench_table_summary(t, &rate);
    bench_table_number(t, wall / work.steps * 1e3);
    bench_table_number(t, bench_work_bytes(&work, &run->cost) / wall / 1e9);
    bench_table_number(t, limits->read / 1e9);
    bench_table_number(t, bench_work_macs(&work, &run->cost) / wall / 1e9);
    bench_table_number(t, 100 * least / wall);
    bench_table_number(t, busy / work.steps * 1e3);
    bench_table_number(t, 100 * least / busy);
}

static void choose_points(struct run *run)
{
    const struct decode_options *o = run->options;
    run->n_points = 0;
    for (int d = 0; d < o->depths.n; d++)
        for (int b = 0; b < o->batches.n; b++)
            if (o->batches.at[b] * (o->depths.at[d] + o->tokens) <= o->max_cached)
                run->points[run->n_points++] =
                    (struct point){ .depth = (int)o->depths.at[d], .batch = (int)o->batches.at[b] };
}

/* A model with room for the longest, the widest and the largest of the points. */
static enum status open_model(struct run *run, const struct bench_case *c, struct error *err)
{
    struct bench_model_options options = bench_case_model(&run->options->settings, c);
    options.length = 2;             /* what bench_model_cost needs */
    for (int i = 0; i < run->n_points; i++) {
        const struct point *p = &run->points[i];
        int length = p->depth + run->options->tokens;
        int64_t blocks = p->batch * bench_model_blocks(length, options.block_size);
        options.length = length > options.length ? length : options.length;
        options.n_sequences = p->batch > options.n_sequences ? p->batch : options.n_sequences;
        options.n_blocks = blocks > options.n_blocks ? blocks : options.n_blocks;
    }
    options.max_rows = options.n_sequences;
    TRY(bench_model_create(&run->model, &options, err));
    bench_model_fill(run->model, 1);
    return STATUS_OK;
}

static enum status run_case(void *context, const struct bench_case *c, struct error *err)
{
    struct run *run = context;
    TRY(open_model(run, c, err));
    for (int i = 0; i < run->n_points; i++) {
        load_series_init(&run->points[i].wall, (size_t)run->options->settings.repetitions);
        load_series_init(&run->points[i].busy, (size_t)run->options->settings.repetitions);
    }
    enum status s = bench_model_run(run->model, lead, run);
    bench_model_destroy(run->model);
    struct bench_limits limits = c->limits;
    if (s != STATUS_OK)
        fail(err, s, "a step failed: %s", status_meaning(s));
    else
        s = bench_case_limits(c, &limits, err);
    for (int i = 0; i < run->n_points; i++) {
        if (s == STATUS_OK)
            print_point(run, c, &limits, &run->points[i]);
        load_series_clear(&run->points[i].wall);
        load_series_clear(&run->points[i].busy);
    }
    return s;
}

static enum status run_all(struct run *run, struct error *err)
{
    choose_points(run);
    if (run->n_points == 0)
        return fail(err, STATUS_BAD_OPTION, "every pair of --depths and --batches has more than --max-cached %lld "
                    "cached tokens", (long long)run->options->max_cached);
    bench_table_begin(&run->table, stdout, (enum bench_format)run->options->settings.format, columns,
                      sizeof columns / sizeof columns[0]);
    TRY(bench_settings_each(&run->options->settings, run_case, run, err));
    return bench_table_end(&run->table, err);
}

int cmd_bench_decode(int argc, char **argv)
{
    struct decode_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_bench_decode_options, argc, argv, &values);
    if (done >= 0)
        return done;
    struct error err = { 0 };
    struct run *run = calloc(1, sizeof *run);
    enum status s = run == NULL ? fail(&err, STATUS_NO_MEMORY, "no memory for the samples") : STATUS_OK;
    if (s == STATUS_OK) {
        run->options = &values;
        s = run_all(run, &err);
    }
    free(run);
    options_destroy(options);
    return bench_exit_code(s, &err);
}
