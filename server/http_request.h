/* http_request.h - one request, from the bytes a stranger sends to checked fields.
 *
 * Pure: bytes in, state out, no sockets and no clock.  The same bytes give the
 * same result however they are cut into pieces.
 *
 *   IDLE --first byte--> HEAD --blank line--> HEAD_DONE --> BODY --> COMPLETE
 *                          \                      \          /
 *                           \--- no body ----------\--------/----> COMPLETE
 *                            any of them  -------------------->    REFUSED
 *
 * llhttp parses; what it is given has been made strict before, because a
 * lenient reader and a strict proxy in front of it disagree about where a
 * request ends, and that is how requests are smuggled:
 *   - the head is collected up to its blank line first: every line ends in CRLF,
 *     no lone CR or LF, no control bytes, no folded lines;
 *   - chunk-size lines, the CRLF after a chunk and the trailers likewise;
 *   - Content-Length is digits, once, and never beside Transfer-Encoding;
 *     Transfer-Encoding is exactly "chunked", once, and only in HTTP/1.1.
 * For the same reason Host, Authorization, X-Api-Key and Content-Type are there once at most.
 *
 * Owner:  the loop thread.
 * Memory: head, chunk lines and body are buffers with the limits as maxima; small ones are
 *         kept from one request to the next, large ones are given back.
 */
#ifndef SERVER_HTTP_REQUEST_H
#define SERVER_HTTP_REQUEST_H

#include "base/buf.h"
#include "base/status.h"
#include "server/http_limits.h"

enum http_request_state {
    HTTP_REQUEST_IDLE,          /* nothing has come */
    HTTP_REQUEST_HEAD,          /* the head is incomplete */
    HTTP_REQUEST_HEAD_DONE,     /* a body will follow; the next feed reads it */
    HTTP_REQUEST_BODY,          /* the body is incomplete */
    HTTP_REQUEST_COMPLETE,      /* all accessors may be used */
    HTTP_REQUEST_REFUSED        /* see http_request_refusal; feed takes nothing more */
};

/* Why a request is refused.  text is a constant sentence without user bytes. */
struct http_refusal {
    int status;
    const char *text;
    uint64_t limit;             /* the limit that was passed, or 0 */
};

struct http_request;

/* limits must outlive the request.  NO_MEMORY. */
MUST_CHECK enum status http_request_create(struct http_request **out, const struct http_limits *limits,
                                           struct error *err);
void http_request_destroy(struct http_request *request);        /* NULL is allowed */
void http_request_reset(struct http_request *request);          /* back to IDLE */

/* Take bytes[n] and return how many were used.  Stops early, right behind the byte that did it, when the
 * state becomes HEAD_DONE, COMPLETE or REFUSED.  In COMPLETE and REFUSED: takes nothing, returns 0. */
size_t http_request_feed(struct http_request *request, const char *bytes, size_t n);

enum http_request_state http_request_state(const struct http_request *request);
const struct http_refusal *http_request_refusal(const struct http_request *request);

/* Refuse a request that is in no final state for a reason the parser does not know (a timeout, a total). */
void http_request_refuse(struct http_request *request, int status, const char *text, uint64_t limit);

/* Valid from HEAD_DONE on, until reset; before that (and when the head was refused) "" or NULL.
 * All texts are terminated and hold no control bytes. */
const char *http_request_method(const struct http_request *request);    /* "GET" */
const char *http_request_path(const struct http_request *request);      /* "/v1/models", not decoded */
const char *http_request_query(const struct http_request *request);     /* "a=1&b=2" or "" */
int http_request_minor(const struct http_request *request);             /* HTTP/1.minor */
int http_request_keeps_alive(const struct http_request *request);
int http_request_expects_continue(const struct http_request *request);

/* The value of the first header of that name in any case, or NULL. */
const char *http_request_header(const struct http_request *request, const char *name);

/* The body received so far (NULL while it is empty); complete in COMPLETE. */
const char *http_request_body(const struct http_request *request);
size_t http_request_body_bytes(const struct http_request *request);

/* In COMPLETE: the body becomes the caller's, *out, for buf_clear.  It is empty here from then on, but the
 * number of its bytes stays. */
void http_request_take_body(struct http_request *request, struct buf *out);

#endif
