/* conv.h - CCA's causal convolutions over one rank's packed query and key
 * channels, with the state that carries them from step to step.
 *
 *   z  --(depthwise, kernel_seq taps)-->  u  --(per head, kernel_ch taps)-->  y
 *
 * Figliola et al., arXiv 2510.04476, section 3; PyTorch's Conv1d is a
 * cross-correlation: the last tap multiplies the newest token.  Before the
 * first token z is zero, and there is no bias, so u is zero there too and the
 * last (kernel_seq - 1) + (kernel_ch - 1) rows of z are all the state there is.
 *
 * Channels: [own query heads * width, own KV heads * width].
 * Owner: the rank.  Memory: arenas at create.
 */
#ifndef ATTENTION_CONV_H
#define ATTENTION_CONV_H

#include "attention/linear.h"

struct conv {
    int n_layers;               /* 0, 1, 2 */
    int kernel_seq, kernel_ch;
    int n_heads, width;         /* channels = n_heads * width */
    int history;                /* rows of z that are state */
    const float *seq_taps;      /* [kernel_seq][channels] */
    struct linear *channel;     /* [n_heads], each [width][kernel_ch * width] */

    float *inputs;              /* scratch [history + max_rows][channels]: z */
    float *mixed;               /* scratch [history + max_rows][channels]: u */
    float *window;              /* scratch [max_rows][kernel_ch * width] */
};

struct conv_spec {
    int n_layers, kernel_seq, kernel_ch;
    int n_heads, width;
    const int *head_rows;               /* [n_heads] first channel of head h in the whole layer */
    const struct matrix *seq;           /* [all channels][kernel_seq] */
    const struct matrix *channel;       /* [all channels][width * kernel_ch]: tap is the fast index */
    enum weight_type weight_type;
    const struct kernels *kernels;
    struct linear_scratch *scratch;
    int max_rows;
};

MUST_CHECK enum status conv_create(struct conv *conv, const struct conv_spec *spec, struct arena *weights,
                                   struct arena *scratch, struct error *err);

/* y[n_rows][channels] of z[n_rows][z_stride]; state[history][channels] holds the
 * rows before z, oldest first.  Afterwards conv_state_after gives the state. */
void conv_run(struct conv *conv, const struct kernels *kernels, const float *state, const float *z,
              size_t z_stride, int n_rows, float *y);

/* The state after the first n rows of the last conv_run: [history][channels]. */
const float *conv_state_after(const struct conv *conv, int n);

size_t conv_bytes(const struct conv *conv);

#endif
