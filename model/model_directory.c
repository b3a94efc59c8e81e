#include "model/model_directory.h"

#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_COPY_BYTES ((size_t)256 << 20)

void model_directory_path(const char *dir, const char *name, char out[4096])
{
    snprintf(out, 4096, "%s/%s", dir, name);
}

enum status model_directory_prepare(const char *dir, struct error *err)
{
    static const char *const signs[] = { "config.json", "model.safetensors", "model.safetensors.index.json" };
    if (strlen(dir) > MODEL_DIRECTORY_MAX_NAME)
        return fail(err, STATUS_BAD_OPTION, "the name of the directory has %zu bytes, limit %d", strlen(dir),
                    MODEL_DIRECTORY_MAX_NAME);
    if (mkdir(dir, 0755) != 0 && errno != EEXIST)
        return fail(err, STATUS_IO, "%.200s cannot be made: %s", dir, strerror(errno));
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        char path[4096];
        model_directory_path(dir, signs[i], path);
        if (file_exists(path))
            return fail(err, STATUS_BAD_OPTION, "%.200s holds a model already (%s)", dir, signs[i]);
    }
    return STATUS_OK;
}

enum status model_directory_write_json(const char *dir, const char *name, const json_t *content,
                                       struct error *err)
{
    char path[4096];
    model_directory_path(dir, name, path);
    char *text = json_dumps(content, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    if (text == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for %s", name);
    enum status s = file_replace(path, text, strlen(text), err);
    free(text);
    return s;
}

enum status model_directory_copy(const char *from, const char *to, const char *name, struct error *err)
{
    char source[4096], target[4096];
    model_directory_path(from, name, source);
    model_directory_path(to, name, target);
    if (!file_exists(source))
        return STATUS_OK;
    struct buf content;
    buf_init(&content, MAX_COPY_BYTES);
    enum status s = file_read(source, &content, err);
    if (s == STATUS_OK)
        s = file_replace(target, content.data, content.len, err);
    buf_clear(&content);
    return s;
}
