/* clock.h - time, in nanoseconds.  Threads: any. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_now_ns(void);          /* monotonic; for durations */
int64_t clock_thread_cpu_ns(void);   /* CPU time of the calling thread */
int64_t clock_unix_seconds(void);    /* wall clock; for "created" fields and logs */

#endif
