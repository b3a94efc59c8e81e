/* synth_private.h - the parts of synth.h among themselves. */
#ifndef MODEL_SYNTH_PRIVATE_H
#define MODEL_SYNTH_PRIVATE_H

#include "model/model_config.h"
#include "model/synth.h"
#include "model/tensor_plan.h"

#include <jansson.h>

/* How a tensor is filled: mean + deviation * (nearly normal number). */
struct synth_fill {
    double mean, deviation;
};

struct synth_plan {
    struct tensor_plan tensors;
    struct synth_fill *fills;       /* [tensors.max], beside tensors.tensors */
    enum dtype dtype;
};

/* config.json; NULL if there is no memory.  The spec is complete. */
json_t *synth_config_json(const struct synth_spec *spec);

/* The attention part as model_config.c reads it.  BAD_MODEL. */
MUST_CHECK enum status synth_attention(const json_t *config, const struct synth_spec *spec,
                                       struct attention_config *out, struct error *err);

/* All tensors, under the names of model_config.c and attention_bind.c.  The
 * caller gives plan->tensors to tensor_plan_clear, also after a failure. */
MUST_CHECK enum status synth_plan_tensors(struct synth_plan *plan, const struct synth_spec *spec,
                                          const struct attention_config *attention, struct error *err);

#endif
