#include "server/scheduler_state.h"

#include <assert.h>
#include <string.h>

static int32_t min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* It could compute something now. */
static int is_runnable(const struct sequence *seq)
{
    return !seq->paused && !seq->awaits_token;
}

/* --- blocks for running sequences ----------------------------------------- */

static void preempt(struct scheduler *sched, struct sequence *seq)
{
    scheduler_unseat(sched, seq);
    sequence_move(seq, SEQUENCE_PREEMPTED);
    seq->n_preemptions++;
    sched->n_preemptions++;
    sequence_list_insert(&sched->waiting, seq);
}

static struct sequence *last_paused(const struct scheduler *sched)
{
    for (int32_t i = sched->running.n_items - 1; i >= 0; i--)
        if (sched->running.items[i]->paused)
            return sched->running.items[i];
    return NULL;
}

/* Who makes room for seq: a paused sequence, which would only sit on its blocks,
 * or the last in order; never one that is served before seq. */
static struct sequence *find_victim(const struct scheduler *sched, const struct sequence *seq)
{
    struct sequence *paused = last_paused(sched);
    if (paused != NULL)
        return paused;
    struct sequence *last = sched->running.items[sched->running.n_items - 1];
    return last != seq ? last : NULL;
}

/* How many of the wanted tokens the table and the pool have room for. */
static int32_t tokens_that_fit(const struct scheduler *sched, const struct sequence *seq, int32_t wanted)
{
    int32_t own = block_table_is_shared(seq->blocks, sched->pool, seq->n_computed);
    int32_t available = block_pool_available(sched->pool) - own;
    if (available < 0)
        return 0;
    int64_t room = ((int64_t)block_table_count(seq->blocks) + available) * sched->options.block_size;
    int64_t fit = room - seq->n_computed;
    return fit < wanted ? (int32_t)fit : wanted;
}

/* Give seq the blocks for up to wanted tokens from n_computed on, taking them
 * from others if it would get none. Returns how many tokens it may compute. */
static int32_t reserve(struct scheduler *sched, struct sequence *seq, int32_t wanted)
{
    int32_t n_tokens;
    while ((n_tokens = tokens_that_fit(sched, seq, wanted)) == 0) {
        struct sequence *victim = find_victim(sched, seq);
        if (victim == NULL)
            return 0;
        preempt(sched, victim);
    }
    int n_copies = 0;
    enum status s = block_table_unshare(seq->blocks, sched->pool, seq->n_computed,
                                        &sched->copies[sched->n_copies], &n_copies, NULL);
    assert(s == STATUS_OK);
    sched->n_copies += n_copies;
    s = block_table_grow(seq->blocks, sched->pool, seq->n_computed + n_tokens, NULL);
    assert(s == STATUS_OK);
    (void)s;
    return n_tokens;
}

/* Plan the sequences that have a seat, in order; returns the budget left. */
static int32_t plan_running(struct scheduler *sched)
{
    struct sequence_list *running = &sched->running;
    int32_t budget = sched->options.max_step_tokens;
    for (int32_t i = 0; i < running->n_items; i++)
        budget -= running->items[i]->state == SEQUENCE_DECODE && is_runnable(running->items[i]);

    for (int32_t i = 0; i < running->n_items; i++) {
        struct sequence *seq = running->items[i];
        if (!is_runnable(seq))
            continue;
        int32_t wanted = 1;
        if (seq->state == SEQUENCE_PREFILL)
            wanted = min_i32(seq->n_tokens - seq->n_computed, min_i32(sched->options.max_prefill_chunk, budget));
        if (wanted == 0)
            continue;
        seq->n_planned = reserve(sched, seq, wanted);
        if (seq->state == SEQUENCE_PREFILL)
            budget -= seq->n_planned;
        i = sequence_list_find(running, seq);       /* paused ones before it may have left */
    }
    return budget;
}

/* --- prefixes in flight --------------------------------------------------- */

static int32_t common_tokens(const struct sequence *a, const struct sequence *b, int32_t limit)
{
    int32_t n = 0;
    while (n < limit && a->tokens[n] == b->tokens[n])
        n++;
    return n;
}

/* The running sequence that will publish the most blocks that seq needs and
 * does not find yet; *until is the n_computed at which they are there. */
