#include "model/byte_level.h"

#include "base/utf8.h"

#include <stdint.h>

/* What stands for itself: printable Latin-1 without the space and the soft hyphen. */
static int stands_for_itself(unsigned c)
{
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

/* The others are numbered from U+0100 in the order of their bytes:
 * 0..32, then 127..160, then 173. */
static unsigned char_of_byte(unsigned byte)
{
    if (stands_for_itself(byte))
        return byte;
    if (byte <= 32)
        return 256 + byte;
    return byte == 173 ? 256 + 67 : 256 + 33 + (byte - 127);
}

/* -1: the character stands for no byte. */
static int byte_of_char(unsigned c)
{
    if (c < 256)
        return stands_for_itself(c) ? (int)c : -1;
    if (c <= 256 + 32)
        return (int)(c - 256);
    if (c < 256 + 67)
        return (int)(c - 256 - 33 + 127);
    return c == 256 + 67 ? 173 : -1;
}

enum status byte_level_map(struct buf *out, const char *bytes, size_t len)
{
    TRY(buf_reserve(out, len));
    for (size_t i = 0; i < len; i++) {
        unsigned c = char_of_byte((unsigned char)bytes[i]);
        char two[2] = { (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)) };
        if (c < 0x80)
            TRY(buf_add_char(out, (char)c));
        else
            TRY(buf_add(out, two, 2));
    }
    return STATUS_OK;
}

enum status byte_level_unmap(struct buf *out, const char *text, size_t len, int *whole)
{
    size_t before = out->len;
    TRY(buf_reserve(out, len));         /* so that nothing below can fail */
    for (size_t i = 0; i < len;) {
        size_t n = utf8_sequence_length(text + i, len - i);
        unsigned c = (unsigned char)text[i];
        if (n == 2)
            c = (c & 0x1f) << 6 | ((unsigned char)text[i + 1] & 0x3f);
        int byte = n == 1 || n == 2 ? byte_of_char(c) : -1;
        if (byte < 0) {
            out->len = before;
            *whole = 0;
            return buf_add(out, text, len);
        }
        TRY(buf_add_char(out, (char)byte));
        i += n;
    }
    *whole = 1;
    return STATUS_OK;
}
