/* cache_routes.h - saving the prefix cache, over HTTP and at the start.
 *
 *   POST /v1/cache/save   write all reusable prefixes to --cache-dir; the reply comes when they are on the disk:
 *                         {"blocks":12,"bytes":123456,"seconds":0.02}
 *   GET  /v1/cache        blocks in use, what was restored, the save under way and the last one
 *
 * Where a file goes is the operator's choice alone: no request names a path.
 *
 * Owner: the loop thread, but for feed.  Memory: at create.
 */
#ifndef SERVER_CACHE_ROUTES_H
#define SERVER_CACHE_ROUTES_H

#include "server/engine.h"
#include "server/api_route.h"

struct cache_routes;            /* opaque */

struct cache_routes_options {
    struct model *model;
    struct engine *engine;      /* created, not started */
    const char *identity;       /* cache_identity.h; outlives the routes */
    const char *save_dir;       /* "": saving is refused */
    const char *restore_dir;    /* "": nothing is restored */
    void (*on_done)(void *context);     /* any thread: call cache_routes_on_wake on the loop's soon */
    void *context;
};

/* Restores, too; a file that is refused is a warning in the log, not a failure.
 * BAD_OPTION: save_dir cannot be written.  NO_MEMORY. */
MUST_CHECK enum status cache_routes_create(struct cache_routes **out, const struct cache_routes_options *options,
                                           struct error *err);
/* The engine and the HTTP server have ended.  NULL is allowed. */
void cache_routes_destroy(struct cache_routes *routes);

/* For api_options.more_routes; the handlers find the routes in api_more_context. */
const struct api_route *cache_routes_table(size_t *n);

/* For engine_options.between_steps: engine thread. */
int cache_routes_feed(struct cache_routes *routes, struct engine *engine);

/* Answer the save that has ended, if one has. */
void cache_routes_on_wake(struct cache_routes *routes);

#endif
