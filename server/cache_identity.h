/* cache_identity.h - what cached bytes depend on, as the text that a cache file carries (cache/cache_file.h).
 *
 *   program 0.1.0
 *   model 6e1f..            SHA-256 of config.json and of every tensor's name, type, shape and samples
 *   ranks 2                 and how a block lies on them
 *   cache_type bf16
 *   ..
 *
 * Blocks are used again only where every line is the same: then the bits are, too.
 *
 * Threads: any.  Memory: none is kept.
 */
#ifndef SERVER_CACHE_IDENTITY_H
#define SERVER_CACHE_IDENTITY_H

#include "base/buf.h"
#include "model/model.h"

/* Append the text, 0-terminated.  model was loaded from dir, whose files are still
 * there; reuse_generated as in prefix_cache.h.
 * IO, BAD_MODEL: the files cannot be read again.  NO_MEMORY. */
MUST_CHECK enum status cache_identity_write(const struct model *model, const char *dir, int reuse_generated,
                                            struct buf *out, struct error *err);

#endif
