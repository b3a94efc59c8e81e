#include "attention/linear.h"

#include <assert.h>
#include <math.h>

enum { OWN_SCRATCH_ROWS = TILE_ROWS };

static const struct {
    const char *name;
    double bits;
} weight_types[] = { { "f32", 32 }, { "bf16", 16 }, { "int8", 8.125 }, { "int4", 4.25 } };

const char *weight_type_name(enum weight_type type)
{
    return weight_types[type].name;
}

enum weight_type weight_type_of_small(enum weight_type type)
{
    return type == WEIGHT_F32 ? WEIGHT_F32 : WEIGHT_BF16;
}

double weight_type_bits(enum weight_type type)
{
    return weight_types[type].bits;
}

int linear_leaf_column(int64_t n, int n_leaves, int leaf)
{
    int64_t column = n * leaf / n_leaves;
    return n % n_leaves == 0 || leaf == n_leaves ? (int)column : (int)(column & ~(int64_t)1);
}

static void set_leaves(struct linear *linear, const struct linear_spec *spec)
{
    if (spec->n_leaves == 0) {
        reduce_part_init(&linear->part, 1, 0, 1);
        linear->leaf_inputs_end[0] = linear->n_inputs;
        return;
    }
    reduce_part_init(&linear->part, spec->n_leaves, spec->leaf_begin, spec->leaf_end);
    int first = linear_leaf_column(spec->total_inputs, spec->n_leaves, spec->leaf_begin);
    for (int leaf = spec->leaf_begin; leaf < spec->leaf_end; leaf++)
        linear->leaf_inputs_end[leaf - spec->leaf_begin] =
            linear_leaf_column(spec->total_inputs, spec->n_leaves, leaf + 1) - first;
}

