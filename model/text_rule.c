#include "model/text_rule.h"

#include "base/utf8.h"

#include <stdint.h>
#include <utf8proc.h>

enum status text_rule_replace(struct buf *out, const struct pattern *p, struct pattern_scratch *scratch,
                              const char *text, size_t len, const struct buf *content)
{
    size_t done = 0, from = 0;
    while (from <= len) {
        struct pattern_match match;
        int found;
        TRY(pattern_find(p, scratch, text, len, from, &match, &found));
        if (!found)
            break;
        if (match.begin == match.end) {     /* an empty match replaces nothing */
            size_t step = 1;
            if (match.end < len)
                text_rule_char(text + match.end, len - match.end, &step);
            from = match.end + step;
            continue;
        }
        TRY(buf_add(out, text + done, match.begin - done));
        TRY(buf_add(out, content->data, content->len));
        done = from = match.end;
    }
    return buf_add(out, text + done, len - done);
}

int text_rule_char(const char *text, size_t len, size_t *step)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, len < 4 ? (utf8proc_ssize_t)len
                                          : 4, &c);
    *step = n > 0 ? (size_t)n : 1;
    return n > 0 ? c : 0xfffd;
}

size_t text_rule_space_before(const char *text, size_t len)
{
    size_t n = 0, step;
    while (n < len && text_rule_is_space(text_rule_char(text + n, len - n, &step)))
        n += step;
    return n;
}

size_t text_rule_space_after(const char *text, size_t len)
{
    size_t n = 0, step;
    while (n < len) {
        size_t start = len - n - 1;
        while (start > 0 && ((unsigned char)text[start] & 0xc0) == 0x80)
            start--;
        if (!text_rule_is_space(text_rule_char(text + start, len - start, &step)))
            break;
        n = len - start;
    }
    return n;
}

int text_rule_is_space(int c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 &&
            c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

int text_rule_is_punctuation(int c)
{
    if (c < 128)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

int text_rule_is_numeric(int c)
{
    utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

int text_rule_is_word(int c)
{
    /* Letters and digits in a circle or square are symbols that count as
     * alphabetic; the two joiners count as part of a word. */
    if ((c >= 0x24b6 && c <= 0x24e9) || c == 0x200c || c == 0x200d || (c >= 0x1f130 && c <= 0x1f149) ||
        (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189))
        return 1;
    utf8proc_category_t category = utf8proc_category(c);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME) ||
           category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
           category == UTF8PROC_CATEGORY_PC;
}
