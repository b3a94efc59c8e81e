#include "bench/load_options.h"

#include "bench/load_arrival.h"
#include "bench/load_report.h"
#include "bench/load_run.h"

#include <math.h>

#define DAY_S 86400

#define O struct load_options

static const struct option_row rows[] = {
    { .heading = "Server" },
    { "url", OPTION_STRING(O, url), .fallback = "http://127.0.0.1:8080", .value = "URL",
      .help = "any OpenAI-compatible server; a /v1 at the end may be left out" },
    { "model", OPTION_STRING(O, model), .fallback = "", .value = "NAME",
      .help = "model to ask for; without it the first of /v1/models" },
    { "api-key", OPTION_STRING(O, api_key), .fallback = "", .value = "KEY",
      .help = "sent as a bearer token" },
    { "endpoint", OPTION_CHOICE(O, endpoint), .fallback = "completions", .choices = "completions chat",
      .help = "which endpoint is measured" },
    { "stream", OPTION_FLAG(O, stream), .fallback = "on",
      .help = "ask for a stream of events; without it only whole replies are timed" },

    { .heading = "Arrivals" },
    { "concurrency", OPTION_INT(O, concurrency), .fallback = "0", .max = LOAD_MAX_IN_FLIGHT,
      .help = "most requests in flight; 0 is 1 in a closed loop and 16384 in an open one" },
    { "rate", OPTION_DOUBLE(O, rate), .fallback = "0", .high = INFINITY,
      .help = "open loop at so many requests per second, inf for all at once; 0 is a closed loop" },
    { "burstiness", OPTION_DOUBLE(O, burstiness), .fallback = "1", .low = 0.001, .high = INFINITY,
      .help = "shape of the gamma-distributed gaps: 1 Poisson, below 1 in bursts, inf evenly spaced" },
    { "ramp", OPTION_CHOICE(O, ramp), .fallback = "none", .choices = "none linear exponential",
      .help = "change the rate over the run, from --rate to --ramp-end-rate" },
    { "ramp-end-rate", OPTION_DOUBLE(O, ramp_end_rate), .fallback = "0", .high = 1e6,
      .help = "requests per second at the end of the ramp" },
    { "replay", OPTION_FLAG(O, replay), .fallback = "off",
      .help = "send each row of a jsonl file at its timestamp (milliseconds)" },
    { "replay-speed", OPTION_DOUBLE(O, replay_speed), .fallback = "1", .low = 0.001, .high = 1e6,
      .help = "2 replays twice as fast" },
    { "requests", OPTION_INT(O, requests), .fallback = "0", .max = LOAD_MAX_REQUESTS,
      .help = "measured requests of one run; 0 is 100, or as many as --duration allows" },
    { "duration", OPTION_DOUBLE(O, duration), .fallback = "0", .high = DAY_S, .value = "SECONDS",
      .help = "no new requests after so many seconds; 0 is no limit" },
    { "grace", OPTION_DOUBLE(O, grace), .fallback = "30", .high = DAY_S, .value = "SECONDS",
      .help = "how long requests under way may take after --duration" },
    { "timeout", OPTION_DOUBLE(O, timeout), .fallback = "600", .low = 0.001, .high = DAY_S,
      .value = "SECONDS", .help = "limit of one request" },
    { "warmup", OPTION_INT(O, warmup), .fallback = "0", .max = LOAD_MAX_REQUESTS,
      .help = "requests sent before each run and not measured" },
    { "max-failures", OPTION_INT(O, max_failures), .fallback = "0", .max = LOAD_MAX_REQUESTS,
      .help = "start no more requests after so many failures; 0 is no limit" },
    { "cancel-rate", OPTION_DOUBLE(O, cancel_rate), .fallback = "0", .high = 1,
      .help = "share of the requests given up on purpose" },
    { "cancel-after", OPTION_DOUBLE(O, cancel_after), .fallback = "1", .high = DAY_S, .value = "SECONDS",
      .help = "when they are given up" },

    { .heading = "Several runs" },
    { "rates", OPTION_DOUBLES(O, rates), .low = 0.001, .high = 1e6,
      .help = "one open-loop run at each rate" },
    { "concurrencies", OPTION_INTS(O, concurrencies), .min = 1, .max = LOAD_MAX_IN_FLIGHT,
      .help = "one closed-loop run with each number in flight" },
    { "sla-ttft", OPTION_DOUBLE(O, sla_ttft), .fallback = "0", .high = 1e9, .value = "MS",
      .help = "search the largest rate with p99 of due-to-first-chunk within this; 0 is no bound" },
    { "sla-itl", OPTION_DOUBLE(O, sla_itl), .fallback = "0", .high = 1e9, .value = "MS",
      .help = "search the largest rate with p99 ITL within this; 0 is no bound" },
    { "sla-first-rate", OPTION_DOUBLE(O, sla_first_rate), .fallback = "1", .low = 0.001, .high = 1e6,
      .help = "where the search begins, requests per second" },
    { "sla-max-rate", OPTION_DOUBLE(O, sla_max_rate), .fallback = "1024", .low = 0.001, .high = 1e6,
      .help = "where the search ends" },
    { "sla-tolerance", OPTION_DOUBLE(O, sla_tolerance), .fallback = "0.05", .low = 0.001, .high = 1,
      .help = "the search is over when the rate that fails is so close to the one that holds" },
    { "sla-runs", OPTION_INT(O, sla_runs), .fallback = "16", .min = 1, .max = LOAD_MAX_POINTS,
      .help = "most runs of the search" },
    { "reset-cache", OPTION_FLAG(O, reset_cache), .fallback = "off",
      .help = "POST /reset_prefix_cache before each run" },

    { .heading = "Prompts" },
    { "dataset", OPTION_CHOICE(O, dataset), .fallback = "random",
      .choices = "random shared-prefix jsonl sharegpt", .help = "where prompts come from" },
    { "file", OPTION_STRING(O, file), .fallback = "", .value = "PATH",
      .help = "the rows of jsonl and sharegpt" },
    { "input-len", OPTION_INT(O, input_len), .fallback = "128", .min = 1, .max = 1000000,
      .help = "tokens of a random prompt, or after its shared prefix" },
    { "output-len", OPTION_INT(O, output_len), .fallback = "0", .max = 1000000,
      .help = "tokens to generate; 0 is what the row says, else 128" },
    { "range", OPTION_DOUBLE(O, range), .fallback = "0", .high = 1,
      .help = "random lengths differ by up to this share" },
    { "prefixes", OPTION_INT(O, prefixes), .fallback = "8", .min = 1, .max = 1000000,
      .help = "number of shared prefixes" },
    { "prefix-len", OPTION_INT(O, prefix_len), .fallback = "256", .max = 1000000,
      .help = "tokens of a shared prefix" },
    { "trace-block", OPTION_INT(O, trace_block), .fallback = "512", .min = 1, .max = 1000000,
      .help = "tokens that one of a trace's hash_ids stands for" },
    { "max-row-tokens", OPTION_INT(O, max_row_tokens), .fallback = "2048", .min = 2, .max = 1000000,
      .help = "longer sharegpt conversations are left out" },
    { "prompt-form", OPTION_CHOICE(O, prompt_form), .fallback = "auto", .choices = "auto ids words",
      .help = "random text as token ids (needs /tokenize) or as words" },
    { "ignore-eos", OPTION_CHOICE(O, ignore_eos), .fallback = "auto", .choices = "auto yes no",
      .help = "generate to the full length; auto does so for random text and traces" },
    { "temperature", OPTION_DOUBLE(O, temperature), .fallback = "0", .high = 100, .help = "of the sampler" },
    { "extra", OPTION_STRING(O, extra), .fallback = "", .value = "JSON",
      .help = "an object whose fields are put into each request" },
    { "seed", OPTION_INT(O, seed), .fallback = "1", .max = INT64_MAX,
      .help = "of prompts and arrivals; run i of several uses seed + i" },

    { .heading = "Goals: a request within all of them is good" },
    { "good-ttft", OPTION_DOUBLE(O, good_ttft), .fallback = "0", .high = 1e9, .value = "MS",
      .help = "0 is no bound" },
    { "good-tpot", OPTION_DOUBLE(O, good_tpot), .fallback = "0", .high = 1e9, .value = "MS",
      .help = "0 is no bound" },
    { "good-e2e", OPTION_DOUBLE(O, good_e2e), .fallback = "0", .high = 1e9, .value = "MS",
      .help = "0 is no bound" },

    { .heading = "Output" },
    { "json", OPTION_STRING(O, json), .fallback = "", .value = "PATH", .help = "write all figures as JSON" },
    { "csv", OPTION_STRING(O, csv), .fallback = "", .value = "PATH", .help = "write one line per run" },
    { "html", OPTION_STRING(O, html), .fallback = "", .value = "PATH", .help = "write one page with plots" },
    { "detail", OPTION_FLAG(O, detail), .fallback = "off", .help = "put every request into the JSON" },
    { "quiet", OPTION_FLAG(O, quiet), .fallback = "off", .help = "no progress on standard error" },
};

