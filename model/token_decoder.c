#include "model/token_decoder.h"

#include "model/byte_level.h"
#include "model/text_rule.h"
#include "model/tokenizer_spec.h"

#include <stdlib.h>
#include <string.h>


enum kind { BYTE_LEVEL, REPLACE, BYTE_FALLBACK, STRIP };

struct step {
    enum kind kind;
    struct pattern *pattern;        /* REPLACE */
    struct buf content;             /* REPLACE; STRIP: the character */
    int64_t start, stop;            /* STRIP: most characters dropped at either end */
};

struct token_decoder {
    struct step steps[TOKENIZER_MAX_STEPS];
    int n_steps;
    int fused;                      /* a Fuse was read: what follows acts on the whole text */
    int made_bytes;                 /* a ByteLevel was read: what follows has no characters to read */
    struct token_start first;
};

/* ---- reading ---- */

static struct step *new_step(struct token_decoder *d, enum kind kind)
{
    struct step *s = &d->steps[d->n_steps++];
    s->kind = kind;
    return s;
}

static enum status after_fuse(const struct json_reader *r, const char *type, struct error *err)
{
    return fail(err, STATUS_UNSUPPORTED,
                "%.200s: a %.40s behind Fuse acts on the whole text, which this build "
                "cannot do", r->where, type);
}

static enum status add_replace(struct token_decoder *d, const struct json_reader *r, struct error *err)
{
    if (d->fused)
        return after_fuse(r, "Replace", err);
    struct step *s = new_step(d, REPLACE);
    TRY(pattern_create_from_json(&s->pattern, json_read_any(r, "pattern"), r->where, err));
    return tokenizer_spec_content(r, "content", &s->content, err);
}

static enum status add_strip(struct token_decoder *d, const struct json_reader *r, struct error *err)
{
    struct step *s = new_step(d, STRIP);
    TRY(tokenizer_spec_content(r, "content", &s->content, err));
    TRY(json_read_int(r, "start", 0, 1024, &s->start, err));
    TRY(json_read_int(r, "stop", 0, 1024, &s->stop, err));
    size_t step = 0;
    if (s->content.len > 0)
        text_rule_char(s->content.data, s->content.len, &step);
    if (step == 0 || step != s->content.len)
        return fail(err, STATUS_BAD_MODEL, "%.200s: the content of a Strip must be one character", r->where);
    if (!d->fused)
        return STATUS_OK;
    if (s->stop > 0 || step != 1)
        return after_fuse(r, "Strip at the end or of a character beyond ASCII", err);
    d->first.drop_bytes = (int32_t)s->start;
    d->first.drop = s->content.data[0];
    s->start = 0;                   /* nothing is left to do per token */
    return STATUS_OK;
}

static enum status add_metaspace(struct token_decoder *d, const struct json_reader *r, struct error *err)
{
    const char *text, *scheme = NULL;
    size_t len, n;
    int add_space = 1;
    TRY(json_read_bool(r, "add_prefix_space", &add_space, err));
    TRY(json_read_string(r, "prepend_scheme", &scheme, &n, err));
    d->first.drop_spaces_of_first = scheme == NULL ? add_space : strcmp(scheme, "never") != 0;
    TRY(tokenizer_spec_text(r, "replacement", &text, &len, err));
    struct step *s = new_step(d, REPLACE);
    TRY(pattern_create_literal(&s->pattern, text, len, r->where, err));
    buf_init(&s->content, 1);
    return buf_add_char(&s->content, ' ') == STATUS_OK ? STATUS_OK : fail(err, STATUS_NO_MEMORY, "no memory");
}

