/* fuzz_load_reply - any bytes as a stream of a server under load: cut anywhere, the same events come out.
 *
 * The first byte says how long each piece is.  The stream is read whole and in
 * pieces, and every event goes through the reader of reply chunks.
 */
#include "bench/load_chunk.h"
#include "bench/load_sse.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    size_t n_events, n_bytes, n_tokens, n_bad;
};

static void require(int fact)
{
    if (!fact)
        abort();
}

static enum status on_event(void *context, const struct load_sse_event *event, struct error *err)
{
    (void)err;
    struct seen *seen = context;
    struct load_chunk chunk;
    struct error why;
    require(event->data[event->len] == '\0');
    seen->n_events++;
    seen->n_bytes += event->len;
    if (load_chunk_parse(&chunk, event->data, event->len, &why) == STATUS_OK)
        seen->n_tokens += chunk.text_bytes + chunk.n_token_ids;
    else
        seen->n_bad += why.text[0] != '\0';
    return STATUS_OK;
}

static struct seen read_in_pieces(const char *bytes, size_t size, size_t piece, enum status *status)
{
    struct seen seen = { 0 };
    struct load_sse sse;
    struct load_sse_sink sink = { .on_event = on_event, .context = &seen };
    load_sse_init(&sse, 4096);
    *status = STATUS_OK;
    for (size_t at = 0; at < size && *status == STATUS_OK; at += piece)
        *status = load_sse_feed(&sse, bytes + at, size - at < piece ? size - at : piece, &sink, NULL);
    if (*status == STATUS_OK)
        *status = load_sse_finish(&sse, &sink, NULL);
    load_sse_clear(&sse);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *bytes = (const char *)data + 1;
    enum status whole_status, piece_status;
    struct seen whole = read_in_pieces(bytes, size - 1, size, &whole_status);
    struct seen pieces = read_in_pieces(bytes, size - 1, (size_t)data[0] + 1, &piece_status);
    /* A line past the limit is refused in pieces even where the whole is read in place. */
    if (whole_status == STATUS_OK && piece_status == STATUS_OK)
        require(whole.n_events == pieces.n_events && whole.n_bytes == pieces.n_bytes
                && whole.n_tokens == pieces.n_tokens && whole.n_bad == pieces.n_bad);
    return 0;
}
