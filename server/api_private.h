/* api_private.h - what the endpoints share: the api itself, its field tables, its handlers. */
#ifndef SERVER_API_PRIVATE_H
#define SERVER_API_PRIVATE_H

#include "base/buf.h"
#include "model/token_trie.h"
#include "server/api.h"
#include "server/metrics.h"

#define API_MAX_REPLY_BYTES ((size_t)64 << 20)

struct http_exchange;

/* Readers of long bodies (api_intake.h) look, on other threads, at what is fixed at create and no more. */
struct api {
    struct api_options options;         /* fixed at create, and so are router .. trie and what follows salt */
    struct router *router;
    struct api_route *documented;       /* [n_routes] more_routes, then the api's own */
    struct route *routes;               /* [n_routes] the same for the router */
    size_t n_routes;
    struct metrics *metrics;
    struct token_trie *trie;            /* for grammars */
    struct loop_timer *ping_timer;      /* runs while calls are active */
    struct buf openapi;                 /* the document, written once */
    struct buf out;                     /* scratch of whoever writes next; empty between uses */
    struct api_call *calls;             /* newest first */
    size_t n_calls;                     /* in that list */
    size_t n_active;                    /* of them with a client */
    struct api_intake *intakes;         /* long bodies that are not read yet, in order of arrival */
    int64_t created;                    /* Unix seconds */
    _Atomic uint64_t next_call;         /* any thread */
    uint64_t id_salt;                   /* makes ids of two runs differ */
    int takes_developer;                /* the chat template shows messages of the role "developer" */
};

/* Tokens of one sequence: what the model and the cache both allow. */
int32_t api_max_length(const struct api *api);

/* Ids that may stand in a prompt: 0 .. n - 1. */
int32_t api_n_token_ids(const struct api *api);

/* 1 if a request may name the model so. */
int api_serves_model(const struct api *api, const char *name, size_t len);

/* Reply with api->out as JSON and empty it; with a 500 if status is not OK. */
void api_reply_out(struct api *api, struct http_exchange *ex, enum status status);

/* 1 if the template shows messages of the role "developer"; else they are given to it as "system". */
int api_chat_takes_developer(const struct chat_template *template);

/* ---- handlers and field tables, one file an endpoint ---- */

void api_handle_completions(void *context, struct http_exchange *ex);
void api_handle_chat(void *context, struct http_exchange *ex);
void api_handle_embeddings(void *context, struct http_exchange *ex);
void api_handle_tokenize(void *context, struct http_exchange *ex);
void api_handle_detokenize(void *context, struct http_exchange *ex);
void api_handle_tokenizer_info(void *context, struct http_exchange *ex);
void api_handle_models(void *context, struct http_exchange *ex);
void api_handle_model(void *context, struct http_exchange *ex);
void api_handle_livez(void *context, struct http_exchange *ex);
void api_handle_readyz(void *context, struct http_exchange *ex);
void api_handle_metrics(void *context, struct http_exchange *ex);
void api_handle_devices(void *context, struct http_exchange *ex);
void api_handle_version(void *context, struct http_exchange *ex);
void api_handle_reset_prefixes(void *context, struct http_exchange *ex);
void api_handle_openapi(void *context, struct http_exchange *ex);
void api_handle_page(void *context, struct http_exchange *ex);

extern const struct body_table api_completions_fields;
extern const struct body_table api_chat_fields;
extern const struct body_table api_embeddings_fields;
extern const struct body_table api_tokenize_fields;
extern const struct body_table api_detokenize_fields;

#endif
