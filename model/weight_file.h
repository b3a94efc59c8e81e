/* weight_file.h - one safetensors file: mapped, parsed, checked.
 *
 * safetensors.h states the layout and the rules; this is the part of it that
 * knows a single file.  After weight_file_open the tensors tile the data
 * section, in the order of their bytes, and their names belong to the file.
 *
 * Owner: the struct safetensors that holds it.  Memory: the mapping, the array
 * of tensors, the names, the metadata; all freed by weight_file_close.
 */
#ifndef MODEL_WEIGHT_FILE_H
#define MODEL_WEIGHT_FILE_H

#include "model/tensor.h"

#include <jansson.h>

struct weight_file {
    char *path;
    void *map;                      /* to unmap, or NULL */
    const unsigned char *bytes;     /* the whole file */
    size_t size;                    /* of the file when it was mapped */
    const unsigned char *data;      /* the data section, inside bytes */
    size_t data_bytes;
    struct tensor *tensors;
    size_t n_tensors;
    json_t *metadata;               /* string -> string, or NULL */
};

/* f is zeroed.  Close it after a failure too: what was made so far stays in f.
 * IO, BAD_MODEL, NO_MEMORY as safetensors_open. */
MUST_CHECK enum status weight_file_open(struct weight_file *f, const char *path, struct error *err);

/* The same for bytes that are in memory already and outlive f; name is for sentences. */
MUST_CHECK enum status weight_file_open_memory(struct weight_file *f, const char *name, const void *bytes,
                                               size_t size, struct error *err);
void weight_file_close(struct weight_file *f);

/* JSON text from a file as one object without double names; BAD_MODEL names
 * path.  The caller gives *out to json_decref. */
MUST_CHECK enum status weight_file_parse_object(const char *path, const char *text, size_t len,
                                                json_t **out, struct error *err);

#endif
