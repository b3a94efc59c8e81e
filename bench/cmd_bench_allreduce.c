/* cmd_bench_allreduce.c - `latentd bench allreduce`: barriers and sums across ranks,
 * and what a step costs beside its arithmetic. */
#include "attention/attend.h"
#include "base/clock.h"
#include "bench/bench_affinity.h"
#include "bench/bench_commands.h"
#include "bench/bench_table.h"
#include "bench/bench_tiny.h"
#include "parallel/comm.h"
#include "parallel/team.h"

#include <stdlib.h>
#include <string.h>

struct allreduce_options {
    struct option_ints ranks, sizes;
    int batch, calls, repetitions, format;
};

static const struct option_row rows[] = {
    { "tp", OPTION_INTS(struct allreduce_options, ranks), .fallback = "1,2,4", .min = 1, .max = 32,
      .help = "numbers of ranks; more than there are cores take turns" },
    { "sizes", OPTION_INTS(struct allreduce_options, sizes), .fallback = "64,2048,32768", .min = 1, .max = 1 << 22,
      .value = "FLOATS,..", .help = "numbers that are summed across the ranks" },
    { "batch", OPTION_INT(struct allreduce_options, batch), .fallback = "16", .min = 1, .max = 256,
      .help = "sequences of the tiny model's steps" },
    { "calls", OPTION_INT(struct allreduce_options, calls), .fallback = "2000", .min = 1, .max = 1 << 24,
      .help = "barriers, sums or a hundredth of them as steps, in a sample" },
    { "repetitions", OPTION_INT(struct allreduce_options, repetitions), .fallback = "7", .min = 1, .max = 1000,
      .help = "samples of each row" },
    { "format", OPTION_CHOICE(struct allreduce_options, format), .fallback = "md", .choices = BENCH_FORMAT_CHOICES,
      .help = "of the results" },
};

const struct option_table cmd_bench_allreduce_options = {
    .command = "bench allreduce",
    .help = "barriers, all-reduces, and what a step costs beside arithmetic",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .notes = "Steps are those of a tiny model, its attention shared by heads (32 cached tokens) or by chunks (as many\n"
             "as give every rank a chunk).  \"waits\" is of the rank that waits least; \"beside\" is a layer's time less\n"
             "the time of the same layer on one rank shared out among the ranks: what meeting, exchanging, sharing\n"
             "unevenly and doing twice costs.\n",
};

static const struct bench_column columns[] = {
    BENCH_WORDS("measure"), BENCH_NUMBER("tp", 0), BENCH_NUMBER("size", 0), BENCH_SAMPLES("us", 3),
    BENCH_NUMBER("median us", 3), BENCH_NUMBER("meetings a layer", 1), BENCH_NUMBER("us a layer", 2),
    BENCH_NUMBER("waits, us a layer", 2), BENCH_NUMBER("beside, us a layer", 2),
};

/* ---- collectives ---- */

struct exchange {
    struct team *team;
    const struct allreduce_options *options;
    int n_floats;               /* 0: barriers only */
    struct reduce_plan plan;
    float *sums;                /* [n_ranks][n_floats] */
    struct load_series us;
};

/* Each rank has one node of the tree. */
static void make_plan(struct exchange *e, int n_ranks)
{
    int begin[REDUCE_MAX_LEAVES + 1];
    for (int r = 0; r <= n_ranks; r++)
        begin[r] = r;
    reduce_plan_init(&e->plan, n_ranks, n_ranks, begin);
}

static enum status exchange_on_rank(void *context, int rank)
{
    struct exchange *e = context;
    struct comm *comm = team_comm(e->team);
    size_t n = (size_t)e->n_floats;
    TRY(comm_barrier(comm, rank));
    int64_t start = clock_now_ns();
    for (int i = 0; i < e->options->calls; i++) {
        if (n == 0) {
            TRY(comm_barrier(comm, rank));
            continue;
        }
        memset(comm_outbox(comm, rank), 0, n * sizeof(float));
        TRY(comm_publish(comm, rank, n));
        comm_finish_sum(comm, rank, &e->plan, n, 0, n, e->sums + (size_t)rank * n);
    }
    if (rank == 0)
        load_series_push(&e->us, (double)(clock_now_ns() - start) / 1e3 / e->options->calls);
    return comm_barrier(comm, rank);
}

static enum status lead_exchange(void *context)
{
    struct exchange *e = context;
    for (int i = 0; i < e->options->repetitions; i++)
        TRY(team_step(e->team, exchange_on_rank, e));
    return STATUS_OK;
}

static enum status time_exchange(struct exchange *e, int n_ranks, struct error *err)
{
    struct team_options team = {
        .n_ranks = n_ranks, .max_floats = e->n_floats > 0 ? (size_t)e->n_floats : 1, .bind = 1,
    };
    struct bench_affinity affinity;
    bench_affinity_take(&affinity);
    make_plan(e, n_ranks);
    TRY(team_create(&e->team, &team, err));
    enum status s = team_run(e->team, lead_exchange, e);
    team_destroy(e->team);
    bench_affinity_restore(&affinity);
    return s == STATUS_OK ? s : fail(err, s, "%d ranks could not meet", n_ranks);
}

