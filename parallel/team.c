#include "parallel/team.h"

#include "base/clock.h"
#include "parallel/comm.h"
#include "parallel/flag_barrier.h"
#include "parallel/futex.h"
#include "parallel/topology.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPINS = 20000, SLEEP_NS = 500000000 };

struct busy {
    _Alignas(64) _Atomic int64_t ns;
};

struct team {
    struct team_options options;
    struct comm *comm;
    struct busy *busy;                  /* [n_ranks] */

    /* written by rank 0, read by the others after `order` changed */
    enum status (*work)(void *context, int rank);
    void *context;
    _Atomic int ended;
    _Alignas(64) _Atomic uint32_t order;        /* number of the step; futex word */
    _Atomic uint32_t n_sleeping;
    _Alignas(64) _Atomic int failure;           /* first status that was not OK */
};

enum status team_create(struct team **out, const struct team_options *options, struct error *err)
{
    struct team *t = aligned_alloc(64, (sizeof *t + 63) / 64 * 64);
    if (t == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a team of %d ranks", options->n_ranks);
    *t = (struct team){ .options = *options };
    t->busy = aligned_alloc(64, (size_t)options->n_ranks * sizeof *t->busy);
    enum status s = t->busy == NULL
        ? fail(err, STATUS_NO_MEMORY, "no memory for a team of %d ranks", options->n_ranks)
        : comm_create(&t->comm, options->n_ranks, options->max_floats, err);
    if (s != STATUS_OK) {
        free(t->busy);
        free(t);
        return s;
    }
    for (int r = 0; r < options->n_ranks; r++)
        atomic_init(&t->busy[r].ns, 0);
    *out = t;
    return STATUS_OK;
}

void team_destroy(struct team *t)
{
    if (t == NULL)
        return;
    comm_destroy(t->comm);
    free(t->busy);
    free(t);
}

int team_size(const struct team *t)
{
    return t->options.n_ranks;
}

struct comm *team_comm(struct team *t)
{
    return t->comm;
}

void team_poison(struct team *t)
{
    int ok = STATUS_OK;
    atomic_compare_exchange_strong(&t->failure, &ok, STATUS_PEER_FAILED);
    comm_poison(t->comm);
}

static void do_work(struct team *t, int rank)
{
    int64_t start = clock_thread_cpu_ns();
    int64_t waited = comm_counters(t->comm, rank).waited_cpu_ns;
    enum status s = t->work(t->context, rank);
    waited = comm_counters(t->comm, rank).waited_cpu_ns - waited;
    atomic_fetch_add_explicit(&t->busy[rank].ns, clock_thread_cpu_ns() - start - waited,
                              memory_order_relaxed);
    if (s != STATUS_OK) {
        int ok = STATUS_OK;
        atomic_compare_exchange_strong(&t->failure, &ok, (int)s);
        comm_poison(t->comm);
    }
}

static void wait_for_order(struct team *t, uint32_t last)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&t->order, memory_order_acquire) != last)
            return;
        spin_pause();
    }
    while (atomic_load(&t->order) == last) {
        atomic_fetch_add(&t->n_sleeping, 1);
        futex_wait(&t->order, last, SLEEP_NS);
        atomic_fetch_sub(&t->n_sleeping, 1);
    }
}

static void give_order(struct team *t)
{
    atomic_fetch_add(&t->order, 1);
    if (atomic_load(&t->n_sleeping) > 0)
        futex_wake_all(&t->order);
}

static void follow(struct team *t, int rank, uint32_t last)
{
    for (;; last++) {
        wait_for_order(t, last);
        /* After a failed step the leader may be here before a rank that is late. */
        if (atomic_load(&t->ended))
            return;
        do_work(t, rank);
        /* The end of a step; a poisoned barrier ends it too. */
        if (comm_barrier(t->comm, rank) != STATUS_OK)
            continue;
    }
}

enum status team_step(struct team *t, enum status (*work)(void *context, int rank), void *context)
{
    if (atomic_load(&t->failure) != STATUS_OK)
        return (enum status)atomic_load(&t->failure);
    t->work = work;
    t->context = context;
    if (t->options.n_ranks > 1)
        give_order(t);
    do_work(t, 0);
    enum status met = comm_barrier(t->comm, 0);
    enum status failure = (enum status)atomic_load(&t->failure);
    return failure != STATUS_OK ? failure : met;
}

enum status team_run(struct team *t, enum status (*lead)(void *context), void *context)
{
    struct topology topology;
    topology_read(&topology);
    int bind = t->options.bind && topology.usable >= t->options.n_ranks;
    enum status result = STATUS_OK;
    uint32_t last_order = atomic_load(&t->order);
    atomic_store(&t->ended, 0);
    omp_set_dynamic(0);
    /* Rank 0 is the caller: it gets its own mask back, and what it starts later
     * does not inherit rank 0's one core. */
    cpu_set_t before;
    int restore = bind && sched_getaffinity(0, sizeof before, &before) == 0;
#pragma omp parallel num_threads(t->options.n_ranks)
    {
        int rank = omp_get_thread_num();
        if (bind)
            topology_bind(rank);
        if (omp_get_num_threads() != t->options.n_ranks) {
            if (rank == 0)
                result = STATUS_PEER_FAILED;
        } else if (rank == 0) {
            result = lead(context);
            atomic_store(&t->ended, 1);
            give_order(t);
        } else {
            follow(t, rank, last_order);
        }
    }
    if (restore)
        sched_setaffinity(0, sizeof before, &before);
    return result;
}

int64_t team_busy_ns(const struct team *t, int rank)
{
    return atomic_load_explicit(&t->busy[rank].ns, memory_order_relaxed);
}
