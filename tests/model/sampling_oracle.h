/* sampling_oracle.h - what sampling should do, written plainly for the tests: sort
 * everything, in double precision, no shortcuts.
 */
#ifndef TESTS_MODEL_SAMPLING_ORACLE_H
#define TESTS_MODEL_SAMPLING_ORACLE_H

#include "model/sampling_params.h"

#include <math.h>
#include <stdlib.h>

struct oracle_token {
    int32_t token;
    double logit, p, rank;
};

struct oracle {
    int32_t n;
    struct oracle_token *t;
    double edge;        /* distance of the nearest cut to a tie: below 1e-5 the case is skipped */
};

static int by_rank(const void *a, const void *b)
{
    const struct oracle_token *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

static int by_token(const void *a, const void *b)
{
    const struct oracle_token *x = a, *y = b;
    return (x->token > y->token) - (x->token < y->token);
}

static void normalize(struct oracle *o)
{
    double sum = 0;
    for (int32_t i = 0; i < o->n; i++)
        sum += o->t[i].p;
    for (int32_t i = 0; i < o->n; i++)
        o->t[i].p /= sum;
}

static void cut_mass(struct oracle *o, double target)
{
    qsort(o->t, (size_t)o->n, sizeof *o->t, by_rank);
    double mass = 0;
    for (int32_t i = 0; i < o->n; i++) {
        mass += o->t[i].p;
        o->edge = fmin(o->edge, fabs(mass - target));
        if (mass >= target) {
            o->n = i + 1;
            break;
        }
    }
    normalize(o);
}

static void cut_typical(struct oracle *o, double target)
{
    double entropy = 0;
    for (int32_t i = 0; i < o->n; i++)
        entropy -= o->t[i].p > 0 ? o->t[i].p * log(o->t[i].p) : 0;
    for (int32_t i = 0; i < o->n; i++)
        o->t[i].rank = -fabs(-log(o->t[i].p) - entropy);
    cut_mass(o, target);
    for (int32_t i = 0; i + 1 < o->n; i++)
        o->edge = fmin(o->edge, 10 * fabs(o->t[i].rank - o->t[i + 1].rank));
}

static void cut_min(struct oracle *o, double min_p)
{
    double largest = 0;
    for (int32_t i = 0; i < o->n; i++)
        largest = fmax(largest, o->t[i].p);
    int32_t n = 0;
    for (int32_t i = 0; i < o->n; i++) {
        o->edge = fmin(o->edge, fabs(o->t[i].p / largest - min_p) * (min_p < 1 ? 1 : 1e9));
        if (o->t[i].p >= min_p * largest)
            o->t[n++] = o->t[i];
    }
    o->n = n;
    normalize(o);
}

/* logits: already penalised, biased and masked, in double; -INFINITY is out. */
static void oracle_run(struct oracle *o, const double *logits, int32_t vocab, const struct sampling_params *p)
{
    double max = -INFINITY;
    o->n = 0;
    o->edge = 1;
    for (int32_t i = 0; i < vocab; i++)
        max = fmax(max, logits[i]);
    for (int32_t i = 0; i < vocab; i++)
        if (logits[i] != -INFINITY)
            o->t[o->n++] =
                (struct oracle_token){ i, logits[i], exp((logits[i] - max) / p->temperature), logits[i] };
    qsort(o->t, (size_t)o->n, sizeof *o->t, by_rank);
    if (p->top_k > 0 && p->top_k < o->n)
        o->n = (int32_t)p->top_k;
    normalize(o);
    if (p->top_p < 1)
        cut_mass(o, p->top_p);
    if (p->min_p > 0)
        cut_min(o, p->min_p);
    if (p->typical_p > 0 && p->typical_p < 1)
        cut_typical(o, p->typical_p);
    qsort(o->t, (size_t)o->n, sizeof *o->t, by_token);
}

/* The token that u falls on, or -1 when rounding may decide. */
static int32_t oracle_draw(const struct oracle *o, double u)
{
    double mass = 0;
    if (o->edge < 1e-5)
        return -1;
    for (int32_t i = 0; i < o->n; i++) {
        mass += o->t[i].p;
        if (fabs(mass - u) < 1e-5)
            return -1;
        if (mass > u)
            return o->t[i].token;
    }
    return -1;
}

#endif
