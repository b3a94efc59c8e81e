#include "model/jinja_literal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum status jinja_literal_number(struct jinja_parser *p, struct jinja_node **out)
{
    char digits[64];
    size_t n = 0;
    for (size_t i = 0; i < p->at->len; i++) {
        if (p->at->text[i] == '_')
            continue;
        if (n == sizeof digits - 1)
            return jinja_parser_fail(p, "a number has more than %zu digits", n);
        digits[n++] = p->at->text[i];
    }
    digits[n] = '\0';
    errno = 0;
    if (p->at->kind == TOKEN_FLOAT) {
        TRY(jinja_parser_constant(p, jinja_float(strtod(digits, NULL)), out));
    } else {
        long long integer = strtoll(digits, NULL, 10);
        if (errno == ERANGE)
            return jinja_parser_fail(p, "the number %s does not fit 64 bits", digits);
        TRY(jinja_parser_constant(p, jinja_int(integer), out));
    }
    p->at++;
    return STATUS_OK;
}

/* \xHH, \uHHHH, \UHHHHHHHH (digits hexadecimal) or \OOO: bytes used, 0 if the
 * escape is malformed. */
static size_t numeric_escape(const char *text, size_t len, uint32_t *value)
{
    static const struct { char letter; size_t digits; int base; } forms[] = {
        { 'x', 2, 16 }, { 'u', 4, 16 }, { 'U', 8, 16 },
    };
    size_t start = 1, most = 0, n = 0;
    int base = 16;
    for (size_t i = 0; i < 3; i++)
        if (text[0] == forms[i].letter)
            most = forms[i].digits;
    if (most == 0) {
        start = 0;
        most = 3;
        base = 8;
    }
    *value = 0;
    for (; n < most && start + n < len; n++) {
        char c = text[start + n];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
        if (digit >= base)
            break;
        *value = *value * (uint32_t)base + (uint32_t)digit;
    }
    return base == 16 && n < most ? 0 : start + n;
}

/* One escape at text (after the backslash) to out; returns the bytes of text it
 * takes, 0 if it is malformed. */
static size_t unescape(const char *text, size_t len, char *out, size_t *n)
{
    static const char letters[] = "ntr\\'\"abfv", values[] = "\n\t\r\\'\"\a\b\f\v";
    const char *found = memchr(letters, text[0], sizeof letters - 1);
    *n = 1;
    if (found != NULL) {
        out[0] = values[found - letters];
        return 1;
    }
    if (text[0] == '\n') {
        *n = 0;
        return 1;
    }
    if (strchr("xuU01234567", text[0]) != NULL && text[0] != '\0') {
        uint32_t code;
        size_t used = numeric_escape(text, len, &code);
        if (used == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return 0;
        *n = (size_t)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
        return used;
    }
    out[0] = '\\';              /* an unknown escape stays as it is */
    out[1] = text[0];
    *n = 2;
    return 1;
}

/* Neighbouring strings are one string, as in Python. */
enum status jinja_literal_string(struct jinja_parser *p, struct jinja_node **out)
{
    size_t most = 0, len = 0;
    for (const struct jinja_token *token = p->at; token->kind == TOKEN_STRING; token++)
        most += token->len;
    void *memory;
    TRY(jinja_parser_take(p, most + 8, &memory));
    char *text = memory;
    for (; p->at->kind == TOKEN_STRING; p->at++) {
        const char *from = p->at->text, *end = from + p->at->len;
        while (from < end) {
            size_t n = 1;
            if (*from != '\\') {
                text[len++] = *from++;
                continue;
            }
            size_t used = unescape(from + 1, (size_t)(end - from - 1), text + len, &n);
            if (used == 0)
                return jinja_parser_fail(p, "a string has a malformed escape");
            from += 1 + used;
            len += n;
        }
    }
    return jinja_parser_constant(p, jinja_string(text, len), out);
}
