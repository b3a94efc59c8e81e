#include "cache/cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 2, MAX_IDENTITY = 65536, MAX_PATH = 4096 };

static const char magic_begin[8] = "latentdC", magic_end[8] = "latentdE";

struct header {
    char magic[8];
    uint32_t version;
    uint32_t identity_bytes;
    int32_t block_size;
    uint32_t zero;
    uint64_t block_bytes;
    uint64_t checksum;          /* of the fields before, mixed with the identity's */
};

struct ending {
    char magic[8];
    uint64_t n_records;
    uint64_t checksum;
};

/* ---- checksums ---- */

static uint64_t header_checksum(const struct header *h, const char *identity)
{
    struct siphash_key key = { .k0 = siphash(&(struct siphash_key){ 0, 0 }, identity, h->identity_bytes) };
    return siphash(&key, h, offsetof(struct header, checksum));
}

/* Bound to the header and to the place in the file. */
static uint64_t piece_checksum(const struct header *h, uint64_t index, const void *bytes, size_t n)
{
    struct siphash_key key = { .k0 = h->checksum, .k1 = index };
    return siphash(&key, bytes, n);
}

static void fill_header(struct header *h, const struct cache_file_shape *shape)
{
    *h = (struct header){
        .version = VERSION, .identity_bytes = (uint32_t)strlen(shape->identity),
        .block_size = shape->block_size, .block_bytes = shape->block_bytes,
    };
    memcpy(h->magic, magic_begin, sizeof h->magic);
    h->checksum = header_checksum(h, shape->identity);
}

size_t cache_record_bytes(const struct cache_file_shape *shape)
{
    return sizeof(struct cache_record_head) + (size_t)shape->block_size * sizeof(int32_t) + shape->block_bytes;
}

static enum status make_path(char path[MAX_PATH], const char *dir, const char *suffix, struct error *err)
{
    int n = snprintf(path, MAX_PATH, "%s/%s%s", dir, CACHE_FILE_NAME, suffix);
    if (n < 0 || n >= MAX_PATH)
        return fail(err, STATUS_IO, "the path of the cache directory is longer than %d bytes", MAX_PATH - 40);
    return STATUS_OK;
}

/* ---- writing ---- */

struct cache_file_writer {
    struct cache_file_shape shape;
    struct header header;
    char dir[MAX_PATH], path[MAX_PATH], partial[MAX_PATH];
    int fd;                     /* of the partial file, locked */
    uint64_t n_records;
};

static enum status put(const struct cache_file_writer *w, const void *bytes, size_t n, struct error *err)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t done = write(w->fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return fail(err, STATUS_IO, "cannot write %s: %s", w->partial, strerror(errno));
        at += done;
        n -= (size_t)done;
    }
    return STATUS_OK;
}

/* The name still means the file that is open: while this process waited for
 * nothing but its turn, another may have finished the file and put it in its place,
 * and cutting that one off would be the loss this file promises not to have. */
static int is_still_partial(const struct cache_file_writer *w)
{
    struct stat open_file, named_file;
    return fstat(w->fd, &open_file) == 0 && stat(w->partial, &named_file) == 0
        && open_file.st_ino == named_file.st_ino && open_file.st_dev == named_file.st_dev;
}

