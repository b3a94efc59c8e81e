#include "base/json_write.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The two-character escape of a byte, or 0. */
static char short_escape(unsigned char c)
{
    switch (c) {
    case '"':  return '"';
    case '\\': return '\\';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    case '\b': return 'b';
    case '\f': return 'f';
    default:   return 0;
    }
}

static enum status write_escaped(struct buf *out, unsigned char c)
{
    char two = short_escape(c);
    if (two != 0) {
        char text[2] = { '\\', two };
        return buf_add(out, text, 2);
    }
    return buf_printf(out, "\\u%04x", c);
}

enum status json_write_string(struct buf *out, const char *text, size_t len)
{
    TRY(buf_add_char(out, '"'));
    size_t run = 0;     /* start of the bytes that need no change */
    size_t i = 0;
    while (i < len) {
        unsigned char c = (unsigned char)text[i];
        size_t n = c < 0x80 ? 1 : utf8_sequence_length(text + i, len - i);
        if (n > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            i += n;
            continue;
        }
        TRY(buf_add(out, text + run, i - run));
        if (n == 0)
            TRY(buf_add_text(out, UTF8_REPLACEMENT));
        else
            TRY(write_escaped(out, c));
        i++;
        run = i;
    }
    TRY(buf_add(out, text + run, len - run));
    return buf_add_char(out, '"');
}

enum status json_write_cstring(struct buf *out, const char *text)
{
    return json_write_string(out, text, strlen(text));
}

enum status json_write_int(struct buf *out, int64_t value)
{
    return buf_printf(out, "%" PRId64, value);
}

enum status json_write_float(struct buf *out, float value)
{
    if (!isfinite(value))
        return buf_add_text(out, "-9999.0");
    char text[40];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    return buf_add_text(out, text);
}

enum status json_write_double(struct buf *out, double value)
{
    if (!isfinite(value))
        return buf_add_text(out, "-9999.0");
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return buf_add_text(out, text);
}
