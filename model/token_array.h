/* token_array.h - where an encoder puts its tokens: the caller's array, and a
 * count that goes on past its end, so that "5000 tokens, limit 4096" can be said.
 *
 * Owner: the caller.  Memory: none.
 */
#ifndef MODEL_TOKEN_ARRAY_H
#define MODEL_TOKEN_ARRAY_H

#include <stddef.h>
#include <stdint.h>

struct token_array {
    int32_t *ids;       /* [max]; NULL is allowed if max is 0 */
    size_t max;
    size_t n;           /* pushed so far; only the first max of them are stored */
};

static inline void token_array_push(struct token_array *a, int32_t id)
{
    if (a->n < a->max)
        a->ids[a->n] = id;
    a->n++;
}

#endif
