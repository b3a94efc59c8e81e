#include "attention/conv.h"

#include <string.h>

/* Transpose the taps so that the channels are the fast index. */
static enum status create_seq(struct conv *conv, const struct conv_spec *spec, struct arena *weights,
                              struct error *err)
{
    size_t channels = (size_t)conv->n_heads * (size_t)conv->width;
    float *taps;
    TRY(ARENA_ARRAY(weights, channels * (size_t)conv->kernel_seq, &taps, err));
    for (int h = 0; h < conv->n_heads; h++)
        for (int i = 0; i < conv->width; i++) {
            float row[64];
            matrix_read_row(spec->seq, spec->head_rows[h] + i, row);
            for (int k = 0; k < conv->kernel_seq; k++)
                taps[(size_t)k * channels + (size_t)(h * conv->width + i)] = row[k];
        }
    conv->seq_taps = taps;
    return STATUS_OK;
}

/* One head's taps as a projection of [tap 0: width inputs, tap 1: ..]. */
static enum status create_head(struct conv *conv, const struct conv_spec *spec, int head,
                               struct arena *weights, struct error *err)
{
    int width = conv->width, taps = conv->kernel_ch;
    struct arena scratch;
    arena_init(&scratch);
    float *row, *dense;
    TRY(ARENA_ARRAY(&scratch, (size_t)(width * taps), &row, err));
    TRY(ARENA_ARRAY(&scratch, (size_t)(width * width * taps), &dense, err));
    for (int o = 0; o < width; o++) {
        matrix_read_row(spec->channel, spec->head_rows[head] + o, row);
        for (int i = 0; i < width; i++)
            for (int k = 0; k < taps; k++)
                dense[o * width * taps + k * width + i] = row[i * taps + k];
    }
    struct matrix m = { dense, ELEMENT_F32, width, width * taps, width * taps, 1 };
    struct linear_spec linear = {
        .type = weight_type_of_small(spec->weight_type), .rows = &m, .n_parts = 1,
        .kernels = spec->kernels, .scratch = spec->scratch,
    };
    enum status s = linear_create(&conv->channel[head], &linear, weights, err);
    arena_clear(&scratch);
    return s;
}

enum status conv_create(struct conv *conv, const struct conv_spec *spec, struct arena *weights,
                        struct arena *scratch, struct error *err)
{
    *conv = (struct conv){
        .n_layers = spec->n_layers, .kernel_seq = spec->kernel_seq, .kernel_ch = spec->kernel_ch,
        .n_heads = spec->n_heads, .width = spec->width,
    };
    if (conv->n_layers >= 1) {
        conv->history = conv->kernel_seq - 1;
        TRY(create_seq(conv, spec, weights, err));
    }
    if (conv->n_layers >= 2) {
        conv->history += conv->kernel_ch - 1;
        TRY(ARENA_ARRAY(weights, (size_t)conv->n_heads, &conv->channel, err));
        for (int h = 0; h < conv->n_heads; h++)
            TRY(create_head(conv, spec, h, weights, err));
    }
    size_t channels = (size_t)conv->n_heads * (size_t)conv->width;
    size_t rows = (size_t)(conv->history + spec->max_rows);
    TRY(ARENA_ARRAY(scratch, rows * channels, &conv->inputs, err));
    TRY(ARENA_ARRAY(scratch, rows * channels, &conv->mixed, err));
    return ARENA_ARRAY(scratch, (size_t)spec->max_rows * (size_t)(conv->kernel_ch * conv->width),
                       &conv->window, err);
}

/* mixed row r (of the rows from `first` on) = taps over inputs r - kernel + 1 .. r */
static void mix_sequence(struct conv *conv, int first, int end)
{
    size_t channels = (size_t)conv->n_heads * (size_t)conv->width;
    for (int r = first; r < end; r++) {
        float *out = conv->mixed + (size_t)r * channels;
        memset(out, 0, channels * sizeof *out);
        for (int k = 0; k < conv->kernel_seq; k++) {
            const float *in = conv->inputs + (size_t)(r - conv->kernel_seq + 1 + k) * channels;
            const float *tap = conv->seq_taps + (size_t)k * channels;
            for (size_t c = 0; c < channels; c++)
                out[c] += tap[c] * in[c];
        }
    }
}

static void mix_channels(struct conv *conv, const struct kernels *kernels, int n_rows, float *y)
{
    size_t channels = (size_t)conv->n_heads * (size_t)conv->width;
    size_t width = (size_t)conv->width, taps = (size_t)conv->kernel_ch;
    for (int h = 0; h < conv->n_heads; h++) {
        for (int r = 0; r < n_rows; r++)
            for (size_t k = 0; k < taps; k++)
                memcpy(conv->window + (size_t)r * taps * width + k * width,
                       conv->mixed + ((size_t)(conv->history + r + 1) - taps + k) * channels
                           + (size_t)h * width,
                       width * sizeof *y);
        linear_apply(&conv->channel[h], kernels, conv->window, taps * width, n_rows,
                     y + (size_t)h * width, channels, 0);
    }
}

void conv_run(struct conv *conv, const struct kernels *kernels, const float *state, const float *z,
              size_t z_stride, int n_rows, float *y)
{
    size_t channels = (size_t)conv->n_heads * (size_t)conv->width;
    size_t row_bytes = channels * sizeof *y;
    memcpy(conv->inputs, state, (size_t)conv->history * row_bytes);
    for (int r = 0; r < n_rows; r++)
        memcpy(conv->inputs + (size_t)(conv->history + r) * channels, z + (size_t)r * z_stride, row_bytes);
    if (conv->n_layers == 0) {
        memcpy(y, conv->inputs, (size_t)n_rows * row_bytes);
        return;
    }
    int first_mixed = conv->n_layers == 2 ? conv->history - (conv->kernel_ch - 1) : conv->history;
    mix_sequence(conv, first_mixed, conv->history + n_rows);
    if (conv->n_layers == 2)
        mix_channels(conv, kernels, n_rows, y);
    else
        memcpy(y, conv->mixed + (size_t)conv->history * channels, (size_t)n_rows * row_bytes);
}

const float *conv_state_after(const struct conv *conv, int n)
{
    return conv->inputs + (size_t)n * (size_t)conv->n_heads * (size_t)conv->width;
}

size_t conv_bytes(const struct conv *conv)
{
    size_t bytes = 0;
    for (int h = 0; conv->n_layers == 2 && h < conv->n_heads; h++)
        bytes += linear_bytes(&conv->channel[h]);
    if (conv->n_layers >= 1)
        bytes += (size_t)conv->kernel_seq * (size_t)conv->n_heads * (size_t)conv->width * sizeof(float);
    return bytes;
}
