/* Weights of 8 or 4 bits as the panels of float32 that gemm.c multiplies; included by int8_weights.c alone, once.

   Sixteen lines are turned while they are still bytes, four or eight weights of a line at a time, and become float32 as
   they are stored: a third of the instructions of making lines of floats and turning those. The same bits as line_of_8
   and line_of_4 give. */
#include <immintrin.h>

#include "kernels/int8_vnni.h"

enum { PANEL = 32, HALF = 16 };

INLINE __mmask16 lanes_there(ptrdiff_t count) {
    return count >= HALF ? 0xffff : count > 0 ? (__mmask16)((1u << count) - 1) : 0;
}

AVX512 static void panel_of_8(const void *from, ptrdiff_t column, ptrdiff_t count, ptrdiff_t first, ptrdiff_t steps,
                              float *to) {
    const weight_call *c = from;
    uint8_t turned[16][64] __attribute__((aligned(64)));
    for (int half = 0; half < PANEL; half += HALF) {
        const ptrdiff_t lines = least(count - half, HALF);
        const int8_t *w = (const int8_t *)c->w + (column + half) * c->k + first;
        const __m512 scale = _mm512_maskz_loadu_ps(lanes_there(lines), c->scale + column + half);
        for (ptrdiff_t p = 0; p < steps; p += 64) {
            turn16(w + p, c->k, (int)lines, bytes_there(steps - p), 0, *turned, 64);
            const ptrdiff_t here = least(steps - p, 64);
            float *y = to + p * PANEL + half;
            for (ptrdiff_t s = 0; s < here; s += 4) {
                const __m512i v = _mm512_load_si512(turned[s / 4]);
#pragma GCC unroll 4
                for (int t = 0; t < 4; t++, y += PANEL) {
                    if (s + t >= here) break;
                    const __m512i q = _mm512_srai_epi32(_mm512_slli_epi32(v, 24 - 8 * t), 24);
                    _mm512_storeu_ps(y, _mm512_mul_ps(_mm512_cvtepi32_ps(q), scale));
                }
            }
        }
    }
}

/* Groups are of a multiple of 8 weights. */
AVX512 static void panel_of_4(const void *from, ptrdiff_t column, ptrdiff_t count, ptrdiff_t first, ptrdiff_t steps,
                              float *to) {
    const weight_call *c = from;
    const ptrdiff_t bytes = c->k / 2, group = c->k / c->groups;
    const __m512i low = _mm512_set1_epi32(15);
    const __m512i numbers = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i apart = _mm512_mullo_epi32(numbers, _mm512_set1_epi32((int)c->groups));
    uint8_t turned[16][64] __attribute__((aligned(64)));
    for (int half = 0; half < PANEL; half += HALF) {
        const ptrdiff_t lines = least(count - half, HALF), line = column + half;
        const __mmask16 there = lanes_there(lines);
        const int8_t *w = (const int8_t *)c->w + line * bytes + first / 2;
        __m512 scale = _mm512_setzero_ps(), zero = scale;
        ptrdiff_t next = 0; /* where another group begins */
        for (ptrdiff_t p = 0; p < steps; p += 128) {
            turn16(w + p / 2, bytes, (int)lines, bytes_there((steps - p) / 2), 0, *turned, 64);
            const ptrdiff_t here = least(steps - p, 128);
            float *y = to + p * PANEL + half;
            for (ptrdiff_t s = 0; s < here; s += 8) {
                const __m512i v = _mm512_load_si512(turned[s / 8]);
                if (p + s >= next) {
                    const ptrdiff_t g = (first + p + s) / group;
                    const __m512 none = _mm512_setzero_ps();
                    next = (g + 1) * group - first;
                    scale = _mm512_mask_i32gather_ps(none, there, apart, c->scale + line * c->groups + g, 4);
                    zero = _mm512_mask_i32gather_ps(none, there, apart, c->zero + line * c->groups + g, 4);
                }
#pragma GCC unroll 8
                for (int t = 0; t < 8; t++, y += PANEL) {
                    if (s + t >= here) break;
                    const __m512i q = _mm512_and_si512(_mm512_srli_epi32(v, 4 * t), low);
                    _mm512_storeu_ps(y, _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(q), zero), scale));
                }
            }
        }
    }
}

/* What makes a panel of a call's weights, or NULL. */
static panel_of *panel_for(const weight_call *c) {
    if (int8_way() != INT8_AVX512) return NULL;
    return !c->zero ? panel_of_8 : c->k / c->groups % 8 == 0 && c->groups < 1 << 24 ? panel_of_4 : NULL;
}
