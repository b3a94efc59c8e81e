/* cache_file.h - cached blocks in a file that survives the process.
 *
 *   [ header | identity text ][ record 0 ][ record 1 ] .. [ end ]
 *
 *   header   magic, version, sizes, checksum of header and identity
 *   record   [ parent | n_given | salt ][ tokens, block_size ][ bytes, block_bytes ][ checksum ]
 *            parent is the index of an earlier record or -1, so that every
 *            beginning of the records is a set of whole chains
 *   end      magic, number of records, checksum
 *
 * Identity says what the bytes depend on, as lines "key value\n": the program, the
 * model, the number of ranks, types, sizes.  A file is opened only by whoever has
 * the same lines; the refusal names the first that differs.
 *
 * Nothing in a file is believed.  Its size must be what header and end say, and a
 * record's checksum is bound to its place and to the header, so a record of
 * another file, or in another place, is refused like a flipped bit.  The checksum
 * finds damage, not malice: who may write the file may write anything.  Numbers are
 * in the machine's byte order, which the version shows.
 *
 * A file is written beside its place and renamed when it is whole and on the disk:
 * a crash at any moment leaves the older one.  Only one process writes to a
 * directory at a time.  The file holds prompts, so only its owner may read it.
 *
 * Threads: one at a time for each writer or reader.  Memory: a small struct each.
 */
#ifndef CACHE_CACHE_FILE_H
#define CACHE_CACHE_FILE_H

#include "cache/prefix_cache.h"

#include <stddef.h>

#define CACHE_FILE_NAME "prefix-cache.latentd"      /* in the directory that the calls name */

struct cache_file_shape {
    const char *identity;       /* outlives the writer or reader */
    int32_t block_size;         /* tokens of a record */
    size_t block_bytes;         /* cache bytes of a record */
};

/* A record in memory is one piece: this head, then the tokens, then the bytes. */
struct cache_record_head {
    int32_t parent;
    int32_t n_given;
    struct prefix_salt salt;
};

size_t cache_record_bytes(const struct cache_file_shape *shape);

static inline int32_t *cache_record_tokens(void *record)            /* [block_size] */
{
    return (int32_t *)(void *)((char *)record + sizeof(struct cache_record_head));
}

static inline void *cache_record_contents(const struct cache_file_shape *shape, void *record)    /* [block_bytes] */
{
    return cache_record_tokens(record) + shape->block_size;
}

/* ---- writing ---- */

struct cache_file_writer;       /* opaque */

/* IO: the directory cannot be written.  BUSY: another process saves there.
 * NO_MEMORY.  The older file stays until finish in any case. */
MUST_CHECK enum status cache_file_writer_open(struct cache_file_writer **out, const char *dir,
                                              const struct cache_file_shape *shape, struct error *err);
MUST_CHECK enum status cache_file_writer_add(struct cache_file_writer *w, const void *record, struct error *err);

/* Put the file in its place.  w is freed in every case; IO: the older one is there. */
MUST_CHECK enum status cache_file_writer_finish(struct cache_file_writer *w, struct error *err);
void cache_file_writer_abandon(struct cache_file_writer *w);       /* NULL is allowed */

/* ---- reading ---- */

struct cache_file_reader;       /* opaque */

/* NOT_FOUND: no file there.  IO.  BAD_MODEL: damaged, of another version, or of
 * another identity; the sentence says which.  NO_MEMORY. */
MUST_CHECK enum status cache_file_reader_open(struct cache_file_reader **out, const char *dir,
                                              const struct cache_file_shape *shape, struct error *err);
int64_t cache_file_reader_count(const struct cache_file_reader *r);

/* The next of count records into record[cache_record_bytes].  parent is a record
 * before it or -1, and 0 <= n_given <= block_size; the tokens are the caller's to
 * check.  BAD_MODEL: damaged.  IO. */
MUST_CHECK enum status cache_file_reader_next(struct cache_file_reader *r, void *record, struct error *err);
void cache_file_reader_close(struct cache_file_reader *r);         /* NULL is allowed */

#endif
