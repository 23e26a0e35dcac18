#ifndef GRADLAB_SIMD_MATH_H
#define GRADLAB_SIMD_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernel.h"

#define LIBM_1(name)                                       \
    INLINE float sm_##name##_f32(float x) { return name##f(x); } \
    INLINE double sm_##name##_f64(double x) { return name(x); }
#define LIBM_2(name)                                                   \
    INLINE float sm_##name##_f32(float x, float y) { return name##f(x, y); } \
    INLINE double sm_##name##_f64(double x, double y) { return name(x, y); }

LIBM_1(exp) LIBM_1(exp2) LIBM_1(expm1) LIBM_1(log) LIBM_1(log1p) LIBM_1(log2) LIBM_1(log10) LIBM_1(tanh) LIBM_1(erf) LIBM_1(erfc) LIBM_1(sin) LIBM_1(cos)

#define REAL(T, S, F)                                                                              \
    INLINE T sm_sigmoid_##S(T x) { T e = sm_exp_##S(-sm_abs_##S(x)); return (x < 0 ? e : (T)1) / (1 + e); }

#define SIMPLE(T, S, F)                                                                            \
    INLINE T sm_abs_##S(T x) { return fabs##F(x); }                                                \
    INLINE T sm_sqrt_##S(T x) { return sqrt##F(x); }                                               \
    INLINE T sm_rsqrt_##S(T x) { return 1 / sqrt##F(x); }                                          \
    INLINE T sm_floor_##S(T x) { return floor##F(x); }                                             \
    INLINE T sm_ceil_##S(T x) { return ceil##F(x); }                                               \
    INLINE T sm_trunc_##S(T x) { return trunc##F(x); }                                             \
    INLINE T sm_round_##S(T x) { return rint##F(x); }                                              \
    INLINE int sm_isnan_##S(T x) { return x != x; }                                                \
    INLINE int sm_isinf_##S(T x) { return fabs##F(x) == (T)INFINITY; }                             \
    INLINE int sm_isfinite_##S(T x) { return fabs##F(x) < (T)INFINITY; }                           \
    INLINE T sm_sign_##S(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x == x ? (T)0 : x; }                       \
    INLINE T sm_copysign_##S(T x, T y) { return copysign##F(x, y); }                               \
    INLINE T sm_maximum_##S(T x, T y) { return x > y || x != x ? x : y; }                          \
    INLINE T sm_minimum_##S(T x, T y) { return x < y || x != x ? x : y; }                          \
    INLINE T sm_remainder_##S(T x, T y) {                                                          \
        T r = fmod##F(x, y);                                                                       \
        return r == 0 ? copysign##F(0, y) : (r < 0) != (y < 0) ? r + y : r;                        \
    }                                                                                              \
    INLINE T sm_floor_divide_##S(T x, T y) {                                                       \
        T r = fmod##F(x, y), q = (x - r) / y;                                                      \
        if (y == 0) return x / y;                                                                  \
        if (r != 0 && (r < 0) != (y < 0)) q -= 1;                                                  \
        T whole = floor##F(q);                                                                     \
        return q == 0 ? copysign##F(0, x / y) : q - whole > (T)0.5 ? whole + 1 : whole;            \
    }                                                                                              \
    REAL(T, S, F)

SIMPLE(float, f32, f)
SIMPLE(double, f64, )
LIBM_1(tan) LIBM_1(asin) LIBM_1(acos) LIBM_1(atan) LIBM_1(sinh) LIBM_1(cosh) LIBM_1(asinh) LIBM_1(acosh) LIBM_1(atanh)
LIBM_2(pow) LIBM_2(atan2) LIBM_2(fmod) LIBM_2(hypot)
#endif
