/* test_scheduler_speed - the scheduler alone costs microseconds a step and allocates nothing while it decides. */
#include "base/clock.h"
#include "server/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Every allocation of this program is counted here, where no sanitizer has put
 * its own allocator in this place. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OTHER_ALLOCATOR 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OTHER_ALLOCATOR 1
#endif

static unsigned long n_allocations;

#ifndef OTHER_ALLOCATOR
void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void *__libc_realloc(void *old, size_t n_bytes);

void *malloc(size_t n_bytes)
{
    n_allocations++;
    return __libc_malloc(n_bytes);
}

void *calloc(size_t n, size_t n_bytes)
{
    n_allocations++;
    return __libc_calloc(n, n_bytes);
}

void *realloc(void *old, size_t n_bytes)
{
    n_allocations++;
    return __libc_realloc(old, n_bytes);
}
#endif

#define N_SEATS 64
#define N_STEPS 20000

static void start_sequence(struct scheduler *sched, struct sequence **seq, uint64_t id)
{
    int32_t prompt[256];
    for (int32_t i = 0; i < 256; i++)
        prompt[i] = (int32_t)id + i;
    struct sequence_options options = {
        .id = id, .prompt = prompt, .n_prompt = 256, .max_new_tokens = 256, .n_choices = 1, .block_size = 32,
    };
    assert_int_equal(sequence_create(seq, &options, NULL), STATUS_OK);
    assert_int_equal(scheduler_submit(sched, *seq, NULL), STATUS_OK);
}

static void test_the_scheduler_alone_is_fast(void **state)
{
    (void)state;
    struct scheduler *sched = NULL;
    struct scheduler_options options = {
        .n_blocks = 2048, .block_size = 32, .max_sequences = N_SEATS, .max_step_tokens = 512,
        .max_queue = 64, .max_model_len = 4096, .prefix_cache = 1, .reuse_generated = 1,
    };
    assert_int_equal(scheduler_create(&sched, &options, NULL), STATUS_OK);
    struct sequence *sequences[N_SEATS];
    uint64_t next_id = 1, n_tokens = 0;
    for (int i = 0; i < N_SEATS; i++)
        start_sequence(sched, &sequences[i], next_id++);
    int64_t start = clock_thread_cpu_ns();
    for (int step = 0; step < N_STEPS; step++) {
        struct step_plan plan;
        scheduler_plan(sched, &plan);
        n_tokens += (uint64_t)plan.n_tokens;
        scheduler_commit(sched, &plan);
        for (int i = 0; i < N_SEATS; i++) {
            if (!sequences[i]->awaits_token)
                continue;
            scheduler_push_token(sched, sequences[i], step);
            if (sequence_room(sequences[i]) > 0)
                continue;
            scheduler_finish(sched, sequences[i]);
            sequence_destroy(sequences[i]);
            start_sequence(sched, &sequences[i], next_id++);
        }
    }
    double seconds = (double)(clock_thread_cpu_ns() - start) * 1e-9;
    printf("scheduler alone, %d sequences: %.0f steps/s, %.2f us a step, %.1f tokens a step\n", N_SEATS,
           N_STEPS / seconds, seconds / N_STEPS * 1e6, (double)n_tokens / N_STEPS);
    for (int i = 0; i < N_SEATS; i++) {
        scheduler_cancel(sched, sequences[i]);
        sequence_destroy(sequences[i]);
    }
    scheduler_destroy(sched);
    assert_true(N_STEPS / seconds > 500);               /* a step of the model takes milliseconds */
}

/* --- memory ---------------------------------------------------------------- */

#define N_PARENTS 12

static struct sequence *create_one(int32_t parent, int32_t choice)
{
    int32_t prompt[21];
    for (int32_t p = 0; p < 21; p++)
        prompt[p] = p < 12 ? p : 100 * parent + p;          /* three blocks in common */
    struct sequence *seq = NULL;
    struct sequence_options options = {
        .prompt = prompt, .n_prompt = 21, .max_new_tokens = 30, .choice = choice,
        .n_choices = choice == 0 ? 2 : 1, .block_size = 4,
    };
    assert_int_equal(sequence_create(&seq, &options, NULL), STATUS_OK);
    return seq;
}

/* One turn of the engine; every sequence was created before. */
static void run_step(struct scheduler *sched, struct sequence *sequences[N_PARENTS][2])
{
    struct step_plan plan;
    scheduler_plan(sched, &plan);
    scheduler_commit(sched, &plan);
    for (int i = 0; i < N_PARENTS; i++) {
        if (sequences[i][0]->awaits_token && sequences[i][0]->n_forks_left > 0)
            scheduler_fork(sched, sequences[i][0], sequences[i][1]);
        for (int choice = 0; choice < 2; choice++) {
            struct sequence *seq = sequences[i][choice];
            if (seq->awaits_token)
                scheduler_push_token(sched, seq, 1000 * choice + seq->n_tokens);
            if (sequence_room(seq) == 0)
                scheduler_finish(sched, seq);
        }
    }
}

/* A pool that is always short, so that plans evict, preempt, copy and wait. */
static void test_no_call_of_a_step_allocates(void **state)
{
    (void)state;
#ifdef OTHER_ALLOCATOR
    skip();
#endif
    struct scheduler *sched = NULL;
    struct scheduler_options options = {
        .n_blocks = 24, .block_size = 4, .max_sequences = 6, .max_step_tokens = 16, .max_queue = 24,
        .max_model_len = 96, .prefix_cache = 1, .reuse_generated = 1,
    };
    assert_int_equal(scheduler_create(&sched, &options, NULL), STATUS_OK);
    struct sequence *sequences[N_PARENTS][2];
    for (int i = 0; i < N_PARENTS; i++) {
        for (int choice = 0; choice < 2; choice++)
            sequences[i][choice] = create_one(i, choice);
        assert_int_equal(scheduler_submit(sched, sequences[i][0], NULL), STATUS_OK);
    }
    unsigned long before = n_allocations;
    assert_true(before > 0);                                /* the counter counts */
    for (int step = 0; step < 100; step++)
        run_step(sched, sequences);
    scheduler_cancel(sched, sequences[N_PARENTS - 1][0]);
    scheduler_reset_prefixes(sched);
    while (scheduler_stats(sched).n_running + scheduler_stats(sched).n_waiting > 0)
        run_step(sched, sequences);
    assert_int_equal(n_allocations - before, 0);

    struct scheduler_stats stats = scheduler_stats(sched);
    assert_true(stats.n_preemptions > 0 && stats.blocks.n_evicted > 0 && stats.prefix.hit_tokens > 0);
    for (int i = 0; i < N_PARENTS; i++)
        for (int choice = 0; choice < 2; choice++)
            sequence_destroy(sequences[i][choice]);
    scheduler_destroy(sched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_scheduler_alone_is_fast),
        cmocka_unit_test(test_no_call_of_a_step_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
