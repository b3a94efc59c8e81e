/* load_result.h - what a run measured: one record per request, the samples of
 * every metric, and the figures made of them.
 *
 *   due ....... sent ............ first ...... last ... end
 *    |           |                 |  |  |  |  |         |
 *    |  QUEUE    |      TTFT       | ITL ITL   |         |
 *    |           |------------- E2E -----------|         |
 *    |           |---------------- REPLY ----------------|
 *    |------ WAIT (queue + TTFT) --|
 *                                  TPOT = (last - first) / (output tokens - 1)
 *
 * due:   the moment the arrival plan set; in a closed loop, the moment a place
 *        became free.
 * sent:  the request is handed to the socket; opening one, if none was kept
 *        alive, comes after this point.
 * first, last: the reads that brought the first and the last chunk with text.
 *        Chunks without text (a chat's role chunk, the finish and the usage
 *        chunk) and comments count for nothing.
 * end:   the reply is over.
 *
 * Only requests that succeeded have latencies.  Output tokens are the server's
 * usage.completion_tokens; where there is none, the token_ids in the chunks;
 * where there are none, the chunks with text.
 *
 * Owner: one thread.  Memory: 112 bytes a request, 8 bytes a sample, bounded.
 */
#ifndef BENCH_LOAD_RESULT_H
#define BENCH_LOAD_RESULT_H

#include "base/status.h"
#include "bench/load_stats.h"

#include <stddef.h>
#include <stdint.h>

/*    id      key      name            what it is (printed with the numbers) */
#define LOAD_METRIC_MAP(X)                                                                                 \
    X(TTFT,  "ttft",  "TTFT",         "sent to the first chunk with text")                                 \
    X(ITL,   "itl",   "ITL",          "gap between two chunks with text, all gaps of all requests pooled; " \
                                      "the first gap begins at the first chunk")                           \
    X(TPOT,  "tpot",  "TPOT",         "per request, (last chunk - first chunk) / (output tokens - 1)")     \
    X(E2E,   "e2e",   "E2E",          "sent to the last chunk with text")                                  \
    X(REPLY, "reply", "Whole reply",  "sent to the end of the reply, usage chunk and [DONE] included")     \
    X(QUEUE, "queue", "Client queue", "due to sent: behind the client's own limit of requests in flight")  \
    X(WAIT,  "wait",  "Due to first", "client queue + TTFT, the wait of a user who came when it was due")

enum load_metric {
#define X(id, key, name, text) LOAD_##id,
    LOAD_METRIC_MAP(X)
#undef X
    LOAD_N_METRICS
};

/*    id            key             what happened */
#define LOAD_OUTCOME_MAP(X)                                                            \
    X(OK,          "ok",           "the reply is whole and has tokens")                \
    X(CANCELLED,   "cancelled",    "given up on purpose (--cancel-rate)")              \
    X(UNFINISHED,  "unfinished",   "still running when the time was over")             \
    X(CONNECT,     "connect",      "no connection to the server")                      \
    X(LOST,        "lost",         "the connection broke before the reply was whole")  \
    X(TIMED_OUT,   "timeout",      "no whole reply within the time limit")             \
    X(OVERLOAD,    "overload",     "HTTP 429 or 503")                                  \
    X(HTTP_4XX,    "http_4xx",     "another HTTP 4xx")                                 \
    X(HTTP_5XX,    "http_5xx",     "another HTTP 5xx, or a code below 200 or of 3xx")  \
    X(STREAM,      "stream_error", "an error inside a reply that began with 200")      \
    X(CUT,         "cut",          "the stream ended without [DONE] and finish_reason") \
    X(EMPTY,       "empty",        "200 without text and without output tokens")       \
    X(BAD_REPLY,   "bad_reply",    "not HTTP, not JSON, or larger than the limits")    \
    X(CLIENT,      "client",       "this program could not send it")

enum load_outcome {
#define X(id, key, text) LOAD_OUTCOME_##id,
    LOAD_OUTCOME_MAP(X)
#undef X
    LOAD_N_OUTCOMES
};

