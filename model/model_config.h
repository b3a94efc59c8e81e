/* model_config.h - config.json of a model directory, resolved and checked.
 *
 * Families read here:
 *   "latentd"  the project's own (design: model directories)
 *   "gpt2"     what the MLRA repository's checkpoints are labelled; the variant
 *              is inferred from the shapes of layer 0's tensors
 *
 * Every other model_type is refused by name.  Fields that contradict each other
 * or the tensors are BAD_MODEL with the numbers.
 *
 * Threads: any; memory: none.
 */
#ifndef MODEL_MODEL_CONFIG_H
#define MODEL_MODEL_CONFIG_H

#include "attention/attention_config.h"
#include "model/layer.h"
#include "model/safetensors.h"

enum { MODEL_MAX_EOS = 8, MODEL_MAX_LAYERS = 512 };

enum model_family { FAMILY_LATENTD, FAMILY_MLRA };

struct model_config {
    enum model_family family;
    struct attention_config attention;
    int n_layers;
    int hidden;
    int intermediate;           /* width of the MLP */
    int vocab;                  /* rows of the embedding */
    int n_usable_tokens;        /* ids below this may be sampled; the rest is padding */
    int max_positions;          /* context length the model was made for */
    float norm_eps;
    double embedding_multiplier;
    int tied;                   /* the head is the embedding */
    int bos_token;              /* -1: none */
    int eos_tokens[MODEL_MAX_EOS];
    int n_eos_tokens;
};

/* dir: the directory; set: its weights.  IO, BAD_MODEL. */
MUST_CHECK enum status model_config_load(const char *dir, const struct safetensors *set,
                                         struct model_config *out, struct error *err);

/* Views of everything outside the layers. */
struct model_weights {
    struct matrix embedding;    /* [vocab][H] */
    struct matrix final_norm;   /* [H] */
    struct matrix head;         /* [vocab][H] */
};
MUST_CHECK enum status model_bind(const struct safetensors *set, const struct model_config *config,
                                  struct model_weights *out, struct error *err);
MUST_CHECK enum status model_bind_layer(const struct safetensors *set, const struct model_config *config,
                                        int layer, struct layer_weights *out, struct error *err);

/* May the whole model lie on n_ranks ranks?  BAD_OPTION with the valid degrees. */
MUST_CHECK enum status model_check_ranks(const struct model_config *config, int n_ranks, struct error *err);

int64_t model_parameter_count(const struct safetensors *set);

#endif
