#include "server/metrics.h"

#include "base/json_write.h"
#include "base/version.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MAX_BUCKETS = 24, MAX_STATUSES = 24 };

/* Upper bounds; a row of zeros behind the last.  The times are those of vLLM, so that dashboards fit. */
static const double first_token_bounds[MAX_BUCKETS] = { 0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25,
    0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160 };
static const double token_bounds[MAX_BUCKETS] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15,
    0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10, 20, 40, 80 };
static const double request_bounds[MAX_BUCKETS] = { 0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15,
    20, 30, 40, 50, 60, 120, 240, 480, 960 };
static const double count_bounds[MAX_BUCKETS] = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000,
    20000, 50000, 100000, 200000 };
static const double n_bounds[MAX_BUCKETS] = { 1, 2, 5, 10, 20, 50, 100 };

static const struct histogram_row {
    const char *name;
    const char *help;
    const double *bounds;       /* [MAX_BUCKETS], 0 behind the last */
} rows[METRICS_N_HISTOGRAMS] = {
    [METRICS_TTFT] = { "time_to_first_token_seconds", "Arrival to first token.", first_token_bounds },
    [METRICS_INTER_TOKEN] = { "inter_token_latency_seconds", "Gap between two tokens of one choice.",
                              token_bounds },
    [METRICS_E2E] = { "e2e_request_latency_seconds", "Arrival to end.", request_bounds },
    [METRICS_QUEUE] = { "request_queue_time_seconds", "Arrival to first step.", request_bounds },
    [METRICS_PREFILL] = { "request_prefill_time_seconds", "First step to first token.", request_bounds },
    [METRICS_DECODE] = { "request_decode_time_seconds", "First token to last token.", request_bounds },
    [METRICS_PER_OUTPUT_TOKEN] = { "request_time_per_output_token_seconds",
                                   "Decode time per token after the first.", token_bounds },
    [METRICS_PROMPT_TOKENS] = { "request_prompt_tokens", "Prompt tokens of a request.", count_bounds },
    [METRICS_GENERATION_TOKENS] = { "request_generation_tokens", "Generated tokens of a request.",
                                    count_bounds },
    [METRICS_PARAMS_N] = { "request_params_n", "Choices asked for.", n_bounds },
    [METRICS_PARAMS_MAX_TOKENS] = { "request_params_max_tokens", "Token limit asked for.", count_bounds },
};

struct metrics {
    char labels[320];           /* model_name="..", ready to print */
    struct {
        uint64_t counts[MAX_BUCKETS + 1];       /* the last: above all bounds */
        double sum;
    } histograms[METRICS_N_HISTOGRAMS];
    uint64_t finishes[METRICS_N_FINISHES];
    struct {
        int status;
        uint64_t n;
    } replies[MAX_STATUSES];    /* filled from the front */
};

