/* test_loop - timers fire, wake-ups from other threads are not lost, signals become calls. */
#include "server/loop.h"

#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

struct probe {
    struct loop *loop;
    struct loop_wake *wake;
    struct loop_timer *timer;
    int n_calls;
    int last_signal;
    atomic_int n_sent, n_seen;
};

static void stop_at_three(void *context)
{
    struct probe *probe = context;
    if (++probe->n_calls == 3)
        loop_stop(probe->loop);
}

static void a_timer_fires_once_or_again_and_again(void **state)
{
    (void)state;
    struct probe probe = { .n_calls = 0 };
    assert_int_equal(loop_create(&probe.loop, NULL), STATUS_OK);
    assert_int_equal(loop_timer_create(&probe.timer, probe.loop, stop_at_three, &probe, NULL), STATUS_OK);
    int64_t start = clock_now_ns();
    loop_timer_start(probe.timer, 20, 10);
    loop_run(probe.loop);
    assert_int_equal(probe.n_calls, 3);
    assert_in_range((clock_now_ns() - start) / 1000000, 38, 3000);

    loop_timer_start(probe.timer, 1, 0);
    loop_run(probe.loop);           /* returns by itself: nothing is left to wait for */
    assert_int_equal(probe.n_calls, 4);
    loop_timer_start(probe.timer, 1, 1);
    loop_timer_stop(probe.timer);
    loop_run(probe.loop);
    assert_int_equal(probe.n_calls, 4);
    loop_timer_destroy(probe.timer);
    loop_destroy(probe.loop);
}

#define N_SENDS 20000

static void *send_many(void *context)
{
    struct probe *probe = context;
    for (int i = 0; i < N_SENDS; i++) {
        atomic_fetch_add(&probe->n_sent, 1);
        loop_wake_send(probe->wake);
    }
    return NULL;
}

static void see_all(void *context)
{
    struct probe *probe = context;
    atomic_store(&probe->n_seen, atomic_load(&probe->n_sent));
    if (atomic_load(&probe->n_seen) == 2 * N_SENDS)
        loop_stop(probe->loop);
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    struct probe probe = { .n_calls = 0 };
    pthread_t threads[2];
    assert_int_equal(loop_create(&probe.loop, NULL), STATUS_OK);
    assert_int_equal(loop_wake_create(&probe.wake, probe.loop, see_all, &probe, NULL), STATUS_OK);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, send_many, &probe);
    loop_run(probe.loop);           /* would wait for ever if the last one were lost */
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&probe.n_seen), 2 * N_SENDS);
    loop_wake_destroy(probe.wake);
    loop_destroy(probe.loop);
}

static void note_signal(void *context, int number)
{
    struct probe *probe = context;
    probe->last_signal = number;
    loop_stop(probe->loop);
}

static void raise_signal(void *context)
{
    struct probe *probe = context;
    kill(getpid(), probe->n_calls++ == 0 ? SIGTERM : SIGINT);
}

static void signals_become_calls(void **state)
{
    (void)state;
    struct probe probe = { .n_calls = 0 };
    assert_int_equal(loop_create(&probe.loop, NULL), STATUS_OK);
    assert_int_equal(loop_signals_start(probe.loop, note_signal, &probe, NULL), STATUS_OK);
    assert_int_equal(loop_timer_create(&probe.timer, probe.loop, raise_signal, &probe, NULL), STATUS_OK);
    static const int expected[] = { SIGTERM, SIGINT };
    for (int i = 0; i < 2; i++) {
        loop_timer_start(probe.timer, 1, 1000);     /* repeats, so that the loop has something to wait for */
        loop_run(probe.loop);
        assert_int_equal(probe.last_signal, expected[i]);
    }
    loop_timer_destroy(probe.timer);
    loop_destroy(probe.loop);
}

/* ---- work beside the loop ---- */

struct errand {
    struct loop *loop;
    pthread_t loop_thread;
    atomic_int may_end, has_begun, has_ended;
    int is_elsewhere;               /* work ran on another thread */
    int n_done;
    int saw_end;                    /* done came after the end of work */
};

static void do_errand(void *context)
{
    struct errand *e = context;
    e->is_elsewhere = !pthread_equal(pthread_self(), e->loop_thread);
    atomic_store(&e->has_begun, 1);
    while (!atomic_load(&e->may_end))
        usleep(100);
    atomic_store(&e->has_ended, 1);
}

static void errand_done(void *context)
{
    struct errand *e = context;
    e->saw_end = atomic_load(&e->has_ended);
    e->n_done++;
}

static void let_errand_end(void *context)
{
    struct errand *e = context;
    assert_int_equal(e->n_done, 0);
    atomic_store(&e->may_end, 1);
}

static void work_is_done_beside_the_loop(void **state)
{
    (void)state;
    struct errand e = { .loop_thread = pthread_self() };
    struct loop_work *work;
    struct loop_timer *timer;
    assert_int_equal(loop_create(&e.loop, NULL), STATUS_OK);
    assert_int_equal(loop_work_start(&work, e.loop, do_errand, errand_done, &e, NULL), STATUS_OK);
    /* The loop turns while the work goes on: only its timer lets the work end. */
    assert_int_equal(loop_timer_create(&timer, e.loop, let_errand_end, &e, NULL), STATUS_OK);
    loop_timer_start(timer, 5, 0);
    loop_run(e.loop);
    assert_true(e.is_elsewhere && e.saw_end);
    assert_int_equal(e.n_done, 1);
    loop_timer_destroy(timer);
    loop_destroy(e.loop);
}

static void *end_errand_soon(void *context)
{
    usleep(5000);
    atomic_store(&((struct errand *)context)->may_end, 1);
    return NULL;
}

static void joined_work_has_ended_and_says_nothing(void **state)
{
    (void)state;
    struct errand e = { .loop_thread = pthread_self() };
    struct loop_work *work;
    pthread_t ender;
    assert_int_equal(loop_create(&e.loop, NULL), STATUS_OK);
    assert_int_equal(loop_work_start(&work, e.loop, do_errand, errand_done, &e, NULL), STATUS_OK);
    while (!atomic_load(&e.has_begun))
        usleep(100);
    pthread_create(&ender, NULL, end_errand_soon, &e);
    loop_work_join(work);
    assert_int_equal(atomic_load(&e.has_ended), 1);
    pthread_join(ender, NULL);
    loop_destroy(e.loop);
    assert_int_equal(e.n_done, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_fires_once_or_again_and_again),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(signals_become_calls),
        cmocka_unit_test(work_is_done_beside_the_loop),
        cmocka_unit_test(joined_work_has_ended_and_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
