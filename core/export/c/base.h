/* What the model's C code has in common: vectors, whole numbers, sums and extremes of rows. */
#ifndef GRADLAB_BASE_H
#define GRADLAB_BASE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))
#define KERNEL static __attribute__((noinline, unused))

/* Vectors of the compiler's own, as wide as the processor's registers. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES (VECTOR_BYTES / 4)
typedef float vec __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t vec_mask __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

INLINE vec load(const float *x) { return *(const vec *)x; }
INLINE void store(float *x, vec v) { *(vec *)x = v; }
INLINE vec all_of(float x) { return x - (vec){0}; }

/* Python's whole division; over 0 it gives 0, which only sizes of nothing have. */
INLINE int64_t whole_quotient(int64_t a, int64_t b) {
    if (b == 0) return 0;
    const int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
INLINE int64_t whole_remainder(int64_t a, int64_t b) { return b == 0 ? 0 : a - whole_quotient(a, b) * b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Whole numbers wrap around, as NumPy's do; what no whole number says becomes the smallest. */
INLINE int64_t add_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
INLINE int64_t sub_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
INLINE int64_t mul_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
INLINE int64_t abs_i64(int64_t a) { return a < 0 ? sub_i64(0, a) : a; }
INLINE int64_t sign_i64(int64_t a) { return (a > 0) - (a < 0); }
INLINE int64_t fmod_i64(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
INLINE int64_t pow_i64(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    int64_t y = 1;
    for (; b > 0; b >>= 1, a = mul_i64(a, a))
        if (b & 1) y = mul_i64(y, a);
    return y;
}
INLINE int64_t whole(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }

/* The sum of a row, in several sums at a time. */
KERNEL float sum_f32(const float *x, int64_t n) {
    vec s[4] = {{0}};
    int64_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES)
        for (int v = 0; v < 4; v++) s[v] += load(x + j + v * LANES);
    for (; j + LANES <= n; j += LANES) s[0] += load(x + j);
    const vec t = (s[0] + s[1]) + (s[2] + s[3]);
    float total = 0;
    for (int l = 0; l < LANES; l++) total += t[l];
    for (; j < n; j++) total += x[j];
    return total;
}
/* The largest of a row; NaN where there is one. */
INLINE vec vec_max(vec a, vec b) {
    const vec_mask take = (a > b) | (a != a);
    return (vec)((take & (vec_mask)a) | (~take & (vec_mask)b));
}
KERNEL float max_f32(const float *x, int64_t n) {
    const int64_t whole = n / LANES * LANES;
    float most = -INFINITY;
    if (whole) {
        vec m = load(x);
        int64_t j = LANES;
        if (whole >= 8 * LANES) { /* in several at a time: one would wait for itself */
            vec s[4] = {m, load(x + LANES), load(x + 2 * LANES), load(x + 3 * LANES)};
            for (j = 4 * LANES; j + 4 * LANES <= whole; j += 4 * LANES)
                for (int v = 0; v < 4; v++) s[v] = vec_max(s[v], load(x + j + v * LANES));
            m = vec_max(vec_max(s[0], s[1]), vec_max(s[2], s[3]));
        }
        for (; j < whole; j += LANES) m = vec_max(m, load(x + j));
        for (int l = 0; l < LANES; l++) most = m[l] > most || m[l] != m[l] ? m[l] : most;
    }
    for (int64_t j = whole; j < n; j++) most = x[j] > most || x[j] != x[j] ? x[j] : most;
    return most;
}
KERNEL float min_f32(const float *x, int64_t n) {
    float least = INFINITY;
    for (int64_t j = 0; j < n; j++) least = x[j] < least || x[j] != x[j] ? x[j] : least;
    return least;
}
#define ROW(T, S, LOWEST, HIGHEST)                                                            \
    KERNEL T prod_##S(const T *x, int64_t n) {                                                \
        T y = 1;                                                                              \
        for (int64_t j = 0; j < n; j++) y = PRODUCT_##S(y, x[j]);                             \
        return y;                                                                             \
    }                                                                                         \
    ROW_BUT_PRODUCT_##S(T, S, LOWEST, HIGHEST)
#define ROW_EXTREMES(T, S, LOWEST, HIGHEST)                                                   \
    KERNEL T sum_##S(const T *x, int64_t n) {                                                 \
        T y = 0;                                                                              \
        for (int64_t j = 0; j < n; j++) y = SUM_##S(y, x[j]);                                 \
        return y;                                                                             \
    }                                                                                         \
    KERNEL T max_##S(const T *x, int64_t n) {                                                 \
        T y = LOWEST;                                                                         \
        for (int64_t j = 0; j < n; j++) y = x[j] > y || x[j] != x[j] ? x[j] : y;              \
        return y;                                                                             \
    }                                                                                         \
    KERNEL T min_##S(const T *x, int64_t n) {                                                 \
        T y = HIGHEST;                                                                        \
        for (int64_t j = 0; j < n; j++) y = x[j] < y || x[j] != x[j] ? x[j] : y;              \
        return y;                                                                             \
    }
#define PRODUCT_f32(a, b) ((a) * (b))
#define PRODUCT_f64(a, b) ((a) * (b))
#define PRODUCT_i64(a, b) mul_i64(a, b)
#define PRODUCT_u8(a, b) ((uint8_t)((a) && (b)))
#define SUM_f64(a, b) ((a) + (b))
#define SUM_i64(a, b) add_i64(a, b)
#define SUM_u8(a, b) ((uint8_t)((a) || (b)))
#define ROW_BUT_PRODUCT_f32(T, S, LOWEST, HIGHEST)
#define ROW_BUT_PRODUCT_f64 ROW_EXTREMES
#define ROW_BUT_PRODUCT_i64 ROW_EXTREMES
#define ROW_BUT_PRODUCT_u8 ROW_EXTREMES
ROW(float, f32, -INFINITY, INFINITY)
ROW(double, f64, -INFINITY, INFINITY)
ROW(int64_t, i64, INT64_MIN, INT64_MAX)
ROW(uint8_t, u8, 0, UINT8_MAX)

#endif
