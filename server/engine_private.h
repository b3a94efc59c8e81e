/* engine_private.h - the engine's own state, shared by engine.c (what other
 * threads call), engine_jobs.c (requests on the engine thread) and engine_step.c
 * (the engine thread's loop). */
#ifndef SERVER_ENGINE_PRIVATE_H
#define SERVER_ENGINE_PRIVATE_H

#include "base/queue.h"
#include "server/engine.h"
#include "server/timeline.h"

#include <pthread.h>

enum { ENGINE_WHY_BYTES = 200 };

/* A request in the engine: its choices, and what has been measured of it.
 *
 * A job whose last event is out has ended: it moves to the list of ended jobs,
 * and its memory is freed between steps.  Until then its sequences stay, because
 * the rows of the step in progress name them. */
struct job {
    struct job *next, *previous;            /* all jobs, in order of submission; or the ended ones */
    struct request *request;                /* the loop's again once the job has ended */
    int32_t n_choices;
    int32_t n_live;                         /* choices that have not ended */
    struct timeline *timelines[REQUEST_MAX_CHOICES];    /* [n_choices]; none for embeddings */
    struct sequence *sequences[REQUEST_MAX_CHOICES];    /* [n_choices]; FINISHED once retired */
    double *hidden_sum;                     /* embeddings: [H] */
    int32_t n_prompt_taken;                 /* positions whose hidden rows or prompt logprobs were taken */
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
    struct job *ended_jobs;                 /* to be freed between steps */
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
    char why[ENGINE_WHY_BYTES];             /* of the stop */
};

/* ---- engine_jobs.c, on the engine thread ---- */

/* A job of r, queued; or r fails. */
void job_take(struct engine *e, struct request *r);

/* The choice has ended: its sequence's blocks are free again. */
void job_retire(struct engine *e, struct job *job, int choice);

/* The choice's sequence, or NULL once it is retired. */
struct sequence *job_sequence(const struct job *job, int choice);

/* The last event of the request, and the end of the job. */
void job_finish(struct engine *e, struct job *job);
void job_fail(struct engine *e, struct job *job, const struct error *failure);
void job_cancel(struct engine *e, struct job *job);

/* Free the ended jobs; between steps. */
void jobs_free_ended(struct engine *e);

/* ---- engine_step.c ---- */

/* The body of the engine thread. */
enum status engine_lead(void *engine);

/* Copy the counters to where other threads read them. */
void engine_publish_state(struct engine *e, int in_step);

/* Append to the event queue; waits while it is full. */
void engine_emit(void *engine, const struct engine_event *event);

#endif
