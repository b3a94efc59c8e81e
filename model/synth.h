/* synth.h - a model directory with random weights of a given shape.
 *
 *   synth_spec --> config.json --> attention_config --> names and shapes
 *                                                       --> model.safetensors
 *   vocabulary --> tokenizer.json, tokenizer_config.json, chat_template.jinja
 *
 * What is written is read back by model_load like any checkpoint: the configuration
 * goes through the same reader that a user's file goes through, so a shape that
 * contradicts itself is refused with that reader's sentence before any file exists.
 *
 * Weights.  Every matrix has independent, nearly normal entries whose deviation is
 * 1 / sqrt(width of its input), so that activations keep the size 1 through any number
 * of layers; W_O and W_down are smaller by sqrt(2 layers), since that many of their
 * results are added up.  Norms are 1.  Logits then have a deviation of about 2 (of 1
 * if the head is tied): the next token is neither certain nor uniform.  The same spec
 * and seed give the same bytes on every machine.
 *
 * Memory: the list of tensors and one buffer of 64 KiB; the size of the model does
 * not matter.  Threads: any.
 */
#ifndef MODEL_SYNTH_H
#define MODEL_SYNTH_H

#include "base/status.h"
#include "model/tensor.h"

enum { SYNTH_UNSET = -1 };

/* The numbers that only some kinds have; SYNTH_UNSET is "not said".
 *    field            option             from  to       what it is */
#define SYNTH_NUMBER_MAP(X)                                                                         \
    X(head_dim,        "head-dim",        1,    1 << 16, "width of a head")                         \
    X(kv_heads,        "kv-heads",        1,    256,     "KV heads that the query heads share")     \
    X(latents,         "latents",         1,    64,      "latents of mlra")                         \
    X(latent,          "latent",          1,    1 << 20, "width of all KV latents together")        \
    X(query_latent,    "query-latent",    1,    1 << 20, "width of the query latent")               \
    X(nope_dim,        "nope-dim",        1,    1 << 16, "columns of a head without position")      \
    X(rope_dim,        "rope-dim",        0,    1 << 16, "rotated columns of a head")               \
    X(conv_layers,     "conv-layers",     0,    2,       "convolutions of cca, ccgqa")              \
    X(conv_kernel_seq, "conv-kernel-seq", 1,    16,      "tokens of the first convolution")         \
    X(conv_kernel_ch,  "conv-kernel-ch",  1,    16,      "tokens of the second convolution")

/*    field            option             what it is */
#define SYNTH_FLAG_MAP(X)                                                                           \
    X(qk_mean,         "qk-mean",         "cca, ccgqa: add the mean of q and k to both")            \
    X(value_shift,     "value-shift",     "cca, ccgqa: half of the value from the token before")    \
    X(decompressed,    "rope-on-keys",    "mlra: rotate the decompressed keys")                     \
    X(gated,           "gated",           "a gate on the heads before W_O")                         \
    X(bitnet,          "bitnet",          "BitLinear projections")

struct synth_parameters {
#define X(field, option, from, to, text) int field;
    SYNTH_NUMBER_MAP(X)
#undef X
#define X(field, option, text) int field;
    SYNTH_FLAG_MAP(X)
#undef X
    double rope_base;           /* SYNTH_UNSET: 10000 */
};

struct synth_spec {
    const char *kind;           /* of attention_json.h; NULL: not said */
    struct synth_parameters attention;
    int layers, hidden, heads, intermediate, vocab, max_positions;
    int tied;                   /* the head is the embedding */
    enum dtype dtype;           /* DTYPE_F32 or DTYPE_BF16 */
    int64_t seed;
};

/* Everything unset. */
void synth_spec_init(struct synth_spec *spec);

/* What `name` says goes where *spec says nothing.
 * BAD_OPTION: there is no such preset (the sentence lists them), or it is of
 * another kind than *spec. */
MUST_CHECK enum status synth_preset(const char *name, struct synth_spec *spec, struct error *err);
const char *synth_preset_name(int i);       /* NULL past the last */

/* What is still unset gets its default: as many MLP columns as a Llama of that
 * width, byte vocabulary with 32000 tokens, 2048 positions.
 * BAD_OPTION: kind, layers, hidden, heads or a number that the kind cannot do
 * without is missing; or one is given that the kind does not have. */
MUST_CHECK enum status synth_complete(struct synth_spec *spec, struct error *err);

/* Write the directory, which is made if need be.  config.json comes last.
 * BAD_OPTION: dir holds a model already, or the vocabulary is smaller than the
 * smallest tokenizer.  BAD_MODEL: the shape contradicts itself.  IO, NO_MEMORY.
 * progress (NULL allowed) is told bytes done of total. */
struct synth_output {
    const char *dir;
    void (*progress)(void *context, size_t done, size_t total);
    void *context;
};
MUST_CHECK enum status synth_write(const struct synth_spec *spec, const struct synth_output *output,
                                   struct error *err);

#endif
