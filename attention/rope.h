/* rope.h - rotary positions: a table of angles, and its application.
 *
 * Su et al., "RoFormer", 2021, equation 34.  For a vector of `width` elements
 * at position t, pair i (0 <= i < width / 2) turns by the angle
 * t * base^(-2i / width).  Which two elements make pair i is the pairing:
 *
 *   ROPE_HALF         element i and element i + width / 2
 *   ROPE_INTERLEAVED  element 2i and element 2i + 1
 *
 * Angles are computed in double and rounded once.  A table holds positions
 * [0, n_positions).  Owner: read-only after create; memory: the arena.
 */
#ifndef ATTENTION_ROPE_H
#define ATTENTION_ROPE_H

#include "base/arena.h"

enum rope_pairing { ROPE_HALF, ROPE_INTERLEAVED };

struct rope {
    int width;                  /* elements that turn; even */
    enum rope_pairing pairing;
    int n_positions;
    const float *cosine, *sine; /* [n_positions][width / 2] */
};

/* width even and > 0, base > 0.  NO_MEMORY. */
MUST_CHECK enum status rope_create(struct rope *rope, int width, enum rope_pairing pairing, double base,
                                   int n_positions, struct arena *arena, struct error *err);

/* Turn x[width] in place; 0 <= position < n_positions. */
void rope_apply(const struct rope *rope, float *x, int position);

#endif
