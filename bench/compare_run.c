#include "bench/compare_run.h"

#include "base/clock.h"
#include "bench/compare_contender.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Steps longer than this are not repeated more often than MIN_SAMPLES. */
enum { LONG_NS = 400000000, MIN_SAMPLES = 3 };

/* ---- session ---- */

enum status compare_session_create(struct compare_session **out, const struct compare_settings *settings,
                                   struct error *err)
{
    struct compare_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a comparison");
    s->settings = *settings;
    time_t now = (time_t)clock_unix_seconds();
    struct tm utc;
    strftime(s->when, sizeof s->when, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
    enum status status = compare_host_init(&s->host, settings->kernels, err);
    if (status != STATUS_OK) {
        compare_session_destroy(s);
        return status;
    }
    for (int i = 0; i < s->settings.n_profiles; i++)
        if (strcmp(s->settings.profiles[i].name, "host") == 0)
            s->settings.profiles[i] = s->host.profile;
    *out = s;
    return STATUS_OK;
}

void compare_session_destroy(struct compare_session *session)
{
    if (session == NULL)
        return;
    compare_host_clear(&session->host);
    free(session->results);
    free(session);
}

enum status compare_sweep_cross(struct compare_sweep *sweep, const int *degrees, int n, struct error *err)
{
    sweep->n_entries = 0;
    for (int f = 0; f < sweep->set.n; f++)
        for (int i = 0; i < n; i++) {
            struct error why;
            if (compare_check_ranks(&sweep->set.items[f], degrees[i], &why) != STATUS_OK) {
                size_t at = strlen(sweep->refused);
                snprintf(sweep->refused + at, sizeof sweep->refused - at, "%s%s on %d", at > 0 ? ", " : "",
                         sweep->set.items[f].name, degrees[i]);
                continue;
            }
            /* On one rank a cache sharded by chunk is the plain one, and so is a replicated W_O. */
            if ((sweep->set.items[f].by_chunk || sweep->set.items[f].replicated_output) && degrees[i] == 1)
                continue;
            if (sweep->n_entries == COMPARE_MAX_ENTRIES)
                return fail(err, STATUS_BAD_OPTION, "more than %d contenders in one sweep; take fewer formulations "
                            "or degrees", COMPARE_MAX_ENTRIES);
            sweep->entries[sweep->n_entries++] = (struct compare_entry){ f, degrees[i] };
        }
    if (sweep->n_entries == 0)
        return fail(err, STATUS_BAD_OPTION, "no formulation can lie on the degrees asked for: %s", sweep->refused);
    return STATUS_OK;
}

static enum status add_result(struct compare_session *s, const struct compare_result *result, struct error *err)
{
    if (s->n_results == s->capacity) {
        int capacity = s->capacity == 0 ? 64 : 2 * s->capacity;
        struct compare_result *grown = realloc(s->results, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return fail(err, STATUS_NO_MEMORY, "no memory for %d results", capacity);
        s->results = grown;
        s->capacity = capacity;
    }
    s->results[s->n_results++] = *result;
    return STATUS_OK;
}

/* ---- a group of contenders at one cache type ---- */

/* Contenders that are in memory together, and what they are run on. */
struct group {
    struct compare_session *session;
    struct compare_sweep *sweep;
    int sweep_index;
    enum cache_type cache_type;
    struct compare_pool *pool;
    int first, end;             /* entries of the sweep */
    struct compare_contender *contenders[COMPARE_MAX_ENTRIES];
    int64_t capacity[COMPARE_MAX_ENTRIES];      /* cached tokens that each was built for */
};

/* A rank with a W_O of its own kind is only run alone. */
static int has_replicated_output(const struct compare_sweep *sweep)
{
    for (int e = 0; e < sweep->n_entries; e++)
        if (sweep->set.items[sweep->entries[e].formulation].replicated_output)
            return 1;
    return 0;
}

/* One way for the whole sweep: times taken in two ways are not comparable. */
static int is_serial(const struct compare_session *s, const struct compare_sweep *sweep)
{
    if (s->settings.serial >= 0)
        return s->settings.serial;
    int most = 1;
    for (int e = 0; e < sweep->n_entries; e++)
        most = sweep->entries[e].n_ranks > most ? sweep->entries[e].n_ranks : most;
    return s->host.n_cores < most || sweep->part == COMPARE_KERNEL || sweep->part == COMPARE_MODEL
        || has_replicated_output(sweep);
}

static int is_wanted(const struct compare_sweep *sweep, int64_t context, int batch)
{
    return sweep->max_tokens == 0 || context * batch <= sweep->max_tokens;
}

static struct compare_point make_point(const struct group *g, int entry, int64_t context, int batch)
{
    const struct compare_settings *settings = &g->session->settings;
    const struct compare_entry *e = &g->sweep->entries[entry];
    return (struct compare_point){
        .formulation = &g->sweep->set.items[e->formulation], .part = g->sweep->part, .n_ranks = e->n_ranks,
        .context = context, .batch = batch, .cache_type = g->cache_type, .weight_type = settings->weight_type,
        .block_size = settings->block_size,
    };
}

/* Most cached tokens, longest context and largest batch of the sweep's points
 * with no more than `limit` tokens. */
static int64_t largest_step(const struct compare_sweep *sweep, int64_t limit, int64_t *context, int *batch)
{
    int64_t tokens = 0;
    *context = *batch = 0;
    for (int c = 0; c < sweep->n_contexts; c++)
        for (int b = 0; b < sweep->n_batches; b++) {
            int64_t n = sweep->contexts[c] * sweep->batches[b];
            if (!is_wanted(sweep, sweep->contexts[c], sweep->batches[b]) || n > limit)
                continue;
            tokens = n > tokens ? n : tokens;
            *context = sweep->contexts[c] > *context ? sweep->contexts[c] : *context;
            *batch = sweep->batches[b] > *batch ? sweep->batches[b] : *batch;
        }
    return tokens;
}

/* The largest points of which entry fits in `room` by itself: their tokens, 0
 * if there is none, and the bytes. */
static int64_t fitting_step(const struct group *g, int entry, int64_t room, struct compare_point *point,
                            int64_t *bytes)
{
    int64_t limit = INT64_MAX, tokens, context;
    int batch, serial = is_serial(g->session, g->sweep);
    while ((tokens = largest_step(g->sweep, limit, &context, &batch)) > 0) {
        *point = make_point(g, entry, context, batch);
        *bytes = compare_contender_bytes(&g->session->settings, point, tokens, serial);
        if (*bytes <= room)
            return tokens;
        limit = tokens - 1;
    }
    *bytes = 0;
    return 0;
}

static enum status check_interrupt(const struct compare_session *s, struct error *err)
{
    if (s->settings.is_interrupted == NULL || !s->settings.is_interrupted(s->settings.context))
        return STATUS_OK;
    return fail(err, STATUS_CANCELLED, "interrupted after %d points", s->n_results);
}

/* As many entries from g->first on as fit together, at least one. */
static enum status build_group(struct group *g, struct error *err)
{
    int64_t room = g->session->settings.max_memory;
    for (g->end = g->first; g->end < g->sweep->n_entries; g->end++) {
        TRY(check_interrupt(g->session, err));
        struct compare_point point;
        int64_t bytes, all = g->session->settings.max_memory;
        int64_t tokens = fitting_step(g, g->end, all, &point, &bytes);
        if (bytes > room && g->end > g->first)
            return STATUS_OK;
        room -= bytes;
        g->capacity[g->end] = tokens;
        if (tokens > 0)
            TRY(compare_contender_create(&g->contenders[g->end], &g->session->settings, g->pool, &point, tokens,
                                         is_serial(g->session, g->sweep), err));
    }
    return STATUS_OK;
}

static void destroy_group(struct group *g)
{
    for (int e = g->first; e < g->sweep->n_entries; e++) {
        compare_contender_destroy(g->contenders[e]);
        g->contenders[e] = NULL;
    }
}

static void fill_counts(const struct group *g, int entry, int64_t context, int batch, struct compare_result *result)
{
    const struct compare_settings *settings = &g->session->settings;
    *result = (struct compare_result){
        .sweep = g->sweep_index, .point = make_point(g, entry, context, batch), .wall_ns = -1,
    };
    result->n_devices = result->point.n_ranks;
    for (int rank = 0; rank < result->n_devices; rank++) {
        compare_count(&result->point, rank, &result->devices[rank].work);
        result->devices[rank].measured_as = rank;
        result->devices[rank].waited_ns = -1;
    }
    for (int i = 0; i < settings->n_profiles; i++)
        result->modelled_s[i] = compare_profile_step(&settings->profiles[i], &result->point);
    result->tokens_that_fit = compare_tokens_that_fit(&result->point, settings->device_memory);
}

/* All contenders take samples in turns. */
static enum status sample_point(struct group *g, int64_t context, int batch, struct error *err)
{
    for (int e = g->first; e < g->end; e++)
        if (context * batch <= g->capacity[e])
            compare_contender_aim(g->contenders[e], context, batch);
    for (int turn = -1; turn < g->session->settings.n_repeats; turn++)
        for (int e = g->first; e < g->end; e++) {
            if (context * batch > g->capacity[e])
                continue;
            TRY(check_interrupt(g->session, err));
            if (turn >= MIN_SAMPLES && compare_contender_last_ns(g->contenders[e]) > LONG_NS)
                continue;
            TRY(compare_contender_sample(g->contenders[e], &g->session->host, turn < 0, err));
        }
    return STATUS_OK;
}

static enum status run_point(struct group *g, int64_t context, int batch, struct error *err)
{
    TRY(sample_point(g, context, batch, err));
    for (int e = g->first; e < g->end; e++) {
        struct compare_result result;
        fill_counts(g, e, context, batch, &result);
        if (context * batch <= g->capacity[e])
            TRY(compare_contender_finish(g->contenders[e], &g->session->host, &result, err));
        else
            snprintf(result.note, sizeof result.note, "not run: needs more than the %lld MiB of --max-memory",
                     (long long)(g->session->settings.max_memory >> 20));
        TRY(add_result(g->session, &result, err));
    }
    return STATUS_OK;
}

static enum status run_group(struct group *g, struct error *err)
{
    TRY(build_group(g, err));
    const struct compare_sweep *sweep = g->sweep;
    const struct compare_settings *settings = &g->session->settings;
    int total = sweep->n_contexts * sweep->n_batches, done = 0;
    for (int c = 0; c < sweep->n_contexts; c++)
        for (int b = 0; b < sweep->n_batches; b++) {
            if (is_wanted(sweep, sweep->contexts[c], sweep->batches[b]))
                TRY(run_point(g, sweep->contexts[c], sweep->batches[b], err));
            if (settings->progress != NULL)
                settings->progress(settings->context, sweep->name, ++done, total);
        }
    return STATUS_OK;
}

static enum status run_groups(struct group *g, struct error *err)
{
    for (g->first = 0; g->first < g->sweep->n_entries; g->first = g->end) {
        enum status s = run_group(g, err);
        destroy_group(g);
        TRY(s);
    }
    return STATUS_OK;
}

enum status compare_run_sweep(struct compare_session *session, int i, struct error *err)
{
    assert(i < session->n_sweeps);
    int64_t start = clock_now_ns();
    struct compare_sweep *sweep = &session->sweeps[i];
    if (!is_serial(session, sweep) && (sweep->part == COMPARE_KERNEL || sweep->part == COMPARE_MODEL))
        return fail(err, STATUS_BAD_OPTION, "ranks run together (--serial-ranks 0) for the parts attention and layer "
                    "only, not for %s", compare_part_name(sweep->part));
    if (!is_serial(session, sweep) && has_replicated_output(sweep))
        return fail(err, STATUS_BAD_OPTION, "a replicated W_O is run with one rank after the other only; leave out "
                    "--serial-ranks 0 or, with --formulations, the contenders called -replicated");
    size_t most = 1;
    for (int f = 0; f < sweep->set.n; f++) {
        const struct compare_formulation *item = &sweep->set.items[f];
        int is_whole = sweep->part >= COMPARE_LAYER;
        size_t n = compare_largest_matrix(&item->attention, is_whole ? item->intermediate : MLP_LEAVES,
                                          sweep->part == COMPARE_MODEL ? item->vocab : 1);
        most = n > most ? n : most;
    }
    struct compare_pool pool;
    enum status s = compare_pool_init(&pool, most, err);
    struct group g = { .session = session, .sweep = sweep, .sweep_index = i, .pool = &pool };
    for (int type = CACHE_F32; type <= CACHE_INT8 && s == STATUS_OK; type++) {
        g.cache_type = (enum cache_type)type;
        if (sweep->cache_types & 1u << type)
            s = run_groups(&g, err);
    }
    compare_pool_clear(&pool);
    session->was_interrupted |= s == STATUS_CANCELLED;
    session->seconds += (double)(clock_now_ns() - start) / 1e9;
    return s;
}
