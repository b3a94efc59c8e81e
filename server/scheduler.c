#include "server/scheduler.h"

#include "server/scheduler_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- create, destroy ------------------------------------------------------ */

struct option_range {
    const char *name;
    int64_t value, min, max;
};

static enum status check_options(const struct scheduler_options *o, struct error *err)
{
    const struct option_range ranges[] = {
        { "n_blocks",          o->n_blocks,          1, INT32_MAX - 2 },
        { "block_size",        o->block_size,        1, 1 << 16 },
        { "max_sequences",     o->max_sequences,     1, 1 << 16 },
        { "max_step_tokens",   o->max_step_tokens,   o->max_sequences, INT32_MAX },
        { "max_queue",         o->max_queue,         0, 1 << 20 },
        { "max_queue_tokens",  o->max_queue_tokens,  0, INT64_MAX },
        { "max_model_len",     o->max_model_len,     1, INT32_MAX },
        { "max_prefill_chunk", o->max_prefill_chunk, 0, INT32_MAX },
        { "priority_places",   o->priority_places,   0, 1 << 20 },
        { "max_prefix_wait",   o->max_prefix_wait,   0, INT32_MAX },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const struct option_range *r = &ranges[i];
        if (r->value < r->min || r->value > r->max)
            return fail(err, STATUS_BAD_OPTION, "%s is %lld, allowed are %lld to %lld", r->name,
                        (long long)r->value, (long long)r->min, (long long)r->max);
    }
    return STATUS_OK;
}

static void set_options(struct scheduler *sched, const struct scheduler_options *options)
{
    struct scheduler_options *o = &sched->options;
    *o = *options;
    if (o->max_prefill_chunk == 0)
        o->max_prefill_chunk = o->max_step_tokens;
    if (o->priority_places == 0)
        o->priority_places = 256;
    if (o->policy == SCHEDULER_FCFS)
        o->priority_places = 0;
    if (o->max_prefix_wait == 0)
        o->max_prefix_wait = 1024;
}

static enum status create_cache(struct scheduler *sched, struct error *err)
{
    const struct scheduler_options *o = &sched->options;
    TRY(block_pool_create(&sched->pool, o->n_blocks, err));
    if (!o->prefix_cache)
        return STATUS_OK;
    struct prefix_cache_options prefix = {
        .pool = sched->pool,
        .block_size = o->block_size,
        .key = o->key,
        .reuse_generated = o->reuse_generated,
    };
    return prefix_cache_create(&sched->prefix, &prefix, err);
}

