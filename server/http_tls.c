#include "server/http_tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

struct http_tls_context {
    SSL_CTX *ssl;
};

struct http_tls {
    SSL *ssl;
    BIO *in, *out;          /* owned by ssl */
};

/* OpenSSL's own words for what just went wrong. */
static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_get_error());
    ERR_clear_error();
    return text == NULL ? "unknown reason" : text;
}

/* HTTP/1.1 is the only protocol here; a client that offers no match goes on without ALPN. */
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *context)
{
    static const unsigned char known[] = "\x08http/1.1";
    (void)ssl;
    (void)context;
    unsigned char *chosen;
    int found = SSL_select_next_proto(&chosen, out_len, known, sizeof known - 1, in, in_len);
    if (found != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

enum status http_tls_context_create(struct http_tls_context **out, const char *certificate_path,
                                    const char *key_path, struct error *err)
{
    struct http_tls_context *context = calloc(1, sizeof *context);
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    enum status status;
    if (context == NULL || ssl == NULL) {
        status = fail(err, STATUS_NO_MEMORY, "no memory for the TLS context");
        goto undo;
    }
    ERR_clear_error();
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_alpn_select_cb(ssl, select_protocol, NULL);
    if (SSL_CTX_use_certificate_chain_file(ssl, certificate_path) != 1) {
        status = fail(err, STATUS_IO, "cannot use the TLS certificate %s: %s", certificate_path, reason());
        goto undo;
    }
    if (SSL_CTX_use_PrivateKey_file(ssl, key_path, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ssl) != 1) {
        status = fail(err, STATUS_IO, "cannot use the TLS key %s: %s", key_path, reason());
        goto undo;
    }
    context->ssl = ssl;
    *out = context;
    return STATUS_OK;

undo:                       /* either of the two may be NULL */
    SSL_CTX_free(ssl);
    free(context);
    return status;
}

void http_tls_context_destroy(struct http_tls_context *context)
{
    if (context == NULL)
        return;
    SSL_CTX_free(context->ssl);
    free(context);
}

enum status http_tls_create(struct http_tls **out, struct http_tls_context *context, struct error *err)
{
    struct http_tls *tls = calloc(1, sizeof *tls);
    SSL *ssl = SSL_new(context->ssl);
    BIO *in = BIO_new(BIO_s_mem()), *from = BIO_new(BIO_s_mem());
    if (tls == NULL || ssl == NULL || in == NULL || from == NULL) {
        free(tls);
        SSL_free(ssl);
        BIO_free(in);
        BIO_free(from);
        return fail(err, STATUS_NO_MEMORY, "no memory for a TLS session");
    }
    SSL_set_bio(ssl, in, from);
    SSL_set_accept_state(ssl);
    *tls = (struct http_tls){ .ssl = ssl, .in = in, .out = from };
    *out = tls;
    return STATUS_OK;
}

void http_tls_destroy(struct http_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    free(tls);
}

enum status http_tls_feed(struct http_tls *tls, const char *bytes, size_t n)
{
    size_t written;
    if (n > 0 && BIO_write_ex(tls->in, bytes, n, &written) != 1)
        return STATUS_NO_MEMORY;
    return STATUS_OK;
}

enum status http_tls_read(struct http_tls *tls, char *bytes, size_t max, size_t *n)
{
    *n = 0;
    ERR_clear_error();
    if (SSL_read_ex(tls->ssl, bytes, max, n) == 1)
        return STATUS_OK;
    switch (SSL_get_error(tls->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        return STATUS_OK;
    case SSL_ERROR_ZERO_RETURN:
        return STATUS_CANCELLED;
    default:
        ERR_clear_error();
        return STATUS_IO;
    }
}

enum status http_tls_write(struct http_tls *tls, const char *bytes, size_t n)
{
    size_t written;
    ERR_clear_error();
    /* The memory BIO takes everything, so a write is never partial. */
    return SSL_write_ex(tls->ssl, bytes, n, &written) == 1 ? STATUS_OK : STATUS_IO;
}

void http_tls_close(struct http_tls *tls)
{
    if (SSL_is_init_finished(tls->ssl))
        SSL_shutdown(tls->ssl);
    ERR_clear_error();
}

enum status http_tls_take(struct http_tls *tls, struct buf *out)
{
    size_t n = BIO_ctrl_pending(tls->out);
    if (n == 0)
        return STATUS_OK;
    TRY(buf_reserve(out, n));
    size_t read;
    if (BIO_read_ex(tls->out, out->data + out->len, n, &read) != 1)
        return STATUS_IO;
    out->len += read;
    out->data[out->len] = '\0';
    return STATUS_OK;
}

int http_tls_is_open(const struct http_tls *tls)
{
    return SSL_is_init_finished(tls->ssl);
}
