#include "server/cache_routes.h"

#include "base/json_write.h"
#include "base/log.h"
#include "server/api.h"
#include "server/api_error.h"
#include "server/cache_restore.h"
#include "server/cache_save.h"
#include "server/http_exchange.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_REPLY = 4096 };

struct cache_routes {
    struct cache_routes_options options;
    struct cache_saver *saver;          /* NULL: saving is off */
    struct http_exchange *waiting;      /* whoever asked for the save under way; NULL: nobody, or it left */
    int32_t n_restored;
    struct cache_save_result last;      /* of the last save that has ended */
    int has_saved;
    struct buf out;
};

/* ---- create ---- */

static struct cache_file_shape shape_of(const struct cache_routes_options *o)
{
    return (struct cache_file_shape){
        .identity = o->identity, .block_size = model_options(o->model)->block_size,
        .block_bytes = model_block_bytes(o->model),
    };
}

static void restore(struct cache_routes *r)
{
    const struct cache_routes_options *o = &r->options;
    struct error err;
    struct cache_restore_options options = {
        .dir = o->restore_dir, .shape = shape_of(o), .model = o->model, .engine = o->engine,
    };
    enum status s = cache_restore(&options, &r->n_restored, &err);
    if (s == STATUS_OK)
        log_info("cache restored blocks=%d tokens=%lld dir=%s", r->n_restored,
                 (long long)r->n_restored * options.shape.block_size, o->restore_dir);
    else
        log_warn("cache not restored, it starts empty reason=\"%s\"", err.text);
}

static enum status fill(struct cache_routes *r, struct error *err)
{
    const struct cache_routes_options *o = &r->options;
    buf_init(&r->out, MAX_REPLY);
    TRY(buf_reserve(&r->out, MAX_REPLY));
    if (*o->restore_dir != '\0')
        restore(r);
    if (*o->save_dir == '\0')
        return STATUS_OK;
    if (access(o->save_dir, W_OK | X_OK) != 0)
        return fail(err, STATUS_BAD_OPTION, "--cache-dir %.200s is no directory that can be written", o->save_dir);
    struct cache_saver_options saver = {
        .model = o->model, .dir = o->save_dir, .shape = shape_of(o), .on_done = o->on_done, .context = o->context,
    };
    return cache_saver_create(&r->saver, &saver, err);
}

enum status cache_routes_create(struct cache_routes **out, const struct cache_routes_options *options,
                                struct error *err)
{
    struct cache_routes *r = calloc(1, sizeof *r);
    if (r == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the routes of the cache");
    r->options = *options;
    enum status s = fill(r, err);
    if (s != STATUS_OK) {
        cache_routes_destroy(r);
        return s;
    }
    *out = r;
    return STATUS_OK;
}

void cache_routes_destroy(struct cache_routes *r)
{
    if (r == NULL)
        return;
    cache_saver_destroy(r->saver);
    buf_clear(&r->out);
    free(r);
}

int cache_routes_feed(struct cache_routes *r, struct engine *engine)
{
    return r->saver != NULL && cache_saver_feed(r->saver, engine);
}

/* ---- saving ---- */

static void on_close(void *context)
{
    struct cache_routes *r = context;
    r->waiting = NULL;
}

static void handle_save(void *api, struct http_exchange *ex)
{
    struct cache_routes *r = api_more_context(api);
    struct error err;
    if (r->saver == NULL) {
        api_error_reply(ex, &(struct api_error){ .status = 501, .message = "saving needs --cache-dir DIR" });
        return;
    }
    if (cache_saver_start(r->saver, &err) != STATUS_OK) {
        api_error_reply_failure(ex, &err, NULL, NULL);
        return;
    }
    r->waiting = ex;
    http_on_close(ex, on_close, r);
    engine_nudge(r->options.engine);
}

static enum status write_result(struct buf *out, const struct cache_save_result *result)
{
    TRY(buf_printf(out, "{\"blocks\":%" PRId64 ",\"bytes\":%" PRId64 ",\"seconds\":", result->n_blocks,
                   result->n_bytes));
    TRY(json_write_double(out, (double)result->took_ns * 1e-9));
    if (result->error.code != STATUS_OK) {
        TRY(buf_add_text(out, ",\"error\":"));
        TRY(json_write_cstring(out, result->error.text));
    }
    return buf_add_char(out, '}');
}

static void reply_out(struct cache_routes *r, struct http_exchange *ex, enum status s)
{
    if (s == STATUS_OK)
        http_reply(ex, 200, HTTP_JSON, r->out.data, r->out.len);
    else
        api_error_reply(ex, &(struct api_error){ .status = 500, .message = "no memory for the reply" });
    buf_reset(&r->out);
}

void cache_routes_on_wake(struct cache_routes *r)
{
    struct http_exchange *ex = r->waiting;
    if (r->saver == NULL || !cache_saver_poll(r->saver, &r->last))
        return;
    r->has_saved = 1;
    r->waiting = NULL;
    if (r->last.error.code == STATUS_OK)
        log_info("cache saved blocks=%" PRId64 " bytes=%" PRId64 " dir=%s", r->last.n_blocks, r->last.n_bytes,
                 r->options.save_dir);
    else
        log_warn("cache not saved reason=\"%s\"", r->last.error.text);
    if (ex == NULL)
        return;
    if (r->last.error.code == STATUS_OK)
        reply_out(r, ex, write_result(&r->out, &r->last));
    else
        api_error_reply_failure(ex, &r->last.error, NULL, NULL);
}

/* ---- what there is ---- */

static enum status write_cache(struct cache_routes *r, struct buf *out)
{
    struct engine_state e;
    engine_read_state(r->options.engine, &e);
    TRY(buf_printf(out, "{\"block_size\":%d,\"blocks\":{\"total\":%d,\"free\":%d,\"reusable\":%d,\"used\":%d}",
                   model_options(r->options.model)->block_size, e.n_blocks, e.n_free_blocks, e.n_cached_blocks,
                   e.n_blocks - e.n_free_blocks - e.n_cached_blocks));
    TRY(buf_printf(out, ",\"restored_blocks\":%d,\"can_save\":%s,\"is_saving\":%s,\"last_save\":", r->n_restored,
                   r->saver != NULL ? "true" : "false",
                   r->saver != NULL && cache_saver_is_busy(r->saver) ? "true" : "false"));
    TRY(r->has_saved ? write_result(out, &r->last) : buf_add_text(out, "null"));
    return buf_add_char(out, '}');
}

static void handle_read(void *api, struct http_exchange *ex)
{
    struct cache_routes *r = api_more_context(api);
    reply_out(r, ex, write_cache(r, &r->out));
}

#define SAVE(path) \
    { .route = { .methods = ROUTE_POST, .pattern = path, .handle = handle_save }, \
      .summary = "Write all reusable prefixes to --cache-dir", .content = HTTP_JSON }
#define READ(path) \
    { .route = { .methods = ROUTE_GET, .pattern = path, .handle = handle_read }, \
      .summary = "Blocks of the cache, what was restored and saved", .content = HTTP_JSON }

const struct api_route *cache_routes_table(size_t *n)
{
    static const struct api_route rows[] = {
        SAVE("/v1/cache/save"), SAVE("/cache/save"), READ("/v1/cache"), READ("/cache"),
    };
    *n = sizeof rows / sizeof rows[0];
    return rows;
}
