/* test_synth - every kind of random model is written, loaded, and runs alike on one rank and on two. */
#include "base/file.h"
#include "model/byte_tokenizer.h"
#include "model/detokenizer.h"
#include "model/inspect.h"
#include "model/synth_private.h"
#include "model/tokenizer.h"
#include "tests/model/model_fixture.h"

#include <math.h>

enum { N_TOKENS = 24, N_GIVEN = 9 };

/* One tiny model of a kind: what the kind needs beyond the common sizes. */
struct tiny {
    const char *name, *kind;
    struct {
        int latent, query_latent, nope_dim, rope_dim, latents, kv_heads, gated, bitnet, decompressed;
    } a;
    int tied;
    enum dtype dtype;
};

static const struct tiny tinies[] = {
    { "mla", "mla", { .latent = 24, .query_latent = 32, .rope_dim = 8 }, 0, DTYPE_F32 },
    { "mla without positions", "mla", { .latent = 24, .query_latent = 32 }, 0, DTYPE_F32 },
    { "mla_rope", "mla_rope", { .latent = 40 }, 0, DTYPE_F32 },
    { "mla_rope, shared keys", "mla_rope", { .latent = 40, .kv_heads = 2 }, 1, DTYPE_BF16 },
    { "mlra", "mlra", { .latent = 48, .latents = 4 }, 0, DTYPE_F32 },
    { "mlra, rotated keys", "mlra", { .latent = 48, .latents = 2, .kv_heads = 2, .decompressed = 1 }, 0,
      DTYPE_F32 },
    { "mlra, BitLinear", "mlra", { .latents = 2, .bitnet = 1 }, 0, DTYPE_F32 },
    { "cca", "cca", { .latent = 32 }, 0, DTYPE_F32 },
    { "ccgqa", "ccgqa", { .latent = 32, .query_latent = 64, .kv_heads = 2 }, 0, DTYPE_BF16 },
    { "mla_paper", "mla_paper", { .latent = 32, .query_latent = 24, .nope_dim = 16, .rope_dim = 8 }, 1,
      DTYPE_F32 },
    { "mlra_2", "mlra_2", { .latent = 32, .query_latent = 24, .nope_dim = 16, .rope_dim = 8 }, 0, DTYPE_F32 },
    { "mlra_4", "mlra_4", { .latent = 32, .query_latent = 24, .nope_dim = 16, .rope_dim = 8, .gated = 1 },
      0, DTYPE_BF16 },
    { "gla_2", "gla_2", { .latent = 32, .query_latent = 24, .nope_dim = 16, .rope_dim = 8 }, 0, DTYPE_F32 },
    { "gla_4", "gla_4", { .latent = 32, .query_latent = 24, .nope_dim = 16, .rope_dim = 8, .gated = 1 },
      0, DTYPE_F32 },
    { "gqa", "gqa", { .kv_heads = 2 }, 0, DTYPE_F32 },
    { "mha", "mha", { .gated = 1 }, 0, DTYPE_F32 },
};
#define N_TINIES (sizeof tinies / sizeof tinies[0])

static void say(int *field, int value)
{
    if (value > 0)
        *field = value;
}

static void describe(const struct tiny *t, struct synth_spec *spec)
{
    synth_spec_init(spec);
    struct synth_parameters *a = &spec->attention;
    spec->kind = t->kind;
    spec->layers = 2;
    spec->hidden = 64;
    spec->heads = 4;
    spec->intermediate = 96;
    spec->vocab = 400;
    spec->tied = t->tied;
    spec->dtype = t->dtype;
    spec->seed = 7;
    say(&a->latent, t->a.latent);
    say(&a->query_latent, t->a.query_latent);
    say(&a->nope_dim, t->a.nope_dim);
    say(&a->latents, t->a.latents);
    say(&a->kv_heads, t->a.kv_heads);
    say(&a->gated, t->a.gated);
    say(&a->bitnet, t->a.bitnet);
    say(&a->decompressed, t->a.decompressed);
    say(&a->rope_dim, t->a.rope_dim);
    if (strcmp(t->kind, "mla") == 0)
        a->rope_dim = t->a.rope_dim;
}

