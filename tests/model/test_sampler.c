/* test_sampler - every stage against a plain double-precision oracle, draw by draw and by statistics. */
#include "base/rng.h"
#include "model/sampler.h"
#include "tests/model/sampling_oracle.h"

#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 500, BIG_VOCAB = 150000, MAX_TOKENS = 256 };

/* ---- fixture ---- */

struct fixture {
    struct sampler *sampler;
    struct sampler_scratch *scratch;
    struct oracle oracle;
    struct sampling_params params;
    float logits[VOCAB];
    double adjusted[VOCAB];
    struct rng rng;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_int_equal(sampler_create(&f->sampler, VOCAB, MAX_TOKENS, NULL), STATUS_OK);
    assert_int_equal(sampler_scratch_create(&f->scratch, VOCAB, NULL), STATUS_OK);
    f->oracle.t = calloc(VOCAB, sizeof *f->oracle.t);
    sampling_params_init(&f->params);
    rng_seed(&f->rng, 11);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    sampler_destroy(f->sampler);
    sampler_scratch_destroy(f->scratch);
    free(f->oracle.t);
    free(f);
    return 0;
}

static double normal(struct rng *rng)
{
    double u = rng_uniform(rng) + 1e-12;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * rng_uniform(rng));
}

static void fill(struct fixture *f, double spread)
{
    for (int i = 0; i < VOCAB; i++) {
        f->logits[i] = (float)(spread * normal(&f->rng));
        f->adjusted[i] = (double)f->logits[i];
    }
}

static int32_t pick(struct fixture *f, const uint64_t *allowed, const int32_t *banned, int n_banned)
{
    struct sampler_input input = { f->logits, allowed, banned, n_banned };
    struct sampled out;
    struct error err;
    assert_int_equal(sampler_pick(f->sampler, &input, f->scratch, &out, &err), STATUS_OK);
    return out.token;
}

/* ---- greedy and its edges ---- */

static void greedy_takes_the_largest_and_the_lowest_of_equals(void **state)
{
    struct fixture *f = *state;
    for (int round = 0; round < 200; round++) {
        fill(f, 2);
        int a = (int)rng_below(&f->rng, VOCAB), b = (int)rng_below(&f->rng, VOCAB);
        f->logits[a] = f->logits[b] = 50;
        f->params.temperature = round % 2 == 0 ? 0 : 1e-8;
        sampler_start(f->sampler, &f->params);
        assert_int_equal(pick(f, NULL, NULL, 0), a < b ? a : b);
    }
    for (int i = 0; i < VOCAB; i++)
        f->logits[i] = -3;
    assert_int_equal(pick(f, NULL, NULL, 0), 0);
}

