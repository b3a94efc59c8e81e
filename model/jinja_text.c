#include "model/jinja_text.h"

#include "base/utf8.h"
#include "model/jinja_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

int32_t jinja_text_char(const char *text, size_t len, size_t *bytes)
{
    utf8proc_int32_t c;
    *bytes = utf8_sequence_length(text, len);
    if (*bytes == 0) {
        *bytes = 1;
        return -(int32_t)(unsigned char)text[0];
    }
    utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)*bytes, &c);
    return c;
}

size_t jinja_text_count(const char *text, size_t len)
{
    return utf8_count(text, len);
}

size_t jinja_text_offset(const char *text, size_t len, size_t n)
{
    size_t at = 0;
    for (; n > 0 && at < len; n--) {
        size_t bytes = utf8_sequence_length(text + at, len - at);
        at += bytes == 0 ? 1 : bytes;
    }
    return at;
}

int jinja_text_is_blank(int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 &&
            c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static int strips(const char *text, size_t len, const struct jinja_value *set)
{
    size_t bytes;
    if (set == NULL)
        return jinja_text_is_blank(jinja_text_char(text, len, &bytes));
    for (size_t at = 0; at < set->len; at += bytes) {
        jinja_text_char(set->text + at, set->len - at, &bytes);
        if (bytes == len && memcmp(set->text + at, text, len) == 0)
            return 1;
    }
    return 0;
}

/* Bytes of the last character of text[len], len > 0. */
static size_t last_char(const char *text, size_t len)
{
    for (size_t bytes = 2; bytes <= 4 && bytes <= len; bytes++)
        if (utf8_sequence_length(text + len - bytes, bytes) == bytes)
            return bytes;
    return 1;
}

struct jinja_value jinja_text_strip(struct jinja_value text, const struct jinja_value *set,
                                    enum jinja_side side)
{
    while (side & JINJA_LEFT && text.len > 0) {
        size_t bytes;
        jinja_text_char(text.text, text.len, &bytes);
        if (!strips(text.text, bytes, set))
            break;
        text.text += bytes;
        text.len -= bytes;
    }
    while (side & JINJA_RIGHT && text.len > 0) {
        size_t bytes = last_char(text.text, text.len);
        if (!strips(text.text + text.len - bytes, bytes, set))
            break;
        text.len -= bytes;
    }
    return text;
}

enum status jinja_strip(struct jinja_run *run, struct jinja_value text, const struct jinja_value *set,
                        enum jinja_side side, struct jinja_value *out)
{
    size_t steps;
    if (__builtin_mul_overflow(text.len / 4, set == NULL ? 1 : set->len / 8 + 1, &steps))
        steps = SIZE_MAX;
    TRY(jinja_step(run, steps));
    *out = jinja_text_strip(text, set, side);
    return STATUS_OK;
}

enum status jinja_write_case(struct jinja_run *run, const struct jinja_value *text, enum jinja_case to)
{
    int in_word = 0;
    TRY(jinja_spell(run, text->len));
    for (size_t at = 0, bytes; at < text->len; at += bytes) {
        utf8proc_uint8_t mapped[4];
        int32_t c = jinja_text_char(text->text + at, text->len - at, &bytes);
        if (c < 0) {
            TRY(jinja_write(run, text->text + at, 1));
            continue;
        }
        int32_t upper = utf8proc_toupper(c), lower = utf8proc_tolower(c);
        int up = to == JINJA_UPPER || (to == JINJA_TITLE && !in_word) || (to == JINJA_CAPITAL && at == 0);
        in_word = upper != lower;
        utf8proc_ssize_t n = utf8proc_encode_char(up ? upper : lower, mapped);
        TRY(jinja_write(run, (const char *)mapped, (size_t)n));
    }
    return STATUS_OK;
}

/* The shortest digits that read back the same, in Python's layout. */
static void format_float(double number, char *text, size_t size)
{
    int digits = 1;
    for (; digits < 17; digits++) {
        snprintf(text, size, "%.*e", digits - 1, number);
        if (!(strtod(text, NULL) < number) && !(strtod(text, NULL) > number))
            break;
    }
    snprintf(text, size, "%.*e", digits - 1, number);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        return;
    int decimals = digits - 1 - exponent;
    snprintf(text, size, "%.*f", decimals < 1 ? 1 : decimals, number);
}

static enum status write_float(struct jinja_run *run, double number, int json)
{
    char text[64];
    if (isnan(number))
        return jinja_write_text(run, json ? "NaN" : "nan");
    if (isinf(number) && json)
        return jinja_write_text(run, number < 0 ? "-Infinity" : "Infinity");
    if (isinf(number))
        return jinja_write_text(run, number < 0 ? "-inf" : "inf");
    format_float(number, text, sizeof text);
    return jinja_write_text(run, text);
}

static enum status write_int(struct jinja_run *run, int64_t integer)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, integer);
    return jinja_write_text(run, text);
}

