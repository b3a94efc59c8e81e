/* bench_affinity.h - the processors that the calling thread may use, as they were.
 *
 * A team binds its leader to a core and leaves it there; a later team of another
 * size would count that one core as all there is.  Who runs one team after the other
 * takes the mask before and restores it after.
 *
 * Threads: the one that leads the teams.  Memory: none.
 */
#ifndef BENCH_BENCH_AFFINITY_H
#define BENCH_BENCH_AFFINITY_H

#include <sched.h>

struct bench_affinity {
    cpu_set_t mask;
    int is_known;
};

static inline void bench_affinity_take(struct bench_affinity *affinity)
{
    affinity->is_known = sched_getaffinity(0, sizeof affinity->mask, &affinity->mask) == 0;
}

static inline void bench_affinity_restore(const struct bench_affinity *affinity)
{
    if (affinity->is_known)
        sched_setaffinity(0, sizeof affinity->mask, &affinity->mask);
}

#endif
