/* edit_distance.h - how far two names are apart, for "did you mean". */
#ifndef BASE_EDIT_DISTANCE_H
#define BASE_EDIT_DISTANCE_H

#include <stddef.h>

#define EDIT_DISTANCE_MAX_TEXT 63   /* longer names are never near anything */

/* Insertions, deletions, replacements and swaps of neighbours that turn a into
 * b; SIZE_MAX if either is longer than EDIT_DISTANCE_MAX_TEXT. */
size_t edit_distance(const char *a, const char *b);

/* 1 if somebody who typed `got` may have meant `name`: at most one mistake in
 * four characters. */
int edit_distance_is_near(const char *got, const char *name);

#endif
