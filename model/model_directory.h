/* model_directory.h - a directory that a model is about to be written into.
 *
 * Somebody's model is never written over: prepare refuses a directory that holds
 * one.  Whoever writes puts config.json last, so that a directory whose writing was
 * interrupted is not taken for a model.
 *
 * Threads: any.  Memory: none kept.
 */
#ifndef MODEL_MODEL_DIRECTORY_H
#define MODEL_MODEL_DIRECTORY_H

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

enum { MODEL_DIRECTORY_MAX_NAME = 4000 };       /* bytes of dir: names of files come behind it */

/* Make dir if it is not there (its parent must be).
 * BAD_OPTION: it holds config.json or weights, or its name is too long.  IO. */
MUST_CHECK enum status model_directory_prepare(const char *dir, struct error *err);

/* dir/name with this content, indented.  IO, NO_MEMORY. */
MUST_CHECK enum status model_directory_write_json(const char *dir, const char *name, const json_t *content,
                                                  struct error *err);

/* The file of that name in `from`, if there is one, to `to`.  IO; TOO_LARGE: past 256 MiB. */
MUST_CHECK enum status model_directory_copy(const char *from, const char *to, const char *name,
                                            struct error *err);

/* dir/name into out. */
void model_directory_path(const char *dir, const char *name, char out[4096]);

#endif
