/* file.h - whole files, in and out.  Threads: any. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"

/* Append the file's bytes to out.
 * IO: it cannot be opened or read; the sentence has the path and the reason.
 * TOO_LARGE: more than out->max. */
MUST_CHECK enum status file_read(const char *path, struct buf *out, struct error *err);

/* Write all of bytes to path: a reader sees the old file or the new one, never
 * a part (temporary file beside it, fsync, rename).  IO as above. */
MUST_CHECK enum status file_replace(const char *path, const void *bytes, size_t len, struct error *err);

/* Would file_replace come to path?  For what takes long before it is written.
 * Creates the temporary file and removes it.  IO as above. */
MUST_CHECK enum status file_check_replace(const char *path, struct error *err);

int file_exists(const char *path);      /* 1 if it can be opened for reading */

#endif
