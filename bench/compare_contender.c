#include "bench/compare_contender.h"

#include "base/clock.h"
#include "bench/compare_collective.h"
#include "parallel/comm.h"
#include "parallel/team.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 15 };

/* One rank's step in one sample. */
struct sample {
    int64_t phases[COMPARE_N_PHASES];
    int64_t busy_ns, waited_ns;
};

struct compare_contender {
    const struct compare_settings *settings;
    struct compare_point point;
    struct compare_rank *ranks[COMPARE_MAX_RANKS];  /* NULL: another stands for it */
    int stands[COMPARE_MAX_RANKS];                  /* the rank that is run for rank r */
    struct team *team;                              /* NULL when serial */
    struct sample samples[COMPARE_MAX_RANKS][MAX_SAMPLES];
    int64_t walls[MAX_SAMPLES];
    int n_samples;
    int slot;                                       /* of the sample that the team takes now */
    int64_t last_ns;
};

/* ---- who is built ---- */

static int same_work(const struct compare_work *a, const struct compare_work *b)
{
    return a->n_heads == b->n_heads && a->n_latents == b->n_latents
        && a->projection_weights == b->projection_weights && a->mlp_weights == b->mlp_weights
        && a->head_weights == b->head_weights && a->attend_macs == b->attend_macs
        && a->cache_bytes_read == b->cache_bytes_read;
}

static void choose_ranks(const struct compare_settings *settings, const struct compare_point *point, int serial,
                         int stands[COMPARE_MAX_RANKS])
{
    struct compare_work works[COMPARE_MAX_RANKS];
    for (int rank = 0; rank < point->n_ranks; rank++) {
        compare_count(point, rank, &works[rank]);
        stands[rank] = rank;
        for (int r = 0; r < rank && serial && !settings->every_rank && stands[rank] == rank; r++)
            if (stands[r] == r && same_work(&works[r], &works[rank]))
                stands[rank] = r;
    }
}

int64_t compare_contender_bytes(const struct compare_settings *settings, const struct compare_point *largest,
                                int64_t max_tokens, int serial)
{
    int stands[COMPARE_MAX_RANKS];
    struct compare_point one = *largest;
    if (one.part == COMPARE_KERNEL)
        one.part = COMPARE_ATTENTION;       /* it has all weights, and runs some of them only */
    choose_ranks(settings, &one, serial, stands);
    int64_t bytes = 0;
    for (int rank = 0; rank < one.n_ranks; rank++) {
        struct compare_work w;
        compare_count(&one, rank, &w);
        int64_t layers = one.part == COMPARE_MODEL ? one.formulation->n_layers : 1;
        if (stands[rank] == rank)
            bytes += compare_weight_bytes(&one, &w) / layers + w.cache_bytes_per_token * max_tokens;
    }
    return bytes;
}

/* ---- create ---- */

static enum status create_team(struct compare_contender *c, struct error *err)
{
    const struct compare_formulation *f = c->point.formulation;
    struct team_options options = {
        .n_ranks = c->point.n_ranks, .bind = 1,
        .max_floats = layer_max_exchange(&f->attention, f->attention.hidden, c->point.n_ranks, c->point.batch,
                                         f->by_chunk && c->point.n_ranks > 1),
    };
    return team_create(&c->team, &options, err);
}

static enum status create_ranks(struct compare_contender *c, const struct compare_pool *pool, int64_t max_tokens,
                                struct error *err)
{
    for (int rank = 0; rank < c->point.n_ranks; rank++) {
        if (c->stands[rank] != rank)
            continue;
        struct compare_rank_spec spec = {
            .point = c->point, .rank = rank, .max_tokens = max_tokens, .kernels = c->settings->kernels,
            .pool = pool, .comm = c->team != NULL ? team_comm(c->team) : NULL,
        };
        TRY(compare_rank_create(&c->ranks[rank], &spec, err));
    }
    return STATUS_OK;
}

