/* access_log.h - one JSON line for every HTTP exchange.
 *
 *   {"time":"2026-11-30T02:54:29Z","request_id":"..","peer":"127.0.0.1:4711","method":"POST",
 *    "path":"/v1/completions","status":200,"aborted":false,"received_bytes":41,"sent_bytes":612,
 *    "first_byte_ms":3.1,"duration_ms":97.4,
 *    "traceparent":"00-..","stream":true,"requests":1,"prompt_tokens":12,"cached_tokens":0,
 *    "output_tokens":16,"finish":"length","queue_ms":0.2,"prefill_ms":2.7,"decode_ms":90.1,"ttft_ms":3.0,
 *    "preemptions":0,"devices":{"busy_ms":[80.2,79.9],"waited_ms":[..],"cache_bytes_read":[..],
 *    "collective_bytes":[..]}}
 *
 * The members from traceparent on belong to calls that went through the engine.  "devices" is what every
 * device did while the call was in the server, for this call and for those beside it.
 * What clients wrote (prompts, outputs, stop strings) is never logged.
 *
 * A call has two ends: its exchange (the HTTP layer tells) and its last event (the endpoint tells).  Either
 * may come first; the line is written with the second.
 *
 *   access_log_begin -> entry      the endpoint, before it submits
 *   access_log_finish(entry)       the endpoint, after the last event; entry is gone
 *   access_log_exchange            the HTTP layer; finds the entry by request id and peer
 *
 * Owner: the loop thread.  Memory: an entry (about 2 KiB) for each call in progress; one write per line.
 */
#ifndef SERVER_ACCESS_LOG_H
#define SERVER_ACCESS_LOG_H

#include "model/model.h"
#include "server/engine.h"
#include "server/http_server.h"

struct access_log;          /* opaque */
struct access_entry;        /* opaque */

/* path: a file that is appended to; "-": standard error.  model (may be NULL: no device counters) outlives
 * the log.  IO: it cannot be opened.  NO_MEMORY. */
MUST_CHECK enum status access_log_create(struct access_log **out, const char *path, const struct model *model,
                                         struct error *err);
void access_log_destroy(struct access_log *log);        /* NULL is allowed; unfinished entries get no line */

/* What the endpoint knows at the end. */
struct access_note {
    int is_stream;
    int n_requests;
    const char *finish;         /* of the first choice: "stop", "length", "abort", "error"; a constant */
    int64_t ttft_ns;            /* arrival to first token; 0: none came */
    struct engine_usage usage;
};

/* log may be NULL: then NULL, which finish accepts.  traceparent: the header or NULL; it is kept if it is
 * well formed (W3C Trace Context).  NULL also without memory: the exchange then gets its short line. */
struct access_entry *access_log_begin(struct access_log *log, const char *request_id, const char *peer,
                                      const char *traceparent);
void access_log_finish(struct access_entry *entry, const struct access_note *note);

void access_log_exchange(struct access_log *log, const struct http_access *access);

#endif
