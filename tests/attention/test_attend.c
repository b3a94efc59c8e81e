/* test_attend - attention over cached rows against a plain double softmax, for all cache types, chunks and lanes. */
#include "attention/attend.h"
#include "cache/latent_store.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 16, LATENT = 40, ROPE = 8, WIDTH = LATENT + ROPE, HEADS = 5, MAX_LENGTH = 2600 };

struct fixture {
    struct latent_store store;
    int32_t blocks[(MAX_LENGTH + BLOCK - 1) / BLOCK];
    struct rng rng;
    struct attend_group group;      /* MLA: key = latent and rope key, value = latent */
};

static void open_fixture(struct fixture *f, enum cache_type type)
{
    rng_seed(&f->rng, 11);
    struct cache_shape shape = { .n_segments = 2, .segment_width = { LATENT, ROPE } };
    struct cache_layout layout;
    cache_layout_init(&layout, type, BLOCK, &shape);
    int n = (MAX_LENGTH + BLOCK - 1) / BLOCK;
    assert_int_equal(latent_store_create(&f->store, &layout, 1, n, NULL), STATUS_OK);
    for (int i = 0; i < n; i++)
        f->blocks[i] = (i * 37 + 5) % n;
    struct cache_view view = latent_store_view(&f->store, 0, f->blocks);
    for (int p = 0; p < MAX_LENGTH; p++) {
        float row[WIDTH];
        for (int d = 0; d < WIDTH; d++)
            row[d] = (float)(rng_uniform(&f->rng) * 2 - 1);
        cache_row_store(&layout, cache_view_row(&view, p), row);
    }
    f->group = (struct attend_group){
        .n_queries = HEADS, .n_key_segments = 2, .key_begin = { 0, LATENT }, .key_width = { LATENT, ROPE },
        .value_begin = 0, .value_width = LATENT, .query_width = WIDTH,
    };
}

/* The cached row as the cache type has it, in double. */
static void read_row(const struct fixture *f, int position, double out[WIDTH])
{
    struct cache_view view = latent_store_view(&f->store, 0, f->blocks);
    const char *row = cache_view_row(&view, position);
    for (int d = 0; d < WIDTH; d++) {
        float scale;
        switch (f->store.layout.type) {
        case CACHE_F32:
            out[d] = (double)((const float *)(const void *)row)[d];
            break;
        case CACHE_BF16:
            out[d] = (double)bf16_to_f32(((const uint16_t *)(const void *)row)[d]);
            break;
        case CACHE_INT8:
            memcpy(&scale, row + f->store.layout.scales_offset + (d >= LATENT) * 4, 4);
            out[d] = (double)((float)((const int8_t *)row)[d] * scale);
            break;
        }
    }
}

static void plain_attention(const struct fixture *f, const float *query, int limit, double scale, double out[LATENT])
{
    double *score = malloc((size_t)limit * sizeof *score), max = -INFINITY, sum = 0;
    for (int p = 0; p < limit; p++) {
        double row[WIDTH];
        read_row(f, p, row);
        score[p] = 0;
        for (int d = 0; d < WIDTH; d++)
            score[p] += (double)query[d] * row[d];
        score[p] *= scale;
        max = fmax(max, score[p]);
    }
    memset(out, 0, LATENT * sizeof *out);
    for (int p = 0; p < limit; p++) {
        double row[WIDTH], w = exp(score[p] - max);
        read_row(f, p, row);
        sum += w;
        for (int d = 0; d < LATENT; d++)
            out[d] += w * row[d];
    }
    for (int d = 0; d < LATENT; d++)
        out[d] /= sum;
    free(score);
}

/* Rows [first, first + n) of the sequence in one call; sums [n][HEADS][LATENT]. */
static void run(const struct fixture *f, const float *queries, int first, int n, int causal, float *sums)
{
    struct attend_job job = {
        .kernels = kernels_select(NULL), .groups = &f->group, .n_groups = 1, .n_rows = n,
        .queries = (float *)queries, .sums = sums, .scale = 0.3f,
    };
    job.scratch = aligned_alloc(64, (attend_scratch_floats(&f->group, 1) * 4 + 63) / 64 * 64);
    struct span span = { .n_rows = n, .first_position = first, .length = first + n, .causal = causal,
                         .blocks = f->blocks };
    struct cache_view view = latent_store_view(&f->store, 0, f->blocks);
    attend_span(&job, &span, &view);
    free(job.scratch);
}

static float *random_queries(struct fixture *f, int n)
{
    float *q = malloc((size_t)n * HEADS * WIDTH * sizeof *q);
    for (int i = 0; i < n * HEADS * WIDTH; i++)
        q[i] = (float)(rng_uniform(&f->rng) * 4 - 2);
    return q;
}

static void is_plain_attention(enum cache_type type)
{
    static const int starts[] = { 0, 1, 15, 16, 17, 240, 255, 256, 257, 511, 512, 700, 2047, 2048, 2560 };
    struct fixture f;
    open_fixture(&f, type);
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        int n = 7;
        float *q = random_queries(&f, n), *sums = malloc((size_t)n * HEADS * LATENT * sizeof *sums);
        for (int causal = 0; causal < 2; causal++) {
            run(&f, q, starts[i], n, causal, sums);
            for (int r = 0; r < n * HEADS; r++) {
                double want[LATENT];
                plain_attention(&f, q + r * WIDTH, causal ? starts[i] + r / HEADS + 1 : starts[i] + n, 0.3, want);
                for (int d = 0; d < LATENT; d++)
                    if (fabs((double)sums[r * LATENT + d] - want[d]) > 3e-6)
                        fail_msg("start %d row %d column %d: got %g, want %g", starts[i], r, d,
                                 (double)sums[r * LATENT + d], want[d]);
            }
        }
        free(q);
        free(sums);
    }
    latent_store_destroy(&f.store);
}