static enum status create_lists(struct scheduler *sched, struct error *err)
{
    const struct scheduler_options *o = &sched->options;
    TRY(sequence_list_init(&sched->running, o->max_sequences, o->priority_places, err));
    TRY(sequence_list_init(&sched->waiting, o->max_sequences + o->max_queue, o->priority_places, err));
    sched->rows = calloc((size_t)o->max_sequences, sizeof *sched->rows);
    sched->copies = calloc((size_t)o->max_sequences, sizeof *sched->copies);
    sched->matched = calloc((size_t)o->n_blocks, sizeof *sched->matched);
    if (sched->rows == NULL || sched->copies == NULL || sched->matched == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for step plans of %d sequences", o->max_sequences);
    return STATUS_OK;
}

enum status scheduler_create(struct scheduler **out, const struct scheduler_options *options, struct error *err)
{
    TRY(check_options(options, err));
    struct scheduler *sched = calloc(1, sizeof *sched);
    if (sched == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the scheduler");
    set_options(sched, options);
    enum status s = create_cache(sched, err);
    if (s == STATUS_OK)
        s = create_lists(sched, err);
    if (s != STATUS_OK) {
        scheduler_destroy(sched);
        return s;
    }
    *out = sched;
    return STATUS_OK;
}

void scheduler_destroy(struct scheduler *sched)
{
    if (sched == NULL)
        return;
    assert(sched->running.n_items == 0 && sched->waiting.n_items == 0);
    sequence_list_clear(&sched->running);
    sequence_list_clear(&sched->waiting);
    prefix_cache_destroy(sched->prefix);
    block_pool_destroy(sched->pool);
    free(sched->rows);
    free(sched->copies);
    free(sched->matched);
    free(sched);
}

/* --- submit --------------------------------------------------------------- */

enum status scheduler_check_fits(const struct scheduler *sched, const struct scheduler_demand *demand,
                                 struct error *err)
{
    const struct scheduler_options *o = &sched->options;
    int64_t total = (int64_t)demand->n_prompt + demand->max_new_tokens;
    if (total > o->max_model_len)
        return fail(err, STATUS_BAD_REQUEST,
                    "prompt of %d tokens + max_tokens %d is %lld tokens, the context holds %d", demand->n_prompt,
                    demand->max_new_tokens, (long long)total, o->max_model_len);
    int32_t needed = block_table_blocks_for((int32_t)total, o->block_size);
    if (needed > o->n_blocks)
        return fail(err, STATUS_BAD_REQUEST,
                    "prompt of %d tokens + max_tokens %d needs %d cache blocks of %d tokens, there are %d",
                    demand->n_prompt, demand->max_new_tokens, needed, o->block_size, o->n_blocks);
    if (demand->priority < -SCHEDULER_MAX_PRIORITY || demand->priority > SCHEDULER_MAX_PRIORITY)
        return fail(err, STATUS_BAD_REQUEST, "priority is %d, allowed are %d to %d", demand->priority,
                    -SCHEDULER_MAX_PRIORITY, SCHEDULER_MAX_PRIORITY);
    if (demand->n_choices > o->max_sequences + o->max_queue)
        return fail(err, STATUS_BAD_REQUEST, "%d choices are more than there are seats (%d) and places in the queue (%d)",
                    demand->n_choices, o->max_sequences, o->max_queue);
    return STATUS_OK;
}

static enum status check_load(const struct scheduler *sched, const struct sequence *seq, struct error *err)
{
    const struct scheduler_options *o = &sched->options;
    int32_t n_live = sched->running.n_items + sched->waiting.n_items + sched->n_promised_forks;
    if (n_live + 1 + seq->n_forks_left > o->max_sequences + o->max_queue)
        return fail(err, STATUS_OVERLOADED,
                    "%d sequences run or wait, %d more do not fit: seats %d, places in the queue %d",
                    n_live, 1 + seq->n_forks_left, o->max_sequences, o->max_queue);
    if (o->max_queue_tokens > 0 && sched->n_waiting_tokens > 0 &&
        seq->n_prompt > o->max_queue_tokens - sched->n_waiting_tokens)
        return fail(err, STATUS_OVERLOADED,
                    "prompts of %lld tokens wait, %d more pass the limit of %lld tokens in the queue",
                    (long long)sched->n_waiting_tokens, seq->n_prompt, (long long)o->max_queue_tokens);
    return STATUS_OK;
}

static enum status check_submit(const struct scheduler *sched, const struct sequence *seq, struct error *err)
{
    struct scheduler_demand demand = {
        .n_prompt = seq->n_prompt,
        .max_new_tokens = seq->max_tokens_total - seq->n_prompt,
        .priority = seq->priority,
        .n_choices = 1 + seq->n_forks_left,
    };
    TRY(scheduler_check_fits(sched, &demand, err));
    return check_load(sched, seq, err);
}

enum status scheduler_submit(struct scheduler *sched, struct sequence *seq, struct error *err)
{
    assert(seq->state == SEQUENCE_WAITING && seq->arrival == 0);
    enum status s = check_submit(sched, seq, err);
    if (s != STATUS_OK) {
        sched->n_refused++;
        return s;
    }
    seq->arrival = ++sched->n_arrivals;
    sched->n_promised_forks += seq->n_forks_left;
    sched->n_waiting_tokens += seq->n_prompt;
    sequence_list_insert(&sched->waiting, seq);
    return STATUS_OK;
}

/* --- after the step ------------------------------------------------------- */

/* Offer the blocks that have become full. Where an equal block is published
 * already, the table goes on with that one: its bytes are the same, because a
 * row's arithmetic depends on nothing but the tokens before it. */
static void publish_full_blocks(struct scheduler *sched, struct sequence *seq)
{
    int32_t block_size = sched->options.block_size;
    for (; seq->publishes && seq->n_published < seq->n_computed / block_size; seq->n_published++) {
        int32_t index = seq->n_published;
        const block_id *ids = block_table_ids(seq->blocks);
        struct prefix_block block = {
            .id = ids[index],
            .parent = index > 0 ? ids[index - 1] : BLOCK_NONE,
            .tokens = seq->tokens + (size_t)index * (size_t)block_size,
            .n_given = seq->n_prompt - index * block_size,
            .salt = &seq->salt,
        };
        block_id id = prefix_cache_publish(sched->prefix, &block);
        if (id != block.id)
            block_table_replace(seq->blocks, sched->pool, index, id);
    }
}

void scheduler_commit(struct scheduler *sched, const struct step_plan *plan)
{
    assert(sched->plan_is_open);
    sched->plan_is_open = 0;
    for (int32_t i = 0; i < plan->n_rows; i++) {
        const struct step_row *row = &plan->rows[i];
        struct sequence *seq = row->sequence;
        if (seq->state == SEQUENCE_FINISHED)
            continue;
        seq->n_computed += row->n_tokens;
        publish_full_blocks(sched, seq);
        if (!row->wants_logits)
            continue;
        seq->awaits_token = 1;
        if (seq->state == SEQUENCE_PREFILL)
            sequence_move(seq, SEQUENCE_DECODE);
    }
}

void scheduler_push_token(struct scheduler *sched, struct sequence *seq, int32_t token)
{
    assert(!sched->plan_is_open && seq->awaits_token && seq->state != SEQUENCE_FINISHED);
    sequence_append(seq, token);
    seq->awaits_token = 0;
}

static void check_fork(const struct sequence *parent, const struct sequence *child)
{
    assert(parent->awaits_token && parent->n_tokens == parent->n_prompt && parent->n_forks_left > 0);
    assert(child->state == SEQUENCE_WAITING && child->arrival == 0 && child->n_forks_left == 0);
    assert(child->n_prompt == parent->n_prompt && child->priority == parent->priority);
    assert(child->max_tokens_total <= parent->max_tokens_total && child->choice != parent->choice);
    assert(memcmp(child->tokens, parent->tokens, (size_t)parent->n_prompt * sizeof *child->tokens) == 0);
    assert(memcmp(&child->salt, &parent->salt, sizeof child->salt) == 0);
}

void scheduler_fork(struct scheduler *sched, struct sequence *parent, struct sequence *child)
{
    assert(!sched->plan_is_open);
    check_fork(parent, child);
    parent->n_forks_left--;
    sched->n_promised_forks--;
    child->arrival = parent->arrival;
    child->n_cached_tokens = parent->n_cached_tokens;
    child->was_admitted = 1;
    child->awaits_token = 1;
    if (parent->state != SEQUENCE_DECODE || sched->running.n_items == sched->running.capacity) {
        sequence_list_insert(&sched->waiting, child);
        return;
    }
    block_table_fork(child->blocks, parent->blocks, sched->pool);
    child->n_computed = parent->n_computed;
    child->publishes = parent->publishes;
    child->n_published = parent->n_published;
    sequence_move(child, SEQUENCE_DECODE);
    sequence_list_insert(&sched->running, child);
}

/* --- leaving -------------------------------------------------------------- */

void scheduler_note_admitted(struct scheduler *sched, struct sequence *seq)
{
    if (seq->was_admitted)
        return;
    seq->was_admitted = 1;
    sched->n_waiting_tokens -= seq->n_prompt;
}

void scheduler_unseat(struct scheduler *sched, struct sequence *seq)
{
    sequence_list_remove(&sched->running, seq);
    block_table_truncate(seq->blocks, sched->pool, 0);
    seq->n_computed = 0;
    seq->n_planned = 0;
    for (int32_t i = 0; i < sched->waiting.n_items; i++)
        if (sched->waiting.items[i]->waits_for == seq)
            sched->waiting.items[i]->waits_for = NULL;
}

void scheduler_finish(struct scheduler *sched, struct sequence *seq)
{
    if (seq->state == SEQUENCE_FINISHED)
        return;
    if (sequence_is_running(seq)) {
        scheduler_unseat(sched, seq);
    } else if (seq->arrival != 0) {
        sequence_list_remove(&sched->waiting, seq);
        scheduler_note_admitted(sched, seq);
    }
    if (seq->arrival != 0)
        sched->n_promised_forks -= seq->n_forks_left;
    seq->n_forks_left = 0;
    seq->awaits_token = 0;
    seq->waits_for = NULL;
    sequence_move(seq, SEQUENCE_FINISHED);
}

void scheduler_cancel(struct scheduler *sched, struct sequence *seq)
{
    if (seq->state == SEQUENCE_FINISHED)
        return;
    scheduler_finish(sched, seq);
    seq->cancelled = 1;
}

void scheduler_set_paused(struct sequence *seq, int paused)
{
    seq->paused = paused;
}

void scheduler_reset_prefixes(struct scheduler *sched)
{
    if (sched->prefix == NULL)
        return;
    prefix_cache_reset(sched->prefix);
    for (int32_t i = 0; i < sched->running.n_items; i++)
        sched->running.items[i]->publishes = 0;
}

/* --- numbers -------------------------------------------------------------- */

static int32_t count_paused(const struct sequence_list *list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < list->n_items; i++)
        n += list->items[i]->paused != 0;
    return n;
}

struct scheduler_stats scheduler_stats(const struct scheduler *sched)
{
    struct scheduler_stats stats = {
        .n_waiting = sched->waiting.n_items,
        .n_running = sched->running.n_items,
        .n_paused = count_paused(&sched->waiting) + count_paused(&sched->running),
        .n_waiting_tokens = sched->n_waiting_tokens,
        .n_plans = sched->n_plans,
        .n_preemptions = sched->n_preemptions,
        .n_refused = sched->n_refused,
        .blocks = block_pool_counts(sched->pool),
    };
    if (sched->prefix != NULL)
        stats.prefix = prefix_cache_stats(sched->prefix);
    return stats;
}

struct prefix_cache *scheduler_prefixes(struct scheduler *sched)
{
    return sched->prefix;
}

struct block_pool *scheduler_blocks(struct scheduler *sched)
{
    return sched->pool;
}
