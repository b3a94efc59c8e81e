#include "bench/bench_accuracy.h"

#include "base/file.h"
#include "model/logits.h"
#include "model/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 1 << 20, STEP_ROWS = 128, BLOCK = 32 };

struct bench_accuracy {
    struct bench_accuracy_options options;
    int32_t *tokens;            /* [n + 1]; token i + 1 is predicted by row i */
    int n;
    int32_t *blocks;            /* in order */
    int n_blocks;
    int vocab;
    float *reference;           /* [n][vocab] logits */
};

/* The model that runs, and where its distributions go. */
struct pass {
    struct bench_accuracy *a;
    struct model *model;
    struct bench_divergence *divergence;    /* NULL: this is the reference */
    struct error *err;
};

/* ---- the text ---- */

static int text_limit(const struct bench_accuracy *a, int positions)
{
    int most = a->options.max_tokens < positions ? a->options.max_tokens : positions;
    return most > 2 ? most : 2;
}

/* Texts of a model begin with its first token: the one that its configuration
 * names, or 0. */
static enum status encode(struct bench_accuracy *a, const struct tokenizer *t, const struct buf *text,
                          struct error *err)
{
    int32_t bos = tokenizer_bos(t);
    a->tokens[0] = bos >= 0 ? bos : 0;
    struct token_array array = { .ids = a->tokens + 1, .max = (size_t)a->options.max_tokens };
    struct tokenizer_input input = { .text = text->data, .len = text->len };
    enum status s = tokenizer_encode(t, &input, &array, err);
    if (s != STATUS_OK && s != STATUS_TOO_LARGE)
        return s;
    size_t n = array.n < array.max ? array.n : array.max;
    if (n < 2)
        return fail(err, STATUS_BAD_OPTION, "%s has %zu tokens, and at least 2 are needed", a->options.text, n);
    a->n = (int)n;
    return STATUS_OK;
}

