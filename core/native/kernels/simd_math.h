/* The scalar functions of the printed kernels, written so that loops over them vectorise.

   sm_<name>_f32 and sm_<name>_f64 for every primitive of core/declare/expr.py that is no C operator. There is
   no branch in our own ones, only selects. Largest errors found, in units of the last place; float32 over
   every 251st number there is, float64 over a million, on AVX-512, AVX2 and (by 0.1 more at most) without
   FMA; tests/core/native/test_simd_math.py holds them:

               float32  float64               float32  float64
       exp      0.87     0.97        tanh      2.06     2.00
       exp2     0.92     1.03        sigmoid   1.81     1.80
       expm1    1.25     1.26        erf       1.02     libm, 1
       log      0.78     0.81        erfc      0.50     libm, 3 (glibc)
       log1p    0.81     0.78        sin       0.50     libm, 1
       log2     0.50     1.62        cos       0.50     libm, 1
       log10    0.50     libm, 2     sin_near  0.85     -
       pow      0.50     libm, 1     cos_near  0.85     -
   asin, acos, atan, atan2, sinh, cosh, asinh, acosh, atanh, hypot, erfinv, tan_near: 0.50, libm (simd_float.h). All others:
   exact, or the C library's. sin_near and cos_near over every number that they are for.

   The C library is called item by item, 5 to 25 ns each; ours take 0.1 to 1.7 ns.

   NaN comes out where NaN goes in, and infinities, signed zeros and subnormals come out as the C
   standard says. Rounding is half to even; maximum and minimum propagate NaN; remainder has the
   divisor's sign. Source of the methods: J.-M. Muller, Elementary Functions, 3rd ed.; fdlibm's e_log.c
   for the form of log; the polynomials are our own minimax fits. */
#ifndef GRADLAB_SIMD_MATH_H
#define GRADLAB_SIMD_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/simd_bits.h"

/* Polynomials, highest power last. */
#define SM_P4(x, a, b, c, d) (((d * x + c) * x + b) * x + a)
#define SM_P5(x, a, b, c, d, e) SM_P4(x, a, b, c, (e * x + d))
#define SM_P6(x, a, b, c, d, e, f) SM_P4(x, a, b, c, ((f * x + e) * x + d))
#define SM_P7(x, a, b, c, d, e, f, g) SM_P5(x, a, b, c, d, ((g * x + f) * x + e))
#define SM_P9(x, a, b, c, d, e, f, g, h, i) SM_P7(x, a, b, c, d, e, f, ((i * x + h) * x + g))
#define SM_P11(x, a, b, c, d, e, f, g, h, i, j, k) SM_P9(x, a, b, c, d, e, f, g, h, ((k * x + j) * x + i))
#define SM_P13(x, a, b, c, d, e, f, g, h, i, j, k, l, m) SM_P11(x, a, b, c, d, e, f, g, h, i, j, ((m * x + l) * x + k))

#include "kernels/simd_float.h"

#define SM_LOG2E_f32 0x1.715476p+0f
#define SM_LOG2E_f64 0x1.71547652b82fep+0
/* ln(2) in two parts: the product of the first with any exponent is exact */
#define SM_LN2_HI_f32 0x1.62e4p-1f
#define SM_LN2_LO_f32 0x1.7f7d1cp-20f
#define SM_LN2_HI_f64 0x1.62e42fefa38p-1
#define SM_LN2_LO_f64 0x1.ef35793c7673p-45

/* (e^r - 1 - r) / r^2 for |r| <= ln(2)/2. */
INLINE float sm_exp_tail_f32(float r) {
    return SM_P5(r, 0x1.fffffep-2f, 0x1.5554aap-3f, 0x1.55568p-5f, 0x1.122d08p-7f, 0x1.6beac4p-10f);
}
INLINE double sm_exp_tail_f64(double r) {
    return SM_P11(r, 0.5, 0x1.5555555555559p-3, 0x1.555555555553cp-5, 0x1.111111110f4b2p-7, 0x1.6c16c16c1fb74p-10,
                  0x1.a01a01b0c98cbp-13, 0x1.a01a017986a53p-16, 0x1.71ddf5d7ffc45p-19, 0x1.27e5389ba70ccp-22,
                  0x1.af6371a6a3a25p-26, 0x1.1ee85194787fep-29);
}

