/* api_intake.h - from a body to the call or the reply it asks for; a long body is read beside the loop.
 *
 *   handler --> api_intake --short body--> read ------------------------------------+--> submit the call,
 *                         \                                                         |    or reply
 *                          \--long body--> waits --> read, on a worker --> loop ----/
 *
 * Parsing, the template, tokenising and the grammar cost some 0.1 ms a KiB.  Bodies above
 * API_INTAKE_SHORT_BYTES, and those of more than API_INTAKE_FEW_PROMPTS prompts, would hold up every stream
 * that long, so a worker reads them; the others are not worth the way there and back.
 *
 * Lifetime
 *   1. A reader owns nothing: it gets a parsed body, and makes a call (not submitted) or the text of a
 *      reply.  It borrows nothing from the body beyond its return.
 *   2. A reader runs on any thread, several at a time: of the api it reads what is fixed at create.
 *   3. The client may leave at any time: an intake that waits is dropped, one that is being read is read
 *      to its end and then dropped.
 *   4. At most API_INTAKE_WORKERS are read at a time, in order of arrival.  How many wait is bounded by the
 *      connections, what they hold by max_total_body_bytes: a connection has one request at a time.  (One
 *      body for each worker may be held beyond that, of a client that left.)
 *
 * Owner: the loop thread, except for what the reader makes while it runs.
 */
#ifndef SERVER_API_INTAKE_H
#define SERVER_API_INTAKE_H

#include "server/api_private.h"
#include "server/api_refusal.h"

#define API_INTAKE_SHORT_BYTES ((size_t)16 << 10)
enum { API_INTAKE_FEW_PROMPTS = 8, API_INTAKE_WORKERS = 2 };

struct api_call;
struct api_intake;          /* opaque */

struct api_intake_result {
    struct api_call *call;      /* not NULL: it is to be submitted */
    struct buf reply;           /* else: the reply, JSON */
};

/* On failure *why says what to reply, and nothing is left in *out but the reply's buffer. */
typedef enum status (*api_reader)(struct api *api, const json_t *body, struct api_intake_result *out,
                                  struct api_refusal *why);

/* Check the media type, parse the body (a JSON object whose "model" is served), have it read, and submit or
 * reply; now or later.  The exchange is no longer the handler's. */
void api_intake(struct api *api, struct http_exchange *ex, api_reader read);

/* Reply with this failure to all that wait or are being read. */
void api_intakes_fail(struct api *api, const struct error *failure);

/* Wait until no worker uses the api; what was being read is dropped.  No client may wait. */
void api_intakes_join(struct api *api);

/* Those that wait or are being read; and of them, those with a client. */
size_t api_intakes_count(const struct api *api, int with_client);

#endif
