/* safetensors.h - the tensors of a weight file, or of a directory of them,
 * mapped into memory and checked before anyone sees them.
 *
 *   file:   [ N: u64 LE ][ JSON header, N bytes, ' ' padded ][ data ........ ]
 *                          {"a": {"dtype": "F32",              |<- offsets are
 *                                 "shape": [2, 3],             |   relative to
 *                                 "data_offsets": [0, 24]},    |   this byte
 *                           "__metadata__": {"kind": "mla"}}
 *
 *   directory:  model.safetensors, or else model.safetensors.index.json whose
 *               weight_map says which file of the same directory has a tensor.
 *
 * Nothing in a file is believed.  Open refuses it with BAD_MODEL unless
 *   - N fits in the file and in SAFETENSORS_MAX_HEADER (32 MiB; the format
 *     allows 100 MB, but 32 MiB already name about 250 000 tensors), and the
 *     header is one JSON object, starts with '{' and has no name twice;
 *   - every dtype is one of tensor.h, every shape at most TENSOR_MAX_DIMS
 *     non-negative integers whose product does not overflow;
 *   - data_offsets are two integers, begin <= end <= size of the data section,
 *     end - begin is exactly the bytes of the shape;
 *   - the tensors tile the data section: no overlap, no hole, no rest (the
 *     format's own rule; zero-size tensors are allowed);
 *   - __metadata__ maps strings to strings;
 *   - a weight_map names plain files (no '/', no '\', no ".."), and each tensor
 *     is in the file it names.  A tensor that a shard has and the map does not
 *     list is ignored; "metadata" of the index is not read.
 * A file name may be a symbolic link to elsewhere: model caches are built so.
 *
 * Sizes are taken by fstat when the file is mapped.  A file that is truncated
 * in place while it is mapped raises SIGBUS on the next access of the missing
 * pages, as for every mapped file: replace weights by rename, never in place.
 *
 * Threads: open and close by one; everything else is read-only and safe from any.
 * Memory:  the mappings, one array of struct tensor, the names.  All live until
 *          safetensors_close; pointers into the set die with it.
 */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include "model/tensor.h"

#define SAFETENSORS_MAX_HEADER ((size_t)32 << 20)
#define SAFETENSORS_MAX_FILES  4096

struct safetensors;         /* opaque */

/* path is a file or a directory.  The caller gives *out to safetensors_close.
 * NOT_FOUND: no such path, or a directory without weights.
 * IO: cannot be read or mapped.  BAD_MODEL: a rule above is broken; the sentence
 * names file, tensor, expected and got.  NO_MEMORY.  *out is untouched on failure. */
MUST_CHECK enum status safetensors_open(struct safetensors **out, const char *path, struct error *err);
void safetensors_close(struct safetensors *set);    /* NULL is allowed */

/* One file that is in memory already (the embedded demo model); the bytes outlive
 * the set.  name stands for the path in sentences and in tensor.file. */
MUST_CHECK enum status safetensors_open_memory(struct safetensors **out, const char *name, const void *bytes,
                                               size_t size, struct error *err);

/* O(log n); NULL if there is no such tensor. */
const struct tensor *safetensors_find(const struct safetensors *set, const char *name);

/* As find, but a missing tensor is BAD_MODEL with a sentence naming it and the set. */
MUST_CHECK enum status safetensors_need(const struct safetensors *set, const char *name,
                                        const struct tensor **out, struct error *err);

/* Iteration in byte order of the names: 0 <= i < count. */
size_t safetensors_count(const struct safetensors *set);
const struct tensor *safetensors_at(const struct safetensors *set, size_t i);

/* Value of __metadata__[key], or NULL.  Of several files, the first in byte
 * order of file names that has the key answers. */
const char *safetensors_metadata(const struct safetensors *set, const char *key);

#endif
