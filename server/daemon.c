#include "server/daemon.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/log.h"
#include "model/chat_template.h"
#include "server/access_log.h"
#include "server/api.h"
#include "server/cache_identity.h"
#include "server/cache_routes.h"
#include "server/http_auth.h"
#include "server/http_server.h"
#include "server/http_tls.h"
#include "server/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

enum { TICK_MS = 200, DRAIN_TICK_MS = 20, MAX_NAMES = 16, MAX_GENERATION_CONFIG = 1 << 20, MAX_IDENTITY = 4096 };

/* How long streams may take to carry their last event to the client. */
#define FAREWELL_NS ((int64_t)2000000000)

/* How long the engine may take for its last step, and after a second signal. */
#define JOIN_NS ((int64_t)10000000000)
#define JOIN_AT_ONCE_NS ((int64_t)500000000)
#define JOIN_TURN_NS ((int64_t)20000000)

enum phase { PHASE_SERVING, PHASE_DRAINING, PHASE_FAREWELL };

struct daemon {
    const struct daemon_options *options;
    struct loop *loop;
    struct loop_timer *tick;
    struct loop_wake *wake;
    struct serving serving;
    struct chat_template *chat_template;
    struct api_defaults defaults;
    struct http_auth *auth;
    struct http_tls_context *tls;
    struct access_log *access_log;
    struct http_server *http;
    struct api *api;
    struct buf cache_identity;      /* empty: neither saved nor restored */
    struct cache_routes *cache_routes;
    char names_text[512];
    const char *names[MAX_NAMES];
    size_t n_names;

    enum phase phase;
    int64_t deadline_ns;            /* of the phase */
    int is_stuck;                   /* a device hangs: its thread is not joined */
    int is_hurried;                 /* by a second signal */
    int exit_code;
};

static int64_t from_seconds(double seconds)
{
    return (int64_t)(seconds * 1e9);
}

/* ---- ending ---- */

static void farewell(struct daemon *d, const char *why, int exit_code)
{
    if (d->phase == PHASE_FAREWELL)
        return;
    d->phase = PHASE_FAREWELL;
    d->exit_code = exit_code;
    d->deadline_ns = clock_now_ns() + FAREWELL_NS;
    http_server_stop_accepting(d->http);
    api_fail_all(d->api, why);
    engine_stop(d->serving.engine, why);
    loop_timer_start(d->tick, DRAIN_TICK_MS, DRAIN_TICK_MS);
}

static void on_signal(void *context, int number)
{
    struct daemon *d = context;
    if (d->phase != PHASE_SERVING) {
        log_warn("second signal, ending now signal=%d", number);
        d->is_hurried = 1;
        farewell(d, "the server was stopped", EXIT_FAILURE);
        loop_stop(d->loop);
        return;
    }
    log_info("draining signal=%d active=%zu timeout_s=%.1f", number, api_active_count(d->api),
             d->options->drain_timeout);
    sd_notify(0, "STOPPING=1");
    d->phase = PHASE_DRAINING;
    d->deadline_ns = clock_now_ns() + from_seconds(d->options->drain_timeout);
    http_server_stop_accepting(d->http);
    http_server_close_idle(d->http);
    engine_drain(d->serving.engine);
    loop_timer_start(d->tick, DRAIN_TICK_MS, DRAIN_TICK_MS);
}

static void watch_devices(struct daemon *d)
{
    struct engine_state state;
    engine_read_state(d->serving.engine, &state);
    if (state.failed) {
        log_error("a device failed, ending");
        farewell(d, "a device of the team failed", EXIT_FAILURE);
    } else if (clock_now_ns() - state.heartbeat_ns > from_seconds(d->options->step_timeout)) {
        log_error("a step shows no sign of life, ending seconds=%.1f", d->options->step_timeout);
        d->is_stuck = 1;
        farewell(d, "a device of the team does not answer", EXIT_FAILURE);
    }
}

static void on_tick(void *context)
{
    struct daemon *d = context;
    if (d->phase == PHASE_FAREWELL) {
        if (http_server_exchange_count(d->http) == 0 || clock_now_ns() > d->deadline_ns)
            loop_stop(d->loop);
        return;
    }
    watch_devices(d);
    if (d->phase != PHASE_DRAINING)
        return;
    if (http_server_exchange_count(d->http) == 0 && api_held_count(d->api) == 0)
        loop_stop(d->loop);
    else if (clock_now_ns() > d->deadline_ns)
        farewell(d, "the server is shutting down", EXIT_SUCCESS);
}