/* e^r for |r| <= ln(2)/2, times `two` (1 or 2). */
INLINE float sm_exp_near_f32(const float two, float r) {
    return SM_P7(r, two, two, two * 0x1.fffffcp-2f, two * 0x1.555492p-3f, two * 0x1.5558aep-5f, two * 0x1.12398ap-7f,
                 two * 0x1.6a4facp-10f);
}

/* x = n ln(2) + r for the whole number n = t - shift. */
#define SM_EXP_PARTS_f32(x, shift)                                 \
    const float t = (x) * SM_LOG2E_f32 + (shift), n = t - (shift); \
    const float r = ((x) - n * SM_LN2_HI_f32) - n * SM_LN2_LO_f32;

/* A shift of the magic number and a bias leaves n + bias in the lowest nine bits of t: moved up they are a power of two's.
   Twice e^r times 2^(n - 1) overflows where the result does; where `small`, n is 64 larger, so that a subnormal result is
   rounded once. What is far out of range is selected last: clamps before would take twice as many operations. */
#define SM_EXP_RESULT_f32(x, small, low, high)                                           \
    const float y = sm_exp_near_f32(2, r) * sm_from_bits_f32(sm_bits_f32(t) << 23);      \
    const float result = (small) ? y * 0x1p-64f : y, bounded = (x) < (low) ? 0 : result; \
    return (x) > (high) ? INFINITY : bounded;

INLINE float sm_exp_f32(float x) {
    const int small = x < -86;
    const float shift = small ? SM_MAGIC_f32 + 190 : SM_MAGIC_f32 + 126;
    SM_EXP_PARTS_f32(x, shift)
    SM_EXP_RESULT_f32(x, small, -104, 89)
}
INLINE float sm_exp2_f32(float x) {
    const int small = x < -124;
    const float shift = small ? SM_MAGIC_f32 + 190 : SM_MAGIC_f32 + 126, t = x + shift, n = t - shift;
    const float r = (x - n) * 0x1.62e43p-1f;
    SM_EXP_RESULT_f32(x, small, -151, 128)
}

/* e^x for x <= 0, as softmax takes it: what is below the smallest normal number, 1.2e-38, is 0. */
INLINE float sm_exp_falling_f32(float x) {
    const float shift = SM_MAGIC_f32 + 127;
    SM_EXP_PARTS_f32(x, shift)
    const float y = sm_exp_near_f32(1, r) * sm_from_bits_f32(sm_bits_f32(t) << 23);
    return x < -87.33654f ? 0 : y;
}

INLINE double sm_exp_f64(double x) {
    x = x < -746 ? -746 : x;
    x = x > 710 ? 710 : x;
    const double t = x * SM_LOG2E_f64 + SM_MAGIC_f64, n = t - SM_MAGIC_f64;
    const double r = (x - n * SM_LN2_HI_f64) - n * SM_LN2_LO_f64;
    return sm_scale_f64((sm_exp_tail_f64(r) * r) * r + r + 1, t);
}
INLINE double sm_exp2_f64(double x) {
    x = x < -1119 ? -1119 : x;
    x = x > 1065 ? 1065 : x;
    const double t = x + SM_MAGIC_f64, n = t - SM_MAGIC_f64, r = (x - n) * 0x1.62e42fefa39efp-1;
    return sm_scale_f64((sm_exp_tail_f64(r) * r) * r + r + 1, t);
}
INLINE double sm_exp_falling_f64(double x) { return sm_exp_f64(x); }

