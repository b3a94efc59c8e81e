#include "server/openapi.h"

#include "base/json_write.h"
#include "base/version.h"
#include "server/http_exchange.h"

#include <string.h>

static enum status write_text_member(struct buf *out, const char *name, const char *value)
{
    TRY(buf_printf(out, "\"%s\":", name));
    return json_write_cstring(out, value);
}

static enum status write_body(const struct api_route *r, struct buf *out)
{
    if (r->body == NULL)
        return STATUS_OK;
    TRY(buf_add_text(out, "\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":"
                          "{\"type\":\"object\","));
    if (r->required != NULL)
        TRY(buf_printf(out, "\"required\":[%s],", r->required));
    TRY(buf_add_text(out, "\"properties\":{"));
    TRY(body_fields_write_schema(r->body, out));
    return buf_add_text(out, "}}}}},");
}

static enum status write_parameters(const struct api_route *r, struct buf *out)
{
    if (strstr(r->route.pattern, "{id}") == NULL)
        return STATUS_OK;
    return buf_add_text(out, "\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,"
                             "\"schema\":{\"type\":\"string\"}}],");
}

/* A body that can ask for a stream has its reply in two forms. */
static int can_stream(const struct api_route *r)
{
    for (size_t i = 0; r->body != NULL && i < r->body->n_fields; i++)
        if (strcmp(r->body->fields[i].name, "stream") == 0)
            return 1;
    return 0;
}

static enum status write_operation(const struct api_route *r, const char *method, struct buf *out)
{
    TRY(buf_printf(out, "\"%s\":{", method));
    TRY(write_text_member(out, "summary", r->summary));
    TRY(buf_add_char(out, ','));
    TRY(write_parameters(r, out));
    TRY(write_body(r, out));
    if (r->route.is_public)
        TRY(buf_add_text(out, "\"security\":[],"));
    return buf_printf(out, "\"responses\":{\"200\":{\"description\":\"done\",\"content\":{\"%s\":{}%s}},"
                      "\"default\":{\"$ref\":\"#/components/responses/error\"}}}", r->content,
                      can_stream(r) ? ",\"" HTTP_EVENTS "\":{}" : "");
}

/* The operations of one path: all rows with this pattern. */
static enum status write_path(const struct api_route *routes, size_t n, size_t first, struct buf *out)
{
    int n_written = 0;
    TRY(json_write_cstring(out, routes[first].route.pattern));
    TRY(buf_add_text(out, ":{"));
    for (size_t i = first; i < n; i++) {
        const struct api_route *r = &routes[i];
        if (r->summary == NULL || strcmp(r->route.pattern, routes[first].route.pattern) != 0)
            continue;
        if (n_written++ > 0)
            TRY(buf_add_char(out, ','));
        TRY(write_operation(r, r->route.methods & ROUTE_GET ? "get" : "post", out));
    }
    return buf_add_char(out, '}');
}

static int is_first_of_path(const struct api_route *routes, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (routes[k].summary != NULL && strcmp(routes[k].route.pattern, routes[i].route.pattern) == 0)
            return 0;
    return routes[i].summary != NULL;
}

static const char components[] =
    "\"components\":{\"securitySchemes\":{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}},"
    "\"responses\":{\"error\":{\"description\":\"what went wrong\",\"content\":{\"application/json\":"
    "{\"schema\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":"
    "{\"type\":\"object\",\"required\":[\"message\",\"type\",\"param\",\"code\"],\"properties\":{"
    "\"message\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},"
    "\"param\":{\"type\":[\"string\",\"null\"]},\"code\":{\"type\":[\"string\",\"null\"]}}}}}}}}}},"
    "\"security\":[{},{\"key\":[]}]";

enum status openapi_write(const struct api_route *routes, size_t n, struct buf *out)
{
    int n_written = 0;
    TRY(buf_add_text(out,
                     "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"latentd\",\"version\":\"" LATENTD_VERSION
                     "\"},\"paths\":{"));
    for (size_t i = 0; i < n; i++) {
        if (!is_first_of_path(routes, i))
            continue;
        if (n_written++ > 0)
            TRY(buf_add_char(out, ','));
        TRY(write_path(routes, n, i, out));
    }
    TRY(buf_add_text(out, "},"));
    TRY(buf_add_text(out, components));
    return buf_add_char(out, '}');
}
