/* bind.h - names of tensors bound once to views, with their shapes checked.
 *
 * After binding, the rest of the program addresses weights by field, never by
 * name.  Every refusal is BAD_MODEL and names the tensor, the shape it has and
 * the shape that the configuration asks for.
 *
 * Threads: any; memory: none (views borrow from the set).
 */
#ifndef MODEL_BIND_H
#define MODEL_BIND_H

#include "base/element.h"
#include "model/safetensors.h"

struct binder {
    const struct safetensors *set;
    char prefix[96];            /* put before every name: "model.layers.3.attn." */
};

MUST_CHECK enum status bind_matrix(const struct binder *b, const char *name, int64_t n_rows,
                                   int64_t n_columns, struct matrix *out, struct error *err);
MUST_CHECK enum status bind_vector(const struct binder *b, const char *name, int64_t n,
                                   struct matrix *out, struct error *err);

/* The same, but a tensor that is not there leaves *out absent (data NULL). */
MUST_CHECK enum status bind_matrix_if(const struct binder *b, const char *name, int64_t n_rows,
                                      int64_t n_columns, struct matrix *out, struct error *err);
MUST_CHECK enum status bind_vector_if(const struct binder *b, const char *name, int64_t n,
                                      struct matrix *out, struct error *err);

/* Of a three-dimensional tensor [n_slices][n_rows][n_columns], slice `slice`. */
MUST_CHECK enum status bind_slice(const struct binder *b, const char *name, int64_t n_slices, int64_t slice,
                                  int64_t n_rows, int64_t n_columns, struct matrix *out, struct error *err);

/* The last two dimensions of [n_rows][a][b] as one of a * b columns. */
MUST_CHECK enum status bind_folded(const struct binder *b, const char *name, int64_t n_rows, int64_t a,
                                   int64_t n_b, struct matrix *out, struct error *err);

int bind_has(const struct binder *b, const char *name);

#endif
