#include "bench/compare_result.h"

#include <stdio.h>

const struct compare_result *compare_baseline(const struct compare_session *session, const struct compare_result *r)
{
    const struct compare_sweep *sweep = &session->sweeps[r->sweep];
    const struct compare_formulation *f = &sweep->set.items[sweep->entries[0].formulation];
    int n_ranks = sweep->same_degree ? r->point.n_ranks : sweep->entries[0].n_ranks;
    for (int i = 0; i < session->n_results; i++) {
        const struct compare_result *b = &session->results[i];
        if (b->sweep == r->sweep && b->point.formulation == f && b->point.n_ranks == n_ranks
            && b->point.context == r->point.context && b->point.batch == r->point.batch
            && b->point.cache_type == r->point.cache_type)
            return b;
    }
    return NULL;
}

double compare_speedup(const struct compare_session *session, const struct compare_result *r)
{
    const struct compare_result *b = compare_baseline(session, r);
    return b != NULL && b->is_measured && r->is_measured && r->device_ns > 0 ? b->device_ns / r->device_ns : 0;
}

double compare_modelled_speedup(const struct compare_session *session, const struct compare_result *r, int profile)
{
    const struct compare_result *b = compare_baseline(session, r);
    return b != NULL && r->modelled_s[profile] > 0 ? b->modelled_s[profile] / r->modelled_s[profile] : 0;
}

void compare_label(const struct compare_result *r, char *out, size_t max)
{
    snprintf(out, max, "%s TP %d", r->point.formulation->name, r->point.n_ranks);
}

int compare_same_batch(const struct compare_result *a, const struct compare_result *b)
{
    return a->sweep == b->sweep && a->point.batch == b->point.batch && a->point.cache_type == b->point.cache_type;
}

int compare_same_line(const struct compare_result *a, const struct compare_result *b)
{
    return compare_same_batch(a, b) && a->point.formulation == b->point.formulation
        && a->point.n_ranks == b->point.n_ranks;
}

const struct compare_result *compare_at_context(const struct compare_session *session, const struct compare_result *r,
                                                int64_t context)
{
    for (int i = 0; i < session->n_results; i++)
        if (compare_same_line(&session->results[i], r) && session->results[i].point.context == context)
            return &session->results[i];
    return NULL;
}

int compare_is_first_of_batch(const struct compare_session *session, const struct compare_result *r)
{
    for (const struct compare_result *at = session->results; at < r; at++)
        if (compare_same_batch(at, r))
            return 0;
    return 1;
}

int compare_is_first(const struct compare_session *session, const struct compare_result *r)
{
    for (const struct compare_result *at = session->results; at < r; at++)
        if (compare_same_line(at, r))
            return 0;
    return 1;
}