static void extreme_but_legal_values_still_give_a_token(void **state)
{
    struct fixture *f = *state;
    static const struct {
        double temperature, top_p, min_p, typical_p;
        int64_t top_k;
        int is_greedy;
    } rows[] = {
        { 1e-8,   1,    0, 1,    0,       1 },
        { 1.1e-5, 1,    0, 1,    0,       1 },
        { 1,      1e-9, 0, 1,    0,       1 },
        { 1,      0,    0, 1,    0,       1 },
        { 1,      1,    1, 1,    0,       1 },
        { 1,      1,    0, 1,    1,       1 },
        { 1e9,    1,    0, 1,    1,       1 },
        { 1,      1,    0, 1,    1000000, 0 },
        { 1e9,    1,    0, 1,    0,       0 },
        { 1,      1,    0, 1e-9, 0,       0 },
        { 1e-4,   0.5,  1, 0.5,  7,       1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fill(f, 5);
        f->params.temperature = rows[i].temperature;
        f->params.top_p = rows[i].top_p;
        f->params.min_p = rows[i].min_p;
        f->params.typical_p = rows[i].typical_p;
        f->params.top_k = rows[i].top_k;
        assert_int_equal(sampling_params_check(&f->params, VOCAB, NULL), STATUS_OK);
        sampler_start(f->sampler, &f->params);
        int32_t token = pick(f, NULL, NULL, 0);
        assert_in_range(token, 0, VOCAB - 1);
        if (rows[i].is_greedy)
            assert_int_equal(token, logits_argmax(f->logits, VOCAB));
    }
}

static void huge_logits_do_not_overflow(void **state)
{
    struct fixture *f = *state;
    fill(f, 1);
    f->logits[7] = 3.4e38f;
    f->logits[8] = -3.4e38f;
    f->params.repetition_penalty = 0.01;
    f->params.want_logprob = 1;
    sampler_start(f->sampler, &f->params);
    int32_t prompt[] = { 7, 8 };
    sampler_push_prompt(f->sampler, prompt, 2);
    for (int i = 0; i < 20; i++)
        assert_int_equal(pick(f, NULL, NULL, 0), 7);
}

/* ---- stages against the oracle, draw by draw ---- */

static void choose_stages(struct fixture *f, unsigned stages)
{
    struct sampling_params *p = &f->params;
    sampling_params_init(p);
    p->seed = rng_next(&f->rng);
    p->temperature = 0.3 + 2 * rng_uniform(&f->rng);
    if (stages & 1)
        p->top_k = 1 + (int64_t)rng_below(&f->rng, 60);
    if (stages & 2)
        p->top_p = rng_uniform(&f->rng);
    if (stages & 4)
        p->min_p = rng_uniform(&f->rng) * 0.2;
    if (stages & 8)
        p->typical_p = rng_uniform(&f->rng);
    if (stages & 16) {
        p->repetition_penalty = 0.5 + 1.5 * rng_uniform(&f->rng);
        p->presence_penalty = 4 * rng_uniform(&f->rng) - 2;
        p->frequency_penalty = 4 * rng_uniform(&f->rng) - 2;
    }
    for (; (stages & 32) && p->n_bias < 20; p->n_bias++)
        p->bias[p->n_bias] = (struct logit_bias){ (int32_t)rng_below(&f->rng, VOCAB),
                                                  (float)(10 * rng_uniform(&f->rng) - 5) };
}

/* The first three stages, in double, from the whole list of tokens. */
static void oracle_adjust(struct fixture *f, const int32_t *tokens, int n_prompt, int n_output,
                          const uint64_t *allowed)
{
    const struct sampling_params *p = &f->params;
    for (int32_t t = 0; t < VOCAB; t++) {
        int in_any = 0, n_out = 0;
        for (int i = 0; i < n_prompt + n_output; i++) {
            in_any |= tokens[i] == t;
            n_out += i >= n_prompt && tokens[i] == t;
        }
        double x = (double)f->logits[t];
        if (in_any)
            x = x > 0 ? x / p->repetition_penalty : x * p->repetition_penalty;
        x -= p->frequency_penalty * n_out;
        x -= n_out > 0 ? p->presence_penalty : 0;
        for (int i = 0; i < p->n_bias; i++)
            x += p->bias[i].token == t ? (double)p->bias[i].bias : 0;
        if (allowed != NULL && (allowed[t / 64] >> (t % 64) & 1) == 0)
            x = -INFINITY;
        f->adjusted[t] = (double)(float)x;
    }
}

static void run_sequence(struct fixture *f, unsigned stages, int *n_compared)
{
    int32_t tokens[40];
    uint64_t allowed[(VOCAB + 63) / 64], seed;
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        allowed[i] = rng_next(&f->rng) | rng_next(&f->rng);
    const uint64_t *mask = stages & 64 ? allowed : NULL;
    seed = f->params.seed;
    struct rng draws;
    rng_seed(&draws, seed);
    for (int i = 0; i < 20; i++)
        tokens[i] = (int32_t)rng_below(&f->rng, 30);
    sampler_start(f->sampler, &f->params);
    sampler_push_prompt(f->sampler, tokens, 9);
    sampler_push_prompt(f->sampler, tokens + 9, 11);
    for (int n_output = 0; n_output < 15; n_output++) {
        fill(f, 3);
        oracle_adjust(f, tokens, 20, n_output, mask);
        oracle_run(&f->oracle, f->adjusted, VOCAB, &f->params);
        int32_t want = oracle_draw(&f->oracle, rng_uniform(&draws));
        int32_t got = pick(f, mask, NULL, 0);
        tokens[20 + n_output] = got;
        if (want >= 0) {
            assert_int_equal(got, want);
            ++*n_compared;
        }
    }
}

static void every_stage_alone_and_with_others_equals_the_oracle(void **state)
{
    struct fixture *f = *state;
    int n_compared = 0, n_rounds = 10;
    for (unsigned stages = 0; stages < 128; stages++)
        for (int round = 0; round < n_rounds; round++) {
            choose_stages(f, stages);
            run_sequence(f, stages, &n_compared);
        }
    /* Near-ties are skipped; they must stay the exception. */
    assert_true(n_compared > 128 * n_rounds * 15 * 8 / 10);
}

static void a_large_flat_vocabulary_is_cut_exactly(void **state)
{
    struct fixture *f = *state;
    struct sampler *sampler;
    struct sampler_scratch *scratch;
    float *logits = calloc(BIG_VOCAB, sizeof *logits);
    double *adjusted = calloc(BIG_VOCAB, sizeof *adjusted);
    struct oracle o = { .t = calloc(BIG_VOCAB, sizeof *o.t) };
    assert_int_equal(sampler_create(&sampler, BIG_VOCAB, 10, NULL), STATUS_OK);
    assert_int_equal(sampler_scratch_create(&scratch, BIG_VOCAB, NULL), STATUS_OK);
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < BIG_VOCAB; i++) {
            /* Coarse steps give thousands of equal logits; odd rounds are fine-grained. */
            double x = normal(&f->rng);
            logits[i] = (float)(round % 2 == 0 ? floor(4 * x) / 4 : x);
            adjusted[i] = (double)logits[i];
        }
        f->params.top_k = round % 3 == 0 ? 1000 + 40000 * (int64_t)rng_below(&f->rng, 3) : 0;
        f->params.top_p = round % 3 == 1 ? 0.37 : 1;
        f->params.min_p = round % 3 == 2 ? 0.0123 : 0;
        f->params.seed = (uint64_t)round;
        sampler_start(sampler, &f->params);
        oracle_run(&o, adjusted, BIG_VOCAB, &f->params);
        o.edge = 1;
        struct rng draws;
        rng_seed(&draws, f->params.seed);
        for (int i = 0; i < 50; i++) {
            struct sampler_input input = { .logits = logits };
            struct sampled out;
            assert_int_equal(sampler_pick(sampler, &input, scratch, &out, NULL), STATUS_OK);
            /* A probability here is about 1e-5, so the place of u is compared, not the token. */
            double u = rng_uniform(&draws), mass = 0;
            int32_t k = 0;
            while (k < o.n && o.t[k].token != out.token)
                mass += o.t[k++].p;
            assert_true(k < o.n);
            assert_true(u > mass - 1e-4 && u < mass + o.t[k].p + 1e-4);
        }
    }
    sampler_destroy(sampler);
    sampler_scratch_destroy(scratch);
    free(logits);
    free(adjusted);
    free(o.t);
}

