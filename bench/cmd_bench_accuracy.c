/* cmd_bench_accuracy.c - `latentd bench accuracy`: what weight and cache types do to
 * the loss and to the distribution of each token, against f32. */
#include "bench/bench_accuracy.h"
#include "bench/bench_commands.h"
#include "bench/bench_table.h"

#include <string.h>

struct accuracy_options {
    const char *text, *kernels;
    int tokens, ranks, format;
    unsigned weight_types, cache_types;
};

static const struct option_row rows[] = {
    { "text", OPTION_PATH(struct accuracy_options, text), .value = "FILE", .required = 1,
      .help = "text that the models have not seen" },
    { "tokens", OPTION_INT(struct accuracy_options, tokens), .fallback = "1024", .min = 2, .max = 1 << 16,
      .help = "tokens of it, at most" },
    { "weights", OPTION_CHOICES(struct accuracy_options, weight_types), .fallback = "f32,bf16,int8,int4",
      .choices = "f32 bf16 int8 int4", .help = "types of the weights, with a bf16 cache" },
    { "cache-type", OPTION_CHOICES(struct accuracy_options, cache_types), .fallback = "f32,bf16,int8",
      .choices = "f32 bf16 int8", .help = "types of the cached rows, with f32 weights" },
    { "tp", OPTION_INT(struct accuracy_options, ranks), .fallback = "2", .min = 1, .max = 64, .help = "ranks" },
    { "kernels", OPTION_STRING(struct accuracy_options, kernels), .fallback = "", .value = "NAME",
      .help = "table of kernels; the fastest if not given" },
    { "format", OPTION_CHOICE(struct accuracy_options, format), .fallback = "md", .choices = BENCH_FORMAT_CHOICES,
      .help = "of the results" },
};

const struct option_table cmd_bench_accuracy_options = {
    .command = "bench accuracy",
    .help = "held-out loss and token KL of every weight and cache type against f32",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .arguments = "MODEL-DIR...",
    .min_arguments = 1,
    .max_arguments = 64,
    .notes = "KL is that of the next token's distribution, f32 against the type, in nats: mean and worst of\n"
             "all tokens.\n",
};

static const struct bench_column columns[] = {
    BENCH_WORDS("model"), BENCH_WORDS("weights"), BENCH_WORDS("cache"), BENCH_NUMBER("tokens", 0),
    BENCH_NUMBER("loss", 5), BENCH_NUMBER("loss change %", 4), BENCH_NUMBER("mean KL", 7), BENCH_NUMBER("worst KL", 5),
};

static const char *last_part(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : dir;
}

static void print_row(struct bench_table *t, const struct bench_accuracy *a, const struct bench_divergence *d,
                      const struct bench_accuracy_types *types)
{
    bench_table_text(t, last_part(bench_accuracy_dir(a)));
    bench_table_text(t, weight_type_name((enum weight_type)types->weights));
    bench_table_text(t, cache_type_name(types->cache));
    bench_table_number(t, d->tokens);
    bench_table_number(t, d->loss);
    bench_table_number(t, 100 * (d->loss - d->reference_loss) / d->reference_loss);
    bench_table_number(t, d->mean_kl);
    bench_table_number(t, d->worst_kl);
}

static enum status measure(struct bench_accuracy *a, struct bench_accuracy_types types, struct bench_table *t,
                           struct error *err)
{
    struct bench_divergence d;
    TRY(bench_accuracy_measure(a, &types, &d, err));
    print_row(t, a, &d, &types);
    return STATUS_OK;
}

/* One thing is changed at a time: the cache with f32 weights, then the weights with
 * the cache that they are usually used with. */
static enum status measure_model(struct bench_accuracy *a, const struct accuracy_options *o, struct bench_table *t,
                                 struct error *err)
{
    for (int cache = CACHE_F32; cache <= CACHE_INT8; cache++)
        if (o->cache_types >> cache & 1)
            TRY(measure(a, (struct bench_accuracy_types){ WEIGHT_F32, (enum cache_type)cache }, t, err));
    for (int weights = WEIGHT_BF16; weights <= WEIGHT_INT4; weights++)
        if (o->weight_types >> weights & 1)
            TRY(measure(a, (struct bench_accuracy_types){ weights, CACHE_BF16 }, t, err));
    return STATUS_OK;
}

static enum status run_all(const struct accuracy_options *o, const struct options *options, struct error *err)
{
    struct bench_table table;
    bench_table_begin(&table, stdout, (enum bench_format)o->format, columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < options_argument_count(options); i++) {
        struct bench_accuracy_options wanted = {
            .dir = options_argument(options, i), .text = o->text, .max_tokens = o->tokens, .n_ranks = o->ranks,
            .kernels = *o->kernels != '\0' ? o->kernels : NULL,
        };
        struct bench_accuracy *a;
        TRY(bench_accuracy_create(&a, &wanted, err));
        enum status s = measure_model(a, o, &table, err);
        bench_accuracy_destroy(a);
        TRY(s);
    }
    return bench_table_end(&table, err);
}

int cmd_bench_accuracy(int argc, char **argv)
{
    struct accuracy_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_bench_accuracy_options, argc, argv, &values);
    if (done >= 0)
        return done;
    struct error err = { 0 };
    enum status s = run_all(&values, options, &err);
    options_destroy(options);
    return bench_exit_code(s, &err);
}
