/* element.h - the number types that weights and cached rows are stored in,
 * and matrices as strided views of such numbers.  Threads: any; memory: none. */
#ifndef BASE_ELEMENT_H
#define BASE_ELEMENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum element_type { ELEMENT_F32, ELEMENT_F16, ELEMENT_BF16 };

static inline size_t element_bytes(enum element_type type)
{
    return type == ELEMENT_F32 ? 4 : 2;
}

static inline float bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Round to nearest, ties to even; a NaN stays a NaN. */
static inline uint16_t f32_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits);

/* out[n] = the n elements that start at data, stride elements apart; data may
 * be unaligned. */
void element_read(enum element_type type, const void *data, ptrdiff_t stride, size_t n, float *out);

/* Element (row, column) is data[row * row_stride + column * column_stride],
 * strides in elements: a transposed or partial matrix is a view of the same
 * bytes.  A vector is a matrix of one row. */
struct matrix {
    const void *data;           /* NULL: the matrix is absent */
    enum element_type type;
    int64_t n_rows, n_columns;
    ptrdiff_t row_stride, column_stride;
};

/* Row `row` as n_columns floats. */
void matrix_read_row(const struct matrix *m, int64_t row, float *out);

struct matrix matrix_rows(struct matrix m, int64_t first, int64_t count);
struct matrix matrix_columns(struct matrix m, int64_t first, int64_t count);
struct matrix matrix_transpose(struct matrix m);

#endif
