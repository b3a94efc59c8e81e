/* cache_save.h - writes the reusable prefixes to a file while the server goes on.
 *
 *   loop thread          engine thread, between steps        writer thread
 *   start  ----------->  feed: a few blocks into      --->   checksum, write,
 *   poll   <------------      empty buffers           <---   fsync, rename
 *
 * The engine only copies memory, at most SAVE_BUFFERS blocks between two steps, and
 * never waits for the disk.  Parents go before their children.  A block that was
 * evicted before its turn is left out, with all that follow it; one that was
 * written and evicted later is in the file, and is right: what is written says
 * which tokens it is for.  Private prefixes (prefix_cache.h) are left out.
 *
 * Memory: the buffers and 16 bytes for each cache block, at create.
 */
#ifndef SERVER_CACHE_SAVE_H
#define SERVER_CACHE_SAVE_H

#include "cache/cache_file.h"
#include "server/engine.h"

struct cache_saver;             /* opaque */

enum { SAVE_BUFFERS = 4 };

struct cache_saver_options {
    const struct model *model;
    const char *dir;
    struct cache_file_shape shape;
    void (*on_done)(void *context);     /* called by the writer thread */
    void *context;
};

MUST_CHECK enum status cache_saver_create(struct cache_saver **out, const struct cache_saver_options *options,
                                          struct error *err);

/* The engine has ended; a save that is under way is given up.  NULL is allowed. */
void cache_saver_destroy(struct cache_saver *saver);

/* Loop thread; nudge the engine afterwards.
 * BUSY: a save is under way.  The failures of cache_file_writer_open. */
MUST_CHECK enum status cache_saver_start(struct cache_saver *saver, struct error *err);
int cache_saver_is_busy(const struct cache_saver *saver);

/* Engine thread, for engine_options.between_steps: 1 while there is more to do. */
int cache_saver_feed(struct cache_saver *saver, struct engine *engine);

struct cache_save_result {
    struct error error;         /* code OK: saved */
    int64_t n_blocks;
    int64_t n_bytes;            /* of the records */
    int64_t took_ns;
};

/* Loop thread.  1, once for each start: the save has ended, *out says how. */
int cache_saver_poll(struct cache_saver *saver, struct cache_save_result *out);

#endif
