/* loop.h - the event loop: timers, wake-ups from other threads, signals.
 *
 * One thread runs the loop and owns everything that lives on it (listeners,
 * connections, exchanges).  Other threads speak to it in one way only: they
 * put their news into a bounded queue and send a wake-up.
 *
 *     engine thread                         loop thread
 *     queue_push(tokens)                    loop_run
 *     loop_wake_send(wake)  ------------->    on_wake: queue_pop until empty
 *
 * Several sends before the loop comes round are one call of on_wake, so the
 * callback empties its queue; a send is never lost.
 *
 * What would hold the loop up is done beside it by one of a few worker threads,
 * which start with the first such work:
 *
 *     loop thread                            worker
 *     loop_work_start(work)  ------------->    work(context)
 *     done(context)          <-------------
 *
 * Owner:  the thread that calls loop_run.  Only loop_wake_send may be called
 *         from elsewhere.
 * Memory: a timer, a wake-up and a work are one allocation each; firing allocates nothing.
 */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "base/status.h"

#include <stdint.h>

struct loop;
struct loop_timer;
struct loop_wake;
struct loop_work;
struct uv_loop_s;

/* The process ignores SIGPIPE from here on.
 * NO_MEMORY, IO (the system gave no event queue): *out is left untouched. */
MUST_CHECK enum status loop_create(struct loop **out, struct error *err);

/* Ends whatever still closes.  Timers, wake-ups and servers on the loop must have been destroyed before
 * (their last callbacks run here).  NULL is allowed. */
void loop_destroy(struct loop *loop);

/* Serves events until loop_stop, or until nothing is left that could bring one.  May be called again. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);          /* loop thread */

/* For http_*.c, which hang their handles on it. */
struct uv_loop_s *loop_uv(struct loop *loop);

/* A timer calls on_time(context) on the loop thread.  It is created stopped. */
MUST_CHECK enum status loop_timer_create(struct loop_timer **out, struct loop *loop,
                                         void (*on_time)(void *context), void *context,
                                         struct error *err);
/* First call after delay_ms, then every repeat_ms (0: once).  Starting again replaces both. */
void loop_timer_start(struct loop_timer *timer, uint64_t delay_ms, uint64_t repeat_ms);
void loop_timer_stop(struct loop_timer *timer);
void loop_timer_destroy(struct loop_timer *timer);      /* NULL is allowed; on_time is not called again */

/* A wake-up calls on_wake(context) on the loop thread some time after a send. */
MUST_CHECK enum status loop_wake_create(struct loop_wake **out, struct loop *loop,
                                        void (*on_wake)(void *context), void *context,
                                        struct error *err);
void loop_wake_send(struct loop_wake *wake);            /* any thread, any signal handler */

/* Nobody may send any more.  NULL is allowed. */
void loop_wake_destroy(struct loop_wake *wake);

/* work(context) on a worker, some time; then done(context) on the loop thread, before which *out is gone.
 * What work wrote, done sees.
 * NO_MEMORY, IO (the system gave no worker): neither is called. */
MUST_CHECK enum status loop_work_start(struct loop_work **out, struct loop *loop, void (*work)(void *context),
                                       void (*done)(void *context), void *context, struct error *err);

/* Wait until work has returned.  done is not called any more; the loop lets go of the rest when it ends. */
void loop_work_join(struct loop_work *work);

/* From now on SIGTERM and SIGINT call on_signal(context, number) on the loop thread instead of ending the
 * process.  At most once per loop.  IO: the system refused. */
MUST_CHECK enum status loop_signals_start(struct loop *loop, void (*on_signal)(void *context, int number),
                                          void *context, struct error *err);

#endif
