/* test_http_tls - requests, streams, pipelining and leaving work through TLS as they do without. */
#include "tests/server/http_fixture.h"

#include "server/http_tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

struct files {
    char certificate[64], key[64], other_key[64];
};

static void write_key(const char *path, EVP_PKEY *key)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
}

/* A self-signed certificate with its key, and a key that does not fit it. */
static int make_files(void **state)
{
    static struct files files;
    snprintf(files.certificate, sizeof files.certificate, P_tmpdir "/latentd-test-%d.crt", (int)getpid());
    snprintf(files.key, sizeof files.key, P_tmpdir "/latentd-test-%d.key", (int)getpid());
    snprintf(files.other_key, sizeof files.other_key, P_tmpdir "/latentd-test-%d.other", (int)getpid());
    EVP_PKEY *key = EVP_EC_gen("P-256"), *other = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    FILE *file = fopen(files.certificate, "w");
    assert_non_null(file);
    PEM_write_X509(file, certificate);
    fclose(file);
    write_key(files.key, key);
    write_key(files.other_key, other);
    X509_free(certificate);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    *state = &files;
    return 0;
}

static int remove_files(void **state)
{
    struct files *files = *state;
    unlink(files->certificate);
    unlink(files->key);
    unlink(files->other_key);
    return 0;
}

struct secure {
    struct fixture *fixture;
    struct http_tls_context *context;
    SSL_CTX *client;
};

