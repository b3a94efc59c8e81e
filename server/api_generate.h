/* api_generate.h - from checked prompts to a submitted call: what completions and chat share at the end.
 *
 * Owner: the loop thread.
 */
#ifndef SERVER_API_GENERATE_H
#define SERVER_API_GENERATE_H

#include "server/api_request.h"
#include "server/reply.h"

struct api_generate_options {
    struct api *api;
    struct http_exchange *exchange;
    const struct generate_body *body;       /* checked */
    const struct api_prompts *prompts;
    const struct generate_extra *extra;
    enum reply_shape shape;
    const char *id_prefix;                  /* "cmpl-" */
    int n_returned;                         /* choices of each prompt that the client gets */
    int want_logprobs;
    int echo;
};

/* Make the requests, the reply and the call, and submit.  OK: the reply is the call's business (also if the
 * engine refused).  Otherwise nothing has happened, and *why says what to reply. */
MUST_CHECK enum status api_generate_start(const struct api_generate_options *options,
                                          struct api_refusal *why);

#endif
