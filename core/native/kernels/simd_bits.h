/* The exact functions under simd_math.h: bits, signs, rounding, comparisons, remainders. */
#ifndef GRADLAB_SIMD_BITS_H
#define GRADLAB_SIMD_BITS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernel.h"

INLINE uint32_t sm_bits_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
INLINE uint64_t sm_bits_f64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}
INLINE float sm_from_bits_f32(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
INLINE double sm_from_bits_f64(uint64_t bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

/* Adding 1.5 * 2^(digits) rounds to a whole number, which then stands in the sum's lowest bits. A
   conversion of C will not do: it is undefined for NaN. */
#define SM_MAGIC_f32 0x1.8p23f
#define SM_MAGIC_f64 0x1.8p52

/* x * 2^n for the whole number n held in t = n + magic, |n| <= 250 (float64: 2000), in two steps so that
   a subnormal result is rounded once and 2^n itself may be out of range. */
INLINE float sm_scale_f32(float x, float t) {
    const uint32_t n = sm_bits_f32(t) - 0x4b400000u + 256, half = n >> 1;
    return x * sm_from_bits_f32((half - 1) << 23) * sm_from_bits_f32((n - half - 1) << 23);
}
INLINE double sm_scale_f64(double x, double t) {
    const uint64_t n = sm_bits_f64(t) - 0x4338000000000000u + 2048, half = n >> 1;
    return x * sm_from_bits_f64((half - 1) << 52) * sm_from_bits_f64((n - half - 1) << 52);
}

/* 2^(n - 1), for 2^(n - 1) in range. */
INLINE float sm_half_power_f32(float t) { return sm_from_bits_f32((sm_bits_f32(t) << 23) + 0x3f000000u); }
INLINE double sm_half_power_f64(double t) { return sm_from_bits_f64((sm_bits_f64(t) << 52) + 0x3fe0000000000000u); }

#define SM_EXACT(T, S, F)                                                                         \
    INLINE T sm_abs_##S(T x) { return fabs##F(x); }                                               \
    INLINE T sm_copysign_##S(T x, T y) { return copysign##F(x, y); }                              \
    INLINE T sm_sqrt_##S(T x) { return sqrt##F(x); }                                              \
    INLINE T sm_rsqrt_##S(T x) { return 1 / sqrt##F(x); }                                         \
    INLINE T sm_floor_##S(T x) { return floor##F(x); }                                            \
    INLINE T sm_ceil_##S(T x) { return ceil##F(x); }                                              \
    INLINE T sm_trunc_##S(T x) { return trunc##F(x); }                                            \
    INLINE T sm_round_##S(T x) { return rint##F(x); }                                             \
    INLINE int sm_isnan_##S(T x) { return x != x; }                                               \
    INLINE int sm_isinf_##S(T x) { return fabs##F(x) == (T)INFINITY; }                            \
    INLINE int sm_isfinite_##S(T x) { return fabs##F(x) < (T)INFINITY; }                          \
    INLINE T sm_sign_##S(T x) { return x > 0 ? (T)1 : x < 0 ? (T) - 1 : x; }                      \
    /* of two zeros the second; beside a number y == y is nothing */                                \
    INLINE T sm_maximum_##S(T x, T y) { return (!(x <= y) & (y == y)) ? x : y; }                      \
    INLINE T sm_minimum_##S(T x, T y) { return (!(x >= y) & (y == y)) ? x : y; }
SM_EXACT(float, f32, f)
SM_EXACT(double, f64, )

/* The remainder and the whole quotient, rounded down, of x by y, where r is what fmod gives of them. The quotient is
   Python's: exact multiples of y below x are counted, so 1 // 0.1 is 9. */
#define SM_DIVISIONS(T, S, F)                                                                     \
    INLINE T sm_remainder_of_##S(T r, T y) {                                                      \
        return r == 0 ? copysign##F(0, y) : (r < 0) != (y < 0) ? r + y : r;                       \
    }                                                                                             \
    INLINE T sm_floor_divide_of_##S(T r, T x, T y) {                                              \
        const T near = (x - r) / y, q = ((r != 0) & ((r < 0) != (y < 0))) ? near - 1 : near;        \
        const T whole = floor##F(q);                                                              \
        const T result = q == 0 ? copysign##F(0, x / y) : q - whole > (T)0.5 ? whole + 1 : whole; \
        return y == 0 ? x / y : result;                                                           \
    }                                                                                             \
    INLINE T sm_fmod_##S(T x, T y) { return fmod##F(x, y); }                                      \
    INLINE T sm_remainder_##S(T x, T y) { return sm_remainder_of_##S(fmod##F(x, y), y); }         \
    INLINE T sm_floor_divide_##S(T x, T y) { return sm_floor_divide_of_##S(fmod##F(x, y), x, y); }
SM_DIVISIONS(float, f32, f)
SM_DIVISIONS(double, f64, )

/* fmod of floats in vectors, where the quotient is below 2^52 and the divisor finite: the multiple is subtracted without
   rounding. core/native/emit.py takes it for a block of which no item is far. */
INLINE int sm_fmod_far_f32(float x, float y) {
    const double a = sm_abs_f32(x), b = sm_abs_f32(y);
    return !((a < b * 0x1p52) & (b < INFINITY));
}
INLINE float sm_fmod_near_f32(float x, float y) {
    const double a = sm_abs_f32(x), b = sm_abs_f32(y), r = fma(-trunc(a / b), b, a);
    return sm_copysign_f32((float)(r < 0 ? r + b : r), x); /* below 0 where the quotient was rounded up */
}
INLINE float sm_remainder_near_f32(float x, float y) { return sm_remainder_of_f32(sm_fmod_near_f32(x, y), y); }
INLINE float sm_floor_divide_near_f32(float x, float y) {
    return sm_floor_divide_of_f32(sm_fmod_near_f32(x, y), x, y);
}

/* Of whole numbers, rounded down and with the divisor's sign; over 0 they give 0, as NumPy's do. */
INLINE int64_t sm_floor_divide_i64(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    const int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
INLINE int64_t sm_remainder_i64(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#endif
