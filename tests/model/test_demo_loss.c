/* test_demo_loss - held-out loss of the demo models is the trainer's within 1e-4 nats, on 1, 2, 4 ranks. */
#include "base/file.h"
#include "base/json_read.h"
#include "model/logits.h"
#include "model/model.h"
#include "model/tokenizer.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_TOKENS = 2048, BLOCK = 32 };

struct loss {
    struct model *model;
    const int32_t *tokens;
    int n;
    double nats;
};

static enum status measure(void *context)
{
    struct loss *loss = context;
    int32_t blocks[MAX_TOKENS / BLOCK], rows[MAX_TOKENS];
    for (int i = 0; i < MAX_TOKENS / BLOCK; i++)
        blocks[i] = i;
    for (int i = 0; i < loss->n; i++)
        rows[i] = i;
    int vocab = model_config(loss->model)->vocab;
    struct span span = { .n_rows = loss->n - 1, .length = loss->n - 1, .causal = 1, .blocks = blocks };
    struct batch batch = {
        .spans = &span, .n_spans = 1, .tokens = loss->tokens, .n_rows = loss->n - 1,
        .logit_rows = rows, .n_logit_rows = loss->n - 1,
    };
    TRY(model_step(loss->model, &batch));
    for (int i = 0; i + 1 < loss->n; i++) {
        const float *logits = model_logits(loss->model) + (size_t)i * (size_t)vocab;
        struct log_softmax row;
        TRY(log_softmax_init(&row, logits, vocab, NULL));
        loss->nats -= (double)log_softmax_of(&row, logits[loss->tokens[i + 1]]);
    }
    loss->nats /= loss->n - 1;
    return STATUS_OK;
}

/* The excerpt behind token 0, which begins every text. */
static int read_tokens(const char *dir, const char *excerpt, int32_t *tokens)
{
    char path[600];
    struct buf text;
    buf_init(&text, 1 << 20);
    snprintf(path, sizeof path, "models/%s", excerpt);
    assert_int_equal(file_read(path, &text, NULL), STATUS_OK);
    struct tokenizer *t;
    assert_int_equal(tokenizer_load(&t, dir, NULL), STATUS_OK);
    tokens[0] = 0;
    struct token_array array = { .ids = tokens + 1, .max = MAX_TOKENS - 1 };
    struct tokenizer_input input = { .text = text.data, .len = text.len };
    assert_int_equal(tokenizer_encode(t, &input, &array, NULL), STATUS_OK);
    tokenizer_destroy(t);
    buf_clear(&text);
    return (int)array.n + 1;
}

static double loss_on_ranks(const char *dir, const int32_t *tokens, int n, int n_ranks)
{
    /* f32 holds the bf16 weights exactly and keeps the inputs f32, as the trainer's
     * forward does; bf16 products round the inputs (2e-4 nats). */
    struct model_options options = {
        .n_ranks = n_ranks, .weight_type = WEIGHT_F32, .block_size = BLOCK, .mla_by_chunk = 1,
        .n_blocks = MAX_TOKENS / BLOCK, .max_rows = n, .max_length = MAX_TOKENS,
    };
    struct loss loss = { .tokens = tokens, .n = n };
    struct error err;
    if (model_load(&loss.model, dir, &options, &err) != STATUS_OK)
        fail_msg("%s: %s", dir, err.text);
    assert_int_equal(model_run(loss.model, measure, &loss), STATUS_OK);
    model_destroy(loss.model);
    return loss.nats;
}

static void check_model(const char *name)
{
    char dir[300], path[400];
    snprintf(dir, sizeof dir, "models/%s", name);
    snprintf(path, sizeof path, "%s/expected-loss.json", dir);
    json_t *expected;
    assert_int_equal(json_read_file(path, 1 << 16, STATUS_BAD_MODEL, &expected, NULL), STATUS_OK);
    int32_t tokens[MAX_TOKENS];
    int n = read_tokens(dir, json_string_value(json_object_get(expected, "text")), tokens);
    assert_int_equal(n - 1, json_integer_value(json_object_get(expected, "tokens")));
    double want = json_real_value(json_object_get(expected, "nats_per_token"));
    json_decref(expected);
    double first = 0;
    for (int n_ranks = 1; n_ranks <= 4; n_ranks *= 2) {
        double got = loss_on_ranks(dir, tokens, n, n_ranks);
        if (fabs(got - want) > 1e-4)
            fail_msg("%s on %d ranks: %.6f nats a token, the trainer has %.6f", name, n_ranks, got, want);
        if (n_ranks == 1)
            first = got;
        assert_true(got == first);
    }
    printf("%s: %.6f nats a token, the trainer %.6f\n", name, first, want);
}

static void every_demo_model_has_the_trainers_loss(void **state)
{
    (void)state;
    DIR *models = opendir("models");
    assert_non_null(models);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(models)) != NULL;)
        if (strncmp(entry->d_name, "demo-", 5) == 0) {
            check_model(entry->d_name);
            n++;
        }
    closedir(models);
    assert_true(n >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_demo_model_has_the_trainers_loss) };
    return cmocka_run_group_tests_name("demo_loss", tests, NULL, NULL);
}
