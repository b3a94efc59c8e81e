/* http_lines.h - the lines of HTTP, strictly: where one, or a block of them, ends, and what may be in it.
 *
 * A line ends in CRLF and in nothing else, holds no control byte but the tab, and does not
 * start with a blank (a folded line).  What breaks that is a fault.
 *
 * Owner: the caller.  Memory: none.
 */
#ifndef SERVER_HTTP_LINES_H
#define SERVER_HTTP_LINES_H

#include <stddef.h>

enum http_lines_place { HTTP_LINES_START, HTTP_LINES_INSIDE, HTTP_LINES_CR, HTTP_LINES_BLANK_CR };

struct http_lines {
    enum http_lines_place place;        /* what the byte before was */
};

void http_lines_init(struct http_lines *lines);     /* at the start of a line */

/* Move over bytes[n] up to and including the end of the line (up_to_blank: of the first blank line) and
 * return how many that were; *ended says whether the end was reached.  At the end the scanner is ready
 * for the next line.  A fault sets *fault to a sentence and counts the byte that is at fault. */
size_t http_lines_scan(struct http_lines *lines, const char *bytes, size_t n, int up_to_blank, int *ended,
                       const char **fault);

/* 1 if the line (up to its CR) is three words of printable ASCII with one blank between them, as a request
 * line is.  What the words are is llhttp's to say. */
int http_lines_is_request(const char *line);

/* 1 if the text holds only the token characters of RFC 9110, as a header's name does, and at least one. */
int http_lines_is_token(const char *text);

#endif
