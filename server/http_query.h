/* http_query.h - percent-encoding, and the parameters behind the "?" of a target.
 *
 * Total on any text.  Threads: any.  Memory: none.
 */
#ifndef SERVER_HTTP_QUERY_H
#define SERVER_HTTP_QUERY_H

#include <stddef.h>

/* Decode text[len] into out[max], terminated; the decoded length, or -1: a "%" without two hex digits,
 * "%00", or longer than max - 1.  plus_is_blank: "+" stands for a blank, as in queries. */
int http_query_decode(const char *text, size_t len, int plus_is_blank, char *out, size_t max);

/* The decoded value of the first parameter of that name ("a=1&b=2"); "" for "a" alone.
 * -1: not there, or as above. */
int http_query_find(const char *query, const char *name, char *out, size_t max);

#endif