/* ---- statistics ---- */

static void a_hundred_thousand_draws_follow_the_distribution(void **state)
{
    struct fixture *f = *state;
    for (unsigned stages = 0; stages < 16; stages++) {
        fill(f, 1.5);
        choose_stages(f, stages);
        oracle_run(&f->oracle, f->adjusted, VOCAB, &f->params);
        if (f->oracle.edge < 1e-5)
            continue;
        sampler_start(f->sampler, &f->params);
        static int counts[VOCAB];
        memset(counts, 0, sizeof counts);
        int n = 100000;
        for (int i = 0; i < n; i++)
            counts[pick(f, NULL, NULL, 0)]++;
        double chi = 0, small = 0;
        int cells = 0, small_count = 0, total = 0;
        for (int32_t i = 0; i < f->oracle.n; i++) {
            double want = f->oracle.t[i].p * n;
            int got = counts[f->oracle.t[i].token];
            total += got;
            if (want < 10) {
                small += want;
                small_count += got;
            } else {
                chi += (got - want) * (got - want) / want;
                cells++;
            }
        }
        if (small >= 10) {
            chi += (small_count - small) * (small_count - small) / small;
            cells++;
        }
        assert_int_equal(total, n);             /* nothing outside the support */
        double df = cells > 1 ? cells - 1 : 1;
        assert_true(chi < df + 5 * sqrt(2 * df));
    }
}

