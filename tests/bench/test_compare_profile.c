/* test_compare_profile - modelled times equal what one computes by hand from a data sheet. */
#include "base/file.h"
#include "bench/compare_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct compare_point point_of(const struct compare_set *set, const char *name, int n_ranks, enum compare_part part)
{
    return (struct compare_point){
        .formulation = &set->items[compare_find(set, name)], .part = part, .n_ranks = n_ranks,
        .context = 1 << 20, .batch = 1, .cache_type = CACHE_BF16, .weight_type = WEIGHT_BF16, .block_size = 64,
    };
}

static void assert_near(double got, double want)
{
    assert_true(fabs(got - want) <= 1e-9 * fabs(want));
}

/* One MLRA-4 rank of four against unsharded MLA, a million tokens on an H100:
 * both read memory for longer than they compute, so the ratio is that of bytes. */
static void the_papers_setting_on_an_h100_is_three_times(void **state)
{
    (void)state;
    struct compare_set set = { .n = 0 };
    struct error err;
    struct compare_profile h100;
    assert_int_equal(compare_add_preset(&set, "paper-64", &err), STATUS_OK);
    assert_int_equal(compare_profile_find("h100-sxm", &h100, &err), STATUS_OK);
    struct compare_point mla = point_of(&set, "mla", 1, COMPARE_KERNEL);
    struct compare_point mlra = point_of(&set, "mlra-4", 4, COMPARE_KERNEL);
    double tokens = 1 << 20;
    double mla_s = tokens * 1152 / 3.35e12 + 64.0 * 128 * 512 * 2 / 3.35e12;     /* rows, and W_UV */
    double mlra_s = tokens * 384 / 3.35e12 + 64.0 * 128 * 128 * 2 / 3.35e12;
    assert_near(compare_profile_step(&h100, &mla), mla_s);
    assert_near(compare_profile_step(&h100, &mlra), mlra_s);
    assert_true(mla_s / mlra_s > 2.99 && mla_s / mlra_s < 3.01);
}

static void a_slow_processor_is_bound_by_arithmetic(void **state)
{
    (void)state;
    struct compare_set set = { .n = 0 };
    struct error err;
    assert_int_equal(compare_add_preset(&set, "paper-64", &err), STATUS_OK);
    struct compare_profile slow = { .name = "slow", .peak_flops = 1e9, .bandwidth = 1e12, .link_bandwidth = 1e9,
                                    .activation_bytes = 4 };
    struct compare_point mla = point_of(&set, "mla", 1, COMPARE_KERNEL);
    double macs = 64.0 * 1088 * (1 << 20) + 64.0 * 128 * 512;
    assert_near(compare_profile_step(&slow, &mla), 2 * macs / 1e9);
}

/* An all-reduce of 3072 numbers on four devices by the ring: 2 * 3/4 of them
 * cross a link, two bytes each. */
static void collectives_take_latency_and_link(void **state)
{
    (void)state;
    struct compare_set set = { .n = 0 };
    struct error err;
    assert_int_equal(compare_add_preset(&set, "paper", &err), STATUS_OK);
    struct compare_profile p = { .name = "p", .peak_flops = 1e15, .bandwidth = 1e12, .link_bandwidth = 1e9,
                                 .link_latency = 5e-6, .activation_bytes = 2 };
    struct compare_point mla = point_of(&set, "mla", 4, COMPARE_ATTENTION);
    mla.context = 256;
    struct compare_work w;
    compare_count(&mla, 0, &w);
    double kernels = 2.0 * (double)w.projection_weights / 1e12 + 256 * 1152 / 1e12;
    assert_near(compare_profile_rank(&p, &mla, &w), kernels);
    assert_near(compare_profile_step(&p, &mla), kernels + 5e-6 + 2 * 3072 * 3 / 4 * 2 / 1e9);
}

static void every_builtin_names_its_source(void **state)
{
    (void)state;
    int n = 0;
    for (const struct compare_profile *p; (p = compare_profile_builtin(n)) != NULL; n++) {
        assert_true(strlen(p->source) > 30);
        assert_true(p->peak_flops > 1e13 && p->bandwidth > 1e11 && p->memory > 1e10 && p->link_bandwidth > 1e10);
    }
    assert_int_equal(n, 6);
}

static void write_file(const char *path, const char *text)
{
    struct error err;
    assert_int_equal(file_replace(path, text, strlen(text), &err), STATUS_OK);
}

static void a_profile_file_is_read_and_a_bad_one_refused(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/test_compare_profile.%d.json", (int)getpid());
    struct compare_profile p;
    struct error err;
    write_file(path, "{\"name\":\"mine\",\"source\":\"its data sheet\",\"peak_tflops\":10,\"bandwidth_gbs\":200,"
                     "\"memory_gb\":16,\"link_gbs\":25,\"link_latency_us\":3,\"activation_bytes\":4}");
    assert_int_equal(compare_profile_find(path, &p, &err), STATUS_OK);
    assert_string_equal(p.name, "mine");
    assert_near(p.peak_flops, 1e13);
    assert_near(p.link_latency, 3e-6);
    assert_int_equal(p.activation_bytes, 4);
    static const struct { const char *text, *says; } bad[] = {
        { "{\"name\":\"x\"}", "source" },
        { "{\"name\":\"x\",\"source\":\"y\",\"peak_tflops\":10}", "bandwidth_gbs" },
        { "{\"name\":\"x\",\"source\":\"y\",\"peak_tflops\":-1}", "peak_tflops" },
        { "[1]", "object" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(path, bad[i].text);
        assert_int_equal(compare_profile_find(path, &p, &err), STATUS_BAD_MODEL);
        assert_non_null(strstr(err.text, bad[i].says));
    }
    unlink(path);
    assert_int_equal(compare_profile_find("h1000", &p, &err), STATUS_BAD_OPTION);
    assert_non_null(strstr(err.text, "h100-sxm"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_papers_setting_on_an_h100_is_three_times),
        cmocka_unit_test(a_slow_processor_is_bound_by_arithmetic),
        cmocka_unit_test(collectives_take_latency_and_link),
        cmocka_unit_test(every_builtin_names_its_source),
        cmocka_unit_test(a_profile_file_is_read_and_a_bad_one_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
