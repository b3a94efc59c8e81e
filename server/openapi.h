/* openapi.h - the OpenAPI 3.1 document, written from the tables that route and parse.
 *
 * Nothing in it is written twice: paths and methods come from the route table, the fields of bodies from the
 * tables that read them (body_fields.h).
 *
 * Threads: any.  Memory: grows out.
 */
#ifndef SERVER_OPENAPI_H
#define SERVER_OPENAPI_H

#include "base/buf.h"
#include "server/api_route.h"

/* Append the document for routes[n].  The failures of buf_add. */
MUST_CHECK enum status openapi_write(const struct api_route *routes, size_t n, struct buf *out);

#endif
