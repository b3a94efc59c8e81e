#include "server/http_query.h"

#include <string.h>

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

int http_query_decode(const char *text, size_t len, int plus_is_blank, char *out, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < len ? hex_value(text[i + 1]) : -1;
            int low = high >= 0 ? hex_value(text[i + 2]) : -1;
            if (low < 0 || (high == 0 && low == 0))
                return -1;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (n + 1 >= max)
            return -1;
        out[n++] = c;
    }
    if (max == 0)
        return -1;
    out[n] = '\0';
    return (int)n;
}

int http_query_find(const char *query, const char *name, char *out, size_t max)
{
    size_t name_len = strlen(name);
    while (*query != '\0') {
        size_t len = strcspn(query, "&");
        size_t key_len = strcspn(query, "=&");
        if (key_len == name_len && memcmp(query, name, name_len) == 0) {
            size_t skip = key_len + (query[key_len] == '=');
            return http_query_decode(query + skip, len - skip, 1, out, max);
        }
        query += len + (query[len] == '&');
    }
    return -1;
}
