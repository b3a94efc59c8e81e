/* test_attend - attention over cached rows against a plain double softmax, for all cache types, chunks and lanes. */
#include "attention/attend.h"
#include "cache/latent_store.h"

#include "base/element.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LATENT = 40, ROPE = 8, WIDTH = LATENT + ROPE, HEADS = 5, MAX_LENGTH = 2600 };

static const char *const tables[] = { "ref", "avx2", "avx512", "avx512bf16", "amx" };

struct fixture {
    const struct kernels *kernels;
    struct latent_store store;
    int32_t blocks[MAX_LENGTH];
    struct rng rng;
    int chunk;
    struct attend_group group;      /* MLA: key = latent and rope key, value = latent */
};

static void open_fixture(struct fixture *f, enum cache_type type, int block_size, const struct kernels *kernels)
{
    f->kernels = kernels;
    f->chunk = ATTEND_MAX_CHUNK;
    rng_seed(&f->rng, 11);
    struct cache_shape shape = { .n_segments = 2, .segment_width = { LATENT, ROPE } };
    struct cache_layout layout;
    cache_layout_init(&layout, type, block_size, &shape);
    int n = (MAX_LENGTH + block_size - 1) / block_size;
    assert_int_equal(latent_store_create(&f->store, &layout, 1, n, NULL), STATUS_OK);
    for (int i = 0; i < n; i++)
        f->blocks[i] = (i * 37 + 5) % n;      /* n is no multiple of 37 */
    struct cache_view view = latent_store_view(&f->store, 0, f->blocks);
    for (int p = 0; p < MAX_LENGTH; p++) {
        float row[WIDTH];
        for (int d = 0; d < WIDTH; d++)
            row[d] = (float)(rng_uniform(&f->rng) * 2 - 1);
        cache_row_store(&layout, cache_view_row(&view, p), row);
    }
    f->group = (struct attend_group){
        .n_queries = HEADS, .n_key_segments = 2, .key_begin = { 0, LATENT }, .key_width = { LATENT, ROPE },
        .n_key_parts = 2,
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
        .kernels = f->kernels, .groups = &f->group, .n_groups = 1, .n_rows = n,
        .queries = (float *)queries, .sums = sums, .scale = 0.3f, .chunk = f->chunk,
    };
    job.scratch = aligned_alloc(64, (attend_scratch_floats(&f->group, 1) * 4 + 63) / 64 * 64);
    struct span span = { .n_rows = n, .first_position = first, .length = first + n, .causal = causal,
                         .blocks = f->blocks };
    struct cache_view view = latent_store_view(&f->store, 0, f->blocks);
    attend_span(&job, &span, &view);
    free(job.scratch);
}

/* bf16 numbers: rounding them again loses nothing. */
static float *random_queries(struct fixture *f, int n)
{
    float *q = malloc((size_t)n * HEADS * WIDTH * sizeof *q);
    for (int i = 0; i < n * HEADS * WIDTH; i++)
        q[i] = bf16_to_f32(f32_to_bf16((float)(rng_uniform(&f->rng) * 4 - 2)));
    return q;
}

/* Tiles round the weights to bf16, or with int8 rows queries and weights to 15 bits. */
static double allowed(const struct fixture *f)
{
    if (f->kernels->bf16_rows == NULL || f->store.layout.type == CACHE_F32)
        return 3e-6;
    return f->store.layout.type == CACHE_INT8 ? 4e-4 : 4e-3;
}

static void check_plain(struct fixture *f, int first, int n)
{
    float *q = random_queries(f, n), *sums = malloc((size_t)n * HEADS * LATENT * sizeof *sums);
    for (int causal = 0; causal < 2; causal++) {
        run(f, q, first, n, causal, sums);
        for (int r = 0; r < n * HEADS; r++) {
            double want[LATENT];
            plain_attention(f, q + r * WIDTH, causal ? first + r / HEADS + 1 : first + n, 0.3, want);
            for (int d = 0; d < LATENT; d++)
                if (!(fabs((double)sums[r * LATENT + d] - want[d]) <= allowed(f)))
                    fail_msg("%s, start %d row %d column %d: got %g, want %g", f->kernels->name, first, r, d,
                             (double)sums[r * LATENT + d], want[d]);
        }
    }
    free(q);
    free(sums);
}

/* Call test(fixture) for every table of this processor, cache type and kind of block. */
static void for_each_cache(void (*test)(struct fixture *f))
{
    static const int block_sizes[] = { 16, 24, 256 };
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        const struct kernels *k = kernels_select(tables[t]);
        for (int type = CACHE_F32; k != NULL && type <= (int)CACHE_INT8; type++)
            for (size_t b = 0; b < sizeof block_sizes / sizeof block_sizes[0]; b++) {
                struct fixture f;
                open_fixture(&f, (enum cache_type)type, block_sizes[b], k);
                test(&f);
                latent_store_destroy(&f.store);
            }
    }
}

static void check_starts(struct fixture *f)
{
    static const int starts[] = { 0, 1, 15, 16, 17, 240, 255, 256, 257, 511, 512, 700, 2047, 2048, 2560 };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        f->chunk = 64 << i % 3;
        check_plain(f, starts[i], starts[i] < 1000 ? 7 : 2);
    }
}

