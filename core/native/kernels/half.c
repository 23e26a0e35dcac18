/* bfloat16 and float16 to float32 and back.

   To bfloat16 the value is rounded to nearest, ties to even; a NaN stays a quiet NaN of its sign. float16 goes through
   the compiler's own conversion, which is one instruction where the processor has it. Loops of eight bytes an item: they
   run at the speed of memory. */
#include "kernels/half.h"

#include <string.h>

#include "kernels/kernel.h"
#include "runtime/parallel.h"
#include "kernels/simd_bits.h"

typedef struct {
    const void *from;
    void *to;
} span;

VECTOR static void widen_bf16(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const span *s = context;
    const uint16_t *x = s->from;
    uint32_t *y = s->to;
    INDEPENDENT
    for (ptrdiff_t i = begin; i < end; i++) y[i] = (uint32_t)x[i] << 16;
}

VECTOR static void narrow_bf16(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const span *s = context;
    const uint32_t *x = s->from;
    uint16_t *y = s->to;
    INDEPENDENT
    for (ptrdiff_t i = begin; i < end; i++) {
        const uint32_t bits = x[i], rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
        const uint32_t nan = bits >> 16 | 0x40u; /* quiet, and never an infinity */
        y[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
    }
}

/* By bits: the exponent is rebased by a multiplication, which also makes subnormals right. */
VECTOR static void widen_f16(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const span *s = context;
    const uint16_t *x = s->from;
    float *y = s->to;
    INDEPENDENT
    for (ptrdiff_t i = begin; i < end; i++) {
        const uint32_t half = x[i], magnitude = (half & 0x7fffu) << 13;
        const float value = sm_from_bits_f32(magnitude) * 0x1p112f;
        const uint32_t bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : sm_bits_f32(value);
        y[i] = sm_from_bits_f32(bits | (half & 0x8000u) << 16);
    }
}

/* Adding a power of two whose last bit is the result's last bit rounds to nearest, ties to even. */
VECTOR static void narrow_f16(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const span *s = context;
    const float *x = s->from;
    uint16_t *y = s->to;
    INDEPENDENT
    for (ptrdiff_t i = begin; i < end; i++) {
        const uint32_t bits = sm_bits_f32(x[i]), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
        /* normal numbers: round the mantissa in place, then rebase the exponent */
        const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
        /* below 2^-14: 0.5 has 2^-24 as its last bit */
        const uint32_t small = sm_bits_f32(sm_from_bits_f32(magnitude) + 0.5f) - 0x3f000000u;
        const uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
        const uint32_t finite = magnitude < 0x38800000u ? small : normal;
        const uint32_t value = magnitude > 0x7f800000u ? nan : magnitude >= 0x477ff000u ? 0x7c00u : finite;
        y[i] = (uint16_t)(value | sign);
    }
}

void half_widen(const uint16_t *x, float *y, ptrdiff_t n, int bfloat) {
    span s = {x, y};
    parallel_for(n, (double)n, bfloat ? widen_bf16 : widen_f16, &s);
}

void half_narrow(const float *x, uint16_t *y, ptrdiff_t n, int bfloat) {
    span s = {x, y};
    parallel_for(n, 2.0 * (double)n, bfloat ? narrow_bf16 : narrow_f16, &s);
}

void half_widen_here(const uint16_t *x, float *y, ptrdiff_t n, int bfloat) {
    span s = {x, y};
    (bfloat ? widen_bf16 : widen_f16)(&s, 0, n);
}

void half_narrow_here(const float *x, uint16_t *y, ptrdiff_t n, int bfloat) {
    span s = {x, y};
    (bfloat ? narrow_bf16 : narrow_f16)(&s, 0, n);
}
