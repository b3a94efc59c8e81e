/* model_fixture.h - a temporary folder for model directories, and the logits of a
 * model directory in one call. */
#ifndef TESTS_MODEL_MODEL_FIXTURE_H
#define TESTS_MODEL_MODEL_FIXTURE_H

#include "model/model.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FIXTURE_BLOCK_SIZE = 4, FIXTURE_MAX_TOKENS = 64 };

/* ---- folders ---- */

static char *fixture_folder(void)
{
    char *folder = strdup("/tmp/latentd-model-XXXXXX");
    assert_non_null(folder);
    assert_non_null(mkdtemp(folder));
    return folder;
}

static int fixture_remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type, (void)place;
    return remove(path);
}

static void fixture_remove(char *folder)
{
    assert_int_equal(nftw(folder, fixture_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    free(folder);
}

/* ---- logits ---- */

/* Tokens [0, n_given) are the prompt; up to n_total the likeliest token follows.
 * Rows of the prompt come in one step, or each in its own. */
struct fixture_run {
    const char *dir;
    int n_ranks;
    int weight_type;            /* of model_options */
    int one_by_one;
    int n_given, n_total;
    int32_t tokens[FIXTURE_MAX_TOKENS];
    float *logits;              /* [n_total][vocab], made by fixture_run; the caller frees */
    int vocab;
    struct model *model;
};

static inline int32_t fixture_argmax(const float *row, int n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

static inline enum status fixture_step(struct fixture_run *run, int position, int n)
{
    int32_t blocks[FIXTURE_MAX_TOKENS / FIXTURE_BLOCK_SIZE], rows[FIXTURE_MAX_TOKENS];
    for (int i = 0; i < FIXTURE_MAX_TOKENS / FIXTURE_BLOCK_SIZE; i++)
        blocks[i] = FIXTURE_MAX_TOKENS / FIXTURE_BLOCK_SIZE - 1 - i;
    for (int i = 0; i < n; i++)
        rows[i] = i;
    struct span span = {
        .n_rows = n, .first_position = position, .length = position + n, .causal = 1, .blocks = blocks,
    };
    struct batch batch = {
        .spans = &span, .n_spans = 1, .tokens = run->tokens + position, .n_rows = n,
        .logit_rows = rows, .n_logit_rows = n,
    };
    TRY(model_step(run->model, &batch));
    memcpy(run->logits + (size_t)(position * run->vocab), model_logits(run->model),
           (size_t)(n * run->vocab) * sizeof(float));
    return STATUS_OK;
}

static inline enum status fixture_lead(void *context)
{
    struct fixture_run *run = context;
    if (!run->one_by_one)
        TRY(fixture_step(run, 0, run->n_given));
    for (int p = run->one_by_one ? 0 : run->n_given; p < run->n_total; p++) {
        if (p >= run->n_given)
            run->tokens[p] = fixture_argmax(run->logits + (size_t)((p - 1) * run->vocab), run->vocab);
        TRY(fixture_step(run, p, 1));
    }
    return STATUS_OK;
}

/* Fails the test with the loader's sentence. */
static inline void fixture_run(struct fixture_run *run)
{
    struct model_options options = {
        .n_ranks = run->n_ranks, .weight_type = run->weight_type, .cache_type = CACHE_F32,
        .block_size = FIXTURE_BLOCK_SIZE, .n_blocks = FIXTURE_MAX_TOKENS / FIXTURE_BLOCK_SIZE,
        .max_rows = FIXTURE_MAX_TOKENS, .max_length = FIXTURE_MAX_TOKENS,
    };
    struct error err;
    if (model_load(&run->model, run->dir, &options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    run->vocab = model_config(run->model)->vocab;
    run->logits = calloc((size_t)(run->n_total * run->vocab), sizeof(float));
    assert_non_null(run->logits);
    assert_int_equal(model_run(run->model, fixture_lead, run), STATUS_OK);
    model_destroy(run->model);
    run->model = NULL;
}

#endif