static void every_cache_gives_plain_attention_of_its_rows(void **state)
{
    (void)state;
    for_each_cache(check_starts);
}

static void check_rows_beside(struct fixture *f)
{
    enum { N = 300 };
    float *q = random_queries(f, N), *together = malloc(N * HEADS * LATENT * 4);
    float *alone = malloc(N * HEADS * LATENT * 4);
    run(f, q, 0, N, 1, together);
    for (int first = 0, n; first < N; first += n) {
        n = 1 + (int)rng_below(&f->rng, 40);
        n = n < N - first ? n : N - first;
        run(f, q + first * HEADS * WIDTH, first, n, 1, alone + first * HEADS * LATENT);
    }
    assert_memory_equal(together, alone, N * HEADS * LATENT * 4);
    free(q);
    free(together);
    free(alone);
}

static void a_row_does_not_depend_on_the_rows_beside_it(void **state)
{
    (void)state;
    for_each_cache(check_rows_beside);
}

/* Slots past the end may hold what another sequence left, numbers or not. */
static void check_past_the_end(struct fixture *f)
{
    enum { END = 530, N = 3 };
    float *q = random_queries(f, N), before[N * HEADS * LATENT], after[N * HEADS * LATENT];
    run(f, q, END - N, N, 1, before);
    struct cache_view view = latent_store_view(&f->store, 0, f->blocks);
    const struct cache_layout *layout = &f->store.layout;
    for (int p = END; p % layout->block_size != 0; p++) {
        memset(cache_view_row(&view, p), 0xff, layout->row_bytes);      /* not a number in every type */
        if (layout->type == CACHE_INT8)
            memset(cache_view_row(&view, p), 0x7f, layout->scales_offset);
    }
    run(f, q, END - N, N, 1, after);
    assert_memory_equal(before, after, sizeof before);
    free(q);
}

static void slots_past_the_end_do_not_matter(void **state)
{
    (void)state;
    for_each_cache(check_past_the_end);
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
            .kernels = f->kernels, .groups = &f->group, .n_groups = 1, .n_rows = 1, .queries = (float *)q,
            .lanes = &parts[r], .nodes = nodes[r], .scale = 0.3f, .chunk = f->chunk, .scratch = scratch,
        };
        attend_span(&job, &span, &view);
    }
    struct reduce_plan plan;
    attend_lane_plan(n_ranks, &plan);
    for (int h = 0; h < HEADS; h++) {
        const float *of_head[ATTEND_LANES];
        float sum[LATENT], merged[ATTEND_LANES * (LATENT + 2)];
        for (int p = 0; p < n_ranks; p++) {
            int r = attend_part_rank(n_ranks, p);
            of_head[p] = nodes[r] + (size_t)h * (size_t)parts[r].n_nodes * (LATENT + 2);
        }
        attend_merge_nodes(f->kernels, &plan, of_head, LATENT, merged, sum);
        assert_memory_equal(sum, whole + h * LATENT, sizeof sum);
    }
    for (int r = 0; r < n_ranks; r++)
        free(nodes[r]);
    free(scratch);
}

static void check_chunks(struct fixture *f)
{
    static const int lengths[] = { 1, 100, 256, 257, 600, 1025, 2047, 2049, 2600 };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        f->chunk = ATTEND_MAX_CHUNK >> i % 3;
        float *q = random_queries(f, 1), whole[HEADS * LATENT];
        run(f, q, lengths[i] - 1, 1, 1, whole);
        for (int n_ranks = 1; n_ranks <= ATTEND_LANES; n_ranks++)
            check_ranks(f, n_ranks, q, lengths[i] - 1, whole);
        free(q);
    }
}

static void chunks_on_any_number_of_ranks_give_the_same_bits(void **state)
{
    (void)state;
    for_each_cache(check_chunks);
}

static void a_rank_holds_every_nth_chunk(void **state)
{
    (void)state;
    static const int powers[] = { 1, 2, 4, 8 };
    for (size_t i = 0; i < 4; i++)
        for (int position = 0; position < 40 * ATTEND_MAX_CHUNK; position += 100)
            for (int chunk = 64; chunk <= ATTEND_MAX_CHUNK; chunk *= 2)
                assert_int_equal(attend_owner(powers[i], chunk, position), position / chunk % powers[i]);
    for (int n = 1; n <= ATTEND_LANES; n++)
        for (int position = 0; position < 40 * ATTEND_MAX_CHUNK; position += ATTEND_MAX_CHUNK)
            assert_in_range(attend_owner(n, ATTEND_MAX_CHUNK, position), 0, n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cache_gives_plain_attention_of_its_rows),
        cmocka_unit_test(a_row_does_not_depend_on_the_rows_beside_it),
        cmocka_unit_test(slots_past_the_end_do_not_matter),
        cmocka_unit_test(chunks_on_any_number_of_ranks_give_the_same_bits),
        cmocka_unit_test(a_rank_holds_every_nth_chunk),
    };
    return cmocka_run_group_tests_name("attend", tests, NULL, NULL);
}