static void a_high_temperature_makes_all_tokens_equally_likely(void **state)
{
    struct fixture *f = *state;
    fill(f, 3);
    double last_entropy = 0;
    static const double temperatures[] = { 0.3, 1, 3, 1e6 };
    for (size_t k = 0; k < 4; k++) {
        f->params.temperature = temperatures[k];
        sampler_start(f->sampler, &f->params);
        int counts[VOCAB] = { 0 };
        for (int i = 0; i < 50000; i++)
            counts[pick(f, NULL, NULL, 0)]++;
        double entropy = 0;
        for (int i = 0; i < VOCAB; i++)
            entropy -= counts[i] > 0 ? counts[i] / 50000.0 * log(counts[i] / 50000.0) : 0;
        assert_true(entropy > last_entropy + 0.05);
        last_entropy = entropy;
    }
    assert_true(last_entropy > log(VOCAB) - 0.02);
}

/* ---- penalties, bans ---- */

static void repetition_counts_once_and_presence_and_frequency_see_output_only(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < VOCAB; i++)
        f->logits[i] = -100;
    f->logits[3] = 4;
    f->logits[4] = 2.5;
    f->params.temperature = 0;
    f->params.repetition_penalty = 1.5;
    int32_t prompt[] = { 3, 3, 3, 3 };
    sampler_start(f->sampler, &f->params);
    sampler_push_prompt(f->sampler, prompt, 4);
    assert_int_equal(pick(f, NULL, NULL, 0), 3);    /* 4 / 1.5 > 2.5; not 4 / 1.5^4 */
    f->params.repetition_penalty = 1;
    f->params.presence_penalty = 1;
    f->params.frequency_penalty = 1;
    sampler_start(f->sampler, &f->params);
    sampler_push_prompt(f->sampler, prompt, 4);
    assert_int_equal(pick(f, NULL, NULL, 0), 3);    /* 4: the prompt does not count */
    assert_int_equal(pick(f, NULL, NULL, 0), 4);    /* 4 - 1 - 1 < 2.5 */
    assert_int_equal(pick(f, NULL, NULL, 0), 3);    /* 2 against 2.5 - 2 */
    assert_int_equal(pick(f, NULL, NULL, 0), 3);    /* 4 - 2 - 1 against 2.5 - 2 */
    assert_int_equal(pick(f, NULL, NULL, 0), 4);    /* 4 - 3 - 1 against 0.5 */
}

static void the_grammar_wins_over_bans_and_an_empty_mask_is_an_error(void **state)
{
    struct fixture *f = *state;
    fill(f, 3);
    uint64_t allowed[(VOCAB + 63) / 64] = { 0 };
    allowed[2] = 1u << 5 | 1u << 9;                 /* tokens 133 and 137 */
    int32_t banned[] = { 137, -4, VOCAB + 7, 133 };
    sampler_start(f->sampler, &f->params);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pick(f, allowed, banned, 1), 133);
        assert_int_equal(pick(f, allowed, banned + 1, 3), 137);
        int32_t token = pick(f, allowed, banned, 4);
        assert_true(token == 133 || token == 137);
    }
    memset(allowed, 0, sizeof allowed);
    allowed[VOCAB / 64] = UINT64_MAX << (VOCAB % 64);   /* bits past the vocabulary do not count */
    struct sampler_input input = { f->logits, allowed, NULL, 0 };
    struct sampled out;
    struct error err;
    assert_int_equal(sampler_pick(f->sampler, &input, f->scratch, &out, &err), STATUS_INTERNAL);
    assert_non_null(strstr(err.text, "grammar"));
}

static void a_bias_of_minus_100_bans_and_plus_100_forces(void **state)
{
    struct fixture *f = *state;
    fill(f, 3);
    int32_t best = logits_argmax(f->logits, VOCAB);
    f->params.n_bias = 2;
    f->params.bias[0] = (struct logit_bias){ best, -100 };
    f->params.bias[1] = (struct logit_bias){ 42, 100 };
    sampler_start(f->sampler, &f->params);
    for (int i = 0; i < 100; i++)
        assert_int_equal(pick(f, NULL, NULL, 0), 42);
}

