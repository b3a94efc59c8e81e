#include "model/char_class.h"

#include <stdio.h>
#include <string.h>

int char_class_add(struct char_class *c, uint32_t lo, uint32_t hi)
{
    if (c->n == CHAR_CLASS_MAX_RANGES)
        return 0;
    c->ranges[c->n++] = (struct char_range){ lo, hi };
    return 1;
}

static void sort_and_join(struct char_class *c)
{
    for (int i = 1; i < c->n; i++) {
        struct char_range r = c->ranges[i];
        int k = i;
        for (; k > 0 && c->ranges[k - 1].lo > r.lo; k--)
            c->ranges[k] = c->ranges[k - 1];
        c->ranges[k] = r;
    }
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        if (n > 0 && c->ranges[i].lo <= c->ranges[n - 1].hi + 1) {
            if (c->ranges[i].hi > c->ranges[n - 1].hi)
                c->ranges[n - 1].hi = c->ranges[i].hi;
        } else {
            c->ranges[n++] = c->ranges[i];
        }
    }
    c->n = n;
}

int char_class_close(struct char_class *c, int negate)
{
    sort_and_join(c);
    if (!negate)
        return 1;
    struct char_class others = { 0 };
    uint32_t lo = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->ranges[i].lo > lo && !char_class_add(&others, lo, c->ranges[i].lo - 1))
            return 0;
        lo = c->ranges[i].hi + 1;
    }
    if (lo <= CHAR_MAX && !char_class_add(&others, lo, CHAR_MAX))
        return 0;
    *c = others;
    return 1;
}

/* ---- spelling ---- */

/* What is being written: alternatives collected so far, and where sharing of
 * equal endings may look. */
struct writer {
    struct byte_program *program;
    uint32_t since;             /* the first pc of this class */
    uint32_t next;
    uint32_t entry;
    int has_entry;
};

static void add_way(struct writer *w, uint32_t pc)
{
    w->entry = w->has_entry ? byte_program_split(w->program, pc, w->entry) : pc;
    w->has_entry = 1;
}

/* The bytes of c, which has n of them (2..4). */
static void encode(uint32_t c, int n, uint8_t *bytes)
{
    for (int i = n - 1; i > 0; i--, c >>= 6)
        bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
    bytes[0] = (uint8_t)((0xf00 >> n) | c);
}

/* lo..hi, both of n bytes.  A range of characters is one row of byte ranges when
 * every byte after the first that differs runs through all of 80..bf; otherwise
 * it is cut where that stops being true. */
static void add_same_length(struct writer *w, uint32_t lo, uint32_t hi, int n)
{
    for (int i = 1; i < n; i++) {
        uint32_t tail = (1u << (6 * i)) - 1;
        if ((lo & ~tail) == (hi & ~tail))
            break;
        if ((lo & tail) != 0) {
            add_same_length(w, lo, lo | tail, n);
            add_same_length(w, (lo | tail) + 1, hi, n);
            return;
        }
        if ((hi & tail) != tail) {
            add_same_length(w, lo, (hi & ~tail) - 1, n);
            add_same_length(w, hi & ~tail, hi, n);
            return;
        }
    }
    uint8_t first[4], last[4];
    encode(lo, n, first);
    encode(hi, n, last);
    uint32_t pc = w->next;
    for (int i = n - 1; i >= 0; i--)
        pc = byte_program_range_shared(w->program, w->since, first[i], last[i], pc);
    add_way(w, pc);
}

/* The part of lo..hi that lies in first..last, all of which have n bytes. */
static void add_part(struct writer *w, struct char_range r, uint32_t first, uint32_t last, int n)
{
    uint32_t lo = r.lo > first ? r.lo : first;
    uint32_t hi = r.hi < last ? r.hi : last;
    if (lo > hi)
        return;
    if (n == 1)
        add_way(w, byte_program_range(w->program, (uint8_t)lo, (uint8_t)hi, w->next));
    else
        add_same_length(w, lo, hi, n);
}

static void add_utf8(struct writer *w, struct char_range r)
{
    add_part(w, r, 0x0, 0x7f, 1);
    add_part(w, r, 0x80, 0x7ff, 2);
    add_part(w, r, 0x800, 0xd7ff, 3);
    add_part(w, r, 0xe000, 0xffff, 3);
    add_part(w, r, 0x10000, CHAR_MAX, 4);
}

/* A character below 0x60 that a JSON string must not hold as it is. */
static void add_escaped(struct writer *w, uint32_t c)
{
    static const char short_names[] = "bfnrt\"\\";
    static const char short_values[] = "\b\f\n\r\t\"\\";
    char text[8];
    const char *found = strchr(short_values, (int)c);
    int len = found != NULL ? snprintf(text, sizeof text, "\\%c", short_names[found - short_values])
                            : snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    add_way(w, byte_program_literal(w->program, text, (size_t)len, w->next));
}

static void add_json(struct writer *w, struct char_range r)
{
    static const struct char_range raw[] = { { 0x20, 0x21 }, { 0x23, 0x5b }, { 0x5d, CHAR_MAX } };
    for (size_t i = 0; i < sizeof raw / sizeof raw[0]; i++) {
        struct char_range part = { r.lo > raw[i].lo ? r.lo : raw[i].lo, r.hi < raw[i].hi ? r.hi : raw[i].hi };
        if (part.lo <= part.hi)
            add_utf8(w, part);
    }
    for (uint32_t c = r.lo > 0 ? r.lo : 1; c <= r.hi && c <= '\\'; c++)
        if (c < 0x20 || c == '"' || c == '\\')
            add_escaped(w, c);
}

uint32_t char_class_emit(const struct char_class *c, enum char_spelling spelling,
                         struct byte_program *program, uint32_t next)
{
    struct writer w = { .program = program, .since = program->n_code, .next = next };
    for (int i = 0; i < c->n; i++) {
        if (spelling == CHARS_JSON)
            add_json(&w, c->ranges[i]);
        else
            add_utf8(&w, c->ranges[i]);
    }
    return w.has_entry ? w.entry : byte_program_fail(program);
}
