#include "server/engine_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FULL_QUEUE_WAIT_NS = 50000, MAX_SUBMISSIONS_AHEAD = 1024 };

/* ---- create ---- */

static enum status create_scheduler(struct engine *e, struct error *err)
{
    const struct model_options *m = model_options(e->options.model);
    struct scheduler_options *s = &e->options.scheduler;
    s->n_blocks = m->n_blocks;
    s->block_size = m->block_size;
    s->max_model_len = m->max_length;
    /* An encoder sees its whole text at once: one sequence a step, whole. */
    if (!model_config(e->options.model)->attention.causal) {
        s->max_sequences = 1;
        s->prefix_cache = 0;
        s->max_prefill_chunk = 0;
        s->max_model_len = m->max_length < m->max_rows ? m->max_length : m->max_rows;
    }
    return scheduler_create(&e->scheduler, s, err);
}

static enum status create_queues(struct engine *e, struct error *err)
{
    struct queue_options submissions = {
        .item_bytes = sizeof(struct request *),
        .max_items = (size_t)(e->options.scheduler.max_queue + e->options.scheduler.max_sequences)
                   + MAX_SUBMISSIONS_AHEAD,
    };
    struct queue_options events = {
        .item_bytes = sizeof(struct engine_event), .max_items = e->options.max_events,
        .on_push = e->options.on_event, .context = e->options.context,
    };
    TRY(queue_create(&e->submissions, &submissions, err));
    return queue_create(&e->events, &events, err);
}

