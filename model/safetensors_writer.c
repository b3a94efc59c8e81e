#include "model/safetensors_writer.h"

#include "base/buf.h"
#include "base/json_write.h"
#include "model/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH_BYTES 8              /* the u64 in front of the header */
#define DATA_ALIGNMENT 64

struct safetensors_writer {
    FILE *file;
    char *path, *temporary;
    uint64_t promised, written;     /* bytes of the data section */
};

static enum status refused(const struct safetensors_writer *w, const char *what, struct error *err)
{
    return fail(err, STATUS_IO, "%.200s cannot be %s: %s", w->path, what, strerror(errno));
}

/* ---- the header text ---- */

static enum status add_metadata(struct buf *out, const struct safetensors_plan *plan)
{
    TRY(buf_add_text(out, "\"__metadata__\":{"));
    for (size_t i = 0; i < plan->n_metadata; i++) {
        if (i > 0)
            TRY(buf_add_char(out, ','));
        TRY(json_write_cstring(out, plan->metadata[i].key));
        TRY(buf_add_char(out, ':'));
        TRY(json_write_cstring(out, plan->metadata[i].value));
    }
    return buf_add_char(out, '}');
}

static enum status add_tensor(struct buf *out, const struct tensor *t, uint64_t begin, uint64_t end)
{
    TRY(json_write_cstring(out, t->name));
    TRY(buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(t->dtype)));
    for (int i = 0; i < t->n_dims; i++)
        TRY(buf_printf(out, "%s%" PRId64, i == 0 ? "" : ",", t->dims[i]));
    return buf_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

static enum status add_tensors(struct buf *out, const struct safetensors_plan *plan,
                               uint64_t *total, struct error *err)
{
    uint64_t place = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const struct tensor *t = &plan->tensors[i];
        int64_t n_elements;
        size_t bytes;
        if (!tensor_shape_size(t->dims, t->n_dims, t->dtype, &n_elements, &bytes) ||
            place + bytes > (uint64_t)INT64_MAX)
            return fail(err, STATUS_BAD_REQUEST, "tensor '%.80s' is too large to be written", t->name);
        if (i > 0 || plan->n_metadata > 0)
            TRY(buf_add_char(out, ','));
        TRY(add_tensor(out, t, place, place + bytes));
        place += bytes;
    }
    *total = place;
    return STATUS_OK;
}

