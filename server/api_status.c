/* api_status.c - how the server is: health, metrics, devices, version, the page. */
#include "base/clock.h"
#include "base/json_write.h"
#include "base/version.h"
#include "model/embedded.h"
#include "server/api_error.h"
#include "server/api_private.h"
#include "server/http_exchange.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- health ---- */

void api_handle_livez(void *context, struct http_exchange *ex)
{
    static const char body[] = "{\"status\":\"ok\"}";
    (void)context;
    http_reply(ex, 200, HTTP_JSON, body, sizeof body - 1);
}

/* NULL: ready.  An idle engine shows a sign of life too, but only one that has work can be stuck. */
static const char *why_not_ready(const struct api *api)
{
    struct engine_state state;
    engine_read_state(api->options.engine, &state);
    int is_at_work = state.in_step || state.n_running > 0 || state.n_waiting > 0;
    if (state.failed)
        return "a device has failed";
    if (engine_is_draining(api->options.engine))
        return "the server is shutting down";
    if (is_at_work && clock_now_ns() - state.heartbeat_ns > api->options.heartbeat_ns)
        return "the engine shows no sign of life";
    return NULL;
}

void api_handle_readyz(void *context, struct http_exchange *ex)
{
    const char *why = why_not_ready(context);
    if (why == NULL)
        api_handle_livez(context, ex);
    else
        api_error_reply(ex, &(struct api_error){ .status = 503, .message = why });
}

/* ---- devices ---- */

/* The reports of all devices, for free; NULL without memory. */
static struct device_report *read_devices(const struct api *api, int *n)
{
    *n = model_options(api->options.model)->n_ranks;
    struct device_report *reports = calloc((size_t)*n, sizeof *reports);
    for (int i = 0; reports != NULL && i < *n; i++)
        model_device_report(api->options.model, i, &reports[i]);
    return reports;
}

void api_handle_metrics(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    const struct model_options *o = model_options(api->options.model);
    struct metrics_view view = {
        .block_size = o->block_size, .cache_type = cache_type_name(o->cache_type),
        .formulation = model_config(api->options.model)->attention.label,
    };
    engine_read_state(api->options.engine, &view.engine);
    struct device_report *devices = read_devices(api, &view.n_devices);
    view.devices = devices;
    enum status s = devices != NULL ? metrics_write(api->metrics, &view, &api->out) : STATUS_NO_MEMORY;
    free(devices);
    if (s != STATUS_OK)
        api_reply_out(api, ex, s);
    else
        http_reply(ex, 200, "text/plain; version=0.0.4; charset=utf-8", api->out.data, api->out.len);
    buf_reset(&api->out);
}

static enum status write_device(const struct device_report *d, int index, int32_t used_blocks, int block_size,
                                struct buf *out)
{
    const struct {
        const char *name;
        int64_t value;
    } members[] = {
        { "heads_begin", d->heads_begin }, { "heads_end", d->heads_end },
        { "first_latent", d->first_latent }, { "n_latents", d->n_latents },
        { "weight_bytes", (int64_t)d->weight_bytes },
        { "cache_bytes_per_token", (int64_t)d->cache_bytes_per_token },
        { "cache_bytes", (int64_t)d->cache_bytes },
        { "cache_used_bytes", (int64_t)d->cache_bytes_per_token * used_blocks * block_size },
        { "tokens_that_fit", d->tokens_that_fit },
        { "cache_bytes_read", (int64_t)d->cache_bytes_read },
        { "cache_bytes_written", (int64_t)d->cache_bytes_written },
        { "weight_bytes_read", (int64_t)d->weight_bytes_read },
        { "multiply_adds", (int64_t)d->multiply_adds },
        { "collective_bytes", (int64_t)d->collective_bytes },
        { "collectives", (int64_t)d->collectives },
        { "busy_ns", d->busy_ns }, { "waited_ns", d->waited_ns }, { "steps", (int64_t)d->steps },
    };
    TRY(buf_printf(out, "%s{\"device\":%d", index > 0 ? "," : "", index));
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        TRY(buf_printf(out, ",\"%s\":%" PRId64, members[i].name, members[i].value));
    return buf_add_char(out, '}');
}

/* same_bits_as_one_rank: true of every degree that a model may have, powers of two or
 * not; a degree whose ranks are no runs of leaves of the trees is refused at load. */
static enum status write_devices(const struct api *api, const struct device_report *devices, struct buf *out)
{
    const struct model_config *c = model_config(api->options.model);
    const struct model_options *o = model_options(api->options.model);
    struct engine_state e;
    engine_read_state(api->options.engine, &e);
    int32_t used = e.n_blocks - e.n_free_blocks - e.n_cached_blocks;
    TRY(buf_add_text(out, "{\"formulation\":"));
    TRY(json_write_cstring(out, c->attention.label));
    TRY(buf_printf(out, ",\"n_ranks\":%d,\"same_bits_as_one_rank\":true,\"n_heads\":%d,\"n_latents\":%d",
                   o->n_ranks, c->attention.n_heads, c->attention.n_latents));
    TRY(buf_add_text(out, ",\"cache_type\":"));
    TRY(json_write_cstring(out, cache_type_name(o->cache_type)));
    TRY(buf_printf(out,
                   ",\"block_size\":%d,\"blocks\":{\"total\":%d,\"free\":%d,\"reusable\":%d,\"used\":%d}",
                   o->block_size, e.n_blocks, e.n_free_blocks, e.n_cached_blocks, used));
    TRY(buf_printf(out, ",\"sequences\":{\"running\":%d,\"waiting\":%d,\"paused\":%d},\"devices\":[",
                   e.n_running, e.n_waiting, e.n_paused));
    for (int i = 0; i < o->n_ranks; i++)
        TRY(write_device(&devices[i], i, used, o->block_size, out));
    return buf_add_text(out, "]}");
}

void api_handle_devices(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    int n;
    struct device_report *devices = read_devices(api, &n);
    enum status s = devices != NULL ? write_devices(api, devices, &api->out) : STATUS_NO_MEMORY;
    free(devices);
    api_reply_out(api, ex, s);
}

/* ---- the rest ---- */

void api_handle_version(void *context, struct http_exchange *ex)
{
    static const char body[] = "{\"version\":\"" LATENTD_VERSION "\"}";
    (void)context;
    http_reply(ex, 200, HTTP_JSON, body, sizeof body - 1);
}

void api_handle_reset_prefixes(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    engine_reset_prefixes(api->options.engine);
    http_reply(ex, 200, HTTP_JSON, "{}", 2);
}

void api_handle_openapi(void *context, struct http_exchange *ex)
{
    struct api *api = context;
    http_reply(ex, 200, HTTP_JSON, api->openapi.data, api->openapi.len);
}

void api_handle_page(void *context, struct http_exchange *ex)
{
    size_t len = 0;
    const unsigned char *page = embedded_file("index.html", &len);
    (void)context;
    if (page == NULL)
        api_error_reply(ex, &(struct api_error){ .status = 404, .message = "this build has no page" });
    else
        http_reply(ex, 200, "text/html; charset=utf-8", page, len);
}
