#include "bench/bench_settings.h"

enum status bench_case_limits(const struct bench_case *c, struct bench_limits *limits, struct error *err)
{
    struct bench_probe_options options = {
        .n_ranks = c->n_ranks, .cpu_time = 1, .set = peak_find(c->kernels),
    };
    struct bench_limits now;
    TRY(bench_limits_measure(&options, &now, err));
    bench_limits_merge(limits, &now);
    return STATUS_OK;
}

static enum status run_case(const struct bench_settings *s, struct bench_case *c,
                            enum status (*run)(void *context, const struct bench_case *c, struct error *err),
                            void *context, struct error *err)
{
    const struct kernels *kernels;
    TRY(model_select_kernels(*s->kernels != '\0' ? s->kernels : NULL, &kernels, err));
    c->kernels = kernels->name;
    TRY(bench_case_limits(c, &c->limits, err));
    return run(context, c, err);
}

enum status bench_settings_each(const struct bench_settings *s,
                                enum status (*run)(void *context, const struct bench_case *c, struct error *err),
                                void *context, struct error *err)
{
    for (int ranks = 0; ranks < s->ranks.n; ranks++)
        for (int weights = WEIGHT_F32; weights <= WEIGHT_INT4; weights++)
            for (int cache = CACHE_F32; cache <= CACHE_INT8; cache++) {
                if ((s->weight_types >> weights & 1) == 0 || (s->cache_types >> cache & 1) == 0)
                    continue;
                struct bench_case c = {
                    .weight_type = weights, .cache_type = (enum cache_type)cache, .n_ranks = (int)s->ranks.at[ranks],
                };
                TRY(run_case(s, &c, run, context, err));
            }
    return STATUS_OK;
}

struct bench_model_options bench_case_model(const struct bench_settings *s, const struct bench_case *c)
{
    return (struct bench_model_options){
        .dir = s->model, .kernels = c->kernels, .weight_type = c->weight_type, .cache_type = c->cache_type,
        .n_ranks = c->n_ranks, .mla_by_chunk = s->mla_by_chunk, .block_size = s->block_size,
    };
}

void bench_case_cells(const struct bench_case *c, struct bench_table *table)
{
    bench_table_text(table, c->kernels);
    bench_table_text(table, weight_type_name((enum weight_type)c->weight_type));
    bench_table_text(table, cache_type_name(c->cache_type));
    bench_table_number(table, c->n_ranks);
}
