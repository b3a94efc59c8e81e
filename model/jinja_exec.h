/* jinja_exec.h - statements into output.
 *
 * Runs a body from its first statement to its last, or to a break or continue,
 * which run->flow then says.  Fails as jinja_run.h says, and after a failure the
 * render is over.  Owner: the thread of the render.
 */
#ifndef MODEL_JINJA_EXEC_H
#define MODEL_JINJA_EXEC_H

#include "model/jinja_builtins.h"
#include "model/jinja_node.h"
#include "model/jinja_run.h"

MUST_CHECK enum status jinja_exec(struct jinja_run *run, const struct jinja_nodes *body);

/* Call a macro: out is the STRING that it prints. */
MUST_CHECK enum status jinja_exec_macro(struct jinja_run *run, const struct jinja_macro *macro,
                                        const struct jinja_arguments *arguments, struct jinja_value *out);

#endif
