/* cmd_bench_prefill.c - `latentd bench prefill`: prompt tokens a second by length. */
#include "bench/bench_commands.h"
#include "bench/bench_settings.h"

struct prefill_options {
    struct bench_settings settings;
    struct option_ints tokens;
    int depth, step_rows;
};

static const struct option_row rows[] = {
    BENCH_SETTINGS_ROWS(struct prefill_options),
    { "tokens", OPTION_INTS(struct prefill_options, tokens), .fallback = "512", .min = 1, .max = 1 << 20,
      .help = "lengths of the prompt" },
    { "depth", OPTION_INT(struct prefill_options, depth), .fallback = "0", .min = 0, .max = 1 << 24,
      .help = "tokens that are cached before it" },
    { "step-rows", OPTION_INT(struct prefill_options, step_rows), .fallback = "512", .min = 1, .max = 1 << 16,
      .help = "tokens of one step" },
};

const struct option_table cmd_bench_prefill_options = {
    .command = "bench prefill",
    .help = "prefill steps by length of the prompt, in process",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .notes = "\"of limit\" as in bench decode; here the limit is nearly always arithmetic.\n",
};

static const struct bench_column columns[] = {
    BENCH_CASE_COLUMNS, BENCH_NUMBER("tokens", 0), BENCH_NUMBER("depth", 0), BENCH_SAMPLES("t/s", 1),
    BENCH_NUMBER("GMAC/s", 1), BENCH_NUMBER("peak GMAC/s", 1), BENCH_NUMBER("of limit %", 1), BENCH_NUMBER("busy ms", 1),
    BENCH_NUMBER("busy of limit %", 1),
};

struct run {
    const struct prefill_options *options;
    struct bench_table table;
    /* of the case that runs */
    struct bench_model *model;
    struct bench_cost cost;
    struct load_series wall[OPTION_LIST_MAX], busy[OPTION_LIST_MAX];    /* seconds */
};

/* The steps of a prompt, done if there is a model, counted if there is a work. */
static enum status prompt(const struct run *run, int n, struct bench_model *model, struct bench_work *work)
{
    const struct prefill_options *o = run->options;
    for (int done = 0; done < n; done += o->step_rows) {
        struct bench_step step = {
            .n_sequences = 1, .position = o->depth + done, .n_rows = n - done < o->step_rows ? n - done : o->step_rows,
        };
        if (work != NULL)
            bench_work_add(work, &step);
        if (model != NULL)
            TRY(bench_model_step(model, &step));
    }
    return STATUS_OK;
}

static enum status sample(struct run *run, int i)
{
    struct bench_timer timer;
    double wall, busy;
    bench_timer_start(&timer, run->model);
    TRY(prompt(run, (int)run->options->tokens.at[i], run->model, NULL));
    bench_timer_stop(&timer, run->model, &wall, &busy);
    load_series_push(&run->wall[i], wall);
    load_series_push(&run->busy[i], busy);
    return STATUS_OK;
}

static enum status lead(void *context)
{
    struct run *run = context;
    TRY(bench_model_cost(run->model, &run->cost));
    /* Memory that only long prompts touch is new to the first of them. */
    for (int i = 0; i < run->options->tokens.n; i++)
        TRY(prompt(run, (int)run->options->tokens.at[i], run->model, NULL));
    for (int r = 0; r < run->options->settings.repetitions; r++)
        for (int i = 0; i < run->options->tokens.n; i++)
            TRY(sample(run, i));
    return STATUS_OK;
}

static void print_length(struct run *run, const struct bench_case *c, int i)
{
    struct bench_work work = { 0 };
    if (prompt(run, (int)run->options->tokens.at[i], NULL, &work) != STATUS_OK)
        return;
    double least = bench_work_least_time(&work, &run->cost, &c->limits, c->weight_type);
    struct load_series rate;
    load_series_init(&rate, run->wall[i].n);
    for (size_t s = 0; s < run->wall[i].n; s++)
        load_series_push(&rate, work.rows / run->wall[i].values[s]);
    struct load_summary summary = load_series_summarise(&rate);
    load_series_clear(&rate);
    double wall = load_series_percentile(&run->wall[i], 50), busy = load_series_percentile(&run->busy[i], 50);
    struct bench_table *t = &run->table;
    bench_case_cells(c, t);
    bench_table_number(t, (double)run->options->tokens.at[i]);
    bench_table_number(t, run->options->depth);
    bench_table_summary(t, &summary);
    bench_table_number(t, bench_work_macs(&work, &run->cost) / wall / 1e9);
    bench_table_number(t, bench_work_macs(&work, &run->cost) / least / 1e9);
    bench_table_number(t, 100 * least / wall);
    bench_table_number(t, busy * 1e3);
    bench_table_number(t, 100 * least / busy);
}

static enum status run_case(void *context, const struct bench_case *c, struct error *err)
{
    struct run *run = context;
    const struct prefill_options *o = run->options;
    struct bench_model_options options = bench_case_model(&o->settings, c);
    options.n_sequences = 1;
    options.length = 2;             /* what bench_model_cost needs */
    options.max_rows = o->step_rows;
    for (int i = 0; i < o->tokens.n; i++)
        if (o->depth + o->tokens.at[i] > options.length)
            options.length = (int)(o->depth + o->tokens.at[i]);
    TRY(bench_model_create(&run->model, &options, err));
    bench_model_fill(run->model, 1);
    for (int i = 0; i < o->tokens.n; i++) {
        load_series_init(&run->wall[i], (size_t)o->settings.repetitions);
        load_series_init(&run->busy[i], (size_t)o->settings.repetitions);
    }
    enum status s = bench_model_run(run->model, lead, run);
    bench_model_destroy(run->model);
    if (s != STATUS_OK)
        fail(err, s, "a step failed: %s", status_meaning(s));
    for (int i = 0; i < o->tokens.n; i++) {
        if (s == STATUS_OK)
            print_length(run, c, i);
        load_series_clear(&run->wall[i]);
        load_series_clear(&run->busy[i]);
    }
    return s;
}

static enum status run_all(struct run *run, struct error *err)
{
    bench_table_begin(&run->table, stdout, (enum bench_format)run->options->settings.format, columns,
                      sizeof columns / sizeof columns[0]);
    TRY(bench_settings_each(&run->options->settings, run_case, run, err));
    return bench_table_end(&run->table, err);
}

int cmd_bench_prefill(int argc, char **argv)
{
    struct prefill_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_bench_prefill_options, argc, argv, &values);
    if (done >= 0)
        return done;
    struct run run = { .options = &values };
    struct error err = { 0 };
    enum status s = run_all(&run, &err);
    options_destroy(options);
    return bench_exit_code(s, &err);
}
