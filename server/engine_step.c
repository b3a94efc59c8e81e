/* engine_step.c - the engine thread: take requests in, plan, step, sample, emit,
 * retire. */
#include "server/engine_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How long to sleep when there is nothing to do; also how often an idle engine
 * shows that it lives. */
#define IDLE_NS ((int64_t)200000000)

/* ---- state for others ---- */

static void publish_state(struct engine *e, int in_step)
{
    struct scheduler_stats s = scheduler_stats(e->scheduler);
    struct engine_state *c = &e->counters;
    c->heartbeat_ns = clock_now_ns();
    c->in_step = in_step;
    c->n_running = s.n_running;
    c->n_waiting = s.n_waiting;
    c->n_paused = s.n_paused;
    c->n_blocks = e->options.scheduler.n_blocks;
    c->n_free_blocks = s.blocks.n_free;
    c->n_cached_blocks = s.blocks.n_idle;
    c->waiting_tokens = s.n_waiting_tokens;
    c->n_preemptions = s.n_preemptions;
    c->prefix_queries = s.prefix.query_tokens;
    c->prefix_hits = s.prefix.hit_tokens;
    pthread_mutex_lock(&e->lock);
    e->state = *c;
    pthread_mutex_unlock(&e->lock);
}

/* ---- jobs ---- */

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

/* Free everything but the request, which goes back with the last event. */
static void destroy_job(struct engine *e, struct job *job)
{
    for (int i = 0; i < job->request->n_choices; i++) {
        timeline_destroy(job->timelines[i]);
        if (job->sequences[i] != NULL) {
            scheduler_finish(e->scheduler, job->sequences[i]);
            sequence_destroy(job->sequences[i]);
        }
    }
    free(job->hidden_sum);
    free(job);
}

static void end_job(struct engine *e, struct job *job, struct engine_event *last)
{
    last->request = job->request;
    atomic_fetch_sub(&e->n_promised, job->request->n_choices);
    unlink_job(e, job);
    destroy_job(e, job);
    engine_emit(e, last);
}

static void fail_job(struct engine *e, struct job *job, const struct error *failure)
{
    struct engine_event event = { .kind = ENGINE_FAILED, .failure = *failure };
    log_warn("request failed id=%s status=%s reason=\"%s\"", job->request->id, status_name(failure->code),
             failure->text);
    e->counters.n_failed++;
    end_job(e, job, &event);
}

static void finish_job(struct engine *e, struct job *job)
{
    struct engine_event event = { .kind = ENGINE_DONE };
    struct engine_usage *u = &event.usage;
    u->prompt_tokens = job->request->n_prompt;
    u->cached_tokens = job->cached_tokens;
    u->preemptions = job->preemptions;
    for (int i = 0; i < job->request->n_choices && job->timelines[i] != NULL; i++)
        u->output_tokens += timeline_n_output(job->timelines[i]);
    int64_t start = job->first_step_ns > 0 ? job->first_step_ns : clock_now_ns();
    u->queue_ns = start - job->request->arrival_ns;
    if (job->first_token_ns > 0) {
        u->prefill_ns = job->first_token_ns - start;
        u->decode_ns = job->last_token_ns - job->first_token_ns;
    }
    end_job(e, job, &event);
}

/* The choice has ended: its sequence's blocks are free again. */
static void retire(struct engine *e, struct job *job, int choice)
{
    struct sequence *seq = job->sequences[choice];
    if (choice == 0)
        job->cached_tokens = seq->n_cached_tokens;
    job->preemptions += seq->n_preemptions;
    scheduler_finish(e->scheduler, seq);
    sequence_destroy(seq);
    job->sequences[choice] = NULL;
    job->n_live--;
}

/* ---- requests in ---- */

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
    if (r->task != REQUEST_EMBED && !r->want_prompt_logprobs)
        return;
    memset(&r->salt, 0xff, sizeof r->salt);
    uint64_t unique = ++e->next_sequence;
    memcpy(&r->salt, &unique, sizeof unique);
}