static const struct sequence *find_leader(const struct scheduler *sched, const struct sequence *seq,
                                          int32_t n_found, int32_t *until)
{
    const struct sequence *leader = NULL;
    int32_t most = n_found;
    for (int32_t i = 0; i < sched->running.n_items; i++) {
        const struct sequence *other = sched->running.items[i];
        if (other->state != SEQUENCE_PREFILL || !is_runnable(other) || !other->publishes)
            continue;
        if (memcmp(&other->salt, &seq->salt, sizeof seq->salt) != 0)
            continue;
        int32_t limit = min_i32(min_i32(seq->n_prompt, seq->n_tokens - 1), other->n_prompt);
        int32_t common = common_tokens(seq, other, limit);
        common -= common % sched->options.block_size;
        if (common > most && common > other->n_computed) {
            leader = other;
            most = common;
        }
    }
    *until = most;
    return leader;
}

/* 1 if seq waits on for the sequence that computes its prefix. */
static int still_waits(struct scheduler *sched, struct sequence *seq)
{
    const struct sequence *leader = seq->waits_for;
    if (leader == NULL)
        return 0;
    if (leader->n_computed < seq->waits_until && !leader->paused && leader->publishes &&
        seq->n_deferred < sched->options.max_prefix_wait) {
        seq->n_deferred++;
        return 1;
    }
    seq->waits_for = NULL;
    return 0;
}

/* 1 if seq had better wait for a prefix: n_found tokens are there already. */
static int begins_to_wait(struct scheduler *sched, struct sequence *seq, int32_t n_found)
{
    if (sched->prefix == NULL || seq->n_deferred >= sched->options.max_prefix_wait)
        return 0;
    seq->waits_for = find_leader(sched, seq, n_found, &seq->waits_until);
    seq->n_deferred += seq->waits_for != NULL;
    return seq->waits_for != NULL;
}

/* --- admission ------------------------------------------------------------ */

/* Blocks that running sequences need to finish their prefill or to take their
 * next step. A newcomer that took these would be preempted for them. */
static int32_t blocks_soon_needed(const struct scheduler *sched)
{
    int32_t n = 0;
    for (int32_t i = 0; i < sched->running.n_items; i++) {
        const struct sequence *seq = sched->running.items[i];
        if (seq->paused)
            continue;
        int32_t n_tokens = seq->n_tokens + (seq->state == SEQUENCE_DECODE && sequence_room(seq) > 0);
        n += block_table_blocks_for(n_tokens, sched->options.block_size) - block_table_count(seq->blocks);
    }
    return n;
}

static int only_paused_run(const struct scheduler *sched)
{
    for (int32_t i = 0; i < sched->running.n_items; i++)
        if (!sched->running.items[i]->paused)
            return 0;
    return sched->running.n_items > 0;
}

/* Idle blocks among the matched ones: available now, and not after adopting. */
static int32_t count_idle(const struct scheduler *sched, int32_t n_matched)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_matched; i++)
        n += block_pool_holders(sched->pool, sched->matched[i]) == 0;
    return n;
}

static int has_room(const struct scheduler *sched, int32_t n_matched, int32_t n_new)
{
    if (sched->running.n_items == sched->running.capacity)
        return 0;
    int32_t available = block_pool_available(sched->pool) - count_idle(sched, n_matched);
    return n_new <= available - blocks_soon_needed(sched);
}

/* Give seq a seat, the matched blocks, and blocks for its first chunk. */
static void admit(struct scheduler *sched, struct sequence *seq, int32_t n_matched, int32_t chunk)
{
    int32_t n_reused = n_matched * sched->options.block_size;
    block_table_adopt(seq->blocks, sched->pool, sched->matched, n_matched);
    enum status s = block_table_grow(seq->blocks, sched->pool, n_reused + chunk, NULL);
    assert(s == STATUS_OK);
    (void)s;
    if (sched->prefix != NULL)
        prefix_cache_count(sched->prefix, seq->n_tokens, n_reused);
    if (!seq->was_admitted)
        seq->n_cached_tokens = n_reused;
    scheduler_note_admitted(sched, seq);
    seq->n_computed = n_reused;
    seq->n_published = n_matched;
    seq->publishes = sched->prefix != NULL;
    seq->n_planned = chunk;
    seq->n_deferred = 0;
    sequence_list_remove(&sched->waiting, seq);
    sequence_move(seq, SEQUENCE_PREFILL);
    sequence_list_insert(&sched->running, seq);
}

static int32_t match_prefix(const struct scheduler *sched, const struct sequence *seq)
{
    if (sched->prefix == NULL)
        return 0;
    struct prefix_query query = {
        .tokens = seq->tokens,
        .n_tokens = seq->n_tokens,
        .n_prompt = seq->n_prompt,
        .salt = &seq->salt,
    };
    return prefix_cache_match(sched->prefix, &query, sched->matched);
}

enum admission { ADMITTED, WAITS_FOR_PREFIX, WAITS_FOR_ROOM };

