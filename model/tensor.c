#include "model/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[N_DTYPES] = {
#define X(name, size) { #name, size },
    DTYPE_MAP(X)
#undef X
};

const char *dtype_name(enum dtype type)
{
    return dtypes[type].name;
}

size_t dtype_bytes(enum dtype type)
{
    return dtypes[type].bytes;
}

int dtype_find(const char *text, enum dtype *out)
{
    for (int i = 0; i < N_DTYPES; i++) {
        if (strcmp(dtypes[i].name, text) == 0) {
            *out = (enum dtype)i;
            return 1;
        }
    }
    return 0;
}

int tensor_shape_size(const int64_t *dims, int n_dims, enum dtype type,
                      int64_t *n_elements, size_t *bytes)
{
    if (n_dims < 0 || n_dims > TENSOR_MAX_DIMS)
        return 0;
    int64_t product = 1, total;
    for (int i = 0; i < n_dims; i++) {
        if (dims[i] < 0 || __builtin_mul_overflow(product, dims[i], &product))
            return 0;
    }
    if (__builtin_mul_overflow(product, (int64_t)dtype_bytes(type), &total))
        return 0;
    *n_elements = product;
    *bytes = (size_t)total;
    return 1;
}

int tensor_is_aligned(const struct tensor *t)
{
    return (uintptr_t)t->data % dtype_bytes(t->dtype) == 0;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* 1 sign, 5 exponent (bias 15), 10 fraction bits.  A subnormal half is a normal
 * float: its fraction times 2^-24 is exact. */
static float half_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    if (exponent == 31)
        return from_bits(sign | 0x7f800000u | fraction << 13);
    return from_bits(sign | (exponent + 112u) << 23 | fraction << 13);
}

enum status tensor_to_f32(const struct tensor *t, size_t first, size_t count,
                          float *out, struct error *err)
{
    size_t n = (size_t)t->n_elements;
    if (first > n || count > n - first)
        return fail(err, STATUS_INTERNAL, "tensor '%.80s' has %zu elements, "
                    "elements %zu to %zu were asked for", t->name, n, first, first + count);
    if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16)
        return fail(err, STATUS_UNSUPPORTED, "tensor '%.80s' has dtype %s, expected F32, F16 or BF16",
                    t->name, dtype_name(t->dtype));
    if (count == 0)
        return STATUS_OK;
    const unsigned char *from = (const unsigned char *)t->data + first * dtype_bytes(t->dtype);
    if (t->dtype == DTYPE_F32) {
        memcpy(out, from, count * sizeof *out);
        return STATUS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, from + 2 * i, sizeof bits);
        out[i] = t->dtype == DTYPE_BF16 ? from_bits((uint32_t)bits << 16) : half_to_f32(bits);
    }
    return STATUS_OK;
}

/* "[3, 4]"; cut short if room is too small. */
static const char *shape_text(const int64_t *dims, int n_dims, char *text, size_t room)
{
    size_t used = (size_t)snprintf(text, room, "[");
    for (int i = 0; i < n_dims && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%" PRId64, i == 0 ? "" : ", ", dims[i]);
    if (used < room)
        snprintf(text + used, room - used, "]");
    return text;
}

enum status tensor_expect_shape(const struct tensor *t, const int64_t *dims, int n_dims, struct error *err)
{
    int same = t->n_dims == n_dims;
    for (int i = 0; same && i < n_dims; i++)
        same = t->dims[i] == dims[i];
    if (same)
        return STATUS_OK;
    char got[96], want[96];
    return fail(err, STATUS_BAD_MODEL, "%.100s: tensor '%.80s' has shape %s, expected %s",
                t->file == NULL ? "memory" : t->file, t->name,
                shape_text(t->dims, t->n_dims, got, sizeof got),
                shape_text(dims, n_dims, want, sizeof want));
}
