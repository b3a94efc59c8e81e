/* grammar.h - which tokens may come next so that the text stays in a language.
 *
 *   text of the constraint --> byte_program --> byte_machine (states made as needed)
 *                                                  |  walked along
 *   tokenizer's token bytes --> token_trie --------+--> mask: bit t set = token t fits
 *
 * A grammar is one compiled constraint; a cursor is one sequence's place in it,
 * so the n choices of a request share one grammar and its masks.  After every
 * byte that a mask allows, the text can still be completed: a cursor never runs
 * into a dead end, provided the vocabulary can spell every byte.
 *
 * End of text: the end tokens given at create are allowed exactly where the text
 * so far is complete.
 *
 * The three languages
 *   REGEX        the whole output matches the pattern (regex.h has the syntax)
 *   JSON_OBJECT  one JSON object, any content, within the limits of json_rules.h
 *   JSON_SCHEMA  one JSON value that fits the schema (json_schema.h has the keywords)
 *
 * Threads: create on any thread (a bad constraint is refused before anything is
 * promised to a client); then hand it over: one thread uses a grammar and all its
 * cursors.  The trie is only read.
 * Memory: all of it at create, bounded by the limits; mask and advance allocate
 * nothing.  When the room for states is used up, states that no cursor stands on
 * are forgotten and made again when needed.
 */
#ifndef MODEL_GRAMMAR_H
#define MODEL_GRAMMAR_H

#include "model/token_trie.h"

#include <stddef.h>

struct grammar;                     /* opaque */

enum grammar_kind { GRAMMAR_REGEX, GRAMMAR_JSON_OBJECT, GRAMMAR_JSON_SCHEMA };

struct grammar_limits {
    size_t max_text;                /* bytes of the pattern or schema */
    uint32_t max_code;              /* instructions it may compile to */
    uint32_t max_depth;             /* nesting of what is generated, in frames (an object or
                                     * array inside another takes one or two) */
    uint32_t max_states;            /* held at a time */
    uint32_t max_masks;             /* held at a time, least recently used goes first */
    uint64_t max_work;              /* places the machine may enter for one mask or token: a
                                     * million take about 50 ms, a JSON string a few hundred */
};

#define GRAMMAR_LIMITS_DEFAULT ((struct grammar_limits){ \
    .max_text = 65536, .max_code = 100000, .max_depth = 64, .max_states = 4096, .max_masks = 48, \
    .max_work = 2000000 })

struct grammar_options {
    enum grammar_kind kind;
    const char *text;               /* pattern or schema, UTF-8; NULL for JSON_OBJECT */
    size_t len;
    const struct token_trie *trie;  /* borrowed; outlives the grammar */
    const int32_t *end_tokens;      /* [n_end_tokens], copied; ids outside the vocabulary are ignored */
    int n_end_tokens;
    int n_cursors;                  /* > 0 */
    struct grammar_limits limits;
};

/* BAD_REQUEST: the pattern or schema is not valid, uses something that is not
 * supported (the sentence names it), is too deep, or fits no text at all.
 * TOO_LARGE: more than a limit.  NO_MEMORY.  *out is untouched in each case. */
MUST_CHECK enum status grammar_create(struct grammar **out, const struct grammar_options *options,
                                      struct error *err);
void grammar_destroy(struct grammar *grammar);          /* NULL is allowed */

/* Put a cursor (0 <= cursor < n_cursors) at the beginning of the text. */
void grammar_start(struct grammar *grammar, int cursor);

/* The tokens that may come at the cursor: [(vocab + 63) / 64], bit t of word t / 64.
 * *mask stays valid until the next call with this grammar.
 * TOO_LARGE: the constraint is so ambiguous that its states do not fit, or take more
 * than max_work to make. */
MUST_CHECK enum status grammar_mask(struct grammar *grammar, int cursor, const uint64_t **mask,
                                    struct error *err);

/* The token was taken.  An end token where the text is complete changes nothing.
 * INTERNAL: the mask did not allow it; the cursor stays where it was.
 * TOO_LARGE: as grammar_mask. */
MUST_CHECK enum status grammar_advance(struct grammar *grammar, int cursor, int32_t token, struct error *err);

int grammar_is_accepting(const struct grammar *grammar, int cursor);    /* the text may end here */
int grammar_is_finished(const struct grammar *grammar, int cursor);     /* it may only end here */

#endif
