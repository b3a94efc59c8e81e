/* queue.h - a bounded hand-over of fixed-size items between threads.
 *
 * Any thread may push and pop; items come out in the order they went in.
 * Memory: one allocation at create; push copies the item in, pop copies it out.
 *
 * After a successful push the queue calls on_push (if given) outside its lock:
 * the wake-up of a consumer that does not wait in queue_pop (a libuv loop).
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct queue;                       /* opaque */

struct queue_options {
    size_t item_bytes;              /* > 0 */
    size_t max_items;               /* > 0 */
    void (*on_push)(void *context); /* may be NULL; called by the pushing thread */
    void *context;
};

MUST_CHECK enum status queue_create(struct queue **out, const struct queue_options *options,
                                    struct error *err);
void queue_destroy(struct queue *queue);        /* NULL is allowed */

/* 1: copied in.  0: full or closed, nothing changed. */
int queue_push(struct queue *queue, const void *item);

/* 1: copied out.  0: nothing came within timeout_ns (0: do not wait, negative:
 * wait without limit), or the queue is closed and empty. */
int queue_pop(struct queue *queue, void *item, int64_t timeout_ns);

/* No more pushes; waiting pops return once the queue is empty. */
void queue_close(struct queue *queue);

/* Make one waiting (or the next) queue_pop return 0 early. */
void queue_wake(struct queue *queue);

size_t queue_count(struct queue *queue);

#endif
