/* engine_jobs.c - requests on the engine thread: taken in, retired, ended. */
#include "server/engine_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* ---- the lists ---- */

static void link_job(struct engine *e, struct job *job)
{
    job->previous = e->last_job;
    if (e->last_job != NULL)
        e->last_job->next = job;
    else
        e->jobs = job;
    e->last_job = job;
}

static void unlink_job(struct engine *e, struct job *job)
{
    *(job->previous != NULL ? &job->previous->next : &e->jobs) = job->next;
    *(job->next != NULL ? &job->next->previous : &e->last_job) = job->previous;
}

void jobs_free_ended(struct engine *e)
{
    while (e->ended_jobs != NULL) {
        struct job *job = e->ended_jobs;
        e->ended_jobs = job->next;
        for (int i = 0; i < job->n_choices; i++) {
            timeline_destroy(job->timelines[i]);
            sequence_destroy(job->sequences[i]);
        }
        free(job->hidden_sum);
        free(job);
    }
}

/* ---- ending ---- */

struct sequence *job_sequence(const struct job *job, int choice)
{
    struct sequence *seq = job->sequences[choice];
    return seq != NULL && seq->state != SEQUENCE_FINISHED ? seq : NULL;
}

void job_retire(struct engine *e, struct job *job, int choice)
{
    struct sequence *seq = job->sequences[choice];
    if (choice == 0)
        job->cached_tokens = seq->n_cached_tokens;
    job->preemptions += seq->n_preemptions;
    scheduler_finish(e->scheduler, seq);
    job->n_live--;
}

/* The request goes back with its last event: nothing may look at it afterwards.
 * The state is told before: who has a reply finds it counted. */
static void end_job(struct engine *e, struct job *job, struct engine_event *last)
{
    last->request = job->request;
    atomic_fetch_sub(&e->n_promised, job->n_choices);
    for (int i = 0; i < job->n_choices; i++)
        if (job->sequences[i] != NULL)
            scheduler_finish(e->scheduler, job->sequences[i]);
    unlink_job(e, job);
    job->next = e->ended_jobs;
    e->ended_jobs = job;
    engine_publish_state(e, e->counters.in_step);
    engine_emit(e, last);
}

void job_fail(struct engine *e, struct job *job, const struct error *failure)
{
    struct engine_event event = { .kind = ENGINE_FAILED, .failure = *failure };
    log_warn("request failed id=%s status=%s reason=\"%s\"", job->request->id, status_name(failure->code),
             failure->text);
    e->counters.n_failed++;
    end_job(e, job, &event);
}

void job_finish(struct engine *e, struct job *job)
{
    struct engine_event event = { .kind = ENGINE_DONE };
    struct engine_usage *u = &event.usage;
    u->prompt_tokens = job->request->n_prompt;
    u->cached_tokens = job->cached_tokens;
    u->preemptions = job->preemptions;
    for (int i = 0; i < job->n_choices && job->timelines[i] != NULL; i++)
        u->output_tokens += timeline_n_output(job->timelines[i]);
    int64_t start = job->first_step_ns > 0 ? job->first_step_ns : clock_now_ns();
    u->queue_ns = start - job->request->arrival_ns;
    if (job->first_token_ns > 0) {
        u->prefill_ns = job->first_token_ns - start;
        u->decode_ns = job->last_token_ns - job->first_token_ns;
    }
    end_job(e, job, &event);
}

void job_cancel(struct engine *e, struct job *job)
{
    for (int i = 0; i < job->n_choices; i++) {
        struct sequence *seq = job_sequence(job, i);
        if (seq == NULL)
            continue;
        scheduler_cancel(e->scheduler, seq);
        if (job->timelines[i] != NULL)
            timeline_end(job->timelines[i], FINISH_CANCELLED);
        job_retire(e, job, i);
    }
    e->counters.n_cancelled++;
    job_finish(e, job);
}

/* ---- taking in ---- */

static enum status create_sequence(struct engine *e, struct job *job, int choice, struct error *err)
{
    const struct request *r = job->request;
    struct sequence_options options = {
        .id = ++e->next_sequence, .request = job, .prompt = r->prompt, .n_prompt = r->n_prompt,
        .max_new_tokens = r->max_new_tokens, .priority = r->priority, .choice = choice,
        .n_choices = choice == 0 ? r->n_choices : 1, .salt = r->salt,
        .block_size = e->options.scheduler.block_size,
    };
    return sequence_create(&job->sequences[choice], &options, err);
}

static enum status fill_job(struct engine *e, struct job *job, struct error *err)
{
    struct request *r = job->request;
    const struct model_config *c = model_config(e->options.model);
    for (int choice = 0; choice < r->n_choices; choice++) {
        TRY(create_sequence(e, job, choice, err));
        if (r->task == REQUEST_EMBED)
            continue;
        struct timeline_options options = {
            .request = r, .choice = choice, .tokenizer = e->options.tokenizer, .config = c,
            .emit = engine_emit, .context = e,
        };
        TRY(timeline_create(&job->timelines[choice], &options, err));
    }
    if (r->task == REQUEST_EMBED) {
        job->hidden_sum = calloc((size_t)c->hidden, sizeof *job->hidden_sum);
        if (job->hidden_sum == NULL)
            return fail(err, STATUS_NO_MEMORY, "no memory for an embedding");
    }
    return scheduler_submit(e->scheduler, job->sequences[0], err);
}

/* Rows that prompt logprobs and embeddings need must be computed: a salt of their
 * own keeps them from finding their prompt cached. */
static void forbid_reuse(struct engine *e, struct request *r)
{
    if (r->task == REQUEST_EMBED || r->want_prompt_logprobs)
        prefix_salt_make_private(&r->salt, ++e->next_sequence);
}

void job_take(struct engine *e, struct request *r)
{
    struct error err;
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        struct engine_event event = { .kind = ENGINE_FAILED, .request = r };
        fail(&event.failure, STATUS_NO_MEMORY, "no memory for a request");
        atomic_fetch_sub(&e->n_promised, r->n_choices);
        engine_emit(e, &event);
        return;
    }
    job->request = r;
    job->n_choices = r->n_choices;
    job->n_live = r->n_choices;
    link_job(e, job);
    forbid_reuse(e, r);
    if (fill_job(e, job, &err) != STATUS_OK)
        job_fail(e, job, &err);
}
