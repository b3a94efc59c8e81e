/* engine_step.c - the engine thread's loop: take requests in, plan, step, sample,
 * emit. */
#include "server/engine_private.h"

#include "base/clock.h"

#include <string.h>

/* How long to sleep when there is nothing to do; also how often an idle engine
 * shows that it lives. */
#define IDLE_NS ((int64_t)200000000)

/* The same while between_steps has something left to do. */
#define POLL_NS ((int64_t)1000000)

/* ---- state for others ---- */

void engine_publish_state(struct engine *e, int in_step)
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

/* ---- requests in ---- */

/* Take what is there; wait for the first if there is nothing else to do. */
static void take_requests(struct engine *e, int64_t wait_ns)
{
    struct request *r;
    while (queue_pop(e->submissions, &r, wait_ns)) {
        job_take(e, r);
        wait_ns = 0;
    }
}

/* ---- flags of running requests ---- */

static void read_flags(struct engine *e)
{
    struct job *next;
    for (struct job *job = e->jobs; job != NULL; job = next) {
        next = job->next;
        if (atomic_load_explicit(&job->request->cancelled, memory_order_relaxed)) {
            job_cancel(e, job);
            continue;
        }
        int paused = atomic_load_explicit(&job->request->paused, memory_order_relaxed);
        for (int i = 0; i < job->n_choices; i++)
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

/* How many of the row's tokens have had their results taken before: after a
 * preemption the prompt is computed again. */
static int n_rows_taken_before(const struct job *job, const struct step_row *row)
{
    int32_t n = job->n_prompt_taken - row->first_position;
    return n < 0 ? 0 : n < row->n_tokens ? n : row->n_tokens;
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
    for (int t = n_rows_taken_before(job, row); t < row->n_tokens; t++) {
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
    job_retire(e, job, 0);
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
        job_retire(e, job, choice);
    else
        scheduler_push_token(e->scheduler, job->sequences[choice], token);
    return STATUS_OK;
}

/* The first token of all choices comes from the same logits: the others fork
 * before the first one moves on. */
static enum status sample_first(struct engine *e, struct job *job, const float *logits, struct error *err)
{
    for (int choice = 1; choice < job->n_choices; choice++) {
        scheduler_fork(e->scheduler, job->sequences[0], job->sequences[choice]);
        TRY(sample(e, job, choice, logits, err));
    }
    return sample(e, job, 0, logits, err);
}

/* The prompt is computed and nothing is to follow. */
static void end_prompt(struct engine *e, struct job *job)
{
    for (int choice = 0; choice < job->n_choices; choice++) {
        timeline_end(job->timelines[choice], FINISH_LENGTH);
        job_retire(e, job, choice);
    }
}

/* Prompt logprobs of the row, and *last, the logits that the next token is drawn from. */
static enum status take_row_logits(struct engine *e, struct job *job, const struct step_row *row,
                                   const float *logits, const float **last, struct error *err)
{
    size_t vocab = (size_t)model_config(e->options.model)->vocab;
    int n_before = n_rows_taken_before(job, row);
    if (job->request->want_prompt_logprobs && job->n_prompt_taken == 0)
        TRY(emit_prompt_token(e, job, 0, NULL, err));
    for (int32_t t = 0; t < row->n_tokens; t++) {
        int32_t position = row->first_position + t;
        if (!wants_row_logits(job, row, position))
            continue;
        *last = logits;
        logits += vocab;
        if (t >= n_before && job->request->want_prompt_logprobs && position + 1 < row->sequence->n_prompt)
            TRY(emit_prompt_token(e, job, position + 1, *last, err));
    }
    return STATUS_OK;
}

/* What one row of the plan yields; its logits begin at logits. */
static enum status take_row(struct engine *e, const struct step_row *row, int first_row, const float *logits,
                            struct error *err)
{
    struct sequence *seq = row->sequence;
    struct job *job = seq->request;
    int32_t end = row->first_position + row->n_tokens;
    const float *last = NULL;
    if (job->request->task == REQUEST_EMBED)
        embed_rows(e, job, row, first_row);
    else
        TRY(take_row_logits(e, job, row, logits, &last, err));
    job->n_prompt_taken = end > job->n_prompt_taken ? end : job->n_prompt_taken;
    if (!row->wants_logits || job->request->task == REQUEST_EMBED)
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
        int n_logits = n_row_logits(row);
        int32_t n_tokens = row->n_tokens;
        e->counters.prompt_tokens += (uint64_t)(row->first_position < row->sequence->n_prompt ? n_tokens : 0);
        if (!job->has_failed)
            job->has_failed = take_row(e, row, first_row, logits, &job->failure) != STATUS_OK;
        if (job->n_live == 0)
            job_finish(e, job);
        logits += (size_t)n_logits * vocab;
        first_row += n_tokens;
    }
    /* Only now: a failed job may have had more rows in the plan. */
    struct job *following;
    for (struct job *job = e->jobs; job != NULL; job = following) {
        following = job->next;
        if (job->has_failed)
            job_fail(e, job, &job->failure);
    }
}

static void count_step(struct engine_state *c, int n_tokens, int64_t ns)
{
    int bucket = 0;
    while (bucket < ENGINE_STEP_BUCKETS - 1 && n_tokens > 1 << bucket)
        bucket++;
    c->n_steps++;
    c->step_ns += ns;
    c->step_tokens += (uint64_t)n_tokens;
    c->steps_of[bucket]++;
}

static enum status step(struct engine *e, const struct step_plan *plan)
{
    struct batch batch;
    fill_batch(e, plan, &batch);
    engine_publish_state(e, 1);
    int64_t start = clock_now_ns();
    TRY(model_step(e->options.model, &batch));
    count_step(&e->counters, batch.n_rows, clock_now_ns() - start);
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
        job_fail(e, e->jobs, &err);
    struct request *r;
    while (queue_pop(e->submissions, &r, 0)) {
        struct engine_event event = { .kind = ENGINE_FAILED, .request = r, .failure = err };
        atomic_fetch_sub(&e->n_promised, r->n_choices);
        engine_emit(e, &event);
    }
}

static void tell_step(const struct engine *e, int begins)
{
    if (e->options.on_step != NULL)
        e->options.on_step(e->options.step_context, begins);
}

/* Plan and compute one step; *n_rows is 0 if there was nothing to compute. */
static enum status turn(struct engine *e, int *n_rows)
{
    struct step_plan plan;
    scheduler_plan(e->scheduler, &plan);
    *n_rows = plan.n_rows;
    if (plan.n_rows > 0)
        return step(e, &plan);
    scheduler_commit(e->scheduler, &plan);
    return STATUS_OK;
}

/* What may take memory or time; returns how long the engine may sleep after it. */
static int64_t work_between_steps(struct engine *e)
{
    jobs_free_ended(e);
    if (e->options.between_steps == NULL)
        return IDLE_NS;
    return e->options.between_steps(e->options.step_context, e) ? POLL_NS : IDLE_NS;
}

static enum status run_steps(struct engine *e)
{
    int64_t wait_ns = 0;
    while (!atomic_load(&e->stopping)) {
        take_requests(e, wait_ns);
        read_flags(e);
        int n_rows;
        tell_step(e, 1);
        enum status s = turn(e, &n_rows);
        tell_step(e, 0);
        TRY(s);
        int64_t idle_ns = work_between_steps(e);
        engine_publish_state(e, 0);
        wait_ns = n_rows > 0 ? 0 : idle_ns;
    }
    return STATUS_OK;
}

static void read_why(struct engine *e, char why[static ENGINE_WHY_BYTES])
{
    pthread_mutex_lock(&e->lock);
    memcpy(why, e->why, ENGINE_WHY_BYTES);
    pthread_mutex_unlock(&e->lock);
}

enum status engine_lead(void *context)
{
    struct engine *e = context;
    char why[ENGINE_WHY_BYTES] = "a device of the team failed while computing";
    enum status s = run_steps(e);
    if (s == STATUS_OK)
        read_why(e, why);
    fail_all(e, s == STATUS_OK ? STATUS_BUSY : STATUS_INTERNAL, why);
    /* After a failure other ranks may still be in the step, reading block tables:
     * engine_destroy frees what has ended. */
    if (s == STATUS_OK)
        jobs_free_ended(e);
    engine_publish_state(e, 0);
    return s;
}
