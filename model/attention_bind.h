/* attention_bind.h - one layer's attention tensors, bound to
 * attention_weights under the authors' names (see bind.h).
 * Threads: any; memory: none. */
#ifndef MODEL_ATTENTION_BIND_H
#define MODEL_ATTENTION_BIND_H

#include "attention/attention.h"
#include "model/bind.h"

/* The binder's prefix is the layer's: "model.layers.0.attn." or "". */
MUST_CHECK enum status attention_bind(const struct binder *b, const struct attention_config *c,
                                      struct attention_weights *out, struct error *err);

#endif
