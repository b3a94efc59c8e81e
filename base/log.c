#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static _Atomic int current_level = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&current_level, (int)level);
}

enum log_level log_level(void)
{
    return (enum log_level)atomic_load(&current_level);
}

/* Copy text into line[max], writing control bytes as \xNN; returns the length. */
static size_t escape(char *line, size_t max, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (const char *c = text; *c != '\0' && n + 5 < max; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte >= 0x20 && byte != 0x7f) {
            line[n++] = *c;
        } else {
            line[n++] = '\\';
            line[n++] = 'x';
            line[n++] = hex[byte >> 4];
            line[n++] = hex[byte & 15];
        }
    }
    return n;
}

void log_write(enum log_level level, const char *fmt, ...)
{
    static const char *const names[] = { "debug", "info ", "warn ", "error" };
    if ((int)level < atomic_load(&current_level) || level >= LOG_NONE)
        return;
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);

    char line[4096 + 64];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ ", &utc);
    n += (size_t)snprintf(line + n, sizeof line - n, "%s ", names[level]);
    n += escape(line + n, sizeof line - n - 1, text);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        return;     /* nowhere left to say it */
}
