/* timeline.h - one choice of a request while it is being generated: logits in,
 * events out.  The one path from a token to visible text:
 *
 *   logits -> sampler -> token -> detokenizer -> stop matcher -> ENGINE_TOKEN
 *
 * Owner: the engine thread.  Memory: all at create; push allocates nothing.
 */
#ifndef SERVER_TIMELINE_H
#define SERVER_TIMELINE_H

#include "model/detokenizer.h"
#include "server/engine.h"

struct timeline;            /* opaque */

struct timeline_options {
    struct request *request;
    int32_t choice;
    const struct tokenizer *tokenizer;
    const struct model_config *config;
    /* Every event goes here, in order. */
    void (*emit)(void *context, const struct engine_event *event);
    void *context;
};

/* NO_MEMORY. */
MUST_CHECK enum status timeline_create(struct timeline **out, const struct timeline_options *options,
                                       struct error *err);
void timeline_destroy(struct timeline *timeline);       /* NULL is allowed */

/* Draw the next token from logits[vocab] and emit what follows from it.
 * *ended is 1 if the choice ended; its CHOICE_END has been emitted.
 * INTERNAL: a logit is not finite; nothing was emitted. */
MUST_CHECK enum status timeline_push(struct timeline *timeline, const float *logits,
                                     struct sampler_scratch *scratch, int32_t *token, int *ended,
                                     struct error *err);

/* End the choice without another token. */
void timeline_end(struct timeline *timeline, enum finish_reason reason);
int timeline_has_ended(const struct timeline *timeline);

int32_t timeline_n_output(const struct timeline *timeline);

#endif
