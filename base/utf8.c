#include "base/utf8.h"

/* How many bytes a sequence that starts with `lead` has; 0 if none may. */
static size_t length_of_lead(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    if (lead >= 0xf0 && lead <= 0xf4)
        return 4;
    return 0;
}

/* The second byte carries the bounds that exclude overlong forms, surrogates
 * and values past U+10FFFF (Unicode standard, table 3-7). */
static int second_fits(unsigned char lead, unsigned char second)
{
    unsigned char low = 0x80, high = 0xbf;
    if (lead == 0xe0)
        low = 0xa0;
    else if (lead == 0xed)
        high = 0x9f;
    else if (lead == 0xf0)
        low = 0x90;
    else if (lead == 0xf4)
        high = 0x8f;
    return second >= low && second <= high;
}

/* Bytes of text that agree with a sequence of length n; n if it is complete. */
static size_t matching_prefix(const char *text, size_t len, size_t n)
{
    size_t i = 1;
    for (; i < n && i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        int fits = i == 1 ? second_fits((unsigned char)text[0], c) : (c & 0xc0) == 0x80;
        if (!fits)
            return 0;
    }
    return i;
}

size_t utf8_sequence_length(const char *text, size_t len)
{
    if (len == 0)
        return 0;
    size_t n = length_of_lead((unsigned char)text[0]);
    if (n == 0 || n > len)
        return 0;
    return matching_prefix(text, len, n) == n ? n : 0;
}

size_t utf8_incomplete_tail(const char *text, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const char *start = text + len - back;
        size_t n = length_of_lead((unsigned char)*start);
        if (n > back)
            return matching_prefix(start, back, n) == back ? back : 0;
        if (n > 0)
            return 0;
    }
    return 0;
}

int utf8_is_valid(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = utf8_sequence_length(text + i, len - i);
        if (n == 0)
            return 0;
        i += n;
    }
    return 1;
}

size_t utf8_count(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; count++) {
        size_t n = utf8_sequence_length(text + i, len - i);
        i += n > 0 ? n : 1;
    }
    return count;
}