static void f32_cache_gives_plain_attention(void **state)
{
    (void)state;
    is_plain_attention(CACHE_F32);
}

static void bf16_cache_gives_plain_attention_of_its_rows(void **state)
{
    (void)state;
    is_plain_attention(CACHE_BF16);
}

static void int8_cache_gives_plain_attention_of_its_rows(void **state)
{
    (void)state;
    is_plain_attention(CACHE_INT8);
}

static void a_row_does_not_depend_on_the_rows_beside_it(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, CACHE_F32);
    enum { N = 300 };
    float *q = random_queries(&f, N), *together = malloc(N * HEADS * LATENT * 4);
    float *alone = malloc(N * HEADS * LATENT * 4);
    run(&f, q, 0, N, 1, together);
    for (int first = 0, n; first < N; first += n) {
        n = 1 + (int)rng_below(&f.rng, 40);
        n = n < N - first ? n : N - first;
        run(&f, q + first * HEADS * WIDTH, first, n, 1, alone + first * HEADS * LATENT);
    }
    assert_memory_equal(together, alone, N * HEADS * LATENT * 4);
    free(q);
    free(together);
    free(alone);
    latent_store_destroy(&f.store);
}

/* Nodes of every rank over its own chunks, merged, are the bits of one rank. */
static void check_ranks(struct fixture *f, int n_ranks, const float *q, int first, const float *whole)
{
    struct cache_view view = latent_store_view(&f->store, 0, f->blocks);
    struct span span = { .n_rows = 1, .first_position = first, .length = first + 1, .causal = 1, .blocks = f->blocks };
    float *scratch = aligned_alloc(64, (attend_scratch_floats(&f->group, 1) * 4 + 63) / 64 * 64);
    float *nodes[ATTEND_LANES];
    struct reduce_part parts[ATTEND_LANES];
    for (int r = 0; r < n_ranks; r++) {
        attend_rank_lanes(n_ranks, r, &parts[r]);
        nodes[r] = malloc((size_t)HEADS * (size_t)parts[r].n_nodes * (LATENT + 2) * 4);
        struct attend_job job = {
            .kernels = kernels_select(NULL), .groups = &f->group, .n_groups = 1, .n_rows = 1, .queries = (float *)q,
            .lanes = &parts[r], .nodes = nodes[r], .scale = 0.3f, .scratch = scratch,
        };
        attend_span(&job, &span, &view);
    }
    struct reduce_plan plan;
    attend_lane_plan(n_ranks, &plan);
    for (int h = 0; h < HEADS; h++) {
        float *of_head[ATTEND_LANES], sum[LATENT];
        for (int p = 0; p < n_ranks; p++) {
            int r = attend_part_rank(n_ranks, p);
            of_head[p] = nodes[r] + (size_t)h * (size_t)parts[r].n_nodes * (LATENT + 2);
        }
        attend_merge_nodes(&plan, of_head, LATENT, sum);
        assert_memory_equal(sum, whole + h * LATENT, sizeof sum);
    }
    for (int r = 0; r < n_ranks; r++)
        free(nodes[r]);
    free(scratch);
}

static void chunks_on_any_number_of_ranks_give_the_same_bits(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, CACHE_F32);
    static const int lengths[] = { 1, 100, 256, 257, 600, 1025, 2047, 2049, 2600 };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        float *q = random_queries(&f, 1), whole[HEADS * LATENT];
        run(&f, q, lengths[i] - 1, 1, 1, whole);
        for (int n_ranks = 1; n_ranks <= ATTEND_LANES; n_ranks++)
            check_ranks(&f, n_ranks, q, lengths[i] - 1, whole);
        free(q);
    }
    latent_store_destroy(&f.store);
}

static void a_rank_holds_every_nth_chunk(void **state)
{
    (void)state;
    static const int powers[] = { 1, 2, 4, 8 };
    for (size_t i = 0; i < 4; i++)
        for (int position = 0; position < 40 * ATTEND_CHUNK; position += 100)
            assert_int_equal(attend_owner(powers[i], position), position / ATTEND_CHUNK % powers[i]);
    for (int n = 1; n <= ATTEND_LANES; n++)
        for (int position = 0; position < 40 * ATTEND_CHUNK; position += ATTEND_CHUNK)
            assert_in_range(attend_owner(n, position), 0, n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_cache_gives_plain_attention),
        cmocka_unit_test(bf16_cache_gives_plain_attention_of_its_rows),
        cmocka_unit_test(int8_cache_gives_plain_attention_of_its_rows),
        cmocka_unit_test(a_row_does_not_depend_on_the_rows_beside_it),
        cmocka_unit_test(chunks_on_any_number_of_ranks_give_the_same_bits),
        cmocka_unit_test(a_rank_holds_every_nth_chunk),
    };
    return cmocka_run_group_tests_name("attend", tests, NULL, NULL);
}
