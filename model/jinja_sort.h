/* jinja_sort.h - the filters that order, pick or map the elements of a list:
 * rows of the table in jinja_filters.c, apart because of their number.
 *
 * Strings are compared without regard to case unless case_sensitive is given.
 */
#ifndef MODEL_JINJA_SORT_H
#define MODEL_JINJA_SORT_H

#include "model/jinja_builtins.h"

/* The attribute "a.b.0" (STRING or INT) of value; UNDEFINED on the way is an error. */
MUST_CHECK enum status jinja_path(struct jinja_run *run, const struct jinja_value *value,
                                  const struct jinja_value *path, struct jinja_value *out);

#define JINJA_FILTER_DECLARE(name)                                                                   \
    MUST_CHECK enum status jinja_filter_##name(struct jinja_run *run, const struct jinja_call *call, \
                                               struct jinja_value *out)

JINJA_FILTER_DECLARE(sort);
JINJA_FILTER_DECLARE(dictsort);
JINJA_FILTER_DECLARE(min);
JINJA_FILTER_DECLARE(max);
JINJA_FILTER_DECLARE(unique);
JINJA_FILTER_DECLARE(map);
JINJA_FILTER_DECLARE(select);
JINJA_FILTER_DECLARE(reject);
JINJA_FILTER_DECLARE(selectattr);
JINJA_FILTER_DECLARE(rejectattr);

#endif
