#include "server/api_error.h"

#include "base/json_write.h"
#include "server/http_exchange.h"

#include <string.h>

#define MAX_ERROR_BYTES 16384

const char *api_error_type(int http_status)
{
    switch (http_status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 408: return "timeout_error";
    case 429: return "overloaded_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    }
    return http_status >= 500 ? "server_error" : "invalid_request_error";
}

static enum status write_member(struct buf *out, const char *name, const char *value)
{
    TRY(buf_add_text(out, name));
    return value == NULL ? buf_add_text(out, "null") : json_write_cstring(out, value);
}

enum status api_error_write(struct buf *out, const struct api_error *error)
{
    TRY(write_member(out, "{\"error\":{\"message\":", error->message));
    TRY(write_member(out, ",\"type\":", error->type != NULL ? error->type : api_error_type(error->status)));
    TRY(write_member(out, ",\"param\":", error->param));
    TRY(write_member(out, ",\"code\":", error->code));
    if (error->extra != NULL) {
        TRY(buf_add_char(out, ','));
        TRY(buf_add_text(out, error->extra));
    }
    return buf_add_text(out, "}}");
}

void api_error_reply(struct http_exchange *ex, const struct api_error *error)
{
    static const char fallback[] = "{\"error\":{\"message\":\"no memory for the error\","
                                   "\"type\":\"server_error\",\"param\":null,\"code\":null}}";
    struct buf body;
    buf_init(&body, MAX_ERROR_BYTES);
    if (error->status == 429 || error->status == 503)
        http_reply_header(ex, "Retry-After", "1");
    else if (error->status >= 500)
        http_reply_header(ex, "x-should-retry", "false");
    if (error->status == 401)
        http_reply_header(ex, "WWW-Authenticate", "Bearer");
    if (api_error_write(&body, error) == STATUS_OK)
        http_reply(ex, error->status, HTTP_JSON, body.data, body.len);
    else
        http_reply(ex, error->status, HTTP_JSON, fallback, sizeof fallback - 1);
    buf_clear(&body);
}

void api_error_reply_failure(struct http_exchange *ex, const struct error *err, const char *param,
                             const char *code)
{
    api_error_reply(ex, &(struct api_error){ .status = status_http(err->code), .message = err->text,
                                             .param = param, .code = code });
}
