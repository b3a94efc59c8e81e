/* load_options.h - the options of `latentd bench serve`: one struct, one table.
 *
 * The fields are named after the options and documented by the table's help
 * sentences in load_options.c; a 0 in a field that says so means "not given".
 *
 * Owner: the command.  Memory: strings belong to struct options (base/options.h).
 */
#ifndef BENCH_LOAD_OPTIONS_H
#define BENCH_LOAD_OPTIONS_H

#include "base/options.h"
#include "bench/load_dataset.h"

enum load_prompt_form { LOAD_FORM_AUTO, LOAD_FORM_IDS, LOAD_FORM_WORDS };
enum load_ignore_eos { LOAD_EOS_AUTO, LOAD_EOS_IGNORE, LOAD_EOS_KEEP };

struct load_options {
    const char *url, *model, *api_key;
    int endpoint;                       /* enum load_endpoint */
    int stream;
    int concurrency, requests;          /* 0: not given */
    double rate, burstiness, ramp_end_rate;     /* rate 0: closed loop */
    int ramp;                           /* enum load_ramp */
    int replay;
    double replay_speed;
    double duration, grace, timeout;    /* seconds; duration 0: not given */
    int warmup, max_failures;
    double cancel_rate, cancel_after;
    struct option_doubles rates;
    struct option_ints concurrencies;
    double sla_ttft, sla_itl;           /* ms; 0: no bound */
    double sla_first_rate, sla_max_rate, sla_tolerance;
    int sla_runs;
    int reset_cache;
    int dataset;                        /* enum load_dataset_kind */
    const char *file;
    int input_len, output_len, prefixes, prefix_len, trace_block, max_row_tokens;
    double range;
    int prompt_form;                    /* enum load_prompt_form */
    int ignore_eos;                     /* enum load_ignore_eos */
    double temperature;
    const char *extra;                  /* a JSON object; "" for none */
    int64_t seed;
    double good_ttft, good_tpot, good_e2e;      /* ms; 0: no bound */
    const char *json, *csv, *html;      /* paths; "" for none */
    int detail, quiet;
};

/* Options that exclude or need each other.  BAD_OPTION names both. */
MUST_CHECK enum status load_options_check(const struct load_options *options, struct error *err);

extern const struct option_table cmd_bench_serve_options;

#endif
