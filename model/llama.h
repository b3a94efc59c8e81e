/* llama.h - a checkpoint in the form of Llama, checked to be nothing more than that.
 *
 * What convert.h rewrites must mean exactly what it seems to mean.  So every feature
 * that a Llama-like checkpoint may have and a plain grouped-query transformer does
 * not have is refused by name: biases, scaled RoPE, sliding windows, norms on query
 * and key, quantised weights, and any tensor that nothing here uses.
 *
 *   x += W_o attention(rope(W_q n), rope(W_k n), W_v n),   n = norm(x)
 *   x += W_down (silu(W_gate n) * W_up n),                 n = norm(x)
 *
 * RoPE rotates the first half of a head's columns with the second half.
 *
 * Threads: read-only after open.  Memory: the mapped weights and config.json, until
 * llama_close.
 */
#ifndef MODEL_LLAMA_H
#define MODEL_LLAMA_H

#include "model/safetensors.h"

#include <jansson.h>

struct llama {
    struct safetensors *set;
    json_t *config;             /* config.json as it is */
    int n_layers, hidden, intermediate, vocab;
    int n_heads, n_kv_heads, head_dim;
    int max_positions;
    int tied;
    double norm_eps, rope_base;
    int all_bf16;               /* every tensor in use is BF16 */
};

/* Open the directory.  NOT_FOUND, IO; BAD_MODEL: a field or tensor is missing or
 * contradicts another; UNSUPPORTED: a feature of the list above, named.
 * On success the caller gives *out to llama_close; after a failure there is nothing
 * to close. */
MUST_CHECK enum status llama_open(struct llama *out, const char *dir, struct error *err);
void llama_close(struct llama *llama);

/* The tensors of a layer, in this order. */
enum llama_tensor {
    LLAMA_INPUT_NORM, LLAMA_POST_NORM, LLAMA_Q, LLAMA_K, LLAMA_V, LLAMA_O, LLAMA_GATE, LLAMA_UP, LLAMA_DOWN,
    N_LLAMA_TENSORS
};
const struct tensor *llama_layer_tensor(const struct llama *llama, int layer, enum llama_tensor which);
const struct tensor *llama_embedding(const struct llama *llama);
const struct tensor *llama_final_norm(const struct llama *llama);
const struct tensor *llama_head(const struct llama *llama);     /* NULL if tied */

#endif
