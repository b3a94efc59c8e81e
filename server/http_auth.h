/* http_auth.h - who may call.
 *
 * A key file holds one key a line; blank lines and lines that start with # are
 * skipped, blanks at both ends of a line too.  Only digests are kept.
 *
 * A presented key is hashed and compared with every digest, each comparison
 * over all bytes, so the time taken tells neither which key was near nor how
 * much of it was right.
 *
 * Threads: any after create (read only).  Memory: one allocation.
 */
#ifndef SERVER_HTTP_AUTH_H
#define SERVER_HTTP_AUTH_H

#include "base/status.h"

#include <stddef.h>

#define HTTP_AUTH_MAX_KEYS 1024
#define HTTP_AUTH_MAX_KEY_BYTES 512

struct http_auth;
struct http_exchange;

/* IO: the file cannot be read.  BAD_OPTION: it holds no key, more than HTTP_AUTH_MAX_KEYS, or one that is too
 * long.  The sentence never holds a key. */
MUST_CHECK enum status http_auth_load(struct http_auth **out, const char *path, struct error *err);

/* The same from text (an option or a test). */
MUST_CHECK enum status http_auth_create(struct http_auth **out, const char *text, struct error *err);
void http_auth_destroy(struct http_auth *auth);         /* NULL is allowed */

/* 1 if key[len] is one of the keys. */
int http_auth_knows(const struct http_auth *auth, const char *key, size_t len);

/* 1 if the request carries a known key: "Authorization: Bearer KEY" or "X-Api-Key: KEY". */
int http_auth_allows(const struct http_auth *auth, const struct http_exchange *ex);

#endif
