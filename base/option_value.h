/* option_value.h - the text of one option turned into its field.
 *
 * The kinds of options.h are rows of one table here: what the value is called,
 * how it is read, how its range is said.  Threads: any.  Memory: none.
 */
#ifndef BASE_OPTION_VALUE_H
#define BASE_OPTION_VALUE_H

#include "base/options.h"

/* Read text into the row's field of *values.  A string field borrows text.
 * where: "" or " (latentd.conf line 3)", closes the sentence.
 * BAD_OPTION: not of the kind, or out of range; the field is untouched. */
MUST_CHECK enum status option_value_set(const struct option_row *row, const char *text,
                                        const char *where, void *values, struct error *err);

/* "a whole number between 1 and 65535", "one of f32, bf16, int8". */
void option_value_phrase(const struct option_row *row, char *out, size_t max);

/* The word for the value in a usage line: "N", "SIZE", .. ; "" for a flag. */
const char *option_value_word(const struct option_row *row);

/* Bytes written with the largest unit that leaves a whole number: "512MiB". */
void option_value_print_size(int64_t bytes, char *out, size_t max);

#endif