static enum status add_step(void *part, const struct json_reader *r, const char *type, struct error *err)
{
    struct token_decoder *d = part;
    if (d->made_bytes && !d->fused && strcmp(type, "Fuse") != 0)
        return fail(err, STATUS_UNSUPPORTED, "%.200s: a %.40s behind ByteLevel cannot be done", r->where,
                    type);
    if (strcmp(type, "Replace") == 0)
        return add_replace(d, r, err);
    if (strcmp(type, "Strip") == 0)
        return add_strip(d, r, err);
    if (strcmp(type, "Fuse") == 0) {
        d->fused = 1;
        return STATUS_OK;
    }
    if (strcmp(type, "ByteLevel") != 0 && strcmp(type, "ByteFallback") != 0 && strcmp(type, "Metaspace") != 0)
        return tokenizer_spec_unknown(r, type, err);
    if (d->fused)
        return after_fuse(r, type, err);
    if (strcmp(type, "Metaspace") == 0)
        return add_metaspace(d, r, err);
    d->made_bytes = strcmp(type, "ByteLevel") == 0;
    new_step(d, d->made_bytes ? BYTE_LEVEL : BYTE_FALLBACK);
    return STATUS_OK;
}

enum status token_decoder_create(struct token_decoder **out, const json_t *section, const char *where,
                                 struct error *err)
{
    if (section == NULL || json_is_null(section))
        return fail(err, STATUS_UNSUPPORTED, "%.200s: there is none, so tokens have no text", where);
    struct token_decoder *d = calloc(1, sizeof *d);
    if (d == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a decoder");
    const struct tokenizer_spec spec = { .where = where, .list = "decoders", .add = add_step, .part = d };
    enum status s = tokenizer_spec_walk(&spec, section, err);
    if (s != STATUS_OK) {
        token_decoder_destroy(d);
        return s;
    }
    *out = d;
    return STATUS_OK;
}

void token_decoder_destroy(struct token_decoder *d)
{
    if (d == NULL)
        return;
    for (int i = 0; i < d->n_steps; i++) {
        pattern_destroy(d->steps[i].pattern);
        buf_clear(&d->steps[i].content);
    }
    free(d);
}

struct token_start token_decoder_start(const struct token_decoder *d)
{
    return d->first;
}

/* ---- running ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "<0xE6>" is the byte E6; "<0xZZ>", "<0x-1>" and the like are plain text. */
static enum status byte_fallback(struct buf *out, const char *text, size_t len)
{
    if (len == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>') {
        int high = hex_value(text[3]), low = hex_value(text[4]);
        if (high >= 0 && low >= 0)
            return buf_add_char(out, (char)(high << 4 | low));
    }
    return buf_add(out, text, len);
}

/* Up to start (stop) repetitions of content fall away at the front (end). */
static enum status strip(struct buf *out, const struct step *s, const char *text, size_t len)
{
    const char *c = s->content.data;
    size_t n = s->content.len;
    for (int64_t i = 0; i < s->start && len >= n && memcmp(text, c, n) == 0; i++) {
        text += n;
        len -= n;
    }
    for (int64_t i = 0; i < s->stop && len >= n && memcmp(text + len - n, c, n) == 0; i++)
        len -= n;
    return buf_add(out, text, len);
}

static enum status run_step(const struct step *s, struct pattern_scratch *scratch, struct buf *out,
                            const char *text, size_t len, int is_added)
{
    int whole;
    switch (s->kind) {
    case BYTE_LEVEL:    return is_added ? buf_add(out, text, len) : byte_level_unmap(out, text, len, &whole);
    case REPLACE:       return text_rule_replace(out, s->pattern, scratch, text, len, &s->content);
    case BYTE_FALLBACK: return byte_fallback(out, text, len);
    case STRIP:         return strip(out, s, text, len);
    }
    return STATUS_INTERNAL;
}

enum status token_decoder_bytes(const struct token_decoder *d, const struct token_text *token,
                                struct pattern_scratch *scratch, struct buf *out, struct buf *spare)
{
    buf_reset(out);
    TRY(buf_add(out, token->text, token->len));
    for (int i = 0; i < d->n_steps; i++) {
        struct buf old = *out;
        *out = *spare;
        *spare = old;
        buf_reset(out);
        TRY(run_step(&d->steps[i], scratch, out, old.data == NULL ? "" : old.data, old.len, token->is_added));
        /* A byte that is no text any more must not reach a step that reads characters. */
        if (d->steps[i].kind == BYTE_FALLBACK && out->len == 1 && old.len == 6)
            break;
    }
    return STATUS_OK;
}
