/* api.h - the OpenAI-compatible endpoints: HTTP exchanges in, requests to the engine, replies out.
 *
 *   http_server --handle--> router --> api_completions.c   POST /v1/completions
 *                                      api_chat.c          POST /v1/chat/completions
 *                                      api_embeddings.c    POST /v1/embeddings
 *                                      api_tokenize.c      POST /tokenize, /detokenize ..
 *                                      api_models.c        GET  /v1/models, /v1/models/{id}
 *                                      api_status.c        GET  /readyz /metrics /v1/devices ..
 *   engine --on_event--> loop_wake --> api_on_events --> api_call --> reply --> http_exchange
 *
 * Every path is served with and without /v1.  The table of routes is in api.c; the OpenAPI document at
 * /openapi.json is written from it and from the tables of fields that parse the bodies.
 *
 * A call is validated as a whole before its first request is submitted; until the first event of a stream a
 * failure still has a status of its own.
 *
 * Owner: the loop thread; long bodies are read on workers (api_intake.h).
 * Memory: at create, and per call; nothing is kept of a call that has ended.
 */
#ifndef SERVER_API_H
#define SERVER_API_H

#include "base/status.h"
#include "model/grammar.h"
#include "server/api_route.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct access_log;
struct api;
struct chat_template;
struct engine;
struct http_access;
struct loop;
struct model;
struct tokenizer;

/* What one call may ask for at most; every bound is named in the error that it causes. */
struct api_limits {
    int max_prompts;            /* of one call */
    int max_choices;            /* n or best_of, 1..REQUEST_MAX_CHOICES */
    int max_sequences;          /* prompts x choices */
    int max_stop_strings;       /* 1..STOP_LIMITS_DEFAULT.max_stops */
    struct grammar_limits grammar;
};

static inline struct api_limits api_limits_default(void)
{
    return (struct api_limits){ .max_prompts = 256, .max_choices = 128, .max_sequences = 512,
                                .max_stop_strings = 16, .grammar = GRAMMAR_LIMITS_DEFAULT };
}

/* What a request that says nothing gets. */
struct api_defaults {
    double temperature, top_p, min_p, repetition_penalty;
    int64_t top_k;
};

static inline struct api_defaults api_defaults_openai(void)
{
    return (struct api_defaults){ .temperature = 1, .top_p = 1, .repetition_penalty = 1 };
}

/* Overwrite what a generation_config.json sets.
 * BAD_MODEL: a field of the wrong type or out of range. */
MUST_CHECK enum status api_defaults_read(struct api_defaults *defaults, const json_t *generation_config,
                                         struct error *err);

struct api_options {
    struct loop *loop;
    struct engine *engine;
    const struct model *model;
    const struct tokenizer *tokenizer;
    const struct chat_template *chat_template;  /* NULL: chat is refused with 501 */
    const struct http_auth *auth;               /* NULL: no keys */
    struct access_log *access_log;              /* NULL: none */
    const char *model_name;
    const char *const *aliases;                 /* [n_aliases] other names requests may use */
    size_t n_aliases;
    struct api_limits limits;
    struct api_defaults defaults;
    int64_t heartbeat_ns;       /* an engine at work that shows no sign of life for so long is not ready */
    int64_t ping_ns;            /* a stream that was silent for so long gets a comment; 0: never */
    size_t high_water_bytes;    /* http_limits.high_water_bytes: above it a stream's requests are paused */
    const struct api_route *more_routes;            /* [n_more_routes] of others, before the own ones */
    size_t n_more_routes;
    void *more_context;         /* for their handlers: api_more_context(context) */
};

/* Everything the options point to outlives the api.
 * BAD_OPTION: a limit is out of range.  NO_MEMORY. */
MUST_CHECK enum status api_create(struct api **out, const struct api_options *options, struct error *err);

/* No call may be active: the server is destroyed and the engine has returned every request.  Waits for the
 * workers.  NULL is allowed. */
void api_destroy(struct api *api);

/* For http_server_options, with the api as context (and log_context). */
void api_handle(void *api, struct http_exchange *ex);
int api_admit(void *api, struct http_exchange *ex);
void api_log(void *api, const struct http_access *access);

/* What a handler of more_routes got as its context, turned into more_context. */
void *api_more_context(void *api);

/* Take all events the engine has.  Call when the engine has woken the loop. */
void api_on_events(struct api *api);

/* End every active call with this sentence (drain timeout, engine death): an error event in streams that have
 * begun, 503 for the others.  The engine is told to drop their requests, and their last events are still
 * awaited. */
void api_fail_all(struct api *api, const char *sentence);

/* Calls whose client waits for a reply, also those whose body is being read. */
size_t api_active_count(const struct api *api);

/* Calls the engine still holds requests of or whose body is being read, whether or not a client waits. */
size_t api_held_count(const struct api *api);

#endif
