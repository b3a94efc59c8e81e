#include "model/normalizer.h"

#include "base/utf8.h"
#include "model/text_rule.h"
#include "model/tokenizer_spec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_MARKS 256               /* combining marks put in order together */

enum kind { UNICODE_FORM, LOWERCASE, STRIP, PREPEND, REPLACE };

struct step {
    enum kind kind;
    utf8proc_option_t form;         /* UNICODE_FORM */
    int strip_left, strip_right;    /* STRIP */
    struct pattern *pattern;        /* REPLACE */
    struct buf content;             /* PREPEND, REPLACE */
};

struct normalizer {
    struct step steps[TOKENIZER_MAX_STEPS];
    int n_steps;
};

/* ---- reading ---- */

static const struct {
    const char *type;
    int options;
} forms[] = {
    { "NFC",  UTF8PROC_STABLE | UTF8PROC_COMPOSE },
    { "NFD",  UTF8PROC_STABLE | UTF8PROC_DECOMPOSE },
    { "NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT },
    { "NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT },
};

static enum status add_step(void *part, const struct json_reader *r, const char *type, struct error *err)
{
    struct normalizer *n = part;
    struct step *s = &n->steps[n->n_steps++];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(type, forms[i].type) == 0) {
            *s = (struct step){ .kind = UNICODE_FORM, .form = (utf8proc_option_t)forms[i].options };
            return STATUS_OK;
        }
    }
    if (strcmp(type, "Lowercase") == 0) {
        s->kind = LOWERCASE;
        return STATUS_OK;
    }
    if (strcmp(type, "Strip") == 0) {
        *s = (struct step){ .kind = STRIP, .strip_left = 1, .strip_right = 1 };
        TRY(json_read_bool(r, "strip_left", &s->strip_left, err));
        return json_read_bool(r, "strip_right", &s->strip_right, err);
    }
    if (strcmp(type, "Prepend") == 0) {
        s->kind = PREPEND;
        return tokenizer_spec_content(r, "prepend", &s->content, err);
    }
    if (strcmp(type, "Replace") == 0) {
        s->kind = REPLACE;
        TRY(pattern_create_from_json(&s->pattern, json_read_any(r, "pattern"), r->where, err));
        return tokenizer_spec_content(r, "content", &s->content, err);
    }
    return tokenizer_spec_unknown(r, type, err);
}

enum status normalizer_create(struct normalizer **out, const json_t *section, const char *where,
                              struct error *err)
{
    struct normalizer *n = calloc(1, sizeof *n);
    if (n == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a normalizer");
    const struct tokenizer_spec spec = { .where = where, .list = "normalizers", .add = add_step, .part = n };
    enum status s = tokenizer_spec_walk(&spec, section, err);
    if (s != STATUS_OK) {
        normalizer_destroy(n);
        return s;
    }
    *out = n;
    return STATUS_OK;
}

void normalizer_destroy(struct normalizer *n)
{
    if (n == NULL)
        return;
    for (int i = 0; i < n->n_steps; i++) {
        pattern_destroy(n->steps[i].pattern);
        buf_clear(&n->steps[i].content);
    }
    free(n);
}

/* ---- running ---- */

static int is_ascii(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] >= 0x80)
            return 0;
    }
    return 1;
}

/* Bytes of text up to and including the MAX_MARKS-th mark of a run, or all. */
static size_t stretch(const char *text, size_t len)
{
    size_t n_marks = 0;
    for (size_t i = 0, step; i < len; i += step) {
        int c = text_rule_char(text + i, len - i, &step);
        n_marks = utf8proc_get_property(c)->combining_class != 0 ? n_marks + 1 : 0;
        if (n_marks == MAX_MARKS)
            return i + step;
    }
    return len;
}

static enum status unicode_form(struct buf *out, const char *text, size_t len, utf8proc_option_t form)
{
    if (is_ascii(text, len))
        return buf_add(out, text, len);
    for (size_t i = 0, n; i < len; i += n) {
        n = stretch(text + i, len - i);
        utf8proc_uint8_t *changed = NULL;
        utf8proc_ssize_t n_changed = utf8proc_map((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)n,
                                                  &changed, form);
        if (n_changed < 0)
            return STATUS_NO_MEMORY;        /* the text is valid: nothing else can be wrong */
        enum status s = buf_add(out, changed, (size_t)n_changed);
        free(changed);
        TRY(s);
    }
    return STATUS_OK;
}

static enum status lowercase(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0, step; i < len; i += step) {
        int c = text_rule_char(text + i, len - i, &step);
        if (c == 0x130) {                   /* the one letter that becomes two: i and a dot above */
            TRY(buf_add_text(out, "i\xcc\x87"));
            continue;
        }
        utf8proc_uint8_t bytes[4];
        utf8proc_ssize_t n = utf8proc_encode_char(utf8proc_tolower(c), bytes);
        TRY(buf_add(out, bytes, (size_t)n));
    }
    return STATUS_OK;
}

static enum status strip(struct buf *out, const struct step *s, const char *text, size_t len)
{
    size_t left = s->strip_left ? text_rule_space_before(text, len) : 0;
    size_t right = s->strip_right ? text_rule_space_after(text + left, len - left) : 0;
    return buf_add(out, text + left, len - left - right);
}

static enum status prepend(struct buf *out, const struct step *s, const char *text, size_t len, int joined)
{
    if (len > 0 && !joined)
        TRY(buf_add(out, s->content.data, s->content.len));
    return buf_add(out, text, len);
}

static enum status run_step(const struct step *s, struct pattern_scratch *scratch, struct buf *out,
                            const struct normalizer_input *in)
{
    switch (s->kind) {
    case UNICODE_FORM: return unicode_form(out, in->text, in->len, s->form);
    case LOWERCASE:    return lowercase(out, in->text, in->len);
    case STRIP:        return strip(out, s, in->text, in->len);
    case PREPEND:      return prepend(out, s, in->text, in->len, in->joined);
    case REPLACE:      return text_rule_replace(out, s->pattern, scratch, in->text, in->len, &s->content);
    }
    return STATUS_INTERNAL;
}

enum status normalizer_run(const struct normalizer *n, const struct normalizer_input *input,
                           struct pattern_scratch *scratch, struct buf *out, struct buf *spare)
{
    buf_reset(out);
    if (n->n_steps == 0)
        return buf_add(out, input->text, input->len);
    for (int i = 0; i < n->n_steps; i++) {
        struct normalizer_input in = *input;
        if (i > 0) {
            struct buf swap = *spare;
            *spare = *out;
            *out = swap;
            in.text = spare->data == NULL ? "" : spare->data;
            in.len = spare->len;
        }
        buf_reset(out);
        TRY(run_step(&n->steps[i], scratch, out, &in));
    }
    return STATUS_OK;
}
