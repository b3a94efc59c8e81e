#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum status file_read(const char *path, struct buf *out, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(err, STATUS_IO, "cannot open %s: %s", path, strerror(errno));
    char piece[16384];
    enum status s = STATUS_OK;
    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n == 0)
            break;
        if (n < 0) {
            if (errno == EINTR)
                continue;
            s = fail(err, STATUS_IO, "cannot read %s: %s", path, strerror(errno));
            break;
        }
        s = buf_add(out, piece, (size_t)n);
        if (s != STATUS_OK) {
            if (s == STATUS_NO_MEMORY)
                fail(err, s, "no memory to read %s", path);
            else
                fail(err, s, "%s is larger than %zu bytes", path, out->max);
            break;
        }
    }
    close(fd);
    return s;
}

static enum status write_all(int fd, const char *path, const char *bytes, size_t len, struct error *err)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(err, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
        bytes += n;
        len -= (size_t)n;
    }
    if (fsync(fd) != 0)
        return fail(err, STATUS_IO, "cannot flush %s: %s", path, strerror(errno));
    return STATUS_OK;
}

/* A file beside path, empty and open. */
static enum status open_beside(const char *path, char *temporary, size_t max, int *fd, struct error *err)
{
    int n = snprintf(temporary, max, "%s.tmp%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= max)
        return fail(err, STATUS_IO, "path is longer than %zu bytes", max);
    *fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (*fd < 0)
        return fail(err, STATUS_IO, "cannot create %s: %s", temporary, strerror(errno));
    return STATUS_OK;
}

enum status file_replace(const char *path, const void *bytes, size_t len, struct error *err)
{
    char temporary[4096];
    int fd;
    TRY(open_beside(path, temporary, sizeof temporary, &fd, err));
    enum status s = write_all(fd, temporary, bytes, len, err);
    close(fd);
    if (s == STATUS_OK && rename(temporary, path) != 0)
        s = fail(err, STATUS_IO, "cannot rename %s to %s: %s", temporary, path, strerror(errno));
    if (s != STATUS_OK)
        unlink(temporary);
    return s;
}

enum status file_check_replace(const char *path, struct error *err)
{
    char temporary[4096];
    struct stat about;
    int fd;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return fail(err, STATUS_IO, "cannot write %s: it is a directory", path);
    TRY(open_beside(path, temporary, sizeof temporary, &fd, err));
    close(fd);
    unlink(temporary);
    return STATUS_OK;
}

int file_exists(const char *path)
{
    return access(path, R_OK) == 0;
}
