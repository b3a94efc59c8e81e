#include "bench/verify_model.h"

#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 8, MAX_BATCH = 8, MAX_LENGTH = 4096, N_DEGREES = 5 };

/* Two layers of f32 arithmetic against a float64 forward. */
#define TOLERANCE 5e-6

static const int degrees[N_DEGREES] = { 1, 2, 3, 4, 8 };
static const int chunk_sizes[] = { 1, 3, 7, 16 };

struct golden_model {
    int batch, length, vocab;
    int32_t *tokens;            /* [batch][length] */
    float *want;                /* [batch][length][vocab] */
    float *got;
    float *first;               /* the first path on the first degree */
    int has_first;
};

struct run {
    struct model *model;
    struct golden_model *golden;
    struct verify_result *result;
    int n_ranks;
    int32_t *blocks;            /* [batch][blocks of a sequence] */
    int32_t *step_tokens, *step_rows;
};

static enum status read_golden(const struct safetensors *set, const char *dir, struct golden_model *g,
                               struct arena *arena, struct error *err)
{
    const struct tensor *tokens, *logits;
    TRY(safetensors_need(set, "tokens", &tokens, err));
    TRY(safetensors_need(set, "logits", &logits, err));
    int fits = tokens->n_dims == 2 && tokens->dtype == DTYPE_I32 && logits->n_dims == 3
            && tokens->dims[0] >= 1 && tokens->dims[0] <= MAX_BATCH && tokens->dims[1] >= 1
            && tokens->dims[1] <= MAX_LENGTH && logits->dims[0] == tokens->dims[0]
            && logits->dims[1] == tokens->dims[1];
    if (!fits)
        return fail(err, STATUS_BAD_MODEL, "%s/golden.safetensors: needs I32 tokens (batch <= %d, length <= %d) "
                    "and logits (batch, length, vocab)", dir, MAX_BATCH, MAX_LENGTH);
    g->batch = (int)tokens->dims[0];
    g->length = (int)tokens->dims[1];
    g->vocab = (int)logits->dims[2];
    size_t n = (size_t)logits->n_elements;
    TRY(ARENA_ARRAY(arena, (size_t)tokens->n_elements, &g->tokens, err));
    TRY(ARENA_ARRAY(arena, n, &g->want, err));
    TRY(ARENA_ARRAY(arena, n, &g->got, err));
    TRY(ARENA_ARRAY(arena, n, &g->first, err));
    memcpy(g->tokens, tokens->data, tokens->bytes);
    return tensor_to_f32(logits, 0, n, g->want, err);
}

/* Tokens [position, position + n) of every sequence, all logits wanted. */
static enum status run_step(struct run *run, int position, int n)
{
    struct golden_model *g = run->golden;
    int per_sequence = (g->length + BLOCK_SIZE - 1) / BLOCK_SIZE;
    struct span spans[MAX_BATCH];
    for (int b = 0; b < g->batch; b++) {
        spans[b] = (struct span){
            .first_row = b * n, .n_rows = n, .first_position = position, .length = position + n, .causal = 1,
            .blocks = run->blocks + b * per_sequence,
        };
        memcpy(run->step_tokens + b * n, g->tokens + b * g->length + position, (size_t)n * sizeof(int32_t));
    }
    for (int r = 0; r < g->batch * n; r++)
        run->step_rows[r] = r;
    struct batch batch = {
        .spans = spans, .n_spans = g->batch, .tokens = run->step_tokens, .n_rows = g->batch * n,
        .logit_rows = run->step_rows, .n_logit_rows = g->batch * n,
    };
    TRY(model_step(run->model, &batch));
    size_t vocab = (size_t)g->vocab;
    for (int b = 0; b < g->batch; b++)
        memcpy(g->got + (size_t)(b * g->length + position) * vocab,
               model_logits(run->model) + (size_t)(b * n) * vocab, (size_t)n * vocab * sizeof(float));
    return STATUS_OK;
}

static void judge(struct run *run, const char *path)
{
    struct golden_model *g = run->golden;
    struct verify_result *out = run->result;
    size_t n = (size_t)g->batch * (size_t)g->length * (size_t)g->vocab;
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)g->got[i] - (double)g->want[i];
        difference += d * d;
        norm += (double)g->want[i] * (double)g->want[i];
    }
    double e = sqrt(difference / (norm > 0 ? norm : 1));
    e = isfinite(e) ? e : INFINITY;
    out->relative_error = e > out->relative_error ? e : out->relative_error;
    if (!g->has_first)
        memcpy(g->first, g->got, n * sizeof(float));
    g->has_first = 1;
    if (!out->ok)
        return;
    if (e > TOLERANCE)
        snprintf(out->reason, sizeof out->reason, "%s on %d ranks is off by %.3g", path, run->n_ranks, e);
    else if (memcmp(g->first, g->got, n * sizeof(float)) != 0)
        snprintf(out->reason, sizeof out->reason, "%s on %d ranks differs in bits from one forward on 1", path,
                 run->n_ranks);
    else
        return;
    out->ok = 0;
}