/* ---- starting ---- */

static void on_wake(void *context)
{
    struct daemon *d = context;
    if (d->api != NULL)
        api_on_events(d->api);
    if (d->cache_routes != NULL)
        cache_routes_on_wake(d->cache_routes);
}

static void on_engine_event(void *context)
{
    struct daemon *d = context;
    loop_wake_send(d->wake);
}

static enum status read_defaults(struct daemon *d, const char *dir, struct error *err)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/generation_config.json", dir);
    d->defaults = api_defaults_openai();
    if (!file_exists(path))
        return STATUS_OK;
    json_t *json;
    TRY(json_read_file(path, MAX_GENERATION_CONFIG, STATUS_BAD_MODEL, &json, err));
    enum status s = api_defaults_read(&d->defaults, json, err);
    json_decref(json);
    return s;
}

/* What is read from the model's directory beside the model. */
static enum status on_dir_ready(void *context, const char *dir, struct error *err)
{
    struct daemon *d = context;
    TRY(read_defaults(d, dir, err));
    buf_init(&d->cache_identity, MAX_IDENTITY);
    if (*d->options->cache_dir != '\0' || *d->options->cache_restore != '\0')
        TRY(cache_identity_write(d->serving.model, dir, d->options->serving.reuse_generated, &d->cache_identity,
                                 err));
    return chat_template_load(&d->chat_template, dir, err);
}

static int on_between_steps(void *context, struct engine *engine)
{
    struct daemon *d = context;
    return cache_routes_feed(d->cache_routes, engine);
}

static enum status create_cache_routes(struct daemon *d, struct error *err)
{
    struct cache_routes_options options = {
        .model = d->serving.model, .engine = d->serving.engine,
        .identity = d->cache_identity.data != NULL ? d->cache_identity.data : "",
        .save_dir = d->options->cache_dir, .restore_dir = d->options->cache_restore,
        .on_done = on_engine_event, .context = d,
    };
    return cache_routes_create(&d->cache_routes, &options, err);
}

static void split_names(struct daemon *d)
{
    snprintf(d->names_text, sizeof d->names_text, "%s", d->options->served_model_name);
    for (char *name = strtok(d->names_text, ","); name != NULL && d->n_names < MAX_NAMES; name = strtok(NULL, ","))
        d->names[d->n_names++] = name;
    if (d->n_names == 0)
        d->names[d->n_names++] = d->serving.name;
}

static enum status open_outside(struct daemon *d, struct error *err)
{
    const struct daemon_options *o = d->options;
    if (*o->api_key_file != '\0')
        TRY(http_auth_load(&d->auth, o->api_key_file, err));
    if ((*o->tls_certificate != '\0') != (*o->tls_key != '\0'))
        return fail(err, STATUS_BAD_OPTION, "--tls-certificate and --tls-key come together");
    if (*o->tls_certificate != '\0')
        TRY(http_tls_context_create(&d->tls, o->tls_certificate, o->tls_key, err));
    return STATUS_OK;
}

static enum status create_api(struct daemon *d, struct error *err)
{
    const char *log = d->options->access_log;
    if (*log != '\0')
        TRY(access_log_create(&d->access_log, log, d->serving.model, err));
    struct api_options options = {
        .loop = d->loop, .engine = d->serving.engine, .model = d->serving.model,
        .tokenizer = d->serving.tokenizer, .chat_template = d->chat_template, .auth = d->auth,
        .access_log = d->access_log, .model_name = d->names[0], .aliases = d->names + 1,
        .n_aliases = d->n_names - 1, .limits = api_limits_default(), .defaults = d->defaults,
        .heartbeat_ns = from_seconds(d->options->heartbeat), .ping_ns = from_seconds(d->options->ping),
        .high_water_bytes = http_limits_default().high_water_bytes, .more_context = d->cache_routes,
    };
    options.more_routes = cache_routes_table(&options.n_more_routes);
    return api_create(&d->api, &options, err);
}

