/* jinja_text.h - strings as Python counts, prints and folds them.
 *
 * Text is UTF-8; a byte that is part of no sequence counts as one character.
 * Positions here are characters unless a name says bytes.
 *
 * Owner:  one render.  Memory: the arena of the render, where there is a run.
 */
#ifndef MODEL_JINJA_TEXT_H
#define MODEL_JINJA_TEXT_H

#include "model/jinja_value.h"

/* Print value as str(), as repr(), and as json.dumps() would. */
MUST_CHECK enum status jinja_write_str(struct jinja_run *run, const struct jinja_value *value);
MUST_CHECK enum status jinja_write_repr(struct jinja_run *run, const struct jinja_value *value);

struct jinja_json_style {
    int ascii;                  /* escape what is not ASCII */
    int sort_keys;
    const struct jinja_value *indent;   /* STRING for one level; NULL: one line */
    struct jinja_value item, key;       /* STRINGs: ", " and ": " */
};

/* A value that JSON has no form for is an error. */
MUST_CHECK enum status jinja_write_json(struct jinja_run *run, const struct jinja_value *value,
                                        const struct jinja_json_style *style);

/* str() of any value; a STRING is returned as it is. */
MUST_CHECK enum status jinja_to_string(struct jinja_run *run, const struct jinja_value *value,
                                       struct jinja_value *out);

/* Characters of text[len]; bytes before character n (len if there are fewer). */
size_t jinja_text_count(const char *text, size_t len);
size_t jinja_text_offset(const char *text, size_t len, size_t n);

/* The character at text[0..len), len > 0, and its bytes; a stray byte yields its
 * own value as a negative number. */
int32_t jinja_text_char(const char *text, size_t len, size_t *bytes);
int jinja_text_is_blank(int32_t character);     /* str.isspace() of one character */

/* What of text is left without blanks, or without the characters of `set`
 * (STRING) if it is not NULL, at its left and right end. */
enum jinja_side { JINJA_LEFT = 1, JINJA_RIGHT = 2, JINJA_BOTH = 3 };
struct jinja_value jinja_text_strip(struct jinja_value text, const struct jinja_value *set,
                                    enum jinja_side side);
/* The same, its work counted: for texts and sets that a template makes. */
MUST_CHECK enum status jinja_strip(struct jinja_run *run, struct jinja_value text,
                                   const struct jinja_value *set,
                                   enum jinja_side side, struct jinja_value *out);

/* Print with every character mapped; title: the first of each word up, the rest
 * down; capital: the first up, the rest down. */
enum jinja_case { JINJA_LOWER, JINJA_UPPER, JINJA_TITLE, JINJA_CAPITAL };
MUST_CHECK enum status jinja_write_case(struct jinja_run *run, const struct jinja_value *text,
                                        enum jinja_case to);

#endif