static enum status create_step_memory(struct engine *e, struct error *err)
{
    size_t rows = (size_t)e->max_rows;
    e->spans = calloc((size_t)e->options.scheduler.max_sequences, sizeof *e->spans);
    e->tokens = calloc(rows, sizeof *e->tokens);
    e->logit_rows = calloc(rows, sizeof *e->logit_rows);
    if (e->spans == NULL || e->tokens == NULL || e->logit_rows == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for steps of %d rows", e->max_rows);
    return sampler_scratch_create(&e->sampler_scratch, model_config(e->options.model)->n_usable_tokens, err);
}

enum status engine_create(struct engine **out, const struct engine_options *options, struct error *err)
{
    struct engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for an engine");
    e->options = *options;
    e->max_rows = options->scheduler.max_step_tokens;
    pthread_mutex_init(&e->lock, NULL);
    enum status s = create_scheduler(e, err);
    if (s == STATUS_OK)
        s = create_queues(e, err);
    if (s == STATUS_OK)
        s = create_step_memory(e, err);
    if (s != STATUS_OK) {
        engine_destroy(e);
        return s;
    }
    e->state.heartbeat_ns = clock_now_ns();
    *out = e;
    return STATUS_OK;
}

void engine_destroy(struct engine *e)
{
    if (e == NULL)
        return;
    jobs_free_ended(e);
    scheduler_destroy(e->scheduler);
    sampler_scratch_destroy(e->sampler_scratch);
    queue_destroy(e->submissions);
    queue_destroy(e->events);
    free(e->spans);
    free(e->tokens);
    free(e->logit_rows);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* ---- the thread ---- */

static void *thread_main(void *context)
{
    struct engine *e = context;
    enum status s = model_run(e->options.model, engine_lead, e);
    if (s != STATUS_OK)
        log_error("engine stopped reason=%s", status_name(s));
    atomic_store(&e->ended, 1);
    if (e->options.on_event != NULL)
        e->options.on_event(e->options.context);
    return NULL;
}

enum status engine_start(struct engine *e, struct error *err)
{
    if (pthread_create(&e->thread, NULL, thread_main, e) != 0)
        return fail(err, STATUS_IO, "the system refused a thread for the engine");
    e->started = 1;
    return STATUS_OK;
}

int engine_join(struct engine *e, int64_t timeout_ns)
{
    if (!e->started)
        return 1;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + timeout_ns;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    if (pthread_timedjoin_np(e->thread, NULL, &until) != 0)
        return 0;
    e->started = 0;
    return 1;
}

void engine_stop(struct engine *e, const char *why)
{
    pthread_mutex_lock(&e->lock);
    if (e->why[0] == '\0')
        strncpy(e->why, why, sizeof e->why - 1);
    pthread_mutex_unlock(&e->lock);
    atomic_store(&e->draining, 1);
    atomic_store(&e->stopping, 1);
    queue_wake(e->submissions);
}

void engine_drain(struct engine *e)
{
    atomic_store(&e->draining, 1);
}

int engine_is_draining(const struct engine *e)
{
    return atomic_load(&e->draining);
}

void engine_nudge(struct engine *e)
{
    queue_wake(e->submissions);
}

struct prefix_cache *engine_prefixes(struct engine *e)
{
    return scheduler_prefixes(e->scheduler);
}

struct block_pool *engine_blocks(struct engine *e)
{
    return scheduler_blocks(e->scheduler);
}

void engine_reset_prefixes(struct engine *e)
{
    atomic_store(&e->resetting, 1);
    queue_wake(e->submissions);
}

/* ---- requests in ---- */

static enum status check_request(const struct engine *e, const struct request *r, struct error *err)
{
    const struct model_config *c = model_config(e->options.model);
    if (r->task == REQUEST_GENERATE && !c->attention.causal)
        return fail(err, STATUS_BAD_REQUEST, "this model is an encoder; it embeds text and does not continue it");
    for (int32_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= c->vocab)
            return fail(err, STATUS_BAD_REQUEST, "prompt token %d is %d, the vocabulary has %d tokens", i,
                        r->prompt[i], c->vocab);
    struct scheduler_demand demand = {
        .n_prompt = r->n_prompt, .max_new_tokens = r->max_new_tokens, .priority = r->priority,
        .n_choices = r->n_choices,
    };
    return scheduler_check_fits(e->scheduler, &demand, err);
}

/* The queue's bound is kept here, where the answer can still be 429: choices
 * promised to the engine are at most seats + queue. */
enum status engine_submit(struct engine *e, struct request *r, struct error *err)
{
    if (atomic_load(&e->draining) || atomic_load(&e->ended))
        return fail(err, STATUS_BUSY, "the server is shutting down");
    TRY(check_request(e, r, err));
    int32_t room = e->options.scheduler.max_sequences + e->options.scheduler.max_queue;
    int32_t promised = atomic_fetch_add(&e->n_promised, r->n_choices) + r->n_choices;
    if (promised > room && promised > r->n_choices) {
        atomic_fetch_sub(&e->n_promised, r->n_choices);
        return fail(err, STATUS_OVERLOADED, "the queue is full: %d sequences are running or waiting, the limit "
                    "is %d", promised - r->n_choices, room);
    }
    if (!queue_push(e->submissions, &r)) {
        atomic_fetch_sub(&e->n_promised, r->n_choices);
        return fail(err, STATUS_OVERLOADED, "the queue of new requests is full");
    }
    return STATUS_OK;
}

/* ---- events out ---- */

/* A request can be submitted while the thread ends, too late for it. */
static int fail_left_over(struct engine *e, struct engine_event *out)
{
    struct request *r;
    if (!atomic_load(&e->ended) || !queue_pop(e->submissions, &r, 0))
        return 0;
    *out = (struct engine_event){ .kind = ENGINE_FAILED, .request = r };
    fail(&out->failure, STATUS_BUSY, "the server is shutting down");
    atomic_fetch_sub(&e->n_promised, r->n_choices);
    return 1;
}

int engine_next_event(struct engine *e, struct engine_event *out)
{
    return queue_pop(e->events, out, 0) || fail_left_over(e, out);
}

void engine_emit(void *context, const struct engine_event *event)
{
    struct engine *e = context;
    while (!queue_push(e->events, event)) {
        struct timespec wait = { .tv_nsec = FULL_QUEUE_WAIT_NS };
        nanosleep(&wait, NULL);
    }
}

void engine_read_state(const struct engine *e, struct engine_state *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&e->lock;
    pthread_mutex_lock(lock);
    *out = e->state;
    pthread_mutex_unlock(lock);
    out->failed = atomic_load(&e->ended) && !atomic_load(&e->stopping);
}
