/* jinja_lex.h - template text into tokens, whitespace control applied.
 *
 *   Hi {%- if x %}\n  {{ x }}      ->  TEXT "Hi"  BLOCK_BEGIN  NAME if  NAME x
 *                                      BLOCK_END  TEXT "  "  PRINT_BEGIN ...
 *
 * The rules are those of the environment in which checkpoints' templates are
 * written: trim_blocks (one newline after a block or comment is dropped),
 * lstrip_blocks (blanks before a block or comment that begins its line are
 * dropped), one newline at the end of the file is dropped, and "-" and "+"
 * beside a delimiter overrule them.  Comments and raw blocks are gone after
 * this step.
 *
 * Owner:  the caller.  Memory: one growing array; token texts point into the
 * template, which must outlive them.
 */
#ifndef MODEL_JINJA_LEX_H
#define MODEL_JINJA_LEX_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum jinja_token_kind {
    TOKEN_TEXT,             /* printed as it is */
    TOKEN_PRINT_BEGIN,      /* {{ */
    TOKEN_PRINT_END,        /* }} */
    TOKEN_BLOCK_BEGIN,      /* {% */
    TOKEN_BLOCK_END,        /* %} */
    TOKEN_NAME,
    TOKEN_STRING,           /* text is between the quotes, escapes untouched */
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_OPERATOR,         /* op says which */
    TOKEN_END
};

/* An operator is its characters: '+' or JINJA_OP('=', '='). */
#define JINJA_OP(first, second) ((first) << 8 | (second))

struct jinja_token {
    enum jinja_token_kind kind;
    int op;                 /* of an OPERATOR, otherwise 0 */
    uint32_t line;          /* from 1 */
    const char *text;       /* [len], points into the template */
    size_t len;
};

struct jinja_tokens {
    struct jinja_token *at; /* [n], the last is TOKEN_END */
    size_t n, capacity;
};

/* Replaces "\r\n" and "\r" by "\n" and drops one newline at the end, in place;
 * returns the new length.  To be done before jinja_lex. */
size_t jinja_lex_normalise(char *text, size_t len);

/* out is overwritten; give it to jinja_tokens_clear, also after a failure.
 * BAD_MODEL: the text is not a template; the sentence has the line.
 * NO_MEMORY. */
MUST_CHECK enum status jinja_lex(const char *text, size_t len, struct jinja_tokens *out, struct error *err);
void jinja_tokens_clear(struct jinja_tokens *tokens);

#endif
