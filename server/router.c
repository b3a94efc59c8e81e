#include "server/router.h"

#include "server/api_error.h"
#include "server/http_auth.h"
#include "server/http_exchange_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct router {
    struct router_options options;
};

static const struct {
    unsigned bit;
    const char *name;
} methods[] = {
    { ROUTE_GET, "GET" },
    { ROUTE_GET, "HEAD" },
    { ROUTE_POST, "POST" },
    { ROUTE_PUT, "PUT" },
    { ROUTE_PATCH, "PATCH" },
    { ROUTE_DELETE, "DELETE" },
};
#define N_METHODS (sizeof methods / sizeof methods[0])

enum status router_create(struct router **out, const struct router_options *options, struct error *err)
{
    struct router *router = malloc(sizeof *router);
    if (router == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the router");
    router->options = *options;
    *out = router;
    return STATUS_OK;
}

void router_destroy(struct router *router)
{
    free(router);
}

static unsigned method_bit(const char *name)
{
    for (size_t i = 0; i < N_METHODS; i++)
        if (strcmp(methods[i].name, name) == 0)
            return methods[i].bit;
    return 0;
}

/* What stood for {id}, still encoded. */
struct id {
    const char *text;
    size_t len;
};

/* 1 if path[len] fits the pattern. */
static int matches(const char *pattern, const char *path, size_t len, struct id *id)
{
    *id = (struct id){ .text = "", .len = 0 };
    size_t i = 0;
    while (*pattern != '\0') {
        if (strncmp(pattern, "{id}", 4) == 0) {
            pattern += 4;
            size_t start = i;
            while (i < len && (path[i] != '/' || *pattern == '\0'))
                i++;
            if (i == start)
                return 0;
            *id = (struct id){ .text = path + start, .len = i - start };
        } else if (i < len && path[i] == *pattern) {
            i++;
            pattern++;
        } else {
            return 0;
        }
    }
    return i == len;
}

/* What the table says about a path. */
struct finding {
    const struct route *route;      /* for the method asked for, or NULL */
    struct id id;
    unsigned allowed;               /* methods of all rows for the path; 0: no such path */
};

static struct finding find(const struct router *router, const struct http_exchange *ex)
{
    const char *path = http_exchange_path(ex);
    unsigned bit = method_bit(http_exchange_method(ex));
    size_t len = strlen(path);
    if (len > 1 && path[len - 1] == '/')
        len--;
    struct finding finding = { .route = NULL };
    for (size_t i = 0; i < router->options.n_routes; i++) {
        const struct route *route = &router->options.routes[i];
        struct id id;
        if (!matches(route->pattern, path, len, &id))
            continue;
        finding.allowed |= route->methods;
        if ((route->methods & bit) != 0 && finding.route == NULL) {
            finding.route = route;
            finding.id = id;
        }
    }
    return finding;
}

static void set_allow(struct http_exchange *ex, const char *header, unsigned allowed)
{
    char text[64];
    int n = 0;
    for (size_t i = 0; i < N_METHODS; i++)
        if ((methods[i].bit & allowed) != 0)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s, ", methods[i].name);
    snprintf(text + n, sizeof text - (size_t)n, "OPTIONS");
    http_reply_header(ex, header, text);
}

static int is_options(const struct http_exchange *ex)
{
    return strcmp(http_exchange_method(ex), "OPTIONS") == 0;
}

/* A browser's question before it sends a request with a key or JSON.  It names the headers it
 * will send; they are all welcome. */
static void reply_preflight(struct http_exchange *ex, unsigned allowed)
{
    const char *asked = http_exchange_header(ex, "access-control-request-headers");
    if (asked == NULL || strlen(asked) > 1024)
        asked = "Authorization, Content-Type, X-Api-Key, X-Request-Id";
    set_allow(ex, "Allow", allowed);
    set_allow(ex, "Access-Control-Allow-Methods", allowed);
    http_reply_header(ex, "Access-Control-Allow-Headers", asked);
    http_reply_header(ex, "Access-Control-Max-Age", "86400");
    http_reply(ex, 204, NULL, NULL, 0);
}

static void reply_404(struct http_exchange *ex)
{
    api_error_reply(ex, &(struct api_error){ .status = 404, .message = "there is no such path here" });
}

/* 1 if a route stands ready.  Else the reply has been given. */
static int check(const struct router *router, struct http_exchange *ex, const struct finding *finding)
{
    const struct http_auth *auth = router->options.auth;
    int is_public = finding->route != NULL && finding->route->is_public;
    if (auth != NULL && !is_public && !http_auth_allows(auth, ex)) {
        api_error_reply(ex, &(struct api_error){
            .status = 401, .code = "invalid_api_key",
            .message = "this path needs a valid API key as \"Authorization: Bearer KEY\"" });
        return 0;
    }
    if (finding->allowed == 0) {
        reply_404(ex);
        return 0;
    }
    if (finding->route == NULL) {
        set_allow(ex, "Allow", finding->allowed);
        api_error_reply(ex, &(struct api_error){ .status = 405,
                                                 .message = "this path does not answer this method" });
        return 0;
    }
    return 1;
}

void router_handle(void *context, struct http_exchange *ex)
{
    const struct router *router = context;
    struct finding finding = find(router, ex);
    if (is_options(ex)) {
        int is_any = strcmp(http_exchange_path(ex), "*") == 0;
        if (finding.allowed != 0 || is_any)
            reply_preflight(ex, is_any ? ROUTE_GET | ROUTE_POST : finding.allowed);
        else
            reply_404(ex);
        return;
    }
    if (!check(router, ex, &finding))
        return;
    if (http_exchange_set_id(ex, finding.id.text, finding.id.len) != STATUS_OK) {
        api_error_reply(ex, &(struct api_error){
            .status = 400, .message = "the last part of the path is not percent-encoded text without control characters" });
        return;
    }
    finding.route->handle(router->options.context, ex);
}

int router_admit(void *context, struct http_exchange *ex)
{
    const struct router *router = context;
    if (is_options(ex))
        return 1;
    struct finding finding = find(router, ex);
    return check(router, ex, &finding);
}
