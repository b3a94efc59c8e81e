/* test_compare_count - what a device is asked to do equals what is known of each formulation on paper. */
#include "bench/compare_cache_table.h"
#include "bench/compare_count.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct compare_set preset(const char *name)
{
    struct compare_set set = { .n = 0 };
    struct error err;
    assert_int_equal(compare_add_preset(&set, name, &err), STATUS_OK);
    return set;
}

static struct compare_point point_of(const struct compare_set *set, const char *name, int n_ranks)
{
    int at = compare_find(set, name);
    assert_true(at >= 0);
    return (struct compare_point){
        .formulation = &set->items[at], .part = COMPARE_ATTENTION, .n_ranks = n_ranks, .context = 8192, .batch = 1,
        .cache_type = CACHE_BF16, .weight_type = WEIGHT_BF16, .block_size = 64,
    };
}

static struct compare_work count(const struct compare_set *set, const char *name, int n_ranks)
{
    struct compare_point p = point_of(set, name, n_ranks);
    struct compare_work w;
    compare_count(&p, 0, &w);
    return w;
}

/* The paper's table: 64 heads of 128, 8 groups, TP 1, 2, 4, 8. */
static void the_cache_table_is_the_papers(void **state)
{
    (void)state;
    static const struct { const char *method; double units[4]; int printed[4]; } want[] = {
        { "MHA",           { 128, 64, 32, 16 },      { 1, 1, 1, 1 } },
        { "GQA, 8 groups", { 16, 8, 4, 2 },          { 1, 1, 1, 1 } },
        { "MQA",           { 2, 2, 2, 2 },           { 0, 0, 0, 0 } },
        { "MFA",           { 4, 4, 4, 4 },           { 0, 0, 0, 0 } },
        { "TPA, rank 2",   { 6, 5, 4.5, 4.25 },      { 0, 0, 0, 1 } },
        { "GTA, 8 groups", { 8.5, 4.5, 2.5, 1.5 },   { 0, 0, 0, 1 } },
        { "MLA",           { 4.5, 4.5, 4.5, 4.5 },   { 1, 1, 1, 1 } },
        { "GLA-2",         { 4.5, 2.5, 2.5, 2.5 },   { 1, 1, 1, 1 } },
        { "GLA-4",         { 4.5, 2.5, 1.5, 1.5 },   { 0, 0, 0, 0 } },
        { "MLRA-2",        { 4.5, 2.5, 1.5, 1.5 },   { 0, 0, 0, 0 } },
        { "MLRA-4",        { 4.5, 2.5, 1.5, 1.5 },   { 1, 1, 1, 1 } },
    };
    assert_int_equal(compare_cache_row_count(), sizeof want / sizeof want[0]);
    for (int i = 0; i < compare_cache_row_count(); i++) {
        struct compare_cache_row row;
        struct error err;
        assert_int_equal(compare_cache_row(i, &row, &err), STATUS_OK);
        assert_string_equal(row.method, want[i].method);
        for (int d = 0; d < 4; d++) {
            assert_true(row.units[d] == want[i].units[d]);
            assert_int_equal(row.is_printed[d], want[i].printed[d]);
        }
    }
}

/* 2.9 billion, TP 4: multiply-adds and elements per cached token and rank. */
static void a_cached_token_costs_what_the_equations_say(void **state)
{
    (void)state;
    static const struct { const char *name; int64_t macs, elements; } want[] = {
        { "mla", 6528, 576 }, { "mlra-2", 3840, 192 }, { "mlra-4", 7680, 192 }, { "mlra", 1536, 128 },
        { "gla-2", 3456, 320 }, { "gqa-8", 1536, 512 }, { "mla-by-chunk", 6528, 144 },
    };
    struct compare_set set = preset("paper");
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct compare_work w = count(&set, want[i].name, 4);
        assert_int_equal(w.attend_macs, want[i].macs * 8192);
        assert_int_equal(w.cache_bytes_per_token, want[i].elements * 2);
        assert_int_equal(w.cache_bytes_read, want[i].elements * 2 * 8192);
    }
}

