#include "server/loop.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <uv.h>

static const int caught_signals[] = { SIGTERM, SIGINT };
#define N_CAUGHT (sizeof caught_signals / sizeof caught_signals[0])

struct loop {
    uv_loop_t uv;
    uv_signal_t signals[N_CAUGHT];
    int n_signals;                  /* how many of them are started */
    void (*on_signal)(void *context, int number);
    void *signal_context;
};

struct loop_timer {
    uv_timer_t uv;
    void (*on_time)(void *context);
    void *context;
};

struct loop_wake {
    uv_async_t uv;
    void (*on_wake)(void *context);
    void *context;
};

struct loop_work {
    uv_work_t uv;
    uv_sem_t has_run;
    void (*work)(void *context);
    void (*done)(void *context);    /* NULL: nobody wants to know any more */
    void *context;
};

enum status loop_create(struct loop **out, struct error *err)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the event loop");
    int code = uv_loop_init(&loop->uv);
    if (code != 0) {
        free(loop);
        return fail(err, STATUS_IO, "cannot create the event loop: %s", uv_strerror(code));
    }
    signal(SIGPIPE, SIG_IGN);   /* a write to a client that left is an error code, not the end */
    *out = loop;
    return STATUS_OK;
}

void loop_destroy(struct loop *loop)
{
    if (loop == NULL)
        return;
    for (int i = 0; i < loop->n_signals; i++)
        uv_close((uv_handle_t *)&loop->signals[i], NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);      /* what still closes is all that is left */
    int code = uv_loop_close(&loop->uv);
    assert(code == 0 && "a timer, wake-up or server outlived its loop");
    (void)code;
    free(loop);
}

void loop_run(struct loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *loop)
{
    uv_stop(&loop->uv);
}

struct uv_loop_s *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

/* The handle is the first field of timer and wake-up, so its address is theirs. */
static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void on_uv_time(uv_timer_t *uv)
{
    struct loop_timer *timer = (struct loop_timer *)uv;
    timer->on_time(timer->context);
}

enum status loop_timer_create(struct loop_timer **out, struct loop *loop, void (*on_time)(void *context),
                              void *context, struct error *err)
{
    struct loop_timer *timer = malloc(sizeof *timer);
    if (timer == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a timer");
    uv_timer_init(&loop->uv, &timer->uv);
    timer->on_time = on_time;
    timer->context = context;
    *out = timer;
    return STATUS_OK;
}

void loop_timer_start(struct loop_timer *timer, uint64_t delay_ms, uint64_t repeat_ms)
{
    uv_timer_start(&timer->uv, on_uv_time, delay_ms, repeat_ms);
}

void loop_timer_stop(struct loop_timer *timer)
{
    uv_timer_stop(&timer->uv);
}

void loop_timer_destroy(struct loop_timer *timer)
{
    if (timer != NULL)
        uv_close((uv_handle_t *)&timer->uv, free_handle);
}

static void on_uv_wake(uv_async_t *uv)
{
    struct loop_wake *wake = (struct loop_wake *)uv;
    wake->on_wake(wake->context);
}

enum status loop_wake_create(struct loop_wake **out, struct loop *loop, void (*on_wake)(void *context),
                             void *context, struct error *err)
{
    struct loop_wake *wake = malloc(sizeof *wake);
    if (wake == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a wake-up");
    int code = uv_async_init(&loop->uv, &wake->uv, on_uv_wake);
    if (code != 0) {
        free(wake);
        return fail(err, STATUS_IO, "cannot create a wake-up: %s", uv_strerror(code));
    }
    wake->on_wake = on_wake;
    wake->context = context;
    *out = wake;
    return STATUS_OK;
}

void loop_wake_send(struct loop_wake *wake)
{
    uv_async_send(&wake->uv);
}

void loop_wake_destroy(struct loop_wake *wake)
{
    if (wake != NULL)
        uv_close((uv_handle_t *)&wake->uv, free_handle);
}

static void run_work(uv_work_t *uv)
{
    struct loop_work *work = (struct loop_work *)uv;
    work->work(work->context);
    uv_sem_post(&work->has_run);
}

static void after_work(uv_work_t *uv, int code)
{
    struct loop_work *work = (struct loop_work *)uv;
    void (*done)(void *context) = work->done;
    void *context = work->context;
    (void)code;                     /* nothing is cancelled, so it has run */
    uv_sem_destroy(&work->has_run);
    free(work);
    if (done != NULL)
        done(context);
}

enum status loop_work_start(struct loop_work **out, struct loop *loop, void (*work)(void *context),
                            void (*done)(void *context), void *context, struct error *err)
{
    struct loop_work *w = malloc(sizeof *w);
    if (w == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a worker's work");
    w->work = work;
    w->done = done;
    w->context = context;
    int code = uv_sem_init(&w->has_run, 0);
    if (code != 0) {
        free(w);
        return fail(err, STATUS_IO, "cannot hand work to a worker: %s", uv_strerror(code));
    }
    code = uv_queue_work(&loop->uv, &w->uv, run_work, after_work);
    if (code != 0) {
        uv_sem_destroy(&w->has_run);
        free(w);
        return fail(err, STATUS_IO, "cannot hand work to a worker: %s", uv_strerror(code));
    }
    *out = w;
    return STATUS_OK;
}

void loop_work_join(struct loop_work *work)
{
    uv_sem_wait(&work->has_run);
    work->done = NULL;
}

static void on_uv_signal(uv_signal_t *uv, int number)
{
    struct loop *loop = uv->data;
    loop->on_signal(loop->signal_context, number);
}

enum status loop_signals_start(struct loop *loop, void (*on_signal)(void *context, int number),
                               void *context, struct error *err)
{
    assert(loop->n_signals == 0);
    loop->on_signal = on_signal;
    loop->signal_context = context;
    for (size_t i = 0; i < N_CAUGHT; i++) {
        uv_signal_init(&loop->uv, &loop->signals[i]);
        loop->signals[i].data = loop;
        loop->n_signals++;
        int code = uv_signal_start(&loop->signals[i], on_uv_signal, caught_signals[i]);
        if (code != 0)
            return fail(err, STATUS_IO, "cannot catch signal %d: %s", caught_signals[i], uv_strerror(code));
        uv_unref((uv_handle_t *)&loop->signals[i]);
    }
    return STATUS_OK;
}
