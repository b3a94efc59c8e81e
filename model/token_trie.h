/* token_trie.h - the bytes of every token, as a tree that is walked once per mask.
 *
 *   tokens 0 "a"  1 "ab"  2 "abc"  3 "b"  4 "ab"
 *
 *   nodes  byte depth  skip  tokens        in preorder: skip is where the walk goes
 *    [0]    a     1      3    0            on when nothing below the node can fit
 *    [1]    b     2      3    1 4
 *    [2]    c     3      3    2
 *    [3]    b     1      4    3
 *
 * Immutable after create; made once per tokenizer.  Threads: any.
 */
#ifndef MODEL_TOKEN_TRIE_H
#define MODEL_TOKEN_TRIE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define TOKEN_TRIE_MAX_BYTES 255        /* longer tokens are left out: no grammar allows them */

struct token_trie;                      /* opaque */

struct token_trie_node {
    uint32_t skip;                      /* the first node that is not below this one */
    uint32_t first_token;               /* index in token_trie_tokens */
    uint32_t n_tokens;                  /* that end exactly here */
    uint8_t byte;
    uint8_t depth;                      /* bytes from the root, 1.. */
};

/* bytes_of fills the bytes of a token (borrowed until token_trie_create returns)
 * and their number; 0 bytes for tokens that are not text (end of text, control
 * tokens): no grammar allows them by their bytes.
 * NO_MEMORY: *out is untouched. */
struct token_trie_source {
    int32_t vocab;                      /* > 0 */
    size_t (*bytes_of)(void *context, int32_t token, const char **bytes);
    void *context;
};

MUST_CHECK enum status token_trie_create(struct token_trie **out, const struct token_trie_source *source,
                                         struct error *err);
void token_trie_destroy(struct token_trie *trie);       /* NULL is allowed */

int32_t token_trie_vocab(const struct token_trie *trie);
const struct token_trie_node *token_trie_nodes(const struct token_trie *trie, uint32_t *n);
const int32_t *token_trie_tokens(const struct token_trie *trie);

/* The bytes of a token that is in the trie; 0 bytes if it is not. */
size_t token_trie_bytes(const struct token_trie *trie, int32_t token, const char **bytes);

#endif