/* The lock is taken before anything is cut off: another process may be writing. */
static enum status open_partial(struct cache_file_writer *w, struct error *err)
{
    w->fd = open(w->partial, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (w->fd < 0)
        return fail(err, STATUS_IO, "cannot create %s: %s", w->partial, strerror(errno));
    if (flock(w->fd, LOCK_EX | LOCK_NB) != 0 || !is_still_partial(w)) {
        close(w->fd);
        w->fd = -1;
        return fail(err, STATUS_BUSY, "another process is saving to %s", w->dir);
    }
    if (ftruncate(w->fd, 0) != 0)
        return fail(err, STATUS_IO, "cannot empty %s: %s", w->partial, strerror(errno));
    return STATUS_OK;
}

static enum status begin_file(struct cache_file_writer *w, const char *dir, struct error *err)
{
    TRY(make_path(w->path, dir, "", err));
    TRY(make_path(w->partial, dir, ".partial", err));
    memcpy(w->dir, dir, strlen(dir) + 1);
    if (strlen(w->shape.identity) > MAX_IDENTITY)
        return fail(err, STATUS_TOO_LARGE, "the identity of a cache file has at most %d bytes", MAX_IDENTITY);
    TRY(open_partial(w, err));
    fill_header(&w->header, &w->shape);
    TRY(put(w, &w->header, sizeof w->header, err));
    return put(w, w->shape.identity, w->header.identity_bytes, err);
}

enum status cache_file_writer_open(struct cache_file_writer **out, const char *dir,
                                   const struct cache_file_shape *shape, struct error *err)
{
    struct cache_file_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to write a cache file");
    w->shape = *shape;
    w->fd = -1;
    enum status s = begin_file(w, dir, err);
    if (s != STATUS_OK) {
        cache_file_writer_abandon(w);
        return s;
    }
    *out = w;
    return STATUS_OK;
}

enum status cache_file_writer_add(struct cache_file_writer *w, const void *record, struct error *err)
{
    size_t n = cache_record_bytes(&w->shape);
    uint64_t checksum = piece_checksum(&w->header, w->n_records, record, n);
    TRY(put(w, record, n, err));
    TRY(put(w, &checksum, sizeof checksum, err));
    w->n_records++;
    return STATUS_OK;
}

/* The new name is on the disk only when the directory is. */
static void sync_directory(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

static enum status end_file(struct cache_file_writer *w, struct error *err)
{
    struct ending end = { .n_records = w->n_records };
    memcpy(end.magic, magic_end, sizeof end.magic);
    end.checksum = piece_checksum(&w->header, w->n_records, &end, offsetof(struct ending, checksum));
    TRY(put(w, &end, sizeof end, err));
    if (fsync(w->fd) != 0)
        return fail(err, STATUS_IO, "cannot flush %s: %s", w->partial, strerror(errno));
    if (rename(w->partial, w->path) != 0)
        return fail(err, STATUS_IO, "cannot rename %s: %s", w->partial, strerror(errno));
    sync_directory(w->dir);
    return STATUS_OK;
}

enum status cache_file_writer_finish(struct cache_file_writer *w, struct error *err)
{
    enum status s = end_file(w, err);
    if (s != STATUS_OK) {
        cache_file_writer_abandon(w);
        return s;
    }
    close(w->fd);
    free(w);
    return STATUS_OK;
}

void cache_file_writer_abandon(struct cache_file_writer *w)
{
    if (w == NULL)
        return;
    if (w->fd >= 0) {
        unlink(w->partial);
        close(w->fd);
    }
    free(w);
}

/* ---- reading ---- */

struct cache_file_reader {
    struct cache_file_shape shape;
    struct header header;
    char path[MAX_PATH];
    int fd;
    int64_t size;               /* of the file */
    int64_t n_records, next;
};

static enum status damaged(const struct cache_file_reader *r, const char *what, struct error *err)
{
    return fail(err, STATUS_BAD_MODEL, "%.200s is damaged: %s", r->path, what);
}

static enum status get(const struct cache_file_reader *r, int64_t offset, void *out, size_t n, struct error *err)
{
    char *at = out;
    while (n > 0) {
        ssize_t done = pread(r->fd, at, n, offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return fail(err, STATUS_IO, "cannot read %.200s: %s", r->path, strerror(errno));
        if (done == 0)
            return damaged(r, "it ends too early", err);
        at += done;
        offset += done;
        n -= (size_t)done;
    }
    return STATUS_OK;
}

/* Of one line of the identity. */
static const char *line_end(const char *line)
{
    const char *end = strchr(line, '\n');
    return end != NULL ? end : line + strlen(line);
}

/* Name the first line that differs. */
static enum status refuse_identity(const struct cache_file_reader *r, const char *theirs, struct error *err)
{
    const char *ours = r->shape.identity;
    for (;;) {
        int n_ours = (int)(line_end(ours) - ours), n_theirs = (int)(line_end(theirs) - theirs);
        int is_last = ours[n_ours] == '\0' || theirs[n_theirs] == '\0';
        if (is_last || n_ours != n_theirs || memcmp(ours, theirs, (size_t)n_ours) != 0)
            return fail(err, STATUS_BAD_MODEL, "%.100s is of another kind: it has '%.*s', this server has '%.*s'",
                        r->path, n_theirs > 80 ? 80 : n_theirs, theirs, n_ours > 80 ? 80 : n_ours, ours);
        ours += n_ours + 1;
        theirs += n_theirs + 1;
    }
}

static enum status check_header(struct cache_file_reader *r, char *identity, struct error *err)
{
    struct header *h = &r->header, want;
    TRY(get(r, 0, h, sizeof *h, err));
    if (memcmp(h->magic, magic_begin, sizeof h->magic) != 0)
        return fail(err, STATUS_BAD_MODEL, "%.200s is no cache file of latentd", r->path);
    if (h->version != VERSION)
        return fail(err, STATUS_BAD_MODEL, "%.200s has version %u, this build reads %d", r->path, h->version, VERSION);
    if (h->identity_bytes > MAX_IDENTITY)
        return damaged(r, "its identity is too long", err);
    TRY(get(r, sizeof *h, identity, h->identity_bytes, err));
    identity[h->identity_bytes] = '\0';
    if (header_checksum(h, identity) != h->checksum)
        return damaged(r, "the checksum of its header is wrong", err);
    fill_header(&want, &r->shape);
    if (strcmp(identity, r->shape.identity) != 0)
        return refuse_identity(r, identity, err);
    if (memcmp(h, &want, sizeof want) != 0)
        return fail(err, STATUS_BAD_MODEL, "%.200s has blocks of %d tokens and %llu bytes, wanted %d and %zu", r->path,
                    h->block_size, (unsigned long long)h->block_bytes, r->shape.block_size, r->shape.block_bytes);
    return STATUS_OK;
}

static int64_t record_stride(const struct cache_file_reader *r)
{
    return (int64_t)(cache_record_bytes(&r->shape) + sizeof(uint64_t));
}

static int64_t records_begin(const struct cache_file_reader *r)
{
    return (int64_t)sizeof r->header + r->header.identity_bytes;
}

/* The end is read first: a file that was cut is refused before any of it is used. */
static enum status check_ending(struct cache_file_reader *r, struct error *err)
{
    struct ending end;
    int64_t n_bytes = r->size - records_begin(r) - (int64_t)sizeof end;
    if (n_bytes < 0 || n_bytes % record_stride(r) != 0)
        return damaged(r, "its size fits no number of records", err);
    r->n_records = n_bytes / record_stride(r);
    TRY(get(r, r->size - (int64_t)sizeof end, &end, sizeof end, err));
    if (memcmp(end.magic, magic_end, sizeof end.magic) != 0 || end.n_records != (uint64_t)r->n_records ||
        end.checksum != piece_checksum(&r->header, end.n_records, &end, offsetof(struct ending, checksum)))
        return damaged(r, "its end is missing or wrong", err);
    if (r->n_records > INT32_MAX)
        return damaged(r, "it has too many records", err);
    return STATUS_OK;
}

static enum status open_file(struct cache_file_reader *r, const char *dir, struct error *err)
{
    TRY(make_path(r->path, dir, "", err));
    r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return fail(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "cannot open %.200s: %s", r->path,
                    strerror(errno));
    struct stat info;
    if (fstat(r->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return fail(err, STATUS_IO, "%.200s is not a file", r->path);
    r->size = info.st_size;
    char *identity = malloc(MAX_IDENTITY + 1);
    if (identity == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to read a cache file");
    enum status s = check_header(r, identity, err);
    free(identity);
    TRY(s);
    return check_ending(r, err);
}

enum status cache_file_reader_open(struct cache_file_reader **out, const char *dir,
                                   const struct cache_file_shape *shape, struct error *err)
{
    struct cache_file_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory to read a cache file");
    r->shape = *shape;
    r->fd = -1;
    enum status s = open_file(r, dir, err);
    if (s != STATUS_OK) {
        cache_file_reader_close(r);
        return s;
    }
    *out = r;
    return STATUS_OK;
}

int64_t cache_file_reader_count(const struct cache_file_reader *r)
{
    return r->n_records;
}

enum status cache_file_reader_next(struct cache_file_reader *r, void *record, struct error *err)
{
    size_t n = cache_record_bytes(&r->shape);
    int64_t at = records_begin(r) + r->next * record_stride(r);
    uint64_t checksum;
    TRY(get(r, at, record, n, err));
    TRY(get(r, at + (int64_t)n, &checksum, sizeof checksum, err));
    if (checksum != piece_checksum(&r->header, (uint64_t)r->next, record, n))
        return fail(err, STATUS_BAD_MODEL, "%.200s is damaged: the checksum of block %lld is wrong", r->path,
                    (long long)r->next);
    const struct cache_record_head *head = record;
    if (head->parent < -1 || head->parent >= r->next || head->n_given < 0 || head->n_given > r->shape.block_size)
        return damaged(r, "a block follows one that is not there", err);
    r->next++;
    return STATUS_OK;
}

void cache_file_reader_close(struct cache_file_reader *r)
{
    if (r == NULL)
        return;
    if (r->fd >= 0)
        close(r->fd);
    free(r);
}
