/* kernels_intrinsics.h - the two instructions that the generic vectors cannot
 * say: products of bf16 pairs and of bytes (AVX-512 BF16 and VNNI).  Included by
 * kernels_body.h after its vector types, for the tables that have them. */
#ifndef ATTENTION_KERNELS_INTRINSICS_H
#define ATTENTION_KERNELS_INTRINSICS_H

#include <immintrin.h>

/* acc[o] += x0 * w[o][0] + x1 * w[o][1], pair = x0 | x1 << 16 */
INLINE vec dot_bf16_pairs(vec acc, int32_t pair, veci w)
{
    return (vec)_mm512_dpbf16_ps((__m512)acc, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)w);
}

INLINE veci dot_bytes(veci acc, vecu w, int32_t x)
{
    return (veci)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)w, _mm512_set1_epi32(x));
}

#endif
