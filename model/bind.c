#include "model/bind.h"

#include <inttypes.h>
#include <stdio.h>

enum { NAME_BYTES = 256 };

static const struct tensor *find(const struct binder *b, const char *name, char full[NAME_BYTES])
{
    snprintf(full, NAME_BYTES, "%s%s", b->prefix, name);
    return safetensors_find(b->set, full);
}

int bind_has(const struct binder *b, const char *name)
{
    char full[NAME_BYTES];
    return find(b, name, full) != NULL;
}

static void format_shape(char out[96], const int64_t *dims, int n_dims)
{
    size_t at = (size_t)snprintf(out, 96, "[");
    for (int d = 0; d < n_dims && at < 80; d++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%" PRId64, d > 0 ? ", " : "", dims[d]);
    snprintf(out + at, 96 - at, "]");
}

/* The tensor `full`, if its shape and type are what is wanted. */
static enum status check(const struct tensor *t, const char *full, const int64_t *want, int n_dims,
                         enum element_type *type, struct error *err)
{
    int same = t->n_dims == n_dims;
    for (int d = 0; same && d < n_dims; d++)
        same = t->dims[d] == want[d];
    if (!same) {
        char got[96], expected[96];
        format_shape(got, t->dims, t->n_dims);
        format_shape(expected, want, n_dims);
        return fail(err, STATUS_BAD_MODEL, "tensor %s has shape %s, the configuration needs %s", full, got,
                    expected);
    }
    switch (t->dtype) {
    case DTYPE_F32:  *type = ELEMENT_F32; return STATUS_OK;
    case DTYPE_F16:  *type = ELEMENT_F16; return STATUS_OK;
    case DTYPE_BF16: *type = ELEMENT_BF16; return STATUS_OK;
    default:
        return fail(err, STATUS_BAD_MODEL, "tensor %s has type %s, expected F32, F16 or BF16", full,
                    dtype_name(t->dtype));
    }
}

/* As a matrix of rows x columns, both products of want's dims. */
static enum status bind(const struct binder *b, const char *name, const int64_t *want, int n_dims,
                        int may_miss, struct matrix *out, struct error *err)
{
    char full[NAME_BYTES];
    const struct tensor *t = find(b, name, full);
    *out = (struct matrix){ 0 };
    if (t == NULL && may_miss)
        return STATUS_OK;
    if (t == NULL)
        return fail(err, STATUS_BAD_MODEL, "tensor %s is missing", full);
    enum element_type type = ELEMENT_F32;
    TRY(check(t, full, want, n_dims, &type, err));
    int64_t columns = want[n_dims - 1], rows = t->n_elements / (columns > 0 ? columns : 1);
    *out = (struct matrix){ t->data, type, rows, columns, (ptrdiff_t)columns, 1 };
    return STATUS_OK;
}

enum status bind_matrix(const struct binder *b, const char *name, int64_t n_rows, int64_t n_columns,
                        struct matrix *out, struct error *err)
{
    return bind(b, name, (int64_t[]){ n_rows, n_columns }, 2, 0, out, err);
}

enum status bind_matrix_if(const struct binder *b, const char *name, int64_t n_rows, int64_t n_columns,
                           struct matrix *out, struct error *err)
{
    return bind(b, name, (int64_t[]){ n_rows, n_columns }, 2, 1, out, err);
}

enum status bind_vector(const struct binder *b, const char *name, int64_t n, struct matrix *out,
                        struct error *err)
{
    return bind(b, name, &n, 1, 0, out, err);
}

enum status bind_vector_if(const struct binder *b, const char *name, int64_t n, struct matrix *out,
                           struct error *err)
{
    return bind(b, name, &n, 1, 1, out, err);
}

enum status bind_slice(const struct binder *b, const char *name, int64_t n_slices, int64_t slice,
                       int64_t n_rows, int64_t n_columns, struct matrix *out, struct error *err)
{
    TRY(bind(b, name, (int64_t[]){ n_slices, n_rows, n_columns }, 3, 0, out, err));
    *out = matrix_rows(*out, slice * n_rows, n_rows);
    return STATUS_OK;
}

enum status bind_folded(const struct binder *b, const char *name, int64_t n_rows, int64_t a, int64_t n_b,
                        struct matrix *out, struct error *err)
{
    TRY(bind(b, name, (int64_t[]){ n_rows, a, n_b }, 3, 0, out, err));
    out->n_rows = n_rows;
    out->n_columns = a * n_b;
    out->row_stride = (ptrdiff_t)(a * n_b);
    return STATUS_OK;
}
