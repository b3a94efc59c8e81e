#include "bench/load_stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

void load_series_init(struct load_series *s, size_t max)
{
    *s = (struct load_series){ .max = max };
}

void load_series_clear(struct load_series *s)
{
    free(s->values);
    *s = (struct load_series){ .max = s->max };
}

void load_series_reset(struct load_series *s)
{
    s->n = 0;
    s->n_lost = 0;
    s->sorted = 0;
}

static int grow(struct load_series *s)
{
    size_t capacity = s->capacity > 0 ? s->capacity * 2 : FIRST_CAPACITY;
    if (capacity > s->max)
        capacity = s->max;
    if (capacity <= s->n)
        return 0;
    double *values = realloc(s->values, capacity * sizeof *values);
    if (values == NULL)
        return 0;
    s->values = values;
    s->capacity = capacity;
    return 1;
}

void load_series_push(struct load_series *s, double value)
{
    if (s->n == s->capacity && !grow(s)) {
        s->n_lost++;
        return;
    }
    s->values[s->n++] = value;
    s->sorted = 0;
}

void load_series_append(struct load_series *s, const struct load_series *from)
{
    for (size_t i = 0; i < from->n; i++)
        load_series_push(s, from->values[i]);
    s->n_lost += from->n_lost;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void sort(struct load_series *s)
{
    if (!s->sorted && s->n > 1)
        qsort(s->values, s->n, sizeof *s->values, compare_doubles);
    s->sorted = 1;
}

double load_series_percentile(struct load_series *s, double p)
{
    assert(p >= 0 && p <= 100);
    if (s->n == 0)
        return 0;
    sort(s);
    double at = p / 100 * (double)(s->n - 1);
    size_t below = (size_t)at;
    if (below + 1 >= s->n)
        return s->values[s->n - 1];
    double part = at - (double)below;
    return s->values[below] + part * (s->values[below + 1] - s->values[below]);
}

struct load_summary load_series_summarise(struct load_series *s)
{
    struct load_summary out = { .n = s->n, .n_lost = s->n_lost };
    if (s->n == 0)
        return out;
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += s->values[i];
    out.mean = sum / (double)s->n;
    /* Two passes: the square of a sum would lose the digits of small spreads. */
    double squares = 0;
    for (size_t i = 0; i < s->n; i++)
        squares += (s->values[i] - out.mean) * (s->values[i] - out.mean);
    out.std = sqrt(squares / (double)s->n);
    out.min = load_series_percentile(s, 0);
    out.p50 = load_series_percentile(s, 50);
    out.p90 = load_series_percentile(s, 90);
    out.p95 = load_series_percentile(s, 95);
    out.p99 = load_series_percentile(s, 99);
    out.max = load_series_percentile(s, 100);
    return out;
}
