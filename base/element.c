#include "base/element.h"

#include <assert.h>
#include <math.h>

float f16_to_f32(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    int fraction = bits & 1023;
    float magnitude;
    if (exponent == 31)
        magnitude = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexpf((float)fraction, -24);
    else
        magnitude = ldexpf((float)(fraction + 1024), exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

void element_read(enum element_type type, const void *data, ptrdiff_t stride, size_t n, float *out)
{
    const char *from = data;
    if (type == ELEMENT_F32) {
        for (size_t i = 0; i < n; i++)
            memcpy(&out[i], from + (ptrdiff_t)i * stride * 4, 4);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, from + (ptrdiff_t)i * stride * 2, 2);
        out[i] = type == ELEMENT_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
    }
}

static const char *element_at(const struct matrix *m, int64_t row, int64_t column)
{
    return (const char *)m->data + (row * m->row_stride + column * m->column_stride)
                                       * (ptrdiff_t)element_bytes(m->type);
}

void matrix_read_row(const struct matrix *m, int64_t row, float *out)
{
    assert(row >= 0 && row < m->n_rows);
    element_read(m->type, element_at(m, row, 0), m->column_stride, (size_t)m->n_columns, out);
}

struct matrix matrix_rows(struct matrix m, int64_t first, int64_t count)
{
    assert(first >= 0 && count >= 0 && first + count <= m.n_rows);
    if (m.data != NULL)
        m.data = element_at(&m, first, 0);
    m.n_rows = count;
    return m;
}

struct matrix matrix_columns(struct matrix m, int64_t first, int64_t count)
{
    return matrix_transpose(matrix_rows(matrix_transpose(m), first, count));
}

struct matrix matrix_transpose(struct matrix m)
{
    return (struct matrix){ m.data, m.type, m.n_columns, m.n_rows, m.column_stride, m.row_stride };
}