static enum status listen_everywhere(struct daemon *d, struct error *err)
{
    const struct daemon_options *o = d->options;
    struct http_address tcp = { .host = o->host, .port = o->port, .tls = d->tls };
    TRY(http_server_listen(d->http, &tcp, err));
    log_info("listening host=%s port=%d tls=%s", *o->host != '\0' ? o->host : "*", http_server_port(d->http),
             d->tls != NULL ? "on" : "off");
    if (*o->unix_socket == '\0')
        return STATUS_OK;
    struct http_address local = { .unix_path = o->unix_socket };
    TRY(http_server_listen(d->http, &local, err));
    log_info("listening unix_socket=%s", o->unix_socket);
    return STATUS_OK;
}

static enum status create_http(struct daemon *d, struct error *err)
{
    const struct daemon_options *o = d->options;
    struct http_server_options options = {
        .loop = d->loop, .limits = http_limits_default(),
        .cors_origin = *o->cors_origin != '\0' ? o->cors_origin : NULL,
        .handle = api_handle, .admit = api_admit, .context = d->api, .log = api_log, .log_context = d->api,
    };
    options.limits.max_connections = (size_t)o->max_connections;
    options.limits.max_body_bytes = o->max_body;
    options.limits.keep_alive_ns = from_seconds(o->keep_alive);
    options.limits.stall_timeout_ns = from_seconds(o->stall_timeout);
    return http_server_create(&d->http, &options, err);
}

static enum status start(struct daemon *d, struct error *err)
{
    TRY(loop_create(&d->loop, err));
    TRY(loop_wake_create(&d->wake, d->loop, on_wake, d, err));
    TRY(loop_timer_create(&d->tick, d->loop, on_tick, d, err));
    TRY(open_outside(d, err));
    struct serving_hooks hooks = { .dir_ready = on_dir_ready, .on_event = on_engine_event,
                                   .between_steps = on_between_steps, .context = d };
    TRY(serving_open(&d->serving, &d->options->serving, &hooks, err));
    split_names(d);
    TRY(create_cache_routes(d, err));
    TRY(create_api(d, err));
    TRY(create_http(d, err));
    TRY(listen_everywhere(d, err));
    TRY(loop_signals_start(d->loop, on_signal, d, err));
    TRY(engine_start(d->serving.engine, err));
    loop_timer_start(d->tick, TICK_MS, TICK_MS);
    sd_notify(0, "READY=1");
    return STATUS_OK;
}

/* 0: a thread of the team does not end.  The engine may wait for room in the queue
 * of events, so they are taken meanwhile. */
static int end_engine(struct daemon *d)
{
    struct engine *engine = d->serving.engine;
    int64_t deadline_ns = clock_now_ns() + (d->is_hurried ? JOIN_AT_ONCE_NS : JOIN_NS);
    engine_stop(engine, "the server is shutting down");
    if (d->is_stuck)
        return 0;
    while (!engine_join(engine, JOIN_TURN_NS)) {
        if (clock_now_ns() > deadline_ns)
            return 0;
        if (d->api != NULL)
            api_on_events(d->api);
    }
    return 1;
}

/* In reverse; whatever start got to. */
static void stop(struct daemon *d)
{
    http_server_destroy(d->http);
    if (d->api != NULL)
        api_on_events(d->api);
    api_destroy(d->api);
    cache_routes_destroy(d->cache_routes);
    buf_clear(&d->cache_identity);
    serving_close(&d->serving);
    chat_template_destroy(d->chat_template);
    access_log_destroy(d->access_log);
    http_tls_context_destroy(d->tls);
    http_auth_destroy(d->auth);
    loop_timer_destroy(d->tick);
    loop_wake_destroy(d->wake);
    loop_destroy(d->loop);
    free(d);
}

int daemon_run(const struct daemon_options *options, struct error *err)
{
    struct daemon *d = calloc(1, sizeof *d);
    if (d == NULL) {
        fail(err, STATUS_NO_MEMORY, "no memory for a server");
        return EXIT_FAILURE;
    }
    d->options = options;
    d->exit_code = EXIT_SUCCESS;
    if (start(d, err) == STATUS_OK)
        loop_run(d->loop);
    else
        d->exit_code = EXIT_FAILURE;
    int exit_code = d->exit_code;
    if (d->serving.engine == NULL || end_engine(d)) {
        stop(d);
    } else {
        /* A thread is still in a step and uses all of *d: it stays as it is until
         * the process has ended. */
        log_error("a device does not end, leaving without it");
        exit_code = EXIT_FAILURE;
    }
    if (err->code == STATUS_OK)
        log_info("ended code=%d", exit_code);
    return exit_code;
}
