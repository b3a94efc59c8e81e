/* compare_weights.h - random parameters of one layer, of any formulation.
 *
 * Every matrix is a view of one pool of random bf16 numbers: what a rank packs
 * from it is its own memory, so the ranks' weights do not share a byte although
 * their source does.  Deviation 0.02: activations stay finite and never denormal.
 *
 * Memory: the pool, in an arena, as large as the largest matrix.  Threads: any.
 */
#ifndef BENCH_COMPARE_WEIGHTS_H
#define BENCH_COMPARE_WEIGHTS_H

#include "base/arena.h"
#include "model/layer.h"

struct compare_pool {
    struct arena arena;
    uint16_t *numbers;          /* bf16 */
    size_t n;
};

/* At least n numbers.  NO_MEMORY. */
MUST_CHECK enum status compare_pool_init(struct compare_pool *pool, size_t n, struct error *err);
void compare_pool_clear(struct compare_pool *pool);

/* Elements of the largest matrix of such a layer with a head of vocab rows. */
size_t compare_largest_matrix(const struct attention_config *c, int intermediate, int vocab);

/* Views into the pool, which must be large enough. */
void compare_fill_layer(const struct compare_pool *pool, const struct attention_config *c, int intermediate,
                        struct layer_weights *out);
struct matrix compare_matrix(const struct compare_pool *pool, int64_t n_rows, int64_t n_columns);

#endif