static void secure_start(struct secure *secure, const struct files *files, const struct http_limits *limits)
{
    struct error err;
    if (http_tls_context_create(&secure->context, files->certificate, files->key, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    secure->fixture = fixture_start(limits, NULL, &(struct http_address){ .host = "127.0.0.1",
                                                                          .tls = secure->context });
    secure->client = SSL_CTX_new(TLS_client_method());
    SSL_CTX_load_verify_locations(secure->client, files->certificate, NULL);
    SSL_CTX_set_verify(secure->client, SSL_VERIFY_PEER, NULL);
}

static void secure_stop(struct secure *secure)
{
    fixture_stop(secure->fixture);
    http_tls_context_destroy(secure->context);
    SSL_CTX_free(secure->client);
}

static SSL *secure_connect(struct secure *secure)
{
    SSL *ssl = SSL_new(secure->client);
    SSL_set_fd(ssl, client_connect(secure->fixture));
    if (SSL_connect(ssl) != 1)
        fail_msg("%s", ERR_reason_error_string(ERR_get_error()));
    return ssl;
}

static void secure_close(SSL *ssl)
{
    int fd = SSL_get_fd(ssl);
    SSL_free(ssl);
    close(fd);
}

/* Read until the bytes end with `end`; how many came in all. */
static size_t read_until(SSL *ssl, char *out, size_t max, const char *end)
{
    size_t n = 0, len = strlen(end);
    while (n < len || memcmp(out + n - len, end, len) != 0) {
        int got = SSL_read(ssl, out + n, (int)(max - n - 1));
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    out[n] = '\0';
    return n;
}

static void requests_and_streams_go_through(void **state)
{
    struct secure secure;
    secure_start(&secure, *state, NULL);
    SSL *ssl = secure_connect(&secure);
    char bytes[4096];
    for (int i = 0; i < 20; i++) {
        SSL_write(ssl, GET("/health"), (int)strlen(GET("/health")));
        read_until(ssl, bytes, sizeof bytes, "{}");
        assert_memory_equal(bytes, "HTTP/1.1 200 OK\r\n", 17);
    }
    static const char two[] = GET("/stream?n=3&ms=5") GET("/items/last");
    SSL_write(ssl, two, sizeof two - 1);
    read_until(ssl, bytes, sizeof bytes, "last");
    assert_non_null(strstr(bytes, "f\r\ndata: {\"i\":2}\n\n\r\n"));
    assert_non_null(strstr(bytes, "0\r\n\r\nHTTP/1.1 200"));
    secure_close(ssl);
    secure_stop(&secure);
}

static void an_event_is_one_record(void **state)
{
    struct secure secure;
    secure_start(&secure, *state, NULL);
    SSL *ssl = secure_connect(&secure);
    char bytes[4096];
    SSL_write(ssl, GET("/stream?n=4&ms=20"), (int)strlen(GET("/stream?n=4&ms=20")));
    read_until(ssl, bytes, sizeof bytes, "\r\n\r\n");
    for (int i = 0; i < 3; i++)
        assert_int_equal(SSL_read(ssl, bytes, sizeof bytes), 20);
    secure_close(ssl);
    secure_stop(&secure);
}

static void a_big_body_comes_back_whole(void **state)
{
    struct secure secure;
    secure_start(&secure, *state, NULL);
    SSL *ssl = secure_connect(&secure);
    size_t len = 3 << 20;
    char *body = malloc(len), *back = malloc(len + 4096), head[100];
    assert_non_null(body);
    assert_non_null(back);
    for (size_t i = 0; i < len; i++)
        body[i] = (char)('a' + i % 23);
    int n = snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", len);
    SSL_write(ssl, head, n);
    assert_int_equal(SSL_write(ssl, body, (int)len), len);
    size_t total = 0;
    char *start = NULL;
    while (start == NULL || total - (size_t)(start - back) < len) {
        int got = SSL_read(ssl, back + total, (int)(len + 4095 - total));
        assert_true(got > 0);
        total += (size_t)got;
        back[total] = '\0';
        if (start == NULL && (start = strstr(back, "\r\n\r\n")) != NULL)
            start += 4;
    }
    assert_memory_equal(start, body, len);
    free(body);
    free(back);
    secure_close(ssl);
    secure_stop(&secure);
}

static void leaving_is_noticed_with_and_without_a_goodbye(void **state)
{
    struct secure secure;
    secure_start(&secure, *state, NULL);
    for (int goodbye = 0; goodbye < 2; goodbye++) {
        SSL *ssl = secure_connect(&secure);
        SSL_write(ssl, GET("/hold"), (int)strlen(GET("/hold")));
        fixture_await(&secure.fixture->n_handled, goodbye + 1);
        if (goodbye)
            SSL_shutdown(ssl);
        secure_close(ssl);
        fixture_await(&secure.fixture->n_closed, goodbye + 1);
    }
    secure_stop(&secure);
}

static void a_close_ends_the_session_properly(void **state)
{
    struct secure secure;
    secure_start(&secure, *state, NULL);
    SSL *ssl = secure_connect(&secure);
    static const char request[] = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    SSL_write(ssl, request, sizeof request - 1);
    char bytes[4096];
    read_until(ssl, bytes, sizeof bytes, "{}");
    assert_int_equal(SSL_read(ssl, bytes, sizeof bytes), 0);
    assert_int_equal(SSL_get_error(ssl, 0), SSL_ERROR_ZERO_RETURN);
    secure_close(ssl);
    secure_stop(&secure);
}

static void plain_http_garbage_and_silence_are_closed(void **state)
{
    struct http_limits limits = http_limits_default();
    limits.header_timeout_ns = 200000000;
    struct secure secure;
    secure_start(&secure, *state, &limits);
    int fd = client_connect(secure.fixture);
    client_send(fd, GET("/health"));
    char bytes[64];
    ssize_t n;
    while ((n = client_read(fd, bytes, sizeof bytes, 1000)) > 0)
        assert_true(bytes[0] == 0x15);      /* an alert, never a reply */
    assert_true(n == 0 || n == -1);
    close(fd);
    fd = client_connect(secure.fixture);    /* a handshake that never starts */
    assert_true(client_sees_end(fd, 1000));
    close(fd);
    assert_int_equal(atomic_load(&secure.fixture->n_handled), 0);
    secure_stop(&secure);
}

static void old_protocols_are_refused(void **state)
{
    struct secure secure;
    secure_start(&secure, *state, NULL);
    SSL_CTX_set_security_level(secure.client, 0);
    SSL_CTX_set_min_proto_version(secure.client, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(secure.client, TLS1_1_VERSION);
    SSL *ssl = SSL_new(secure.client);
    SSL_set_fd(ssl, client_connect(secure.fixture));
    assert_int_not_equal(SSL_connect(ssl), 1);
    secure_close(ssl);
    secure_stop(&secure);
}

static void files_that_do_not_fit_are_named(void **state)
{
    const struct files *files = *state;
    struct http_tls_context *context;
    struct error err;
    assert_int_equal(http_tls_context_create(&context, "/nonexistent.crt", files->key, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/nonexistent.crt"));
    enum status status = http_tls_context_create(&context, files->certificate, files->other_key, &err);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(err.text, files->other_key));
    assert_int_equal(http_tls_context_create(&context, files->key, files->key, &err), STATUS_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_and_streams_go_through),
        cmocka_unit_test(an_event_is_one_record),
        cmocka_unit_test(a_big_body_comes_back_whole),
        cmocka_unit_test(leaving_is_noticed_with_and_without_a_goodbye),
        cmocka_unit_test(a_close_ends_the_session_properly),
        cmocka_unit_test(plain_http_garbage_and_silence_are_closed),
        cmocka_unit_test(old_protocols_are_refused),
        cmocka_unit_test(files_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
