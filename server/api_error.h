/* api_error.h - the one shape in which a failure is told.
 *
 *   {"error":{"message":"..","type":"invalid_request_error","param":"prompt","code":null}}
 *
 * As a reply it also carries what clients act on: Retry-After: 1 for 429 and 503 (the same request may
 * succeed soon), x-should-retry: false for the other 5xx (it will not).
 * Messages never repeat what the user sent.
 *
 * Owner: the loop thread for replies; api_error_write: any.
 */
#ifndef SERVER_API_ERROR_H
#define SERVER_API_ERROR_H

#include "base/buf.h"

struct http_exchange;

/* Plain data; what is not set is null. */
struct api_error {
    int status;                 /* HTTP */
    const char *message;        /* one sentence */
    const char *type;           /* NULL: the status's own, see api_error_type */
    const char *param;          /* the field at fault */
    const char *code;           /* "context_length_exceeded" */
    const char *extra;          /* more members as JSON, without a leading comma: "\"n_ctx\":4096" */
};

/* 400 .. "invalid_request_error", 401 "authentication_error", 404 "not_found_error",
 * 429 "overloaded_error", 503 "unavailable_error", 500 "server_error", .. */
const char *api_error_type(int http_status);

/* The object above, appended: for a stream that has begun ("data: " and the blank line are the caller's).
 * The failures of buf_add. */
MUST_CHECK enum status api_error_write(struct buf *out, const struct api_error *error);

/* Reply with it, under the rules of http_reply: ex has ended afterwards. */
void api_error_reply(struct http_exchange *ex, const struct api_error *error);

/* The same for a call that failed: status and message from err, param and code as given or NULL. */
void api_error_reply_failure(struct http_exchange *ex, const struct error *err, const char *param,
                             const char *code);

#endif
