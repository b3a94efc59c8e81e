/* jinja_run.h - one render in progress: its limits, memory, output and error.
 *
 * Everything a template may use up is counted here:
 *   steps   a node evaluated, or a piece of text scanned;
 *   depth   evaluations inside evaluations, values inside values (the C stack);
 *   arena   bytes of values;
 *   out     bytes printed, pieces that are still being captured included.
 * When one is used up the render ends with a sentence that names the limit, so a
 * template cannot hang, fill the memory or overflow the stack.
 *
 * out is also where strings are built: take a mark, write, then capture, which
 * moves what was written after the mark into the arena.
 *
 * Owner:  the thread that renders.
 */
#ifndef MODEL_JINJA_RUN_H
#define MODEL_JINJA_RUN_H

#include "base/buf.h"
#include "model/jinja_arena.h"
#include "model/jinja_value.h"

enum jinja_flow { JINJA_GO_ON, JINJA_BREAK, JINJA_CONTINUE };

struct jinja_run {
    struct jinja_arena arena;
    struct buf *out;
    struct error *err;
    size_t steps, max_steps;
    int depth, max_depth;
    uint32_t line;              /* of the statement being run */
    enum jinja_flow flow;       /* set by break and continue until a loop sees it */
    int64_t now;                /* Unix seconds for strftime_now */
    struct jinja_value context; /* DICT: the caller's variables */
    struct jinja_value input;   /* what the block being filtered has printed */
    struct jinja_scope *scope;  /* innermost names the template has set */
};

/* BAD_REQUEST with "chat template, line N: " and the text. */
enum status jinja_fail(struct jinja_run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Account for work.  BAD_REQUEST past max_steps. */
MUST_CHECK enum status jinja_step(struct jinja_run *run, size_t steps);
/* The same for text, by what it costs: copied or compared (64 bytes a step),
 * searched or hashed (16), gone through character by character (4). */
MUST_CHECK enum status jinja_scan(struct jinja_run *run, size_t bytes);
MUST_CHECK enum status jinja_search(struct jinja_run *run, size_t bytes);
MUST_CHECK enum status jinja_spell(struct jinja_run *run, size_t bytes);

/* One level deeper; every success is matched by a jinja_leave.  BAD_REQUEST
 * past max_depth.  (After a failure the render is over and nobody leaves.) */
MUST_CHECK enum status jinja_enter(struct jinja_run *run);
void jinja_leave(struct jinja_run *run);

/* Zeroed bytes that live as long as the render. */
MUST_CHECK enum status jinja_take(struct jinja_run *run, size_t bytes, void **out);

/* Print.  BAD_REQUEST past the maximum of out. */
MUST_CHECK enum status jinja_write(struct jinja_run *run, const char *text, size_t len);
MUST_CHECK enum status jinja_write_text(struct jinja_run *run, const char *text);

size_t jinja_mark(const struct jinja_run *run);
MUST_CHECK enum status jinja_capture(struct jinja_run *run, size_t mark, struct jinja_value *out);

#endif
