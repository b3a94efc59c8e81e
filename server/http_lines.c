#include "server/http_lines.h"

#include <string.h>

void http_lines_init(struct http_lines *lines)
{
    lines->place = HTTP_LINES_START;
}

size_t http_lines_scan(struct http_lines *lines, const char *bytes, size_t n, int up_to_blank, int *ended,
                       const char **fault)
{
    enum http_lines_place place = lines->place;
    size_t i = 0;
    *ended = 0;
    while (i < n && !*ended && *fault == NULL) {
        unsigned char c = (unsigned char)bytes[i++];
        int is_blank = c == ' ' || c == '\t';
        int is_text = (c >= 0x20 && c != 0x7f) || c == '\t';
        if (place == HTTP_LINES_INSIDE && is_text) {
            continue;
        } else if (place == HTTP_LINES_INSIDE && c == '\r') {
            place = HTTP_LINES_CR;
        } else if (place == HTTP_LINES_START && is_text && !is_blank) {
            place = HTTP_LINES_INSIDE;
        } else if (place == HTTP_LINES_START && c == '\r') {
            place = HTTP_LINES_BLANK_CR;
        } else if (place == HTTP_LINES_CR && c == '\n') {
            place = HTTP_LINES_START;
            *ended = !up_to_blank;
        } else if (place == HTTP_LINES_BLANK_CR && c == '\n') {
            place = HTTP_LINES_START;
            *ended = 1;
        } else if (place == HTTP_LINES_START && is_blank) {
            *fault = "a header line is folded or starts with a blank";
        } else {
            *fault = "a line of the request holds a control byte or does not end in CRLF";
        }
    }
    lines->place = place;
    return i;
}

int http_lines_is_request(const char *line)
{
    int n_blanks = 0;
    for (; *line != '\r'; line++) {
        if (*line == ' ' && (line[1] == ' ' || line[1] == '\r'))
            return 0;
        if ((unsigned char)*line < 0x20 || (unsigned char)*line > 0x7e)
            return 0;
        n_blanks += *line == ' ';
    }
    return n_blanks == 2;
}

int http_lines_is_token(const char *text)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    if (*text == '\0')
        return 0;
    for (; *text != '\0'; text++) {
        char lower = (char)(*text | 0x20);
        int is_letter = lower >= 'a' && lower <= 'z', is_digit = *text >= '0' && *text <= '9';
        if (!is_letter && !is_digit && strchr(others, *text) == NULL)
            return 0;
    }
    return 1;
}