/* What repr() escapes: control, unassigned and format characters, and every
 * blank but the space itself. */
static int is_printable(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return 0;
    case UTF8PROC_CATEGORY_ZS:
        return c == ' ';
    default:
        return 1;
    }
}

static enum status write_repr_char(struct jinja_run *run, const char *text, size_t bytes, int32_t c,
                                   char quote)
{
    char escaped[16];
    static const char plain[] = "\n\r\t\\", letters[] = "nrt\\";
    const char *found = c > 0 && c < 128 ? strchr(plain, c) : NULL;
    if (found != NULL)
        snprintf(escaped, sizeof escaped, "\\%c", letters[found - plain]);
    else if (c == quote)
        snprintf(escaped, sizeof escaped, "\\%c", quote);
    else if (c >= 0 && is_printable(c))
        return jinja_write(run, text, bytes);
    else if (c < 0x100)
        snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned)abs(c));
    else
        snprintf(escaped, sizeof escaped, c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
    return jinja_write_text(run, escaped);
}

static enum status write_repr_string(struct jinja_run *run, const struct jinja_value *value)
{
    int single = value->len > 0 && memchr(value->text, '\'', value->len) != NULL;
    int twice = value->len > 0 && memchr(value->text, '"', value->len) != NULL;
    char quote = single && !twice ? '"' : '\'';
    TRY(jinja_spell(run, value->len));
    TRY(jinja_write(run, &quote, 1));
    for (size_t at = 0, bytes; at < value->len; at += bytes) {
        int32_t c = jinja_text_char(value->text + at, value->len - at, &bytes);
        TRY(write_repr_char(run, value->text + at, bytes, c, quote));
    }
    return jinja_write(run, &quote, 1);
}

static enum status write_repr_list(struct jinja_run *run, const struct jinja_list *list, int is_tuple)
{
    TRY(jinja_write_text(run, is_tuple ? "(" : "["));
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0)
            TRY(jinja_write_text(run, ", "));
        TRY(jinja_write_repr(run, &list->at[i]));
    }
    if (!is_tuple)
        return jinja_write_text(run, "]");
    return jinja_write_text(run, list->n == 1 ? ",)" : ")");
}

static enum status write_repr_dict(struct jinja_run *run, const struct jinja_value *value)
{
    const struct jinja_dict *dict = value->dict;
    TRY(jinja_write_text(run, value->type == JINJA_DICT ? "{" : "<Namespace {"));
    for (size_t i = 0; i < dict->n; i++) {
        if (i > 0)
            TRY(jinja_write_text(run, ", "));
        TRY(jinja_write_repr(run, &dict->at[i].key));
        TRY(jinja_write_text(run, ": "));
        TRY(jinja_write_repr(run, &dict->at[i].value));
    }
    return jinja_write_text(run, value->type == JINJA_DICT ? "}" : "}>");
}

