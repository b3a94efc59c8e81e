/* cmd_bench_host.c - `latentd bench host`: read bandwidth and peak arithmetic of
 * this machine, by cores. */
#include "attention/kernels.h"
#include "bench/bench_commands.h"
#include "bench/bench_probe.h"
#include "bench/bench_table.h"
#include "parallel/topology.h"

#include <string.h>

struct host_options {
    struct option_ints ranks, sizes, streams;
    int repetitions, clock, format;
};

static const struct option_row rows[] = {
    { "tp", OPTION_INTS(struct host_options, ranks), .min = 1, .max = 64,
      .help = "numbers of cores at once; 1 and all of them if not given" },
    { "sizes", OPTION_INTS(struct host_options, sizes), .fallback = "16,512,8192,262144", .min = 4, .max = 1 << 24,
      .value = "KIB,..", .help = "what each core reads again and again, KiB" },
    { "streams", OPTION_INTS(struct host_options, streams), .fallback = "1,4,8", .min = 1, .max = 8,
      .help = "places that are read in turn: 1, 4, 8" },
    { "clock", OPTION_CHOICE(struct host_options, clock), .fallback = "cpu", .choices = "cpu wall",
      .help = "CPU time of the slowest core, which others on the machine do not lengthen, or wall clock" },
    { "repetitions", OPTION_INT(struct host_options, repetitions), .fallback = "5", .min = 1, .max = 1000,
      .help = "samples of each row" },
    { "format", OPTION_CHOICE(struct host_options, format), .fallback = "md", .choices = BENCH_FORMAT_CHOICES,
      .help = "of the results" },
};

const struct option_table cmd_bench_host_options = {
    .command = "bench host",
    .help = "read bandwidth and peak arithmetic of this machine",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
};

static const struct bench_column columns[] = {
    BENCH_WORDS("measure"), BENCH_WORDS("instructions"), BENCH_NUMBER("cores", 0), BENCH_NUMBER("KiB", 0),
    BENCH_NUMBER("streams", 0), BENCH_WORDS("pages"), BENCH_SAMPLES("rate", 1), BENCH_WORDS("unit"),
};

/* One row; streams 0: arithmetic of `kind`. */
struct row {
    struct bench_probe_options probe;
    int streams;
    enum peak_kind kind;
};

static enum status take_samples(const struct row *row, int n, struct load_series *rates, struct error *err)
{
    struct bench_probe *probe;
    TRY(bench_probe_create(&probe, &row->probe, err));
    enum status s = STATUS_OK;
    for (int i = 0; i < n && s == STATUS_OK; i++) {
        double rate;
        s = row->streams > 0 ? bench_probe_read(probe, row->streams, &rate)
                             : bench_probe_peak(probe, row->kind, &rate);
        load_series_push(rates, rate / 1e9);
    }
    bench_probe_destroy(probe);
    return s == STATUS_OK ? s : fail(err, s, "the ranks that measure did not meet");
}

static enum status print_row(const struct row *row, int n, struct bench_table *t, struct error *err)
{
    struct load_series rates;
    load_series_init(&rates, (size_t)n);
    enum status s = take_samples(row, n, &rates, err);
    struct load_summary summary = load_series_summarise(&rates);
    load_series_clear(&rates);
    TRY(s);
    int reads = row->streams > 0;
    bench_table_text(t, reads ? "read" : peak_kind_name(row->kind));
    bench_table_text(t, row->probe.set->name);
    bench_table_number(t, row->probe.n_ranks);
    if (reads) {
        bench_table_number(t, (double)row->probe.bytes / 1024);
        bench_table_number(t, row->streams);
        bench_table_text(t, row->probe.small_pages ? "4 KiB" : "2 MiB");
    } else {
        bench_table_none(t);
        bench_table_none(t);
        bench_table_none(t);
    }
    bench_table_summary(t, &summary);
    bench_table_text(t, reads ? "GB/s" : "GMAC/s");
    return STATUS_OK;
}

static enum status print_reads(const struct host_options *o, int n_ranks, struct bench_table *t, struct error *err)
{
    const struct peak_set *set = peak_find(kernels_select(NULL)->name);
    for (int i = 0; i < o->sizes.n; i++)
        for (int k = 0; k < o->streams.n; k++)
            for (int small = 0; small < 2; small++) {
                struct row row = {
                    .probe = { .n_ranks = n_ranks, .bytes = (size_t)o->sizes.at[i] << 10, .small_pages = small,
                               .cpu_time = o->clock == 0, .set = set },
                    .streams = (int)o->streams.at[k],
                };
                /* Pages matter where the caches end. */
                if (!small || i + 1 == o->sizes.n)
                    TRY(print_row(&row, o->repetitions, t, err));
            }
    return STATUS_OK;
}

/* The sets of this build that the processor has. */
static enum status print_peaks(const struct host_options *o, int n_ranks, struct bench_table *t, struct error *err)
{
    const char *at = kernels_names();
    while (*at != '\0') {
        char name[32];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        at += n + strspn(at + n, ", ");
        if (kernels_select(name) == NULL)
            continue;
        for (int kind = 0; kind < PEAK_N_KINDS; kind++) {
            struct row row = {
                .probe = { .n_ranks = n_ranks, .bytes = 4096, .cpu_time = o->clock == 0, .set = peak_find(name) },
                .kind = (enum peak_kind)kind,
            };
            if (row.probe.set->run[kind] != NULL)
                TRY(print_row(&row, o->repetitions, t, err));
        }
    }
    return STATUS_OK;
}

static enum status print_all(const struct host_options *o, struct error *err)
{
    struct bench_table table;
    bench_table_begin(&table, stdout, (enum bench_format)o->format, columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < o->ranks.n; i++) {
        TRY(print_reads(o, (int)o->ranks.at[i], &table, err));
        TRY(print_peaks(o, (int)o->ranks.at[i], &table, err));
    }
    return bench_table_end(&table, err);
}

static enum status check(struct host_options *o, struct error *err)
{
    struct topology topology;
    topology_read(&topology);
    if (o->ranks.n == 0) {
        o->ranks = (struct option_ints){ .n = topology.usable > 1 ? 2 : 1, .at = { 1, topology.usable } };
    }
    for (int i = 0; i < o->streams.n; i++)
        if (o->streams.at[i] != 1 && o->streams.at[i] != 4 && o->streams.at[i] != 8)
            return fail(err, STATUS_BAD_OPTION, "--streams takes 1, 4 and 8, got %lld", (long long)o->streams.at[i]);
    return STATUS_OK;
}

int cmd_bench_host(int argc, char **argv)
{
    struct host_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_bench_host_options, argc, argv, &values);
    if (done >= 0)
        return done;
    struct error err = { 0 };
    enum status s = check(&values, &err);
    if (s == STATUS_OK)
        s = print_all(&values, &err);
    options_destroy(options);
    return bench_exit_code(s, &err);
}
