/* cmd_bench_kernels.c - `latentd bench kernels`: every kernel of every table that
 * this processor has, against memory or the nearest cache, and arithmetic. */
#include "bench/bench_commands.h"
#include "bench/bench_kernel.h"

#include <string.h>

struct kernels_options {
    const char *table;
    struct option_ints rows;
    int inputs, outputs;
    int repetitions, format;
};

static const struct option_row rows[] = {
    { "kernels", OPTION_STRING(struct kernels_options, table), .fallback = "", .value = "NAME",
      .help = "only this table" },
    { "rows", OPTION_INTS(struct kernels_options, rows), .fallback = "1,4,16,64", .min = 1, .max = 512,
      .help = "token rows of the linear layers" },
    { "inputs", OPTION_INT(struct kernels_options, inputs), .fallback = "2048", .min = 1, .max = 1 << 16,
      .help = "width of their inputs" },
    { "outputs", OPTION_INT(struct kernels_options, outputs), .fallback = "4096", .min = 1, .max = 1 << 16,
      .help = "outputs of each; enough of them are made to read from memory" },
    { "repetitions", OPTION_INT(struct kernels_options, repetitions), .fallback = "5", .min = 1, .max = 1000,
      .help = "samples of each row" },
    { "format", OPTION_CHOICE(struct kernels_options, format), .fallback = "md", .choices = BENCH_FORMAT_CHOICES,
      .help = "of the results" },
};

const struct option_table cmd_bench_kernels_options = {
    .command = "bench kernels",
    .help = "each kernel of each table against its roofline",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .notes = "One core, CPU time.  Linear layers stream their weights from memory; the others work on rows in the\n"
             "nearest cache.  \"of limit\" is the least time by bytes and multiply-adds, as measured here, by the\n"
             "median time.\n",
};

static const struct bench_column columns[] = {
    BENCH_WORDS("table"), BENCH_WORDS("kernel"), BENCH_WORDS("shape"), BENCH_SAMPLES("us", 2),
    BENCH_NUMBER("GB/s", 1), BENCH_NUMBER("GMAC/s", 1), BENCH_WORDS("bound by"), BENCH_NUMBER("of limit %", 1),
};

struct run {
    const struct kernels_options *options;
    struct bench_table table;
    const struct kernels *kernels;
    struct bench_limits memory, cache;
    struct error *err;
};

static void print_result(struct run *run, const struct bench_kernel_result *r)
{
    double median = load_series_percentile(r->seconds, 50);
    double by_bytes = r->bytes / (r->from_memory ? run->memory.read : run->cache.read);
    double by_macs = r->macs / run->memory.peak[r->kind];
    struct load_series us;
    load_series_init(&us, r->seconds->n);
    for (size_t i = 0; i < r->seconds->n; i++)
        load_series_push(&us, r->seconds->values[i] * 1e6);
    struct load_summary summary = load_series_summarise(&us);
    load_series_clear(&us);
    struct bench_table *t = &run->table;
    bench_table_text(t, run->kernels->name);
    bench_table_text(t, r->name);
    bench_table_text(t, r->shape);
    bench_table_summary(t, &summary);
    bench_table_number(t, r->bytes / median / 1e9);
    if (r->macs > 0)
        bench_table_number(t, r->macs / median / 1e9);
    else
        bench_table_none(t);
    bench_table_text(t, by_macs > by_bytes ? peak_kind_name(r->kind) : r->from_memory ? "memory" : "cache");
    bench_table_number(t, 100 * (by_macs > by_bytes ? by_macs : by_bytes) / median);
}

static void on_result(void *context, const struct bench_kernel_result *result)
{
    print_result(context, result);
}

static enum status run_linears(struct run *run)
{
    static const enum weight_type types[] = { WEIGHT_F32, WEIGHT_BF16, WEIGHT_INT8, WEIGHT_INT4 };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct bench_linear_spec spec = {
            .kernels = run->kernels, .type = types[i], .inputs = run->options->inputs,
            .outputs = run->options->outputs, .rows = &run->options->rows, .repetitions = run->options->repetitions,
            .on_result = on_result, .context = run,
        };
        TRY(bench_linear_run(&spec, run->err));
    }
    return STATUS_OK;
}

static enum status run_table(struct run *run)
{
    struct bench_probe_options probe = { .n_ranks = 1, .cpu_time = 1, .set = peak_find(run->kernels->name) };
    TRY(bench_limits_measure(&probe, &run->memory, run->err));
    probe.bytes = 16 << 10;
    TRY(bench_limits_measure(&probe, &run->cache, run->err));
    TRY(run_linears(run));
    struct bench_rows_spec spec = {
        .kernels = run->kernels, .repetitions = run->options->repetitions, .on_result = on_result, .context = run,
    };
    return bench_rows_run(&spec, run->err);
}

static enum status run_all(struct run *run)
{
    const char *only = run->options->table, *at = kernels_names();
    const struct kernels *chosen;
    TRY(model_select_kernels(*only != '\0' ? only : NULL, &chosen, run->err));
    bench_table_begin(&run->table, stdout, (enum bench_format)run->options->format, columns,
                      sizeof columns / sizeof columns[0]);
    while (*at != '\0') {
        char name[32];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        at += n + strspn(at + n, ", ");
        run->kernels = kernels_select(name);
        if (run->kernels != NULL && (*only == '\0' || run->kernels == chosen))
            TRY(run_table(run));
    }
    return bench_table_end(&run->table, run->err);
}

int cmd_bench_kernels(int argc, char **argv)
{
    struct kernels_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_bench_kernels_options, argc, argv, &values);
    if (done >= 0)
        return done;
    struct error err = { 0 };
    struct run run = { .options = &values, .err = &err };
    enum status s = run_all(&run);
    options_destroy(options);
    return bench_exit_code(s, &err);
}
