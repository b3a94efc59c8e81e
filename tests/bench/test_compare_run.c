/* test_compare_run - tiny sweeps of every formulation run, their counters equal the layer's own, reports hold them. */
#include "bench/compare_column.h"
#include "bench/compare_html.h"
#include "bench/compare_run.h"
#include "bench/compare_summary.h"
#include "bench/compare_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static struct compare_settings settings(void)
{
    return (struct compare_settings){
        .kernels = kernels_select(NULL), .weight_type = WEIGHT_BF16, .block_size = 64, .n_repeats = 1, .serial = 1,
        .device_memory = 1 << 30, .max_memory = 1 << 30, .n_profiles = 1, .profiles = { { .name = "host" } },
    };
}

/* A small layer of every kind: the preset's formulation, narrowed. */
static void narrow(struct compare_formulation *f)
{
    struct attention_config *c = &f->attention;
    c->hidden = 256;
    c->n_kv_heads = c->n_kv_heads == c->n_heads ? 16 : 4;
    c->n_heads = 16;
    c->nope_dim = c->value_dim = 16;
    c->rope_dim = c->rope_dim > 0 ? 16 : 0;
    c->query_latent_dim = c->query_latent_dim > 0 ? 64 : 0;
    c->latent_dim = c->n_latents > 0 ? 64 / c->n_latents : 0;
    f->intermediate = 512;
    f->vocab = 512;
    f->n_layers = 3;
}

/* only: names of formulations, or NULL for all of the preset. */
static void fill_sweep(struct compare_sweep *sweep, const char *preset, const char *only, enum compare_part part,
                       const int *degrees, int n)
{
    struct error err;
    *sweep = (struct compare_sweep){
        .name = "tiny", .title = "Tiny", .part = part, .same_degree = 1, .cache_types = 1u << CACHE_BF16,
        .contexts = { 300, 600 }, .n_contexts = 2, .batches = { 1, 3 }, .n_batches = only != NULL ? 2 : 1,
    };
    assert_int_equal(compare_add_preset(&sweep->set, preset, &err), STATUS_OK);
    if (only != NULL)
        assert_int_equal(compare_keep(&sweep->set, only, &err), STATUS_OK);
    for (int i = 0; i < sweep->set.n; i++)
        narrow(&sweep->set.items[i]);
    assert_int_equal(compare_sweep_cross(sweep, degrees, n, &err), STATUS_OK);
}

static struct compare_session *run(const char *preset, const char *only, enum compare_part part,
                                   const int *degrees, int n, const struct compare_settings *with)
{
    struct compare_session *session;
    struct error err;
    assert_int_equal(compare_session_create(&session, with, &err), STATUS_OK);
    session->n_sweeps = 1;
    fill_sweep(&session->sweeps[0], preset, only, part, degrees, n);
    assert_int_equal(compare_run_sweep(session, 0, &err), STATUS_OK);
    return session;
}

static const int degrees[] = { 1, 2, 4 };

static void every_point_of_every_formulation_is_measured(void **state)
{
    (void)state;
    static const char *const presets[] = { "paper", "seed" };
    for (int p = 0; p < 2; p++) {
        struct compare_settings with = settings();
        struct compare_session *s = run(presets[p], NULL, COMPARE_MODEL, degrees, 3, &with);
        assert_int_equal(s->n_results, s->sweeps[0].n_entries * 2);
        for (int i = 0; i < s->n_results; i++) {
            const struct compare_result *r = &s->results[i];
            assert_int_equal(r->is_measured, 1);
            assert_true(r->device_ns > 0 && isfinite(r->device_ns));
            assert_true(r->modelled_s[0] > 0);
            for (int phase = 0; phase < COMPARE_N_PHASES; phase++)
                assert_true(r->devices[0].phases[phase] > 0);
            assert_true(r->point.n_ranks == 1 || r->collective_ns > 0);
        }
        compare_session_destroy(s);
    }
}