static int round_up(int n, int unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Inputs of the whole matrix when each leaf, whichever rank has it, is filled up. */
static int filled_inputs(const struct linear *linear, const struct linear_spec *spec, int unit)
{
    if (spec->n_leaves == 0)
        return round_up(linear->n_inputs, unit);
    int total = 0;
    for (int leaf = 0; leaf < spec->n_leaves; leaf++)
        total += round_up(linear_leaf_column(spec->total_inputs, spec->n_leaves, leaf + 1)
                          - linear_leaf_column(spec->total_inputs, spec->n_leaves, leaf), unit);
    return total;
}

/* The largest group that fills up no more than one unit would: the same on every rank. */
static int choose_group(const struct linear *linear, const struct linear_spec *spec)
{
    int group = MAX_GROUP;
    while (group > INT8_UNIT && filled_inputs(linear, spec, group) > filled_inputs(linear, spec, INT8_UNIT))
        group /= 2;
    return group;
}

/* Inputs that are packed together. */
static int pack_unit(const struct linear *linear, const struct kernels *kernels)
{
    switch (linear->type) {
    case WEIGHT_F32:  return 1;
    case WEIGHT_BF16: return kernels != NULL && kernels->bf16_unit > 0 ? kernels->bf16_unit : 1;
    case WEIGHT_INT8:
    case WEIGHT_INT4: return INT8_UNIT;
    }
    return 1;
}

static void fill_leaves(struct linear *linear, int unit)
{
    int first = 0, end = 0;
    for (int leaf = 0; leaf < linear->part.end - linear->part.begin; leaf++) {
        int n = linear->leaf_inputs_end[leaf] - first;
        first = linear->leaf_inputs_end[leaf];
        end += round_up(n, unit);
        linear->leaf_end[leaf] = end;
    }
    linear->n_padded = end;
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

enum status linear_scratch_create(struct linear_scratch *scratch, int max_rows, int max_inputs,
                                  struct arena *arena, struct error *err)
{
    /* Each leaf may be filled up. */
    size_t bf16_row = ((size_t)max_inputs + REDUCE_MAX_LEAVES * TILE_INPUTS) * 2;
    size_t int8_row = (size_t)max_inputs + REDUCE_MAX_LEAVES * INT8_UNIT;
    size_t rows = ((size_t)max_rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    scratch->capacity = rows * (bf16_row > int8_row ? bf16_row : int8_row);
    scratch->n_groups = rows * (int8_row / INT8_UNIT);
    scratch->n_shares = rows * (int8_row / INT4_SHARE);
    TRY(ARENA_ARRAY(arena, scratch->n_groups, &scratch->scales, err));
    TRY(ARENA_ARRAY(arena, scratch->n_groups, &scratch->sums, err));
    TRY(ARENA_ARRAY(arena, scratch->n_shares, &scratch->share_sums, err));
    return ARENA_ARRAY(arena, scratch->capacity, &scratch->bytes, err);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Rows whose packed inputs the scratch holds at once. */
static int rows_at_once(const struct linear *linear, const struct linear_scratch *scratch, int row_unit)
{
    size_t rows = scratch->capacity / linear->packed_row_bytes;
    if (linear->type >= WEIGHT_INT8) {
        size_t by_groups = scratch->n_groups / (size_t)(linear->n_padded / linear->group);
        size_t by_shares = scratch->n_shares / (size_t)(linear->n_padded / INT4_SHARE);
        rows = rows < by_groups ? rows : by_groups;
        rows = rows < by_shares ? rows : by_shares;
    }
    return (int)(rows / (size_t)row_unit) * row_unit;
}

/* Do this type and these kernels want packed inputs, and where? */
static enum status choose_scratch(struct linear *linear, const struct linear_spec *spec, struct arena *arena,
                                  struct error *err)
{
    if (linear->type == WEIGHT_F32)
        return STATUS_OK;
    int row_unit = spec->kernels != NULL ? spec->kernels->row_unit : 1;
    if (linear->type == WEIGHT_BF16) {
        /* BitLinear's whole numbers up to 128 are exact in bf16 as well. */
        if (spec->kernels == NULL || spec->kernels->bf16_unit == 0)
            return STATUS_OK;
        linear->packed_row_bytes = ((size_t)linear->n_padded + 1) / 2 * 4;
    } else {
        linear->packed_row_bytes = (size_t)linear->n_padded;
    }
    linear->scratch = spec->scratch;
    if (linear->scratch != NULL && rows_at_once(linear, linear->scratch, row_unit) > 0)
        return STATUS_OK;
    TRY(ARENA_ARRAY(arena, 1, &linear->scratch, err));
    return linear_scratch_create(linear->scratch, OWN_SCRATCH_ROWS, linear->n_inputs, arena, err);
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
    if (spec->gated) {
        assert(spec->n_parts == 2 && spec->rows[0].n_rows == spec->rows[1].n_rows && spec->bias == NULL);
        linear->n_gated = (int)spec->rows[0].n_rows;
        linear->n_outputs = 2 * round_up(linear->n_gated, PANEL_WIDTH);
    }
    if (spec->ternary)
        linear->out_scale = (float)ternary_scale(spec->ternary_mean);
    set_leaves(linear, spec);
    /* -1, 0 and 1 are exact in bf16, and BitLinear has quantised its inputs. */
    if (spec->ternary && spec->type > WEIGHT_BF16)
        linear->type = WEIGHT_BF16;
    /* bf16 pairs may not straddle leaves; odd leaves occur in toy shapes only. */
    for (int i = 0; linear->type == WEIGHT_BF16 && i + 1 < linear->part.end - linear->part.begin; i++)
        if (linear->leaf_inputs_end[i] % 2 != 0)
            linear->type = WEIGHT_F32;
    if (linear->type >= WEIGHT_INT8)
        linear->group = choose_group(linear, spec);
    fill_leaves(linear, linear->group > 0 ? linear->group : pack_unit(linear, spec->kernels));
    if (linear->n_outputs == 0 || linear->n_inputs == 0)
        return STATUS_OK;
    TRY(linear_pack(linear, spec, arena, err));
    TRY(choose_scratch(linear, spec, arena, err));
    return pack_bias(linear, spec, arena, err);
}

/* Where the first of a row's pieces (units, groups) goes among those of all rows; the next
 * is row_unit further. */
static size_t first_piece(const struct linear *linear, const struct kernels *kernels, int inputs, int row)
{
    size_t together = (size_t)kernels->row_unit, n_pieces = (size_t)(linear->n_padded / inputs);
    return (size_t)row / together * n_pieces * together + (size_t)row % together;
}

static void pack_leaf_bf16(const struct linear *linear, const struct kernels *kernels, int row, int padded,
                           const float *x, int n)
{
    int unit = pack_unit(linear, kernels);
    size_t at = first_piece(linear, kernels, unit, row) + (size_t)(padded / unit) * (size_t)kernels->row_unit;
    kernels->pack_bf16((uint16_t *)(void *)linear->scratch->bytes + at * (size_t)unit, x, n);
}

static void pack_leaf_quantised(const struct linear *linear, const struct kernels *kernels, int row, int padded,
                                const float *x, int n)
{
    const struct linear_scratch *s = linear->scratch;
    int unit = pack_unit(linear, kernels), group = linear->group;
    size_t first_unit = first_piece(linear, kernels, unit, row), first_group = first_piece(linear, kernels, group, row);
    size_t first_share = first_piece(linear, kernels, INT4_SHARE, row);
    for (int i = 0; i < n; i += group) {
        size_t unit_at = first_unit + (size_t)((padded + i) / unit) * (size_t)kernels->row_unit;
        size_t group_at = first_group + (size_t)((padded + i) / group) * (size_t)kernels->row_unit;
        size_t share_at = first_share + (size_t)((padded + i) / INT4_SHARE) * (size_t)kernels->row_unit;
        kernels->pack_int8((int8_t *)s->bytes + unit_at * (size_t)unit, &s->scales[group_at], &s->sums[group_at],
                           linear->type == WEIGHT_INT4 ? &s->share_sums[share_at] : NULL, x + i, least(n - i, group),
                           group);
    }
}

/* Row `row` of inputs as the kernel wants it. */
static void pack_row(const struct linear *linear, const struct kernels *kernels, const float *x, int row)
{
    int first = 0, padded = 0;
    for (int leaf = 0; leaf < linear->part.end - linear->part.begin; leaf++) {
        int n = linear->leaf_inputs_end[leaf] - first;
        if (linear->type == WEIGHT_BF16)
            pack_leaf_bf16(linear, kernels, row, padded, x + first, n);
        else
            pack_leaf_quantised(linear, kernels, row, padded, x + first, n);
        first += n;
        padded = linear->leaf_end[leaf];
    }
}

static struct gemm gemm_of(const struct linear *linear)
{
    return (struct gemm){
        .panels = linear->panels, .panel_bytes = linear->panel_bytes, .n_outputs = linear->n_outputs,
        .group = linear->group, .leaf_end = linear->leaf_end, .part = &linear->part,
    };
}

/* The next n rows of x, as the kernel wants them. */
static void take_rows(const struct linear *linear, const struct kernels *kernels, const float *x, size_t x_stride,
                      int n, struct gemm *g)
{
    g->x = x;
    g->x_stride = x_stride;
    g->n_rows = n;
    if (linear->scratch == NULL)
        return;
    g->packed_x = linear->scratch->bytes;
    g->group_scales = linear->scratch->scales;
    g->group_sums = linear->scratch->sums;
    g->share_sums = linear->scratch->share_sums;
    for (int r = 0; r < n; r++)
        pack_row(linear, kernels, x + (size_t)r * x_stride, r);
}

static void multiply(const struct linear *linear, const struct kernels *kernels, const struct gemm *g)
{
    switch (linear->type) {
    case WEIGHT_F32:  kernels->gemm_f32(g); break;
    case WEIGHT_BF16: kernels->gemm_bf16(g); break;
    case WEIGHT_INT8: kernels->gemm_int8(g); break;
    case WEIGHT_INT4: kernels->gemm_int4(g); break;
    }
}

/* n_rows of x, as many at once as the scratch holds. */
static void multiply_rows(const struct linear *linear, const struct kernels *kernels, const float *x, size_t x_stride,
                          int n_rows, struct gemm *g)
{
    int at_once = linear->scratch != NULL ? rows_at_once(linear, linear->scratch, kernels->row_unit) : n_rows;
    for (int first = 0; first < n_rows; first += g->n_rows) {
        take_rows(linear, kernels, x + (size_t)first * x_stride, x_stride, least(n_rows - first, at_once), g);
        multiply(linear, kernels, g);
        g->y += (size_t)g->n_rows * g->y_stride;
    }
}

void linear_apply(const struct linear *linear, const struct kernels *kernels, const float *x,
                  size_t x_stride, int n_rows, float *y, size_t y_stride, size_t node_stride)
{
    if (linear->panels == NULL || n_rows == 0)
        return;
    struct gemm g = gemm_of(linear);
    g.y = y;
    g.y_stride = y_stride;
    g.node_stride = node_stride;
    multiply_rows(linear, kernels, x, x_stride, n_rows, &g);
    if (linear->bias != NULL)
        for (int r = 0; r < n_rows; r++)
            kernels->add(y + (size_t)r * y_stride, linear->bias, linear->n_outputs);
}

/* Rows of a part of linear_apply_gated. */
static int gated_rows(const struct linear *linear, const struct kernels *kernels)
{
    if (linear->scratch == NULL)
        return rows_in_cache((size_t)linear->n_inputs * sizeof(float));
    return least(rows_in_cache(linear->packed_row_bytes), rows_at_once(linear, linear->scratch, kernels->row_unit));
}

void linear_apply_gated(const struct linear *linear, const struct kernels *kernels, const float *x, size_t x_stride,
                        int n_rows, float *between, float *y, size_t y_stride)
{
    if (linear->panels == NULL)
        return;
    struct gemm g = gemm_of(linear);
    if (linear->type != WEIGHT_F32 && kernels->gates_above > 0 && n_rows > kernels->gates_above) {
        g.y = y;
        g.y_stride = y_stride;
        g.n_gated = linear->n_gated;
        multiply_rows(linear, kernels, x, x_stride, n_rows, &g);
        return;
    }
    g.y = between;
    int at_once = gated_rows(linear, kernels), n_outputs = linear->n_outputs;
    for (int first = 0; first < n_rows; first += g.n_rows) {
        take_rows(linear, kernels, x + (size_t)first * x_stride, x_stride, least(n_rows - first, at_once), &g);
        int together = GATED_FLOATS / g.n_rows / (2 * PANEL_WIDTH) * (2 * PANEL_WIDTH);
        for (int output = 0; output < n_outputs; output += g.n_outputs) {
            g.panels = (const char *)linear->panels + (size_t)(output / PANEL_WIDTH) * linear->panel_bytes;
            g.n_outputs = least(n_outputs - output, together);
            g.y_stride = (size_t)g.n_outputs;
            multiply(linear, kernels, &g);
            int n = least(linear->n_gated - output / 2, g.n_outputs / 2);
            for (int r = 0; r < g.n_rows; r++)
                kernels->silu_multiply(y + (size_t)(first + r) * y_stride + output / 2,
                                       between + (size_t)r * g.y_stride, n);
        }
    }
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
