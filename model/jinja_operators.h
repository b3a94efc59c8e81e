/* jinja_operators.h - what +, <, [..] and . do, by Python's rules.
 *
 * Integers have 64 bits: a result that does not fit is an error, where Python
 * would go on.  Every use of an undefined value as an operand is an error that
 * names it; comparing it with == and searching in it are not.
 *
 * Owner:  one render.  Failures: as jinja_run.h says, BAD_REQUEST for operands of
 * the wrong type.
 */
#ifndef MODEL_JINJA_OPERATORS_H
#define MODEL_JINJA_OPERATORS_H

#include "model/jinja_value.h"

/* + - * / % and the pairs of characters // and **, as the lexer writes them. */
MUST_CHECK enum status jinja_operate(struct jinja_run *run, int op, const struct jinja_value *a,
                                     const struct jinja_value *b, struct jinja_value *out);
/* < > == != <= >=, JINJA_OP_IN, JINJA_OP_NOT_IN */
MUST_CHECK enum status jinja_test_operator(struct jinja_run *run, int op, const struct jinja_value *a,
                                           const struct jinja_value *b, int *out);
MUST_CHECK enum status jinja_negate(struct jinja_run *run, const struct jinja_value *a,
                                    struct jinja_value *out);

/* object.name: a method, a field, else UNDEFINED. */
MUST_CHECK enum status jinja_attribute(struct jinja_run *run, const struct jinja_value *object,
                                       struct jinja_value name, struct jinja_value *out);
/* object[index]: an element, a character, a field, a method, else UNDEFINED. */
MUST_CHECK enum status jinja_item(struct jinja_run *run, const struct jinja_value *object,
                                  const struct jinja_value *index, struct jinja_value *out);

/* object[start:stop:step]; each part NONE if it was left out. */
struct jinja_slice {
    struct jinja_value start, stop, step;
};
MUST_CHECK enum status jinja_slice(struct jinja_run *run, const struct jinja_value *object,
                                   const struct jinja_slice *slice, struct jinja_value *out);

/* len(); an error for what has none. */
MUST_CHECK enum status jinja_length(struct jinja_run *run, const struct jinja_value *value, size_t *out);

#endif
