/* linear_pack.c - a weight matrix into panels, in each of the weight types. */
#include "attention/linear.h"

#include <math.h>
#include <string.h>

/* A panel's outputs as floats, and where it goes. */
struct panel {
    const struct linear *linear;
    const float *rows;              /* [PANEL_WIDTH][n_inputs] */
    int int8_offset;                /* of the kernels */
    char *out;
};

/* Of an output, from `input` on. */
static const float *weights_at(const struct panel *p, int output, int input)
{
    return p->rows + (size_t)output * (size_t)p->linear->n_inputs + input;
}

static float weight(const struct panel *p, int output, int input)
{
    return *weights_at(p, output, input);
}

static void pack_f32(const struct panel *p)
{
    float *out = (float *)(void *)p->out;
    for (int k = 0; k < p->linear->n_inputs; k++)
        for (int o = 0; o < PANEL_WIDTH; o++)
            *out++ = weight(p, o, k);
}

static void pack_bf16(const struct panel *p)
{
    const struct linear *l = p->linear;
    uint16_t *out = (uint16_t *)(void *)p->out;
    int first = 0, padded = 0;
    for (int leaf = 0; leaf < l->part.end - l->part.begin; leaf++) {
        int n = l->leaf_inputs_end[leaf] - first, n_padded = l->leaf_end[leaf] - padded;
        for (int k = 0; k < n_padded; k += 2)
            for (int o = 0; o < PANEL_WIDTH; o++)
                for (int i = k; i < k + 2; i++)
                    *out++ = i < n ? f32_to_bf16(weight(p, o, first + i)) : 0;
        first += n;
        padded += n_padded;
    }
}

/* fmaxf, but not a call. */
static float larger(float a, float b)
{
    return b > a ? b : a;
}

static float largest_magnitude(const float *weights, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++)
        largest = larger(largest, fabsf(weights[i]));
    return largest;
}

/* 1.5 * 2^23: a small number plus this is rounded to a whole one. */
static const float ROUND = 12582912.0f;

/* A weight in steps, rounded to what a type holds. */
static int quantise(float w, float inverse, int low, int high)
{
    float q = w * inverse + ROUND;
    int32_t bits;
    memcpy(&bits, &q, sizeof bits);
    int whole = fabsf(w * inverse) < 1000 ? bits - 0x4b400000 : w > 0 ? high : low;
    return whole < low ? low : whole > high ? high : whole;
}

static float inverse_of(float step)
{
    return step > 0 ? 1 / step : 0;
}

/* Stores the scale of an output; returns it as it is stored. */
static float put_scale(char *scales, int output, float scale)
{
    uint16_t half = f32_to_bf16(scale);
    memcpy(scales + (size_t)output * 2, &half, sizeof half);
    return bf16_to_f32(half);
}

/* Inputs [first, first + n) of all outputs into one group. */
static void pack_int8_group(const struct panel *p, int first, int n, char *out)
{
    int group = p->linear->group;
    uint8_t *bytes = (uint8_t *)out;
    for (int o = 0; o < PANEL_WIDTH; o++) {
        const float *weights = weights_at(p, o, first);
        float most = largest_magnitude(weights, n);
        float inverse = inverse_of(put_scale(out + group_scales_at(group, 8), o, most / 127));
        for (int i = 0; i < group; i++) {
            int q = i < n ? quantise(weights[i], inverse, -127, 127) : 0;
            bytes[i / 4 * 64 + o * 4 + i % 4] = (uint8_t)(q + p->int8_offset);
        }
    }
}

/* ---- int4 ---- */

enum { INT4_LOW = -8, INT4_HIGH = 7 };

/* The sum of squares of what the weights of a share lose when they are rounded to multiples of `step`.  In partial
 * sums, which the compiler adds up side by side. */
static float int4_loss(const float weights[INT4_SHARE], float step)
{
    enum { SUMS = 8 };
    float inverse = inverse_of(step), loss[SUMS] = { 0 }, sum = 0;
    for (int i = 0; i < INT4_SHARE; i += SUMS)
        for (int k = 0; k < SUMS; k++) {
            float q = weights[i + k] * inverse;
            q = q < INT4_LOW ? INT4_LOW : q > INT4_HIGH ? INT4_HIGH : q;
            float error = weights[i + k] - (q + ROUND - ROUND) * step;
            loss[k] += error * error;
        }
    for (int k = 0; k < SUMS; k++)
        sum += loss[k];
    return sum;
}

/* The factor of the scale that loses least; first guess: the step that the largest weight asks for. */
static int choose_factor(const float weights[INT4_SHARE], float scale)
{
    float guess = largest_magnitude(weights, INT4_SHARE) / -INT4_LOW * inverse_of(scale), least = INFINITY;
    int middle = (int)fminf(guess, INT4_MAX_FACTOR), best = 1;
    for (int factor = middle - 1; factor <= middle + 2; factor++) {
        if (factor < 1 || factor > INT4_MAX_FACTOR)
            continue;
        float loss = int4_loss(weights, scale * (float)factor);
        if (loss < least) {
            least = loss;
            best = factor;
        }
    }
    return best;
}

/* Inputs [first, first + n) of an output, the rest of a share zero: the low or the high halves of a unit's bytes, and
 * of its factors. */