static enum status make_header(struct buf *out, const struct safetensors_plan *plan,
                               uint64_t *total, struct error *err)
{
    TRY(buf_add_char(out, '{'));
    if (plan->n_metadata > 0)
        TRY(add_metadata(out, plan));
    TRY(add_tensors(out, plan, total, err));
    TRY(buf_add_char(out, '}'));
    while ((out->len + LENGTH_BYTES) % DATA_ALIGNMENT != 0)
        TRY(buf_add_char(out, ' '));
    return STATUS_OK;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static enum status check_names(const struct safetensors_plan *plan, struct error *err)
{
    if (plan->n_tensors == 0)
        return STATUS_OK;
    const char **names = calloc(plan->n_tensors, sizeof *names);
    if (names == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for %zu tensor names", plan->n_tensors);
    for (size_t i = 0; i < plan->n_tensors; i++)
        names[i] = plan->tensors[i].name;
    qsort(names, plan->n_tensors, sizeof *names, by_text);
    enum status s = STATUS_OK;
    for (size_t i = 0; s == STATUS_OK && i < plan->n_tensors; i++) {
        if (names[i][0] == '\0' || strcmp(names[i], "__metadata__") == 0)
            s = fail(err, STATUS_BAD_REQUEST, "'%s' cannot be the name of a tensor", names[i]);
        else if (i > 0 && strcmp(names[i], names[i - 1]) == 0)
            s = fail(err, STATUS_BAD_REQUEST, "two tensors have the name '%.80s'", names[i]);
    }
    free(names);
    return s;
}

static enum status write_header(struct safetensors_writer *w, const struct safetensors_plan *plan,
                                struct error *err)
{
    struct buf header;
    buf_init(&header, SAFETENSORS_MAX_HEADER);
    enum status s = make_header(&header, plan, &w->promised, err);
    if (s == STATUS_TOO_LARGE)
        s = fail(err, s, "the header of %.200s passes %zu bytes", plan->path, SAFETENSORS_MAX_HEADER);
    else if (s == STATUS_NO_MEMORY)
        s = fail(err, s, "no memory for the header of %.200s", plan->path);
    unsigned char length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)((uint64_t)header.len >> (8 * i));
    if (s == STATUS_OK && (fwrite(length, 1, sizeof length, w->file) != sizeof length ||
                           fwrite(header.data, 1, header.len, w->file) != header.len))
        s = refused(w, "written", err);
    buf_clear(&header);
    return s;
}

/* ---- the file ---- */

static void writer_free(struct safetensors_writer *w)
{
    if (w->file != NULL)
        fclose(w->file);
    free(w->path);
    free(w->temporary);
    free(w);
}

static enum status open_temporary(struct safetensors_writer *w, struct error *err)
{
    int fd = mkostemp(w->temporary, O_CLOEXEC);
    if (fd < 0)
        return refused(w, "created", err);
    /* mkostemp makes the file private; weights are read by others. */
    if (fchmod(fd, 0644) == 0)
        w->file = fdopen(fd, "wb");
    if (w->file != NULL)
        return STATUS_OK;
    enum status s = refused(w, "created", err);
    close(fd);
    unlink(w->temporary);
    return s;
}

enum status safetensors_writer_open(struct safetensors_writer **out, const struct safetensors_plan *plan,
                                    struct error *err)
{
    TRY(check_names(plan, err));
    struct safetensors_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to write %.200s", plan->path);
    w->path = strdup(plan->path);
    if (asprintf(&w->temporary, "%s.XXXXXX", plan->path) < 0)
        w->temporary = NULL;
    enum status s;
    if (w->path == NULL || w->temporary == NULL)
        s = fail(err, STATUS_NO_MEMORY, "no memory to write %.200s", plan->path);
    else
        s = open_temporary(w, err);
    if (s != STATUS_OK) {
        writer_free(w);
        return s;
    }
    s = write_header(w, plan, err);
    if (s != STATUS_OK) {
        safetensors_writer_abandon(w);
        return s;
    }
    *out = w;
    return STATUS_OK;
}

enum status safetensors_writer_add(struct safetensors_writer *w, const void *bytes, size_t n,
                                   struct error *err)
{
    if (n > w->promised - w->written)
        return fail(err, STATUS_BAD_REQUEST, "%.150s: the shapes promise %" PRIu64
                    " bytes of data, got at least %" PRIu64, w->path, w->promised, w->written + n);
    if (n > 0 && fwrite(bytes, 1, n, w->file) != n)
        return refused(w, "written", err);
    w->written += n;
    return STATUS_OK;
}

static enum status finish(struct safetensors_writer *w, struct error *err)
{
    if (w->written != w->promised)
        return fail(err, STATUS_BAD_REQUEST, "%.150s: the shapes promise %" PRIu64
                    " bytes of data, got %" PRIu64, w->path, w->promised, w->written);
    if (fflush(w->file) != 0 || fsync(fileno(w->file)) != 0)
        return refused(w, "written", err);
    FILE *file = w->file;
    w->file = NULL;
    if (fclose(file) != 0)
        return refused(w, "written", err);
    if (rename(w->temporary, w->path) != 0)
        return refused(w, "replaced", err);
    return STATUS_OK;
}

enum status safetensors_writer_close(struct safetensors_writer *w, struct error *err)
{
    enum status s = finish(w, err);
    if (s != STATUS_OK)
        unlink(w->temporary);
    writer_free(w);
    return s;
}

void safetensors_writer_abandon(struct safetensors_writer *w)
{
    if (w == NULL)
        return;
    unlink(w->temporary);
    writer_free(w);
}

enum status safetensors_write(const struct safetensors_plan *plan, struct error *err)
{
    struct safetensors_writer *w = NULL;
    TRY(safetensors_writer_open(&w, plan, err));
    for (size_t i = 0; i < plan->n_tensors; i++) {
        enum status s = safetensors_writer_add(w, plan->tensors[i].data, plan->tensors[i].bytes, err);
        if (s != STATUS_OK) {
            safetensors_writer_abandon(w);
            return s;
        }
    }
    return safetensors_writer_close(w, err);
}
