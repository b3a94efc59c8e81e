#include "server/api_refusal.h"

#include "server/api_error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum status api_refuse(struct api_refusal *why, const char *param, enum status code, const char *fmt, ...)
{
    char text[sizeof why->err.text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    why->param = param;
    return fail(&why->err, code, "%s", text);
}

enum status api_refuse_length(struct api_refusal *why, const char *param, int64_t n_prompt, int64_t n_new,
                              int32_t max_length)
{
    why->code = "context_length_exceeded";
    snprintf(why->extra, sizeof why->extra, "\"n_prompt_tokens\":%" PRId64 ",\"n_ctx\":%d", n_prompt,
             max_length);
    if (n_new == 0)
        return api_refuse(why, param, STATUS_BAD_REQUEST,
                          "this model's maximum context length is %d tokens, and "
                          "the prompt has %" PRId64,
                          max_length, n_prompt);
    return api_refuse(why, param, STATUS_BAD_REQUEST,
                      "this model's maximum context length is %d tokens, and %" PRId64
                      " were asked for: %" PRId64 " in the prompt and %" PRId64 " to be generated",
                      max_length, n_prompt + n_new, n_prompt, n_new);
}

void api_refusal_reply(struct http_exchange *ex, const struct api_refusal *why)
{
    api_error_reply(ex, &(struct api_error){
        .status = status_http(why->err.code), .message = why->err.text, .param = why->param,
        .code = why->code, .extra = why->extra[0] != '\0' ? why->extra : NULL });
}
