/* test_queue - nothing is lost, doubled or reordered between threads, and nobody waits for ever. */
#include "base/clock.h"
#include "base/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { ms = 1000000 };      /* nanoseconds */

static struct queue *make_queue(size_t item_bytes, size_t max_items)
{
    struct queue *q = NULL;
    struct queue_options options = { .item_bytes = item_bytes, .max_items = max_items };
    assert_int_equal(queue_create(&q, &options, NULL), STATUS_OK);
    return q;
}

static void items_come_out_in_order_through_many_turns_of_the_ring(void **state)
{
    (void)state;
    struct queue *q = make_queue(sizeof(int), 3);
    int in = 0, out = 0;
    for (int turn = 0; turn < 1000; turn++) {
        int n = 1 + turn % 3;
        for (int i = 0; i < n; i++, in++)
            assert_int_equal(queue_push(q, &in), 1);
        assert_int_equal(queue_count(q), n);
        for (int i = 0; i < n; i++, out++) {
            int got = -1;
            assert_int_equal(queue_pop(q, &got, 0), 1);
            assert_int_equal(got, out);
        }
    }
    queue_destroy(q);
    queue_destroy(NULL);
}

static void a_full_queue_refuses_and_an_empty_one_gives_nothing(void **state)
{
    (void)state;
    struct queue *q = make_queue(sizeof(int), 2);
    int item = 1, got = 77;
    assert_int_equal(queue_pop(q, &got, 0), 0);
    assert_int_equal(got, 77);
    assert_int_equal(queue_push(q, &item), 1);
    assert_int_equal(queue_push(q, &item), 1);
    assert_int_equal(queue_push(q, &item), 0);
    assert_int_equal(queue_count(q), 2);
    assert_int_equal(queue_pop(q, &got, 0), 1);
    assert_int_equal(queue_push(q, &item), 1);
    queue_destroy(q);
}

static void items_of_odd_sizes_are_copied_whole(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 70; bytes += 3) {
        struct queue *q = make_queue(bytes, 5);
        unsigned char in[70], out[71];
        for (size_t i = 0; i < bytes; i++)
            in[i] = (unsigned char)(i * 7 + bytes);
        for (int k = 0; k < 7; k++) {
            out[bytes] = 0xee;
            assert_int_equal(queue_push(q, in), 1);
            assert_int_equal(queue_pop(q, out, 0), 1);
            assert_memory_equal(in, out, bytes);
            assert_int_equal(out[bytes], 0xee);
        }
        queue_destroy(q);
    }
}

static void a_pop_waits_about_as_long_as_it_was_told(void **state)
{
    (void)state;
    struct queue *q = make_queue(sizeof(int), 2);
    int got;
    int64_t start = clock_now_ns();
    assert_int_equal(queue_pop(q, &got, 30 * ms), 0);
    int64_t waited = clock_now_ns() - start;
    assert_true(waited >= 30 * ms);
    assert_true(waited < 5000 * (int64_t)ms);
    queue_destroy(q);
}

struct later {
    struct queue *q;
    void (*act)(struct queue *q);
};

static void *act_later(void *context)
{
    struct later *later = context;
    nanosleep(&(struct timespec){ .tv_nsec = 20 * ms }, NULL);
    later->act(later->q);
    return NULL;
}

static void push_nine(struct queue *q)
{
    int item = 9;
    assert_int_equal(queue_push(q, &item), 1);
}

/* A pop without limit, while another thread does act in 20 ms; what pop returned. */
static int pop_while(struct queue *q, void (*act)(struct queue *q), int *got)
{
    struct later later = { q, act };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, act_later, &later), 0);
    int result = queue_pop(q, got, -1);
    pthread_join(thread, NULL);
    return result;
}

static void a_waiting_pop_is_ended_by_a_push_a_wake_and_a_close(void **state)
{
    (void)state;
    struct queue *q = make_queue(sizeof(int), 2);
    int got = 0;
    assert_int_equal(pop_while(q, push_nine, &got), 1);
    assert_int_equal(got, 9);
    assert_int_equal(pop_while(q, queue_wake, &got), 0);
    assert_int_equal(pop_while(q, queue_close, &got), 0);
    queue_destroy(q);
}

