#include "bench/bench_probe.h"

#include "base/clock.h"
#include "bench/bench_affinity.h"
#include "parallel/comm.h"
#include "parallel/team.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    SAMPLE_BYTES = 256 << 20,       /* a sample reads at least this much, */
    SAMPLE_ROUNDS = 400000,         /* or does so many rounds */
    LIMIT_BYTES = 256 << 20,        /* of a rank; many times the last-level cache */
    LIMIT_SAMPLES = 3,
};

struct bench_probe {
    struct bench_probe_options options;
    struct bench_affinity affinity;
    struct team *team;
    char *pages;                    /* [n_ranks][bytes] */
    size_t mapped;
    int n_streams, n_passes;        /* of the sample being taken */
    enum peak_kind kind;
    _Atomic int64_t ns;
    double sums;                    /* what was computed, so that it is not left out */
};

struct order {
    struct bench_probe *probe;
    enum status (*work)(void *context, int rank);
};

static enum status lead(void *context)
{
    struct order *order = context;
    return team_step(order->probe->team, order->work, order->probe);
}

static enum status on_ranks(struct bench_probe *p, enum status (*work)(void *context, int rank))
{
    struct order order = { p, work };
    return team_run(p->team, lead, &order);
}

static char *pages_of(const struct bench_probe *p, int rank)
{
    return p->pages + (size_t)rank * p->options.bytes;
}

static enum status touch(void *context, int rank)
{
    struct bench_probe *p = context;
    memset(pages_of(p, rank), 1, p->options.bytes);
    return STATUS_OK;
}

static enum status map_pages(struct bench_probe *p, struct error *err)
{
    if (__builtin_mul_overflow(p->options.bytes, (size_t)p->options.n_ranks, &p->mapped))
        return fail(err, STATUS_NO_MEMORY, "%zu bytes for each of %d ranks do not fit in memory", p->options.bytes,
                    p->options.n_ranks);
    void *map = mmap(NULL, p->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return fail(err, STATUS_NO_MEMORY, "the system refused %zu bytes", p->mapped);
    madvise(map, p->mapped, p->options.small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    p->pages = map;
    enum status s = on_ranks(p, touch);
    return s == STATUS_OK ? s : fail(err, s, "the system gave fewer threads than %d", p->options.n_ranks);
}

enum status bench_probe_create(struct bench_probe **out, const struct bench_probe_options *options,
                               struct error *err)
{
    struct bench_probe *p = calloc(1, sizeof *p);
    if (p == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a probe");
    p->options = *options;
    bench_affinity_take(&p->affinity);
    p->options.bytes = (options->bytes + PAGE - 1) / PAGE * PAGE;
    struct team_options team = { .n_ranks = options->n_ranks, .max_floats = 1, .bind = 1 };
    enum status s = team_create(&p->team, &team, err);
    if (s == STATUS_OK)
        s = map_pages(p, err);
    if (s != STATUS_OK) {
        bench_probe_destroy(p);
        return s;
    }
    *out = p;
    return STATUS_OK;
}

void bench_probe_destroy(struct bench_probe *p)
{
    if (p == NULL)
        return;
    team_destroy(p->team);
    bench_affinity_restore(&p->affinity);
    if (p->pages != NULL)
        munmap(p->pages, p->mapped);
    free(p);
}

/* ---- samples ---- */

static double run_reads(struct bench_probe *p, int rank)
{
    uint32_t sum = 0;
    for (int i = 0; i < p->n_passes; i++)
        sum += p->options.set->read(pages_of(p, rank), p->options.bytes, p->n_streams);
    return sum;
}

static void keep_longest(struct bench_probe *p, int64_t ns)
{
    int64_t seen = atomic_load(&p->ns);
    while (ns > seen && !atomic_compare_exchange_weak(&p->ns, &seen, ns))
        continue;
}

/* The work of a rank between two meetings. */
static enum status timed(struct bench_probe *p, int rank, double (*work)(struct bench_probe *p, int rank))
{
    struct comm *comm = team_comm(p->team);
    TRY(comm_barrier(comm, rank));
    int64_t start = clock_now_ns(), cpu_start = clock_thread_cpu_ns();
    double sum = work(p, rank);
    int64_t cpu_ns = clock_thread_cpu_ns() - cpu_start;
    TRY(comm_barrier(comm, rank));
    keep_longest(p, p->options.cpu_time ? cpu_ns : clock_now_ns() - start);
    if (rank == 0)
        p->sums += sum;
    return STATUS_OK;
}

static enum status sample_reads(void *context, int rank)
{
    return timed(context, rank, run_reads);
}

enum status bench_probe_read(struct bench_probe *p, int n_streams, double *out)
{
    p->n_streams = n_streams;
    p->ns = 0;
    p->n_passes = (int)((SAMPLE_BYTES + p->options.bytes - 1) / p->options.bytes);
    TRY(on_ranks(p, sample_reads));
    *out = (double)p->options.bytes * p->n_passes * p->options.n_ranks / ((double)p->ns / 1e9);
    return STATUS_OK;
}

static double run_rounds(struct bench_probe *p, int rank)
{
    (void)rank;
    return (double)p->options.set->run[p->kind](SAMPLE_ROUNDS);
}

static enum status sample_rounds(void *context, int rank)
{
    return timed(context, rank, run_rounds);
}

enum status bench_probe_peak(struct bench_probe *p, enum peak_kind kind, double *out)
{
    *out = 0;
    if (p->options.set->run[kind] == NULL)
        return STATUS_OK;
    p->kind = kind;
    p->ns = 0;
    TRY(on_ranks(p, sample_rounds));
    *out = (double)p->options.set->per_round[kind] * SAMPLE_ROUNDS * p->options.n_ranks / ((double)p->ns / 1e9);
    return STATUS_OK;
}

/* ---- limits ---- */

static enum status take_limits(struct bench_probe *p, struct bench_limits *out)
{
    *out = (struct bench_limits){ 0 };
    for (int i = 0; i < LIMIT_SAMPLES; i++) {
        struct bench_limits sample;
        TRY(bench_probe_read(p, i % 2 == 0 ? 4 : 8, &sample.read));
        for (int kind = 0; kind < PEAK_N_KINDS; kind++)
            TRY(bench_probe_peak(p, (enum peak_kind)kind, &sample.peak[kind]));
        bench_limits_merge(out, &sample);
    }
    for (int kind = 0; kind < PEAK_N_KINDS; kind++)
        if (out->peak[kind] == 0)
            out->peak[kind] = out->peak[PEAK_F32];
    return STATUS_OK;
}

enum status bench_limits_measure(const struct bench_probe_options *options, struct bench_limits *out,
                                 struct error *err)
{
    struct bench_probe_options filled = *options;
    if (filled.bytes == 0)
        filled.bytes = LIMIT_BYTES;
    struct bench_probe *probe;
    TRY(bench_probe_create(&probe, &filled, err));
    enum status s = take_limits(probe, out);
    bench_probe_destroy(probe);
    return s == STATUS_OK ? s : fail(err, s, "the ranks that measure this machine's limits did not meet");
}

void bench_limits_merge(struct bench_limits *limits, const struct bench_limits *other)
{
    limits->read = fmax(limits->read, other->read);
    for (int kind = 0; kind < PEAK_N_KINDS; kind++)
        limits->peak[kind] = fmax(limits->peak[kind], other->peak[kind]);
}
