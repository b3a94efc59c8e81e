#include "server/api_private.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "model/tokenizer.h"
#include "server/access_log.h"
#include "server/api_call.h"
#include "server/api_error.h"
#include "server/api_intake.h"
#include "server/http_exchange.h"
#include "server/http_server.h"
#include "server/loop.h"
#include "server/openapi.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

/* ---- routes ---- */

#define GET(path, handler, text) \
    { .route = { .methods = ROUTE_GET, .pattern = path, .handle = handler }, \
      .summary = text, .content = HTTP_JSON }
#define POST(path, handler, text, table, needs) \
    { .route = { .methods = ROUTE_POST, .pattern = path, .handle = handler }, \
      .summary = text, .body = table, .required = needs, .content = HTTP_JSON }
#define PUBLIC(path, handler, text, type) \
    { .route = { .methods = ROUTE_GET, .pattern = path, .is_public = 1, .handle = handler }, \
      .summary = text, .content = type }
/* Clients differ in whether they write /v1. */
#define BOTH(macro, path, ...) macro("/v1" path, __VA_ARGS__), macro(path, __VA_ARGS__)

static const struct api_route api_routes[] = {
    BOTH(POST, "/completions", api_handle_completions, "Continue prompts", &api_completions_fields,
         "\"prompt\""),
    BOTH(POST, "/chat/completions", api_handle_chat, "Continue a conversation", &api_chat_fields,
         "\"messages\""),
    BOTH(POST, "/embeddings", api_handle_embeddings, "Turn texts into unit vectors", &api_embeddings_fields,
         "\"input\""),
    BOTH(GET, "/models", api_handle_models, "List the served model"),
    BOTH(GET, "/models/{id}", api_handle_model, "Describe a model"),
    BOTH(POST, "/tokenize", api_handle_tokenize, "Text or messages to tokens", &api_tokenize_fields, NULL),
    BOTH(POST, "/detokenize", api_handle_detokenize, "Tokens to text", &api_detokenize_fields,
         "\"tokens\""),
    BOTH(GET, "/tokenizer_info", api_handle_tokenizer_info, "Describe the tokenizer"),
    BOTH(GET, "/devices", api_handle_devices, "What every device holds and has done"),
    BOTH(POST, "/reset_prefix_cache", api_handle_reset_prefixes, "Forget all reusable prefixes", NULL,
         NULL),
    GET("/version", api_handle_version, "The version of the program"),
    GET("/openapi.json", api_handle_openapi, "This document"),
    { .route = { .methods = ROUTE_GET, .pattern = "/metrics", .handle = api_handle_metrics },
      .summary = "Counters and histograms as Prometheus text", .content = "text/plain" },
    PUBLIC("/livez", api_handle_livez, "The process answers", HTTP_JSON),
    PUBLIC("/readyz", api_handle_readyz, "Requests are served; 503 while not", HTTP_JSON),
    PUBLIC("/health", api_handle_readyz, "The same as /readyz", HTTP_JSON),
    PUBLIC("/", api_handle_page, "The web page", "text/html"),
};
enum { N_ROUTES = sizeof api_routes / sizeof api_routes[0] };

/* ---- create ---- */

static enum status check_options(const struct api_options *o, struct error *err)
{
    const struct api_limits *l = &o->limits;
    if (l->max_prompts < 1 || l->max_sequences < 1)
        return fail(err, STATUS_BAD_OPTION, "max_prompts and max_sequences must be at least 1");
    if (l->max_choices < 1 || l->max_choices > REQUEST_MAX_CHOICES)
        return fail(err, STATUS_BAD_OPTION, "max_choices is %d, and must be between 1 and %d", l->max_choices,
                    REQUEST_MAX_CHOICES);
    if (l->max_stop_strings < 0 || l->max_stop_strings > STOP_LIMITS_DEFAULT.max_stops)
        return fail(err, STATUS_BAD_OPTION, "max_stop_strings is %d, and must be between 0 and %d",
                    l->max_stop_strings, STOP_LIMITS_DEFAULT.max_stops);
    return STATUS_OK;
}

static size_t bytes_of_token(void *context, int32_t token, const char **bytes)
{
    const struct api *api = context;
    size_t len = 0;
    /* Special tokens are no text: a grammar must not spell a string with them. */
    if (tokenizer_is_special(api->options.tokenizer, token))
        return 0;
    *bytes = tokenizer_token_bytes(api->options.tokenizer, token, &len);
    return len;
}

