/* test_scheduler_sim - a seeded simulator: random clients, tiny pools, a fake model that reads its history
 * back through the block tables, and every promise of the scheduler checked at every step. */
#include "base/rng.h"
#include "server/scheduler_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_CLIENTS 64
#define MAX_TOTAL 96            /* tokens of one sequence */
#define N_TEMPLATES 4
#define VOCABULARY 24           /* small, so that generated blocks meet again */
#define STOP_TOKEN 0

/* One sequence as its client sees it. */
struct client {
    struct sequence *seq;
    int n_forks;                /* forks still to be made from it */
    uint64_t last_progress;     /* step */
    int32_t n_known;            /* n_tokens + n_computed when it last progressed */
    int32_t most_computed;      /* since its last preemption */
    enum sequence_state state_before;
};

struct sim {
    struct scheduler_options options;
    struct scheduler *sched;
    struct rng rng;
    int32_t templates[N_TEMPLATES][MAX_TOTAL];
    struct client clients[MAX_CLIENTS];
    int n_clients;
    uint64_t *slots;            /* [n_blocks][block_size]: the fake cache */
    uint64_t *written;          /* the same shape: last step that wrote the slot */
    uint64_t step;
    uint64_t next_id;
    int stopping;               /* no more arrivals, pauses or cancels */

    /* what happened, for the log and to show that the run was not empty */
    uint64_t n_finished, n_cancelled, n_forked, n_copies, n_rows, n_refused, n_overloaded, longest_wait;
};

/* --- the fake model, and its oracle --------------------------------------- */