static void take_request(struct engine *e, struct request *r)
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
    job->n_live = r->n_choices;
    link_job(e, job);
    forbid_reuse(e, r);
    if (fill_job(e, job, &err) != STATUS_OK)
        fail_job(e, job, &err);
}

/* Take what is there; wait for the first if there is nothing else to do. */
static void take_requests(struct engine *e, int64_t wait_ns)
{
    struct request *r;
    while (queue_pop(e->submissions, &r, wait_ns)) {
        take_request(e, r);
        wait_ns = 0;
    }
}

/* ---- flags of running requests ---- */

static void cancel_job(struct engine *e, struct job *job)
{
    for (int i = 0; i < job->request->n_choices; i++) {
        if (job->sequences[i] == NULL)
            continue;
        scheduler_cancel(e->scheduler, job->sequences[i]);
        if (job->timelines[i] != NULL)
            timeline_end(job->timelines[i], FINISH_CANCELLED);
        retire(e, job, i);
    }
    e->counters.n_cancelled++;
    finish_job(e, job);
}

static void read_flags(struct engine *e)
{
    struct job *next;
    for (struct job *job = e->jobs; job != NULL; job = next) {
        next = job->next;
        if (atomic_load_explicit(&job->request->cancelled, memory_order_relaxed)) {
            cancel_job(e, job);
            continue;
        }
        int paused = atomic_load_explicit(&job->request->paused, memory_order_relaxed);
        for (int i = 0; i < job->request->n_choices; i++)
            if (job->sequences[i] != NULL && job->sequences[i]->paused != paused)
                scheduler_set_paused(job->sequences[i], paused);
    }
    if (atomic_exchange(&e->resetting, 0))
        scheduler_reset_prefixes(e->scheduler);
}

/* ---- a step ---- */

static int wants_row_logits(const struct job *job, const struct step_row *row, int32_t position)
{
    if (row->wants_logits && position == row->first_position + row->n_tokens - 1)
        return job->request->task == REQUEST_GENERATE && job->request->max_new_tokens > 0;
    return job->request->want_prompt_logprobs && position + 1 < row->sequence->n_prompt;
}

static void fill_batch(struct engine *e, const struct step_plan *plan, struct batch *batch)
{
    int causal = model_config(e->options.model)->attention.causal;
    *batch = (struct batch){
        .spans = e->spans, .n_spans = plan->n_rows, .tokens = e->tokens, .logit_rows = e->logit_rows,
        .copies = plan->copies, .n_copies = plan->n_copies,
    };
    for (int i = 0; i < plan->n_rows; i++) {
        const struct step_row *row = &plan->rows[i];
        struct sequence *seq = row->sequence;
        struct job *job = seq->request;
        e->spans[i] = (struct span){
            .first_row = batch->n_rows, .n_rows = row->n_tokens, .first_position = row->first_position,
            .length = row->first_position + row->n_tokens, .causal = causal,
            .blocks = block_table_ids(seq->blocks),
        };
        for (int32_t t = 0; t < row->n_tokens; t++) {
            int32_t position = row->first_position + t;
            e->tokens[batch->n_rows] = seq->tokens[position];
            if (wants_row_logits(job, row, position))
                e->logit_rows[batch->n_logit_rows++] = batch->n_rows;
            batch->n_rows++;
        }
        if (job->first_step_ns == 0)
            job->first_step_ns = clock_now_ns();
    }
}