static enum status read_text(struct bench_accuracy *a, struct error *err)
{
    a->tokens = calloc((size_t)a->options.max_tokens + 1, sizeof *a->tokens);
    if (a->tokens == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for %d tokens", a->options.max_tokens);
    struct tokenizer *t;
    TRY(tokenizer_load(&t, a->options.dir, err));
    struct buf text;
    buf_init(&text, MAX_TEXT);
    enum status s = file_read(a->options.text, &text, err);
    if (s == STATUS_OK)
        s = encode(a, t, &text, err);
    buf_clear(&text);
    tokenizer_destroy(t);
    return s;
}

/* ---- a pass over it ---- */

static enum status compare_row(struct pass *pass, int row, const float *logits)
{
    const struct bench_accuracy *a = pass->a;
    const float *reference = a->reference + (size_t)row * (size_t)a->vocab;
    struct log_softmax p, q;
    TRY(log_softmax_init(&p, reference, a->vocab, pass->err));
    TRY(log_softmax_init(&q, logits, a->vocab, pass->err));
    double kl = 0;
    for (int i = 0; i < a->vocab; i++) {
        double log_p = (double)reference[i] - p.max - p.log_sum, log_q = (double)logits[i] - q.max - q.log_sum;
        kl += exp(log_p) * (log_p - log_q);
    }
    int next = a->tokens[row + 1];
    struct bench_divergence *d = pass->divergence;
    d->loss -= (double)log_softmax_of(&q, logits[next]) / a->n;
    d->reference_loss -= (double)log_softmax_of(&p, reference[next]) / a->n;
    d->mean_kl += kl / a->n;
    d->worst_kl = fmax(d->worst_kl, kl);
    return STATUS_OK;
}

static enum status take_rows(struct pass *pass, int first, int n)
{
    struct bench_accuracy *a = pass->a;
    const float *logits = model_logits(pass->model);
    size_t vocab = (size_t)a->vocab;
    if (pass->divergence == NULL) {
        memcpy(a->reference + (size_t)first * vocab, logits, (size_t)n * vocab * sizeof *logits);
        return STATUS_OK;
    }
    for (int i = 0; i < n; i++)
        TRY(compare_row(pass, first + i, logits + (size_t)i * vocab));
    return STATUS_OK;
}

static enum status lead(void *context)
{
    struct pass *pass = context;
    struct bench_accuracy *a = pass->a;
    int32_t logit_rows[STEP_ROWS];
    for (int i = 0; i < STEP_ROWS; i++)
        logit_rows[i] = i;
    for (int first = 0; first < a->n; first += STEP_ROWS) {
        int n = a->n - first < STEP_ROWS ? a->n - first : STEP_ROWS;
        struct span span = {
            .n_rows = n, .first_position = first, .length = first + n, .causal = 1, .blocks = a->blocks,
        };
        struct batch batch = {
            .spans = &span, .n_spans = 1, .tokens = a->tokens + first, .n_rows = n,
            .logit_rows = logit_rows, .n_logit_rows = n,
        };
        TRY(model_step(pass->model, &batch));
        TRY(take_rows(pass, first, n));
    }
    return STATUS_OK;
}

static enum status load_as(const struct bench_accuracy *a, const struct bench_accuracy_types *types,
                           struct model **out, struct error *err)
{
    struct model_options options = {
        .n_ranks = a->options.n_ranks, .weight_type = types->weights, .cache_type = types->cache,
        .block_size = BLOCK, .mla_by_chunk = 1, .n_blocks = a->n_blocks, .max_rows = STEP_ROWS,
        .kernels = a->options.kernels,
    };
    return model_load(out, a->options.dir, &options, err);
}

static enum status run_pass(struct pass *pass, struct error *err)
{
    *err = (struct error){ 0 };
    pass->err = err;
    enum status s = model_run(pass->model, lead, pass);
    if (s != STATUS_OK && err->text[0] == '\0')
        fail(err, s, "a step failed: %s", status_meaning(s));
    return s;
}

/* ---- life ---- */

static enum status take_reference(struct bench_accuracy *a, struct error *err)
{
    static const struct bench_accuracy_types f32 = { WEIGHT_F32, CACHE_F32 };
    a->n_blocks = (a->options.max_tokens + BLOCK - 1) / BLOCK;
    a->blocks = calloc((size_t)a->n_blocks, sizeof *a->blocks);
    if (a->blocks == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for %d blocks", a->n_blocks);
    for (int i = 0; i < a->n_blocks; i++)
        a->blocks[i] = i;
    struct pass pass = { .a = a };
    TRY(load_as(a, &f32, &pass.model, err));
    int most = text_limit(a, model_config(pass.model)->max_positions);
    a->n = a->n < most ? a->n : most;
    a->vocab = model_config(pass.model)->vocab;
    a->reference = malloc((size_t)a->n * (size_t)a->vocab * sizeof *a->reference);
    enum status s = a->reference == NULL
        ? fail(err, STATUS_NO_MEMORY, "no memory for the logits of %d tokens", a->n) : run_pass(&pass, err);
    model_destroy(pass.model);
    return s;
}

enum status bench_accuracy_create(struct bench_accuracy **out, const struct bench_accuracy_options *options,
                                  struct error *err)
{
    struct bench_accuracy *a = calloc(1, sizeof *a);
    if (a == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a comparison");
    a->options = *options;
    enum status s = read_text(a, err);
    if (s == STATUS_OK)
        s = take_reference(a, err);
    if (s != STATUS_OK) {
        bench_accuracy_destroy(a);
        return s;
    }
    *out = a;
    return STATUS_OK;
}

void bench_accuracy_destroy(struct bench_accuracy *a)
{
    if (a == NULL)
        return;
    free(a->tokens);
    free(a->blocks);
    free(a->reference);
    free(a);
}

const char *bench_accuracy_dir(const struct bench_accuracy *a)
{
    return a->options.dir;
}

enum status bench_accuracy_measure(struct bench_accuracy *a, const struct bench_accuracy_types *types,
                                   struct bench_divergence *out, struct error *err)
{
    *out = (struct bench_divergence){ .tokens = a->n };
    struct pass pass = { .a = a, .divergence = out };
    TRY(load_as(a, types, &pass.model, err));
    enum status s = run_pass(&pass, err);
    model_destroy(pass.model);
    return s;
}
