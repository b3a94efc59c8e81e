#include "attention/rope.h"

#include <assert.h>
#include <math.h>

enum status rope_create(struct rope *rope, int width, enum rope_pairing pairing, double base,
                        int n_positions, struct arena *arena, struct error *err)
{
    assert(width > 0 && width % 2 == 0 && base > 0);
    int half = width / 2;
    float *cosine, *sine;
    TRY(arena_take(arena, (size_t)n_positions * (size_t)half, sizeof *cosine, (void **)&cosine, err));
    TRY(arena_take(arena, (size_t)n_positions * (size_t)half, sizeof *sine, (void **)&sine, err));
    for (int i = 0; i < half; i++) {
        double frequency = pow(base, -2.0 * i / width);
        for (int t = 0; t < n_positions; t++) {
            size_t at = (size_t)t * (size_t)half + (size_t)i;
            cosine[at] = (float)cos(t * frequency);
            sine[at] = (float)sin(t * frequency);
        }
    }
    *rope = (struct rope){ width, pairing, n_positions, cosine, sine };
    return STATUS_OK;
}

void rope_apply(const struct rope *rope, float *x, int position)
{
    assert(position >= 0 && position < rope->n_positions);
    int half = rope->width / 2;
    const float *c = rope->cosine + (size_t)position * (size_t)half;
    const float *s = rope->sine + (size_t)position * (size_t)half;
    int step = rope->pairing == ROPE_HALF ? 1 : 2;
    int partner = rope->pairing == ROPE_HALF ? half : 1;
    for (int i = 0; i < half; i++) {
        float a = x[i * step], b = x[i * step + partner];
        x[i * step] = a * c[i] - b * s[i];
        x[i * step + partner] = a * s[i] + b * c[i];
    }
}
