/* attention_json.h - "attention": {...} of a configuration -> attention_config.
 *
 * The parameter names are those of the formulation's authors (the seeds' and
 * the MLRA repository's); every error their constructors raise becomes a
 * sentence that names the fields and the numbers.
 *
 * Threads: any; memory: none.
 */
#ifndef MODEL_ATTENTION_JSON_H
#define MODEL_ATTENTION_JSON_H

#include "attention/attention_config.h"
#include "base/json_read.h"

/* What the rest of the model's configuration says; used where the attention
 * object does not. */
struct attention_defaults {
    int hidden, n_heads;        /* 0: not given */
    int causal;
};

/* kind: mla mla_rope mlra cca ccgqa, or mlra_2 mlra_4 gla_2 gla_4 mla_paper gqa mha.
 * BAD_MODEL: an unknown kind, a field of the wrong type, or one that
 * contradicts another. */
MUST_CHECK enum status attention_from_json(const char *kind, const struct json_reader *r,
                                           const struct attention_defaults *defaults,
                                           struct attention_config *out, struct error *err);

#endif
