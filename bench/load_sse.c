#include "bench/load_sse.h"

#include <string.h>

void load_sse_init(struct load_sse *sse, size_t max_bytes)
{
    *sse = (struct load_sse){ 0 };
    buf_init(&sse->line, max_bytes);
    buf_init(&sse->data, max_bytes);
}

void load_sse_clear(struct load_sse *sse)
{
    buf_clear(&sse->line);
    buf_clear(&sse->data);
}

void load_sse_reset(struct load_sse *sse)
{
    struct buf line = sse->line, data = sse->data;
    buf_reset(&line);
    buf_reset(&data);
    *sse = (struct load_sse){ .line = line, .data = data };
}

static enum status too_large(const struct load_sse *sse, enum status s, struct error *err)
{
    return fail(err, s, "one event of the stream is larger than %zu bytes", sse->data.max);
}

static enum status dispatch(struct load_sse *sse, const struct load_sse_sink *sink, struct error *err)
{
    if (!sse->has_data) {
        sse->name[0] = '\0';
        return STATUS_OK;
    }
    struct load_sse_event event = {
        .data = sse->data.data != NULL ? sse->data.data : "",
        .len = sse->data.len,
        .name = sse->name,
    };
    sse->n_events++;
    enum status s = sink->on_event(sink->context, &event, err);
    buf_reset(&sse->data);
    sse->has_data = 0;
    sse->name[0] = '\0';
    return s;
}

static enum status add_data(struct load_sse *sse, const char *value, size_t n, struct error *err)
{
    enum status s = STATUS_OK;
    if (sse->has_data)
        s = buf_add_char(&sse->data, '\n');
    if (s == STATUS_OK)
        s = buf_add(&sse->data, value, n);
    sse->has_data = 1;
    return s == STATUS_OK ? s : too_large(sse, s, err);
}

static void set_name(struct load_sse *sse, const char *value, size_t n)
{
    if (n >= sizeof sse->name)
        n = sizeof sse->name - 1;
    memcpy(sse->name, value, n);
    sse->name[n] = '\0';
}

/* One line without its end. */
static enum status take_line(struct load_sse *sse, const char *line, size_t n,
                             const struct load_sse_sink *sink, struct error *err)
{
    if (!sse->started && n >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3;
        n -= 3;
    }
    sse->started = 1;
    if (n == 0)
        return dispatch(sse, sink, err);
    if (line[0] == ':') {
        sse->n_comments++;
        return STATUS_OK;
    }
    const char *colon = memchr(line, ':', n);
    size_t field = colon != NULL ? (size_t)(colon - line) : n;
    size_t at = colon != NULL ? field + 1 : n;
    if (at < n && line[at] == ' ')
        at++;
    if (field == 4 && memcmp(line, "data", 4) == 0)
        return add_data(sse, line + at, n - at, err);
    if (field == 5 && memcmp(line, "event", 5) == 0)
        set_name(sse, line + at, n - at);
    return STATUS_OK;
}

static size_t line_length(const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && bytes[i] != '\n' && bytes[i] != '\r')
        i++;
    return i;
}

/* A line that began in an earlier piece is completed in sse->line; one that lies
 * whole in this piece is read where it is. */
static enum status end_line(struct load_sse *sse, const char *bytes, size_t n,
                            const struct load_sse_sink *sink, struct error *err)
{
    if (sse->line.len == 0)
        return take_line(sse, bytes, n, sink, err);
    enum status s = buf_add(&sse->line, bytes, n);
    if (s != STATUS_OK)
        return too_large(sse, s, err);
    s = take_line(sse, sse->line.data, sse->line.len, sink, err);
    buf_reset(&sse->line);
    return s;
}

enum status load_sse_feed(struct load_sse *sse, const char *bytes, size_t n,
                          const struct load_sse_sink *sink, struct error *err)
{
    size_t at = 0;
    while (at < n) {
        if (sse->after_cr && bytes[at] == '\n') {
            sse->after_cr = 0;
            at++;
            continue;
        }
        sse->after_cr = 0;
        size_t length = line_length(bytes + at, n - at);
        if (at + length == n) {
            enum status s = buf_add(&sse->line, bytes + at, length);
            return s == STATUS_OK ? s : too_large(sse, s, err);
        }
        sse->after_cr = bytes[at + length] == '\r';
        TRY(end_line(sse, bytes + at, length, sink, err));
        at += length + 1;
    }
    return STATUS_OK;
}

enum status load_sse_finish(struct load_sse *sse, const struct load_sse_sink *sink, struct error *err)
{
    if (sse->line.len > 0)
        TRY(end_line(sse, "", 0, sink, err));
    return dispatch(sse, sink, err);
}