static enum status emit_prompt_token(struct engine *e, struct job *job, int32_t position, const float *logits,
                                     struct error *err)
{
    struct engine_event event = {
        .kind = ENGINE_PROMPT_TOKEN, .request = job->request, .position = position,
        .token = job->request->prompt[position],
    };
    if (logits != NULL) {
        int32_t vocab = model_config(e->options.model)->n_usable_tokens;
        struct log_softmax row;
        TRY(log_softmax_init(&row, logits, vocab, err));
        if (event.token < vocab)
            event.logprob = log_softmax_of(&row, logits[event.token]);
        else
            event.logprob = LOGPROB_FLOOR;
        event.n_top = log_softmax_top(&row, logits, vocab, event.top, job->request->sampling.n_top);
    }
    engine_emit(e, &event);
    return STATUS_OK;
}

/* Add the hidden rows of a chunk; after the last one, emit the mean. */
static void embed_rows(struct engine *e, struct job *job, const struct step_row *row, int first_row)
{
    int hidden = model_config(e->options.model)->hidden;
    for (int t = 0; t < row->n_tokens; t++) {
        const float *h = model_hidden(e->options.model) + (size_t)(first_row + t) * (size_t)hidden;
        for (int i = 0; i < hidden; i++)
            job->hidden_sum[i] += (double)h[i];
    }
    if (row->first_position + row->n_tokens < row->sequence->n_prompt)
        return;
    for (int at = 0; at < hidden; at += ENGINE_EMBEDDING_ROW) {
        struct engine_event event = { .kind = ENGINE_EMBEDDING, .request = job->request, .position = at };
        event.n_values = hidden - at < ENGINE_EMBEDDING_ROW ? hidden - at : ENGINE_EMBEDDING_ROW;
        for (int i = 0; i < event.n_values; i++)
            event.values[i] = (float)(job->hidden_sum[at + i] / row->sequence->n_prompt);
        engine_emit(e, &event);
    }
    retire(e, job, 0);
}

/* The next token of one choice. */
static enum status sample(struct engine *e, struct job *job, int choice, const float *logits, struct error *err)
{
    int32_t token;
    int ended;
    TRY(timeline_push(job->timelines[choice], logits, e->sampler_scratch, &token, &ended, err));
    e->counters.output_tokens++;
    job->last_token_ns = clock_now_ns();
    if (job->first_token_ns == 0)
        job->first_token_ns = job->last_token_ns;
    if (ended)
        retire(e, job, choice);
    else
        scheduler_push_token(e->scheduler, job->sequences[choice], token);
    return STATUS_OK;
}

/* The first token of all choices comes from the same logits: the others fork
 * before the first one moves on. */
static enum status sample_first(struct engine *e, struct job *job, const float *logits, struct error *err)
{
    for (int choice = 1; choice < job->request->n_choices; choice++) {
        scheduler_fork(e->scheduler, job->sequences[0], job->sequences[choice]);
        TRY(sample(e, job, choice, logits, err));
    }
    return sample(e, job, 0, logits, err);
}

/* The prompt is computed and nothing is to follow. */
static void end_prompt(struct engine *e, struct job *job)
{
    for (int choice = 0; choice < job->request->n_choices; choice++) {
        timeline_end(job->timelines[choice], FINISH_LENGTH);
        retire(e, job, choice);
    }
}

/* What one row of the plan yields.  *logits is the next row of logits. */
static enum status take_row(struct engine *e, const struct step_row *row, int first_row, const float **logits,
                            struct error *err)
{
    struct sequence *seq = row->sequence;
    struct job *job = seq->request;
    size_t vocab = (size_t)model_config(e->options.model)->vocab;
    if (job->request->task == REQUEST_EMBED) {
        embed_rows(e, job, row, first_row);
        return STATUS_OK;
    }
    if (job->request->want_prompt_logprobs && row->first_position == 0)
        TRY(emit_prompt_token(e, job, 0, NULL, err));
    const float *last = NULL;
    for (int32_t t = 0; t < row->n_tokens; t++) {
        int32_t position = row->first_position + t;
        if (!wants_row_logits(job, row, position))
            continue;
        last = *logits;
        *logits += vocab;
        if (job->request->want_prompt_logprobs && position + 1 < seq->n_prompt)
            TRY(emit_prompt_token(e, job, position + 1, last, err));
    }
    if (!row->wants_logits)
        return STATUS_OK;
    if (job->request->max_new_tokens == 0) {
        end_prompt(e, job);
        return STATUS_OK;
    }
    int first = timeline_n_output(job->timelines[seq->choice]) == 0;
    return first && seq->choice == 0 ? sample_first(e, job, last, err) : sample(e, job, seq->choice, last, err);
}