static enum status print_exchange(const struct allreduce_options *o, int n_ranks, int n_floats,
                                  struct bench_table *t, struct error *err)
{
    struct exchange e = { .options = o, .n_floats = n_floats };
    e.sums = calloc((size_t)n_ranks * (size_t)n_floats + 1, sizeof *e.sums);
    if (e.sums == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for sums of %d numbers on %d ranks", n_floats, n_ranks);
    load_series_init(&e.us, (size_t)o->repetitions);
    enum status s = time_exchange(&e, n_ranks, err);
    if (s == STATUS_OK) {
        struct load_summary summary = load_series_summarise(&e.us);
        bench_table_text(t, n_floats > 0 ? "all-reduce" : "barrier");
        bench_table_number(t, n_ranks);
        bench_table_number(t, n_floats);
        bench_table_summary(t, &summary);
        bench_table_number(t, summary.p50);
        for (int i = 0; i < 4; i++)
            bench_table_none(t);
    }
    load_series_clear(&e.us);
    free(e.sums);
    return s;
}

/* ---- steps ---- */

enum { SHORT_DEPTH = 32 };

/* alone_us: a layer's time on one rank; 0 while that is what is measured. */
static enum status print_steps(const struct allreduce_options *o, struct bench_tiny *tiny, double alone_us,
                               struct bench_table *t, double *median_us, struct error *err)
{
    struct load_series us;
    load_series_init(&us, (size_t)o->repetitions);
    tiny->us = &us;
    enum status s = bench_tiny_run(tiny, err);
    struct load_summary summary = load_series_summarise(&us);
    load_series_clear(&us);
    TRY(s);
    *median_us = summary.p50 / tiny->n_layers;
    bench_table_text(t, tiny->by_chunk ? "step of a tiny model, by chunks" : "step of a tiny model, by heads");
    bench_table_number(t, tiny->n_ranks);
    bench_table_number(t, o->batch);
    bench_table_summary(t, &summary);
    bench_table_number(t, summary.p50);
    bench_table_number(t, tiny->meetings / tiny->n_layers);
    bench_table_number(t, *median_us);
    bench_table_number(t, tiny->waited_us / tiny->n_layers);
    if (alone_us > 0)
        bench_table_number(t, *median_us - alone_us / tiny->n_ranks);
    else
        bench_table_none(t);
    return STATUS_OK;
}

static int has_steps(int64_t n_ranks)
{
    return n_ranks > 1 && bench_tiny_ranks_valid((int)n_ranks);
}

static enum status print_shared(const struct allreduce_options *o, int by_chunk, struct bench_table *t,
                                struct error *err)
{
    struct bench_tiny tiny = {
        .n_ranks = 1, .batch = o->batch, .steps = o->calls / 100 + 1, .repetitions = o->repetitions,
        .by_chunk = by_chunk, .depth = SHORT_DEPTH,
    };
    int most = 1;
    for (int r = 0; r < o->ranks.n; r++)
        most = has_steps(o->ranks.at[r]) && o->ranks.at[r] > most ? (int)o->ranks.at[r] : most;
    if (by_chunk)
        tiny.depth = most * ATTEND_MAX_CHUNK - 1;      /* and the token of the step */
    double alone, other;
    TRY(print_steps(o, &tiny, 0, t, &alone, err));
    for (int r = 0; r < o->ranks.n; r++) {
        tiny.n_ranks = (int)o->ranks.at[r];
        if (has_steps(tiny.n_ranks))
            TRY(print_steps(o, &tiny, alone, t, &other, err));
    }
    return STATUS_OK;
}

static enum status print_all(const struct allreduce_options *o, struct error *err)
{
    struct bench_table table;
    bench_table_begin(&table, stdout, (enum bench_format)o->format, columns, sizeof columns / sizeof columns[0]);
    for (int r = 0; r < o->ranks.n; r++) {
        TRY(print_exchange(o, (int)o->ranks.at[r], 0, &table, err));
        for (int i = 0; i < o->sizes.n; i++)
            TRY(print_exchange(o, (int)o->ranks.at[r], (int)o->sizes.at[i], &table, err));
    }
    TRY(print_shared(o, 0, &table, err));
    TRY(print_shared(o, 1, &table, err));
    return bench_table_end(&table, err);
}

int cmd_bench_allreduce(int argc, char **argv)
{
    struct allreduce_options values = { 0 };
    struct options *options;
    int done = options_begin(&options, &cmd_bench_allreduce_options, argc, argv, &values);
    if (done >= 0)
        return done;
    struct error err = { 0 };
    enum status s = print_all(&values, &err);
    options_destroy(options);
    return bench_exit_code(s, &err);
}
