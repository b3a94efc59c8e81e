#include "model/weight_file.h"

#include "base/json_read.h"
#include "model/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define METADATA_NAME  "__metadata__"
#define LENGTH_BYTES   8            /* the u64 in front of the header */

/* ---- map, header, metadata ---- */

static enum status out_of_memory(struct error *err)
{
    return fail(err, STATUS_NO_MEMORY, "no memory for the list of tensors");
}

static uint64_t little_endian_64(const unsigned char *bytes)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static enum status map_file(struct weight_file *f, struct error *err)
{
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(err, STATUS_IO, "%.200s cannot be opened: %s", f->path, strerror(errno));
    struct stat info;
    enum status s = STATUS_OK;
    if (fstat(fd, &info) != 0)
        s = fail(err, STATUS_IO, "%.200s cannot be examined: %s", f->path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        s = fail(err, STATUS_BAD_MODEL, "%.200s is not a regular file", f->path);
    else if (info.st_size > 0) {        /* nothing cannot be mapped; read_header refuses it */
        f->size = (size_t)info.st_size;
        void *map = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            s = fail(err, STATUS_IO, "%.200s cannot be mapped: %s", f->path, strerror(errno));
        else
            f->bytes = f->map = map;
    }
    close(fd);
    return s;
}

enum status weight_file_parse_object(const char *path, const char *text, size_t len,
                                     json_t **out, struct error *err)
{
    json_error_t where;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL)
        return fail(err, STATUS_BAD_MODEL, "%.150s: the JSON text is not valid at byte %d: %s",
                    path, where.position, where.text);
    if (!json_is_object(root)) {
        enum status s = fail(err, STATUS_BAD_MODEL, "%.200s: expected a JSON object, got %s",
                             path, json_type_phrase(root));
        json_decref(root);
        return s;
    }
    *out = root;
    return STATUS_OK;
}

static enum status read_header(struct weight_file *f, json_t **out, struct error *err)
{
    if (f->size < LENGTH_BYTES + 2)
        return fail(err, STATUS_BAD_MODEL, "%.200s has %zu bytes, too few for a header", f->path, f->size);
    uint64_t n = little_endian_64(f->bytes);
    if (n > f->size - LENGTH_BYTES)
        return fail(err, STATUS_BAD_MODEL, "%.200s: header length %" PRIu64
                    " passes the end of a file of %zu bytes", f->path, n, f->size);
    if (n > SAFETENSORS_MAX_HEADER)
        return fail(err, STATUS_BAD_MODEL, "%.200s: header length %" PRIu64 ", limit %zu",
                    f->path, n, SAFETENSORS_MAX_HEADER);
    const char *text = (const char *)f->bytes + LENGTH_BYTES;
    if (n == 0 || text[0] != '{')
        return fail(err, STATUS_BAD_MODEL, "%.200s: the header does not start with '{'", f->path);
    f->data = f->bytes + LENGTH_BYTES + n;
    f->data_bytes = f->size - LENGTH_BYTES - (size_t)n;
    return weight_file_parse_object(f->path, text, (size_t)n, out, err);
}

static enum status keep_metadata(struct weight_file *f, json_t *metadata, struct error *err)
{
    if (!json_is_object(metadata))
        return fail(err, STATUS_BAD_MODEL, "%.200s: %s must be an object, got %s",
                    f->path, METADATA_NAME, json_type_phrase(metadata));
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return fail(err, STATUS_BAD_MODEL, "%.150s: %s '%.80s' must be a string, got %s",
                        f->path, METADATA_NAME, key, json_type_phrase(value));
    }
    f->metadata = json_incref(metadata);
    return STATUS_OK;
}

/* ---- one tensor ---- */

static enum status bad_tensor(const struct weight_file *f, const char *name, const char *why,
                              struct error *err)
{
    return fail(err, STATUS_BAD_MODEL, "%.110s: tensor '%.80s' %s", f->path, name, why);
}

/* A non-negative integer; anything else (a real, a string, -1) is refused. */
static int as_size(const json_t *value, int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return 0;
    *out = json_integer_value(value);
    return 1;
}

static enum status read_shape(const struct weight_file *f, const json_t *entry, struct tensor *t,
                              struct error *err)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return bad_tensor(f, t->name, "has no 'shape' array", err);
    if (json_array_size(shape) > TENSOR_MAX_DIMS)
        return fail(err, STATUS_BAD_MODEL, "%.110s: tensor '%.80s' has %zu dimensions, limit %d",
                    f->path, t->name, json_array_size(shape), TENSOR_MAX_DIMS);
    t->n_dims = (int)json_array_size(shape);
    for (int i = 0; i < t->n_dims; i++) {
        if (!as_size(json_array_get(shape, (size_t)i), &t->dims[i]))
            return bad_tensor(f, t->name, "has a dimension that is not an integer of 0 or more", err);
    }
    if (!tensor_shape_size(t->dims, t->n_dims, t->dtype, &t->n_elements, &t->bytes))
        return bad_tensor(f, t->name, "has a shape whose size does not fit in 63 bits", err);
    return STATUS_OK;
}

