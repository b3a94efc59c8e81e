/* jinja_builtins.h - the filters, tests, methods and functions a template may
 * use, as tables, and how they are called.
 *
 * A row names its parameters; jinja_builtin_call puts what the template wrote,
 * by place or by keyword, into argv in that order and refuses what does not
 * fit, so a row's function sees only complete calls.  An argument that was not
 * given is UNDEFINED.
 *
 *   "a,b"|replace(",", new=";")
 *        row { "replace", { "old", "new", "count" }, .required = 2 }
 *        self "a,b"   argv ","   ";"   undefined
 *
 * Only what reads and builds values is here: no row reaches a file, the
 * environment or another thread, and names with underscores in front have no
 * meaning.  The one thing a template can see of the world is the time.
 *
 * Threads: the tables are constant.
 */
#ifndef MODEL_JINJA_BUILTINS_H
#define MODEL_JINJA_BUILTINS_H

#include "model/jinja_value.h"

#define JINJA_MAX_ARGV 4

/* The arguments of a call, evaluated. */
struct jinja_arguments {
    const struct jinja_value *positional;   /* [n] */
    size_t n;
    const char *const *names;               /* [n_named] */
    const struct jinja_value *named;        /* [n_named] */
    size_t n_named;
};

struct jinja_call {
    struct jinja_value self;                /* a filter's input, a method's object */
    struct jinja_value argv[JINJA_MAX_ARGV];
    const struct jinja_arguments *all;      /* as written, for rows with .any */
};

struct jinja_builtin {
    const char *name;
    const char *parameters[JINJA_MAX_ARGV]; /* NULL after the last */
    int required;                           /* this many of them must be given */
    int any;                                /* takes whatever it is given, in all */
    enum status (*run)(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out);
};

enum jinja_builtin_kind {
    JINJA_FILTER,
    JINJA_TEST,             /* out is a BOOL */
    JINJA_GLOBAL,
    JINJA_STRING_METHOD,
    JINJA_LIST_METHOD,      /* of lists and tuples */
    JINJA_DICT_METHOD,
    JINJA_LOOP_METHOD,
    JINJA_BUILTIN_KINDS
};

struct jinja_builtin_table {
    const struct jinja_builtin *rows;       /* [n] */
    size_t n;
};

extern const struct jinja_builtin_table jinja_filters, jinja_tests, jinja_globals, jinja_string_methods,
    jinja_list_methods, jinja_dict_methods, jinja_loop_methods;

/* NULL if there is none of this name. */
const struct jinja_builtin *jinja_builtin_find(enum jinja_builtin_kind kind, const char *name, size_t len);

/* BAD_REQUEST: the arguments do not fit the row, or what the row says. */
MUST_CHECK enum status jinja_builtin_call(struct jinja_run *run, const struct jinja_builtin *builtin,
                                          struct jinja_value self, const struct jinja_arguments *arguments,
                                          struct jinja_value *out);

/* Arguments of a wanted type; an UNDEFINED one leaves *out as it is. */
MUST_CHECK enum status jinja_want_int(struct jinja_run *run, const struct jinja_value *argument,
                                      int64_t *out);
MUST_CHECK enum status jinja_want_string(struct jinja_run *run, const struct jinja_value *argument,
                                         struct jinja_value *out);

#endif