static void write_model(const struct synth_spec *given, const char *dir)
{
    struct synth_spec spec = *given;
    struct synth_output output = { .dir = dir };
    struct error err;
    if (synth_complete(&spec, &err) != STATUS_OK || synth_write(&spec, &output, &err) != STATUS_OK)
        fail_msg("%s: %s", dir, err.text);
}

static void write_tiny(const struct tiny *t, const char *folder, char dir[256])
{
    struct synth_spec spec;
    describe(t, &spec);
    snprintf(dir, 256, "%s/%s", folder, t->name);
    write_model(&spec, dir);
}

static void run_on(const char *dir, int n_ranks, struct fixture_run *run)
{
    *run = (struct fixture_run){
        .dir = dir, .n_ranks = n_ranks, .weight_type = MODEL_WEIGHTS_AUTO,
        .n_given = N_GIVEN, .n_total = N_TOKENS,
    };
    for (int i = 0; i < N_GIVEN; i++)
        run->tokens[i] = 'a' + 3 * i % 26;
    fixture_run(run);
}

static void every_kind_runs_with_the_same_bits_on_one_rank_and_on_two(void **state)
{
    (void)state;
    char *folder = fixture_folder(), dir[256];
    for (size_t i = 0; i < N_TINIES; i++) {
        write_tiny(&tinies[i], folder, dir);
        struct fixture_run one, two;
        run_on(dir, 1, &one);
        run_on(dir, 2, &two);
        size_t n = (size_t)(N_TOKENS * one.vocab);
        if (memcmp(one.logits, two.logits, n * sizeof(float)) != 0)
            fail_msg("%s: two ranks differ from one", tinies[i].name);
        assert_memory_equal(one.tokens, two.tokens, sizeof one.tokens);
        free(one.logits);
        free(two.logits);
    }
    fixture_remove(folder);
}

/* Neither flat nor certain, at every position, and not the same at all of them. */
static void logits_are_finite_and_of_a_sensible_size(void **state)
{
    (void)state;
    char *folder = fixture_folder(), dir[256];
    for (size_t i = 0; i < N_TINIES; i++) {
        write_tiny(&tinies[i], folder, dir);
        struct fixture_run run;
        run_on(dir, 1, &run);
        for (int row = 0; row < N_TOKENS; row++) {
            double sum = 0, squares = 0;
            for (int t = 0; t < run.vocab; t++) {
                double x = (double)run.logits[row * run.vocab + t];
                assert_true(isfinite(x));
                sum += x;
                squares += x * x;
            }
            double mean = sum / run.vocab, deviation = sqrt(squares / run.vocab - mean * mean);
            double want = tinies[i].tied ? 1 : 2;
            if (deviation < 0.75 * want || deviation > 1.35 * want)
                fail_msg("%s: row %d has deviation %g", tinies[i].name, row, deviation);
        }
        /* The prompt's nine different tokens have different successors. */
        int n_different = 0;
        for (int p = 1; p < N_GIVEN; p++)
            n_different += fixture_argmax(run.logits + p * run.vocab, run.vocab)
                        != fixture_argmax(run.logits + (p - 1) * run.vocab, run.vocab);
        if (n_different < 6)
            fail_msg("%s: only %d of 8 successors differ", tinies[i].name, n_different);
        free(run.logits);
    }
    fixture_remove(folder);
}

/* ---- weights ---- */

static void matrices_have_the_promised_mean_and_deviation(void **state)
{
    (void)state;
    char *folder = fixture_folder(), dir[256];
    write_tiny(&tinies[2], folder, dir);
    struct safetensors *set;
    assert_int_equal(safetensors_open(&set, dir, NULL), STATUS_OK);
    const struct tensor *t = safetensors_find(set, "model.layers.0.mlp.gate_proj.weight");
    assert_non_null(t);
    size_t n = (size_t)t->n_elements;
    assert_int_equal(n, 96 * 64);
    float *values = malloc(n * sizeof(float));
    assert_non_null(values);
    assert_int_equal(tensor_to_f32(t, 0, n, values, NULL), STATUS_OK);
    double sum = 0, squares = 0, fourths = 0, neighbours = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)values[i] * 8;       /* sqrt(64): deviation 1 */
        sum += x;
        squares += x * x;
        fourths += x * x * x * x;
        neighbours += i > 0 ? x * (double)values[i - 1] * 8 : 0;
    }
    /* Five deviations of each estimate. */
    double step = 5 / sqrt((double)n);
    assert_true(fabs(sum / (double)n) < step);
    assert_true(fabs(squares / (double)n - 1) < 2 * step);
    assert_true(fabs(neighbours / (double)n) < step);
    /* A normal number has 3 here, a uniform one 1.8, the sum of four uniform ones 2.7. */
    assert_true(fourths / (double)n > 2.4 && fourths / (double)n < 3.1);
    free(values);
    safetensors_close(set);
    fixture_remove(folder);
}

