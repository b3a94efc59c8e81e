/* cmd_bench_batch.c - `latentd bench batch`: so many sequences, each with its own
 * prompt and its own continuation, over a grid of sizes. */
#include "base/clock.h"
#include "bench/bench_commands.h"
#include "bench/bench_settings.h"

struct batch_options {
    struct bench_settings settings;
    struct option_ints prompts, tokens, batches;
    int step_rows;
};

static const struct option_row rows[] = {
    BENCH_SETTINGS_ROWS(struct batch_options),
    { "prompts", OPTION_INTS(struct batch_options, prompts), .fallback = "128", .min = 1, .max = 1 << 20,
      .help = "tokens of each prompt" },
    { "tokens", OPTION_INTS(struct batch_options, tokens), .fallback = "32", .min = 1, .max = 1 << 20,
      .help = "tokens generated for each" },
    { "batches", OPTION_INTS(struct batch_options, batches), .fallback = "1,2,4,8,16,32", .min = 1, .max = 1024,
      .help = "sequences together" },
    { "step-rows", OPTION_INT(struct batch_options, step_rows), .fallback = "512", .min = 1, .max = 1 << 16,
      .help = "prompt tokens of one step" },
};

const struct option_table cmd_bench_batch_options = {
    .command = "bench batch",
    .help = "prompt and decode rates over a grid of prompt, tokens and batch, in process",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .notes = "The prompts are computed one after the other, then all sequences decode together.\n",
};

static const struct bench_column columns[] = {
    BENCH_CASE_COLUMNS, BENCH_NUMBER("PP", 0), BENCH_NUMBER("TG", 0), BENCH_NUMBER("B", 0), BENCH_SAMPLES("PP t/s", 1),
    BENCH_SAMPLES("TG t/s", 1), BENCH_SAMPLES("total t/s", 1),
};

struct point {
    int prompt, tokens, batch;
};

struct run {
    const struct batch_options *options;
    struct bench_table table;
    struct bench_model *model;      /* of the case that runs */
    const struct point *point;
    struct load_series prompt, tokens, total;   /* rates */
};

static enum status prefill(struct run *run)
{
    const struct point *p = run->point;
    int at_once = run->options->step_rows;
    for (int sequence = 0; sequence < p->batch; sequence++)
        for (int done = 0; done < p->prompt; done += at_once)
            TRY(bench_model_step(run->model, &(struct bench_step){
                .first_sequence = sequence, .n_sequences = 1, .position = done,
                .n_rows = p->prompt - done < at_once ? p->prompt - done : at_once,
            }));
    return STATUS_OK;
}

static enum status sample(struct run *run)
{
    const struct point *p = run->point;
    int64_t start = clock_now_ns();
    TRY(prefill(run));
    int64_t prompted = clock_now_ns();
    for (int i = 0; i < p->tokens; i++)
        TRY(bench_model_step(run->model, &(struct bench_step){
            .n_sequences = p->batch, .position = p->prompt + i, .n_rows = 1 }));
    int64_t end = clock_now_ns();
    double n_prompt = (double)p->batch * p->prompt, n_tokens = (double)p->batch * p->tokens;
    load_series_push(&run->prompt, n_prompt / ((double)(prompted - start) / 1e9));
    load_series_push(&run->tokens, n_tokens / ((double)(end - prompted) / 1e9));
    load_series_push(&run->total, (n_prompt + n_tokens) / ((double)(end - start) / 1e9));
    return STATUS_OK;
}

static enum status lead(void *context)
{
    struct run *run = context;
    for (int r = 0; r < run->options->settings.repetitions; r++)
        TRY(sample(run));
    return STATUS_OK;
}

static enum status run_point(struct run *run, const struct bench_case *c, const struct point *p, struct error *err)
{
    struct load_series *all[] = { &run->prompt, &run->tokens, &run->total };
    run->point = p;
    bench_model_aim(run->model, p->prompt + p->tokens);
    for (int i = 0; i < 3; i++)
        load_series_init(all[i], (size_t)run->options->settings.repetitions);
    enum status s = bench_model_run(run->model, lead, run);
    if (s != STATUS_OK)
        fail(err, s, "a step failed: %s", status_meaning(s));
    if (s == STATUS_OK) {
        bench_case_cells(c, &run->table);
        bench_table_number(&run->table, p->prompt);
        bench_table_number(&run->table, p->tokens);
        bench_table_number(&run->table, p->batch);
    }
    for (int i = 0; i < 3; i++) {
        struct load_summary summary = load_series_summarise(all[i]);
        if (s == STATUS_OK)
            bench_table_summary(&run->table, &summary);
        load_series_clear(all[i]);
    }
    return s;
}

static int largest(const struct option_ints *list)
{
    int64_t most = 0;
    for (int i = 0; i < list->n; i++)
        most = list->at[i] > most ? list->at[i] : most;
    return (int)most;
}

static enum status run_points(struct run *run, const struct bench_case *c, struct error *err)
{
    const struct batch_options *o = run->options;
    for (int p = 0; p < o->prompts.n; p++)
        for (int t = 0; t < o->tokens.n; t++)
            for (int b = 0; b < o->batches.n; b++) {
                struct point point = { (int)o->prompts.at[p], (int)o->tokens.at[t], (int)o->batches.at[b] };
                TRY(run_point(run, c, &point, err));
            }
    return STATUS_OK;
}

static enum status run_case(void *context, const struct bench_case *c, struct error *err)
{
    struct run *run = context;
    const struct batch_options *o = run->options;
    struct bench_model_options options = bench_case_model(&o->settings, c);
    options.n_sequences = largest(&o->batches);
    options.length = largest(&o->prompts) + largest(&o->tokens);
    options.max_rows = o->step_rows > options.n_sequences ? o->step_rows : options.n_sequences;
    TRY(bench_model_create(&run->model, &options, err));
    enum status s = run_points(run, c, err);
    bench_model_destroy(run->model);
    return s;
}

static enum status run_all(struct run *run, struct error *err)
{
    bench_table_begin(&run->table, stdout, (enum bench_format)run->options->settings.format, columns,
                      sizeof columns / sizeof columns[0]);
    TRY(bench_settings_each(&run->options->settings, run_case, run, err));
    return bench_table_end(&run->table, err);
}

int cmd_bench_batch(int argc, char **argv)
{
    struct batch_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_bench_batch_options, argc, argv, &values);
    if (done >= 0)
        return done;
    struct run run = { .options = &values };
    struct error err = { 0 };
    enum status s = run_all(&run, &err);
    options_destroy(options);
    return bench_exit_code(s, &err);
}