static enum admission try_admit(struct scheduler *sched, struct sequence *seq, int32_t budget)
{
    if (still_waits(sched, seq))
        return WAITS_FOR_PREFIX;
    if (sched->running.n_items == sched->running.capacity && !only_paused_run(sched))
        return WAITS_FOR_ROOM;
    int32_t block_size = sched->options.block_size;
    int32_t n_matched = match_prefix(sched, seq);
    int32_t n_reused = n_matched * block_size;
    if (begins_to_wait(sched, seq, n_reused))
        return WAITS_FOR_PREFIX;
    int32_t chunk = min_i32(seq->n_tokens - n_reused, min_i32(sched->options.max_prefill_chunk, budget));
    int32_t n_new = block_table_blocks_for(n_reused + chunk, block_size) - n_matched;
    while (!has_room(sched, n_matched, n_new)) {
        if (!only_paused_run(sched))
            return WAITS_FOR_ROOM;
        preempt(sched, last_paused(sched));
    }
    admit(sched, seq, n_matched, chunk);
    return ADMITTED;
}

/* Fill what is left of the budget from the queue, in order. Whoever cannot run
 * for a reason of its own is passed; whoever lacks room is not, else a stream of
 * small sequences could hold up a large one for ever. */
static void plan_waiting(struct scheduler *sched, int32_t budget)
{
    struct sequence_list *waiting = &sched->waiting;
    for (int32_t i = 0; i < waiting->n_items && budget > 0; i++) {
        struct sequence *seq = waiting->items[i];
        if (!is_runnable(seq))
            continue;
        if (seq->state == SEQUENCE_PREEMPTED)
            return;                                 /* room is what this plan lacks */
        enum admission result = try_admit(sched, seq, budget);
        if (result == WAITS_FOR_ROOM)
            return;
        if (result == ADMITTED) {
            budget -= seq->n_planned;
            i--;                                    /* it is no longer in this list */
        }
    }
}

/* --- the plan ------------------------------------------------------------- */

static void begin_plan(struct scheduler *sched)
{
    assert(!sched->plan_is_open);
    sched->plan_is_open = 1;
    sched->n_plans++;
    sched->n_rows = 0;
    sched->n_copies = 0;
    for (int32_t i = 0; i < sched->running.n_items; i++)
        sched->running.items[i]->n_planned = 0;
    for (int32_t i = 0; i < sched->waiting.n_items; i++)
        if (sched->waiting.items[i]->state == SEQUENCE_PREEMPTED)
            sequence_move(sched->waiting.items[i], SEQUENCE_WAITING);
}

/* Rows of the running sequences in the given state; returns their tokens. */
static int32_t add_rows(struct scheduler *sched, enum sequence_state state)
{
    int32_t n_tokens = 0;
    for (int32_t i = 0; i < sched->running.n_items; i++) {
        struct sequence *seq = sched->running.items[i];
        if (seq->state != state || seq->n_planned == 0)
            continue;
        sched->rows[sched->n_rows++] = (struct step_row){
            .sequence = seq,
            .first_position = seq->n_computed,
            .n_tokens = seq->n_planned,
            .wants_logits = seq->n_computed + seq->n_planned == seq->n_tokens,
        };
        n_tokens += seq->n_planned;
    }
    return n_tokens;
}

static int any_awaits_token(const struct sequence_list *list)
{
    for (int32_t i = 0; i < list->n_items; i++)
        if (list->items[i]->awaits_token && !list->items[i]->paused)
            return 1;
    return 0;
}

static enum step_reason find_reason(const struct scheduler *sched)
{
    if (sched->n_rows > 0)
        return STEP_HAS_ROWS;
    if (sched->running.n_items + sched->waiting.n_items == 0)
        return STEP_NO_SEQUENCES;
    if (any_awaits_token(&sched->running) || any_awaits_token(&sched->waiting))
        return STEP_AWAITS_TOKENS;
    return STEP_ALL_PAUSED;
}

void scheduler_plan(struct scheduler *sched, struct step_plan *out)
{
    begin_plan(sched);
    int32_t budget = plan_running(sched);
    plan_waiting(sched, budget);
    int32_t n_decode = add_rows(sched, SEQUENCE_DECODE);
    int32_t n_prefill = add_rows(sched, SEQUENCE_PREFILL);
    *out = (struct step_plan){
        .rows = sched->rows,
        .n_rows = sched->n_rows,
        .n_decode_rows = n_decode,
        .n_tokens = n_decode + n_prefill,
        .copies = sched->copies,
        .n_copies = sched->n_copies,
        .reason = find_reason(sched),
    };
}
