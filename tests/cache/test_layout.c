/* test_layout - rows as the cache types hold them. */
#include "cache/layout.h"

#include "base/element.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { FIRST = 37, SECOND = 11, WIDTH = FIRST + SECOND };

static void open_layout(struct cache_layout *layout, enum cache_type type)
{
    struct cache_shape shape = { .n_segments = 2, .segment_width = { FIRST, SECOND } };
    cache_layout_init(layout, type, 16, &shape);
}

static float read_element(const struct cache_layout *layout, const char *slot, int d)
{
    float scale;
    switch (layout->type) {
    case CACHE_F32:
        return ((const float *)(const void *)slot)[d];
    case CACHE_BF16:
        return bf16_to_f32(((const uint16_t *)(const void *)slot)[d]);
    default:
        memcpy(&scale, slot + layout->scales_offset + (d >= FIRST ? 4 : 0), 4);
        return (float)((const int8_t *)slot)[d] * scale;
    }
}

static void a_row_comes_back_within_half_a_step_of_its_type(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    for (int type = CACHE_F32; type <= (int)CACHE_INT8; type++) {
        struct cache_layout layout;
        open_layout(&layout, (enum cache_type)type);
        _Alignas(64) char slot[WIDTH * 4 + 8];
        assert_true(layout.row_bytes <= sizeof slot);
        for (int round = 0; round < 100; round++) {
            float row[WIDTH], most[2] = { 0 };
            for (int d = 0; d < WIDTH; d++) {
                row[d] = (float)(rng_uniform(&rng) * 2 - 1) * (d < FIRST ? 1.0f : 100.0f);
                most[d >= FIRST] = fmaxf(most[d >= FIRST], fabsf(row[d]));
            }
            cache_row_store(&layout, slot, row);
            for (int d = 0; d < WIDTH; d++) {
                float step = type == CACHE_F32 ? 0 : type == CACHE_BF16 ? fabsf(row[d]) / 128 : most[d >= FIRST] / 127;
                if (!(fabsf(read_element(&layout, slot, d) - row[d]) <= step * 0.5001f))
                    fail_msg("%s column %d: %g of %g", cache_type_name(layout.type), d,
                             (double)read_element(&layout, slot, d), (double)row[d]);
            }
        }
    }
}

static void what_is_not_finite_does_not_become_a_number(void **state)
{
    (void)state;
    for (int type = CACHE_F32; type <= (int)CACHE_INT8; type++)
        for (int d = 0; d < WIDTH; d++)
            for (int infinite = 0; infinite < 2; infinite++) {
                struct cache_layout layout;
                open_layout(&layout, (enum cache_type)type);
                _Alignas(64) char slot[WIDTH * 4 + 8];
                float row[WIDTH];
                for (int i = 0; i < WIDTH; i++)
                    row[i] = (float)(i - 20);
                row[d] = infinite ? -INFINITY : NAN;
                cache_row_store(&layout, slot, row);
                if (isfinite(read_element(&layout, slot, d)))
                    fail_msg("%s column %d: %g", cache_type_name(layout.type), d, (double)read_element(&layout, slot, d));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_comes_back_within_half_a_step_of_its_type),
        cmocka_unit_test(what_is_not_finite_does_not_become_a_number),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
