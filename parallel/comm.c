#include "parallel/comm.h"

#include "parallel/flag_barrier.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SUM_BLOCK = 128,            /* elements added up together, and fetched ahead from other cores */
    LINE = 16,                  /* floats of a cache line */
};

struct rank_state {
    _Alignas(64) unsigned turn;         /* own thread only: outbox turn % 2 is being written */
    _Atomic uint64_t bytes_sent;
};

struct comm {
    int n_ranks;
    size_t max_floats;
    struct flag_barrier *barrier;
    struct rank_state *ranks;
    float *boxes;                       /* [n_ranks][2][max_floats] */
    size_t mapped;
};

enum status comm_create(struct comm **out, int n_ranks, size_t max_floats, struct error *err)
{
    struct comm *c = calloc(1, sizeof *c);
    if (c == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the collectives of %d ranks", n_ranks);
    max_floats = (max_floats + 15) & ~(size_t)15;
    *c = (struct comm){ .n_ranks = n_ranks, .max_floats = max_floats };
    c->mapped = (size_t)n_ranks * 2 * max_floats * sizeof(float) + 64;
    c->ranks = aligned_alloc(64, (size_t)n_ranks * sizeof *c->ranks);
    void *map = mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    c->boxes = map == MAP_FAILED ? NULL : map;
    enum status s = flag_barrier_create(&c->barrier, n_ranks, err);
    if (s == STATUS_OK && (c->ranks == NULL || c->boxes == NULL))
        s = fail(err, STATUS_NO_MEMORY, "no memory for %d outboxes of %zu floats", n_ranks, max_floats);
    if (s != STATUS_OK) {
        comm_destroy(c);
        return s;
    }
    for (int r = 0; r < n_ranks; r++) {
        c->ranks[r].turn = 0;
        atomic_init(&c->ranks[r].bytes_sent, 0);
    }
    *out = c;
    return STATUS_OK;
}

void comm_destroy(struct comm *c)
{
    if (c == NULL)
        return;
    flag_barrier_destroy(c->barrier);
    if (c->boxes != NULL)
        munmap(c->boxes, c->mapped);
    free(c->ranks);
    free(c);
}

int comm_size(const struct comm *c)
{
    return c->n_ranks;
}

static float *box(const struct comm *c, int rank, unsigned turn)
{
    return c->boxes + ((size_t)rank * 2 + turn % 2) * c->max_floats;
}

float *comm_outbox(struct comm *c, int rank)
{
    return box(c, rank, c->ranks[rank].turn);
}

enum status comm_publish(struct comm *c, int rank, size_t n_floats)
{
    assert(n_floats <= c->max_floats);
    uint64_t bytes = (uint64_t)n_floats * sizeof(float) * (uint64_t)(c->n_ranks - 1);
    atomic_fetch_add_explicit(&c->ranks[rank].bytes_sent, bytes, memory_order_relaxed);
    c->ranks[rank].turn++;
    return comm_barrier(c, rank);
}

const float *comm_inbox(const struct comm *c, int rank, int peer)
{
    return box(c, peer, c->ranks[rank].turn - 1);
}

/* to = a + b; to may be either. */
static void add_block(float *to, const float *a, const float *b, size_t n)
{
    typedef float wide __attribute__((vector_size(64), aligned(4), may_alias));
    enum { WIDTH = sizeof(wide) / sizeof(float) };
    size_t e = 0;
    for (; e + WIDTH <= n; e += WIDTH)
        *(wide *)(to + e) = *(const wide *)(a + e) + *(const wide *)(b + e);
    for (; e < n; e++)
        to[e] = a[e] + b[e];
}

/* Nodes stay where they are until they are added; the last addition goes to `sum`. */
void comm_finish_sum(const struct comm *c, int rank, const struct reduce_plan *plan, size_t node_stride,
                     size_t first, size_t count, float *sum)
{
    float made[REDUCE_MAX_DEPTH + 1][SUM_BLOCK];
    for (size_t end = first + count, n; first < end; first += n, sum += n) {
        n = end - first < SUM_BLOCK ? end - first : SUM_BLOCK;
        const float *stack[REDUCE_MAX_DEPTH + 1] = { NULL };
        int top = 0;
        for (int i = 0; i < plan->n_steps; i++) {
            const float *node = comm_inbox(c, rank, plan->steps[i].part) + plan->steps[i].node * node_stride + first;
            for (size_t e = SUM_BLOCK; e < 2 * SUM_BLOCK; e += LINE)
                __builtin_prefetch(node + e);
            stack[top++] = node;
            for (int m = 0; m < plan->steps[i].n_merges; m++, top--) {
                float *to = top == 2 && i == plan->n_steps - 1 ? sum : made[top - 2];
                add_block(to, stack[top - 2], stack[top - 1], n);
                stack[top - 2] = to;
            }
        }
        if (stack[0] != sum)
            memcpy(sum, stack[0], n * sizeof *sum);
    }
}

enum status comm_barrier(struct comm *c, int rank)
{
    return flag_barrier_meet(c->barrier, rank);
}

void comm_poison(struct comm *c)
{
    flag_barrier_poison(c->barrier);
}

struct comm_counters comm_counters(const struct comm *c, int rank)
{
    return (struct comm_counters){
        .meetings = flag_barrier_meetings(c->barrier, rank),
        .bytes_sent = atomic_load_explicit(&c->ranks[rank].bytes_sent, memory_order_relaxed),
        .waited_ns = flag_barrier_waited_ns(c->barrier, rank),
        .waited_cpu_ns = flag_barrier_waited_cpu_ns(c->barrier, rank),
    };
}
