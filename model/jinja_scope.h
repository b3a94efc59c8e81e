/* jinja_scope.h - the names a template has set, innermost scope first.
 *
 *   for body { x }  ->  macro { a, b }  ->  template { ns, x }  ->  NULL
 *
 * A for loop, a macro, a with and a captured block open a scope; an if does
 * not.  set writes into the innermost only, so what a loop sets is gone after
 * it (templates use namespace() to carry a value out).  Names are interned:
 * they are compared as pointers.
 *
 * Owner:  one render.  Memory: its arena, since a macro keeps the scope it was
 * defined in.
 */
#ifndef MODEL_JINJA_SCOPE_H
#define MODEL_JINJA_SCOPE_H

#include "model/jinja_value.h"

struct jinja_scope;

/* A new innermost scope of run, inside parent (usually run->scope). */
MUST_CHECK enum status jinja_scope_open(struct jinja_run *run, struct jinja_scope *parent);
/* Back to `to`, which run->scope was before. */
void jinja_scope_close(struct jinja_run *run, struct jinja_scope *to);
/* Forget the names of the innermost scope. */
void jinja_scope_reset(struct jinja_run *run);

MUST_CHECK enum status jinja_scope_set(struct jinja_run *run, const char *name, struct jinja_value value);

/* The value of a name: scopes, then the caller's variables, then the functions
 * of the environment, else UNDEFINED. */
MUST_CHECK enum status jinja_scope_get(struct jinja_run *run, const char *name, struct jinja_value *out);

#endif
