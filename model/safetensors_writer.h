/* safetensors_writer.h - writes one safetensors file, tensor after tensor, so
 * that a model larger than memory can be written.
 *
 * The shapes come first (the header precedes the data in the file), then the
 * bytes, in any piece sizes, in the order of the shapes:
 *
 *     TRY(safetensors_writer_open(&w, &plan, err));
 *     TRY(safetensors_writer_add(w, bytes, n, err));      ... as often as needed
 *     TRY(safetensors_writer_close(w, err));              or _abandon(w)
 *
 * Data go to a temporary file beside the target, which takes the target's name
 * in close: a reader sees the old file or the whole new one.  The data section
 * starts at a multiple of 64 bytes, so a tensor whose predecessors have whole
 * 64-byte sizes is aligned for every element type.
 *
 * Owner: the caller; no locking.  Memory: the header text and one stdio buffer.
 */
#ifndef MODEL_SAFETENSORS_WRITER_H
#define MODEL_SAFETENSORS_WRITER_H

#include "model/tensor.h"

struct safetensors_pair {           /* one entry of __metadata__ */
    const char *key, *value;        /* UTF-8 */
};

struct safetensors_plan {
    const char *path;
    const struct tensor *tensors;   /* name, dtype, n_dims, dims are read; data only by _write */
    size_t n_tensors;
    const struct safetensors_pair *metadata;    /* NULL allowed if n_metadata is 0 */
    size_t n_metadata;
};

struct safetensors_writer;          /* opaque */

/* Write the header.  BAD_REQUEST: a name is empty, "__metadata__" or used twice,
 * or a shape overflows.  TOO_LARGE: the header passes what the reader accepts.
 * IO, NO_MEMORY.  On failure nothing is left on disk. */
MUST_CHECK enum status safetensors_writer_open(struct safetensors_writer **out,
                                               const struct safetensors_plan *plan, struct error *err);

/* Append n bytes.  BAD_REQUEST: more than the shapes promised.  IO. */
MUST_CHECK enum status safetensors_writer_add(struct safetensors_writer *w,
                                              const void *bytes, size_t n, struct error *err);

/* Finish: fsync, rename, free.  BAD_REQUEST: fewer bytes than promised.  IO.
 * w is freed in every case; after a failure the target is as it was. */
MUST_CHECK enum status safetensors_writer_close(struct safetensors_writer *w, struct error *err);

/* Give up: free, remove the temporary file.  NULL is allowed. */
void safetensors_writer_abandon(struct safetensors_writer *w);

/* Everything at once, from tensors[i].data. */
MUST_CHECK enum status safetensors_write(const struct safetensors_plan *plan, struct error *err);

#endif
