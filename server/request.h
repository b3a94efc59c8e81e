/* request.h - what a client asked, checked and in the engine's terms.
 *
 * One request is one prompt and n_choices continuations of it; an HTTP call with
 * several prompts makes several requests.  Endpoints fill it, engine_submit takes
 * it over, and the endpoint gets it back with the request's last event.
 *
 * Lifetime
 *   1. request_create, filled by the loop thread;
 *   2. engine_submit OK: the engine holds it; the loop may only touch the two
 *      atomic flags and `owner`;
 *   3. the event ENGINE_DONE or ENGINE_FAILED is the last that names it: the loop
 *      thread then destroys it.  Every submitted request gets exactly one of them,
 *      also after a cancel.
 *
 * Memory: the loop thread allocates and frees; the engine only reads.
 */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "cache/prefix_cache.h"
#include "model/sampling_params.h"
#include "model/stop_matcher.h"

#include <stdatomic.h>
#include <stdint.h>

struct grammar;

enum { REQUEST_MAX_STOP_TOKENS = 64, REQUEST_MAX_CHOICES = 128 };

enum request_task {
    REQUEST_GENERATE,
    REQUEST_EMBED,              /* the mean of the final hidden rows of the prompt */
};

struct request {
    /* filled by the endpoint, then fixed */
    enum request_task task;
    void *owner;                /* the endpoint's; never looked at by the engine */
    char id[136];               /* for the logs: the HTTP request's id */
    int32_t *prompt;            /* [n_prompt], owned */
    int32_t n_prompt;           /* >= 1 */
    int32_t max_new_tokens;     /* >= 0; 0 computes the prompt only */
    int32_t min_new_tokens;     /* eos and stops do not count before */
    int32_t n_choices;          /* 1..REQUEST_MAX_CHOICES */
    int32_t priority;
    int ignore_eos;
    int want_prompt_logprobs;   /* ENGINE_PROMPT_TOKEN events for every prompt token */
    int skip_special_tokens;    /* special tokens have no text; 1 unless asked otherwise */
    struct sampling_params sampling;    /* seed: of the request; choice k draws with sub-seed k */
    struct stop_string *stops;  /* [n_stops], owned, texts too */
    int n_stops;
    int include_stop;
    int32_t stop_tokens[REQUEST_MAX_STOP_TOKENS];
    int n_stop_tokens;
    struct prefix_salt salt;
    struct grammar *grammar;    /* NULL: free text; borrowed: requests of one call may share it, each with cursors */
    int first_cursor;           /* .. of its own: choice k has cursor first_cursor + k */
    int64_t arrival_ns;         /* clock_now_ns() of the HTTP request's first byte */

    /* any thread, any time */
    _Atomic int cancelled;      /* 1: the client left; ends within one step */
    _Atomic int paused;         /* 1: the client does not read; takes no steps */
};

/* Everything zero but n_choices, skip_special_tokens 1 and the sampling defaults.
 * NO_MEMORY. */
MUST_CHECK enum status request_create(struct request **out, struct error *err);
void request_destroy(struct request *request);      /* NULL is allowed */

/* Copies of what the client sent.  NO_MEMORY. */
MUST_CHECK enum status request_set_prompt(struct request *request, const int32_t *tokens, int32_t n,
                                          struct error *err);
MUST_CHECK enum status request_add_stop(struct request *request, const char *text, size_t len,
                                        struct error *err);

#endif
