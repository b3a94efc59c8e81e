#include "model/safetensors.h"

#include "base/file.h"
#include "base/json_read.h"
#include "model/weight_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SINGLE_NAME  "model.safetensors"
#define INDEX_NAME   "model.safetensors.index.json"

struct safetensors {
    char *path;
    struct weight_file *files;      /* own the names and the mappings */
    size_t n_files;
    struct tensor *tensors;         /* copies, in byte order of the names once open is done */
    size_t n_tensors;
};

static enum status out_of_memory(struct error *err)
{
    return fail(err, STATUS_NO_MEMORY, "no memory for the list of tensors");
}

/* ---- files ---- */

/* Add the tensors of a file to the set: all of them, or, with a weight map,
 * those that the map places in this very file. */
static enum status keep_tensors(struct safetensors *set, const struct weight_file *f, const char *short_name,
                                const json_t *weight_map, struct error *err)
{
    size_t room = set->n_tensors + f->n_tensors;
    struct tensor *tensors = reallocarray(set->tensors, room > 0 ? room : 1, sizeof *tensors);
    if (tensors == NULL)
        return out_of_memory(err);
    set->tensors = tensors;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const char *place = json_string_value(json_object_get(weight_map, f->tensors[i].name));
        if (weight_map == NULL || (place != NULL && strcmp(place, short_name) == 0))
            tensors[set->n_tensors++] = f->tensors[i];
    }
    return STATUS_OK;
}

/* The set has room in files.  dir NULL: name is a whole path. */
static enum status add_file(struct safetensors *set, const char *dir, const char *name,
                            const json_t *weight_map, struct error *err)
{
    char *path = NULL;
    if (asprintf(&path, "%s%s%s", dir == NULL ? "" : dir, dir == NULL ? "" : "/", name) < 0)
        return out_of_memory(err);
    struct weight_file *f = &set->files[set->n_files++];
    enum status s = weight_file_open(f, path, err);
    free(path);
    TRY(s);
    return keep_tensors(set, f, name, weight_map, err);
}

/* ---- a directory ---- */

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int is_plain_file_name(const char *name)
{
    return name[0] != '\0' && strcmp(name, ".") != 0 && strpbrk(name, "/\\") == NULL &&
           strstr(name, "..") == NULL;
}

/* The distinct file names of a weight map, sorted; strings belong to the map. */
static enum status list_files(const char *path, json_t *weight_map, const char **names,
                              size_t *n_names, struct error *err)
{
    const char *tensor;
    json_t *value;
    size_t n = 0;
    json_object_foreach(weight_map, tensor, value) {
        const char *name = json_string_value(value);
        if (name == NULL || !is_plain_file_name(name))
            return fail(err, STATUS_BAD_MODEL, "%.110s: the file of tensor '%.80s' must be "
                        "a plain file name, got %.60s", path, tensor,
                        name == NULL ? json_type_phrase(value) : name);
        names[n++] = name;
    }
    qsort(names, n, sizeof *names, by_text);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || strcmp(names[i], names[kept - 1]) != 0)
            names[kept++] = names[i];
    }
    *n_names = kept;
    if (kept > SAFETENSORS_MAX_FILES)
        return fail(err, STATUS_BAD_MODEL, "%.200s names %zu files, limit %d",
                    path, kept, SAFETENSORS_MAX_FILES);
    return STATUS_OK;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct tensor *)left)->name, ((const struct tensor *)right)->name);
}

static void sort_names(struct safetensors *set)
{
    if (set->n_tensors > 0)
        qsort(set->tensors, set->n_tensors, sizeof *set->tensors, by_name);
}

static enum status add_shards(struct safetensors *set, const char *path, json_t *weight_map,
                              struct error *err)
{
    size_t n_names = json_object_size(weight_map);
    if (n_names == 0)
        return fail(err, STATUS_BAD_MODEL, "%.200s: the weight_map is empty", path);
    const char **names = calloc(n_names, sizeof *names);
    if (names == NULL)
        return out_of_memory(err);
    enum status s = list_files(path, weight_map, names, &n_names, err);
    if (s == STATUS_OK) {
        set->files = calloc(n_names, sizeof *set->files);
        s = set->files == NULL ? out_of_memory(err) : STATUS_OK;
    }
    for (size_t i = 0; s == STATUS_OK && i < n_names; i++)
        s = add_file(set, set->path, names[i], weight_map, err);
    free(names);
    TRY(s);
    sort_names(set);
    const char *tensor;
    json_t *value;
    json_object_foreach(weight_map, tensor, value) {
        if (safetensors_find(set, tensor) == NULL)
            return fail(err, STATUS_BAD_MODEL, "%.110s: tensor '%.80s' is not in %.80s, "
                        "the file the index names", path, tensor, json_string_value(value));
    }
    return STATUS_OK;
}

