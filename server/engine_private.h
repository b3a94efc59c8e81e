/* engine_private.h - the engine's own state; engine.c (what other threads call)
 * and engine_step.c (the engine thread) include it. */
#ifndef SERVER_ENGINE_PRIVATE_H
#define SERVER_ENGINE_PRIVATE_H

#include "base/queue.h"
#include "server/engine.h"
#include "server/timeline.h"

#include <pthread.h>

/* A request in the engine: its choices, and what has been measured of it. */
struct job {
    struct job *next, *previous;            /* all jobs, in order of submission */
    struct request *request;
    int32_t n_live;                         /* choices that have not ended */
    struct timeline *timelines[REQUEST_MAX_CHOICES];    /* [n_choices]; none for embeddings */
    struct sequence *sequences[REQUEST_MAX_CHOICES];    /* [n_choices]; NULL once retired */
    double *hidden_sum;                     /* embeddings: [H] */
    int64_t first_step_ns, first_token_ns, last_token_ns;
    int32_t cached_tokens, preemptions;
    int has_failed;                         /* in the step whose results are being taken */
    struct error failure;
};

struct engine {
    /* fixed at create */
    struct engine_options options;
    struct scheduler *scheduler;
    struct sampler_scratch *sampler_scratch;
    int32_t max_rows;
    struct queue *submissions;              /* of struct request * */
    struct queue *events;                   /* of struct engine_event */
    pthread_t thread;
    int started;

    /* engine thread only */
    struct job *jobs, *last_job;
    struct span *spans;                     /* [max_sequences] */
    int32_t *tokens;                        /* [max_rows] */
    int32_t *logit_rows;                    /* [max_rows] */
    uint64_t next_sequence;
    struct engine_state counters;           /* what only the thread counts */

    /* any thread */
    _Atomic int draining, stopping, resetting, ended;
    _Atomic int32_t n_promised;             /* choices submitted and not finished */
    pthread_mutex_t lock;                   /* guards state and why */
    struct engine_state state;              /* published */
    char why[200];                          /* of the stop */
};

/* The body of the engine thread. */
enum status engine_lead(void *engine);

/* Append to the event queue; waits while it is full. */
void engine_emit(void *engine, const struct engine_event *event);

#endif
