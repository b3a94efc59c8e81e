/* daemon.h - the life of `latentd serve`: start, watch, drain, end.
 *
 *   open model -> listen -> ready .. SIGTERM -> drain -> end
 *                              |                  |
 *                              |  device dead or stuck: fail calls, exit 1
 *                              +-> watch: every tick
 *
 * SIGTERM or SIGINT: no new connections and requests, running ones go on up to
 * drain_timeout, then their streams end with an error event.  A second signal
 * ends at once.  A device that died, or a step that shows no sign of life for
 * step_timeout, ends the process with 1 for its supervisor: a stuck thread cannot
 * be healed from inside.
 *
 * Threads: the main thread becomes the loop thread.
 */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include "server/http_limits.h"
#include "server/serving.h"

struct daemon_options {
    struct serving_options serving;
    const char *host;               /* "" is every address */
    int port;
    const char *unix_socket;        /* "" is none */
    const char *tls_certificate, *tls_key;
    const char *api_key_file;
    const char *served_model_name;  /* names, comma separated; the first is reported */
    const char *cors_origin;
    const char *access_log;         /* file, "-" is stderr, "" is none */
    const char *cache_dir;          /* where POST /v1/cache/save writes; "" refuses it */
    const char *cache_restore;      /* whose saved cache is loaded; "" is none */
    int max_connections;
    size_t max_body;
    double drain_timeout, heartbeat, step_timeout, keep_alive, stall_timeout;   /* seconds */
    double ping;
    int log_level;                  /* enum log_level */
};

/* The exit code of the process; a failure to start is told in *err and logged. */
int daemon_run(const struct daemon_options *options, struct error *err);

#endif