const struct option_table cmd_bench_serve_options = {
    .command = "bench serve",
    .help = "put load on an OpenAI-compatible server and time its replies",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .notes =
        "Closed loop (default), open loop (--rate), trace (--replay), sweep (--rates, --concurrencies)\n"
        "and SLA search (--sla-ttft, --sla-itl) exclude each other.  The table says what each figure is.\n",
};

static int has_search(const struct load_options *o)
{
    return o->sla_ttft > 0 || o->sla_itl > 0;
}

/* What a mode would not look at is a misunderstanding, not a wish. */
static enum status check_without_effect(const struct load_options *o, struct error *err)
{
    int is_open = o->rate > 0 || o->rates.n > 0 || has_search(o);
    if (o->burstiness != 1 && !is_open)
        return fail(err, STATUS_BAD_OPTION, "--burstiness needs an open loop: --rate, --rates or --sla-ttft/--sla-itl");
    if (o->ramp_end_rate > 0 && o->ramp == LOAD_RAMP_NONE)
        return fail(err, STATUS_BAD_OPTION, "--ramp-end-rate needs --ramp");
    if (o->replay_speed != 1 && !o->replay)
        return fail(err, STATUS_BAD_OPTION, "--replay-speed needs --replay");
    return STATUS_OK;
}

