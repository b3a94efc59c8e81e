/* api_generate.h - from checked prompts to a call: what completions and chat share at the end.
 *
 * Threads: any.
 */
#ifndef SERVER_API_GENERATE_H
#define SERVER_API_GENERATE_H

#include "server/api_request.h"
#include "server/reply.h"

struct api_generate_options {
    struct api *api;
    const struct generate_body *body;       /* checked */
    const struct api_prompts *prompts;
    const struct generate_extra *extra;
    enum reply_shape shape;
    const char *id_prefix;                  /* "cmpl-" */
    int n_returned;                         /* choices of each prompt that the client gets */
    int want_logprobs;
    int echo;
};

/* Make the requests, the reply and the call, for api_call_submit or api_call_destroy.  On failure *why says
 * what to reply. */
MUST_CHECK enum status api_generate_make(const struct api_generate_options *options, struct api_call **out,
                                         struct api_refusal *why);

#endif
