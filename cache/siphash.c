#include "cache/siphash.h"

#include <endian.h>
#include <string.h>

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate_left(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static void mix(struct state *s, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotate_left(s->v1, 13) ^ s->v0;
        s->v3 = rotate_left(s->v3, 16) ^ s->v2;
        s->v0 = rotate_left(s->v0, 32) + s->v3;
        s->v2 += s->v1;
        s->v3 = rotate_left(s->v3, 21) ^ s->v0;
        s->v1 = rotate_left(s->v1, 17) ^ s->v2;
        s->v2 = rotate_left(s->v2, 32);
    }
}

static void absorb(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    mix(s, 2);
    s->v0 ^= word;
}

static uint64_t little_endian_word(const unsigned char *bytes, size_t n)
{
    uint64_t word = 0;
    memcpy(&word, bytes, n);
    return le64toh(word);
}

uint64_t siphash(const struct siphash_key *key, const void *bytes, size_t n_bytes)
{
    struct state s = {
        .v0 = key->k0 ^ 0x736f6d6570736575,
        .v1 = key->k1 ^ 0x646f72616e646f6d,
        .v2 = key->k0 ^ 0x6c7967656e657261,
        .v3 = key->k1 ^ 0x7465646279746573,
    };
    const unsigned char *at = bytes;
    size_t n_left = n_bytes;
    for (; n_left >= 8; n_left -= 8, at += 8)
        absorb(&s, little_endian_word(at, 8));
    absorb(&s, little_endian_word(at, n_left) | (uint64_t)n_bytes << 56);
    s.v2 ^= 0xff;
    mix(&s, 4);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
