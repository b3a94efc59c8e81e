/* api_route.h - a route together with what the OpenAPI document says about it.
 *
 * Tables of these are constant and outlive the api.
 */
#ifndef SERVER_API_ROUTE_H
#define SERVER_API_ROUTE_H

#include "server/body_fields.h"
#include "server/router.h"

struct api_route {
    struct route route;
    const char *summary;                /* one sentence without full stop; NULL: not in the document */
    const struct body_table *body;      /* of a POST; NULL: it takes none */
    const char *required;               /* names of required fields as JSON strings: "\"prompt\""; or NULL */
    const char *content;                /* media type of the reply */
};

#endif
