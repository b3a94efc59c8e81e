#include "base/queue.h"

#include "base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct queue {
    /* fixed at create */
    size_t item_bytes;
    size_t max_items;
    void (*on_push)(void *context);
    void *context;
    char *items;            /* [max_items][item_bytes], a ring */

    /* guarded by lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t head;            /* index of the oldest item */
    size_t count;
    int closed;
    int woken;
};

enum status queue_create(struct queue **out, const struct queue_options *options, struct error *err)
{
    assert(options->item_bytes > 0 && options->max_items > 0);
    struct queue *q = calloc(1, sizeof *q);
    char *items = calloc(options->max_items, options->item_bytes);
    if (q == NULL || items == NULL) {
        free(q);
        free(items);
        return fail(err, STATUS_NO_MEMORY, "no memory for a queue of %zu items", options->max_items);
    }
    q->item_bytes = options->item_bytes;
    q->max_items = options->max_items;
    q->on_push = options->on_push;
    q->context = options->context;
    q->items = items;
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->changed, &attr);
    pthread_condattr_destroy(&attr);
    *out = q;
    return STATUS_OK;
}

void queue_destroy(struct queue *q)
{
    if (q == NULL)
        return;
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q->items);
    free(q);
}

int queue_push(struct queue *q, const void *item)
{
    pthread_mutex_lock(&q->lock);
    int fits = !q->closed && q->count < q->max_items;
    if (fits) {
        size_t at = (q->head + q->count) % q->max_items;
        memcpy(q->items + at * q->item_bytes, item, q->item_bytes);
        q->count++;
        pthread_cond_signal(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    if (fits && q->on_push != NULL)
        q->on_push(q->context);
    return fits;
}

/* Wait until there is something to do; 0 when the deadline has passed. */
static int wait_for_change(struct queue *q, int64_t timeout_ns, int64_t deadline_ns)
{
    if (timeout_ns < 0)
        return pthread_cond_wait(&q->changed, &q->lock) == 0;
    struct timespec until = {
        .tv_sec = (time_t)(deadline_ns / 1000000000),
        .tv_nsec = (long)(deadline_ns % 1000000000),
    };
    return pthread_cond_timedwait(&q->changed, &q->lock, &until) == 0;
}

int queue_pop(struct queue *q, void *item, int64_t timeout_ns)
{
    const int64_t longest = (int64_t)3600 * 24 * 365 * 1000000000;
    int64_t deadline = clock_now_ns() + (timeout_ns < longest ? timeout_ns : longest);
    pthread_mutex_lock(&q->lock);
    while (q->count == 0 && !q->closed && !q->woken && timeout_ns != 0)
        if (!wait_for_change(q, timeout_ns, deadline))
            break;
    int got = q->count > 0;
    if (got) {
        memcpy(item, q->items + q->head * q->item_bytes, q->item_bytes);
        q->head = (q->head + 1) % q->max_items;
        q->count--;
    } else {
        q->woken = 0;
    }
    pthread_mutex_unlock(&q->lock);
    return got;
}

void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = 1;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void queue_wake(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->woken = 1;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

size_t queue_count(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    size_t n = q->count;
    pthread_mutex_unlock(&q->lock);
    return n;
}