static void same_files(const char *one, const char *two, const char *name, int want)
{
    char path[2][300];
    snprintf(path[0], 300, "%s/%s", one, name);
    snprintf(path[1], 300, "%s/%s", two, name);
    struct buf a, b;
    buf_init(&a, 1 << 24);
    buf_init(&b, 1 << 24);
    assert_int_equal(file_read(path[0], &a, NULL), STATUS_OK);
    assert_int_equal(file_read(path[1], &b, NULL), STATUS_OK);
    assert_int_equal(a.len == b.len && memcmp(a.data, b.data, a.len) == 0, want);
    buf_clear(&a);
    buf_clear(&b);
}

static void the_seed_decides_the_bytes(void **state)
{
    (void)state;
    char *folder = fixture_folder(), dir[3][256];
    struct synth_spec spec;
    describe(&tinies[0], &spec);
    for (int i = 0; i < 3; i++) {
        snprintf(dir[i], 256, "%s/%d", folder, i);
        spec.seed = i / 2;
        write_model(&spec, dir[i]);
    }
    same_files(dir[0], dir[1], "model.safetensors", 1);
    same_files(dir[0], dir[2], "model.safetensors", 0);
    same_files(dir[0], dir[2], "config.json", 1);
    same_files(dir[0], dir[2], "tokenizer.json", 1);
    fixture_remove(folder);
}

/* ---- presets ---- */

/* The numbers of the MLRA repository's checkpoints, a tied head counted once. */
static void presets_have_the_published_number_of_parameters(void **state)
{
    (void)state;
    static const struct { const char *name; int64_t n; } published[] = {
        { "paper-mla", 2872052736 }, { "paper-mlra-2", 2872630272 }, { "paper-mlra-4", 2873220096 },
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        struct synth_spec spec;
        synth_spec_init(&spec);
        struct error err;
        assert_int_equal(synth_preset(published[i].name, &spec, &err), STATUS_OK);
        assert_int_equal(synth_complete(&spec, &err), STATUS_OK);
        json_t *config = synth_config_json(&spec);
        struct attention_config attention;
        assert_int_equal(synth_attention(config, &spec, &attention, &err), STATUS_OK);
        struct synth_plan plan = { 0 };
        assert_int_equal(synth_plan_tensors(&plan, &spec, &attention, &err), STATUS_OK);
        int64_t n = 0;
        for (size_t k = 0; k < plan.tensors.n; k++)
            n += plan.tensors.tensors[k].n_elements;
        assert_int_equal(n, published[i].n);
        tensor_plan_clear(&plan.tensors);
        json_decref(config);
    }
}

static void every_preset_is_complete_and_consistent(void **state)
{
    (void)state;
    int n = 0;
    for (const char *name; (name = synth_preset_name(n)) != NULL; n++) {
        struct synth_spec spec;
        synth_spec_init(&spec);
        struct error err;
        if (synth_preset(name, &spec, &err) != STATUS_OK || synth_complete(&spec, &err) != STATUS_OK)
            fail_msg("%s: %s", name, err.text);
        json_t *config = synth_config_json(&spec);
        struct attention_config attention;
        if (synth_attention(config, &spec, &attention, &err) != STATUS_OK)
            fail_msg("%s: %s", name, err.text);
        assert_true(attention_ranks_valid(&attention, 2));
        json_decref(config);
    }
    assert_int_equal(n, 13);
}

/* ---- refusals ---- */

