/* router.h - which handler answers which method and path.
 *
 *   static const struct route routes[] = {
 *       { ROUTE_GET,  "/health",         .is_public = 1, .handle = handle_health },
 *       { ROUTE_POST, "/v1/completions",                 .handle = handle_completions },
 *       { ROUTE_GET,  "/v1/models/{id}",                 .handle = handle_model },
 *   };
 *
 * - A pattern is matched against the path as sent.  {id} stands for one segment, as the last segment
 *   for the rest of the path (model names hold slashes); the handler reads it decoded with
 *   http_exchange_id.  One slash at the end of the path is ignored.  The first row that fits wins.
 * - HEAD is answered by the GET row; the HTTP layer leaves the body out.
 * - OPTIONS is answered here, 204 without a key, since browsers ask before they send one.
 * - No row for the path: 404.  Rows, but none for the method: 405 with Allow.
 * - With keys (http_auth.h) everything that is not is_public needs one, paths that do not exist included.
 *
 * Owner: the loop thread.  Memory: one allocation; the table is borrowed.
 */
#ifndef SERVER_ROUTER_H
#define SERVER_ROUTER_H

#include "base/status.h"

#include <stddef.h>

struct http_auth;
struct http_exchange;
struct router;

enum route_method {
    ROUTE_GET = 1,
    ROUTE_POST = 2,
    ROUTE_PUT = 4,
    ROUTE_PATCH = 8,
    ROUTE_DELETE = 16
};

struct route {
    unsigned methods;           /* of enum route_method, or-ed */
    const char *pattern;
    int is_public;              /* needs no key: health and the page, nothing that costs or tells */
    void (*handle)(void *context, struct http_exchange *ex);
};

struct router_options {
    const struct route *routes;     /* [n_routes]; outlives the router */
    size_t n_routes;
    const struct http_auth *auth;   /* NULL: no keys, everything is open; outlives the router */
    void *context;                  /* what the handlers get */
};

MUST_CHECK enum status router_create(struct router **out, const struct router_options *options,
                                     struct error *err);
void router_destroy(struct router *router);         /* NULL is allowed */

/* For http_server_options, with the router as context.  admit refuses a body nobody will read. */
void router_handle(void *router, struct http_exchange *ex);
int router_admit(void *router, struct http_exchange *ex);

#endif