static void the_projections_have_the_weights_of_the_layer(void **state)
{
    (void)state;
    struct compare_set set = preset("paper");
    const int64_t h = 3072;
    /* MLA, 6 of 24 heads: W_DQ, W_UQ, W_DKV and rope, W_UK and W_UV, W_O. */
    int64_t mla = 1536 * h + 6 * 192 * 1536 + 576 * h + 6 * 2 * 128 * 512 + 6 * 128 * h;
    assert_int_equal(count(&set, "mla", 4).projection_weights, mla);
    /* MLRA-4: all 24 heads of one latent of 128; W_O of 6. */
    int64_t mlra_4 = 1024 * h + 24 * 192 * 1024 + 192 * h + 24 * 2 * 128 * 128 + 6 * 128 * h;
    assert_int_equal(count(&set, "mlra-4", 4).projection_weights, mlra_4);
    /* GQA, 6 query heads and 2 KV heads. */
    assert_int_equal(count(&set, "gqa-8", 4).projection_weights, (6 + 2 + 2 + 6) * 128 * h);
}

static void collectives_are_counted_by_what_is_published(void **state)
{
    (void)state;
    struct compare_set set = preset("paper");
    struct compare_work mla = count(&set, "mla", 4), mlra_4 = count(&set, "mlra-4", 4);
    assert_int_equal(mla.n_exchanges, 1);               /* the all-reduce after W_O, one node a rank */
    assert_int_equal(mla.exchanges[0].sent, 3072);
    assert_int_equal(mla.exchanges[0].read, 4 * 3072);
    assert_int_equal(mla.exchanges[0].link, 2 * 3072 * 3 / 4);
    assert_int_equal(mlra_4.n_exchanges, 2);            /* and the branches of 24 heads before it */
    assert_int_equal(mlra_4.exchanges[0].sent, 24 * 128);
    assert_int_equal(mlra_4.exchanges[0].read, 6 * 4 * 128);
    assert_int_equal(mlra_4.exchanges[0].link, 18 * 128);
    assert_int_equal(count(&set, "mla", 1).n_exchanges, 0);
    struct compare_work chunked = count(&set, "mla-by-chunk", 4);
    assert_int_equal(chunked.n_exchanges, 3);
    assert_int_equal(chunked.exchanges[0].sent, 6 * 576);
    assert_int_equal(chunked.exchanges[1].sent, 24 * (512 + 2));
}

/* W_O of all 24 heads on every rank, and one collective that adds branches and
 * heads: past 19 thousand tokens fewer bytes than MLA. */
static void a_replicated_output_has_one_collective_and_more_weights(void **state)
{
    (void)state;
    struct compare_set set = preset("paper");
    struct compare_work mla = count(&set, "mla", 4), sharded = count(&set, "mlra-4", 4);
    struct compare_work replicated = count(&set, "mlra-4-replicated", 4);
    assert_int_equal(replicated.projection_weights, sharded.projection_weights + 18 * 128 * 3072);
    assert_int_equal(replicated.n_exchanges, 1);
    assert_int_equal(replicated.exchanges[0].sent, 3072);
    assert_int_equal(replicated.exchanges[0].link, 2 * 3072 * 3 / 4);
    assert_int_equal(replicated.attend_macs, sharded.attend_macs);
    assert_int_equal((replicated.projection_weights - mla.projection_weights) / (576 - 192), 18944);
    /* MLRA-2: each half of the heads on two ranks. */
    assert_int_equal(count(&set, "mlra-2-replicated", 4).projection_weights,
                     count(&set, "mlra-2", 4).projection_weights + 6 * 128 * 3072);
}

