/* interrupt.h - Ctrl-C as a question that a long computation asks, not a handler.
 *
 * SIGINT and SIGTERM are held back from the calling thread, and from threads it
 * starts afterwards, and are read from a descriptor.  The first one is reported;
 * after it the signals do again what they did before, so that a second Ctrl-C
 * ends a program that does not come to ask.
 *
 * Owner: one thread.  Memory: none.
 */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include "base/status.h"

#include <signal.h>

struct interrupt {
    int fd;                     /* signalfd, or -1 */
    int has_come;
    sigset_t before;            /* the thread's mask */
};

/* IO: no descriptor; the signals are untouched. */
MUST_CHECK enum status interrupt_open(struct interrupt *interrupt, struct error *err);

/* Did one come since interrupt_open?  Never waits. */
int interrupt_has_come(struct interrupt *interrupt);

void interrupt_close(struct interrupt *interrupt);

#endif