/* ---- log-probabilities ---- */

static void logprobs_are_log_softmax_of_the_raw_logits(void **state)
{
    struct fixture *f = *state;
    f->params.want_logprob = 1;
    f->params.n_top = 5;
    f->params.top_k = 1;                /* must not touch the reported numbers */
    f->params.temperature = 1.7;
    f->params.n_bias = 1;
    for (int round = 0; round < 100; round++) {
        fill(f, 4);
        f->params.bias[0] = (struct logit_bias){ (int32_t)rng_below(&f->rng, VOCAB), 30 };
        sampler_start(f->sampler, &f->params);
        struct sampler_input input = { .logits = f->logits };
        struct sampled out;
        assert_int_equal(sampler_pick(f->sampler, &input, f->scratch, &out, NULL), STATUS_OK);
        double sum = 0;
        for (int i = 0; i < VOCAB; i++)
            sum += exp((double)f->logits[i]);
        assert_int_equal(out.n_top, 5);
        assert_true(fabs((double)out.logprob - ((double)f->logits[out.token] - log(sum))) < 2e-6);
        for (int i = 0; i < 5; i++) {
            int better = 0;
            for (int32_t t = 0; t < VOCAB; t++)
                better += f->logits[t] > f->logits[out.top[i].token];
            assert_int_equal(better, i);
            assert_true(out.top[i].logprob <= 0);
            if (out.top[i].token == out.token)
                assert_true(out.top[i].logprob == out.logprob);
        }
    }
}

static void a_greedy_token_has_the_logprob_of_the_first_top_entry(void **state)
{
    struct fixture *f = *state;
    fill(f, 4);
    f->params.temperature = 0;
    f->params.want_logprob = 1;
    f->params.n_top = 1;
    f->logits[400] = f->logits[31] = 20;
    f->logits[9] = -3e38f;
    sampler_start(f->sampler, &f->params);
    struct sampler_input input = { .logits = f->logits };
    struct sampled out;
    assert_int_equal(sampler_pick(f->sampler, &input, f->scratch, &out, NULL), STATUS_OK);
    assert_int_equal(out.token, 31);
    assert_int_equal(out.top[0].token, 31);
    assert_memory_equal(&out.top[0].logprob, &out.logprob, sizeof out.logprob);
    struct log_softmax row;
    assert_int_equal(log_softmax_init(&row, f->logits, VOCAB, NULL), STATUS_OK);
    assert_true(log_softmax_of(&row, f->logits[9]) == LOGPROB_FLOOR);
}

/* ---- seeds, failure, memory ---- */

static void the_same_seed_repeats_and_choices_differ(void **state)
{
    struct fixture *f = *state;
    fill(f, 0.5);
    int32_t first[8][20];
    for (int repeat = 0; repeat < 2; repeat++)
        for (uint64_t choice = 0; choice < 8; choice++) {
            f->params.seed = rng_sub_seed(1234, choice);
            sampler_start(f->sampler, &f->params);
            for (int i = 0; i < 20; i++) {
                int32_t token = pick(f, NULL, NULL, 0);
                if (repeat == 0)
                    first[choice][i] = token;
                assert_int_equal(token, first[choice][i]);
            }
        }
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < a; b++)
            assert_memory_not_equal(first[a], first[b], sizeof first[a]);
}

static void a_logit_that_is_not_finite_is_refused_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    fill(f, 1);
    sampler_start(f->sampler, &f->params);
    int32_t want = pick(f, NULL, NULL, 0);
    for (int k = 0; k < 3; k++)
        for (int place = 0; place < VOCAB; place++) {
            f->params.want_logprob = place % 2;
            sampler_start(f->sampler, &f->params);
            float kept = f->logits[place];
            f->logits[place] = bad[k];
            struct sampler_input input = { .logits = f->logits };
            struct sampled out;
            struct error err;
            assert_int_equal(sampler_pick(f->sampler, &input, f->scratch, &out, &err), STATUS_INTERNAL);
            char sentence[64];
            snprintf(sentence, sizeof sentence, "token %d of", place);
            assert_non_null(strstr(err.text, sentence));
            f->logits[place] = kept;
            assert_int_equal(pick(f, NULL, NULL, 0), want);
        }
}

