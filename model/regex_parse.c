#include "model/regex_parse.h"

#include "base/utf8.h"
#include "model/regex.h"

#include <stdlib.h>
#include <string.h>

struct parser {
    const unsigned char *text;
    size_t len, at;
    int depth;                  /* open groups */
    struct regex_tree *tree;
    struct error *err;
};

static enum status refuse(const struct parser *p, size_t at, const char *why)
{
    return fail(p->err, STATUS_BAD_REQUEST, "regular expression, byte %zu: %s", at, why);
}

static int is_at(const struct parser *p, char c)
{
    return p->at < p->len && p->text[p->at] == (unsigned char)c;
}

/* A NUL in the pattern is a character like any other, not the end of a set. */
static int is_one_of(unsigned char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

/* ---- nodes ---- */

/* Both arrays double up to what the pattern's length can ask for: a node takes at
 * least a byte of it (or comes in front of one), a range too, but \W and the like
 * stand for a few. */
static enum status new_node(struct parser *p, struct regex_node node, uint32_t *out)
{
    struct regex_tree *t = p->tree;
    if (t->n_nodes == t->max_nodes) {
        uint32_t max = t->max_nodes == 0 ? 64 : 2 * t->max_nodes;
        struct regex_node *nodes = realloc(t->nodes, max * sizeof *nodes);
        if (nodes == NULL)
            return fail(p->err, STATUS_NO_MEMORY, "no memory for a regular expression");
        t->nodes = nodes;
        t->max_nodes = max;
    }
    t->nodes[t->n_nodes] = node;
    *out = t->n_nodes++;
    return STATUS_OK;
}

static enum status new_parent(struct parser *p, enum regex_node_kind kind, uint32_t *out)
{
    return new_node(p, (struct regex_node){ .kind = kind, .last_child = REGEX_NO_NODE,
                                            .previous = REGEX_NO_NODE }, out);
}

static void append_child(struct parser *p, uint32_t parent, uint32_t child)
{
    p->tree->nodes[child].previous = p->tree->nodes[parent].last_child;
    p->tree->nodes[parent].last_child = child;
}

static enum status new_class(struct parser *p, const struct char_class *c, uint32_t *out)
{
    struct regex_tree *t = p->tree;
    while (t->max_ranges - t->n_ranges < (uint32_t)c->n) {
        uint32_t max = t->max_ranges == 0 ? 64 : 2 * t->max_ranges;
        struct char_range *ranges = realloc(t->ranges, max * sizeof *ranges);
        if (ranges == NULL)
            return fail(p->err, STATUS_NO_MEMORY, "no memory for a regular expression");
        t->ranges = ranges;
        t->max_ranges = max;
    }
    for (int i = 0; i < c->n; i++)      /* none at all if the class is empty, like [^\s\S] */
        t->ranges[t->n_ranges + (uint32_t)i] = c->ranges[i];
    struct regex_node node = { .kind = REGEX_CLASS, .last_child = REGEX_NO_NODE, .previous = REGEX_NO_NODE,
                               .first_range = t->n_ranges, .n_ranges = c->n };
    t->n_ranges += (uint32_t)c->n;
    return new_node(p, node, out);
}

/* ---- characters ---- */

static uint32_t next_character(struct parser *p)
{
    const unsigned char *s = p->text + p->at;
    size_t n = utf8_sequence_length((const char *)s, p->len - p->at);
    p->at += n;
    uint32_t c = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3fu);
    return c;
}

static enum status hex(struct parser *p, int digits, uint32_t *out)
{
    uint32_t value = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        unsigned char c = p->at < p->len ? p->text[p->at] : 0;
        unsigned char low = (unsigned char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - (uint32_t)'0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (low - (uint32_t)'a') + 10;
        else
            return refuse(p, p->at, digits == 2 ? "\\x takes two hex digits" : "\\u takes four hex digits");
    }
    if (value >= 0xd800 && value <= 0xdfff)
        return refuse(p, p->at, "a surrogate is not a character");
    *out = value;
    return STATUS_OK;
}

/* \d \w \s and their opposites, one row each. */
static const struct {
    char name;
    int n;
    struct char_range ranges[4];
} sets[] = {
    { 'd', 1, { { '0', '9' } } },
    { 'w', 4, { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } } },
    { 's', 2, { { '\t', '\r' }, { ' ', ' ' } } },
};

/* 1 if c names a set, which is then added (or what is not in it). */
static int add_set(struct char_class *class, char c, int *has_room)
{
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if ((c | 0x20) != sets[i].name)
            continue;
        struct char_class set = { .n = sets[i].n };
        memcpy(set.ranges, sets[i].ranges, sizeof sets[i].ranges);
        *has_room = char_class_close(&set, c != sets[i].name);
        for (int k = 0; k < set.n && *has_room; k++)
            *has_room = char_class_add(class, set.ranges[k].lo, set.ranges[k].hi);
        return 1;
    }
    return 0;
}