static uint64_t mix(uint64_t before, uint64_t number)
{
    uint64_t x = before ^ (number + 0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* What the model makes of position p after everything before it. Where the role
 * of a token matters, a generated token yields another value than the same token
 * in a prompt; and salts never meet, so they may as well enter the value. */
static uint64_t value_after(const struct sim *sim, const struct sequence *seq, int32_t p, uint64_t before)
{
    uint64_t role = !sim->options.reuse_generated && p >= seq->n_prompt;
    uint64_t start = p == 0 ? mix(1, seq->salt.bytes[0]) : before;
    return mix(start, (uint64_t)seq->tokens[p] + role * VOCABULARY);
}

static uint64_t *slot_of(struct sim *sim, const struct sequence *seq, int32_t position)
{
    int32_t size = sim->options.block_size;
    assert_true(position / size < block_table_count(seq->blocks));
    return &sim->slots[block_table_ids(seq->blocks)[position / size] * size + position % size];
}

static void do_copies(struct sim *sim, const struct step_plan *plan)
{
    size_t size = (size_t)sim->options.block_size;
    for (int32_t i = 0; i < plan->n_copies; i++) {
        const struct block_copy *copy = &plan->copies[i];
        assert_int_not_equal(copy->source, copy->destination);
        memcpy(sim->slots + (size_t)copy->destination * size, sim->slots + (size_t)copy->source * size,
               size * sizeof *sim->slots);
    }
    sim->n_copies += (uint64_t)plan->n_copies;
}

/* A slot's value follows from the one before it as the cache has it: a wrong
 * block or a stale copy anywhere in the history changes all that comes after. */
static void compute_row(struct sim *sim, const struct step_row *row)
{
    const struct sequence *seq = row->sequence;
    int32_t size = sim->options.block_size;
    for (int32_t p = row->first_position; p < row->first_position + row->n_tokens; p++) {
        block_id id = block_table_ids(seq->blocks)[p / size];
        assert_int_equal(block_pool_holders(sim->sched->pool, id), 1);
        assert_false(block_pool_is_kept(sim->sched->pool, id));
        uint64_t *slot = slot_of(sim, seq, p);
        uint64_t *stamp = &sim->written[slot - sim->slots];
        assert_true(*stamp < sim->step);                    /* no second writer */
        *stamp = sim->step;
        *slot = value_after(sim, seq, p, p > 0 ? *slot_of(sim, seq, p - 1) : 0);
    }
}

/* From the tokens alone. */
static void check_history(struct sim *sim, const struct step_row *row)
{
    uint64_t value = 0;
    for (int32_t p = 0; p < row->first_position + row->n_tokens; p++) {
        value = value_after(sim, row->sequence, p, value);
        assert_true(*slot_of(sim, row->sequence, p) == value);
    }
}

static int32_t sample(struct sim *sim, const struct sequence *seq)
{
    uint64_t value = 0;
    for (int32_t p = 0; p < seq->n_tokens; p++)
        value = value_after(sim, seq, p, value);
    if (sequence_is_running(seq))
        assert_true(*slot_of(sim, seq, seq->n_tokens - 1) == value);
    return (int32_t)(mix(value, (uint64_t)seq->choice) % VOCABULARY);
}

/* A free block's bytes mean nothing: whoever still reads them is found out. */
static void poison_free_blocks(struct sim *sim)
{
    int32_t size = sim->options.block_size;
    for (block_id id = 0; id < sim->options.n_blocks; id++)
        if (block_pool_holders(sim->sched->pool, id) == 0 && !block_pool_is_kept(sim->sched->pool, id))
            for (int32_t i = 0; i < size; i++)
                sim->slots[id * size + i] = rng_next(&sim->rng);
}

/* --- what must hold at every step ----------------------------------------- */

static int runnable(const struct sequence *seq)
{
    return !seq->paused && !seq->awaits_token;
}

static void check_blocks(struct sim *sim)
{
    struct block_counts counts = block_pool_counts(sim->sched->pool);
    assert_int_equal(counts.n_free + counts.n_idle + counts.n_held, sim->options.n_blocks);
    int32_t *references = calloc((size_t)sim->options.n_blocks, sizeof *references);
    assert_non_null(references);
    for (int i = 0; i < sim->n_clients; i++) {
        const struct sequence *seq = sim->clients[i].seq;
        if (!sequence_is_running(seq))
            assert_int_equal(block_table_count(seq->blocks), 0);
        assert_true(seq->n_computed <= block_table_count(seq->blocks) * sim->options.block_size);
        for (int32_t b = 0; b < block_table_count(seq->blocks); b++)
            references[block_table_ids(seq->blocks)[b]]++;
    }
    int32_t n_kept = 0, n_free = 0;
    for (block_id id = 0; id < sim->options.n_blocks; id++) {
        assert_int_equal(references[id], block_pool_holders(sim->sched->pool, id));
        n_kept += block_pool_is_kept(sim->sched->pool, id);
        n_free += references[id] == 0 && !block_pool_is_kept(sim->sched->pool, id);
    }
    assert_int_equal(n_kept, scheduler_stats(sim->sched).prefix.n_published);
    assert_int_equal(n_free, counts.n_free);
    free(references);
}

static void check_rows(struct sim *sim, const struct step_plan *plan)
{
    int32_t n_tokens = 0;
    int32_t chunk = sim->sched->options.max_prefill_chunk;
    for (int32_t i = 0; i < plan->n_rows; i++) {
        const struct step_row *row = &plan->rows[i];
        const struct sequence *seq = row->sequence;
        n_tokens += row->n_tokens;
        assert_true(runnable(seq) && row->n_tokens >= 1 && row->n_tokens <= chunk);
        assert_int_equal(row->first_position, seq->n_computed);
        assert_true(row->first_position + row->n_tokens <= seq->n_tokens);
        assert_int_equal(row->wants_logits, row->first_position + row->n_tokens == seq->n_tokens);
        assert_int_equal(i < plan->n_decode_rows, seq->state == SEQUENCE_DECODE);
        assert_int_equal(seq->state == SEQUENCE_DECODE || seq->state == SEQUENCE_PREFILL, 1);
        for (int32_t other = 0; other < i; other++)
            assert_ptr_not_equal(plan->rows[other].sequence, seq);
    }
    assert_int_equal(n_tokens, plan->n_tokens);
    assert_true(n_tokens <= sim->options.max_step_tokens);
    assert_true(plan->n_rows <= sim->options.max_sequences);
    assert_true(plan->n_copies <= plan->n_rows);
}

static int has_row(const struct step_plan *plan, const struct sequence *seq)
{
    for (int32_t i = 0; i < plan->n_rows; i++)
        if (plan->rows[i].sequence == seq)
            return 1;
    return 0;
}

/* Decode sequences move in every plan unless memory has run out; the first
 * unpaused one moves whatever happens, if it has its token; and a plan without
 * rows has a reason. */
static void check_progress(struct sim *sim, const struct step_plan *plan)
{
    int n_runnable = 0, n_awaiting = 0, is_first = 1;
    for (int32_t i = 0; i < sim->sched->running.n_items; i++) {
        const struct sequence *seq = sim->sched->running.items[i];
        int must_move = is_first || (seq->state == SEQUENCE_DECODE && block_pool_available(sim->sched->pool) > 0);
        if (runnable(seq) && must_move)
            assert_true(has_row(plan, seq));
        is_first = is_first && seq->paused;
    }
    for (int i = 0; i < sim->n_clients; i++) {
        n_runnable += runnable(sim->clients[i].seq);
        n_awaiting += sim->clients[i].seq->awaits_token && !sim->clients[i].seq->paused;
    }
    assert_int_equal(plan->n_rows > 0, plan->reason == STEP_HAS_ROWS);
    assert_int_equal(sim->n_clients == 0, plan->reason == STEP_NO_SEQUENCES);
    if (plan->reason == STEP_ALL_PAUSED)
        assert_true(n_runnable == 0 && n_awaiting == 0);
    if (plan->reason == STEP_AWAITS_TOKENS)
        assert_true(n_awaiting > 0);
    if (n_runnable > 0 && n_awaiting == 0)
        assert_int_equal(plan->reason, STEP_HAS_ROWS);
}

/* Nobody gets a seat past a runnable sequence that came before and only lacks room. */
static void check_order(struct sim *sim)
{
    const struct sequence_list *waiting = &sim->sched->waiting;
    for (int i = 0; i < sim->n_clients; i++) {
        const struct client *client = &sim->clients[i];
        if (client->state_before != SEQUENCE_WAITING || client->seq->state != SEQUENCE_PREFILL)
            continue;
        for (int32_t w = 0; w < waiting->n_items; w++) {
            const struct sequence *other = waiting->items[w];
            if (runnable(other) && other->state == SEQUENCE_WAITING && other->waits_for == NULL)
                assert_false(sequence_list_before(waiting, other, client->seq));
        }
    }
}

static void check_waits(struct sim *sim)
{
    for (int i = 0; i < sim->n_clients; i++) {
        struct client *client = &sim->clients[i];
        const struct sequence *seq = client->seq;
        int32_t known = seq->n_tokens + seq->n_computed;
        if (known != client->n_known || !runnable(seq))
            client->last_progress = sim->step;
        client->n_known = known;
        uint64_t wait = sim->step - client->last_progress;
        if (wait > sim->longest_wait)
            sim->longest_wait = wait;
        /* all that may stand before it, each from its first token to its last */
        assert_true(wait < 60 * MAX_TOTAL);
    }
}

/* --- clients -------------------------------------------------------------- */

static int32_t random_between(struct sim *sim, int32_t low, int32_t high)
{
    return low + (int32_t)rng_below(&sim->rng, (uint64_t)(high - low) + 1);
}

static int chance(struct sim *sim, double p)
{
    return rng_uniform(&sim->rng) < p;
}

/* A prompt begins like one of the templates and ends as it likes. */
static int32_t make_prompt(struct sim *sim, int32_t *prompt)
{
    int32_t n_shared = random_between(sim, 0, 40), n_own = random_between(sim, 0, 8);
    memcpy(prompt, sim->templates[rng_below(&sim->rng, N_TEMPLATES)], (size_t)n_shared * sizeof *prompt);
    if (n_shared + n_own == 0)
        n_own = 1;
    for (int32_t i = 0; i < n_own; i++)
        prompt[n_shared + i] = random_between(sim, 0, VOCABULARY - 1);
    return n_shared + n_own;
}

static struct sequence *new_sequence(const struct sequence_options *options)
{
    struct sequence *seq = NULL;
    assert_int_equal(sequence_create(&seq, options, NULL), STATUS_OK);
    return seq;
}

static void add_client(struct sim *sim, struct sequence *seq, int n_forks)
{
    assert_true(sim->n_clients < MAX_CLIENTS);
    sim->clients[sim->n_clients++] = (struct client){
        .seq = seq,
        .n_forks = n_forks,
        .last_progress = sim->step,
    };
}

static int count_places_taken(const struct sim *sim)
{
    int n = sim->n_clients;
    for (int i = 0; i < sim->n_clients; i++)
        n += sim->clients[i].n_forks;
    return n;
}

static void arrive(struct sim *sim)
{
    int32_t prompt[MAX_TOTAL];
    struct sequence_options options = {
        .id = ++sim->next_id,
        .prompt = prompt,
        .n_prompt = make_prompt(sim, prompt),
        .max_new_tokens = random_between(sim, 0, 40),
        .priority = random_between(sim, -2, 2),
        .n_choices = chance(sim, 0.2) ? random_between(sim, 2, 4) : 1,
        .salt = { { (uint8_t)chance(sim, 0.1) } },
        .block_size = sim->options.block_size,
    };
    if (options.max_new_tokens == 0)
        options.n_choices = 1;
    int32_t places = sim->options.max_sequences + sim->options.max_queue;
    int fits = block_table_blocks_for(options.n_prompt + options.max_new_tokens, options.block_size) <=
               sim->options.n_blocks && options.n_choices <= places;
    int room = count_places_taken(sim) + options.n_choices <= places;

    struct sequence *seq = new_sequence(&options);
    enum status got = scheduler_submit(sim->sched, seq, NULL);
    assert_int_equal(got, !fits ? STATUS_BAD_REQUEST : !room ? STATUS_OVERLOADED : STATUS_OK);
    sim->n_refused += !fits;
    sim->n_overloaded += fits && !room;
    if (got == STATUS_OK)
        add_client(sim, seq, options.n_choices - 1);
    else
        sequence_destroy(seq);
}

static void fork_client(struct sim *sim, int parent)
{
    struct sequence *seq = sim->clients[parent].seq;
    while (sim->clients[parent].n_forks > 0) {
        struct sequence *child = new_sequence(&(struct sequence_options){
            .id = ++sim->next_id,
            .prompt = seq->tokens,
            .n_prompt = seq->n_prompt,
            .max_new_tokens = seq->max_tokens_total - seq->n_prompt,
            .priority = seq->priority,
            .choice = sim->clients[parent].n_forks,
            .n_choices = 1,
            .salt = seq->salt,
            .block_size = sim->options.block_size,
        });
        sim->clients[parent].n_forks--;
        scheduler_fork(sim->sched, seq, child);
        add_client(sim, child, 0);
        sim->n_forked++;
    }
}

static void remove_finished(struct sim *sim)
{
    for (int i = sim->n_clients - 1; i >= 0; i--) {
        if (sim->clients[i].seq->state != SEQUENCE_FINISHED)
            continue;
        sequence_destroy(sim->clients[i].seq);
        sim->clients[i] = sim->clients[--sim->n_clients];
    }
}

static void cancel_one(struct sim *sim)
{
    if (sim->n_clients == 0)
        return;
    struct sequence *seq = sim->clients[rng_below(&sim->rng, (uint64_t)sim->n_clients)].seq;
    scheduler_cancel(sim->sched, seq);
    scheduler_cancel(sim->sched, seq);
    assert_true(seq->cancelled && seq->state == SEQUENCE_FINISHED);
    sim->n_cancelled++;
}

static void act_at_random(struct sim *sim)
{
    if (sim->stopping) {
        for (int i = 0; i < sim->n_clients; i++)
            scheduler_set_paused(sim->clients[i].seq, 0);
        return;
    }
    if (chance(sim, 0.15))
        arrive(sim);
    if (chance(sim, 0.005))
        for (int i = 0; i < 12; i++)
            arrive(sim);
    if (chance(sim, 0.01))
        cancel_one(sim);
    if (chance(sim, 0.001))
        scheduler_reset_prefixes(sim->sched);
    for (int i = 0; i < sim->n_clients; i++)
        if (chance(sim, sim->clients[i].seq->paused ? 0.1 : 0.01))
            scheduler_set_paused(sim->clients[i].seq, !sim->clients[i].seq->paused);
    remove_finished(sim);
}

static void emit_tokens(struct sim *sim)
{
    for (int i = 0; i < sim->n_clients; i++) {
        struct sequence *seq = sim->clients[i].seq;
        if (!seq->awaits_token || (!sim->stopping && chance(sim, 0.05)))
            continue;                                       /* a late sampler */
        fork_client(sim, i);
        int stops = sequence_room(seq) == 0;                /* asked for no token at all */
        if (!stops) {
            int32_t token = sample(sim, seq);
            scheduler_push_token(sim->sched, seq, token);
            stops = token == STOP_TOKEN || sequence_room(seq) == 0;
        }
        if (stops) {
            scheduler_finish(sim->sched, seq);
            sim->n_finished++;
        }
    }
    remove_finished(sim);
}

/* --- running -------------------------------------------------------------- */

static void run_step(struct sim *sim)
{
    sim->step++;
    act_at_random(sim);
    for (int i = 0; i < sim->n_clients; i++) {
        struct client *client = &sim->clients[i];
        client->state_before = client->seq->state == SEQUENCE_PREEMPTED ? SEQUENCE_WAITING : client->seq->state;
    }
    struct step_plan plan;
    scheduler_plan(sim->sched, &plan);
    check_blocks(sim);
    check_rows(sim, &plan);
    check_progress(sim, &plan);
    check_order(sim);

    do_copies(sim, &plan);
    for (int32_t i = 0; i < plan.n_rows; i++)
        compute_row(sim, &plan.rows[i]);
    for (int32_t i = 0; i < plan.n_rows; i++)
        check_history(sim, &plan.rows[i]);
    sim->n_rows += (uint64_t)plan.n_rows;
    if (!sim->stopping && chance(sim, 0.005))
        cancel_one(sim);                                    /* while the step is running */
    scheduler_commit(sim->sched, &plan);
    remove_finished(sim);
    check_waits(sim);
    emit_tokens(sim);
    check_blocks(sim);
    poison_free_blocks(sim);
}

static void sim_init(struct sim *sim, uint64_t seed)
{
    memset(sim, 0, sizeof *sim);
    rng_seed(&sim->rng, seed);
    int32_t seats = random_between(sim, 1, 8);
    sim->options = (struct scheduler_options){
        .n_blocks = random_between(sim, 6, 60),
        .block_size = random_between(sim, 1, 8),
        .max_sequences = seats,
        .max_step_tokens = seats + random_between(sim, 0, 24),
        .max_queue = random_between(sim, 0, 16),
        .max_model_len = MAX_TOTAL,
        .max_prefill_chunk = chance(sim, 0.5) ? random_between(sim, 1, 16) : 0,
        .policy = chance(sim, 0.5) ? SCHEDULER_PRIORITY : SCHEDULER_FCFS,
        .priority_places = 4,
        .prefix_cache = chance(sim, 0.8),
        .reuse_generated = chance(sim, 0.5),
        .max_prefix_wait = chance(sim, 0.5) ? 5 : 0,
        .key = { seed, ~seed },
    };
    assert_int_equal(scheduler_create(&sim->sched, &sim->options, NULL), STATUS_OK);
    size_t n_slots = (size_t)sim->options.n_blocks * (size_t)sim->options.block_size;
    sim->slots = calloc(n_slots, sizeof *sim->slots);
    sim->written = calloc(n_slots, sizeof *sim->written);
    assert_true(sim->slots != NULL && sim->written != NULL);
    for (int t = 0; t < N_TEMPLATES; t++)
        for (int i = 0; i < MAX_TOTAL; i++)
            sim->templates[t][i] = random_between(sim, 0, VOCABULARY - 1);
}

static void drain(struct sim *sim)
{
    sim->stopping = 1;
    for (int i = 0; sim->n_clients > 0; i++) {
        assert_true(i < 60 * MAX_TOTAL);
        run_step(sim);
    }
    scheduler_reset_prefixes(sim->sched);
    struct scheduler_stats stats = scheduler_stats(sim->sched);
    assert_int_equal(stats.blocks.n_free, sim->options.n_blocks);
    assert_int_equal(stats.n_waiting_tokens, 0);
    assert_int_equal(sim->sched->n_promised_forks, 0);
}

static void sim_clear(struct sim *sim)
{
    scheduler_destroy(sim->sched);
    free(sim->slots);
    free(sim->written);
}

static void simulate(uint64_t first_seed, int n_seeds, int n_steps)
{
    struct sim *sim = malloc(sizeof *sim);
    assert_non_null(sim);
    uint64_t n_finished = 0, n_preempted = 0, n_copies = 0, hits = 0, n_merged = 0, n_evicted = 0;
    uint64_t n_refused = 0, n_overloaded = 0, longest = 0;
    for (int s = 0; s < n_seeds; s++) {
        sim_init(sim, first_seed + (uint64_t)s);
        for (int i = 0; i < n_steps; i++)
            run_step(sim);
        struct scheduler_stats stats = scheduler_stats(sim->sched);
        drain(sim);
        n_finished += sim->n_finished;
        n_copies += sim->n_copies;
        n_refused += sim->n_refused;
        n_overloaded += sim->n_overloaded;
        n_preempted += stats.n_preemptions;
        hits += stats.prefix.hit_tokens;
        n_merged += stats.prefix.n_merged;
        n_evicted += stats.blocks.n_evicted;
        longest = sim->longest_wait > longest ? sim->longest_wait : longest;
        sim_clear(sim);
    }
    printf("%d x %d steps: %lu finished, %lu preempted, %lu copies, %lu tokens reused, %lu merged, %lu evicted, "
           "%lu refused, %lu overloaded, longest wait %lu steps\n", n_seeds, n_steps, n_finished, n_preempted,
           n_copies, hits, n_merged, n_evicted, n_refused, n_overloaded, longest);
    assert_true(n_finished > 0 && n_preempted > 0 && n_copies > 0 && hits > 0 && n_merged > 0 && n_evicted > 0);
    assert_true(n_refused > 0 && n_overloaded > 0);
    free(sim);
}

static void test_many_small_servers_keep_every_promise(void **state)
{
    (void)state;
    simulate(1, 100, 500);
}

static void test_long_runs_keep_every_promise(void **state)
{
    (void)state;
    simulate(1001, 10, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_small_servers_keep_every_promise),
        cmocka_unit_test(test_long_runs_keep_every_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
