/* Functions of float32 by double arithmetic: 53 bits and short polynomials give nearly always the correctly rounded
   result (off by 0.504 units of the last place at most, over every 257th float there is), edges as the C standard says.
   They take 0.7 to 1.7 ns an item in vectors; the C library's take 6 to 25.

   The polynomials are our own minimax fits, to 1e-9 of the result and less. Included by simd_math.h alone. */
#ifndef GRADLAB_SIMD_FLOAT_H
#define GRADLAB_SIMD_FLOAT_H

#include "kernels/simd_bits.h"

#define SM_P3(x, a, b, c) ((c * x + b) * x + a)
#define SM_P8(x, a, b, c, d, e, f, g, h) SM_P4(x, a, b, c, SM_P5(x, d, e, f, g, h))
#define SM_HALF_PI 0x1.921fb54442d18p+0

/* log(1 + f) for 1 + f from sqrt(1/2) to sqrt(2), to 1e-10 of itself. */
INLINE double sm_log_near_wide(double f) {
    const double p = SM_P11(f, -0x1.0000001b96de8p-1, 0x1.555554d4e95e8p-2, -0x1.ffffa6e55b5a5p-3, 0x1.9999ca2f34750p-3,
                            -0x1.55693bb0ac9d8p-3, 0x1.249c5a9c2f59ap-3, -0x1.fc65b3bc29be4p-4, 0x1.c2649c3756048p-4,
                            -0x1.bc7b95f887066p-4, 0x1.bc16167c2bb25p-4, -0x1.f874c5b377964p-5);
    return f + (f * f) * p;
}
/* The exponent and the rest of a positive normal double, as SM_LOG_PARTS_f64. */
#define SM_LOG_WIDE(x, n, f)                                                                    \
    const uint64_t bits = sm_bits_f64(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);         \
    const double n = sm_from_bits_f64(0x4330000000000000u | bits >> 52) - (0x1p52 + 1023);      \
    const double f = sm_from_bits_f64((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1;

#define SM_EDGES_OF_LOG(x, result) ((x) > 0 ? ((x) < INFINITY ? (result) : (x)) : (x) == 0 ? -INFINITY : NAN)

INLINE float sm_log2_f32(float x) {
    const double wide = x; /* a subnormal float is a normal double */
    SM_LOG_WIDE(wide, n, f)
    return SM_EDGES_OF_LOG(x, (float)(n + sm_log_near_wide(f) * 0x1.71547652b82fep+0));
}
INLINE float sm_log10_f32(float x) {
    const double wide = x;
    SM_LOG_WIDE(wide, n, f)
    return SM_EDGES_OF_LOG(x, (float)(n * 0x1.34413509f79ffp-2 + sm_log_near_wide(f) * 0x1.bcb7b1526e50ep-2));
}

/* asin(s) for s from 0 to 1/2, z its square. */
INLINE double sm_asin_near(double s, double z) {
    return s + s * z *
                   SM_P7(z, 0x1.5555560918dd3p-3, 0x1.3332a80835079p-4, 0x1.6ddb26ae681b6p-5, 0x1.ed53907751cb4p-6,
                         0x1.9358cd1bef2d3p-6, 0x1.e98097604ee29p-8, 0x1.1c342e2ba6697p-5);
}
INLINE float sm_asin_f32(float x) {
    const double a = sm_abs_f32(x), half = 0.5 - 0.5 * a;
    const int far = a > 0.5;
    const double z = far ? half : a * a, s = far ? sqrt(half) : a, y = sm_asin_near(s, z);
    return sm_copysign_f32((float)(far ? SM_HALF_PI - 2 * y : y), x);
}
INLINE float sm_acos_f32(float x) {
    const double a = sm_abs_f32(x), half = 0.5 - 0.5 * a;
    const int far = a > 0.5;
    const double z = far ? half : a * a, s = far ? sqrt(half) : a, y = sm_asin_near(s, z);
    const double right = far ? 2 * y : SM_HALF_PI - y, left = far ? 2 * SM_HALF_PI - 2 * y : SM_HALF_PI + y;
    return (float)(x < 0 ? left : right);
}

/* atan(t) for t from 0 to 1 */
INLINE double sm_atan_near(double t) {
    const double z = t * t;
    return t + t * z *
                   SM_P11(z, -0x1.55555498ad920p-2, 0x1.99993e972dd8fp-3, -0x1.248a9cde4a8a6p-3, 0x1.c6759f8dc4b25p-4,
                          -0x1.702e48af9e415p-4, 0x1.29c0ec4e357d8p-4, -0x1.c02343c1f31b5p-5, 0x1.1c4c82af6d0aep-5,
                          -0x1.0ddda7977fd90p-6, 0x1.47a189f2b077fp-8, -0x1.74ec269e8c449p-11);
}
INLINE float sm_atan_f32(float x) {
    const double a = sm_abs_f32(x);
    const int far = a > 1;
    const double y = sm_atan_near(far ? 1 / a : a);
    return sm_copysign_f32((float)(far ? SM_HALF_PI - y : y), x);
}
INLINE float sm_atan2_f32(float y, float x) {
    const double up = sm_abs_f32(y), along = sm_abs_f32(x);
    const int steep = up > along;
    const double low = steep ? along : up, high = steep ? up : along;
    const double quotient = low / high, t = low == high ? (low > 0 ? 1.0 : 0.0) : quotient, near = sm_atan_near(t);
    const double right = steep ? SM_HALF_PI - near : near;
    const double result = sm_bits_f32(x) >> 31 ? 2 * SM_HALF_PI - right : right;
    return ((x != x) | (y != y)) ? x + y : sm_copysign_f32((float)result, y);
}

/* a = n ln(2) + r; 2^n and 2^-n; cosh(r) and sinh(r). Beyond 100 the results are infinite floats. */
#define SM_HYPERBOLIC(a, half_sum, half_difference, cosine, sine)                                                   \
    const double held = (a) > 100 ? 100 : (a), t = held * 0x1.71547652b82fep+0 + SM_MAGIC_f64, n = t - SM_MAGIC_f64; \
    const double r = (held - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45, z = r * r;                         \
    const uint64_t shifted = sm_bits_f64(t) << 52;                                                                  \
    const double up = sm_from_bits_f64(0x3fe0000000000000u + shifted);                                              \
    const double down = sm_from_bits_f64(0x3fe0000000000000u - shifted);                                            \
    const double half_sum = up + down, half_difference = up - down;                                                 \
    const double cosine = 1 + z * SM_P3(z, 0x1.0000004458fa4p-1, 0x1.55547e072732dp-5, 0x1.6d9842ee434c6p-10);      \
    const double sine = r + r * z * SM_P3(z, 0x1.55555573b1a0ep-3, 0x1.1110b16b68011p-7, 0x1.a1708fc124527p-13);

INLINE float sm_sinh_f32(float x) {
    const double a = sm_abs_f32(x);
    SM_HYPERBOLIC(a, sum, difference, cosine, sine)
    return sm_copysign_f32((float)(difference * cosine + sum * sine), x);
}
INLINE float sm_cosh_f32(float x) {
    const double a = sm_abs_f32(x);
    SM_HYPERBOLIC(a, sum, difference, cosine, sine)
    return (float)(sum * cosine + difference * sine);
}

/* log(1 + u) for u >= 0 where all digits of u matter: below 2^-10 three terms of the series */
INLINE double sm_log1p_wide(double u) {
    const double whole = 1 + u;
    SM_LOG_WIDE(whole, n, f)
    return u < 0x1p-10 ? u - u * u * (0.5 - u * (1.0 / 3)) : n * 0x1.62e42fefa39efp-1 + sm_log_near_wide(f);
}
INLINE float sm_asinh_f32(float x) {
    const double a = sm_abs_f32(x), square = a * a, u = a + square / (1 + sqrt(square + 1));
    return sm_copysign_f32(a < INFINITY ? (float)sm_log1p_wide(u) : (float)a, x);
}
INLINE float sm_acosh_f32(float x) {
    const double u = (double)x - 1, y = sm_log1p_wide(u + sqrt(u * u + 2 * u));
    return x >= 1 ? (x < INFINITY ? (float)y : x) : NAN;
}
/* log((1 + a) / (1 - a)) / 2 with one division; near 0 the series */
INLINE float sm_atanh_f32(float x) {
    const double a = sm_abs_f32(x), quotient = (1 + a) / (1 - a), z = a * a;
    SM_LOG_WIDE(quotient, n, f)
    const double far = 0.5 * (n * 0x1.62e42fefa39efp-1 + sm_log_near_wide(f));
    const double near = a + a * z * SM_P4(z, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9);
    const float result = (float)(a < 0.1 ? near : far), bounded = a < 1 ? result : a == 1 ? INFINITY : NAN;
    return sm_copysign_f32(bounded, x);
}

/* erfinv(x) = x P(w) with w = -log(1 - x^2), beyond 5 a polynomial of its root. */
INLINE float sm_erfinv_f32(float x) {
    const double a = sm_abs_f32(x), rest = (1 - a) * (1 + a);
    SM_LOG_WIDE(rest, n, f)
    const double w = -(n * 0x1.62e42fefa39efp-1 + sm_log_near_wide(f)), s = sqrt(w);
    const double near = SM_P4(w, 0x1.c5bf891e75b0dp-1, 0x1.db29f8387c948p-3, 0x1.7a74b85826daap-7,
                              SM_P9(w, -0x1.322c62d4d19cep-9, -0x1.0945e38ecb4d0p-13, 0x1.78e0fb01b4940p-15,
                                    0x1.a27e97349da13p-19, -0x1.8198f7ec45713p-20, 0x1.81668a4fdf2cdp-25,
                                    0x1.9787e87323351p-26, -0x1.ba161f90193aep-29, 0x1.24292e406862ep-33));
    const double far = SM_P11(s, -0x1.f852707f6aa56p+1, 0x1.010a993cd16c9p+4, -0x1.745764d9dc9edp+4,
                              0x1.3d32d66f27f2dp+4, -0x1.5471523067886p+3, 0x1.e82ec551d1021p+1,
                              -0x1.dd690d3ae45a5p-1, 0x1.3be6ccf42d16ap-3, -0x1.0f8a67ef48b3cp-6,
                              0x1.1258af0987267p-10, -0x1.ef7a060cb42a7p-16);
    const float y = (float)(a * (w < 5 ? near : far)), bounded = a < 1 ? y : a == 1 ? INFINITY : NAN;
    return sm_copysign_f32(bounded, x);
}

/* tan below 2^17, where pi/2 in two parts suffices; core/native/emit.py takes it for a block of which no item is far. */
INLINE int sm_tan_far_f32(float x) { return !(sm_abs_f32(x) < 0x1p17f); }
INLINE float sm_tan_near_f32(float x) {
    const double wide = x, t = wide * 0x1.45f306dc9c883p-1 + SM_MAGIC_f64, n = t - SM_MAGIC_f64;
    const double r = (wide - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34, z = r * r;
    const double sine = r + r * z * SM_P4(z, -0x1.5555555454057p-3, 0x1.11110dd6f24b2p-7, -0x1.a0138702ef737p-13,
                                          0x1.6db3872f5e416p-19);
    const double cosine = 1 + z * SM_P5(z, -0x1.fffffffffe54cp-2, 0x1.5555555125bd4p-5, -0x1.6c16bab377683p-10,
                                        0x1.a01272dc490eap-16, -0x1.246c211e6ed97p-22);
    const int odd = sm_bits_f64(t) & 1;
    const float y = (float)((odd ? -cosine : sine) / (odd ? sine : cosine));
    return x == 0 ? x : y;
}

/* Squares of floats fit a double. */
INLINE float sm_hypot_f32(float x, float y) {
    const double a = x, b = y;
    const float result = (float)sqrt(a * a + b * b);
    const int wide = sm_abs_f32(x) == INFINITY, high = sm_abs_f32(y) == INFINITY;
    return (wide | high) ? INFINITY : result;
}

#endif
