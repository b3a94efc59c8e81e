/* convert.h - a Llama checkpoint as a latent-attention model that computes the same.
 *
 * Keys and values of n KV heads of width d are linear in the layer's input x.  Let the
 * latent be all of them, c = [W_K; W_V] x, of width 2 n d; then "decompressing" is
 * picking rows, and RoPE on the decompressed keys is Llama's RoPE:
 *
 *   GQA        k_j = rope(W_K,j x)         v_j = W_V,j x             cached: k, v
 *   MLA_ROPE   k_j = rope(U_K,j c)         v_j = U_V,j c             cached: c
 *              U_K = [ I 0 ], U_V = [ 0 I ]
 *   MLRA       latent j is [W_K,j; W_V,j] x, of width 2 d: one per KV head, so the
 *              up-projections are block-diagonal   U_K,j = [ I 0 ]   U_V,j = [ 0 I ]
 *
 * No number is approximated.  All three forms cache as many elements of a token; what
 * differs is where they lie on several devices: MLA_ROPE replicates its one latent,
 * MLRA and GQA give each device its own heads.
 *
 * Written are config.json (last), model.safetensors and, copied, tokenizer.json,
 * tokenizer_config.json, generation_config.json and chat_template.jinja.  Weights are
 * BF16 if all of the source are, else F32, which holds F16 and BF16 exactly.
 *
 * Memory: the source is mapped; one row of weights.  Threads: any.
 */
#ifndef MODEL_CONVERT_H
#define MODEL_CONVERT_H

#include "base/status.h"

#include <stddef.h>

enum convert_form { CONVERT_MLA_ROPE, CONVERT_MLRA, CONVERT_GQA };

struct convert_job {
    enum convert_form form;
    const char *from;           /* directory of the Llama checkpoint */
    const char *to;             /* directory to write; made if need be */
    void (*progress)(void *context, size_t done, size_t total);     /* bytes; NULL allowed */
    void *context;
};

/* The failures of llama_open; BAD_MODEL: the form has a limit that the source
 * passes (64 latents); BAD_OPTION: `to` holds a model already.  IO, NO_MEMORY. */
MUST_CHECK enum status convert_model(const struct convert_job *job, struct error *err);

#endif
