/* metrics.h - counters and histograms of the server, and their Prometheus text.
 *
 * Names have vLLM's meanings under "latentd_"; times are seconds, ratios 0..1.  Every series carries
 * model_name; what is told per device carries device="rank" too.
 *
 *   time_to_first_token    arrival of the request's first byte -> its first token; waiting included
 *   request_queue_time     arrival -> the first step that computes some of it
 *   request_prefill_time   that step -> first token
 *   request_decode_time    first token -> last token
 *   e2e_request_latency    arrival -> end
 *   inter_token_latency    each gap between two tokens of one choice
 *   request_time_per_output_token   (end - first token) / (tokens - 1)
 *   iteration_tokens_total          tokens of one step, of all sequences together; counted by the engine
 *
 * Owner: the loop thread.  Memory: one allocation at create.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "base/buf.h"
#include "server/engine.h"

struct metrics;             /* opaque */

enum metrics_histogram {
    METRICS_TTFT, METRICS_INTER_TOKEN, METRICS_E2E, METRICS_QUEUE, METRICS_PREFILL, METRICS_DECODE,
    METRICS_PER_OUTPUT_TOKEN,
    METRICS_PROMPT_TOKENS, METRICS_GENERATION_TOKENS, METRICS_PARAMS_N, METRICS_PARAMS_MAX_TOKENS,
    METRICS_N_HISTOGRAMS
};

/* How a request ended. */
enum metrics_finish { METRICS_STOP, METRICS_LENGTH, METRICS_ABORT, METRICS_ERROR, METRICS_N_FINISHES };

MUST_CHECK enum status metrics_create(struct metrics **out, const char *model_name, struct error *err);
void metrics_destroy(struct metrics *metrics);          /* NULL is allowed */

void metrics_observe(struct metrics *metrics, enum metrics_histogram which, double value);
void metrics_count_finish(struct metrics *metrics, enum metrics_finish how);
void metrics_count_reply(struct metrics *metrics, int http_status);     /* 0: the client left before it */

/* What is not counted here but read at the moment of asking. */
struct metrics_view {
    struct engine_state engine;
    int block_size;
    const char *cache_type;
    const char *formulation;
    const struct device_report *devices;    /* [n_devices] */
    int n_devices;
};

/* Append everything as text format 0.0.4.  The failures of buf_add. */
MUST_CHECK enum status metrics_write(const struct metrics *metrics, const struct metrics_view *view,
                                     struct buf *out);

#endif