enum load_token_source { LOAD_TOKENS_USAGE, LOAD_TOKENS_IDS, LOAD_TOKENS_CHUNKS };

/* One request.  Times are clock_now_ns; 0: it never came to that. */
struct load_record {
    size_t index;               /* which request of the plan */
    int64_t due_ns, sent_ns, first_ns, last_ns, end_ns;
    int64_t input_tokens;       /* the server's count, else as asked */
    int64_t cached_tokens;      /* of the prompt, found in the server's prefix cache */
    int64_t asked_tokens;       /* max_tokens */
    int64_t output_tokens;
    int64_t n_token_ids;        /* that came in chunks */
    int64_t n_chunks;           /* with text */
    int http_status;
    enum load_outcome outcome;
    enum load_token_source token_source;
};

/* A request is good if it succeeded within every bound.  0: no bound. */
struct load_goals {
    double ttft_ms, tpot_ms, e2e_ms;
};

struct load_result {
    int64_t start_ns;           /* of the measured part, after the warm-up */
    struct load_goals goals;
    struct load_record *records;            /* [n_records], in the order they ended */
    size_t n_records, max_records;
    struct load_series series[LOAD_N_METRICS];  /* milliseconds */
    double *chunks_per_second;              /* [n_seconds] since start: chunks with text */
    size_t n_seconds;
    size_t n_good;
    size_t n_events;            /* server-sent events read, warm-up included */
    size_t n_connects;          /* sockets opened, warm-up included */
    size_t peak_in_flight;
    size_t n_never_sent;        /* due before the run's end, but behind the limit in flight */
    int was_interrupted;        /* by SIGINT */
    int64_t cpu_ns;             /* CPU time of the client's thread, warm-up included */
    char first_error[320];      /* the sentence of the first failure; "" if there was none */
};

/* The numbers the reports print.  Milliseconds, seconds, counts. */
struct load_figures {
    double duration_s;          /* start to the end of the last request */
    size_t outcomes[LOAD_N_OUTCOMES];
    size_t n_requests;          /* all outcomes together */
    size_t n_failed;            /* neither OK nor CANCELLED nor UNFINISHED */
    int64_t input_tokens, cached_tokens, output_tokens;     /* of the successful ones */
    size_t token_sources[3];    /* successful requests by enum load_token_source */
    size_t n_token_mismatches;  /* usage says another number than the token ids sent */
    size_t n_short;             /* successful with fewer tokens than asked */
    double requests_per_s, output_per_s, total_per_s, good_per_s;
    double tokens_per_chunk;    /* above 1: one ITL gap brings several tokens */
    double in_flight_mean;      /* sum of sent-to-end over all requests / duration */
    double us_per_event;        /* the client's own CPU cost; 0 without events */
    struct load_summary metrics[LOAD_N_METRICS];
};

/* Room for max_records records, allocated at once.  NO_MEMORY. */
MUST_CHECK enum status load_result_create(struct load_result **out, size_t max_records, struct error *err);
void load_result_destroy(struct load_result *result);       /* NULL is allowed */

/* record is copied; gaps (milliseconds) are its chunk gaps; error may be "".
 * n_records < max_records. */
void load_result_add(struct load_result *result, const struct load_record *record,
                     const struct load_series *gaps, const char *error);

/* n_chunks chunks with text came at now_ns (>= start_ns); for the timeline. */
void load_result_count_chunks(struct load_result *result, int64_t now_ns, size_t n_chunks);

/* Sorts the series on the way. */
struct load_figures load_result_figures(struct load_result *result);

const char *load_metric_key(enum load_metric metric);       /* "ttft" */
const char *load_metric_name(enum load_metric metric);      /* "TTFT" */
const char *load_metric_text(enum load_metric metric);      /* the definition */
const char *load_outcome_key(enum load_outcome outcome);    /* "http_4xx" */
const char *load_outcome_text(enum load_outcome outcome);

/* Neither a success nor a request given up by the client. */
int load_outcome_is_failure(enum load_outcome outcome);

#endif