static void a_model_is_its_layers_and_its_head(void **state)
{
    (void)state;
    struct compare_set set = preset("paper");
    struct compare_point p = point_of(&set, "mla", 1);
    struct compare_work layer, model;
    p.part = COMPARE_LAYER;
    compare_count(&p, 0, &layer);
    assert_int_equal(layer.mlp_weights, 3 * 9448 * 3072);
    p.part = COMPARE_MODEL;
    compare_count(&p, 0, &model);
    assert_int_equal(model.mlp_weights, 24 * layer.mlp_weights);
    assert_int_equal(model.attend_macs, 24 * layer.attend_macs);
    assert_int_equal(model.head_weights, 50304 * 3072);
    /* The published count has the norms too, and the tied embedding once. */
    int64_t norms = 24 * (2 * 3072 + 1536 + 512) + 3072;
    assert_int_equal(model.projection_weights + model.mlp_weights + model.head_weights + norms, 2872052736);
}

static void memory_left_by_the_weights_holds_so_many_tokens(void **state)
{
    (void)state;
    struct compare_set set = preset("paper");
    struct compare_point p = point_of(&set, "mla", 1);
    int64_t weights = 2 * (2872052736 - (24 * (2 * 3072 + 1536 + 512) + 3072)), token = 24 * 1152;
    assert_int_equal(compare_tokens_that_fit(&p, weights + 1000 * token), 1000);
    assert_int_equal(compare_tokens_that_fit(&p, weights + 1000 * token - 1), 999);
    assert_int_equal(compare_tokens_that_fit(&p, weights), 0);
    assert_int_equal(compare_tokens_that_fit(&p, 1), 0);
}

static void chunks_of_the_ranks_cover_the_context(void **state)
{
    (void)state;
    struct compare_set set = preset("paper");
    const struct compare_formulation *f = &set.items[compare_find(&set, "mla-by-chunk")];
    for (int n = 1; n <= 8; n++)
        for (int64_t context = 1; context < 5000; context += 333) {
            int64_t sum = 0;
            for (int rank = 0; rank < n; rank++)
                sum += compare_own_positions(f, n, rank, context);
            assert_int_equal(sum, context);
        }
}

static void degrees_and_names_are_refused_with_what_is_valid(void **state)
{
    (void)state;
    struct compare_set set = preset("paper");
    struct error err;
    const struct compare_formulation *gqa = &set.items[compare_find(&set, "gqa-6")];
    assert_int_equal(compare_check_ranks(gqa, 4, &err), STATUS_BAD_OPTION);
    assert_non_null(strstr(err.text, "valid degrees are"));
    assert_int_equal(compare_add_preset(&set, "papers", &err), STATUS_BAD_OPTION);
    assert_non_null(strstr(err.text, "paper-64"));
    assert_int_equal(compare_keep(&set, "mla,nobody", &err), STATUS_BAD_OPTION);
    assert_non_null(strstr(err.text, "mlra-4"));
    assert_int_equal(compare_keep(&set, "mlra-4,mla,mlra-4", &err), STATUS_OK);
    assert_int_equal(set.n, 2);
    assert_string_equal(set.items[0].name, "mlra-4");
    assert_int_equal(compare_add_models(&set, "nothing", &err), STATUS_BAD_OPTION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_table_is_the_papers),
        cmocka_unit_test(a_cached_token_costs_what_the_equations_say),
        cmocka_unit_test(the_projections_have_the_weights_of_the_layer),
        cmocka_unit_test(collectives_are_counted_by_what_is_published),
        cmocka_unit_test(a_replicated_output_has_one_collective_and_more_weights),
        cmocka_unit_test(a_model_is_its_layers_and_its_head),
        cmocka_unit_test(memory_left_by_the_weights_holds_so_many_tokens),
        cmocka_unit_test(chunks_of_the_ranks_cover_the_context),
        cmocka_unit_test(degrees_and_names_are_refused_with_what_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
