#include "bench/compare_collective.h"

#include "base/arena.h"
#include "base/clock.h"
#include "parallel/comm.h"
#include "parallel/team.h"

#include <string.h>

/* A round in which another process had a core is slow, so the best of several
 * is taken; on a machine that is never quiet LIMIT_NS ends the search. */
enum { REPEATS = 9, BARRIERS = 200, ROUNDS = 25, LIMIT_NS = 500000000 };

/* ---- a barrier ---- */

struct barrier_run {
    struct team *team;
    int64_t best_ns;
    int is_over;                /* written by rank 0 before a barrier, read by all after it */
};

static enum status meet(void *context, int rank)
{
    struct barrier_run *run = context;
    int64_t begin = clock_now_ns();
    for (int round = 0; round < ROUNDS && !run->is_over; round++) {
        int64_t start = clock_now_ns();
        for (int i = 0; i < BARRIERS; i++)
            TRY(comm_barrier(team_comm(run->team), rank));
        int64_t spent = clock_now_ns() - start;
        if (rank == 0 && (run->best_ns == 0 || spent < run->best_ns))
            run->best_ns = spent;
        if (rank == 0)
            run->is_over = clock_now_ns() - begin > LIMIT_NS;
        TRY(comm_barrier(team_comm(run->team), rank));
    }
    return STATUS_OK;
}

static enum status lead_barriers(void *context)
{
    struct barrier_run *run = context;
    return team_step(run->team, meet, run);
}

enum status compare_barrier_ns(int n_cores, double *out, struct error *err)
{
    *out = 0;
    if (n_cores < 2)
        return STATUS_OK;
    struct team_options options = { .n_ranks = 2, .max_floats = 16, .bind = 1 };
    struct barrier_run run = { 0 };
    TRY(team_create(&run.team, &options, err));
    enum status s = team_run(run.team, lead_barriers, &run);
    team_destroy(run.team);
    if (s != STATUS_OK)
        return fail(err, s, "two threads could not meet at a barrier");
    *out = (double)run.best_ns / BARRIERS;
    return STATUS_OK;
}

/* ---- the exchanges of a step ---- */

struct exchange_run {
    const struct compare_work *works;
    const struct kernels *kernels;
    struct team *team;
    int n_ranks;
    float *data;                            /* [n_ranks][stride]: what is sent, and what sums go to */
    size_t stride;
    int64_t best_ns[COMPARE_MAX_RANKS];     /* of a rank: its quickest repetition */
};

/* Read `n` numbers, as even a share as there is from every outbox. */
static void read_outboxes(struct exchange_run *run, int rank, int64_t n, float *sum)
{
    int64_t done = 0;
    for (int peer = 0; peer < run->n_ranks; peer++) {
        int64_t end = n * (peer + 1) / run->n_ranks;
        int64_t held = 0;
        for (int e = 0; e < run->works[peer].n_exchanges; e++)
            held = run->works[peer].exchanges[e].sent > held ? run->works[peer].exchanges[e].sent : held;
        for (int64_t left = end - done; left > 0 && held > 0; left -= held) {
            int part = (int)(left < held ? left : held);
            run->kernels->add(sum, comm_inbox(team_comm(run->team), rank, peer), part);
        }
        done = end;
    }
}

static enum status exchange(void *context, int rank)
{
    struct exchange_run *run = context;
    const struct compare_work *w = &run->works[rank];
    struct comm *comm = team_comm(run->team);
    float *data = run->data + (size_t)rank * run->stride;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        int64_t waited = comm_counters(comm, rank).waited_cpu_ns, start = clock_thread_cpu_ns();
        for (int e = 0; e < w->n_exchanges; e++) {
            memcpy(comm_outbox(comm, rank), data, (size_t)w->exchanges[e].sent * sizeof *data);
            TRY(comm_publish(comm, rank, (size_t)w->exchanges[e].sent));
            read_outboxes(run, rank, w->exchanges[e].read, data);
        }
        int64_t spent = clock_thread_cpu_ns() - start - (comm_counters(comm, rank).waited_cpu_ns - waited);
        if (repeat == 0 || spent < run->best_ns[rank])
            run->best_ns[rank] = spent;
    }
    return STATUS_OK;
}

static enum status lead_exchanges(void *context)
{
    struct exchange_run *run = context;
    return team_step(run->team, exchange, run);
}

static int64_t largest_sent(const struct compare_work *works, int n_ranks)
{
    int64_t most = 16;
    for (int rank = 0; rank < n_ranks; rank++)
        for (int e = 0; e < works[rank].n_exchanges; e++)
            most = works[rank].exchanges[e].sent > most ? works[rank].exchanges[e].sent : most;
    return most;
}

enum status compare_collectives_ns(const struct compare_work *works, int n_ranks, const struct kernels *kernels,
                                   double barrier_ns, double *out, struct error *err)
{
    *out = 0;
    if (n_ranks == 1 || works[0].n_exchanges == 0)
        return STATUS_OK;
    struct exchange_run run = { .works = works, .kernels = kernels, .n_ranks = n_ranks };
    run.stride = ((size_t)largest_sent(works, n_ranks) + 15) & ~(size_t)15;
    struct arena arena;
    arena_init(&arena);
    struct team_options options = { .n_ranks = n_ranks, .max_floats = run.stride };
    enum status s = ARENA_ARRAY(&arena, run.stride * (size_t)n_ranks, &run.data, err);
    if (s == STATUS_OK)
        s = team_create(&run.team, &options, err);
    if (s == STATUS_OK) {
        s = team_run(run.team, lead_exchanges, &run);
        if (s != STATUS_OK)
            fail(err, s, "%d threads could not run the collectives of a step", n_ranks);
        team_destroy(run.team);
    }
    arena_clear(&arena);
    TRY(s);
    int64_t slowest = 0;
    for (int rank = 0; rank < n_ranks; rank++)
        slowest = run.best_ns[rank] > slowest ? run.best_ns[rank] : slowest;
    int repeats = works[0].exchanges[0].repeats;
    *out = repeats * ((double)(slowest > 0 ? slowest : 0) + works[0].n_exchanges * barrier_ns);
    return STATUS_OK;
}
