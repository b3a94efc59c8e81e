#include "server/access_log.h"

#include "base/clock.h"
#include "base/json_write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINE_BYTES ((size_t)64 << 10)
enum { TRACEPARENT_LEN = 55, MAX_DEVICES = 64 };

struct device_mark {
    int64_t busy_ns, waited_ns;
    uint64_t cache_bytes_read, collective_bytes;
};

struct access_entry {
    struct access_log *log;
    struct access_entry *next;
    char request_id[136];
    char peer[128];
    char traceparent[TRACEPARENT_LEN + 1];      /* "" if there is none */
    struct device_mark begin[MAX_DEVICES];
    struct buf line;                /* the exchange's half, once it is there */
    struct access_note note;        /* the endpoint's half */
    int has_exchange, has_note;
};

struct access_log {
    int fd;
    int owns_fd;
    const struct model *model;
    int n_devices;
    struct access_entry *entries;
    struct buf line;
};

enum status access_log_create(struct access_log **out, const char *path, const struct model *model,
                              struct error *err)
{
    struct access_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the access log");
    log->owns_fd = strcmp(path, "-") != 0;
    log->fd = log->owns_fd ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640) : STDERR_FILENO;
    if (log->fd < 0) {
        enum status s = fail(err, STATUS_IO, "the access log %s cannot be opened: %s", path, strerror(errno));
        free(log);
        return s;
    }
    log->model = model;
    int n = model != NULL ? model_options(model)->n_ranks : 0;
    log->n_devices = n < MAX_DEVICES ? n : MAX_DEVICES;
    buf_init(&log->line, MAX_LINE_BYTES);
    *out = log;
    return STATUS_OK;
}

static void destroy_entry(struct access_entry *entry)
{
    buf_clear(&entry->line);
    free(entry);
}

void access_log_destroy(struct access_log *log)
{
    if (log == NULL)
        return;
    while (log->entries != NULL) {
        struct access_entry *next = log->entries->next;
        destroy_entry(log->entries);
        log->entries = next;
    }
    buf_clear(&log->line);
    if (log->owns_fd)
        close(log->fd);
    free(log);
}

/* ---- an entry ---- */

static struct device_mark mark_device(const struct access_log *log, int device)
{
    struct device_report r;
    model_device_report(log->model, device, &r);
    return (struct device_mark){ .busy_ns = r.busy_ns, .waited_ns = r.waited_ns,
                                 .cache_bytes_read = r.cache_bytes_read,
                                 .collective_bytes = r.collective_bytes };
}

/* version-trace-parent-flags in lower-case hex: 2-32-16-2 digits. */
static int is_traceparent(const char *text)
{
    if (strlen(text) != TRACEPARENT_LEN)
        return 0;
    for (int i = 0; i < TRACEPARENT_LEN; i++) {
        int is_dash = i == 2 || i == 35 || i == 52;
        int is_hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
        if (is_dash ? text[i] != '-' : !is_hex)
            return 0;
    }
    return strspn(text + 3, "0") < 32 && strspn(text + 36, "0") < 16;
}

struct access_entry *access_log_begin(struct access_log *log, const char *request_id, const char *peer,
                                      const char *traceparent)
{
    struct access_entry *entry = log != NULL ? calloc(1, sizeof *entry) : NULL;
    if (entry == NULL)
        return NULL;
    entry->log = log;
    buf_init(&entry->line, MAX_LINE_BYTES);
    snprintf(entry->request_id, sizeof entry->request_id, "%s", request_id);
    snprintf(entry->peer, sizeof entry->peer, "%s", peer);
    if (traceparent != NULL && is_traceparent(traceparent))
        memcpy(entry->traceparent, traceparent, TRACEPARENT_LEN);
    for (int d = 0; d < log->n_devices; d++)
        entry->begin[d] = mark_device(log, d);
    entry->next = log->entries;
    log->entries = entry;
    return entry;
}

static void unlink_entry(struct access_entry *entry)
{
    struct access_entry **at = &entry->log->entries;
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
}

/* ---- lines ---- */

static enum status write_member(struct buf *out, const char *name, const char *value)
{
    TRY(buf_printf(out, ",\"%s\":", name));
    return json_write_cstring(out, value);
}

static double ms(int64_t ns)
{
    return (double)ns * 1e-6;
}

