#include "server/logprobs_json.h"

#include "base/json_write.h"
#include "base/utf8.h"

#include <string.h>

void logprobs_json_init(struct logprobs_json *l, enum logprobs_shape shape, const struct tokenizer *tokenizer,
                        int skip_special)
{
    *l = (struct logprobs_json){ .shape = shape, .tokenizer = tokenizer, .skip_special = skip_special };
    buf_init(&l->tokens, LOGPROBS_MAX_BYTES);
    buf_init(&l->values, LOGPROBS_MAX_BYTES);
    buf_init(&l->tops, LOGPROBS_MAX_BYTES);
    buf_init(&l->offsets, LOGPROBS_MAX_BYTES);
}

void logprobs_json_clear(struct logprobs_json *l)
{
    buf_clear(&l->tokens);
    buf_clear(&l->values);
    buf_clear(&l->tops);
    buf_clear(&l->offsets);
}

/* ---- a token's text ---- */

/* "bytes:\xe2\x80", the backslashes escaped as JSON wants them. */
static enum status write_bytes_text(struct buf *out, const char *bytes, size_t len)
{
    TRY(buf_add_text(out, "\"bytes:"));
    for (size_t i = 0; i < len; i++)
        TRY(buf_printf(out, "\\\\x%02x", (unsigned char)bytes[i]));
    return buf_add_char(out, '"');
}

static enum status write_token(const struct logprobs_json *l, int32_t token, struct buf *out)
{
    size_t len;
    const char *bytes = tokenizer_token_bytes(l->tokenizer, token, &len);
    if (l->shape == LOGPROBS_LEGACY && !utf8_is_valid(bytes, len))
        return write_bytes_text(out, bytes, len);
    return json_write_string(out, bytes, len);
}

static enum status write_byte_list(const struct logprobs_json *l, int32_t token, struct buf *out)
{
    size_t len;
    const char *bytes = tokenizer_token_bytes(l->tokenizer, token, &len);
    TRY(buf_add_char(out, '['));
    for (size_t i = 0; i < len; i++)
        TRY(buf_printf(out, i == 0 ? "%d" : ",%d", (unsigned char)bytes[i]));
    return buf_add_char(out, ']');
}

/* Characters that begin in the token. */
static int64_t n_characters(const struct logprobs_json *l, int32_t token)
{
    size_t len;
    const char *bytes = tokenizer_token_bytes(l->tokenizer, token, &len);
    int64_t n = 0;
    if (l->skip_special && tokenizer_is_special(l->tokenizer, token))
        return 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return n;
}

/* ---- the legacy shape ---- */

static int same_text(const struct logprobs_json *l, int32_t a, int32_t b)
{
    size_t len_a, len_b;
    const char *bytes_a = tokenizer_token_bytes(l->tokenizer, a, &len_a);
    const char *bytes_b = tokenizer_token_bytes(l->tokenizer, b, &len_b);
    return len_a == len_b && memcmp(bytes_a, bytes_b, len_a) == 0;
}

static int is_named_before(const struct logprobs_json *l, const struct logprobs_entry *e, int n,
                           int32_t token)
{
    for (int i = 0; i < n; i++)
        if (same_text(l, e->top[i].token, token))
            return 1;
    return 0;
}

static enum status write_top_map(struct logprobs_json *l, const struct logprobs_entry *e)
{
    struct buf *out = &l->tops;
    int n_written = 0;
    TRY(buf_add_char(out, '{'));
    for (int i = 0; i <= e->n_top; i++) {
        struct token_logprob t = { .token = e->token, .logprob = e->logprob };
        if (i < e->n_top)
            t = e->top[i];
        if (is_named_before(l, e, i, t.token))
            continue;
        if (n_written++ > 0)
            TRY(buf_add_char(out, ','));
        TRY(write_token(l, t.token, out));
        TRY(buf_add_char(out, ':'));
        TRY(json_write_float(out, t.logprob));
    }
    return buf_add_char(out, '}');
}

