/* bench_settings.h - what the benchmarks of a whole model have in common: which
 * model, as which types, on how many ranks, how often, printed how.
 *
 * Threads: one.  Memory: none kept.
 */
#ifndef BENCH_BENCH_SETTINGS_H
#define BENCH_BENCH_SETTINGS_H

#include "base/options.h"
#include "bench/bench_model.h"
#include "bench/bench_table.h"

struct bench_settings {
    const char *model, *kernels;
    unsigned weight_types, cache_types;     /* bits, in the order of the choices */
    struct option_ints ranks;
    int mla_by_chunk;
    int block_size;
    int repetitions;
    int format;
};

/* Rows of an option table whose struct has a field `settings`. */
#define BENCH_SETTINGS_ROWS(type)                                                                           \
    { "model", OPTION_PATH(type, settings.model), .value = "DIR", .required = 1, .help = "model directory" }, \
    { "weights", OPTION_CHOICES(type, settings.weight_types), .fallback = "bf16",                       \
      .choices = "f32 bf16 int8 int4", .help = "types that the weights are held in" },                      \
    { "cache-type", OPTION_CHOICES(type, settings.cache_types), .fallback = "bf16",                         \
      .choices = "f32 bf16 int8", .help = "types of the cached rows" },                                     \
    { "tp", OPTION_INTS(type, settings.ranks), .fallback = "2", .min = 1, .max = 64,                        \
      .help = "numbers of ranks" },                                                                         \
    { "mla-cache", OPTION_CHOICE(type, settings.mla_by_chunk), .fallback = "by-chunk",                      \
      .choices = "replicated by-chunk", .help = "how MLA's cache lies on several ranks" },                  \
    { "kernels", OPTION_STRING(type, settings.kernels), .fallback = "", .value = "NAME",                    \
      .help = "table of kernels; the fastest if not given" },                                               \
    { "block-size", OPTION_INT(type, settings.block_size), .fallback = "32", .min = 1,                      \
      .max = CACHE_MAX_BLOCK_SIZE, .help = "tokens of a cache block" },                                     \
    { "repetitions", OPTION_INT(type, settings.repetitions), .fallback = "5", .min = 1, .max = 1000,        \
      .help = "samples of each row" },                                                                      \
    { "format", OPTION_CHOICE(type, settings.format), .fallback = "md", .choices = BENCH_FORMAT_CHOICES,    \
      .help = "of the results" }

/* One combination of the lists above. */
struct bench_case {
    int weight_type;
    enum cache_type cache_type;
    int n_ranks;
    const char *kernels;                    /* name of the table in use */
    struct bench_limits limits;             /* of n_ranks, measured just before */
};

/* run(context, case) for each combination, until one fails. */
MUST_CHECK enum status bench_settings_each(const struct bench_settings *settings,
                                           enum status (*run)(void *context, const struct bench_case *c,
                                                              struct error *err),
                                           void *context, struct error *err);

/* Once more, keeping the larger of each: moments differ where others work too. */
MUST_CHECK enum status bench_case_limits(const struct bench_case *c, struct bench_limits *limits, struct error *err);

/* The options of a bench_model that both say. */
struct bench_model_options bench_case_model(const struct bench_settings *settings, const struct bench_case *c);

/* The first columns of a row: kernels, weights, cache, tp. */
#define BENCH_CASE_COLUMNS \
    BENCH_WORDS("kernels"), BENCH_WORDS("weights"), BENCH_WORDS("cache"), BENCH_NUMBER("tp", 0)
void bench_case_cells(const struct bench_case *c, struct bench_table *table);

#endif
