/* jinja_eval.h - expressions into values.
 *
 * Walks the tree; fails as jinja_run.h says, and after a failure the render is
 * over.  Owner: the thread of the render.
 */
#ifndef MODEL_JINJA_EVAL_H
#define MODEL_JINJA_EVAL_H

#include "model/jinja_builtins.h"
#include "model/jinja_node.h"
#include "model/jinja_run.h"

MUST_CHECK enum status jinja_eval(struct jinja_run *run, const struct jinja_node *node,
                                  struct jinja_value *out);

/* A CALL with one more keyword: caller, the body of a call block. */
MUST_CHECK enum status jinja_eval_call(struct jinja_run *run, const struct jinja_node *node,
                                       const struct jinja_value *caller, struct jinja_value *out);

#endif