static enum status create_router(struct api *api, struct error *err)
{
    size_t n_more = api->options.n_more_routes;
    api->n_routes = n_more + N_ROUTES;
    api->documented = calloc(api->n_routes, sizeof *api->documented);
    api->routes = calloc(api->n_routes, sizeof *api->routes);
    if (api->documented == NULL || api->routes == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for %zu routes", api->n_routes);
    for (size_t i = 0; i < api->n_routes; i++) {
        api->documented[i] = i < n_more ? api->options.more_routes[i] : api_routes[i - n_more];
        api->routes[i] = api->documented[i].route;
    }
    return router_create(&api->router, &(struct router_options){
        .routes = api->routes, .n_routes = api->n_routes, .auth = api->options.auth, .context = api }, err);
}

static void ping_calls(void *context)
{
    struct api *api = context;
    int64_t now_ns = clock_now_ns();
    for (struct api_call *call = api->calls; call != NULL; call = api_call_next(call))
        api_call_ping(call, now_ns);
}

static enum status fill(struct api *api, struct error *err)
{
    struct token_trie_source source = { .vocab = api_n_token_ids(api),
                                        .bytes_of = bytes_of_token,
                                        .context = api };
    buf_init(&api->out, API_MAX_REPLY_BYTES);
    buf_init(&api->openapi, API_MAX_REPLY_BYTES);
    if (getrandom(&api->id_salt, sizeof api->id_salt, 0) != (ssize_t)sizeof api->id_salt)
        return fail(err, STATUS_INTERNAL, "the system gave no random numbers");
    TRY(create_router(api, err));
    TRY(metrics_create(&api->metrics, api->options.model_name, err));
    TRY(token_trie_create(&api->trie, &source, err));
    TRY(loop_timer_create(&api->ping_timer, api->options.loop, ping_calls, api, err));
    if (openapi_write(api->documented, api->n_routes, &api->openapi) != STATUS_OK)
        return fail(err, STATUS_NO_MEMORY, "no memory for the OpenAPI document");
    api->takes_developer = api->options.chat_template != NULL &&
                           api_chat_takes_developer(api->options.chat_template);
    return STATUS_OK;
}

enum status api_create(struct api **out, const struct api_options *options, struct error *err)
{
    TRY(check_options(options, err));
    struct api *api = calloc(1, sizeof *api);
    if (api == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the endpoints");
    api->options = *options;
    api->created = clock_unix_seconds();
    enum status s = fill(api, err);
    if (s != STATUS_OK) {
        api_destroy(api);
        return s;
    }
    *out = api;
    return STATUS_OK;
}

void api_destroy(struct api *api)
{
    if (api == NULL)
        return;
    api_intakes_join(api);
    loop_timer_destroy(api->ping_timer);
    router_destroy(api->router);
    metrics_destroy(api->metrics);
    token_trie_destroy(api->trie);
    buf_clear(&api->openapi);
    buf_clear(&api->out);
    free(api->routes);
    free(api->documented);
    free(api);
}

/* ---- what the HTTP layer calls ---- */

void api_handle(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    router_handle(api->router, ex);
}

int api_admit(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    return router_admit(api->router, ex);
}

void api_log(void *context, const struct http_access *access)
{
    struct api *api = context;
    metrics_count_reply(api->metrics, access->status);
    if (api->options.access_log != NULL)
        access_log_exchange(api->options.access_log, access);
}

void *api_more_context(void *context)
{
    struct api *api = context;
    return api->options.more_context;
}

/* ---- calls ---- */

void api_on_events(struct api *api)
{
    struct engine_event event;
    while (engine_next_event(api->options.engine, &event))
        api_call_take(event.request->owner, &event, clock_now_ns());
}

void api_fail_all(struct api *api, const char *sentence)
{
    struct error failure;
    fail(&failure, STATUS_BUSY, "%s", sentence);
    for (struct api_call *call = api->calls; call != NULL; call = api_call_next(call))
        api_call_fail(call, &failure);
    api_intakes_fail(api, &failure);
}

size_t api_active_count(const struct api *api)
{
    return api->n_active + api_intakes_count(api, 1);
}

size_t api_held_count(const struct api *api)
{
    return api->n_calls + api_intakes_count(api, 0);
}

/* ---- what the endpoints share ---- */

int32_t api_max_length(const struct api *api)
{
    const struct model_options *o = model_options(api->options.model);
    int64_t in_cache = (int64_t)o->n_blocks * o->block_size;
    int64_t max = o->max_length < in_cache ? o->max_length : in_cache;
    /* An encoder computes its text in one step. */
    if (!model_config(api->options.model)->attention.causal && o->max_rows < max)
        max = o->max_rows;
    return (int32_t)max;
}

int32_t api_n_token_ids(const struct api *api)
{
    return model_config(api->options.model)->n_usable_tokens;
}

void api_reply_out(struct api *api, struct http_exchange *ex, enum status status)
{
    if (status == STATUS_OK)
        http_reply(ex, 200, HTTP_JSON, api->out.data, api->out.len);
    else
        api_error_reply(ex, &(struct api_error){ .status = 500, .message = "no memory for the reply" });
    buf_reset(&api->out);
}

/* ---- defaults ---- */

enum status api_defaults_read(struct api_defaults *d, const json_t *generation_config, struct error *err)
{
    struct json_reader r = { .object = generation_config, .where = "generation_config.json",
                             .code = STATUS_BAD_MODEL };
    TRY(json_read_double(&r, "temperature", 0, 1e9, &d->temperature, err));
    TRY(json_read_double(&r, "top_p", 0, 1, &d->top_p, err));
    TRY(json_read_double(&r, "min_p", 0, 1, &d->min_p, err));
    TRY(json_read_double(&r, "repetition_penalty", 0.01, 100, &d->repetition_penalty, err));
    return json_read_int(&r, "top_k", -1, INT32_MAX, &d->top_k, err);
}
