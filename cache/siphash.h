/* siphash.h - a keyed 64-bit hash that strangers cannot steer.
 *
 * SipHash-2-4 (Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012).
 * Prompts come from outside; without the key nobody can prepare prompts whose
 * blocks collide.  Threads: any.  Memory: none.
 */
#ifndef CACHE_SIPHASH_H
#define CACHE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t k0, k1;
};

uint64_t siphash(const struct siphash_key *key, const void *bytes, size_t n_bytes);

#endif