static enum status lead(void *context)
{
    struct run *run = context;
    const struct golden_model *g = run->golden;
    TRY(run_step(run, 0, g->length));
    judge(run, "the full forward");
    for (int p = 0; p < g->length; p++)
        TRY(run_step(run, p, 1));
    judge(run, "token by token");
    for (size_t i = 0; i < sizeof chunk_sizes / sizeof chunk_sizes[0]; i++) {
        int p = 0, chunk = chunk_sizes[i];
        for (; p + chunk <= g->length / 2; p += chunk)
            TRY(run_step(run, p, chunk));
        for (; p < g->length; p++)
            TRY(run_step(run, p, 1));
        judge(run, "prefill in chunks");
    }
    return STATUS_OK;
}

static enum status verify_degree(const char *dir, const char *kernels, struct run *run,
                                 struct error *err)
{
    struct golden_model *g = run->golden;
    int n_blocks = g->batch * ((g->length + BLOCK_SIZE - 1) / BLOCK_SIZE);
    struct model_options options = {
        .n_ranks = run->n_ranks, .weight_type = WEIGHT_F32, .cache_type = CACHE_F32, .block_size = BLOCK_SIZE,
        .n_blocks = n_blocks, .max_rows = g->batch * g->length, .max_length = g->length, .kernels = kernels,
    };
    TRY(model_load(&run->model, dir, &options, err));
    enum status s = STATUS_OK;
    if (model_config(run->model)->vocab != g->vocab)
        s = fail(err, STATUS_BAD_MODEL, "%s: golden logits have %d tokens, the model %d", dir, g->vocab,
                 model_config(run->model)->vocab);
    if (s == STATUS_OK) {
        s = model_run(run->model, lead, run);
        if (s != STATUS_OK)
            fail(err, s, "the team of %d ranks failed", run->n_ranks);
    }
    model_destroy(run->model);
    return s;
}

static enum status verify_golden(const char *dir, const char *kernels, struct run *run,
                                 struct arena *arena, struct error *err)
{
    struct golden_model *g = run->golden;
    int n_blocks = g->batch * ((g->length + BLOCK_SIZE - 1) / BLOCK_SIZE);
    TRY(ARENA_ARRAY(arena, (size_t)n_blocks, &run->blocks, err));
    TRY(ARENA_ARRAY(arena, (size_t)(g->batch * g->length), &run->step_tokens, err));
    TRY(ARENA_ARRAY(arena, (size_t)(g->batch * g->length), &run->step_rows, err));
    for (int i = 0; i < n_blocks; i++)
        run->blocks[i] = n_blocks - 1 - i;
    char ran[64] = "", refused[64] = "";
    for (int d = 0; d < N_DEGREES; d++) {
        run->n_ranks = degrees[d];
        struct error why;
        enum status s = verify_degree(dir, kernels, run, &why);
        if (s != STATUS_OK && s != STATUS_BAD_OPTION)
            return fail(err, s, "%s", why.text);
        char *list = s == STATUS_OK ? ran : refused;
        snprintf(list + strlen(list), sizeof ran - strlen(list), "%s%d", *list ? "," : "", degrees[d]);
    }
    snprintf(run->result->paths, sizeof run->result->paths, "full, step, chunks on %s ranks%s%s", ran,
             *refused ? "; refused " : "", refused);
    return STATUS_OK;
}

enum status verify_model(const char *dir, const char *kernels, struct verify_result *out,
                         struct error *err)
{
    *out = (struct verify_result){ .ok = 1, .tolerance = TOLERANCE };
    char path[4096];
    snprintf(path, sizeof path, "%s/golden.safetensors", dir);
    struct safetensors *set, *weights;
    TRY(safetensors_open(&set, path, err));
    struct golden_model golden = { 0 };
    struct arena arena;
    arena_init(&arena);
    enum status s = read_golden(set, dir, &golden, &arena, err);
    safetensors_close(set);
    struct model_config config;
    if (s == STATUS_OK)
        s = safetensors_open(&weights, dir, err);
    if (s == STATUS_OK) {
        s = model_config_load(dir, weights, &config, err);
        safetensors_close(weights);
    }
    if (s == STATUS_OK) {
        snprintf(out->kind, sizeof out->kind, "%s", config.attention.label);
        struct run run = { .golden = &golden, .result = out };
        s = verify_golden(dir, kernels, &run, &arena, err);
    }
    arena_clear(&arena);
    return s;
}