enum status metrics_create(struct metrics **out, const char *model_name, struct error *err)
{
    struct metrics *m = calloc(1, sizeof *m);
    struct buf name;
    if (m == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the metrics");
    /* JSON's escapes of quote, backslash and newline are Prometheus' too. */
    buf_init(&name, sizeof m->labels - 16);
    if (json_write_cstring(&name, model_name) != STATUS_OK) {
        buf_reset(&name);
        if (buf_add_text(&name, "\"\"") != STATUS_OK) {
            buf_clear(&name);
            free(m);
            return fail(err, STATUS_NO_MEMORY, "no memory for the metrics");
        }
    }
    snprintf(m->labels, sizeof m->labels, "model_name=%s", name.data);
    buf_clear(&name);
    *out = m;
    return STATUS_OK;
}

void metrics_destroy(struct metrics *m)
{
    free(m);
}

/* ---- counting ---- */

void metrics_observe(struct metrics *m, enum metrics_histogram which, double value)
{
    const double *bounds = rows[which].bounds;
    int i = 0;
    while (i < MAX_BUCKETS && bounds[i] > 0 && value > bounds[i])
        i++;
    if (i < MAX_BUCKETS && !(bounds[i] > 0))
        i = MAX_BUCKETS;
    m->histograms[which].counts[i]++;
    m->histograms[which].sum += value;
}

void metrics_count_finish(struct metrics *m, enum metrics_finish how)
{
    m->finishes[how]++;
}

void metrics_count_reply(struct metrics *m, int http_status)
{
    for (int i = 0; i < MAX_STATUSES; i++) {
        if (m->replies[i].n > 0 && m->replies[i].status != http_status)
            continue;
        m->replies[i].status = http_status;
        m->replies[i].n++;
        return;
    }
}

/* ---- writing ---- */

static enum status write_head(struct buf *out, const char *name, const char *type, const char *help)
{
    return buf_printf(out, "# HELP latentd_%s %s\n# TYPE latentd_%s %s\n", name, help, name, type);
}

static enum status write_histogram(const struct metrics *m, int which, struct buf *out)
{
    const struct histogram_row *row = &rows[which];
    uint64_t n = 0;
    TRY(write_head(out, row->name, "histogram", row->help));
    for (int i = 0; i < MAX_BUCKETS && row->bounds[i] > 0; i++) {
        n += m->histograms[which].counts[i];
        TRY(buf_printf(out, "latentd_%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", row->name, m->labels,
                       row->bounds[i], n));
    }
    n += m->histograms[which].counts[MAX_BUCKETS];
    TRY(buf_printf(out, "latentd_%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", row->name, m->labels, n));
    TRY(buf_printf(out, "latentd_%s_sum{%s} %.9g\n", row->name, m->labels, m->histograms[which].sum));
    return buf_printf(out, "latentd_%s_count{%s} %" PRIu64 "\n", row->name, m->labels, n);
}

static enum status write_finishes(const struct metrics *m, struct buf *out)
{
    static const char *const names[METRICS_N_FINISHES] = { "stop", "length", "abort", "error" };
    TRY(write_head(out, "request_success_total", "counter", "Requests ended, by how."));
    for (int i = 0; i < METRICS_N_FINISHES; i++)
        TRY(buf_printf(out, "latentd_request_success_total{%s,finished_reason=\"%s\"} %" PRIu64 "\n",
                       m->labels, names[i], m->finishes[i]));
    TRY(write_head(out, "http_replies_total", "counter",
                   "HTTP replies, by status; 0: the client left first."));
    for (int i = 0; i < MAX_STATUSES && m->replies[i].n > 0; i++)
        TRY(buf_printf(out, "latentd_http_replies_total{%s,status=\"%d\"} %" PRIu64 "\n", m->labels,
                       m->replies[i].status, m->replies[i].n));
    return STATUS_OK;
}

static double used_share(const struct engine_state *e)
{
    int32_t used = e->n_blocks - e->n_free_blocks - e->n_cached_blocks;
    return e->n_blocks > 0 ? (double)used / e->n_blocks : 0;
}

static enum status write_step_sizes(const struct metrics *m, const struct engine_state *e, struct buf *out)
{
    static const char name[] = "iteration_tokens_total";
    uint64_t n = 0;
    TRY(write_head(out, name, "histogram", "Tokens of one step, prompt and generated together."));
    for (int i = 0; i < ENGINE_STEP_BUCKETS - 1; i++) {
        n += e->steps_of[i];
        TRY(buf_printf(out, "latentd_%s_bucket{%s,le=\"%d\"} %" PRIu64 "\n", name, m->labels, 1 << i, n));
    }
    n += e->steps_of[ENGINE_STEP_BUCKETS - 1];
    TRY(buf_printf(out, "latentd_%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, m->labels, n));
    TRY(buf_printf(out, "latentd_%s_sum{%s} %" PRIu64 "\n", name, m->labels, e->step_tokens));
    return buf_printf(out, "latentd_%s_count{%s} %" PRIu64 "\n", name, m->labels, n);
}

static enum status write_engine(const struct metrics *m, const struct engine_state *e, struct buf *out)
{
    const struct {
        const char *name, *type, *help;
        double value;
    } series[] = {
        { "num_requests_running", "gauge", "Sequences with a seat.", e->n_running },
        { "num_requests_waiting", "gauge", "Sequences in the queue.", e->n_waiting },
        { "num_requests_paused", "gauge", "Sequences whose client does not read.", e->n_paused },
        { "num_waiting_tokens", "gauge", "Prompt tokens not admitted yet.", (double)e->waiting_tokens },
        { "kv_cache_usage_perc", "gauge", "Share of cache blocks that sequences hold, 0 to 1.",
          used_share(e) },
        { "kv_cache_blocks", "gauge", "Cache blocks there are.", e->n_blocks },
        { "kv_cache_free_blocks", "gauge", "Cache blocks that hold nothing.", e->n_free_blocks },
        { "kv_cache_reusable_blocks", "gauge", "Cache blocks that only wait for reuse.",
          e->n_cached_blocks },
        { "prefix_cache_queries_total", "counter", "Prompt tokens looked up.", (double)e->prefix_queries },
        { "prefix_cache_hits_total", "counter", "Prompt tokens found.", (double)e->prefix_hits },
        { "num_preemptions_total", "counter", "Sequences that lost their seat.", (double)e->n_preemptions },
        { "prompt_tokens_total", "counter", "Prompt tokens computed.", (double)e->prompt_tokens },
        { "generation_tokens_total", "counter", "Tokens generated.", (double)e->output_tokens },
        { "iterations_total", "counter", "Steps of the model.", (double)e->n_steps },
        { "iteration_seconds_total", "counter", "Time spent in steps.", (double)e->step_ns * 1e-9 },
        { "requests_cancelled_total", "counter", "Requests whose client left.", (double)e->n_cancelled },
        { "requests_failed_total", "counter", "Requests that failed in the engine.", (double)e->n_failed },
    };
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        TRY(write_head(out, series[i].name, series[i].type, series[i].help));
        TRY(buf_printf(out, "latentd_%s{%s} %.15g\n", series[i].name, m->labels, series[i].value));
    }
    return STATUS_OK;
}

/* A value of every device, by where it lies in the report. */
struct device_row {
    const char *name, *type, *help;
    size_t offset;
    enum { DEVICE_SIZE, DEVICE_COUNT, DEVICE_SECONDS } kind;
};

static double device_value(const struct device_row *row, const struct device_report *report)
{
    const char *at = (const char *)report + row->offset;
    switch (row->kind) {
    case DEVICE_SIZE:    return (double)*(const size_t *)at;
    case DEVICE_COUNT:   return (double)*(const uint64_t *)at;
    case DEVICE_SECONDS: return (double)*(const int64_t *)at * 1e-9;
    }
    return 0;
}

static enum status write_devices(const struct metrics *m, const struct metrics_view *view, struct buf *out)
{
#define ROW(name, type, help, field, kind) { name, type, help, offsetof(struct device_report, field), kind }
    static const struct device_row table[] = {
        ROW("device_weight_bytes", "gauge", "Weights held.", weight_bytes, DEVICE_SIZE),
        ROW("device_cache_bytes", "gauge", "Cache reserved.", cache_bytes, DEVICE_SIZE),
        ROW("device_cache_bytes_per_token", "gauge", "Cache of one token, all layers.",
            cache_bytes_per_token, DEVICE_SIZE),
        ROW("device_cache_read_bytes_total", "counter", "Cache read.", cache_bytes_read, DEVICE_COUNT),
        ROW("device_cache_written_bytes_total", "counter", "Cache written.", cache_bytes_written,
            DEVICE_COUNT),
        ROW("device_weight_read_bytes_total", "counter", "Weights read.", weight_bytes_read, DEVICE_COUNT),
        ROW("device_multiply_adds_total", "counter", "Multiply-adds.", multiply_adds, DEVICE_COUNT),
        ROW("device_collective_bytes_total", "counter", "Sent in collectives.", collective_bytes,
            DEVICE_COUNT),
        ROW("device_collectives_total", "counter", "Collectives taken part in.", collectives, DEVICE_COUNT),
        ROW("device_busy_seconds_total", "counter", "CPU time of the device's thread.", busy_ns,
            DEVICE_SECONDS),
        ROW("device_waited_seconds_total", "counter", "Time waited in collectives.", waited_ns,
            DEVICE_SECONDS),
    };
#undef ROW
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        TRY(write_head(out, table[i].name, table[i].type, table[i].help));
        for (int d = 0; d < view->n_devices; d++)
            TRY(buf_printf(out, "latentd_%s{%s,device=\"%d\"} %.15g\n", table[i].name, m->labels, d,
                           device_value(&table[i], &view->devices[d])));
    }
    double share = used_share(&view->engine);
    TRY(write_head(out, "device_cache_used_bytes", "gauge", "Cache that sequences hold."));
    for (int d = 0; d < view->n_devices; d++)
        TRY(buf_printf(out, "latentd_device_cache_used_bytes{%s,device=\"%d\"} %.15g\n", m->labels, d,
                       share * (double)view->devices[d].cache_bytes));
    return STATUS_OK;
}

static enum status write_info(const struct metrics *m, const struct metrics_view *view, struct buf *out)
{
    TRY(write_head(out, "cache_config_info", "gauge", "How the cache is laid out; the value is always 1."));
    TRY(buf_printf(out,
                   "latentd_cache_config_info{%s,block_size=\"%d\",num_blocks=\"%d\",cache_dtype=\"%s\","
                   "formulation=\"%s\",devices=\"%d\"} 1\n",
                   m->labels, view->block_size, view->engine.n_blocks, view->cache_type, view->formulation,
                   view->n_devices));
    TRY(write_head(out, "build_info", "gauge", "The program's version; the value is always 1."));
    return buf_printf(out, "latentd_build_info{version=\"" LATENTD_VERSION "\"} 1\n");
}

static enum status write_process(struct buf *out)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return STATUS_OK;
    double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
                   + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    TRY(buf_add_text(out, "# HELP process_cpu_seconds_total CPU time of the process.\n"
                          "# TYPE process_cpu_seconds_total counter\n"));
    return buf_printf(out, "process_cpu_seconds_total %.6f\n", seconds);
}

enum status metrics_write(const struct metrics *m, const struct metrics_view *view, struct buf *out)
{
    TRY(write_engine(m, &view->engine, out));
    TRY(write_step_sizes(m, &view->engine, out));
    TRY(write_finishes(m, out));
    for (int i = 0; i < METRICS_N_HISTOGRAMS; i++)
        TRY(write_histogram(m, i, out));
    TRY(write_devices(m, view, out));
    TRY(write_info(m, view, out));
    return write_process(out);
}
