#include "model/detokenizer.h"

#include "base/utf8.h"

#include <string.h>

void detokenizer_init(struct detokenizer *d, const struct tokenizer *t, int skip_special, int continues)
{
    *d = (struct detokenizer){ .tokenizer = t, .skip_special = skip_special, .first = !continues };
    if (!continues)
        d->drop_bytes = tokenizer_start(t).drop_bytes;
}

/* Length of the longest beginning of a character at text, at least 1; there is no
 * whole character. */
static size_t broken_length(const char *text, size_t len)
{
    for (size_t n = len < 3 ? len : 3; n > 1; n--) {
        if (utf8_incomplete_tail(text, n) == n)
            return n;
    }
    return 1;
}

/* Consume the next character of text, or what cannot become one, and append it.
 * 0: the rest is the beginning of a character and has to wait. */
static enum status next_character(const char *text, size_t len, size_t *used, struct buf *out)
{
    size_t n = utf8_sequence_length(text, len);
    *used = n;
    if (n > 0)
        return buf_add(out, text, n);
    if (len <= 3 && utf8_incomplete_tail(text, len) == len)
        return STATUS_OK;
    TRY(buf_add_text(out, UTF8_REPLACEMENT));
    *used = broken_length(text, len);
    return STATUS_OK;
}

/* The pending beginning together with the first bytes of text, until the two meet
 * the boundary of a character. */
static enum status join_pending(struct detokenizer *d, const char **text, size_t *len, struct buf *out)
{
    while (d->n_pending > 0 && *len > 0) {
        d->pending[d->n_pending++] = **text;
        (*text)++;
        (*len)--;
        size_t used;
        TRY(next_character(d->pending, d->n_pending, &used, out));
        d->n_pending -= used;
        memmove(d->pending, d->pending + used, d->n_pending);
        /* A byte behind a broken beginning may be whole, broken or pending itself. */
        if (used > 0 && d->n_pending > 0) {
            TRY(next_character(d->pending, d->n_pending, &used, out));
            d->n_pending -= used;
        }
    }
    return STATUS_OK;
}

static enum status push_bytes(struct detokenizer *d, const char *text, size_t len, struct buf *out)
{
    TRY(join_pending(d, &text, &len, out));
    while (len > 0) {
        size_t used;
        TRY(next_character(text, len, &used, out));
        if (used == 0) {
            memcpy(d->pending, text, len);
            d->n_pending = len;
            return STATUS_OK;
        }
        text += used;
        len -= used;
    }
    return STATUS_OK;
}

/* Metaspace: the first token loses the spaces that its replacements became.  A
 * token with spaces of its own (an added token) has no replacements. */
static int loses_spaces(const struct detokenizer *d, int32_t id)
{
    size_t len;
    const char *text = tokenizer_token_text(d->tokenizer, id, &len);
    return text != NULL && memchr(text, ' ', len) == NULL;
}

static enum status push_without_spaces(struct detokenizer *d, const char *text, size_t len, struct buf *out)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] != ' ')
            TRY(push_bytes(d, text + i, 1, out));
    }
    return STATUS_OK;
}

enum status detokenizer_push(struct detokenizer *d, int32_t id, struct buf *out)
{
    size_t len;
    const char *text = tokenizer_token_bytes(d->tokenizer, id, &len);
    if (d->skip_special && tokenizer_is_special(d->tokenizer, id))
        return STATUS_OK;
    const struct token_start start = tokenizer_start(d->tokenizer);
    int first = d->first;
    d->first = 0;
    if (first && start.drop_spaces_of_first && loses_spaces(d, id))
        return push_without_spaces(d, text, len, out);
    while (d->drop_bytes > 0 && len > 0) {
        if (*text != start.drop) {
            d->drop_bytes = 0;
            break;
        }
        d->drop_bytes--;
        text++;
        len--;
    }
    return push_bytes(d, text, len, out);
}

enum status detokenizer_flush(struct detokenizer *d, struct buf *out)
{
    size_t pending = d->n_pending;
    d->n_pending = 0;
    return pending > 0 ? buf_add_text(out, UTF8_REPLACEMENT) : STATUS_OK;
}

enum status detokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, int skip_special,
                               struct buf *out)
{
    struct detokenizer d;
    detokenizer_init(&d, t, skip_special, 0);
    for (size_t i = 0; i < n; i++)
        TRY(detokenizer_push(&d, ids[i], out));
    return detokenizer_flush(&d, out);
}
