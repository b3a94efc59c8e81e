#include "bench/bench_tiny.h"

#include "base/clock.h"
#include "bench/bench_model.h"
#include "model/synth.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 8, HIDDEN = 64, HEADS = 8, BLOCK = 32, SEEN = 4096 };

struct run {
    struct bench_tiny *tiny;
    struct bench_model *model;
};

int bench_tiny_ranks_valid(int n_ranks)
{
    return n_ranks <= HEADS && HEADS % n_ranks == 0;
}

static enum status write_model(const char *dir, struct error *err)
{
    struct synth_spec spec;
    synth_spec_init(&spec);
    spec.kind = "mla_paper";
    spec.layers = LAYERS;
    spec.hidden = HIDDEN;
    spec.heads = HEADS;
    spec.intermediate = 2 * HIDDEN;
    spec.vocab = 512;
    spec.max_positions = SEEN;
    spec.seed = 1;
    spec.attention.latent = HIDDEN / 2;
    spec.attention.query_latent = HIDDEN / 2;
    spec.attention.nope_dim = 16;
    spec.attention.rope_dim = 16;
    TRY(synth_complete(&spec, err));
    return synth_write(&spec, &(struct synth_output){ .dir = dir }, err);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type, (void)place;
    return remove(path);
}

static enum status sample(struct run *run)
{
    struct bench_step step = { .n_sequences = run->tiny->batch, .position = run->tiny->depth, .n_rows = 1 };
    int64_t start = clock_now_ns();
    for (int i = 0; i < run->tiny->steps; i++)
        TRY(bench_model_step(run->model, &step));
    load_series_push(run->tiny->us, (double)(clock_now_ns() - start) / 1e3 / run->tiny->steps);
    return STATUS_OK;
}

static enum status lead(void *context)
{
    struct run *run = context;
    struct bench_tiny *tiny = run->tiny;
    const struct model *model = bench_model_model(run->model);
    struct device_report before[BENCH_MAX_RANKS], after;
    TRY(bench_model_step(run->model, &(struct bench_step){ .n_sequences = tiny->batch, .n_rows = 1 }));
    for (int rank = 0; rank < tiny->n_ranks; rank++)
        model_device_report(model, rank, &before[rank]);
    for (int r = 0; r < tiny->repetitions; r++)
        TRY(sample(run));
    for (int rank = 0; rank < tiny->n_ranks; rank++) {
        model_device_report(model, rank, &after);
        double steps = (double)(after.steps - before[rank].steps);
        double waited = (double)(after.waited_ns - before[rank].waited_ns) / 1e3 / steps;
        tiny->waited_us = rank == 0 ? waited : fmin(tiny->waited_us, waited);
        tiny->meetings = (double)(after.collectives - before[rank].collectives) / steps;
    }
    return STATUS_OK;
}

static enum status run_model(struct bench_tiny *tiny, const char *dir, struct error *err)
{
    struct bench_model_options options = {
        .dir = dir, .weight_type = WEIGHT_F32, .cache_type = CACHE_F32, .n_ranks = tiny->n_ranks, .mla_by_chunk = tiny->by_chunk,
        .block_size = BLOCK, .n_sequences = tiny->batch, .length = tiny->depth + 1, .max_rows = tiny->batch,
    };
    struct run run = { .tiny = tiny };
    TRY(bench_model_create(&run.model, &options, err));
    enum status s = bench_model_run(run.model, lead, &run);
    bench_model_destroy(run.model);
    return s == STATUS_OK ? s : fail(err, s, "a step of the tiny model failed: %s", status_meaning(s));
}

enum status bench_tiny_run(struct bench_tiny *tiny, struct error *err)
{
    const char *parent = getenv("TMPDIR");
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/latentd-tiny-XXXXXX", parent != NULL && *parent != '\0' ? parent : "/tmp");
    if (mkdtemp(dir) == NULL)
        return fail(err, STATUS_IO, "%s cannot be made", dir);
    tiny->n_layers = LAYERS;
    enum status s = write_model(dir, err);
    if (s == STATUS_OK)
        s = run_model(tiny, dir, err);
    if (nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0 && s == STATUS_OK)
        s = fail(err, STATUS_IO, "%s cannot be removed", dir);
    return s;
}
