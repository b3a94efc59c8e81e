#include "model/pattern_syntax.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdio.h>
#include <string.h>

/* \s is Unicode's White_Space; PCRE2's own \s has U+180E as well. */
static const char spaces[] =
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
static const char non_spaces[] =
    "\\x00-\\x08\\x0e-\\x1f!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";

struct reader {
    const char *text;
    size_t len, at;
    struct buf *out;
    const char *where;
    struct error *err;
};

static enum status unsupported(const struct reader *r, const char *what)
{
    return fail(r->err, STATUS_UNSUPPORTED, "%.100s: pattern '%.80s': %s at byte %zu has no meaning here",
                r->where, r->text, what, r->at);
}

static enum status unfinished(const struct reader *r, const char *what)
{
    return fail(r->err, STATUS_BAD_MODEL, "%.100s: pattern '%.80s': %s does not end", r->where, r->text,
                what);
}

static int looking_at(const struct reader *r, const char *text)
{
    size_t n = strlen(text);
    return r->len - r->at >= n && memcmp(r->text + r->at, text, n) == 0;
}

static enum status copy(struct reader *r, size_t n)
{
    TRY(buf_add(r->out, r->text + r->at, n));
    r->at += n;
    return STATUS_OK;
}

/* 1 if PCRE2 knows a script of that name. */
static int is_script(const char *name, size_t len)
{
    char probe[64];
    int n = snprintf(probe, sizeof probe, "\\p{sc:%.*s}", (int)len, name);
    if (n < 0 || (size_t)n >= sizeof probe)
        return 0;
    int code;
    PCRE2_SIZE place;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)probe, (size_t)n, PCRE2_UTF, &code, &place, NULL);
    pcre2_code_free(compiled);
    return compiled != NULL;
}

/* \p{Name}, \P{Name}, \p{^Name}: a bare script name means the script itself here
 * and the script with its extensions in PCRE2. */
static enum status translate_property(struct reader *r)
{
    const char *start = r->text + r->at;
    const char *end = memchr(start, '}', r->len - r->at);
    if (end == NULL)
        return unfinished(r, "a property");
    const char *name = start + 3;
    if (name < end && *name == '^')
        name++;
    TRY(buf_add(r->out, start, (size_t)(name - start)));
    if (is_script(name, (size_t)(end - name)))
        TRY(buf_add_text(r->out, "sc:"));
    TRY(buf_add(r->out, name, (size_t)(end - name) + 1));
    r->at += (size_t)(end - start) + 1;
    return STATUS_OK;
}

static enum status translate_space(struct reader *r, int in_class)
{
    int is_space = r->text[r->at + 1] == 's';
    r->at += 2;
    if (!in_class)
        TRY(buf_add_text(r->out, "["));
    TRY(buf_add_text(r->out, is_space ? spaces : non_spaces));
    return in_class ? STATUS_OK : buf_add_text(r->out, "]");
}

static enum status translate_escape(struct reader *r, int in_class)
{
    if (r->at + 1 >= r->len)
        return unfinished(r, "an escape");
    if (looking_at(r, "\\p{") || looking_at(r, "\\P{"))
        return translate_property(r);
    if (looking_at(r, "\\s") || looking_at(r, "\\S"))
        return translate_space(r, in_class);
    if (looking_at(r, "\\h") || looking_at(r, "\\H"))
        return unsupported(r, "\\h");
    return copy(r, 2);
}

/* The members of a class from r->at up to "]" or "&&", which is not consumed. */
static enum status translate_members(struct reader *r)
{
    if (r->at < r->len && r->text[r->at] == ']')
        TRY(copy(r, 1));                    /* a first ']' is a member */
    while (r->at < r->len && r->text[r->at] != ']' && !looking_at(r, "&&")) {
        if (r->text[r->at] == '\\') {
            TRY(translate_escape(r, 1));
        } else if (looking_at(r, "[:")) {
            const char *end = memmem(r->text + r->at, r->len - r->at, ":]", 2);
            if (end == NULL)
                return unfinished(r, "a class");
            TRY(copy(r, (size_t)(end + 2 - (r->text + r->at))));
        } else if (r->text[r->at] == '[') {
            return unsupported(r, "a class in a class");
        } else {
            TRY(copy(r, 1));
        }
    }
    return r->at < r->len ? STATUS_OK : unfinished(r, "a class");
}

/* [A&&[B]] -> (?:(?=[B])[A]), [A&&[^B]] -> (?:(?![B])[A]).  A is written first,
 * then moved behind B, so that the file is read from left to right. */
static enum status translate_class(struct reader *r)
{
    size_t class_at = r->out->len;
    int negated = r->at + 1 < r->len && r->text[r->at + 1] == '^';
    TRY(copy(r, negated ? 2 : 1));
    TRY(translate_members(r));
    if (!looking_at(r, "&&"))
        return copy(r, 1);
    if (negated)
        return unsupported(r, "the negation of an intersection");
    r->at += 2;
    if (r->at >= r->len || r->text[r->at] != '[')
        return unsupported(r, "an intersection without brackets");
    TRY(buf_add_char(r->out, ']'));
    size_t n_class = r->out->len - class_at;
    int without = r->at + 1 < r->len && r->text[r->at + 1] == '^';
    TRY(buf_add_text(r->out, without ? "(?:(?![" : "(?:(?=["));
    r->at += without ? 2 : 1;
    TRY(translate_members(r));
    if (!looking_at(r, "]]"))
        return unsupported(r, "an intersection of more than two classes");
    r->at += 2;
    TRY(buf_add_text(r->out, "])"));
    TRY(buf_reserve(r->out, n_class + 1));
    TRY(buf_add(r->out, r->out->data + class_at, n_class));
    TRY(buf_add_char(r->out, ')'));
    memmove(r->out->data + class_at, r->out->data + class_at + n_class, r->out->len - class_at - n_class);
    r->out->len -= n_class;
    r->out->data[r->out->len] = '\0';
    return STATUS_OK;
}

/* {n,m}+ is a repeated repeat here and possessive in PCRE2. */
static int is_repeated_interval(const struct reader *r)
{
    size_t i = r->at + 1;
    while (i < r->len && (r->text[i] == ',' || (r->text[i] >= '0' && r->text[i] <= '9')))
        i++;
    return i > r->at + 1 && i + 1 < r->len && r->text[i] == '}' && r->text[i + 1] == '+';
}

static enum status translate_all(struct reader *r)
{
    while (r->at < r->len) {
        switch (r->text[r->at]) {
        case '\\':
            TRY(translate_escape(r, 0));
            break;
        case '[':
            TRY(translate_class(r));
            break;
        case '{':
            if (is_repeated_interval(r))
                return unsupported(r, "'+' behind an interval");
            TRY(copy(r, 1));
            break;
        default:
            TRY(copy(r, 1));
        }
    }
    return STATUS_OK;
}

enum status pattern_syntax_translate(struct buf *out, const char *regex, size_t len, const char *where,
                                     struct error *err)
{
    /* Spaces up to the end of a line: without the look-behind a run of n spaces
     * that does not end the line is tried from each of its n places.  Greedy
     * matching takes the last end it can reach, so the rest of a run that failed
     * or matched once cannot match. */
    static const char run_to_end[] = "\\s+$", same_run_to_end[] = "(?<!\\s)\\s+$";
    struct reader r = { .text = regex, .len = len, .out = out, .where = where, .err = err };
    if (len == strlen(run_to_end) && memcmp(regex, run_to_end, len) == 0) {
        r.text = same_run_to_end;
        r.len = strlen(same_run_to_end);
    }
    return translate_all(&r);
}
