/* cmd_serve.c - `latentd serve`: load, then serve. */
#include "base/log.h"
#include "server/commands.h"
#include "server/daemon.h"

#include <stdio.h>
#include <stdlib.h>

static const struct option_row rows[] = {
    SERVING_OPTION_ROWS(struct daemon_options),
    { .heading = "HTTP" },
    { "host", OPTION_STRING(struct daemon_options, host), .fallback = "localhost",
      .help = "address to listen on; localhost is 127.0.0.1 and ::1, * is every address" },
    { "port", OPTION_INT(struct daemon_options, port), .fallback = "8080", .min = 0, .max = 65535,
      .help = "TCP port; 0 takes a free one and logs it" },
    { "unix-socket", OPTION_STRING(struct daemon_options, unix_socket), .fallback = "", .value = "PATH",
      .help = "listen on this unix socket too" },
    { "tls-certificate", OPTION_STRING(struct daemon_options, tls_certificate), .fallback = "", .value = "FILE",
      .help = "PEM chain; with --tls-key every TCP connection is TLS" },
    { "tls-key", OPTION_STRING(struct daemon_options, tls_key), .fallback = "", .value = "FILE",
      .help = "PEM key of the certificate" },
    { "api-key-file", OPTION_STRING(struct daemon_options, api_key_file), .fallback = "", .value = "FILE",
      .help = "keys, one a line; every route but the health routes then needs one" },
    { "served-model-name", OPTION_STRING(struct daemon_options, served_model_name), .fallback = "",
      .value = "NAMES", .help = "names of the model, comma separated; the first is reported" },
    { "cors-origin", OPTION_STRING(struct daemon_options, cors_origin), .fallback = "*",
      .help = "Access-Control-Allow-Origin of every reply; empty sends none" },
    { "max-connections", OPTION_INT(struct daemon_options, max_connections), .fallback = "1024", .min = 1,
      .max = 1000000, .help = "open connections" },
    { "max-body", OPTION_SIZE(struct daemon_options, max_body), .fallback = "32MiB", .min = 1024,
      .max = INT32_MAX, .help = "bytes of one request body" },
    { "keep-alive", OPTION_DOUBLE(struct daemon_options, keep_alive), .fallback = "90", .low = 1, .high = 86400,
      .help = "seconds an idle connection stays open" },
    { "stall-timeout", OPTION_DOUBLE(struct daemon_options, stall_timeout), .fallback = "60", .low = 0.1,
      .high = 86400, .help = "seconds after which a client that reads nothing is dropped" },
    { "ping", OPTION_DOUBLE(struct daemon_options, ping), .fallback = "20", .low = 0, .high = 86400,
      .help = "seconds of silence after which a stream gets a comment; 0: never" },
    { .heading = "Saved cache" },
    { "cache-dir", OPTION_STRING(struct daemon_options, cache_dir), .fallback = "", .value = "DIR",
      .help = "directory that POST /v1/cache/save writes the reusable prefixes to; they hold prompts" },
    { "cache-restore", OPTION_STRING(struct daemon_options, cache_restore), .fallback = "", .value = "DIR",
      .help = "load the prefixes saved there; what does not match is refused and the cache starts empty" },
    { .heading = "Operation" },
    { "drain-timeout", OPTION_DOUBLE(struct daemon_options, drain_timeout), .fallback = "30", .low = 0,
      .high = 86400, .help = "seconds running requests may go on after SIGTERM" },
    { "heartbeat", OPTION_DOUBLE(struct daemon_options, heartbeat), .fallback = "10", .low = 0.1, .high = 86400,
      .help = "seconds without a sign of life after which /readyz says 503" },
    { "step-timeout", OPTION_DOUBLE(struct daemon_options, step_timeout), .fallback = "120", .low = 1,
      .high = 86400, .help = "seconds without a sign of life after which the process ends" },
    { "access-log", OPTION_STRING(struct daemon_options, access_log), .fallback = "", .value = "FILE",
      .help = "JSON lines, one a call; - is stderr" },
    { "fault", OPTION_STRING(struct daemon_options, serving.fault), .fallback = "", .value = "HOW@RANK:STEP",
      .help = "for tests: stall@1:20 makes rank 1 sleep for ever in its step 20, die@1:20 makes it fail" },
    { "log-level", OPTION_CHOICE(struct daemon_options, log_level), .fallback = "info",
      .choices = "debug info warn error", .help = "least level that is logged" },
};

const struct option_table cmd_serve_options = {
    .command = "serve",
    .help = "load a model and serve it over HTTP",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .family = command_tables,
};

int cmd_serve(int argc, char **argv)
{
    struct daemon_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_serve_options, argc, argv, &values);
    if (done >= 0)
        return done;
    log_set_level((enum log_level)values.log_level);
    struct error err = { 0 };
    int code = daemon_run(&values, &err);
    if (err.code != STATUS_OK)
        fprintf(stderr, "latentd: %s\n", err.text);
    options_destroy(options);
    return err.code == STATUS_BAD_OPTION ? EXIT_USAGE : code;
}