enum status jinja_write_repr(struct jinja_run *run, const struct jinja_value *value)
{
    TRY(jinja_enter(run));
    TRY(jinja_step(run, 1));
    switch (value->type) {
    case JINJA_UNDEFINED: TRY(jinja_write_text(run, "Undefined")); break;
    case JINJA_NONE:      TRY(jinja_write_text(run, "None")); break;
    case JINJA_BOOL:      TRY(jinja_write_text(run, value->integer ? "True" : "False")); break;
    case JINJA_INT:       TRY(write_int(run, value->integer)); break;
    case JINJA_FLOAT:     TRY(write_float(run, value->number, 0)); break;
    case JINJA_STRING:    TRY(write_repr_string(run, value)); break;
    case JINJA_LIST:
    case JINJA_TUPLE:     TRY(write_repr_list(run, value->list, value->type == JINJA_TUPLE)); break;
    case JINJA_DICT:
    case JINJA_NAMESPACE: TRY(write_repr_dict(run, value)); break;
    case JINJA_LOOP:
    case JINJA_MACRO:
    case JINJA_FUNCTION:
        TRY(jinja_write_text(run, "<"));
        TRY(jinja_write_text(run, jinja_type_name(value)));
        TRY(jinja_write_text(run, ">"));
        break;
    }
    jinja_leave(run);
    return STATUS_OK;
}

enum status jinja_write_str(struct jinja_run *run, const struct jinja_value *value)
{
    if (value->type == JINJA_STRING)
        return jinja_write(run, value->text, value->len);
    if (value->type == JINJA_UNDEFINED)
        return STATUS_OK;
    return jinja_write_repr(run, value);
}

enum status jinja_to_string(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out)
{
    if (value->type == JINJA_STRING) {
        *out = *value;
        return STATUS_OK;
    }
    size_t mark = jinja_mark(run);
    TRY(jinja_write_str(run, value));
    return jinja_capture(run, mark, out);
}

static enum status write_json_char(struct jinja_run *run, const char *text, size_t bytes, int32_t c,
                                   int ascii)
{
    char escaped[16];
    static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *found = c > 0 && c < 128 ? strchr(plain, c) : NULL;
    if (found != NULL)
        snprintf(escaped, sizeof escaped, "\\%c", letters[found - plain]);
    else if (c >= 0 && (c < 0x20 || (ascii && c > 0x7e && c < 0x10000)) && c != 0x7f)
        snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)c);
    else if (c >= 0x10000 && ascii)
        snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", 0xd7c0 + ((unsigned)c >> 10),
                 0xdc00 + ((unsigned)c & 0x3ff));
    else
        return jinja_write(run, text, bytes);
    return jinja_write_text(run, escaped);
}

static enum status write_json_string(struct jinja_run *run, const struct jinja_value *value, int ascii)
{
    TRY(jinja_spell(run, value->len));
    TRY(jinja_write_text(run, "\""));
    for (size_t at = 0, bytes; at < value->len; at += bytes) {
        int32_t c = jinja_text_char(value->text + at, value->len - at, &bytes);
        TRY(write_json_char(run, value->text + at, bytes, c, ascii));
    }
    return jinja_write_text(run, "\"");
}

static enum status json_level(struct jinja_run *run, const struct jinja_value *value,
                              const struct jinja_json_style *style, size_t level);

static enum status write_newline(struct jinja_run *run, const struct jinja_json_style *style, size_t level)
{
    if (style->indent == NULL)
        return STATUS_OK;
    TRY(jinja_write_text(run, "\n"));
    for (size_t i = 0; i < level; i++)
        TRY(jinja_write(run, style->indent->text, style->indent->len));
    return STATUS_OK;
}

