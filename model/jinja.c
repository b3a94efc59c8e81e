#include "model/jinja.h"

#include "base/clock.h"
#include "model/jinja_arena.h"
#include "model/jinja_exec.h"
#include "model/jinja_parse.h"
#include "model/jinja_run.h"
#include "model/jinja_scope.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A node is larger than what it is written as, but not by more than this. */
#define ARENA_BYTES_PER_SOURCE_BYTE 512

struct jinja_template {
    struct jinja_arena arena;   /* the text and the tree */
    struct jinja_nodes body;
};

struct jinja_options jinja_default_options(void)
{
    return (struct jinja_options){
        .max_output_bytes = 16u << 20,
        .max_memory_bytes = 256u << 20,
        .max_steps = 10000000,
        .max_depth = 500,
        .now = -1,
    };
}

static enum status compile(struct jinja_template *template, const char *text, size_t len, struct error *err)
{
    struct jinja_tokens tokens = { 0 };
    char *source = jinja_arena_take(&template->arena, len + 1);
    if (source == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a chat template of %zu bytes", len);
    memcpy(source, text, len);
    len = jinja_lex_normalise(source, len);
    enum status status = jinja_lex(source, len, &tokens, err);
    if (status == STATUS_OK)
        status = jinja_parse(&tokens, &template->arena, &template->body, err);
    jinja_tokens_clear(&tokens);
    return status;
}

enum status jinja_compile(struct jinja_template **out, const char *text, size_t len, struct error *err)
{
    if (len > JINJA_MAX_SOURCE_BYTES)
        return fail(err, STATUS_TOO_LARGE, "the chat template has %zu bytes, limit %u", len,
                    JINJA_MAX_SOURCE_BYTES);
    struct jinja_template *template = calloc(1, sizeof *template);
    if (template == NULL)
        return fail(err, STATUS_NO_MEMORY, "no memory for a chat template");
    jinja_arena_init(&template->arena, 65536 + len * ARENA_BYTES_PER_SOURCE_BYTE);
    enum status status = compile(template, text, len, err);
    if (status != STATUS_OK)
        jinja_destroy(template);
    else
        *out = template;
    return status;
}

void jinja_destroy(struct jinja_template *template)
{
    if (template == NULL)
        return;
    jinja_arena_clear(&template->arena);
    free(template);
}

static enum status render(struct jinja_run *run, const struct jinja_template *template, const json_t *context)
{
    TRY(jinja_from_json(run, context, &run->context));
    TRY(jinja_scope_open(run, NULL));
    return jinja_exec(run, &template->body);
}

/* The text is built aside, so that a failure leaves out alone and out's own
 * maximum is met in one place. */
enum status jinja_render(const struct jinja_template *template, const json_t *context,
                         const struct jinja_options *options, struct buf *out, struct error *err)
{
    assert(json_is_object(context));
    struct buf text;
    struct jinja_run run = {
        .out = &text, .err = err, .max_steps = options->max_steps, .max_depth = options->max_depth,
        .line = 1, .now = options->now < 0 ? clock_unix_seconds() : options->now,
    };
    buf_init(&text, options->max_output_bytes);
    jinja_arena_init(&run.arena, options->max_memory_bytes);
    enum status status = render(&run, template, context);
    if (status == STATUS_OK) {
        status = buf_add(out, text.data, text.len);
        if (status != STATUS_OK)
            fail(err, status, "the rendered text of %zu bytes does not fit", text.len);
    }
    jinja_arena_clear(&run.arena);
    buf_clear(&text);
    return status;
}
