/* linear_pack.c - a weight matrix into panels, in each of the weight types. */
#include "attention/linear.h"

#include <math.h>

/* A panel's outputs as floats, and where it goes. */
struct panel {
    const struct linear *linear;
    const float *rows;              /* [PANEL_WIDTH][n_inputs] */
    int int8_offset;                /* of the kernels */
    char *out;
};

static float weight(const struct panel *p, int output, int input)
{
    return p->rows[(size_t)output * (size_t)p->linear->n_inputs + (size_t)input];
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

/* The scale of n weights of an output: the value of one step.  int4 spends its
 * extra negative step on the side where the largest weight is. */
static uint16_t choose_scale(const struct panel *p, int output, int first, int n, int bits)
{
    float largest = 0;
    for (int i = first; i < first + n; i++)
        if (fabsf(weight(p, output, i)) > fabsf(largest))
            largest = weight(p, output, i);
    return f32_to_bf16(bits == 8 ? fabsf(largest) / 127 : largest / -8);
}

/* A step as stored, for the kernel that reads it. */
static uint8_t quantise(float w, float scale, int bits, int offset)
{
    int low = bits == 8 ? -127 : -8, high = bits == 8 ? 127 : 7;
    long q = scale != 0 ? lrintf(w / scale) : 0;
    q = q < low ? low : q > high ? high : q;
    return (uint8_t)(q + offset);
}

/* Inputs [first, first + n) of all outputs into one group. */
static void pack_group(const struct panel *p, int first, int n, int bits, char *out)
{
    enum { HALF = INT4_UNIT / 8 };
    uint8_t *bytes = (uint8_t *)out;
    char *scales = out + (size_t)p->linear->group * (size_t)bits * PANEL_WIDTH / 8;
    int offset = bits == 8 ? p->int8_offset : 8;
    for (int o = 0; o < PANEL_WIDTH; o++) {
        uint16_t stored = choose_scale(p, o, first, n, bits);
        float scale = bf16_to_f32(stored);
        memcpy(scales + (size_t)o * 2, &stored, sizeof stored);
        for (int i = 0; i < p->linear->group; i++) {
            uint8_t q = quantise(i < n ? weight(p, o, first + i) : 0, scale, bits, offset);
            int quad = i / 4, byte = o * 4 + i % 4;
            if (bits == 8)
                bytes[quad * 64 + byte] = q;
            else if (quad < HALF)
                bytes[quad * 64 + byte] |= q;
            else
                bytes[(quad - HALF) * 64 + byte] |= (uint8_t)(q << 4);
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
            pack_group(p, first, n, bits, out);
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
