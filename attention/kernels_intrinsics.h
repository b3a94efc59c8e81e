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

#ifdef HAS_BYTE_PAIRS
#ifdef __AVX512BW__
typedef __m512i whole_register;
#define OF_WIDTH(name) _mm512_##name
#else
typedef __m256i whole_register;
#define OF_WIDTH(name) _mm256_##name
#endif

/* Products of unsigned by signed bytes, two of them added in 16 bits. */
INLINE veci pair_products(vecu w, veci x)
{
    return (veci)OF_WIDTH(maddubs_epi16)((whole_register)w, (whole_register)x);
}

/* Two such sums, each times a factor of 16 bits, added in 32. */
INLINE veci add_pairs(veci pairs, vecu factors)
{
    return (veci)OF_WIDTH(madd_epi16)((whole_register)pairs, (whole_register)factors);
}

INLINE vecu byte_sizes(vecu w)
{
    return (vecu)OF_WIDTH(abs_epi8)((whole_register)w);
}

/* x with the signs of w. */
INLINE veci lend_signs(veci x, vecu w)
{
#ifdef __AVX512BW__
    return (veci)_mm512_mask_sub_epi8((whole_register)x, _mm512_movepi8_mask((whole_register)w), _mm512_setzero_si512(), (whole_register)x);
#else
    return (veci)_mm256_sign_epi8((whole_register)x, (whole_register)w);
#endif
}

/* 2 * 127 * 127 < 2^15: a pair of int8 fits, its weights without their signs.  Of int4 all 8 pairs of a share
 * do (16 * 15 * 127), and are made whole when it ends. */
INLINE veci add_quad(veci acc, vecu w, veci x, const int bits)
{
    typedef int16_t shorts __attribute__((vector_size(sizeof(veci)), may_alias));
    if (bits == 4)
        return (veci)((shorts)acc + (shorts)pair_products(w, x));
    return acc + add_pairs(pair_products(byte_sizes(w), lend_signs(x, w)), (vecu){ 0 } + 0x00010001u);
}
#endif

#endif