static void picking_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    choose_stages(f, 63);
    struct mallinfo2 before = mallinfo2();
    sampler_start(f->sampler, &f->params);
    for (int i = 0; i < 200; i++) {
        fill(f, 2);
        pick(f, NULL, NULL, 0);
    }
    assert_int_equal(mallinfo2().uordblks, before.uordblks);
}

static void parameters_out_of_range_are_named(void **state)
{
    struct fixture *f = *state;
    static const struct { const char *name; size_t offset; double bad; } rows[] = {
#define ROW(field, value) { #field, offsetof(struct sampling_params, field), value }
        ROW(temperature, -0.1), ROW(temperature, (double)INFINITY), ROW(temperature, (double)NAN),
        ROW(top_p, 1.5), ROW(top_p, -1), ROW(min_p, 2), ROW(typical_p, (double)NAN),
        ROW(repetition_penalty, 0), ROW(repetition_penalty, -1), ROW(presence_penalty, 2.5),
        ROW(frequency_penalty, (double)-INFINITY),
#undef ROW
    };
    struct error err;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sampling_params_init(&f->params);
        memcpy((char *)&f->params + rows[i].offset, &rows[i].bad, sizeof rows[i].bad);
        assert_int_equal(sampling_params_check(&f->params, VOCAB, &err), STATUS_BAD_REQUEST);
        assert_non_null(strstr(err.text, rows[i].name));
    }
    static const int32_t bad_tokens[] = { -1, VOCAB, 999999 };
    for (int i = 0; i < 3; i++) {
        sampling_params_init(&f->params);
        f->params.n_bias = 1;
        f->params.bias[0] = (struct logit_bias){ bad_tokens[i], -100 };
        assert_int_equal(sampling_params_check(&f->params, VOCAB, &err), STATUS_BAD_REQUEST);
        assert_non_null(strstr(err.text, "logit_bias"));
    }
    f->params.bias[0] = (struct logit_bias){ 1, NAN };
    assert_int_equal(sampling_params_check(&f->params, VOCAB, &err), STATUS_BAD_REQUEST);
    f->params.n_bias = SAMPLING_MAX_BIAS + 1;
    assert_int_equal(sampling_params_check(&f->params, VOCAB, &err), STATUS_BAD_REQUEST);
    sampling_params_init(&f->params);
    f->params.top_k = -2;
    assert_int_equal(sampling_params_check(&f->params, VOCAB, &err), STATUS_BAD_REQUEST);
    f->params.top_k = -1;
    f->params.n_top = SAMPLING_MAX_TOP + 1;
    assert_int_equal(sampling_params_check(&f->params, VOCAB, &err), STATUS_BAD_REQUEST);
}

#define WITH_FIXTURE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(greedy_takes_the_largest_and_the_lowest_of_equals),
        WITH_FIXTURE(extreme_but_legal_values_still_give_a_token),
        WITH_FIXTURE(huge_logits_do_not_overflow),
        WITH_FIXTURE(every_stage_alone_and_with_others_equals_the_oracle),
        WITH_FIXTURE(a_large_flat_vocabulary_is_cut_exactly),
        WITH_FIXTURE(a_hundred_thousand_draws_follow_the_distribution),
        WITH_FIXTURE(a_high_temperature_makes_all_tokens_equally_likely),
        WITH_FIXTURE(repetition_counts_once_and_presence_and_frequency_see_output_only),
        WITH_FIXTURE(the_grammar_wins_over_bans_and_an_empty_mask_is_an_error),
        WITH_FIXTURE(a_bias_of_minus_100_bans_and_plus_100_forces),
        WITH_FIXTURE(logprobs_are_log_softmax_of_the_raw_logits),
        WITH_FIXTURE(a_greedy_token_has_the_logprob_of_the_first_top_entry),
        WITH_FIXTURE(the_same_seed_repeats_and_choices_differ),
        WITH_FIXTURE(a_logit_that_is_not_finite_is_refused_and_changes_nothing),
        WITH_FIXTURE(picking_allocates_nothing),
        WITH_FIXTURE(parameters_out_of_range_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