/* compare_count and the layer that is run count the same, each in its own way. */
static void counters_equal_those_of_the_layer(void **state)
{
    (void)state;
    static const char *const presets[] = { "paper", "seed" };
    for (int p = 0; p < 2; p++) {
        struct compare_sweep sweep;
        fill_sweep(&sweep, presets[p], NULL, COMPARE_ATTENTION, degrees, 3);
        struct compare_pool pool;
        struct error err;
        assert_int_equal(compare_pool_init(&pool, 1 << 20, &err), STATUS_OK);
        for (int e = 0; e < sweep.n_entries; e++) {
            struct compare_rank_spec spec = {
                .point = { .formulation = &sweep.set.items[sweep.entries[e].formulation], .part = COMPARE_ATTENTION,
                           .n_ranks = sweep.entries[e].n_ranks, .context = 512, .batch = 1, .weight_type = WEIGHT_F32,
                           .block_size = 64 },
                .rank = sweep.entries[e].n_ranks - 1, .max_tokens = 512, .kernels = kernels_select(NULL),
                .pool = &pool,
            };
            struct compare_rank *rank;
            struct compare_work work;
            assert_int_equal(compare_rank_create(&rank, &spec, &err), STATUS_OK);
            compare_count(&spec.point, spec.rank, &work);
            assert_int_equal(compare_weight_bytes(&spec.point, &work), compare_rank_weight_bytes(rank));
            /* By chunk all heads attend the own positions; the layer states the own heads. */
            int heads = spec.point.formulation->by_chunk ? spec.point.n_ranks : 1;
            int64_t own = compare_own_positions(spec.point.formulation, spec.point.n_ranks, spec.rank, 512);
            assert_int_equal(work.attend_macs, compare_rank_attend_macs(rank) * heads * own);
            compare_rank_destroy(rank);
        }
        compare_pool_clear(&pool);
    }
}

static void ranks_together_have_a_wall_time_and_wait(void **state)
{
    (void)state;
    struct compare_settings with = settings();
    with.serial = 0;
    const int two[] = { 2 };
    struct compare_session *s = run("paper", "mla,mlra-4,mla-by-chunk", COMPARE_LAYER, two, 1, &with);
    for (int i = 0; i < s->n_results; i++) {
        const struct compare_result *r = &s->results[i];
        assert_true(r->is_measured && r->wall_ns > 0);
        for (int rank = 0; rank < 2; rank++) {
            assert_true(r->devices[rank].busy_ns > 0);
            assert_true(r->devices[rank].busy_ns <= r->wall_ns + 1e6);      /* two clocks, read apart */
            assert_true(r->devices[rank].waited_ns >= 0 && r->devices[rank].waited_ns <= r->wall_ns + 1e6);
        }
    }
    compare_session_destroy(s);
}

/* Its ranks have a W_O that the layer knows nothing of. */
static void a_replicated_output_is_not_run_by_a_team(void **state)
{
    (void)state;
    struct compare_settings with = settings();
    struct compare_session *s;
    struct error err;
    const int two[] = { 2 };
    with.serial = 0;
    assert_int_equal(compare_session_create(&s, &with, &err), STATUS_OK);
    s->n_sweeps = 1;
    fill_sweep(&s->sweeps[0], "paper", "mla,mlra-4-replicated", COMPARE_ATTENTION, two, 1);
    assert_int_equal(compare_run_sweep(s, 0, &err), STATUS_BAD_OPTION);
    assert_non_null(strstr(err.text, "--serial-ranks"));
    s->settings.serial = -1;            /* however many cores there are */
    assert_int_equal(compare_run_sweep(s, 0, &err), STATUS_OK);
    for (int i = 0; i < s->n_results; i++)
        assert_true(s->results[i].is_measured && s->results[i].wall_ns < 0);
    compare_session_destroy(s);
}

/* Says so from the 40th question on: in the second of the two contexts. */
static int comes_late(void *context)
{
    int *n_asked = context;
    return ++*n_asked >= 40;
}

static void an_interrupt_leaves_the_points_before_it(void **state)
{
    (void)state;
    struct compare_settings with = settings();
    struct compare_session *s;
    struct error err;
    int n_asked = 0;
    with.is_interrupted = comes_late;
    with.context = &n_asked;
    assert_int_equal(compare_session_create(&s, &with, &err), STATUS_OK);
    s->n_sweeps = 2;
    fill_sweep(&s->sweeps[0], "paper", "mla,mlra-4", COMPARE_ATTENTION, degrees, 3);
    fill_sweep(&s->sweeps[1], "paper", "mla", COMPARE_ATTENTION, degrees, 3);
    assert_int_equal(compare_run_sweep(s, 0, &err), STATUS_CANCELLED);
    assert_true(s->was_interrupted && s->n_results == 12);      /* both batches of the first context */
    for (int i = 0; i < s->n_results; i++)
        assert_true(s->results[i].is_measured && s->results[i].point.context == 300);
    struct buf out;
    buf_init(&out, 16 << 20);
    assert_int_equal(compare_write_summary(s, &out, &err), STATUS_OK);
    assert_non_null(strstr(out.data, "12 points"));
    assert_non_null(strstr(out.data, "interrupted"));
    buf_reset(&out);
    assert_int_equal(compare_write_html(s, NULL, &out, &err), STATUS_OK);
    assert_non_null(strstr(out.data, "interrupted"));
    assert_non_null(strstr(out.data, "Not run"));               /* the second sweep */
    buf_clear(&out);
    compare_session_destroy(s);
}