/* LOW and HIGH lie beyond where exp is 0 and infinite; at FLAT and beyond tanh is 1. */
#define SM_EXPONENTIALS(T, S, LOW, HIGH, FLAT)                                                         \
    INLINE T sm_expm1_##S(T x) {                                                                       \
        T y = x < (T)LOW ? (T)LOW : x;                                                                 \
        y = y > (T)HIGH ? (T)HIGH : y;                                                                 \
        const T t = y * SM_LOG2E_##S + SM_MAGIC_##S, n = t - SM_MAGIC_##S;                             \
        const T high = y - n * SM_LN2_HI_##S, r = high - n * SM_LN2_LO_##S;                            \
        const T low = (sm_exp_tail_##S(r) * r) * r + ((high - r) - n * SM_LN2_LO_##S);                 \
        /* half of 2^n: the largest 2^n is out of range. r joins first: where 2^n - 1 and r cancel, */ \
        /* their sum is exact */                                                                       \
        const T s = sm_scale_##S((T)0.5, t), result = 2 * ((s * r + (s - (T)0.5)) + s * low);          \
        return n == 0 ? (x == 0 ? x : r + low) : result;                                               \
    }                                                                                                  \
    INLINE T sm_tanh_##S(T x) {                                                                        \
        /* h / (h + 1) with h = expm1(2 |x|) / 2, as above but for the edges */                        \
        T a = sm_abs_##S(x);                                                                           \
        a = a > (T)FLAT ? (T)FLAT : a;                                                                 \
        const T t = 2 * a * SM_LOG2E_##S + SM_MAGIC_##S, n = t - SM_MAGIC_##S;                         \
        const T high = 2 * a - n * SM_LN2_HI_##S, r = high - n * SM_LN2_LO_##S;                        \
        const T low = (sm_exp_tail_##S(r) * r) * r + ((high - r) - n * SM_LN2_LO_##S);                 \
        const T s = sm_half_power_##S(t), h = (s * r + (s - (T)0.5)) + s * low;                        \
        const T d = h + 1, q = h / d;                                                                  \
        /* what rounding d lost, times 1/d */                                                          \
        const T lost = h < 1 ? h - (d - 1) : 1 - (d - h);                                              \
        return sm_copysign_##S(q - q * (lost * (1 - q)), x);                                           \
    }                                                                                                  \
    INLINE T sm_sigmoid_##S(T x) {                                                                     \
        /* the exponent is never positive: e cannot overflow, and small results keep their digits */   \
        const T e = sm_exp_##S(x > 0 ? -x : x), d = 1 + e, q = (x > 0 ? (T)1 : e) / d;                 \
        /* what rounding d lost, times 1/d */                                                          \
        return q - q * ((e - (d - 1)) * (x > 0 ? q : 1 - q));                                          \
    }
SM_EXPONENTIALS(float, f32, -105, 89, 10)
SM_EXPONENTIALS(double, f64, -746, 710, 20)

/* x = m * 2^n with m in [sqrt(1/2), sqrt(2)); f = m - 1. */
#define SM_LOG_PARTS_f32(x)                                                       \
    const int small = (x) < 0x1p-126f;                                            \
    const uint32_t bits = sm_bits_f32(small ? (x) * 0x1p25f : (x)) - 0x3f3504f3u; \
    const float n = (float)((int32_t)bits >> 23) - (small ? 25.0f : 0.0f);        \
    const float f = sm_from_bits_f32((bits & 0x007fffffu) + 0x3f3504f3u) - 1;
