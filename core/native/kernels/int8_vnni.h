/* What the files that multiply bytes with AVX-512 VNNI share: w as u8 (w + 128) times s8. */
#ifndef GRADLAB_INT8_VNNI_H
#define GRADLAB_INT8_VNNI_H

#include <immintrin.h>

#include "kernels/kernel.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

/* sums += u8 times s8, fours added up. In words: gcc 12 moves the intrinsic's sums to another register and back. */
#define DOT(sums, u, s) __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(u), "v"(s))

enum { FEW = 4 /* lines of w that are read side by side */ };

INLINE __mmask64 bytes_there(ptrdiff_t left) { return left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1; }

/* The four sums over the lanes of four vectors. */
AVX512 INLINE __m128i folded(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i p = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i q = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    const __m512i r = _mm512_add_epi32(_mm512_unpacklo_epi64(p, q), _mm512_unpackhi_epi64(p, q));
    const __m256i s = _mm256_add_epi32(_mm512_castsi512_si256(r), _mm512_extracti64x4_epi64(r, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
}

/* Sixteen lines of w from the byte p on, turned: to[j] (64 bytes) has the bytes 4 j..4 j + 3 of each
   line, with the bits `flip` turned over. */
AVX512 static inline void turn16(const int8_t *w, ptrdiff_t line, int lines, __mmask64 there, int flip, uint8_t *to,
                                 ptrdiff_t step) {
    __m512i a[16], b[16];
    const __m512i bits = _mm512_set1_epi8((char)flip);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        a[i] = _mm512_xor_si512(i < lines ? _mm512_maskz_loadu_epi8(there, w + i * line) : _mm512_setzero_si512(), bits);
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        const __m512i p = _mm512_unpacklo_epi32(a[i], a[i + 1]), q = _mm512_unpackhi_epi32(a[i], a[i + 1]);
        const __m512i r = _mm512_unpacklo_epi32(a[i + 2], a[i + 3]), s = _mm512_unpackhi_epi32(a[i + 2], a[i + 3]);
        b[i] = _mm512_unpacklo_epi64(p, r);
        b[i + 1] = _mm512_unpackhi_epi64(p, r);
        b[i + 2] = _mm512_unpacklo_epi64(q, s);
        b[i + 3] = _mm512_unpackhi_epi64(q, s);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512i p = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x88), q = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xdd);
        const __m512i r = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0x88);
        const __m512i s = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0xdd);
        _mm512_storeu_si512(to + i * step, _mm512_shuffle_i32x4(p, r, 0x88));
        _mm512_storeu_si512(to + (i + 4) * step, _mm512_shuffle_i32x4(q, s, 0x88));
        _mm512_storeu_si512(to + (i + 8) * step, _mm512_shuffle_i32x4(p, r, 0xdd));
        _mm512_storeu_si512(to + (i + 12) * step, _mm512_shuffle_i32x4(q, s, 0xdd));
    }
}

/* sums[r * stride + line] of FEW lines of w, as they lie, by `rows` rows of q; `weights` too are summed where wanted. */
AVX512 INLINE void few_rows(const int rows, const int8_t *w, ptrdiff_t k, int lines, const int8_t *q, ptrdiff_t depth,
                            int32_t *sums, ptrdiff_t stride, int32_t *weights) {
    __m512i c[4][FEW], s[FEW];
    const __m512i flip = _mm512_set1_epi8((char)0x80), ones = _mm512_set1_epi8(1);
    const int8_t *line[FEW];
#pragma GCC unroll 4
    for (int j = 0; j < FEW; j++) {
        line[j] = w + (j < lines ? j : 0) * k;
        s[j] = _mm512_setzero_si512();
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) c[r][j] = _mm512_setzero_si512();
    }
    for (ptrdiff_t p = 0; p < k; p += 64) {
        const __mmask64 there = bytes_there(k - p);
        __m512i a[4];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) a[r] = _mm512_loadu_si512(q + r * depth + p);
#pragma GCC unroll 4
        for (int j = 0; j < FEW; j++) {
            const __m512i b = k - p >= 64 ? _mm512_loadu_si512(line[j] + p) : _mm512_maskz_loadu_epi8(there, line[j] + p);

            if (weights) DOT(s[j], ones, b);
            const __m512i u = _mm512_xor_si512(b, flip);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) DOT(c[r][j], u, a[r]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        _mm_storeu_si128((__m128i *)(sums + r * stride), folded(c[r][0], c[r][1], c[r][2], c[r][3]));
    if (weights) _mm_storeu_si128((__m128i *)weights, folded(s[0], s[1], s[2], s[3]));
}

#endif
