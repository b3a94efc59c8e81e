/* tensor_plan.h - the tensors a weight file is going to have: names and shapes,
 * collected before the first byte is written (safetensors_writer.h wants them so).
 *
 *     TRY(tensor_plan_init(&plan, 12, err));
 *     TRY(tensor_plan_add(&plan, DTYPE_F32, SHAPE2(rows, columns), err, "model.layers.%d.x", 3));
 *     ...  plan.tensors[0 .. plan.n)  ...
 *     tensor_plan_clear(&plan);
 *
 * What fills tensor i is the caller's business: an array beside this one.
 *
 * Owner: the caller.  Memory: one arena, all at init but the names.
 */
#ifndef MODEL_TENSOR_PLAN_H
#define MODEL_TENSOR_PLAN_H

#include "base/arena.h"
#include "model/tensor.h"

#include <stdarg.h>

struct tensor_plan {
    struct arena arena;
    struct tensor *tensors;     /* [max]; data is NULL */
    size_t n, max;
    size_t bytes;               /* of all of them */
};

struct tensor_shape {
    int n_dims;
    int64_t dims[3];            /* slowest first */
};
#define SHAPE1(a)       ((struct tensor_shape){ 1, { (a) } })
#define SHAPE2(a, b)    ((struct tensor_shape){ 2, { (a), (b) } })
#define SHAPE3(a, b, c) ((struct tensor_shape){ 3, { (a), (b), (c) } })

/* Room for max tensors.  NO_MEMORY: nothing to clear. */
MUST_CHECK enum status tensor_plan_init(struct tensor_plan *plan, size_t max, struct error *err);
void tensor_plan_clear(struct tensor_plan *plan);

/* One more, n < max; the rest of the arguments makes its name, below 128 bytes.
 * TOO_LARGE: its bytes or the sum pass 63 bits.  NO_MEMORY. */
MUST_CHECK enum status tensor_plan_add(struct tensor_plan *plan, enum dtype dtype, struct tensor_shape shape,
                                       struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* The same with the arguments as a list. */
MUST_CHECK enum status tensor_plan_vadd(struct tensor_plan *plan, enum dtype dtype, struct tensor_shape shape,
                                        struct error *err, const char *fmt, va_list arguments);

#endif