static enum status write_json_list(struct jinja_run *run, const struct jinja_list *list,
                                   const struct jinja_json_style *style, size_t level)
{
    if (list->n == 0)
        return jinja_write_text(run, "[]");
    TRY(jinja_write_text(run, "["));
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0)
            TRY(jinja_write(run, style->item.text, style->item.len));
        TRY(write_newline(run, style, level + 1));
        TRY(json_level(run, &list->at[i], style, level + 1));
    }
    TRY(write_newline(run, style, level));
    return jinja_write_text(run, "]");
}

/* JSON's keys are strings: numbers, true and null are put in quotes. */
static enum status write_json_key(struct jinja_run *run, const struct jinja_value *key,
                                  const struct jinja_json_style *style, size_t level)
{
    if (key->type == JINJA_STRING)
        return write_json_string(run, key, style->ascii);
    if (!jinja_is_number(key) && key->type != JINJA_NONE)
        return jinja_fail(run, "a key of JSON must be a string or a number, not '%s'", jinja_type_name(key));
    TRY(jinja_write_text(run, "\""));
    TRY(json_level(run, key, style, level));
    return jinja_write_text(run, "\"");
}

/* The positions of the entries in the order of their keys: an insertion sort,
 * since the objects of a chat are small; its cost is counted. */
static enum status sorted_positions(struct jinja_run *run, const struct jinja_dict *dict, size_t **out)
{
    void *memory;
    TRY(jinja_take(run, dict->n * sizeof **out, &memory));
    size_t *order = memory;
    for (size_t i = 0; i < dict->n; i++) {
        size_t j = i;
        for (; j > 0; j--) {
            int sign;
            TRY(jinja_step(run, 1));
            TRY(jinja_compare(run, &dict->at[order[j - 1]].key, &dict->at[i].key, &sign));
            if (sign <= 0)
                break;
            order[j] = order[j - 1];
        }
        order[j] = i;
    }
    *out = order;
    return STATUS_OK;
}

static enum status write_json_dict(struct jinja_run *run, const struct jinja_dict *dict,
                                   const struct jinja_json_style *style, size_t level)
{
    size_t *order = NULL;
    if (dict->n == 0)
        return jinja_write_text(run, "{}");
    if (style->sort_keys)
        TRY(sorted_positions(run, dict, &order));
    TRY(jinja_write_text(run, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        const struct jinja_entry *entry = &dict->at[order == NULL ? i : order[i]];
        if (i > 0)
            TRY(jinja_write(run, style->item.text, style->item.len));
        TRY(write_newline(run, style, level + 1));
        TRY(write_json_key(run, &entry->key, style, level + 1));
        TRY(jinja_write(run, style->key.text, style->key.len));
        TRY(json_level(run, &entry->value, style, level + 1));
    }
    TRY(write_newline(run, style, level));
    return jinja_write_text(run, "}");
}

static enum status json_level(struct jinja_run *run, const struct jinja_value *value,
                              const struct jinja_json_style *style, size_t level)
{
    TRY(jinja_enter(run));
    TRY(jinja_step(run, 1));
    switch (value->type) {
    case JINJA_NONE:   TRY(jinja_write_text(run, "null")); break;
    case JINJA_BOOL:   TRY(jinja_write_text(run, value->integer ? "true" : "false")); break;
    case JINJA_INT:    TRY(write_int(run, value->integer)); break;
    case JINJA_FLOAT:  TRY(write_float(run, value->number, 1)); break;
    case JINJA_STRING: TRY(write_json_string(run, value, style->ascii)); break;
    case JINJA_LIST:
    case JINJA_TUPLE:  TRY(write_json_list(run, value->list, style, level)); break;
    case JINJA_DICT:   TRY(write_json_dict(run, value->dict, style, level)); break;
    default:
        return jinja_fail(run, "a value of type '%s' cannot be written as JSON", jinja_type_name(value));
    }
    jinja_leave(run);
    return STATUS_OK;
}

enum status jinja_write_json(struct jinja_run *run, const struct jinja_value *value,
                             const struct jinja_json_style *style)
{
    return json_level(run, value, style, 0);
}
