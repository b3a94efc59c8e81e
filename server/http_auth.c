#include "server/http_auth.h"

#include "base/file.h"
#include "server/http_exchange.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct http_auth {
    size_t n_keys;
    unsigned char digests[][SHA256_DIGEST_LENGTH];
};

/* The next line of *text without blanks at its ends; 0 at the end of the text. */
static int next_line(const char **text, const char **line, size_t *len)
{
    if (**text == '\0')
        return 0;
    *line = *text;
    *len = strcspn(*text, "\n");
    *text += *len + ((*text)[*len] == '\n');
    while (*len > 0 && strchr(" \t\r", **line) != NULL)
        ++*line, --*len;
    while (*len > 0 && strchr(" \t\r", (*line)[*len - 1]) != NULL)
        --*len;
    return 1;
}

enum status http_auth_create(struct http_auth **out, const char *text, struct error *err)
{
    struct http_auth *auth = calloc(1, sizeof *auth + HTTP_AUTH_MAX_KEYS * sizeof auth->digests[0]);
    if (auth == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for the API keys");
    const char *line;
    size_t len;
    enum status status = STATUS_OK;
    for (int number = 1; status == STATUS_OK && next_line(&text, &line, &len); number++) {
        if (len == 0 || *line == '#')
            continue;
        if (len > HTTP_AUTH_MAX_KEY_BYTES)
            status = fail(err, STATUS_BAD_OPTION, "the API key on line %d has %zu bytes, limit %d", number,
                          len, HTTP_AUTH_MAX_KEY_BYTES);
        else if (auth->n_keys == HTTP_AUTH_MAX_KEYS)
            status = fail(err, STATUS_BAD_OPTION, "there are more than %d API keys", HTTP_AUTH_MAX_KEYS);
        else
            SHA256((const unsigned char *)line, len, auth->digests[auth->n_keys++]);
    }
    if (status == STATUS_OK && auth->n_keys == 0)
        status = fail(err, STATUS_BAD_OPTION, "there is no API key in the key file");
    if (status != STATUS_OK) {
        free(auth);
        return status;
    }
    *out = auth;
    return STATUS_OK;
}

enum status http_auth_load(struct http_auth **out, const char *path, struct error *err)
{
    struct buf text;
    buf_init(&text, (size_t)HTTP_AUTH_MAX_KEYS * (HTTP_AUTH_MAX_KEY_BYTES + 64));
    enum status status = file_read(path, &text, err);
    if (status == STATUS_OK)
        status = http_auth_create(out, text.data == NULL ? "" : text.data, err);
    if (text.data != NULL)
        OPENSSL_cleanse(text.data, text.capacity);
    buf_clear(&text);
    return status;
}

void http_auth_destroy(struct http_auth *auth)
{
    free(auth);
}

int http_auth_knows(const struct http_auth *auth, const char *key, size_t len)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)key, len, digest);
    int known = 0;
    for (size_t i = 0; i < auth->n_keys; i++)
        known |= CRYPTO_memcmp(digest, auth->digests[i], sizeof digest) == 0;
    return known;
}

int http_auth_allows(const struct http_auth *auth, const struct http_exchange *ex)
{
    static const char scheme[] = "bearer ";
    const char *authorization = http_exchange_header(ex, "authorization");
    if (authorization != NULL && strncasecmp(authorization, scheme, sizeof scheme - 1) == 0) {
        const char *key = authorization + sizeof scheme - 1;
        key += strspn(key, " ");
        return http_auth_knows(auth, key, strlen(key));
    }
    const char *key = http_exchange_header(ex, "x-api-key");
    return key != NULL && http_auth_knows(auth, key, strlen(key));
}
