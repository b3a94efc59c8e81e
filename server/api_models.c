/* api_models.c - GET /v1/models and /v1/models/{id}: which model is served, and what it is. */
#include "base/json_write.h"
#include "model/tokenizer.h"
#include "server/api_error.h"
#include "server/api_private.h"
#include "server/http_exchange.h"

#include <inttypes.h>
#include <string.h>

int api_serves_model(const struct api *api, const char *name, size_t len)
{
    const struct api_options *o = &api->options;
    if (len == strlen(o->model_name) && memcmp(name, o->model_name, len) == 0)
        return 1;
    for (size_t i = 0; i < o->n_aliases; i++)
        if (len == strlen(o->aliases[i]) && memcmp(name, o->aliases[i], len) == 0)
            return 1;
    return 0;
}

static enum status write_meta(const struct api *api, struct buf *out)
{
    const struct model_config *c = model_config(api->options.model);
    const struct model_options *o = model_options(api->options.model);
    TRY(buf_printf(out, ",\"max_model_len\":%d,\"context_length\":%d", api_max_length(api),
                   api_max_length(api)));
    TRY(buf_add_text(out, ",\"formulation\":"));
    TRY(json_write_cstring(out, c->attention.label));
    TRY(buf_printf(out, ",\"n_ranks\":%d,\"is_encoder\":%s", o->n_ranks,
                   c->attention.causal ? "false" : "true"));
    return buf_printf(out,
                      ",\"meta\":{\"n_vocab\":%d,\"n_ctx_train\":%d,\"n_embd\":%d,\"n_layer\":%d,"
                      "\"n_head\":%d}",
                      c->vocab, c->max_positions, c->hidden, c->n_layers, c->attention.n_heads);
}

static enum status write_model(const struct api *api, const char *name, struct buf *out)
{
    TRY(buf_add_text(out, "{\"id\":"));
    TRY(json_write_cstring(out, name));
    TRY(buf_printf(out, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"latentd\",\"root\":",
                   api->created));
    TRY(json_write_cstring(out, api->options.model_name));
    TRY(buf_add_text(out, ",\"parent\":null"));
    TRY(write_meta(api, out));
    return buf_add_char(out, '}');
}

static enum status write_list(const struct api *api, struct buf *out)
{
    TRY(buf_add_text(out, "{\"object\":\"list\",\"data\":["));
    TRY(write_model(api, api->options.model_name, out));
    for (size_t i = 0; i < api->options.n_aliases; i++) {
        TRY(buf_add_char(out, ','));
        TRY(write_model(api, api->options.aliases[i], out));
    }
    return buf_add_text(out, "]}");
}

void api_handle_models(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    api_reply_out(api, ex, write_list(api, &api->out));
}

void api_handle_model(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    const char *id = http_exchange_id(ex);
    if (!api_serves_model(api, id, strlen(id))) {
        api_error_reply(ex, &(struct api_error){ .status = 404, .code = "model_not_found", .param = "model",
                                                 .message = "no model of that name is served here" });
        return;
    }
    api_reply_out(api, ex, write_model(api, id, &api->out));
}
