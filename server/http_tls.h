/* http_tls.h - TLS 1.2 and 1.3 between a connection and its socket.
 *
 * OpenSSL never touches the socket: cipher bytes go in and out through memory.
 *
 *     socket --http_tls_feed--> [in] --http_tls_read--> request bytes
 *     socket <--http_tls_take-- [out] <--http_tls_write-- reply bytes
 *
 * After feed, read, write or close, whatever lies in [out] must be taken and sent.
 *
 * Owner:  the loop thread (a context may be shared by all its connections).
 * Memory: OpenSSL's; a session is some 20 KiB while data moves, less when idle.
 */
#ifndef SERVER_HTTP_TLS_H
#define SERVER_HTTP_TLS_H

#include "base/buf.h"

struct http_tls_context;        /* certificate and key of a listener */
struct http_tls;                /* one connection's session */

/* PEM files; the certificate file holds the chain, leaf first.  The key must fit the certificate.
 * IO: a file cannot be read or used; the sentence names it.  The caller owns *out. */
MUST_CHECK enum status http_tls_context_create(struct http_tls_context **out, const char *certificate_path,
                                               const char *key_path, struct error *err);
void http_tls_context_destroy(struct http_tls_context *context);        /* NULL is allowed */

MUST_CHECK enum status http_tls_create(struct http_tls **out, struct http_tls_context *context,
                                       struct error *err);
void http_tls_destroy(struct http_tls *tls);                            /* NULL is allowed */

/* Cipher bytes that came from the socket. */
MUST_CHECK enum status http_tls_feed(struct http_tls *tls, const char *bytes, size_t n);

/* Plain bytes for the request parser; also moves the handshake on.
 * *n = 0: none until more is fed.  CANCELLED: the peer closed the session.  IO: it broke the protocol. */
MUST_CHECK enum status http_tls_read(struct http_tls *tls, char *bytes, size_t max, size_t *n);

/* Encrypt n > 0 bytes.  IO: the handshake is not done or the session is broken. */
MUST_CHECK enum status http_tls_write(struct http_tls *tls, const char *bytes, size_t n);

/* Tell the peer that nothing more will be written. */
void http_tls_close(struct http_tls *tls);

/* Move the cipher bytes for the socket to the end of out.  The failures of buf_add. */
MUST_CHECK enum status http_tls_take(struct http_tls *tls, struct buf *out);

int http_tls_is_open(const struct http_tls *tls);       /* the handshake is done */

#endif
