#include "attention/linear.h"

#include <assert.h>
#include <math.h>

int linear_leaf_column(int64_t n, int n_leaves, int leaf)
{
    int64_t column = n * leaf / n_leaves;
    return n % n_leaves == 0 || leaf == n_leaves ? (int)column : (int)(column & ~(int64_t)1);
}

static void set_leaves(struct linear *linear, const struct linear_spec *spec)
{
    if (spec->n_leaves == 0) {
        reduce_part_init(&linear->part, 1, 0, 1);
        linear->leaf_end[0] = linear->n_inputs;
        return;
    }
    reduce_part_init(&linear->part, spec->n_leaves, spec->leaf_begin, spec->leaf_end);
    int first = linear_leaf_column(spec->total_inputs, spec->n_leaves, spec->leaf_begin);
    for (int leaf = spec->leaf_begin; leaf < spec->leaf_end; leaf++)
        linear->leaf_end[leaf - spec->leaf_begin] =
            linear_leaf_column(spec->total_inputs, spec->n_leaves, leaf + 1) - first;
}

/* BitLinear's scale of a weight tensor: its mean magnitude, but not zero. */
static double ternary_scale(double mean)
{
    return mean > 1e-5 ? mean : 1e-5;
}

float linear_make_ternary(float *row, int n, double mean)
{
    double s = 1.0 / ternary_scale(mean);
    for (int i = 0; i < n; i++) {
        double t = nearbyint((double)row[i] * s);
        row[i] = (float)(t > 1 ? 1 : t < -1 ? -1 : t);
    }
    return (float)ternary_scale(mean);
}

static void store_lane(const struct linear *linear, const float *row, int output)
{
    char *panel = (char *)linear->panels + (size_t)(output / PANEL_WIDTH) * linear->panel_bytes;
    size_t lane = (size_t)(output % PANEL_WIDTH);
    for (size_t k = 0; k < (size_t)linear->n_inputs; k++) {
        if (linear->type == WEIGHT_F32)
            ((float *)panel)[k * PANEL_WIDTH + lane] = row[k];
        else
            ((uint16_t *)panel)[(k / 2 * PANEL_WIDTH + lane) * 2 + k % 2] = f32_to_bf16(row[k]);
    }
}

static enum status pack(struct linear *linear, const struct linear_spec *spec, struct arena *arena,
                        struct error *err)
{
    size_t pairs = ((size_t)linear->n_inputs + 1) / 2;
    size_t n_panels = ((size_t)linear->n_outputs + PANEL_WIDTH - 1) / PANEL_WIDTH;
    linear->panel_bytes = pairs * 2 * PANEL_WIDTH * (linear->type == WEIGHT_F32 ? 4 : 2);
    TRY(arena_take(arena, n_panels, linear->panel_bytes, &linear->panels, err));
    struct arena scratch;
    arena_init(&scratch);
    float *row;
    TRY(ARENA_ARRAY(&scratch, (size_t)linear->n_inputs, &row, err));
    int output = 0;
    for (int p = 0; p < spec->n_parts; p++)
        for (int64_t r = 0; r < spec->rows[p].n_rows; r++) {
            matrix_read_row(&spec->rows[p], r, row);
            if (spec->ternary)
                linear_make_ternary(row, linear->n_inputs, spec->ternary_mean);
            store_lane(linear, row, output++);
        }
    arena_clear(&scratch);
    return STATUS_OK;
}

static enum status pack_bias(struct linear *linear, const struct linear_spec *spec, struct arena *arena,
                             struct error *err)
{
    int any = 0;
    for (int p = 0; spec->bias != NULL && p < spec->n_parts; p++)
        any |= spec->bias[p].data != NULL;
    if (!any)
        return STATUS_OK;
    float *bias;
    TRY(ARENA_ARRAY(arena, (size_t)linear->n_outputs, &bias, err));
    int output = 0;
    for (int p = 0; p < spec->n_parts; p++) {
        if (spec->bias[p].data != NULL) {
            assert(spec->bias[p].n_columns == spec->rows[p].n_rows);
            matrix_read_row(&spec->bias[p], 0, bias + output);
        }
        output += (int)spec->rows[p].n_rows;
    }
    linear->bias = bias;
    return STATUS_OK;
}