static enum status add_legacy(struct logprobs_json *l, const struct logprobs_entry *e)
{
    struct buf *const bufs[] = { &l->tokens, &l->values, &l->tops, &l->offsets };
    for (size_t i = 0; l->n_entries > 0 && i < sizeof bufs / sizeof bufs[0]; i++)
        TRY(buf_add_char(bufs[i], ','));
    TRY(write_token(l, e->token, &l->tokens));
    TRY(json_write_int(&l->offsets, l->offset));
    if (!e->has_value) {
        TRY(buf_add_text(&l->values, "null"));
        return buf_add_text(&l->tops, "null");
    }
    TRY(json_write_float(&l->values, e->logprob));
    return write_top_map(l, e);
}

/* ---- the chat shape ---- */

static enum status write_chat_token(struct logprobs_json *l, int32_t token, float logprob)
{
    struct buf *out = &l->tokens;
    TRY(buf_add_text(out, "{\"token\":"));
    TRY(write_token(l, token, out));
    TRY(buf_add_text(out, ",\"logprob\":"));
    TRY(json_write_float(out, logprob));
    TRY(buf_add_text(out, ",\"bytes\":"));
    return write_byte_list(l, token, out);
}

static enum status add_chat(struct logprobs_json *l, const struct logprobs_entry *e)
{
    if (l->n_entries > 0)
        TRY(buf_add_char(&l->tokens, ','));
    TRY(write_chat_token(l, e->token, e->logprob));
    TRY(buf_add_text(&l->tokens, ",\"top_logprobs\":["));
    for (int i = 0; i < e->n_top; i++) {
        if (i > 0)
            TRY(buf_add_char(&l->tokens, ','));
        TRY(write_chat_token(l, e->top[i].token, e->top[i].logprob));
        TRY(buf_add_char(&l->tokens, '}'));
    }
    return buf_add_text(&l->tokens, "]}");
}

/* ---- entries ---- */

enum status logprobs_json_add(struct logprobs_json *l, const struct logprobs_entry *entry)
{
    TRY(l->shape == LOGPROBS_LEGACY ? add_legacy(l, entry) : add_chat(l, entry));
    l->n_entries++;
    l->offset += n_characters(l, entry->token);
    return STATUS_OK;
}

static enum status append_elements(struct buf *to, const struct buf *from, int with_comma)
{
    if (with_comma)
        TRY(buf_add_char(to, ','));
    return from->len == 0 ? STATUS_OK : buf_add(to, from->data, from->len);
}

enum status logprobs_json_append(struct logprobs_json *l, const struct logprobs_json *from)
{
    if (from->n_entries == 0)
        return STATUS_OK;
    int with_comma = l->n_entries > 0;
    TRY(append_elements(&l->tokens, &from->tokens, with_comma));
    if (l->shape == LOGPROBS_LEGACY) {
        TRY(append_elements(&l->values, &from->values, with_comma));
        TRY(append_elements(&l->tops, &from->tops, with_comma));
        TRY(append_elements(&l->offsets, &from->offsets, with_comma));
    }
    l->n_entries += from->n_entries;
    l->offset += from->offset;
    return STATUS_OK;
}

static enum status flush_array(struct buf *from, const char *opening, struct buf *out)
{
    TRY(buf_add_text(out, opening));
    if (from->len > 0)
        TRY(buf_add(out, from->data, from->len));
    buf_reset(from);
    return buf_add_char(out, ']');
}

enum status logprobs_json_flush(struct logprobs_json *l, struct buf *out)
{
    l->n_entries = 0;
    if (l->shape == LOGPROBS_CHAT) {
        TRY(flush_array(&l->tokens, "{\"content\":[", out));
        return buf_add_text(out, ",\"refusal\":null}");
    }
    TRY(flush_array(&l->tokens, "{\"tokens\":[", out));
    TRY(flush_array(&l->values, ",\"token_logprobs\":[", out));
    TRY(flush_array(&l->tops, ",\"top_logprobs\":[", out));
    TRY(flush_array(&l->offsets, ",\"text_offset\":[", out));
    return buf_add_char(out, '}');
}
