#include "base/buf.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
    /* One byte stays free for the zero behind the text. */
    *b = (struct buf){ .max = max < SIZE_MAX / 2 ? max : SIZE_MAX / 2 };
}

void buf_clear(struct buf *b)
{
    free(b->data);
    *b = (struct buf){ .max = b->max };
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data != NULL)
        b->data[0] = '\0';
}

enum status buf_reserve(struct buf *b, size_t n)
{
    if (n > b->max || b->len > b->max - n)
        return STATUS_TOO_LARGE;
    size_t need = b->len + n + 1;
    if (need <= b->capacity)
        return STATUS_OK;
    size_t capacity = b->capacity < 64 ? 64 : b->capacity;
    while (capacity < need)
        capacity *= 2;
    if (capacity > b->max + 1)
        capacity = b->max + 1;
    char *data = realloc(b->data, capacity);
    if (data == NULL)
        return STATUS_NO_MEMORY;
    if (b->data == NULL)
        data[0] = '\0';
    b->data = data;
    b->capacity = capacity;
    return STATUS_OK;
}

enum status buf_add(struct buf *b, const void *bytes, size_t n)
{
    TRY(buf_reserve(b, n));
    if (n > 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
    return STATUS_OK;
}

enum status buf_add_text(struct buf *b, const char *text)
{
    return buf_add(b, text, strlen(text));
}

enum status buf_add_char(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

enum status buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        return STATUS_INTERNAL;
    TRY(buf_reserve(b, (size_t)n));
    va_start(args, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
    return STATUS_OK;
}

void buf_drop_front(struct buf *b, size_t n)
{
    assert(n <= b->len);
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}