enum status linear_create(struct linear *linear, const struct linear_spec *spec, struct arena *arena,
                          struct error *err)
{
    assert(spec->n_parts >= 1);
    *linear = (struct linear){ .type = spec->type, .out_scale = 1 };
    linear->n_inputs = (int)spec->rows[0].n_columns;
    for (int p = 0; p < spec->n_parts; p++) {
        assert(spec->rows[p].n_columns == linear->n_inputs);
        linear->n_outputs += (int)spec->rows[p].n_rows;
    }
    if (spec->ternary)
        linear->out_scale = (float)ternary_scale(spec->ternary_mean);
    set_leaves(linear, spec);
    /* bf16 pairs may not straddle leaves; odd leaves occur in toy shapes only. */
    for (int i = 0; i + 1 < linear->part.end - linear->part.begin; i++)
        if (linear->leaf_end[i] % 2 != 0)
            linear->type = WEIGHT_F32;
    if (linear->n_outputs == 0 || linear->n_inputs == 0)
        return STATUS_OK;
    TRY(pack(linear, spec, arena, err));
    return pack_bias(linear, spec, arena, err);
}

void linear_apply(const struct linear *linear, const struct kernels *kernels, const float *x,
                  size_t x_stride, int n_rows, float *y, size_t y_stride, size_t node_stride)
{
    if (linear->panels == NULL || n_rows == 0)
        return;
    struct gemm g = {
        .x = x, .x_stride = x_stride, .n_rows = n_rows,
        .panels = linear->panels, .panel_bytes = linear->panel_bytes,
        .n_outputs = linear->n_outputs, .leaf_end = linear->leaf_end, .part = &linear->part,
        .y = y, .y_stride = y_stride, .node_stride = node_stride,
    };
    if (linear->type == WEIGHT_F32)
        kernels->gemm_f32(&g);
    else
        kernels->gemm_bf16(&g);
    if (linear->bias != NULL)
        for (int r = 0; r < n_rows; r++)
            kernels->add(y + (size_t)r * y_stride, linear->bias, linear->n_outputs);
}

void linear_apply_bit(const struct linear *linear, const struct kernels *kernels, const float *x,
                      size_t x_stride, int n_rows, float *y, size_t y_stride, float *scratch)
{
    for (int r = 0; r < n_rows; r++) {
        float *out = y + (size_t)r * y_stride;
        float scale = linear_quantise_input(x + (size_t)r * x_stride, linear->n_inputs, scratch);
        linear_apply(linear, kernels, scratch, 0, 1, out, 0, 0);
        for (int i = 0; i < linear->n_outputs; i++)
            out[i] = out[i] * (scale * linear->out_scale);
    }
}

size_t linear_bytes(const struct linear *linear)
{
    size_t n_panels = ((size_t)linear->n_outputs + PANEL_WIDTH - 1) / PANEL_WIDTH;
    return n_panels * linear->panel_bytes;
}

double linear_mean_magnitude(const struct matrix *w, float *row_scratch)
{
    double sum = 0;
    for (int64_t r = 0; r < w->n_rows; r++) {
        matrix_read_row(w, r, row_scratch);
        for (int64_t c = 0; c < w->n_columns; c++)
            sum += fabs((double)row_scratch[c]);
    }
    return sum / (double)(w->n_rows * w->n_columns);
}

float linear_quantise_input(const float *x, int n, float *out)
{
    double mean = 0, variance = 0, largest = 0;
    for (int i = 0; i < n; i++)
        mean += (double)x[i];
    mean /= n;
    for (int i = 0; i < n; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean);
    double scale = 1.0 / sqrt(variance / n + 1e-5);
    for (int i = 0; i < n; i++)
        largest = fmax(largest, fabs(((double)x[i] - mean) * scale));
    double s = 127.0 / (largest > 1e-5 ? largest : 1e-5);
    for (int i = 0; i < n; i++)
        out[i] = (float)nearbyint(((double)x[i] - mean) * scale * s);
    return (float)(1.0 / s);
}