static void refuse(const struct synth_spec *given, const char *dir, enum status want, const char *sentence)
{
    struct synth_spec spec = *given;
    struct synth_output output = { .dir = dir };
    struct error err = { 0 };
    enum status s = synth_complete(&spec, &err);
    if (s == STATUS_OK)
        s = synth_write(&spec, &output, &err);
    assert_int_equal(s, want);
    if (strstr(err.text, sentence) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, sentence);
}

static void what_does_not_fit_is_refused_before_a_file_exists(void **state)
{
    (void)state;
    char *folder = fixture_folder(), dir[300];
    snprintf(dir, sizeof dir, "%s/none", folder);
    struct synth_spec good, spec;
    describe(&tinies[4], &good);
    spec = good, spec.kind = NULL;
    refuse(&spec, dir, STATUS_BAD_OPTION, "--kind and --preset");
    spec = good, spec.kind = "mlra_5";
    refuse(&spec, dir, STATUS_BAD_OPTION, "is not one of mla, mla_rope");
    spec = good, spec.heads = SYNTH_UNSET;
    refuse(&spec, dir, STATUS_BAD_OPTION, "--heads must be given");
    spec = good, spec.attention.gated = 1;
    refuse(&spec, dir, STATUS_BAD_OPTION, "--gated is no parameter of kind mlra");
    spec = good, spec.kind = "gla_2", spec.attention.latents = SYNTH_UNSET;
    refuse(&spec, dir, STATUS_BAD_OPTION, "kind gla_2 needs --query-latent");
    spec = good, spec.attention.latents = 5;
    refuse(&spec, dir, STATUS_BAD_MODEL, "must divide mlra_latent_rank = 48");
    spec = good, spec.vocab = BYTE_TOKENIZER_MIN - 1;
    refuse(&spec, dir, STATUS_BAD_OPTION, "--vocab must be at least 260");
    assert_int_equal(access(dir, F_OK), -1);
    write_model(&good, dir);
    refuse(&good, dir, STATUS_BAD_OPTION, "holds a model already");
    fixture_remove(folder);
}

/* ---- tokenizer ---- */