/* Rows of logits that the row takes, whether or not it is used. */
static int n_row_logits(const struct step_row *row)
{
    int n = 0;
    for (int32_t t = 0; t < row->n_tokens; t++)
        n += wants_row_logits(row->sequence->request, row, row->first_position + t);
    return n;
}

static void take_results(struct engine *e, const struct step_plan *plan)
{
    const float *logits = model_logits(e->options.model);
    size_t vocab = (size_t)model_config(e->options.model)->vocab;
    int first_row = 0;
    for (int i = 0; i < plan->n_rows; i++) {
        const struct step_row *row = &plan->rows[i];
        struct job *job = row->sequence->request;
        const float *next = logits + (size_t)n_row_logits(row) * vocab;
        int32_t n_tokens = row->n_tokens;
        e->counters.prompt_tokens += (uint64_t)(row->first_position < row->sequence->n_prompt ? n_tokens : 0);
        if (!job->has_failed)
            job->has_failed = take_row(e, row, first_row, &logits, &job->failure) != STATUS_OK;
        if (job->n_live == 0)
            finish_job(e, job);
        logits = next;
        first_row += n_tokens;
    }
    /* Only now: a failed job may have had more rows in the plan. */
    struct job *following;
    for (struct job *job = e->jobs; job != NULL; job = following) {
        following = job->next;
        if (job->has_failed)
            fail_job(e, job, &job->failure);
    }
}

static enum status step(struct engine *e, const struct step_plan *plan)
{
    struct batch batch;
    fill_batch(e, plan, &batch);
    publish_state(e, 1);
    int64_t start = clock_now_ns();
    TRY(model_step(e->options.model, &batch));
    e->counters.step_ns += clock_now_ns() - start;
    e->counters.n_steps++;
    scheduler_commit(e->scheduler, plan);
    take_results(e, plan);
    return STATUS_OK;
}

/* ---- the loop ---- */

static void fail_all(struct engine *e, enum status code, const char *why)
{
    struct error err;
    fail(&err, code, "%s", why);
    while (e->jobs != NULL)
        fail_job(e, e->jobs, &err);
    struct request *r;
    while (queue_pop(e->submissions, &r, 0)) {
        struct engine_event event = { .kind = ENGINE_FAILED, .request = r, .failure = err };
        atomic_fetch_sub(&e->n_promised, r->n_choices);
        engine_emit(e, &event);
    }
}

enum status engine_lead(void *context)
{
    struct engine *e = context;
    int64_t wait_ns = 0;
    while (!atomic_load(&e->stopping)) {
        take_requests(e, wait_ns);
        read_flags(e);
        struct step_plan plan;
        scheduler_plan(e->scheduler, &plan);
        wait_ns = plan.n_rows > 0 ? 0 : IDLE_NS;
        enum status s = plan.n_rows > 0 ? step(e, &plan) : STATUS_OK;
        if (plan.n_rows == 0)
            scheduler_commit(e->scheduler, &plan);
        publish_state(e, 0);
        if (s != STATUS_OK) {
            fail_all(e, STATUS_INTERNAL, "a device of the team failed while computing");
            return s;
        }
    }
    pthread_mutex_lock(&e->lock);
    char why[sizeof e->why];
    memcpy(why, e->why, sizeof why);
    pthread_mutex_unlock(&e->lock);
    fail_all(e, STATUS_BUSY, why);
    publish_state(e, 0);
    return STATUS_OK;
}
