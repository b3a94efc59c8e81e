/* kernels_intrinsics.h - the instructions that the generic vectors cannot say:
 * products of bf16 pairs (AVX-512 BF16), of four bytes (VNNI) and of two bytes
 * (AVX2, AVX-512 BW).  Included by kernels_body.h after its vector types, for the
 * tables that have them.
 *
 * A quad is 4 bytes in a lane: weights of an output (of int8 plus BYTE_OFFSET, of int4 0 to 15),
 * and 4 inputs of a row in every lane.
 */
#ifndef ATTENTION_KERNELS_INTRINSICS_H
#define ATTENTION_KERNELS_INTRINSICS_H

#include <immintrin.h>

#ifdef HAS_BF16_DOT
/* acc[o] += x0 * w[o][0] + x1 * w[o][1], pair = x0 | x1 << 16 */
INLINE vec dot_bf16_pairs(vec acc, int32_t pair, veci w)
{
    return (vec)_mm512_dpbf16_ps((__m512)acc, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)w);
}
#endif

#ifdef HAS_BYTE_DOT
INLINE veci add_quad(veci acc, vecu w, veci x, const int bits)
{
    (void)bits;
    return (veci)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)w, (__m512i)x);
}
#endif

/* Two products are added in 16 bits, unsigned by signed: 2 * 127 * 127 < 2^15, so int8
 * weights lend their signs to the inputs.  Of int4 all 16 pairs of a group fit, and are
 * made whole when it ends. */
#ifdef HAS_BYTE_PAIRS
#ifdef __AVX512BW__
INLINE veci add_pairs(veci acc, veci pairs)
{
    return acc + (veci)_mm512_madd_epi16((__m512i)pairs, _mm512_set1_epi16(1));
}

INLINE veci add_quad(veci acc, vecu w, veci x, const int bits)
{
    __m512i weights = (__m512i)w, inputs = (__m512i)x;
    if (bits == 4)
        return (veci)_mm512_add_epi16((__m512i)acc, _mm512_maddubs_epi16(weights, inputs));
    inputs = _mm512_mask_sub_epi8(inputs, _mm512_movepi8_mask(weights), _mm512_setzero_si512(), inputs);
    return add_pairs(acc, (veci)_mm512_maddubs_epi16(_mm512_abs_epi8(weights), inputs));
}
#else
INLINE veci add_pairs(veci acc, veci pairs)
{
    return acc + (veci)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(1));
}

INLINE veci add_quad(veci acc, vecu w, veci x, const int bits)
{
    __m256i weights = (__m256i)w, inputs = (__m256i)x;
    if (bits == 4)
        return (veci)_mm256_add_epi16((__m256i)acc, _mm256_maddubs_epi16(weights, inputs));
    inputs = _mm256_sign_epi8(inputs, weights);
    return add_pairs(acc, (veci)_mm256_maddubs_epi16(_mm256_abs_epi8(weights), inputs));
}
#endif

INLINE veci whole_sum(veci acc, const int bits)
{
    return bits == 4 ? add_pairs((veci){ 0 }, acc) : acc;
}
#endif

#endif
