#include "bench/load_search.h"

#include <assert.h>

/* Below this share of the first rate the bound is taken for unreachable. */
#define LEAST_SHARE (1.0 / 1024)

void load_search_init(struct load_search *s, const struct load_search_options *options)
{
    assert(options->first_rate > 0 && options->max_rate >= options->first_rate);
    assert(options->tolerance > 0 && options->max_runs >= 1);
    *s = (struct load_search){ .options = *options };
}

static int is_over(const struct load_search *s)
{
    const struct load_search_options *o = &s->options;
    if (s->n_runs >= o->max_runs || s->holds >= o->max_rate)
        return 1;
    if (s->holds > 0 && s->fails > 0)
        return s->fails - s->holds <= o->tolerance * s->holds;
    return s->holds == 0 && s->fails > 0 && s->fails <= o->first_rate * LEAST_SHARE;
}

int load_search_next(struct load_search *s, double *rate)
{
    if (is_over(s))
        return 0;
    if (s->holds > 0 && s->fails > 0)
        s->rate = (s->holds + s->fails) / 2;
    else if (s->holds > 0)
        s->rate = s->holds * 2 < s->options.max_rate ? s->holds * 2 : s->options.max_rate;
    else if (s->fails > 0)
        s->rate = s->fails / 2;
    else
        s->rate = s->options.first_rate;
    *rate = s->rate;
    return 1;
}

void load_search_report(struct load_search *s, int holds)
{
    s->n_runs++;
    if (holds)
        s->holds = s->rate;
    else
        s->fails = s->rate;
}
