/* jinja_value.h - what a template computes with.
 *
 * Values behave as their Python namesakes do, since templates are written and
 * tried in Python: 1 == 1.0 == true, strings are counted in characters, an
 * unknown name is "undefined" (prints as nothing, has no attributes).
 *
 *   kind      UNDEFINED  NONE  BOOL  INT  FLOAT  STRING  LIST  TUPLE  DICT ...
 *   payload   text = its       integer  number  text,len  list       dict
 *             name or NULL
 *
 * A struct jinja_value is passed by copy; lists and dicts are shared, as in
 * Python.  Strings are never changed and may point into the caller's JSON, the
 * template or the arena of the render; they are UTF-8 or, in a template that
 * is not, any bytes.
 *
 * Owner:  one render (struct jinja_run).  Memory: the arena of the render;
 * every function that takes a run may fail as jinja_run.h says.
 */
#ifndef MODEL_JINJA_VALUE_H
#define MODEL_JINJA_VALUE_H

#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

struct jinja_run;
struct jinja_node;
struct jinja_scope;
struct jinja_builtin;

enum jinja_type {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_NAMESPACE,        /* a dict whose attributes a template may set */
    JINJA_LOOP,             /* the variable "loop" */
    JINJA_MACRO,
    JINJA_FUNCTION          /* a global function or a method with its object */
};

struct jinja_value {
    enum jinja_type type;
    union {
        int64_t integer;    /* INT; BOOL as 0 or 1 */
        double number;
        struct {
            const char *text;   /* STRING: [len]; UNDEFINED: the name, or NULL */
            size_t len;
        };
        struct jinja_list *list;        /* LIST, TUPLE */
        struct jinja_dict *dict;        /* DICT, NAMESPACE */
        struct jinja_loop *loop;
        struct jinja_macro *macro;
        struct jinja_function *function;
    };
};

struct jinja_list {
    struct jinja_value *at; /* [n] */
    size_t n, capacity;
};

struct jinja_entry {
    struct jinja_value key, value;
};

/* Insertion order is kept.  Beyond a few entries, index is an open hash table
 * of positions + 1, 0 for empty; deletion drops it and it is built anew. */
struct jinja_dict {
    struct jinja_entry *at; /* [n] */
    size_t n, capacity;
    uint32_t *index;        /* [index_size], a power of two; NULL if there is none */
    size_t index_size;
};

struct jinja_loop {
    const struct jinja_value *items;    /* [n] */
    size_t n, index0;
    struct jinja_value changed;         /* what loop.changed() saw last */
};

struct jinja_macro {
    const struct jinja_node *node;      /* its parameters and body */
    struct jinja_scope *closure;        /* where it was defined */
};

struct jinja_function {
    const struct jinja_builtin *builtin;
    struct jinja_value self;            /* UNDEFINED for a global function */
};

/* Values without memory. */
struct jinja_value jinja_undefined(const char *name, size_t len);
struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(int truth);
struct jinja_value jinja_int(int64_t integer);
struct jinja_value jinja_float(double number);
struct jinja_value jinja_string(const char *text, size_t len);      /* borrows text */
struct jinja_value jinja_cstring(const char *text);                 /* borrows text */

/* "str", "int", "dict" ..: Python's name of the type, for sentences. */
const char *jinja_type_name(const struct jinja_value *value);

int jinja_truth(const struct jinja_value *value);
int jinja_is_number(const struct jinja_value *value);               /* BOOL, INT or FLOAT */
int jinja_is_text(const struct jinja_value *value, const char *text);   /* a STRING equal to text */
double jinja_number(const struct jinja_value *value);               /* of a number */

/* Empty, of type LIST or TUPLE (DICT or NAMESPACE); room is a guess of n. */
MUST_CHECK enum status jinja_list_create(struct jinja_run *run, enum jinja_type type, size_t room,
                                         struct jinja_value *out);
MUST_CHECK enum status jinja_list_push(struct jinja_run *run, struct jinja_list *list,
                                       struct jinja_value value);
MUST_CHECK enum status jinja_dict_create(struct jinja_run *run, enum jinja_type type,
                                         struct jinja_value *out);

/* *out points at the entry's value until the next change, NULL if there is none.
 * A list or dict as a key is an error, as in Python. */
MUST_CHECK enum status jinja_dict_find(struct jinja_run *run, struct jinja_dict *dict,
                                       const struct jinja_value *key, struct jinja_value **out);
MUST_CHECK enum status jinja_dict_put(struct jinja_run *run, struct jinja_dict *dict,
                                      struct jinja_value key, struct jinja_value value);
void jinja_dict_remove(struct jinja_dict *dict, size_t position);   /* position < n */

/* Python's ==.  Lists and dicts are compared in depth. */
MUST_CHECK enum status jinja_equal(struct jinja_run *run, const struct jinja_value *a,
                                   const struct jinja_value *b, int *out);
/* -1, 0 or 1 for numbers, strings, lists of such; other pairs are an error. */
MUST_CHECK enum status jinja_compare(struct jinja_run *run, const struct jinja_value *a,
                                     const struct jinja_value *b, int *out);
/* Python's `item in box`. */
MUST_CHECK enum status jinja_contains(struct jinja_run *run, const struct jinja_value *box,
                                      const struct jinja_value *item, int *out);

/* What a for statement walks over: elements, keys, characters; nothing for an
 * undefined value; an error for a number.  *out may share the memory of value. */
MUST_CHECK enum status jinja_elements(struct jinja_run *run, const struct jinja_value *value,
                                      struct jinja_list *out);

/* A copy of json in the arena; strings are borrowed from json, which must
 * outlive the render. */
MUST_CHECK enum status jinja_from_json(struct jinja_run *run, const json_t *json, struct jinja_value *out);

#endif
