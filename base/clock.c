#include "base/clock.h"

#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_thread_cpu_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t clock_unix_seconds(void)
{
    return (int64_t)time(NULL);
}