/* After a backslash, the escapes that stand for one character. */
static enum status escaped_character(struct parser *p, uint32_t *out)
{
    static const char names[] = "tnvfr0", values[] = "\t\n\v\f\r";
    if (p->at == p->len)
        return refuse(p, p->at, "the pattern ends in a backslash");
    unsigned char c = p->text[p->at];
    if (is_one_of(c, names)) {
        p->at++;
        *out = (uint32_t)values[strchr(names, c) - names];
        return STATUS_OK;
    }
    if (c == 'x' || c == 'u') {
        p->at++;
        return hex(p, c == 'x' ? 2 : 4, out);
    }
    if (c >= '1' && c <= '9')
        return refuse(p, p->at, "back-references are not supported");
    if (c == 'b' || c == 'B')
        return refuse(p, p->at, "word boundaries (\\b, \\B) are not supported");
    if (c == 'p' || c == 'P')
        return refuse(p, p->at, "Unicode properties (\\p) are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return refuse(p, p->at, "this escape is not known");
    *out = next_character(p);
    return STATUS_OK;
}

/* ---- classes ---- */

/* One end of a range inside [..].  *is_set: it was \d or the like, already added. */
static enum status class_item(struct parser *p, struct char_class *c, uint32_t *out, int *is_set)
{
    *is_set = 0;
    if (p->at == p->len)
        return refuse(p, p->at, "a [ is not closed");
    if (!is_at(p, '\\')) {
        *out = next_character(p);
        return STATUS_OK;
    }
    p->at++;
    int has_room = 1;
    if (p->at < p->len && add_set(c, (char)p->text[p->at], &has_room)) {
        p->at++;
        *is_set = 1;
        return has_room ? STATUS_OK : refuse(p, p->at, "a class has too many ranges");
    }
    return escaped_character(p, out);
}

static enum status bracket(struct parser *p, uint32_t *out)
{
    size_t opened = p->at++;
    struct char_class c = { 0 };
    int negate = is_at(p, '^');
    p->at += (size_t)negate;
    if (is_at(p, ']'))
        return refuse(p, p->at, "an empty class; write \\] for the character");
    while (!is_at(p, ']')) {
        uint32_t lo, hi;
        int is_set;
        if (p->at == p->len)
            return refuse(p, opened, "a [ is not closed");
        if (is_at(p, '[') && p->at + 1 < p->len && is_one_of(p->text[p->at + 1], ":.="))
            return refuse(p, p->at,
                          "named classes like [:alpha:] are not supported; write \\[ for the character");
        TRY(class_item(p, &c, &lo, &is_set));
        if (is_set)
            continue;
        hi = lo;
        if (is_at(p, '-') && p->at + 1 < p->len && p->text[p->at + 1] != ']') {
            p->at++;
            TRY(class_item(p, &c, &hi, &is_set));
            if (is_set || hi < lo)
                return refuse(p, p->at, "a range in a class has no order");
        }
        if (!char_class_add(&c, lo, hi))
            return refuse(p, p->at, "a class has too many ranges");
    }
    p->at++;
    if (!char_class_close(&c, negate))
        return refuse(p, opened, "a class has too many ranges");
    return new_class(p, &c, out);
}

/* ---- repeats ---- */

static int number(struct parser *p, int32_t *out)
{
    size_t begin = p->at;
    int32_t value = 0;
    for (; p->at < p->len && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++)
        if (value <= REGEX_MAX_REPEAT)
            value = value * 10 + (p->text[p->at] - '0');
    *out = value;
    return p->at > begin;
}

/* {m} {m,} {m,n}; p->at is behind the brace. */
static enum status braces(struct parser *p, int32_t *min, int32_t *max)
{
    size_t opened = p->at - 1;
    if (!number(p, min))
        return refuse(p, opened, "a { that begins no repeat; write \\{ for the character");
    *max = *min;
    if (is_at(p, ',')) {
        p->at++;
        if (!number(p, max))
            *max = REGEX_UNBOUNDED;
    }
    if (!is_at(p, '}'))
        return refuse(p, opened, "a repeat is {m}, {m,} or {m,n}");
    p->at++;
    if (*min > REGEX_MAX_REPEAT || *max > REGEX_MAX_REPEAT)
        return refuse(p, opened, "a repeat may count to 1000 at most");
    if (*max != REGEX_UNBOUNDED && *max < *min)
        return refuse(p, opened, "a repeat has its larger number first");
    return STATUS_OK;
}

static enum status repeat(struct parser *p, uint32_t *atom)
{
    int32_t min, max;
    switch (p->at < p->len ? p->text[p->at] : 0) {
    case '?': min = 0, max = 1; break;
    case '*': min = 0, max = REGEX_UNBOUNDED; break;
    case '+': min = 1, max = REGEX_UNBOUNDED; break;
    case '{': min = max = -1; break;
    default: return STATUS_OK;
    }
    p->at++;
    if (min < 0)
        TRY(braces(p, &min, &max));
    if (is_at(p, '?'))
        p->at++;
    else if (is_at(p, '+'))
        return refuse(p, p->at, "possessive repeats are not supported");
    if (p->at < p->len && is_one_of(p->text[p->at], "?*+{"))
        return refuse(p, p->at, "a repeat of a repeat; put the first in a group");
    struct regex_node node = { .kind = REGEX_REPEAT, .last_child = *atom, .previous = REGEX_NO_NODE,
                               .min = min, .max = max };
    return new_node(p, node, atom);
}

/* ---- structure ---- */

static enum status alternatives(struct parser *p, uint32_t *out);

static enum status group(struct parser *p, uint32_t *out)
{
    size_t opened = p->at++;
    if (is_at(p, '?')) {
        if (p->at + 1 >= p->len || p->text[p->at + 1] != ':')
            return refuse(p, opened, "of the groups that begin with (? only (?:..) is supported");
        p->at += 2;
    } else if (is_at(p, '*')) {
        return refuse(p, opened, "verbs like (*UTF) are not supported");
    }
    if (++p->depth > REGEX_MAX_DEPTH)
        return refuse(p, opened, "more than 64 groups inside each other");
    TRY(alternatives(p, out));
    p->depth--;
    if (!is_at(p, ')'))
        return refuse(p, opened, "a ( is not closed");
    p->at++;
    return STATUS_OK;
}

static enum status single(struct parser *p, uint32_t c, uint32_t *out)
{
    struct char_class class = { .n = 1, .ranges = { { c, c } } };
    return new_class(p, &class, out);
}

static enum status dot(struct parser *p, uint32_t *out)
{
    struct char_class class = { .n = 2, .ranges = { { 0, '\n' - 1 }, { '\n' + 1, CHAR_MAX } } };
    p->at++;
    return new_class(p, &class, out);
}

static enum status escape(struct parser *p, uint32_t *out)
{
    struct char_class class = { 0 };
    int has_room = 1;
    p->at++;
    if (p->at < p->len && add_set(&class, (char)p->text[p->at], &has_room)) {
        p->at++;
        return char_class_close(&class, 0) ? new_class(p, &class, out) : STATUS_INTERNAL;
    }
    uint32_t c;
    TRY(escaped_character(p, &c));
    return single(p, c, out);
}

/* ^ and $ stand at the ends of an outermost alternative; is_first: nothing of it was read yet. */
static enum status anchor(struct parser *p, int is_first, uint32_t *out)
{
    int is_begin = p->text[p->at] == '^';
    int is_last = p->at + 1 == p->len || p->text[p->at + 1] == '|';
    if (p->depth > 0 || (is_begin ? !is_first : !is_last))
        return refuse(p, p->at,
                      is_begin ? "^ is supported at the beginning only" : "$ is supported at the end only");
    p->at++;
    return new_parent(p, is_begin ? REGEX_BEGIN : REGEX_END, out);
}

static enum status atom(struct parser *p, uint32_t *out)
{
    switch (p->text[p->at]) {
    case '[':
        return bracket(p, out);
    case '(':
        return group(p, out);
    case '.':
        return dot(p, out);
    case '\\':
        return escape(p, out);
    case '?': case '*': case '+': case '{':
        return refuse(p, p->at, "there is nothing to repeat");
    default:
        return single(p, next_character(p), out);
    }
}

static enum status sequence(struct parser *p, uint32_t *out)
{
    TRY(new_parent(p, REGEX_CAT, out));
    size_t begin = p->at;
    while (p->at < p->len && !is_at(p, '|') && !is_at(p, ')')) {
        uint32_t child;
        if (is_at(p, '^') || is_at(p, '$')) {
            TRY(anchor(p, p->at == begin, &child));
        } else {
            TRY(atom(p, &child));
            TRY(repeat(p, &child));
        }
        append_child(p, *out, child);
    }
    return STATUS_OK;
}

static enum status alternatives(struct parser *p, uint32_t *out)
{
    TRY(new_parent(p, REGEX_ALT, out));
    for (;;) {
        uint32_t child;
        TRY(sequence(p, &child));
        append_child(p, *out, child);
        if (!is_at(p, '|'))
            return STATUS_OK;
        p->at++;
    }
}

enum status regex_parse(const char *pattern, size_t len, struct regex_tree *tree, struct error *err)
{
    *tree = (struct regex_tree){ 0 };
    if (len > REGEX_MAX_BYTES)
        return fail(err, STATUS_TOO_LARGE, "regular expression of %zu bytes, limit %d", len, REGEX_MAX_BYTES);
    if (!utf8_is_valid(pattern, len))
        return fail(err, STATUS_BAD_REQUEST, "the regular expression is not valid UTF-8");
    struct parser p = { .text = (const unsigned char *)pattern, .len = len, .tree = tree, .err = err };
    TRY(alternatives(&p, &tree->root));
    if (p.at < len)
        return refuse(&p, p.at, "a ) that closes nothing");
    return STATUS_OK;
}

void regex_tree_clear(struct regex_tree *tree)
{
    free(tree->nodes);
    free(tree->ranges);
    *tree = (struct regex_tree){ 0 };
}
