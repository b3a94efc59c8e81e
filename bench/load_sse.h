/* load_sse.h - server-sent events out of a stream of bytes.
 *
 *   data: {"choices":...}\n      one event: its data lines joined by '\n',
 *   \n                           ended by an empty line
 *   : ping\n                     a comment; says nothing
 *   \n                           an empty line without data is no event
 *
 * The stream may be cut anywhere, even between CR and LF or inside a
 * character.  Line ends are LF, CRLF or CR; one space after the colon is
 * optional; unknown fields are skipped.  A last event that lacks its empty line
 * is given out by load_sse_finish, because the tokens in it did arrive.
 *
 * Owner: the caller; no locking.  Memory: two buffers, each at most max_bytes.
 */
#ifndef BENCH_LOAD_SSE_H
#define BENCH_LOAD_SSE_H

#include "base/buf.h"

struct load_sse_event {
    const char *data;       /* borrowed until the sink returns; followed by a 0 byte */
    size_t len;
    const char *name;       /* of the "event:" field; "" if there was none */
};

/* What is called for each event.  A failure ends load_sse_feed with it. */
struct load_sse_sink {
    enum status (*on_event)(void *context, const struct load_sse_event *event, struct error *err);
    void *context;
};

struct load_sse {
    struct buf line;        /* the line that is not complete yet */
    struct buf data;        /* the data lines of the event so far */
    char name[32];          /* cut at 31 bytes */
    int has_data;           /* a data line was seen since the last event */
    int after_cr;           /* the last byte was CR: a following LF belongs to it */
    int started;            /* the first line was seen (a byte order mark is dropped there) */
    size_t n_events;
    size_t n_comments;
};

void load_sse_init(struct load_sse *sse, size_t max_bytes);
void load_sse_clear(struct load_sse *sse);
void load_sse_reset(struct load_sse *sse);      /* ready for another stream, memory kept */

/* TOO_LARGE: a line or an event passes max_bytes.  Else what the sink returned.
 * After a failure only reset and clear are allowed. */
MUST_CHECK enum status load_sse_feed(struct load_sse *sse, const char *bytes, size_t n,
                                     const struct load_sse_sink *sink, struct error *err);

/* The stream is over. */
MUST_CHECK enum status load_sse_finish(struct load_sse *sse, const struct load_sse_sink *sink,
                                       struct error *err);

#endif
