/* rng.h - seeded random numbers, one state per sequence.
 *
 * xoshiro256** (Blackman, Vigna, "Scrambled linear pseudorandom number
 * generators", 2018), seeded through splitmix64.  The same seed gives the same
 * numbers on every machine.  Owner: whoever holds the state; no locking.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);         /* 64 uniform bits */
double rng_uniform(struct rng *rng);        /* [0, 1), 53 bits */
uint64_t rng_below(struct rng *rng, uint64_t n);   /* [0, n), n > 0, unbiased */

/* A seed for part `index` of something seeded with `seed`: choice 3 of a
 * request, tensor 7 of a synthetic model.  Distinct indices give unrelated
 * streams. */
uint64_t rng_sub_seed(uint64_t seed, uint64_t index);

#endif
