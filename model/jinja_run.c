#include "model/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum status jinja_fail(struct jinja_run *run, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return fail(run->err, STATUS_BAD_REQUEST, "chat template, line %u: %s", run->line, text);
}

enum status jinja_step(struct jinja_run *run, size_t steps)
{
    if (steps > run->max_steps - run->steps)
        return jinja_fail(run, "the template takes more than %zu steps", run->max_steps);
    run->steps += steps;
    return STATUS_OK;
}

enum status jinja_scan(struct jinja_run *run, size_t bytes)
{
    return jinja_step(run, bytes / 64);
}

enum status jinja_search(struct jinja_run *run, size_t bytes)
{
    return jinja_step(run, bytes / 16);
}

enum status jinja_spell(struct jinja_run *run, size_t bytes)
{
    return jinja_step(run, bytes / 4);
}

enum status jinja_enter(struct jinja_run *run)
{
    if (run->depth >= run->max_depth)
        return jinja_fail(run, "calls or values are nested deeper than %d", run->max_depth);
    run->depth++;
    return STATUS_OK;
}

void jinja_leave(struct jinja_run *run)
{
    run->depth--;
}

enum status jinja_take(struct jinja_run *run, size_t bytes, void **out)
{
    TRY(jinja_scan(run, bytes));
    *out = jinja_arena_take(&run->arena, bytes);
    if (*out == NULL)
        return jinja_fail(run, "the template's values need more than %zu bytes", run->arena.max);
    return STATUS_OK;
}

enum status jinja_write(struct jinja_run *run, const char *text, size_t len)
{
    TRY(jinja_scan(run, len));
    enum status status = buf_add(run->out, text, len);
    if (status == STATUS_NO_MEMORY)
        return fail(run->err, STATUS_NO_MEMORY, "no memory for %zu bytes of rendered text",
                    run->out->len + len);
    if (status != STATUS_OK)
        return jinja_fail(run, "the rendered text is longer than %zu bytes", run->out->max);
    return STATUS_OK;
}

enum status jinja_write_text(struct jinja_run *run, const char *text)
{
    return jinja_write(run, text, strlen(text));
}

size_t jinja_mark(const struct jinja_run *run)
{
    return run->out->len;
}

enum status jinja_capture(struct jinja_run *run, size_t mark, struct jinja_value *out)
{
    size_t len = run->out->len - mark;
    void *text;
    TRY(jinja_take(run, len, &text));
    if (len > 0) {
        memcpy(text, run->out->data + mark, len);
        run->out->len = mark;
        run->out->data[mark] = '\0';
    }
    *out = jinja_string(text, len);
    return STATUS_OK;
}
