/* peak_body.h - the loops of peak.h, written once.
 *
 * Included by peak_<set>.c after it has defined VECTOR_BYTES, the width of the set's
 * registers.  (The kernels' one vector type for all widths will not do: where it is
 * split, the compiler keeps sums in memory, and then this measures memory.) */
#include "bench/peak.h"

/* See attention/kernels_body.h: everything that takes a vector is inlined. */
#pragma GCC diagnostic ignored "-Wpsabi"

enum {
    SUMS = 12,                  /* enough of them to hide the latency of an instruction */
    LANES = VECTOR_BYTES / 4,
    AT_ONCE = 128,              /* bytes read of a stream before the next stream's turn */
};

typedef float vector __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

INLINE vector splat(float x)
{
    return (vector){ 0 } + x;
}

INLINE float sum_of(const vector *sums)
{
    float all = 0;
    for (int i = 0; i < SUMS; i++)
        for (int lane = 0; lane < LANES; lane++)
            all += sums[i][lane];
    return all;
}

/* The factors keep the sums near 1 for ever. */
static float run_f32(int64_t n_rounds)
{
    vector sum[SUMS], factor = splat(0.999f), addend = splat(0.001f);
    UNROLL
    for (int i = 0; i < SUMS; i++)
        sum[i] = splat((float)i);
    for (int64_t round = 0; round < n_rounds; round++) {
        UNROLL
        for (int i = 0; i < SUMS; i++)
            sum[i] = sum[i] * factor + addend;
    }
    return sum_of(sum);
}

#if defined(HAS_BYTE_DOT) || defined(HAS_BYTE_PAIRS)
typedef float vec __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t veci __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef uint32_t vecu __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
#include "attention/kernels_intrinsics.h"

/* Operands that the compiler takes for new ones each time, so that it folds no product; as of int4, whose
 * products of pairs need the least beside them. */
static float run_int8(int64_t n_rounds)
{
    veci sum[SUMS], inputs = { 0 };
    vecu weights = { 0 };
    UNROLL
    for (int i = 0; i < SUMS; i++)
        sum[i] = (veci){ i };
    for (int64_t round = 0; round < n_rounds; round++) {
        UNROLL
        for (int i = 0; i < SUMS; i++) {
            __asm__("" : "+v"(inputs), "+v"(weights));
            sum[i] = add_quad(sum[i], weights, inputs, 4);
        }
    }
    int32_t all = 0;
    for (int i = 0; i < SUMS; i++)
        all += sum[i][0];
    return (float)all;
}
#define RUN_INT8 run_int8
#define PER_INT8 (SUMS * LANES * 4)
#ifdef HAS_BF16_DOT
/* 1 * 0, again and again. */
static float run_bf16(int64_t n_rounds)
{
    vector sum[SUMS];
    veci weights = { 0 };
    UNROLL
    for (int i = 0; i < SUMS; i++)
        sum[i] = splat((float)i);
    for (int64_t round = 0; round < n_rounds; round++) {
        UNROLL
        for (int i = 0; i < SUMS; i++)
            sum[i] = dot_bf16_pairs(sum[i], 0x3f803f80, weights);
    }
    return sum_of(sum);
}
#define RUN_BF16 run_bf16
#define PER_BF16 (SUMS * LANES * 2)
#else
#define RUN_BF16 NULL
#define PER_BF16 0
#endif
#elif defined(HAS_TILES)
#include "attention/tile_instructions.h"

/* Four sums, as the kernels keep them. */
static float run_bf16(int64_t n_rounds)
{
    tiles_open(16);
    for (int64_t round = 0; round < n_rounds; round++) {
        TILE_DOT_BF16(0, 4, 6);
        TILE_DOT_BF16(1, 4, 7);
        TILE_DOT_BF16(2, 5, 6);
        TILE_DOT_BF16(3, 5, 7);
    }
    tiles_close();
    return 0;
}

static float run_int8(int64_t n_rounds)
{
    tiles_open(16);
    for (int64_t round = 0; round < n_rounds; round++) {
        TILE_DOT_INT8(0, 4, 6);
        TILE_DOT_INT8(1, 4, 7);
        TILE_DOT_INT8(2, 5, 6);
        TILE_DOT_INT8(3, 5, 7);
    }
    tiles_close();
    return 0;
}
#define RUN_BF16 run_bf16
#define RUN_INT8 run_int8
#define PER_BF16 (4 * 16 * 16 * 32)
#define PER_INT8 (4 * 16 * 16 * 64)
#else
#define RUN_BF16 NULL
#define RUN_INT8 NULL
#define PER_BF16 0
#define PER_INT8 0
#endif

INLINE uint32_t read_streams(const char *bytes, size_t n, const int n_streams)
{
    words sum[AT_ONCE / VECTOR_BYTES] = { { 0 } };
    size_t run = n / (size_t)n_streams;
    for (size_t at = 0; at < run; at += AT_ONCE) {
        UNROLL
        for (int s = 0; s < n_streams; s++) {
            const char *line = bytes + (size_t)s * run + at;
            UNROLL
            for (int i = 0; i < AT_ONCE / VECTOR_BYTES; i++)
                sum[i] += *(const words *)(const void *)(line + i * VECTOR_BYTES);
        }
    }
    uint32_t all = 0;
    for (int i = 0; i < AT_ONCE / VECTOR_BYTES; i++)
        for (int lane = 0; lane < LANES; lane++)
            all += sum[i][lane];
    return all;
}

static uint32_t read_bytes(const char *bytes, size_t n, int n_streams)
{
    return n_streams == 1 ? read_streams(bytes, n, 1)
         : n_streams == 4 ? read_streams(bytes, n, 4)
                          : read_streams(bytes, n, 8);
}

#define PEAK_SET(set)                                                           \
    {                                                                           \
        .name = set, .run = { run_f32, RUN_BF16, RUN_INT8 },                    \
        .per_round = { SUMS * LANES, PER_BF16, PER_INT8 },      \
        .read = read_bytes                                                      \
    }