static enum status write_exchange(const struct http_access *a, struct buf *out)
{
    char now[40];
    time_t seconds = (time_t)clock_unix_seconds();
    struct tm utc;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    TRY(buf_printf(out, "{\"time\":\"%s\"", now));
    TRY(write_member(out, "request_id", a->request_id));
    TRY(write_member(out, "peer", a->peer));
    TRY(write_member(out, "method", a->method));
    TRY(write_member(out, "path", a->path));
    return buf_printf(out,
                      ",\"status\":%d,\"aborted\":%s,\"received_bytes\":%" PRIu64 ",\"sent_bytes\":%" PRIu64
                      ",\"first_byte_ms\":%.3f,\"duration_ms\":%.3f",
                      a->status, a->is_aborted ? "true" : "false", a->received_bytes, a->sent_bytes,
                      ms(a->first_byte_ns), ms(a->duration_ns));
}

static enum status write_devices(const struct access_entry *entry, struct buf *out)
{
    static const char *const names[] = { "busy_ms", "waited_ms", "cache_bytes_read", "collective_bytes" };
    const struct access_log *log = entry->log;
    TRY(buf_add_text(out, ",\"devices\":{"));
    for (int i = 0; i < 4; i++) {
        TRY(buf_printf(out, "%s\"%s\":[", i > 0 ? "," : "", names[i]));
        for (int d = 0; d < log->n_devices; d++) {
            struct device_mark now = mark_device(log, d), then = entry->begin[d];
            const char *comma = d > 0 ? "," : "";
            if (i < 2)
                TRY(buf_printf(out, "%s%.3f", comma, ms(i == 0 ? now.busy_ns - then.busy_ns
                                                               : now.waited_ns - then.waited_ns)));
            else
                TRY(buf_printf(out, "%s%" PRIu64, comma,
                               i == 2 ? now.cache_bytes_read - then.cache_bytes_read
                                      : now.collective_bytes - then.collective_bytes));
        }
        TRY(buf_add_char(out, ']'));
    }
    return buf_add_char(out, '}');
}

static enum status write_note(const struct access_entry *entry, struct buf *out)
{
    const struct access_note *n = &entry->note;
    const struct engine_usage *u = &n->usage;
    if (entry->traceparent[0] != '\0')
        TRY(write_member(out, "traceparent", entry->traceparent));
    TRY(buf_printf(out, ",\"stream\":%s,\"requests\":%d,\"prompt_tokens\":%d,\"cached_tokens\":%d,"
                   "\"output_tokens\":%d,\"finish\":\"%s\"", n->is_stream ? "true" : "false", n->n_requests,
                   u->prompt_tokens, u->cached_tokens, u->output_tokens, n->finish));
    TRY(buf_printf(out, ",\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,\"ttft_ms\":%.3f,"
                   "\"preemptions\":%d", ms(u->queue_ns), ms(u->prefill_ns), ms(u->decode_ns), ms(n->ttft_ns),
                   u->preemptions));
    return entry->log->n_devices > 0 ? write_devices(entry, out) : STATUS_OK;
}

/* A line that cannot be written is lost: the log must not hold up the server. */
static void put_line(struct access_log *log, struct buf *line)
{
    if (buf_add_text(line, "}\n") != STATUS_OK)
        return;
    ssize_t written = write(log->fd, line->data, line->len);
    (void)written;
}

/* Both halves are there. */
static void end_entry(struct access_entry *entry)
{
    if (write_note(entry, &entry->line) == STATUS_OK)
        put_line(entry->log, &entry->line);
    unlink_entry(entry);
    destroy_entry(entry);
}

void access_log_finish(struct access_entry *entry, const struct access_note *note)
{
    if (entry == NULL)
        return;
    entry->note = *note;
    entry->has_note = 1;
    if (entry->has_exchange)
        end_entry(entry);
}

void access_log_exchange(struct access_log *log, const struct http_access *access)
{
    struct access_entry *entry = log->entries;
    while (entry != NULL && (entry->has_exchange || strcmp(entry->request_id, access->request_id) != 0 ||
                             strcmp(entry->peer, access->peer) != 0))
        entry = entry->next;
    struct buf *line = entry != NULL ? &entry->line : &log->line;
    buf_reset(line);
    if (write_exchange(access, line) != STATUS_OK)
        return;
    if (entry == NULL) {
        put_line(log, line);
        return;
    }
    entry->has_exchange = 1;
    if (entry->has_note)
        end_entry(entry);
}