static enum status open_index(struct safetensors *set, const char *path, struct error *err)
{
    struct buf text;
    buf_init(&text, SAFETENSORS_MAX_HEADER);
    enum status s = file_read(path, &text, err);
    if (s == STATUS_TOO_LARGE)
        s = fail(err, STATUS_BAD_MODEL, "%.200s is larger than %zu bytes", path, SAFETENSORS_MAX_HEADER);
    json_t *index = NULL;
    if (s == STATUS_OK)
        s = weight_file_parse_object(path, text.data == NULL ? "" : text.data, text.len, &index, err);
    buf_clear(&text);
    TRY(s);
    json_t *weight_map = json_object_get(index, "weight_map");
    if (json_is_object(weight_map))
        s = add_shards(set, path, weight_map, err);
    else
        s = fail(err, STATUS_BAD_MODEL, "%.200s: there is no 'weight_map' object", path);
    json_decref(index);
    return s;
}

static enum status open_single(struct safetensors *set, const char *dir, const char *name, struct error *err)
{
    set->files = calloc(1, sizeof *set->files);
    if (set->files == NULL)
        return out_of_memory(err);
    TRY(add_file(set, dir, name, NULL, err));
    sort_names(set);
    return STATUS_OK;
}

static enum status open_directory(struct safetensors *set, struct error *err)
{
    char *single = NULL, *index = NULL;
    enum status s;
    if (asprintf(&single, "%s/%s", set->path, SINGLE_NAME) < 0) {
        single = NULL;
        s = out_of_memory(err);
    } else if (asprintf(&index, "%s/%s", set->path, INDEX_NAME) < 0) {
        index = NULL;
        s = out_of_memory(err);
    } else if (file_exists(single)) {
        s = open_single(set, set->path, SINGLE_NAME, err);
    } else if (file_exists(index)) {
        s = open_index(set, index, err);
    } else {
        s = fail(err, STATUS_NOT_FOUND, "%.200s has neither %s nor %s", set->path, SINGLE_NAME, INDEX_NAME);
    }
    free(single);
    free(index);
    return s;
}

static enum status open_bytes(struct safetensors *set, const void *bytes, size_t size, struct error *err)
{
    set->files = calloc(1, sizeof *set->files);
    if (set->files == NULL)
        return out_of_memory(err);
    set->n_files = 1;
    TRY(weight_file_open_memory(&set->files[0], set->path, bytes, size, err));
    TRY(keep_tensors(set, &set->files[0], set->path, NULL, err));
    sort_names(set);
    return STATUS_OK;
}

static struct safetensors *new_set(const char *path)
{
    struct safetensors *set = calloc(1, sizeof *set);
    if (set != NULL && (set->path = strdup(path)) == NULL) {
        free(set);
        set = NULL;
    }
    return set;
}

/* Hand over what was opened, or give it up. */
static enum status deliver(struct safetensors **out, struct safetensors *set, enum status s)
{
    if (s == STATUS_OK)
        *out = set;
    else
        safetensors_close(set);
    return s;
}

enum status safetensors_open(struct safetensors **out, const char *path, struct error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return fail(err, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO,
                    "%.200s cannot be opened: %s", path, strerror(errno));
    struct safetensors *set = new_set(path);
    if (set == NULL)
        return out_of_memory(err);
    int is_directory = S_ISDIR(info.st_mode);
    return deliver(out, set, is_directory ? open_directory(set, err) : open_single(set, NULL, path, err));
}

enum status safetensors_open_memory(struct safetensors **out, const char *name, const void *bytes,
                                    size_t size, struct error *err)
{
    struct safetensors *set = new_set(name);
    if (set == NULL)
        return out_of_memory(err);
    return deliver(out, set, open_bytes(set, bytes, size, err));
}

void safetensors_close(struct safetensors *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->n_files; i++)
        weight_file_close(&set->files[i]);
    free(set->tensors);
    free(set->files);
    free(set->path);
    free(set);
}

/* ---- reading ---- */

const struct tensor *safetensors_find(const struct safetensors *set, const char *name)
{
    if (set->n_tensors == 0)
        return NULL;
    struct tensor key = { .name = name };
    return bsearch(&key, set->tensors, set->n_tensors, sizeof key, by_name);
}

enum status safetensors_need(const struct safetensors *set, const char *name,
                             const struct tensor **out, struct error *err)
{
    const struct tensor *t = safetensors_find(set, name);
    if (t == NULL)
        return fail(err, STATUS_BAD_MODEL, "%.150s has no tensor '%.100s'", set->path, name);
    *out = t;
    return STATUS_OK;
}

size_t safetensors_count(const struct safetensors *set)
{
    return set->n_tensors;
}

const struct tensor *safetensors_at(const struct safetensors *set, size_t i)
{
    return &set->tensors[i];
}

const char *safetensors_metadata(const struct safetensors *set, const char *key)
{
    for (size_t i = 0; i < set->n_files; i++) {
        const char *value = json_string_value(json_object_get(set->files[i].metadata, key));
        if (value != NULL)
            return value;
    }
    return NULL;
}
