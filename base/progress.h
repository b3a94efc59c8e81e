/* progress.h - what a person sees while something takes longer than a second.
 *
 * On a terminal a bar that redraws itself; elsewhere a log line every few
 * seconds.  Nothing in the first second: quick work stays quiet.
 *
 *   loading models/big  [############........]  61 %   1.0 of 1.6 GB   4 s left
 *
 * Owner: one thread.  Memory: none.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

struct progress {
    const char *what;           /* "loading models/big"; borrowed */
    int64_t started_ns, shown_ns;
    int is_terminal;            /* of stderr */
    int has_bar;                /* a bar is on the screen and must be ended */
};

void progress_start(struct progress *p, const char *what);
void progress_update(struct progress *p, size_t done, size_t total);    /* bytes; cheap to call often */
void progress_end(struct progress *p);

#endif
