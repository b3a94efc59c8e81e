/* test_bench_model - what a benchmark says that a step reads and multiplies is what the shape says. */
#include "bench/bench_model.h"
#include "model/synth.h"
#include "tests/model/model_fixture.h"

#include <math.h>

/* H 32, N 4, P 8, R 4, W 16, query latent 12, I 48, 3 layers, vocabulary 512. */
enum { HIDDEN = 32, HEADS = 4, NOPE = 8, ROPE = 4, LATENT = 16, QUERY = 12, MLP = 48, LAYERS = 3, VOCAB = 512 };

static char *write_model(void)
{
    char *dir = fixture_folder();
    struct synth_spec spec;
    struct error err = { 0 };
    synth_spec_init(&spec);
    spec.kind = "mla_paper";
    spec.layers = LAYERS;
    spec.hidden = HIDDEN;
    spec.heads = HEADS;
    spec.intermediate = MLP;
    spec.vocab = VOCAB;
    spec.seed = 1;
    spec.attention.latent = LATENT;
    spec.attention.query_latent = QUERY;
    spec.attention.nope_dim = NOPE;
    spec.attention.rope_dim = ROPE;
    if (synth_complete(&spec, &err) != STATUS_OK
        || synth_write(&spec, &(struct synth_output){ .dir = dir }, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return dir;
}

struct run {
    struct bench_model *model;
    struct bench_cost cost;
    float spread;               /* of the logits of the last step */
};

static enum status lead(void *context)
{
    struct run *run = context;
    TRY(bench_model_cost(run->model, &run->cost));
    bench_model_fill(run->model, 3);
    bench_model_aim(run->model, 20);
    TRY(bench_model_step(run->model, &(struct bench_step){ .n_sequences = 4, .position = 17, .n_rows = 2 }));
    const float *logits = model_logits(bench_model_model(run->model));
    float low = logits[0], high = logits[0];
    for (int i = 0; i < 4 * VOCAB; i++) {
        assert_true(isfinite(logits[i]));
        low = fminf(low, logits[i]);
        high = fmaxf(high, logits[i]);
    }
    run->spread = high - low;
    return STATUS_OK;
}

static void check_cost(const char *dir, int n_ranks, int by_chunk, enum cache_type type, double row_bytes)
{
    struct bench_model_options options = {
        .dir = dir, .weight_type = WEIGHT_F32, .cache_type = type, .n_ranks = n_ranks, .mla_by_chunk = by_chunk,
        .block_size = 4, .n_sequences = 4, .length = 64, .n_blocks = 20, .max_rows = 8,
    };
    struct run run = { 0 };
    struct error err = { 0 };
    if (bench_model_create(&run.model, &options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(bench_model_run(run.model, lead, &run), STATUS_OK);
    bench_model_destroy(run.model);
    double attend = (double)LAYERS * HEADS * (2 * LATENT + ROPE);
    double layer = QUERY * HIDDEN + (double)HEADS * (NOPE + ROPE) * QUERY + (LATENT + ROPE) * HIDDEN
                 + (double)HEADS * 2 * NOPE * LATENT + (double)HIDDEN * HEADS * NOPE + 3.0 * MLP * HIDDEN;
    double norms = LAYERS * (2.0 * HIDDEN + LATENT + QUERY) + HIDDEN;
    assert_true(run.cost.cached_row_macs == attend);
    assert_true(run.cost.row_macs == LAYERS * layer + norms);
    assert_true(run.cost.logit_row_macs == (double)VOCAB * HIDDEN);
    double copies = by_chunk || n_ranks == 1 ? 1 : n_ranks;
    assert_true(run.cost.cached_bytes == copies * LAYERS * row_bytes);
    assert_true(run.cost.step_bytes >= 4 * (LAYERS * layer + VOCAB * HIDDEN));
    assert_true(run.spread > 0);
}

static void a_steps_bytes_and_multiply_adds_are_those_of_the_shape(void **state)
{
    (void)state;
    char *dir = write_model();
    check_cost(dir, 1, 0, CACHE_F32, 4 * (LATENT + ROPE));
    check_cost(dir, 2, 0, CACHE_F32, 4 * (LATENT + ROPE));
    check_cost(dir, 2, 1, CACHE_BF16, 2 * (LATENT + ROPE));
    check_cost(dir, 1, 0, CACHE_INT8, LATENT + ROPE + 2 * 4);
    fixture_remove(dir);
}

static void work_adds_up_what_rows_see(void **state)
{
    (void)state;
    struct bench_work work = { 0 };
    bench_work_add(&work, &(struct bench_step){ .n_sequences = 3, .position = 10, .n_rows = 2 });
    assert_true(work.steps == 1 && work.rows == 6 && work.logit_rows == 3);
    assert_true(work.cached_rows == 3 * (11 + 12));     /* the first row sees 11 positions, the second 12 */
    assert_true(work.streamed_rows == 3 * 12);
    struct bench_cost cost = {
        .step_bytes = 100, .cached_bytes = 2, .row_macs = 10, .logit_row_macs = 5, .cached_row_macs = 7,
        .attend_peak = PEAK_F32, .attend_products = 1,
    };
    assert_true(bench_work_bytes(&work, &cost) == 100 + 36 * 2);
    assert_true(bench_work_macs(&work, &cost) == 60 + 15 + 69 * 7);
    struct bench_limits limits = { .read = 86, .peak = { 483, 75, 1 } };
    assert_true(bench_work_least_time(&work, &cost, &limits, WEIGHT_BF16) == 2);    /* bytes: 172 / 86 */
    limits.read = 1e9;
    assert_true(bench_work_least_time(&work, &cost, &limits, WEIGHT_BF16) == 75.0 / 75 + 483.0 / 483);
    cost.attend_peak = PEAK_INT8;
    cost.attend_products = 2;
    assert_true(bench_work_least_time(&work, &cost, &limits, WEIGHT_BF16) == 75.0 / 75 + 2 * 483.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steps_bytes_and_multiply_adds_are_those_of_the_shape),
        cmocka_unit_test(work_adds_up_what_rows_see),
    };
    return cmocka_run_group_tests_name("bench_model", tests, NULL, NULL);
}