static void the_tokenizer_takes_any_bytes_and_gives_them_back(void **state)
{
    (void)state;
    char *folder = fixture_folder();
    assert_int_equal(byte_tokenizer_write(folder, 1200, NULL), STATUS_OK);
    struct tokenizer *t;
    struct error err;
    if (tokenizer_load(&t, folder, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(tokenizer_n_ids(t), 1200);
    assert_int_equal(tokenizer_bos(t), BYTE_TOKENIZER_BOS);
    assert_int_equal(tokenizer_eos(t), BYTE_TOKENIZER_EOS);
    char text[600], back[1200];
    size_t n = 0, at = 0;
    for (int i = 0; i < 256; i++)
        text[n++] = (char)i;
    n += (size_t)snprintf(text + n, 300,
                          "Tell me how the latent lies on two ranks, \xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82.");
    int32_t ids[600];
    struct token_array out = { .ids = ids, .max = 600 };
    struct tokenizer_input input = { .text = text, .len = n };
    assert_int_equal(tokenizer_encode(t, &input, &out, NULL), STATUS_OK);
    for (size_t i = 0; i < out.n; i++) {
        size_t len;
        const char *bytes = tokenizer_token_bytes(t, ids[i], &len);
        memcpy(back + at, bytes, len);
        at += len;
    }
    assert_int_equal(at, n);
    assert_memory_equal(back, text, n);
    assert_true(out.n < n - 15);        /* letters are taken in groups */
    for (int32_t id = 0; id < 1200; id++) {
        size_t len;
        tokenizer_token_bytes(t, id, &len);
        assert_true(len > 0);
    }
    tokenizer_destroy(t);
    fixture_remove(folder);
}

/* ---- inspect ---- */

static void inspect_counts_what_synth_wrote(void **state)
{
    (void)state;
    char *folder = fixture_folder(), dir[256];
    write_tiny(&tinies[11], folder, dir);       /* mlra_4: 4 latents of 8, rope 8, 2 layers */
    struct inspection in;
    struct error err;
    if (inspect_model(dir, &in, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    const struct inspect_parameters *p = &in.parameters;
    assert_int_equal(p->mlp, 2 * 3 * 64 * 96);
    assert_int_equal(p->embedding, 400 * 64);
    assert_int_equal(p->head, 400 * 64);
    assert_int_equal(p->norms, 5 * 64);
    /* q_a, its norm, q_b, kv_a, four norms, kv_b, gate, W_O */
    assert_int_equal(p->attention, 2 * (24 * 64 + 24 + 4 * 24 * 24 + 40 * 64 + 4 * 8 + 4 * 8 * 4 * 32
                                        + 4 * 16 * 64 + 64 * 4 * 16));
    assert_int_equal(p->total, p->mlp + p->embedding + p->head + p->norms + p->attention);
    assert_int_equal(in.weight_bytes, 2 * p->total);
    assert_int_equal(in.weight_types, 1u << DTYPE_BF16);
    static const int elements[] = { 40, 24, 16 };
    for (int i = 0; i < 3; i++) {
        const struct inspect_degree *d = &in.degrees[i];
        assert_true(d->is_valid && d->n_ranks == 1 << i && !d->may_shard_by_chunk);
        assert_int_equal(d->elements_per_device, 2 * elements[i]);
        assert_int_equal(d->bytes_per_device[CACHE_F32], 2 * 4 * elements[i]);
        assert_int_equal(d->bytes_per_device[CACHE_BF16], 2 * 2 * elements[i]);
        assert_int_equal(d->bytes_total[CACHE_BF16], (2 * 2 * elements[i]) << i);
        /* int8: one float of scale for each latent and for the rope key */
        assert_int_equal(d->bytes_per_device[CACHE_INT8], 2 * (elements[i] + 4 * (4 / (1 << i) + 1)));
    }
    fixture_remove(folder);
}

static void inspect_counts_a_replicated_latent_on_every_device_and_a_sharded_one_once(void **state)
{
    (void)state;
    char *folder = fixture_folder(), dir[256];
    write_tiny(&tinies[9], folder, dir);        /* mla_paper: a latent of 32, rope 8, 2 layers */
    struct inspection in;
    assert_int_equal(inspect_model(dir, &in, NULL), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        const struct inspect_degree *d = &in.degrees[i];
        assert_int_equal(d->elements_per_device, 2 * 40);
        assert_int_equal(d->bytes_total[CACHE_F32], (2 * 40 * 4) << i);
        assert_int_equal(d->may_shard_by_chunk, i > 0);
        assert_int_equal(d->by_chunk_bytes_per_device[CACHE_F32], i > 0 ? 2 * 40 * 4 >> i : 0);
    }
    assert_false(in.degrees[3].is_valid);       /* 4 heads */
    fixture_remove(folder);
}

static void inspect_says_what_is_wrong_with_a_directory(void **state)
{
    (void)state;
    char *folder = fixture_folder(), dir[256], path[300];
    struct inspection in;
    struct error err;
    assert_int_equal(inspect_model(folder, &in, &err), STATUS_NOT_FOUND);
    write_tiny(&tinies[0], folder, dir);
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_int_equal(file_replace(path, "{\"model_type\": \"bert\"}", 22, NULL), STATUS_OK);
    assert_int_equal(inspect_model(dir, &in, &err), STATUS_BAD_MODEL);
    assert_non_null(strstr(err.text, "bert"));
    fixture_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_runs_with_the_same_bits_on_one_rank_and_on_two),
        cmocka_unit_test(logits_are_finite_and_of_a_sensible_size),
        cmocka_unit_test(matrices_have_the_promised_mean_and_deviation),
        cmocka_unit_test(the_seed_decides_the_bytes),
        cmocka_unit_test(presets_have_the_published_number_of_parameters),
        cmocka_unit_test(every_preset_is_complete_and_consistent),
        cmocka_unit_test(what_does_not_fit_is_refused_before_a_file_exists),
        cmocka_unit_test(the_tokenizer_takes_any_bytes_and_gives_them_back),
        cmocka_unit_test(inspect_counts_what_synth_wrote),
        cmocka_unit_test(inspect_counts_a_replicated_latent_on_every_device_and_a_sharded_one_once),
        cmocka_unit_test(inspect_says_what_is_wrong_with_a_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
