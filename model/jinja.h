/* jinja.h - templates as checkpoints bring them for their chat format.
 *
 *   jinja_compile(text) --> struct jinja_template --> jinja_render(context) --> text
 *        once, at load             constant              for every request
 *
 * The language is Jinja with the settings that Hugging Face's transformers give
 * it: trim_blocks, lstrip_blocks, break and continue, {% generation %}, tojson
 * as json.dumps writes it, raise_exception(text), strftime_now(format).  What
 * is left out: other templates (include, import, extends, block), recursive
 * loops, %-formatting, integers beyond 64 bits.  Lists and dicts may be changed by
 * append, extend, pop and update: Jinja's own sandbox refuses them, but
 * checkpoints in use need them, and they only reach the copy of the context
 * that one render has.
 *
 * Bounds: a render that takes too many steps, bytes or levels ends with an error
 * that says which limit it met; no template can hang or crash the program, or
 * see more of it than the context and the time.
 *
 * Threads: a template is constant; any number of threads may render it at once.
 * Memory: compile takes an arena that lives as long as the template; a render
 * takes its own and gives it back before it returns.
 */
#ifndef MODEL_JINJA_H
#define MODEL_JINJA_H

#include "base/buf.h"
#include "base/status.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define JINJA_MAX_SOURCE_BYTES (1u << 20)

struct jinja_template;          /* opaque */

struct jinja_options {
    size_t max_output_bytes;    /* of the text, pieces under construction included */
    size_t max_memory_bytes;    /* of the values */
    size_t max_steps;           /* nodes evaluated, and pieces of text gone through */
    int max_depth;              /* calls in calls, values in values: about 1 KiB of stack each */
    int64_t now;                /* what strftime_now shows: Unix seconds; < 0: the clock */
};

/* 16 MiB of text, 256 MiB of values, 10 million steps (three seconds at the very
 * worst; a conversation of 2000 turns takes a twentieth), 500 levels, the clock. */
struct jinja_options jinja_default_options(void);

/* text[len] is copied.  *out goes to jinja_destroy.
 * BAD_MODEL: it is no template; the sentence has the line.  TOO_LARGE: longer
 * than JINJA_MAX_SOURCE_BYTES.  NO_MEMORY. */
MUST_CHECK enum status jinja_compile(struct jinja_template **out, const char *text, size_t len,
                                     struct error *err);
void jinja_destroy(struct jinja_template *template);    /* NULL is allowed */

/* Append to out what the template prints for context, a JSON object whose fields
 * are its variables.
 * BAD_REQUEST: the template refused the context (raise_exception, its text as it
 * is), or it met an error or a limit (with the line).  NO_MEMORY.  out then has
 * what it had before the call. */
MUST_CHECK enum status jinja_render(const struct jinja_template *template, const json_t *context,
                                    const struct jinja_options *options, struct buf *out, struct error *err);

#endif