#define SM_LOG_PARTS_f64(x)                                                                                       \
    const int small = (x) < 0x1p-1022;                                                                            \
    const uint64_t bits = sm_bits_f64(small ? (x) * 0x1p54 : (x)) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);  \
    /* AVX2 cannot convert 64-bit integers: the exponent becomes the lowest bits of 2^52 + n */                   \
    const double n = sm_from_bits_f64(0x4330000000000000u | bits >> 52) - (0x1p52 + 1023) - (small ? 54.0 : 0.0); \
    const double f = sm_from_bits_f64((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1;

#define SM_LOG_EDGES(x, result) ((x) > 0 ? ((x) < INFINITY ? (result) : (x)) : (x) == 0 ? -INFINITY : NAN)

/* (log(1 + f) - f + f^2/2) / f^3 */
INLINE float sm_log_third_f32(float f) {
    return SM_P9(f, 0x1.555554p-2f, -0x1.fffffcp-3f, 0x1.999d5ap-3f, -0x1.555b4ap-3f, 0x1.23d21ap-3f, -0x1.fcf4c6p-4f,
                 0x1.dea282p-4f, -0x1.d635bcp-4f, 0x1.1d8ea6p-4f);
}
INLINE float sm_log_f32(float x) {
    SM_LOG_PARTS_f32(x)
    const float square = f * f, tail = (sm_log_third_f32(f) * f) * square + n * SM_LN2_LO_f32 - 0.5f * square;
    return SM_LOG_EDGES(x, f + tail + n * SM_LN2_HI_f32);
}

/* log(1 + f) = f - (f^2/2 - s (f^2/2 + R)) with s = f / (2 + f). */
INLINE double sm_log_tail_f64(double f, double low) {
    const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    const double r = z * SM_P7(z, 0x1.5555555555593p-1, 0x1.999999997f82ep-2, 0x1.2492494245011p-2,
                               0x1.c71c51c0e9276p-3, 0x1.74664e9eff04p-3, 0x1.39a010386e8b7p-3, 0x1.2f16f96362addp-3);
    return half - (s * (half + r) + low);
}
INLINE double sm_log_f64(double x) {
    SM_LOG_PARTS_f64(x)
    return SM_LOG_EDGES(x, n * SM_LN2_HI_f64 - (sm_log_tail_f64(f, n * SM_LN2_LO_f64) - f));
}
INLINE double sm_log1p_f64(double x) {
    const double u = 1 + x, larger = x < 1 ? 1 : x, smaller = x < 1 ? x : 1;
    SM_LOG_PARTS_f64(u)
    /* smaller - (u - larger) is what rounding u lost */
    const double low = n * SM_LN2_LO_f64 + (smaller - (u - larger)) / u;
    const double result = n * SM_LN2_HI_f64 - (sm_log_tail_f64(f, low) - f);
    return sm_copysign_f64(SM_LOG_EDGES(u, result), x);
}
INLINE double sm_log2_f64(double x) {
    SM_LOG_PARTS_f64(x)
    return SM_LOG_EDGES(x, n + (f - sm_log_tail_f64(f, 0)) * SM_LOG2E_f64);
}
INLINE float sm_log1p_f32(float x) {
    const float u = 1 + x, larger = x < 1 ? 1 : x, smaller = x < 1 ? x : 1;
    SM_LOG_PARTS_f32(u)
    /* smaller - (u - larger) is what rounding u lost */
    const float low = n * SM_LN2_LO_f32 + (smaller - (u - larger)) / u, square = f * f;
    const float tail = (sm_log_third_f32(f) * f) * square + low - 0.5f * square;
    return sm_copysign_f32(SM_LOG_EDGES(u, f + tail + n * SM_LN2_HI_f32), x);
}

/* 2^r for |r| <= 1/2 */
INLINE float sm_exp2_near_f32(float r) {
    return SM_P7(r, 1, 0x1.62e43p-1f, 0x1.ebfbdcp-3f, 0x1.c6af7ap-5f, 0x1.3b2dd2p-7f, 0x1.5f094cp-10f, 0x1.417a8p-13f);
}
/* Near 0 x + x^3 P(x^2); elsewhere 1 - 2^(log2(erfc |x|)), a polynomial of |x| and one of the exponent's fraction. */
INLINE float sm_erf_f32(float x) {
    const float a = sm_abs_f32(x), z = x * x;
    const float near = x + x * SM_P6(z, 0x1.06eba6p-3f, -0x1.8126fp-2f, 0x1.ce1c9cp-4f, -0x1.b6afcp-6f, 0x1.482766p-8f,
                                     -0x1.3e26a6p-11f);
    const float even = (-0x1.307222p-8f * z - 0x1.3715c2p-3f) * z - 0x1.a0cbd4p+0f;
    const float odd = (0x1.44a382p-12f * z + 0x1.0eb79p-5f) * z - 0x1.d590c8p-1f;
    const float e = a * (odd * a + even);
    const float shift = SM_MAGIC_f32 + 127, t = e + shift, p = sm_exp2_near_f32(e - (t - shift));
    const float far = 1 - p * sm_from_bits_f32(sm_bits_f32(t) << 23), most = a > 3.925f ? 1 : far;
    return a < 0.9f ? near : sm_copysign_f32(most, x);
}
/* 1 + erf(x / sqrt(2)), twice the normal distribution's function, in place of that sum (core/declare/expr.py): one polynomial of
   |x| is log2(erfc(|x| / sqrt(2))), so that nothing cancels for x < 0 and nothing is needed near 0. Off by 1.7 units of
   2^-23 at most, and down to x = -3 by 1e-5 of itself (the sum: 4e-5); 0 below -6, where it is 2e-9. */
INLINE float sm_twice_ndtr_f32(float x) {
    const float a = sm_abs_f32(x), z = x * x;
    const float even = SM_P4(z, -0x1.26af02p+0f, -0x1.aee882p-5f, -0x1.21534ep-12f, 0x1.b5be86p-16f);
    const float odd = SM_P4(z, -0x1.d632e6p-2f, 0x1.d9f2ecp-8f, -0x1.071884p-13f, -0x1.c6efd4p-20f);
    const float e = a * (odd * a + even);
    const float shift = SM_MAGIC_f32 + 127, t = e + shift;
    const float y = sm_exp2_near_f32(e - (t - shift)) * sm_from_bits_f32(sm_bits_f32(t) << 23);
    const float below = a > 6 ? 0 : y;
    return x > 0 ? 2 - below : below;
}
/* The derivative of x ndtr(x), ndtr(x) + x e^(-x^2/2) / sqrt(2 pi), in place of that sum (core/declare/expr.py): for x <= 0 it is
   e^(-x^2/2) times a polynomial of |x|, for x > 0 what is missing to 1. Off by 1.2 units of 2^-23 at most, and from x = -1 down to -6 by 5e-5 of itself. Half the
   operations of the sum, whose exponential and erf are two. */
INLINE float sm_gelu_slope_f32(float x) {
    const float a = sm_abs_f32(x), e = x * x * -0x1.715476p-1f;
    const float p = SM_P13(a, 0.5f, -0x1.9883fap-1f, 0x1.ffe76ap-3f, -0x1.0fc26ap-3f, 0x1.f8e41ep-5f, -0x1.9a775ap-6f,
                           0x1.1b8112p-7f, -0x1.3c734cp-9f, 0x1.0d789cp-11f, -0x1.49742ap-14f, 0x1.0c7628p-17f,
                           -0x1.02aa8p-21f, 0x1.bb23b6p-27f);
    const float shift = SM_MAGIC_f32 + 127, t = e + shift;
    const float y = sm_exp2_near_f32(e - (t - shift)) * p * sm_from_bits_f32(sm_bits_f32(t) << 23);
    const float below = a > 13 ? 0 : y;
    return x > 0 ? 1 - below : below;
}
/* erfc(x) = e^(-x^2) / (1 + 2x) * g(x) for x >= 0, g a polynomial of (x - 4) / (x + 4). */
INLINE float sm_erfc_f32(float x) {
    const double a = sm_abs_f32(x), t = a > 10.1 ? 10.1 : a, q = (t - 4) / (t + 4);
    const double high =
        SM_P4(q, 0x1.4d0827e6518f6p-8, -0x1.bb413ee472b09p-11, -0x1.841e3c3d6656ap-12, 0x1.5503b0108f7b1p-14);
    const double g = SM_P9(q, 0x1.3ba5916f1c569p+0, -0x1.1df1ad4970dbdp-3, 0x1.f7f5b03330d98p-7, 0x1.16ed07f104936p-4,
                           -0x1.9dda5a4573365p-4, 0x1.7fecd9420c9e4p-4, -0x1.0fba96381991bp-4, 0x1.307a0301c0372p-5,
                           -0x1.0886b9e4563ecp-6);
    const double q3 = q * q * q, r = (g + high * (q3 * q3 * q3)) * sm_exp_f64(-t * t) / (1 + 2 * t);
    return (float)(x < 0 ? 2 - r : r);
}

/* 32 bits of 2/pi from each byte on: 24 significant bits of x need 96 of them. */
static const uint32_t SM_TWO_OVER_PI[24] = {
    0xa2,       0xa2f9,     0xa2f983,   0xa2f9836e, 0xf9836e4e, 0x836e4e44, 0x6e4e4415, 0x4e441529,
    0x441529fc, 0x1529fc27, 0x29fc2757, 0xfc2757d1, 0x2757d1f5, 0x57d1f534, 0xd1f534dd, 0xf534ddc0,
    0x34ddc0db, 0xddc0db62, 0xc0db6295, 0xdb629599, 0x6295993c, 0x95993c43, 0x993c4390, 0x3c439041,
};

/* x = r + quadrant * pi/2 with |r| <= pi/4, for any finite x >= 0. Below 2^17 pi/2 in two parts
   suffices; above, x is multiplied by those bits of 2/pi that matter modulo 4 (Payne and Hanek). */
INLINE double sm_quadrant_f32(float x, uint64_t *quadrant) {
    const double wide = x, t = wide * 0x1.45f306dc9c883p-1 + SM_MAGIC_f64, n = t - SM_MAGIC_f64;
    const double near = (wide - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
    const uint32_t bits = sm_bits_f32(x), first = bits >> 26 & 15;
    const uint32_t mantissa = ((bits & 0xffffffu) | 0x800000u) << (bits >> 23 & 7);
    const uint64_t high = (uint64_t)(mantissa * SM_TWO_OVER_PI[first]) << 32;
    const uint64_t middle = (uint64_t)mantissa * SM_TWO_OVER_PI[first + 4];
    const uint64_t low = (uint64_t)mantissa * SM_TWO_OVER_PI[first + 8];
    const uint64_t product = high + middle + (low >> 32), whole = (product + (1ull << 61)) >> 62;
    /* the fraction, at most 2^61 either way, becomes a double by halves: AVX2 lacks the conversion */
    const uint64_t shifted = product - (whole << 62) + (1ull << 62);
    const double upper = sm_from_bits_f64(0x4530000000000000u | shifted >> 32) - (0x1p84 + 0x1p62);
    const double fraction = upper + (sm_from_bits_f64(0x4330000000000000u | (shifted & 0xffffffffu)) - 0x1p52);
    const int is_near = x < 0x1p17f;
    *quadrant = is_near ? sm_bits_f64(t) : whole;
    return is_near ? near : fraction * 0x1.921fb54442d18p-62;
}
/* sin(x + shift * pi/2) for x >= 0 */
INLINE float sm_sin_shifted_f32(float x, uint64_t shift) {
    uint64_t quadrant;
    const double r = sm_quadrant_f32(x, &quadrant), z = r * r;
    const double sine =
        r +
        r * z * SM_P4(z, -0x1.5555555454057p-3, 0x1.11110dd6f24b2p-7, -0x1.a0138702ef737p-13, 0x1.6db3872f5e416p-19);
    const double cosine = 1 + z * SM_P5(z, -0x1.fffffffffe54cp-2, 0x1.5555555125bd4p-5, -0x1.6c16bab377683p-10,
                                        0x1.a01272dc490eap-16, -0x1.246c211e6ed97p-22);
    quadrant += shift;
    const double y = quadrant & 1 ? cosine : sine;
    const float result = (float)sm_from_bits_f64(sm_bits_f64(y) ^ (quadrant & 2) << 62);
    return result + (x - x); /* NaN where x is not finite, without a branch */
}
INLINE float sm_sin_f32(float x) {
    const float y = sm_sin_shifted_f32(sm_abs_f32(x), 0);
    return sm_from_bits_f32(sm_bits_f32(y) ^ (sm_bits_f32(x) & 0x80000000u));
}
INLINE float sm_cos_f32(float x) { return sm_sin_shifted_f32(sm_abs_f32(x), 1); }

/* sin and cos of |x| < SM_NEAR_f32, in float32 alone: a sixth of the time of those above. x = r + n pi/2 with pi/2 in four
   parts. The first two have so few digits that their products with n, at most 2^12, and the differences are exact;
   the third's product is exact too, and `lost` is what its difference rounded away. So it needs no FMA, and is right where x
   is next to a multiple of pi/2 and all the digits cancel. Polynomials: those of fdlibm's k_sinf.c, refitted. */
#define SM_NEAR_f32 6400.0f
INLINE int sm_far_f32(float x) { return !(sm_abs_f32(x) < SM_NEAR_f32); } /* NaN is far */
INLINE float sm_sin_near_shifted_f32(float x, const uint32_t shift) {
    const float t = x * 0x1.45f306p-1f + SM_MAGIC_f32, n = t - SM_MAGIC_f32;
    const float first = (x - n * 0x1.922p+0f) - n * -0x1.2cp-18f;
    const float product = n * 0x1.11p-26f, r = first - product, difference = first - r;
    const float lost = (first - (r + difference)) + (difference - product);
    const float low = lost - n * 0x1.68c234p-39f, z = r * r;
    const float sine = r + (r * z * SM_P4(z, -0x1.555556p-3f, 0x1.111174p-7f, -0x1.a05978p-13f, 0x1.7c3ea4p-19f) + low);
    /* 1 - z / 2 rounds; what it lost goes to the small terms */
    const float tail = (0x1.99e90ep-16f * z - 0x1.6c0c2ap-10f) * z + 0x1.55554ap-5f;
    const float half = 0.5f * z, most = 1 - half, rest = (1 - most) - half;
    const float cosine = most + (rest + (z * z * tail - r * low));
    const uint32_t quadrant = sm_bits_f32(t) + shift;
    const float y = quadrant & 1 ? cosine : sine;
    return sm_from_bits_f32(sm_bits_f32(y) ^ (quadrant & 2) << 30);
}
INLINE float sm_sin_near_f32(float x) { return x == 0 ? x : sm_sin_near_shifted_f32(x, 0); }
INLINE float sm_cos_near_f32(float x) { return sm_sin_near_shifted_f32(x, 1); }

/* x^y = 2^(y log2 |x|) in float64: with a relative error of 2^-45 in the logarithm, and 2^-34 in the power. Then what is
   1 whatever the other is, the sign (minus for an odd y), and NaN for a negative x and a broken y. */
INLINE float sm_pow_f32(float x, float y) {
    const float a = sm_abs_f32(x);
    SM_LOG_PARTS_f32(a)
    const double s = f / (2.0 + f), z = s * s;
    const double near = n + s * SM_P6(z, 0x1.71547652b8251p+1, 0x1.ec709dc53c678p-1, 0x1.2776c2933e31cp-1,
                                      0x1.a61a2ec9f9af8p-2, 0x1.4795562fb9504p-2, 0x1.21b0eab01337fp-2);
    const double wide = y * SM_LOG_EDGES(a, near);
    const double above = wide < -160 ? -160 : wide, exponent = above > 160 ? 160 : above;
    const double t = exponent + SM_MAGIC_f64, r = exponent - (t - SM_MAGIC_f64);
    const double p = SM_P4(r, 0x1.ffffffffabbd2p-1, 0x1.62e42ff1162bcp-1, 0x1.ebfbe0a4be162p-3,
                           SM_P5(r, 0x1.c6b08aaf26319p-5, 0x1.3b29dc412337dp-7, 0x1.5d8a7092b7022p-10,
                                 0x1.446a1fa8c1e96p-13, 0x1.fe177704c65cep-17));
    const float size = (float)(p * sm_from_bits_f64((sm_bits_f64(t) + 1023) << 52));
    const float within = sm_abs_f32(y) < 0x1p24f ? y : 0; /* what is larger is even; so is NaN, here */
    const int32_t whole = (int32_t)within;
    const int broken = (float)whole != within, odd = whole & !broken;
    const int is_one = (x == 1) | (y == 0) | ((a == 1) & (sm_abs_f32(y) == INFINITY));
    const float known = is_one ? 1 : size;
    const float result = sm_from_bits_f32(sm_bits_f32(known) ^ (sm_bits_f32(x) & (uint32_t)odd << 31));
    return ((x < 0) & broken & (a < INFINITY)) ? NAN : result;
}

/* The C library's, one item at a time. */
#define SM_LIBM_1(name) \
    INLINE double sm_##name##_f64(double x) { return name(x); }
INLINE float sm_tan_f32(float x) { return tanf(x); }
SM_LIBM_1(tan)
SM_LIBM_1(asin)
SM_LIBM_1(acos)
SM_LIBM_1(atan)
SM_LIBM_1(sinh)
SM_LIBM_1(cosh)
SM_LIBM_1(asinh)
SM_LIBM_1(acosh)
SM_LIBM_1(atanh)
INLINE double sm_pow_f64(double x, double y) { return pow(x, y); }
INLINE double sm_atan2_f64(double y, double x) { return atan2(y, x); }
INLINE double sm_hypot_f64(double x, double y) { return hypot(x, y); }
INLINE double sm_sin_f64(double x) { return sin(x); }
INLINE double sm_cos_f64(double x) { return cos(x); }
INLINE double sm_log10_f64(double x) { return log10(x); }
INLINE double sm_erf_f64(double x) { return erf(x); }
INLINE double sm_erfc_f64(double x) { return erfc(x); }

#endif
