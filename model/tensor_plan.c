#include "model/tensor_plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAME 128

enum status tensor_plan_init(struct tensor_plan *plan, size_t max, struct error *err)
{
    *plan = (struct tensor_plan){ .max = max };
    arena_init(&plan->arena);
    return ARENA_ARRAY(&plan->arena, max, &plan->tensors, err);
}

void tensor_plan_clear(struct tensor_plan *plan)
{
    arena_clear(&plan->arena);
    *plan = (struct tensor_plan){ 0 };
}

enum status tensor_plan_vadd(struct tensor_plan *plan, enum dtype dtype, struct tensor_shape shape,
                             struct error *err, const char *fmt, va_list arguments)
{
    assert(plan->n < plan->max && shape.n_dims >= 1 && shape.n_dims <= 3);
    char name[MAX_NAME];
    int len = vsnprintf(name, sizeof name, fmt, arguments);
    assert(len > 0 && len < MAX_NAME);
    struct tensor t = { .n_dims = shape.n_dims, .dtype = dtype };
    memcpy(t.dims, shape.dims, sizeof shape.dims);
    if (!tensor_shape_size(t.dims, t.n_dims, dtype, &t.n_elements, &t.bytes)
        || t.bytes > (size_t)INT64_MAX - plan->bytes)
        return fail(err, STATUS_TOO_LARGE, "tensor %s makes the model too large to be written", name);
    char *copy;
    TRY(ARENA_ARRAY(&plan->arena, (size_t)len + 1, &copy, err));
    memcpy(copy, name, (size_t)len + 1);
    t.name = copy;
    plan->tensors[plan->n++] = t;
    plan->bytes += t.bytes;
    return STATUS_OK;
}

enum status tensor_plan_add(struct tensor_plan *plan, enum dtype dtype, struct tensor_shape shape,
                            struct error *err, const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    enum status s = tensor_plan_vadd(plan, dtype, shape, err, fmt, arguments);
    va_end(arguments);
    return s;
}