static void pack_int4_share(const struct panel *p, int output, int first, int n, float scale, int is_high,
                            uint8_t *unit, uint8_t *factors)
{
    float weights[INT4_SHARE] = { 0 };
    for (int i = 0; i < n; i++)
        weights[i] = weight(p, output, first + i);
    int factor = choose_factor(weights, scale), shift = is_high ? 4 : 0;
    float inverse = inverse_of(scale * (float)factor);
    factors[output] |= (uint8_t)((factor - 1) << shift);
    for (int i = 0; i < INT4_SHARE; i++) {
        int q = quantise(weights[i], inverse, INT4_LOW, INT4_HIGH);
        unit[i / 4 * 64 + output * 4 + i % 4] |= (uint8_t)((q - INT4_LOW) << shift);
    }
}

static void pack_int4_group(const struct panel *p, int first, int n, char *out)
{
    int group = p->linear->group;
    uint8_t *units = (uint8_t *)out, *factors = units + (size_t)(group / INT8_UNIT) * unit_bytes(4);
    for (int o = 0; o < PANEL_WIDTH; o++) {
        float most = largest_magnitude(weights_at(p, o, first), n);
        float scale = put_scale(out + group_scales_at(group, 4), o, most / (-INT4_LOW * INT4_MAX_FACTOR));
        for (int begin = 0; begin < group; begin += INT4_SHARE) {
            int left = n - begin, exist = left < 0 ? 0 : left < INT4_SHARE ? left : INT4_SHARE;
            int unit = begin / INT8_UNIT;
            pack_int4_share(p, o, first + begin, exist, scale, begin % INT8_UNIT != 0,
                            units + (size_t)unit * unit_bytes(4), factors + unit * PANEL_WIDTH);
        }
    }
}

static void pack_groups(const struct panel *p, int bits)
{
    const struct linear *l = p->linear;
    int first = 0, padded = 0;
    char *out = p->out;
    for (int leaf = 0; leaf < l->part.end - l->part.begin; leaf++) {
        for (; padded < l->leaf_end[leaf]; padded += l->group, out += group_bytes(l->group, bits)) {
            int left = l->leaf_inputs_end[leaf] - first, n = left < l->group ? left : l->group;
            if (bits == 8)
                pack_int8_group(p, first, n, out);
            else
                pack_int4_group(p, first, n, out);
            first += n;
        }
    }
}

static size_t panel_bytes(const struct linear *l)
{
    size_t n = (size_t)l->n_padded;
    switch (l->type) {
    case WEIGHT_F32:  return n * PANEL_WIDTH * 4;
    case WEIGHT_BF16: return (n + 1) / 2 * PANEL_WIDTH * 4;
    case WEIGHT_INT8: return n / (size_t)l->group * group_bytes(l->group, 8);
    case WEIGHT_INT4: return n / (size_t)l->group * group_bytes(l->group, 4);
    }
    return 0;
}

static void pack_panel(const struct panel *p)
{
    switch (p->linear->type) {
    case WEIGHT_F32:  pack_f32(p); break;
    case WEIGHT_BF16: pack_bf16(p); break;
    case WEIGHT_INT8: pack_groups(p, 8); break;
    case WEIGHT_INT4: pack_groups(p, 4); break;
    }
}

/* Lane `lane` of a panel, as floats: a row of the stacked parts, or of the one whose turn it is;
 * zero past the last. */
static void read_row(const struct linear_spec *spec, int panel, int lane, int n_inputs, float *row)
{
    int64_t at = (int64_t)(spec->gated ? panel / 2 : panel) * PANEL_WIDTH + lane;
    int part = spec->gated ? panel % 2 : 0;
    while (!spec->gated && part < spec->n_parts && at >= spec->rows[part].n_rows)
        at -= spec->rows[part++].n_rows;
    if (part == spec->n_parts || at >= spec->rows[part].n_rows) {
        memset(row, 0, (size_t)n_inputs * sizeof *row);
        return;
    }
    matrix_read_row(&spec->rows[part], at, row);
    if (spec->ternary)
        linear_make_ternary(row, n_inputs, spec->ternary_mean);
}

enum status linear_pack(struct linear *l, const struct linear_spec *spec, struct arena *arena, struct error *err)
{
    int n_panels = (l->n_outputs + PANEL_WIDTH - 1) / PANEL_WIDTH;
    l->panel_bytes = panel_bytes(l);
    TRY(arena_take(arena, (size_t)n_panels, l->panel_bytes, &l->panels, err));
    int offset = spec->kernels != NULL ? spec->kernels->int8_offset : 0;
    struct arena scratch;
    arena_init(&scratch);
    float *rows;
    enum status s = ARENA_ARRAY(&scratch, (size_t)l->n_inputs * PANEL_WIDTH, &rows, err);
    for (int i = 0; s == STATUS_OK && i < n_panels; i++) {
        for (int o = 0; o < PANEL_WIDTH; o++)
            read_row(spec, i, o, l->n_inputs, rows + (size_t)o * (size_t)l->n_inputs);
        struct panel panel = { l, rows, offset, (char *)l->panels + (size_t)i * l->panel_bytes };
        pack_panel(&panel);
    }
    arena_clear(&scratch);
    return s;
}
