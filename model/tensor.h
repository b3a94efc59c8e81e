/* tensor.h - one named array of numbers as it lies in a weight file.
 *
 * A struct tensor is plain data, meant to be read.  It describes bytes that
 * somebody else owns (usually a mapped file) and never owns them itself.
 *
 *   dims   { 3, 4 }      row-major, slowest first: data is [3][4]
 *   dims   { }           n_dims 0 is a scalar: one element
 *   dims   { 0, 4 }      no elements, no bytes; data may point anywhere
 *
 * data may be unaligned (old files start their data section at any byte), so
 * it is read through tensor_to_f32 or memcpy, never through a float pointer
 * unless tensor_is_aligned says that is allowed.
 *
 * Threads: any; nothing here has state.  Memory: none.
 */
#ifndef MODEL_TENSOR_H
#define MODEL_TENSOR_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define TENSOR_MAX_DIMS 8

/*    name      bytes of one element   */
#define DTYPE_MAP(X)                   \
    X(F64,      8)                     \
    X(F32,      4)                     \
    X(F16,      2)                     \
    X(BF16,     2)                     \
    X(F8_E4M3,  1)                     \
    X(F8_E5M2,  1)                     \
    X(I64,      8)                     \
    X(I32,      4)                     \
    X(I16,      2)                     \
    X(I8,       1)                     \
    X(U64,      8)                     \
    X(U32,      4)                     \
    X(U16,      2)                     \
    X(U8,       1)                     \
    X(BOOL,     1)

enum dtype {
#define X(name, size) DTYPE_##name,
    DTYPE_MAP(X)
#undef X
    N_DTYPES
};

struct tensor {
    const char *name;               /* 0-terminated UTF-8 without NUL inside */
    const char *file;               /* path it came from, for sentences; NULL if from memory */
    const void *data;
    size_t bytes;                   /* == n_elements * dtype_bytes(dtype) */
    int64_t n_elements;             /* product of dims; 1 for a scalar */
    int64_t dims[TENSOR_MAX_DIMS];
    int n_dims;                     /* 0..TENSOR_MAX_DIMS */
    enum dtype dtype;
};

const char *dtype_name(enum dtype type);        /* "BF16" */
size_t dtype_bytes(enum dtype type);            /* 2 */

/* 1 and *out if text is one of the names above (case matters), else 0. */
int dtype_find(const char *text, enum dtype *out);

/* Elements of a shape and its bytes.  0 if a dim is negative, n_dims is out of
 * range or a product does not fit in 63 bits; the outputs are then untouched. */
int tensor_shape_size(const int64_t *dims, int n_dims, enum dtype type,
                      int64_t *n_elements, size_t *bytes);

/* 1 if data may be read through a pointer to the element type. */
int tensor_is_aligned(const struct tensor *t);

/* Convert elements [first, first + count) to f32, exactly: F32 (bit for bit),
 * F16 and BF16; count may be 0.
 * INTERNAL: the range passes the end of the tensor (sentence with the numbers).
 * UNSUPPORTED: another dtype.  out is untouched in both cases. */
MUST_CHECK enum status tensor_to_f32(const struct tensor *t, size_t first, size_t count,
                                     float *out, struct error *err);

/* Require exactly this shape; BAD_MODEL names the tensor, its file, and both. */
MUST_CHECK enum status tensor_expect_shape(const struct tensor *t, const int64_t *dims, int n_dims,
                                           struct error *err);

#endif
