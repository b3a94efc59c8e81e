/* kernels_tile_rows.h - attention over cached rows of bf16 and int8 on tile registers (AMX).
 * Included by kernels_amx.c after kernels_tiles.h, whose registers and sums it uses.
 *
 * Scores: a tile of keys, 16 rows as they are cached, times a tile of packed queries.
 * Values: a tile of weights times rows whose pairs (bf16) or quads (int8) of keys have been put
 * beside each other.
 *
 * int8 rows are multiplied as they are.  A query, and a row of weights times the scales of its keys,
 * is a whole number of 15 bits times its own scale, and that number has two digits of 7 bits: the two
 * sums are whole, and put together they are as good as sums of floats.
 */
#ifndef ATTENTION_KERNELS_TILE_ROWS_H
#define ATTENTION_KERNELS_TILE_ROWS_H

#include "attention/kernels_tiles.h"

/* in[r] lane c becomes out[c] lane r. */
INLINE void transpose_16(vec v[16])
{
    vec t[16];
    UNROLL
    for (int i = 0; i < 8; i++) {
        t[2 * i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        t[2 * i + 1] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    /* Now lane 4 q + 2 c + i of t[2 p + h] is column 4 q + 2 h + c of row 2 p + i. */
    UNROLL
    for (int i = 0; i < 4; i++) {
        UNROLL
        for (int h = 0; h < 2; h++) {
            vec a = t[4 * i + h], b = t[4 * i + 2 + h];
            v[4 * i + 2 * h] = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
            v[4 * i + 2 * h + 1] = __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        }
    }
    /* Lanes 4 q .. 4 q + 3 of v[4 p + c] are column 4 q + c of rows 4 p .. 4 p + 3: quarters move. */
    UNROLL
    for (int c = 0; c < 4; c++) {
        vec ab_low = __builtin_shufflevector(v[c], v[4 + c], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
        vec ab_high = __builtin_shufflevector(v[c], v[4 + c], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
        vec cd_low = __builtin_shufflevector(v[8 + c], v[12 + c], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
        vec cd_high = __builtin_shufflevector(v[8 + c], v[12 + c], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
        t[c] = __builtin_shufflevector(ab_low, cd_low, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        t[4 + c] = __builtin_shufflevector(ab_low, cd_low, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        t[8 + c] = __builtin_shufflevector(ab_high, cd_high, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        t[12 + c] = __builtin_shufflevector(ab_high, cd_high, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
    UNROLL
    for (int i = 0; i < 16; i++)
        v[i] = t[i];
}

/* ---- numbers of two digits ---- */

enum { DIGIT_BITS = 7, DIGIT_BASE = 1 << DIGIT_BITS, LARGEST_WHOLE = 127 * DIGIT_BASE };

/* 16 numbers as whole ones, their high and low digits as bytes. */
INLINE void split_digits(vec x, float inverse, __m128i *high, __m128i *low)
{
    veci whole = (veci)_mm512_cvtps_epi32((__m512)(x * inverse));
    veci upper = (whole + DIGIT_BASE / 2) >> DIGIT_BITS;
    *high = _mm512_cvtepi32_epi8((__m512i)upper);
    *low = _mm512_cvtepi32_epi8((__m512i)(whole - (upper << DIGIT_BITS)));
}

/* What a whole number is to be multiplied by; *inverse, what makes one.  Not finite if the largest
 * magnitude is not. */
INLINE float whole_scale(float largest, float *inverse)
{
    *inverse = largest > 0 ? LARGEST_WHOLE / largest : 0;
    return largest / LARGEST_WHOLE;
}

/* Sums of high and of low digits. */
INLINE vec join_digits(const int32_t *high, const int32_t *low)
{
    return __builtin_convertvector(*(const veci *)high, vec) * DIGIT_BASE + __builtin_convertvector(*(const veci *)low, vec);
}

/* ---- scores ---- */

/* Columns of a tile, tiles of a step and row tile, bytes of an element. */
#define STEP_COLUMNS(is_int8) ((is_int8) ? INT8_UNIT : TILE_INPUTS)
#define STEP_TILES(is_int8) ((is_int8) ? 2 : 1)
#define ELEMENT_BYTES(is_int8) ((is_int8) ? 1 : 2)

/* Step d of packed queries: [row tile][high, low]. */
INLINE char *query_tile(const int is_int8, void *packed, int d, int row)
{
    int step = d / STEP_COLUMNS(is_int8) * 2 + row / TILE_ROWS;
    return (char *)packed + (size_t)(step * STEP_TILES(is_int8)) * TILE_BYTES;
}

INLINE void store_transposed(char *tile, vec rows[TILE_ROWS])
{
    transpose_16(rows);
    for (int i = 0; i < TILE_ROWS; i++)
        store_vec((float *)(void *)(tile + i * TILE_LINE), rows[i]);
}

static void pack_bf16_queries(void *out, float *scales, const float *queries, size_t stride, int n_rows, int width)
{
    (void)scales;
    for (int d = 0; d < width; d += TILE_INPUTS)
        for (int row = 0; row < n_rows; row += TILE_ROWS) {
            vec pairs[TILE_ROWS];
            for (int r = 0; r < TILE_ROWS; r++) {
                const float *q = queries + (size_t)(row + r) * stride + d;
                pairs[r] = splat(0);
                if (row + r < n_rows)
                    pairs[r] = round_to_bf16(load_first(q, width - d), load_first(q + LANES, width - d - LANES));
            }
            store_transposed(query_tile(0, out, d, row), pairs);
        }
}

static void pack_int8_queries(void *out, float *scales, const float *queries, size_t stride, int n_rows, int width)
{
    float inverse[MAX_TILE_ROWS] = { 0 };
    for (int r = 0; r < n_rows; r++)
        scales[r] = whole_scale(largest_magnitude(queries + (size_t)r * stride, width), &inverse[r]);
    for (int d = 0; d < width; d += INT8_UNIT)
        for (int row = 0; row < n_rows; row += TILE_ROWS) {
            vec high[TILE_ROWS], low[TILE_ROWS];
            for (int r = 0; r < TILE_ROWS; r++) {
                const float *q = queries + (size_t)(row + r) * stride + d;
                _Alignas(TILE_LINE) __m128i digits[2][4] = { { { 0 } } };
                for (int v = 0; v < 4 && row + r < n_rows; v++)
                    split_digits(load_first(q + v * LANES, width - d - v * LANES), inverse[row + r], &digits[0][v],
                                 &digits[1][v]);
                high[r] = load_vec((const float *)(const void *)digits[0]);
                low[r] = load_vec((const float *)(const void *)digits[1]);
            }
            store_transposed(query_tile(1, out, d, row), high);
            store_transposed(query_tile(1, out, d, row) + TILE_BYTES, low);
        }
}

/* Sums in a tile are [16 keys][16 rows]; scores are the other way round.  n of the keys exist. */
INLINE void put_scores(const int is_int8, const struct row_scores *b, const char *sums, int key, int n, int row)
{
    vec v[TILE_ROWS];
    UNROLL
    for (int i = 0; i < TILE_ROWS; i++) {
        const char *line = sums + i * TILE_LINE;
        if (!is_int8) {
            v[i] = load_vec((const float *)(const void *)line);
            continue;
        }
        float scale = 0;
        if (i < n)
            memcpy(&scale, b->key_scales + (size_t)(key + i) * b->key_stride, sizeof scale);
        v[i] = join_digits((const int32_t *)(const void *)line, (const int32_t *)(const void *)(line + TILE_BYTES)) * scale;
    }
    transpose_16(v);
    int n_rows = least(b->n_rows - row, TILE_ROWS);
    for (int r = 0; r < n_rows; r++) {
        float *out = b->scores + (size_t)(row + r) * b->score_stride + key;
        if (is_int8)
            v[r] *= b->query_scales[row + r];
        if (b->accumulate)
            v[r] += load_first(out, n);
        if (n == TILE_ROWS)
            store_vec(out, v[r]);
        else
            store_some(out, v[r], n);
    }
}

/* A tile of which not all keys or columns exist, filled up with zeros. */
static void copy_keys(const char *keys, size_t stride, int n_keys, int n_bytes, char out[TILE_BYTES])
{
    memset(out, 0, TILE_BYTES);
    for (int i = 0; i < n_keys; i++)
        memcpy(out + i * TILE_LINE, keys + (size_t)i * stride, (size_t)n_bytes);
}

/* The same tile of the 16 keys after these, while these are multiplied: its rows lie apart, so nobody
 * else sees that they will be wanted.  A second segment finds the first rows there. */
INLINE void prefetch_next_keys(const char *at, size_t stride)
{
    for (int i = 0; i < TILE_ROWS; i++, at += stride)
        __builtin_prefetch(at, 0, 2);
}

/* Sums 0 and, of low digits, 1; of 16 more rows 2 and 3. */
INLINE void store_score_sums(const int is_int8, char sums[4 * TILE_BYTES], int two)
{
    TILE_STORE(0, sums, TILE_LINE);
    if (is_int8)
        TILE_STORE(1, sums + TILE_BYTES, TILE_LINE);
    if (two)
        TILE_STORE(2, sums + 2 * TILE_BYTES, TILE_LINE);
    if (two && is_int8)
        TILE_STORE(3, sums + 3 * TILE_BYTES, TILE_LINE);
}

INLINE void score_cached(const int is_int8, const struct row_scores *b)
{
    const int columns = STEP_COLUMNS(is_int8), element = ELEMENT_BYTES(is_int8);
    int two = b->n_rows > TILE_ROWS;
    tiles_open(TILE_ROWS);
    for (int key = 0; key < b->n_keys; key += TILE_ROWS) {
        _Alignas(TILE_LINE) char sums[4 * TILE_BYTES], some[TILE_BYTES];
        int n = least(b->n_keys - key, TILE_ROWS);
        zero_sums();
        for (int d = 0; d < b->width; d += columns) {
            const char *keys = (const char *)b->keys + (size_t)key * b->key_stride + (size_t)(d * element);
            const char *queries = query_tile(is_int8, (void *)b->packed_queries, d, 0);
            const char *next = keys + TILE_ROWS * b->key_stride;
            size_t stride = b->key_stride;
            if (n < TILE_ROWS || d + columns > b->width) {
                copy_keys(keys, stride, n, least(columns, b->width - d) * element, some);
                keys = some;
                stride = TILE_LINE;
            }
            TILE_LOAD(4, keys, stride);
            TILE_LOAD(6, queries, TILE_LINE);
            prefetch_next_keys(next, b->key_stride);
            TILE_DOT(is_int8, 0, 4, 6);
            if (is_int8) {
                TILE_LOAD(7, queries + TILE_BYTES, TILE_LINE);
                TILE_DOT(1, 1, 4, 7);
            }
            if (two) {
                queries = query_tile(is_int8, (void *)b->packed_queries, d, TILE_ROWS);
                TILE_LOAD(6, queries, TILE_LINE);
                TILE_DOT(is_int8, 2, 4, 6);
                if (is_int8) {
                    TILE_LOAD(7, queries + TILE_BYTES, TILE_LINE);
                    TILE_DOT(1, 3, 4, 7);
                }
            }
        }
        store_score_sums(is_int8, sums, two);
        put_scores(is_int8, b, sums, key, n, 0);
        if (two)
            put_scores(is_int8, b, sums + 2 * TILE_BYTES, key, n, TILE_ROWS);
    }
    tiles_close();
}

static void score_bf16_rows(const struct row_scores *b)
{
    score_cached(0, b);
}

static void score_int8_rows(const struct row_scores *b)
{
    score_cached(1, b);
}

/* ---- values of bf16 rows ---- */

/* Columns [d, d + 32) of 32 rows as two tiles of weights, the words of two rows in turn.  Unpacking works
 * within quarters of a vector, so that quarter q of the first tile is columns 8 q .. 8 q + 3, of the second the
 * next four. */
INLINE void pair_tiles(const char *const *rows, int d, __mmask32 columns, char *out)
{
    UNROLL
    for (int p = 0; p < TILE_ROWS; p++) {
        __m512i even = _mm512_maskz_loadu_epi16(columns, rows[2 * p] + 2 * d);
        __m512i odd = _mm512_maskz_loadu_epi16(columns, rows[2 * p + 1] + 2 * d);
        _mm512_storeu_si512(out + p * TILE_LINE, _mm512_unpacklo_epi16(even, odd));
        _mm512_storeu_si512(out + TILE_BYTES + p * TILE_LINE, _mm512_unpackhi_epi16(even, odd));
    }
}

/* A row of sums of both tiles, in the order of columns. */
INLINE void put_pair_sums(float *out, const float sums[TILE_INPUTS], int n)
{
    vec first = load_vec(sums), second = load_vec(sums + LANES);
    vec low = __builtin_shufflevector(first, second, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    vec high = __builtin_shufflevector(first, second, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    if (n >= LANES)
        store_vec(out, low);
    else if (n > 0)
        store_some(out, low, n);
    if (n >= TILE_INPUTS)
        store_vec(out + LANES, high);
    else if (n > LANES)
        store_some(out + LANES, high, n - LANES);
}

/* [row][32 keys of each step]: rows for tiles, zero where there is no row or key. */
static void pack_bf16_weights(const struct row_values *b, uint16_t out[MAX_TILE_ROWS][MAX_VALUE_KEYS])
{
    int n_tiles = (b->n_keys + TILE_INPUTS - 1) / TILE_INPUTS;
    for (int r = 0; r < MAX_TILE_ROWS; r++)
        for (int t = 0; t < n_tiles; t++) {
            vec words = splat(0);
            int n = b->n_keys - t * TILE_INPUTS;
            const float *w = b->weights + (size_t)r * b->weight_stride + t * TILE_INPUTS;
            if (r < b->n_rows)
                words = round_to_bf16(load_first(w, n), load_first(w + LANES, n - LANES));
            store_vec((float *)(void *)&out[r][t * TILE_INPUTS], words);
        }
}

static __mmask32 first_columns(int n)
{
    return n >= TILE_INPUTS ? 0xffffffffu : n > 0 ? (__mmask32)(1u << n) - 1 : 0;
}

/* Sums of columns [d, d + 32) in 0 and 1, and in 2 and 3 of 16 more rows (two_rows), or of the 32 columns that
 * follow: either way there are four to be added to in turn. */
INLINE void sum_pairs(const uint16_t weights[MAX_TILE_ROWS][MAX_VALUE_KEYS], const char *const *rows, int n_keys,
                      int d, int width, const int two_rows)
{
    enum { WEIGHT_STRIDE = MAX_VALUE_KEYS * 2 };
    _Alignas(TILE_LINE) char values[2][2 * TILE_BYTES];
    __mmask32 columns = first_columns(width - d), more = first_columns(width - d - TILE_INPUTS);
    zero_sums();
    for (int key = 0; key < n_keys; key += TILE_INPUTS) {
        pair_tiles(rows + key, d, columns, values[0]);
        if (!two_rows && more != 0)
            pair_tiles(rows + key, d + TILE_INPUTS, more, values[1]);
        TILE_LOAD(4, &weights[0][key], WEIGHT_STRIDE);
        TILE_LOAD(6, values[0], TILE_LINE);
        TILE_LOAD(7, values[0] + TILE_BYTES, TILE_LINE);
        TILE_DOT_BF16(0, 4, 6);
        TILE_DOT_BF16(1, 4, 7);
        if (two_rows) {
            TILE_LOAD(5, &weights[TILE_ROWS][key], WEIGHT_STRIDE);
            TILE_DOT_BF16(2, 5, 6);
            TILE_DOT_BF16(3, 5, 7);
        } else if (more != 0) {
            TILE_LOAD(6, values[1], TILE_LINE);
            TILE_LOAD(7, values[1] + TILE_BYTES, TILE_LINE);
            TILE_DOT_BF16(2, 4, 6);
            TILE_DOT_BF16(3, 4, 7);
        }
    }
}

/* Keys that are not there have no weight; any row will do for them. */
INLINE void fill_up_rows(const struct row_values *b, const char *rows[MAX_VALUE_KEYS])
{
    for (int key = 0; key < MAX_VALUE_KEYS; key++)
        rows[key] = b->rows[key < b->n_keys ? key : 0] + b->column;
}

static void add_bf16_values(const struct row_values *b)
{
    _Alignas(TILE_LINE) uint16_t weights[MAX_TILE_ROWS][MAX_VALUE_KEYS];
    const char *rows[MAX_VALUE_KEYS];
    pack_bf16_weights(b, weights);
    fill_up_rows(b, rows);
    tiles_open(TILE_ROWS);
    int two_rows = b->n_rows > TILE_ROWS;
    for (int d = 0; d < b->width; d += two_rows ? TILE_INPUTS : 2 * TILE_INPUTS) {
        _Alignas(TILE_LINE) float sums[MAX_TILE_ROWS][TILE_INPUTS];
        if (two_rows)
            sum_pairs((const uint16_t (*)[MAX_VALUE_KEYS])weights, rows, b->n_keys, d, b->width, 1);
        else
            sum_pairs((const uint16_t (*)[MAX_VALUE_KEYS])weights, rows, b->n_keys, d, b->width, 0);
        store_sums(sums[0], TILE_INPUTS, MAX_TILE_ROWS, 2);
        for (int r = 0; r < b->n_rows; r++) {
            float *out = b->sums + (size_t)r * b->sum_stride + d;
            put_pair_sums(out, sums[r], b->width - d);
            if (!two_rows)
                put_pair_sums(out + TILE_INPUTS, sums[TILE_ROWS + r], b->width - d - TILE_INPUTS);
        }
    }
    tiles_close();
}

/* ---- values of int8 rows ---- */

enum {
    QUAD_TILES = 4,                 /* of 64 columns */
    KEY_STEPS = MAX_VALUE_KEYS / INT8_UNIT,
};

/* Digits of the weights, each for tiles of 16 rows and 64 keys. */
struct int8_weights {
    _Alignas(TILE_LINE) int8_t digits[2][MAX_TILE_ROWS][MAX_VALUE_KEYS];
    float scales[MAX_TILE_ROWS];
};

/* A row of weights times the scales of its keys. */
static void pack_int8_weights(const struct row_values *b, struct int8_weights *out)
{
    float scales[MAX_VALUE_KEYS] = { 0 };
    for (int key = 0; key < b->n_keys; key++)
        memcpy(&scales[key], b->rows[key] + b->scale_at, sizeof scales[key]);
    int n = (b->n_keys + LANES - 1) / LANES * LANES;
    memset(out->digits, 0, sizeof out->digits);
    for (int r = 0; r < b->n_rows; r++) {
        float scaled[MAX_VALUE_KEYS], inverse;
        const float *w = b->weights + (size_t)r * b->weight_stride;
        for (int key = 0; key < n; key += LANES)
            store_vec(scaled + key, load_first(w + key, b->n_keys - key) * load_vec(scales + key));
        out->scales[r] = whole_scale(largest_magnitude(scaled, n), &inverse);
        for (int key = 0; key < n; key += LANES)
            split_digits(load_vec(scaled + key), inverse, (__m128i *)(void *)&out->digits[0][r][key],
                         (__m128i *)(void *)&out->digits[1][r][key]);
    }
}

/* Columns [d, d + 64) of 64 rows as four tiles of weights, the bytes of four rows in turn.  As unpacking works within
 * quarters of a vector, quarter q of tile t is columns 16 q + 4 t .. 16 q + 4 t + 3. */
INLINE void quad_tiles(const char *const *rows, int d, __mmask64 columns, char *out)
{
    for (int quad = 0; quad < TILE_ROWS; quad++, rows += 4, out += TILE_LINE) {
        __m512i a = _mm512_maskz_loadu_epi8(columns, rows[0] + d), b = _mm512_maskz_loadu_epi8(columns, rows[1] + d);
        __m512i c = _mm512_maskz_loadu_epi8(columns, rows[2] + d), e = _mm512_maskz_loadu_epi8(columns, rows[3] + d);
        __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
        __m512i ce_low = _mm512_unpacklo_epi8(c, e), ce_high = _mm512_unpackhi_epi8(c, e);
        _mm512_storeu_si512(out, _mm512_unpacklo_epi16(ab_low, ce_low));
        _mm512_storeu_si512(out + TILE_BYTES, _mm512_unpackhi_epi16(ab_low, ce_low));
        _mm512_storeu_si512(out + 2 * TILE_BYTES, _mm512_unpacklo_epi16(ab_high, ce_high));
        _mm512_storeu_si512(out + 3 * TILE_BYTES, _mm512_unpackhi_epi16(ab_high, ce_high));
    }
}

/* [tile][row][16] sums of high digits and as many of low ones. */
struct quad_sums {
    _Alignas(TILE_LINE) int32_t high[QUAD_TILES][MAX_TILE_ROWS * LANES], low[QUAD_TILES][MAX_TILE_ROWS * LANES];
};

/* Of 16 rows: tiles of columns t (in 0 and 1: high, low) and t + 1 (2 and 3). */
INLINE void sum_two_tiles(const struct int8_weights *w, const char *values, int n_steps, int t, struct quad_sums *out)
{
    zero_sums();
    values += t * TILE_BYTES;
    for (int step = 0; step < n_steps; step++, values += QUAD_TILES * TILE_BYTES) {
        TILE_LOAD(4, &w->digits[0][0][step * INT8_UNIT], MAX_VALUE_KEYS);
        TILE_LOAD(6, values, TILE_LINE);
        TILE_DOT_INT8(0, 4, 6);
        TILE_LOAD(5, &w->digits[1][0][step * INT8_UNIT], MAX_VALUE_KEYS);
        TILE_DOT_INT8(1, 5, 6);
        TILE_LOAD(7, values + TILE_BYTES, TILE_LINE);
        TILE_DOT_INT8(2, 4, 7);
        TILE_DOT_INT8(3, 5, 7);
    }
    TILE_STORE(0, out->high[t], TILE_LINE);
    TILE_STORE(1, out->low[t], TILE_LINE);
    TILE_STORE(2, out->high[t + 1], TILE_LINE);
    TILE_STORE(3, out->low[t + 1], TILE_LINE);
}

/* Of 32 rows: tile of columns t, of the first 16 in 0 and 1, of the others in 2 and 3. */
INLINE void sum_two_rows(const struct int8_weights *w, const char *values, int n_steps, int t, struct quad_sums *out)
{
    zero_sums();
    values += t * TILE_BYTES;
    for (int step = 0; step < n_steps; step++, values += QUAD_TILES * TILE_BYTES) {
        TILE_LOAD(6, values, TILE_LINE);
        TILE_LOAD(4, &w->digits[0][0][step * INT8_UNIT], MAX_VALUE_KEYS);
        TILE_DOT_INT8(0, 4, 6);
        TILE_LOAD(5, &w->digits[1][0][step * INT8_UNIT], MAX_VALUE_KEYS);
        TILE_DOT_INT8(1, 5, 6);
        TILE_LOAD(4, &w->digits[0][TILE_ROWS][step * INT8_UNIT], MAX_VALUE_KEYS);
        TILE_DOT_INT8(2, 4, 6);
        TILE_LOAD(5, &w->digits[1][TILE_ROWS][step * INT8_UNIT], MAX_VALUE_KEYS);
        TILE_DOT_INT8(3, 5, 6);
    }
    TILE_STORE(0, out->high[t], TILE_LINE);
    TILE_STORE(1, out->low[t], TILE_LINE);
    TILE_STORE(2, out->high[t] + TILE_FLOATS, TILE_LINE);
    TILE_STORE(3, out->low[t] + TILE_FLOATS, TILE_LINE);
}

/* n columns of a row, quarters of the four tiles back in their order. */
INLINE void put_quad_sums(float *out, const struct quad_sums *sums, int row, float scale, int n)
{
    vec t[QUAD_TILES];
    UNROLL
    for (int i = 0; i < QUAD_TILES; i++)
        t[i] = join_digits(sums->high[i] + row * LANES, sums->low[i] + row * LANES) * scale;
    vec first = __builtin_shufflevector(t[0], t[1], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    vec second = __builtin_shufflevector(t[0], t[1], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    vec third = __builtin_shufflevector(t[2], t[3], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    vec fourth = __builtin_shufflevector(t[2], t[3], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    vec columns[QUAD_TILES] = {
        __builtin_shufflevector(first, third, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
        __builtin_shufflevector(first, third, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
        __builtin_shufflevector(second, fourth, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
        __builtin_shufflevector(second, fourth, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
    };
    UNROLL
    for (int i = 0; i < QUAD_TILES; i++) {
        if (n - i * LANES >= LANES)
            store_vec(out + i * LANES, columns[i]);
        else if (n - i * LANES > 0)
            store_some(out + i * LANES, columns[i], n - i * LANES);
    }
}

static void add_int8_values(const struct row_values *b)
{
    struct int8_weights weights;
    const char *rows[MAX_VALUE_KEYS];
    int n_steps = (b->n_keys + INT8_UNIT - 1) / INT8_UNIT, two_rows = b->n_rows > TILE_ROWS;
    pack_int8_weights(b, &weights);
    fill_up_rows(b, rows);
    tiles_open(TILE_ROWS);
    for (int d = 0; d < b->width; d += INT8_UNIT) {
        _Alignas(TILE_LINE) char values[KEY_STEPS][QUAD_TILES * TILE_BYTES];
        struct quad_sums sums;
        int n = least(b->width - d, INT8_UNIT);
        __mmask64 columns = n == INT8_UNIT ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
        for (int step = 0; step < n_steps; step++)
            quad_tiles(rows + step * INT8_UNIT, d, columns, values[step]);
        for (int t = 0; t < QUAD_TILES; t += two_rows ? 1 : 2) {
            if (two_rows)
                sum_two_rows(&weights, values[0], n_steps, t, &sums);
            else
                sum_two_tiles(&weights, values[0], n_steps, t, &sums);
        }
        for (int r = 0; r < b->n_rows; r++)
            put_quad_sums(b->sums + (size_t)r * b->sum_stride + d, &sums, r, weights.scales[r], n);
    }
    tiles_close();
}

static const struct row_kernels tile_bf16_rows = {
    .pack_queries = pack_bf16_queries, .score = score_bf16_rows, .add_values = add_bf16_values,
};
static const struct row_kernels tile_int8_rows = {
    .pack_queries = pack_int8_queries, .score = score_int8_rows, .add_values = add_int8_values,
};

#endif
