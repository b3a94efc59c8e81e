/* test_team - ranks, barriers and collectives: more ranks than cores, poison, and nobody left waiting. */
#include "parallel/comm.h"
#include "parallel/team.h"
#include "parallel/topology.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_RANKS = 8, N_STEPS = 200, N_FLOATS = 700 };
/* The CPU clock of a thread may go in the ticks of the scheduler. */
enum { CLOCK_SLACK_NS = 20000000 };

struct shared {
    struct team *team;
    int n_ranks;
    int failing_rank;               /* -1: none */
    _Atomic int calls[MAX_RANKS];
    float sums[MAX_RANKS][N_FLOATS];
    int steps_done;
};

static struct team *open_team(int n_ranks)
{
    struct team *team;
    struct team_options options = { .n_ranks = n_ranks, .max_floats = N_FLOATS * 4 };
    assert_int_equal(team_create(&team, &options, NULL), STATUS_OK);
    return team;
}

/* Everybody publishes rank + 1 in one node a leaf; the sum is the same for all. */
static enum status sum_work(void *context, int rank)
{
    struct shared *s = context;
    struct comm *comm = team_comm(s->team);
    atomic_fetch_add(&s->calls[rank], 1);
    if (rank == s->failing_rank)
        return STATUS_INTERNAL;
    int begin[MAX_RANKS + 1];
    for (int r = 0; r <= s->n_ranks; r++)
        begin[r] = r;
    struct reduce_plan plan;
    reduce_plan_init(&plan, s->n_ranks, s->n_ranks, begin);
    for (int round = 0; round < 5; round++) {
        float *out = comm_outbox(comm, rank);
        for (int i = 0; i < N_FLOATS; i++)
            out[i] = (float)((rank + 1) * (i + round));
        TRY(comm_publish(comm, rank, N_FLOATS));
        /* In two pieces, as a reader may take them. */
        comm_finish_sum(comm, rank, &plan, N_FLOATS, 0, N_FLOATS / 3, s->sums[rank]);
        comm_finish_sum(comm, rank, &plan, N_FLOATS, N_FLOATS / 3, N_FLOATS - N_FLOATS / 3,
                        s->sums[rank] + N_FLOATS / 3);
        float all = (float)(s->n_ranks * (s->n_ranks + 1) / 2);
        for (int i = 0; i < N_FLOATS; i++)
            if (s->sums[rank][i] != all * (float)(i + round))
                return STATUS_INTERNAL;
    }
    return STATUS_OK;
}

static enum status many_steps(void *context)
{
    struct shared *s = context;
    for (int i = 0; i < N_STEPS; i++) {
        TRY(team_step(s->team, sum_work, s));
        s->steps_done++;
    }
    return STATUS_OK;
}

static void every_rank_gets_the_same_sum_also_with_more_ranks_than_cores(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_RANKS; n *= 2) {
        struct shared s = { .team = open_team(n), .n_ranks = n, .failing_rank = -1 };
        assert_int_equal(team_run(s.team, many_steps, &s), STATUS_OK);
        assert_int_equal(s.steps_done, N_STEPS);
        for (int r = 0; r < n; r++) {
            assert_int_equal(atomic_load(&s.calls[r]), N_STEPS);
            struct comm_counters c = comm_counters(team_comm(s.team), r);
            assert_true(c.bytes_sent == (uint64_t)(n - 1) * N_STEPS * 5 * N_FLOATS * 4);
            assert_true(team_busy_ns(s.team, r) > 0);
            assert_true(c.waited_cpu_ns <= c.waited_ns + CLOCK_SLACK_NS);
        }
        team_destroy(s.team);
    }
}

static void a_team_runs_again_after_it_ended(void **state)
{
    (void)state;
    struct shared s = { .team = open_team(3), .n_ranks = 3, .failing_rank = -1 };
    for (int i = 0; i < 5; i++)
        assert_int_equal(team_run(s.team, many_steps, &s), STATUS_OK);
    assert_int_equal(s.steps_done, 5 * N_STEPS);
    team_destroy(s.team);
}

static void a_failed_rank_poisons_the_team_and_nobody_waits(void **state)
{
    (void)state;
    for (int failing = 0; failing < 4; failing++) {
        struct shared s = { .team = open_team(4), .n_ranks = 4, .failing_rank = failing };
        assert_int_equal(team_run(s.team, many_steps, &s), STATUS_INTERNAL);
        assert_int_equal(s.steps_done, 0);
        assert_int_equal(comm_barrier(team_comm(s.team), 0), STATUS_PEER_FAILED);
        team_destroy(s.team);
    }
}

static enum status poison_then_step(void *context)
{
    struct shared *s = context;
    team_poison(s->team);
    return team_step(s->team, sum_work, s);
}

static void a_poisoned_team_takes_no_step(void **state)
{
    (void)state;
    struct shared s = { .team = open_team(2), .n_ranks = 2, .failing_rank = -1 };
    assert_int_equal(team_run(s.team, poison_then_step, &s), STATUS_PEER_FAILED);
    assert_int_equal(atomic_load(&s.calls[0]), 0);
    team_destroy(s.team);
}

static enum status do_nothing(void *context)
{
    (void)context;
    return STATUS_OK;
}

static void the_caller_keeps_its_processors(void **state)
{
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    struct team *team;
    struct team_options options = { .n_ranks = 1, .max_floats = 1, .bind = 1 };
    assert_int_equal(team_create(&team, &options, NULL), STATUS_OK);
    assert_int_equal(team_run(team, do_nothing, NULL), STATUS_OK);
    team_destroy(team);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void the_topology_has_a_usable_core(void **state)
{
    (void)state;
    struct topology t;
    topology_read(&t);
    assert_true(t.usable >= 1 && t.usable <= t.n_cores && t.n_cores <= t.n_processors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gets_the_same_sum_also_with_more_ranks_than_cores),
        cmocka_unit_test(a_team_runs_again_after_it_ended),
        cmocka_unit_test(a_failed_rank_poisons_the_team_and_nobody_waits),
        cmocka_unit_test(a_poisoned_team_takes_no_step),
        cmocka_unit_test(the_caller_keeps_its_processors),
        cmocka_unit_test(the_topology_has_a_usable_core),
    };
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