static void a_wake_before_the_pop_is_remembered_once(void **state)
{
    (void)state;
    struct queue *q = make_queue(sizeof(int), 2);
    int got;
    queue_wake(q);
    assert_int_equal(queue_pop(q, &got, -1), 0);
    int64_t start = clock_now_ns();
    assert_int_equal(queue_pop(q, &got, 10 * ms), 0);
    assert_true(clock_now_ns() - start >= 10 * ms);
    queue_destroy(q);
}

static void a_closed_queue_gives_what_it_holds_and_takes_no_more(void **state)
{
    (void)state;
    struct queue *q = make_queue(sizeof(int), 4);
    int item = 5, got = 0;
    assert_int_equal(queue_push(q, &item), 1);
    queue_close(q);
    assert_int_equal(queue_push(q, &item), 0);
    assert_int_equal(queue_pop(q, &got, -1), 1);
    assert_int_equal(got, 5);
    assert_int_equal(queue_pop(q, &got, -1), 0);
    queue_destroy(q);
}

static void count_push(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

static void the_hook_runs_once_for_each_push_that_went_in(void **state)
{
    (void)state;
    atomic_int calls = 0;
    struct queue *q = NULL;
    struct queue_options options = {
        .item_bytes = 1, .max_items = 2, .on_push = count_push, .context = &calls,
    };
    assert_int_equal(queue_create(&q, &options, NULL), STATUS_OK);
    for (int i = 0; i < 5; i++)
        (void)queue_push(q, "x");
    assert_int_equal(atomic_load(&calls), 2);
    queue_destroy(q);
}

enum { n_producers = 4, n_consumers = 3, n_each = 20000 };

struct item {
    int producer;
    int number;
};

struct traffic {
    struct queue *q;
    atomic_int next_producer;
    atomic_int seen[n_producers][n_each];
    atomic_int disorder;
};

static void *produce(void *context)
{
    struct traffic *t = context;
    struct item item = { .producer = atomic_fetch_add(&t->next_producer, 1) };
    for (item.number = 0; item.number < n_each;) {
        if (queue_push(t->q, &item))
            item.number++;
        else
            sched_yield();
    }
    return NULL;
}

/* Each consumer must see the numbers of one producer rise. */
static void *consume(void *context)
{
    struct traffic *t = context;
    int last[n_producers] = { -1, -1, -1, -1 };
    struct item item;
    while (queue_pop(t->q, &item, -1)) {
        if (item.number <= last[item.producer])
            atomic_fetch_add(&t->disorder, 1);
        last[item.producer] = item.number;
        atomic_fetch_add(&t->seen[item.producer][item.number], 1);
    }
    return NULL;
}

static void many_threads_lose_double_and_reorder_nothing(void **state)
{
    (void)state;
    struct traffic *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->q = make_queue(sizeof(struct item), 16);
    pthread_t producers[n_producers], consumers[n_consumers];
    for (int i = 0; i < n_consumers; i++)
        assert_int_equal(pthread_create(&consumers[i], NULL, consume, t), 0);
    for (int i = 0; i < n_producers; i++)
        assert_int_equal(pthread_create(&producers[i], NULL, produce, t), 0);
    for (int i = 0; i < n_producers; i++)
        pthread_join(producers[i], NULL);
    queue_close(t->q);
    for (int i = 0; i < n_consumers; i++)
        pthread_join(consumers[i], NULL);
    assert_int_equal(atomic_load(&t->disorder), 0);
    for (int p = 0; p < n_producers; p++)
        for (int i = 0; i < n_each; i++)
            assert_int_equal(atomic_load(&t->seen[p][i]), 1);
    queue_destroy(t->q);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_order_through_many_turns_of_the_ring),
        cmocka_unit_test(a_full_queue_refuses_and_an_empty_one_gives_nothing),
        cmocka_unit_test(items_of_odd_sizes_are_copied_whole),
        cmocka_unit_test(a_pop_waits_about_as_long_as_it_was_told),
        cmocka_unit_test(a_waiting_pop_is_ended_by_a_push_a_wake_and_a_close),
        cmocka_unit_test(a_wake_before_the_pop_is_remembered_once),
        cmocka_unit_test(a_closed_queue_gives_what_it_holds_and_takes_no_more),
        cmocka_unit_test(the_hook_runs_once_for_each_push_that_went_in),
        cmocka_unit_test(many_threads_lose_double_and_reorder_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
