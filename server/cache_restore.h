/* cache_restore.h - reusable prefixes from a file of cache_save.h, into an engine that has not started.
 *
 * All or nothing: a file that does not fit, or is damaged anywhere in what is read,
 * leaves the cache empty.  Of a file with more blocks than there is room for, the
 * first ones are taken; they are whole chains.
 *
 * Threads: the one that starts the program.  Memory: one record while it reads.
 */
#ifndef SERVER_CACHE_RESTORE_H
#define SERVER_CACHE_RESTORE_H

#include "cache/cache_file.h"
#include "server/engine.h"

struct cache_restore_options {
    const char *dir;
    struct cache_file_shape shape;
    struct model *model;
    struct engine *engine;      /* created, not started */
};

/* *n_blocks are there now.  NOT_FOUND: no file.  BAD_OPTION: there is no prefix
 * cache.  BAD_MODEL, IO, NO_MEMORY as cache_file.h; the cache is empty then. */
MUST_CHECK enum status cache_restore(const struct cache_restore_options *options, int32_t *n_blocks,
                                     struct error *err);

#endif
