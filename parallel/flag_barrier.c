#include "parallel/flag_barrier.h"

#include "base/clock.h"
#include "parallel/futex.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPINS = 4000, YIELDS = 100, SLEEP_NS = 50000000, CORRECTING_SPINS = 256 };

struct line {
    _Alignas(64) _Atomic uint32_t arrived;  /* number of the last meeting; futex word */
    _Atomic uint32_t n_sleeping;            /* waiters that sleep on this line */
    _Atomic int64_t waited_ns, waited_cpu_ns;   /* by the owner */
    double spin_ns;                         /* CPU time of one turn of the spin loop; owner only */
};

struct flag_barrier {
    int n_ranks;
    _Alignas(64) _Atomic int poisoned;
    struct line lines[];
};

/* Meetings are numbered modulo 2^32; no rank is ever two ahead of another. */
static int has_arrived(struct line *line, uint32_t meeting)
{
    return (int32_t)(atomic_load_explicit(&line->arrived, memory_order_acquire) - meeting) >= 0;
}

/* Spin until the line shows the meeting, at most SPINS turns; returns the turns. */
static int spin_line(struct line *line, uint32_t meeting)
{
    int turns = 0;
    for (; turns < SPINS && !has_arrived(line, meeting); turns++)
        spin_pause();
    return turns;
}

/* The quickest of a few full spins: what a turn costs when nobody interrupts. */
static double measure_spin(struct line *line)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 4; i++) {
        int64_t start = clock_now_ns();
        spin_line(line, 1);
        int64_t took = clock_now_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best / SPINS;
}

enum status flag_barrier_create(struct flag_barrier **out, int n_ranks, struct error *err)
{
    size_t bytes = sizeof(struct flag_barrier) + (size_t)n_ranks * sizeof(struct line);
    struct flag_barrier *b = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (b == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a barrier of %d ranks", n_ranks);
    b->n_ranks = n_ranks;
    atomic_init(&b->poisoned, 0);
    for (int r = 0; r < n_ranks; r++) {
        atomic_init(&b->lines[r].arrived, 0);
        atomic_init(&b->lines[r].n_sleeping, 0);
        atomic_init(&b->lines[r].waited_ns, 0);
        atomic_init(&b->lines[r].waited_cpu_ns, 0);
    }
    double spin_ns = measure_spin(&b->lines[0]);
    for (int r = 0; r < n_ranks; r++)
        b->lines[r].spin_ns = spin_ns;
    *out = b;
    return STATUS_OK;
}

void flag_barrier_destroy(struct flag_barrier *barrier)
{
    free(barrier);
}

static int wait_line(struct flag_barrier *b, struct line *line, uint32_t meeting)
{
    for (int i = 0; i < YIELDS; i++) {
        if (has_arrived(line, meeting))
            return 1;
        sched_yield();
    }
    for (;;) {
        atomic_fetch_add(&line->n_sleeping, 1);
        uint32_t seen = atomic_load(&line->arrived);
        int arrived = (int32_t)(seen - meeting) >= 0;
        if (!arrived && !atomic_load(&b->poisoned))
            futex_wait(&line->arrived, seen, SLEEP_NS);
        atomic_fetch_sub(&line->n_sleeping, 1);
        if (has_arrived(line, meeting))
            return 1;
        if (atomic_load(&b->poisoned))
            return 0;
    }
}

static void count_wait(struct line *own, int64_t wall, int64_t cpu)
{
    atomic_store_explicit(&own->waited_ns,
                          atomic_load_explicit(&own->waited_ns, memory_order_relaxed) + wall,
                          memory_order_relaxed);
    atomic_store_explicit(&own->waited_cpu_ns,
                          atomic_load_explicit(&own->waited_cpu_ns, memory_order_relaxed) + cpu,
                          memory_order_relaxed);
}

/* CPU time of a spin is its turns: the thread's CPU clock is a system call, read
 * only when the wait is long anyway.  What a turn costs was measured once, perhaps
 * on a busy machine or by an emulator that had not yet translated the loop: a spin
 * that was quicker corrects it, since no CPU time is longer than the time passed. */
static int64_t spin_cpu_ns(struct line *own, int turns, int64_t wall)
{
    if (turns >= CORRECTING_SPINS && (double)wall < turns * own->spin_ns)
        own->spin_ns = (double)wall / turns;
    return (int64_t)(turns * own->spin_ns);
}

/* Wait for one peer. */
static int wait_counted(struct flag_barrier *b, struct line *own, struct line *peer, uint32_t meeting)
{
    int64_t start = clock_now_ns();
    int turns = spin_line(peer, meeting);
    int64_t wall = clock_now_ns() - start;
    int64_t cpu = spin_cpu_ns(own, turns, wall);
    if (turns < SPINS) {
        count_wait(own, wall, cpu);
        return 1;
    }
    cpu -= clock_thread_cpu_ns();
    int met = wait_line(b, peer, meeting);
    count_wait(own, clock_now_ns() - start, cpu + clock_thread_cpu_ns());
    return met;
}

enum status flag_barrier_meet(struct flag_barrier *b, int rank)
{
    struct line *own = &b->lines[rank];
    uint32_t meeting = atomic_load_explicit(&own->arrived, memory_order_relaxed) + 1;
    /* Sequentially consistent: either we see a sleeper, or it sees our store. */
    atomic_store(&own->arrived, meeting);
    if (atomic_load(&own->n_sleeping) > 0)
        futex_wake_all(&own->arrived);
    int met = 1;
    for (int r = 0; r < b->n_ranks && met; r++)
        if (r != rank && !has_arrived(&b->lines[r], meeting))
            met = wait_counted(b, own, &b->lines[r], meeting);
    return met && !atomic_load_explicit(&b->poisoned, memory_order_relaxed) ? STATUS_OK : STATUS_PEER_FAILED;
}

void flag_barrier_poison(struct flag_barrier *b)
{
    atomic_store(&b->poisoned, 1);
    for (int r = 0; r < b->n_ranks; r++)
        futex_wake_all(&b->lines[r].arrived);
}

uint64_t flag_barrier_meetings(const struct flag_barrier *b, int rank)
{
    return atomic_load_explicit(&b->lines[rank].arrived, memory_order_relaxed);
}

int64_t flag_barrier_waited_ns(const struct flag_barrier *b, int rank)
{
    return atomic_load_explicit(&b->lines[rank].waited_ns, memory_order_relaxed);
}

int64_t flag_barrier_waited_cpu_ns(const struct flag_barrier *b, int rank)
{
    return atomic_load_explicit(&b->lines[rank].waited_cpu_ns, memory_order_relaxed);
}