static enum status read_range(const struct weight_file *f, const json_t *entry, struct tensor *t,
                              struct error *err)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    int64_t begin = 0, end = 0;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !as_size(json_array_get(offsets, 0), &begin) || !as_size(json_array_get(offsets, 1), &end))
        return bad_tensor(f, t->name, "must have 'data_offsets' of exactly two integers of 0 or more", err);
    if (begin > end || (uint64_t)end > f->data_bytes)
        return fail(err, STATUS_BAD_MODEL, "%.100s: tensor '%.80s' has data_offsets [%" PRId64 ", %" PRId64
                    "], the data section has %zu bytes", f->path, t->name, begin, end, f->data_bytes);
    if ((size_t)(end - begin) != t->bytes)
        return fail(err, STATUS_BAD_MODEL, "%.100s: tensor '%.80s' has %" PRId64 " bytes of data, "
                    "its shape and dtype need %zu", f->path, t->name, end - begin, t->bytes);
    t->data = f->data + begin;
    return STATUS_OK;
}

static enum status read_tensor(const struct weight_file *f, const char *name, const json_t *entry,
                               struct tensor *t, struct error *err)
{
    *t = (struct tensor){ .name = name, .file = f->path };
    if (!json_is_object(entry))
        return bad_tensor(f, name, "is not described by an object", err);
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    if (type == NULL)
        return bad_tensor(f, name, "has no 'dtype' string", err);
    if (!dtype_find(type, &t->dtype))
        return fail(err, STATUS_BAD_MODEL, "%.100s: tensor '%.80s' has the unknown dtype '%.20s'",
                    f->path, name, type);
    TRY(read_shape(f, entry, t, err));
    return read_range(f, entry, t, err);
}

/* ---- all tensors of one file ---- */

static int by_place(const void *left, const void *right)
{
    const struct tensor *a = left, *b = right;
    uintptr_t begin_a = (uintptr_t)a->data, begin_b = (uintptr_t)b->data;
    if (begin_a != begin_b)
        return begin_a < begin_b ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Sorted by place, each tensor starts where the one before ends. */
static enum status check_tiling(struct weight_file *f, struct error *err)
{
    if (f->n_tensors > 0)
        qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_place);
    const unsigned char *end = f->data;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct tensor *t = &f->tensors[i];
        const unsigned char *begin = t->data;
        if (begin != end)
            return bad_tensor(f, t->name, begin < end ? "overlaps another tensor"
                                                      : "follows a hole in the data", err);
        end = begin + t->bytes;
    }
    if (end != f->data + f->data_bytes)
        return fail(err, STATUS_BAD_MODEL, "%.200s: %zu bytes of data belong to no tensor",
                    f->path, (size_t)(f->data + f->data_bytes - end));
    return STATUS_OK;
}

static enum status read_entries(struct weight_file *f, json_t *header, struct error *err)
{
    size_t n = json_object_size(header);
    f->tensors = calloc(n > 0 ? n : 1, sizeof *f->tensors);
    if (f->tensors == NULL)
        return out_of_memory(err);
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, METADATA_NAME) == 0) {
            TRY(keep_metadata(f, entry, err));
            continue;
        }
        struct tensor t;
        TRY(read_tensor(f, name, entry, &t, err));
        t.name = strdup(name);
        if (t.name == NULL)
            return out_of_memory(err);
        f->tensors[f->n_tensors++] = t;
    }
    return check_tiling(f, err);
}

static enum status read_file(struct weight_file *f, struct error *err)
{
    json_t *header = NULL;
    TRY(read_header(f, &header, err));
    enum status s = read_entries(f, header, err);
    json_decref(header);
    return s;
}

enum status weight_file_open(struct weight_file *f, const char *path, struct error *err)
{
    f->path = strdup(path);
    if (f->path == NULL)
        return out_of_memory(err);
    TRY(map_file(f, err));
    return read_file(f, err);
}

enum status weight_file_open_memory(struct weight_file *f, const char *name, const void *bytes, size_t size,
                                    struct error *err)
{
    f->path = strdup(name);
    if (f->path == NULL)
        return out_of_memory(err);
    f->bytes = bytes;
    f->size = size;
    return read_file(f, err);
}

void weight_file_close(struct weight_file *f)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        free((char *)f->tensors[i].name);
    free(f->tensors);
    if (f->map != NULL)
        munmap(f->map, f->size);
    json_decref(f->metadata);
    free(f->path);
    *f = (struct weight_file){ 0 };
}