static void what_does_not_fit_is_named_and_not_run(void **state)
{
    (void)state;
    struct compare_settings with = settings();
    const int one[] = { 1 };
    with.max_memory = 1 << 20;
    struct compare_session *s = run("seed", "mla,cca", COMPARE_ATTENTION, one, 1, &with);
    int n_refused = 0;
    for (int i = 0; i < s->n_results; i++) {
        n_refused += !s->results[i].is_measured;
        assert_true(s->results[i].is_measured || strstr(s->results[i].note, "--max-memory") != NULL);
        assert_true(s->results[i].modelled_s[0] > 0);
    }
    assert_true(n_refused > 0);
    compare_session_destroy(s);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

static void reports_hold_every_point_and_name_their_sources(void **state)
{
    (void)state;
    struct compare_settings with = settings();
    struct compare_session *s = run("paper", "mla,mlra-4", COMPARE_ATTENTION, degrees, 3, &with);
    struct buf out;
    struct error err;
    buf_init(&out, 16 << 20);
    assert_int_equal(compare_write_csv(s, &out, &err), STATUS_OK);
    size_t n_devices = 0;
    for (int i = 0; i < s->n_results; i++)
        n_devices += (size_t)s->results[i].n_devices;
    assert_int_equal(count_lines(out.data), 1 + n_devices);
    assert_non_null(strstr(out.data, "measured_device_ms,"));
    assert_non_null(strstr(out.data, "modelled_host_modelled_ms,"));
    buf_reset(&out);
    assert_int_equal(compare_write_json(s, &out, &err), STATUS_OK);
    json_t *json = json_loads(out.data, 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_array_size(json_object_get(json, "results")), s->n_results);
    json_t *first = json_array_get(json_object_get(json, "results"), 0);
    assert_int_equal(json_array_size(json_object_get(first, "devices")), s->results[0].n_devices);
    assert_true(fabs(json_real_value(json_object_get(first, "measured_device_ms")) * 1e6 / s->results[0].device_ns - 1)
                < 1e-6);
    json_decref(json);
    buf_reset(&out);
    assert_int_equal(compare_write_html(s, NULL, &out, &err), STATUS_OK);
    assert_non_null(strstr(out.data, "</svg>"));
    assert_null(strstr(out.data, "http"));      /* nothing is fetched */
    assert_null(strstr(out.data, "nan"));
    buf_reset(&out);
    assert_int_equal(compare_write_html(s, "/nonexistent", &out, &err), STATUS_IO);
    buf_reset(&out);
    assert_int_equal(compare_write_markdown(s, &out, &err), STATUS_OK);
    assert_non_null(strstr(out.data, "| MLRA-4 | 4.5 | 2.5 | 1.5 | 1.5 |"));
    buf_reset(&out);
    assert_int_equal(compare_write_summary(s, &out, &err), STATUS_OK);
    buf_clear(&out);
    compare_session_destroy(s);
}

/* Two made-up contenders: the second is half as fast at 1000 tokens and twice as
 * fast at 4000, so it overtakes in between. */
static void a_crossing_lies_between_the_points_around_it(void **state)
{
    (void)state;
    struct compare_settings with = settings();
    const int four[] = { 4 };
    struct compare_session *s = run("paper", "mla,mlra-4", COMPARE_ATTENTION, four, 1, &with);
    const struct compare_formulation *mla = &s->sweeps[0].set.items[0];
    struct compare_result *other = NULL;
    for (int i = 0; i < s->n_results; i++) {
        struct compare_result *r = &s->results[i];
        int is_late = r->point.context == 600;
        r->device_ns = r->point.formulation == mla ? 1000 : is_late ? 500 : 2000;
        if (other == NULL && r->point.formulation != mla && r->point.batch == 1)
            other = r;
    }
    struct compare_crossing crossing;
    compare_find_crossing(s, other, -1, &crossing);
    /* Speed-up 0.5 at 300 and 2 at 600: 1 at a third of the way, in the logarithm. */
    assert_true(fabs(crossing.measured - 300 * pow(2, 1 / 3.0)) < 1e-6);
    compare_session_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_point_of_every_formulation_is_measured),
        cmocka_unit_test(counters_equal_those_of_the_layer),
        cmocka_unit_test(ranks_together_have_a_wall_time_and_wait),
        cmocka_unit_test(a_replicated_output_is_not_run_by_a_team),
        cmocka_unit_test(an_interrupt_leaves_the_points_before_it),
        cmocka_unit_test(what_does_not_fit_is_named_and_not_run),
        cmocka_unit_test(reports_hold_every_point_and_name_their_sources),
        cmocka_unit_test(a_crossing_lies_between_the_points_around_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