enum status load_options_check(const struct load_options *o, struct error *err)
{
    int n_modes = (o->rate > 0) + o->replay + (o->rates.n > 0) + (o->concurrencies.n > 0) + has_search(o);
    if (n_modes > 1)
        return fail(err, STATUS_BAD_OPTION,
                    "--rate, --replay, --rates, --concurrencies and --sla-ttft/--sla-itl exclude each other");
    int has_file = o->dataset == LOAD_JSONL || o->dataset == LOAD_SHAREGPT;
    if (has_file != (o->file[0] != '\0'))
        return fail(err, STATUS_BAD_OPTION, "--dataset jsonl and sharegpt need --file, the others take none");
    if (o->replay && o->dataset != LOAD_JSONL)
        return fail(err, STATUS_BAD_OPTION, "--replay needs --dataset jsonl");
    if (o->ramp != LOAD_RAMP_NONE && (!(o->rate > 0) || isinf(o->rate) || !(o->ramp_end_rate > 0)))
        return fail(err, STATUS_BAD_OPTION, "--ramp needs a finite --rate and --ramp-end-rate above 0");
    if (isinf(o->rate) && o->requests == 0 && o->duration > 0)
        return fail(err, STATUS_BAD_OPTION, "--rate inf needs --requests: a duration does not bound it");
    if (o->sla_max_rate < o->sla_first_rate)
        return fail(err, STATUS_BAD_OPTION, "--sla-max-rate is below --sla-first-rate");
    return check_without_effect(o, err);
}