enum status compare_contender_create(struct compare_contender **out, const struct compare_settings *settings,
                                     const struct compare_pool *pool, const struct compare_point *largest,
                                     int64_t max_tokens, int serial, struct error *err)
{
    struct compare_contender *c = calloc(1, sizeof *c);
    if (c == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the samples of %s", largest->formulation->name);
    c->settings = settings;
    c->point = *largest;
    choose_ranks(settings, largest, serial, c->stands);
    enum status s = serial ? STATUS_OK : create_team(c, err);
    if (s == STATUS_OK)
        s = create_ranks(c, pool, max_tokens, err);
    if (s != STATUS_OK) {
        compare_contender_destroy(c);
        return s;
    }
    *out = c;
    return STATUS_OK;
}

void compare_contender_destroy(struct compare_contender *c)
{
    if (c == NULL)
        return;
    for (int rank = 0; rank < c->point.n_ranks; rank++)
        compare_rank_destroy(c->ranks[rank]);
    team_destroy(c->team);
    free(c);
}

/* ---- samples ---- */

void compare_contender_aim(struct compare_contender *c, int64_t context, int batch)
{
    c->n_samples = 0;
    c->point.context = context;
    c->point.batch = batch;
    for (int rank = 0; rank < c->point.n_ranks; rank++)
        if (c->ranks[rank] != NULL)
            compare_rank_aim(c->ranks[rank], context, batch);
}

static void sample_serial(struct compare_contender *c, const struct compare_host *host, int slot)
{
    c->last_ns = 0;
    for (int rank = 0; rank < c->point.n_ranks; rank++) {
        if (c->ranks[rank] == NULL)
            continue;
        struct sample *sample = &c->samples[rank][slot];
        *sample = (struct sample){ .waited_ns = -1 };
        compare_host_flush(host);
        compare_rank_step(c->ranks[rank], sample->phases);
        for (int i = 0; i < COMPARE_N_PHASES; i++)
            sample->busy_ns += sample->phases[i];
        c->last_ns += sample->busy_ns;
    }
}

static enum status team_work(void *context, int rank)
{
    struct compare_contender *c = context;
    return compare_rank_team_step(c->ranks[rank]);
}

/* Before the step with sign -1, after it with 1: the sample then holds what lies between. */
static void read_clocks(struct compare_contender *c, int sign, int slot)
{
    struct comm *comm = team_comm(c->team);
    for (int rank = 0; rank < c->point.n_ranks; rank++) {
        struct sample *sample = &c->samples[rank][slot];
        sample->busy_ns += sign * team_busy_ns(c->team, rank);
        sample->waited_ns += sign * comm_counters(comm, rank).waited_ns;
    }
}

/* Opening the team is no part of the step, so the clocks are read in here. */
static enum status lead(void *context)
{
    struct compare_contender *c = context;
    read_clocks(c, -1, c->slot);
    int64_t start = clock_now_ns();
    enum status s = team_step(c->team, team_work, c);
    c->last_ns = clock_now_ns() - start;
    read_clocks(c, 1, c->slot);
    return s;
}

static enum status sample_team(struct compare_contender *c, const struct compare_host *host, int slot,
                               struct error *err)
{
    for (int rank = 0; rank < c->point.n_ranks; rank++)
        c->samples[rank][slot] = (struct sample){ 0 };
    c->slot = slot;
    compare_host_flush(host);
    if (team_run(c->team, lead, c) != STATUS_OK)
        return fail(err, STATUS_PEER_FAILED, "%s: the team of %d ranks failed", c->point.formulation->name,
                    c->point.n_ranks);
    c->walls[slot] = c->last_ns;
    return STATUS_OK;
}

enum status compare_contender_sample(struct compare_contender *c, const struct compare_host *host, int is_warm_up,
                                     struct error *err)
{
    int slot = c->n_samples < MAX_SAMPLES ? c->n_samples : MAX_SAMPLES - 1;
    if (c->team != NULL)
        TRY(sample_team(c, host, slot, err));
    else
        sample_serial(c, host, slot);
    c->n_samples = is_warm_up ? c->n_samples : slot + 1;
    return STATUS_OK;
}

int64_t compare_contender_last_ns(const struct compare_contender *c)
{
    return c->last_ns;
}

/* ---- results ---- */

static int by_busy(const void *a, const void *b)
{
    int64_t x = ((const struct sample *)a)->busy_ns, y = ((const struct sample *)b)->busy_ns;
    return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void take_medians(struct compare_contender *c, struct compare_result *result)
{
    for (int rank = 0; rank < c->point.n_ranks; rank++) {
        struct compare_device *d = &result->devices[rank];
        d->measured_as = c->stands[rank];
        struct sample *samples = c->samples[c->stands[rank]];
        if (c->stands[rank] == rank)
            qsort(samples, (size_t)c->n_samples, sizeof *samples, by_busy);
        const struct sample *median = &samples[c->n_samples / 2];
        memcpy(d->phases, median->phases, sizeof d->phases);
        d->busy_ns = (double)median->busy_ns;
        d->waited_ns = (double)median->waited_ns;
    }
    qsort(c->walls, (size_t)c->n_samples, sizeof *c->walls, by_value);
    result->wall_ns = c->team != NULL ? (double)c->walls[c->n_samples / 2] : -1;
}

enum status compare_contender_finish(struct compare_contender *c, const struct compare_host *host,
                                     struct compare_result *result, struct error *err)
{
    take_medians(c, result);
    double slowest = 0;
    struct compare_work works[COMPARE_MAX_RANKS];
    for (int rank = 0; rank < c->point.n_ranks; rank++) {
        slowest = result->devices[rank].busy_ns > slowest ? result->devices[rank].busy_ns : slowest;
        works[rank] = result->devices[rank].work;
    }
    result->is_measured = 1;
    if (c->team != NULL) {      /* a rank's busy time has its share of the collectives in it already */
        result->device_ns = slowest;
        return STATUS_OK;
    }
    TRY(compare_collectives_ns(works, c->point.n_ranks, c->settings->kernels, host->barrier_ns,
                               &result->collective_ns, err));
    result->device_ns = slowest + result->collective_ns;
    return STATUS_OK;
}
