#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name;
    int http;
    const char *meaning;
} rows[] = {
#define X(code, http, text) { #code, http, text },
    STATUS_MAP(X)
#undef X
};

const char *status_name(enum status s)
{
    return rows[s].name;
}

const char *status_meaning(enum status s)
{
    return rows[s].meaning;
}

int status_http(enum status s)
{
    return rows[s].http;
}

enum status fail(struct error *err, enum status code, const char *fmt, ...)
{
    if (err == NULL)
        return code;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    for (char *c = err->text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    err->code = code;
    return code;
}
