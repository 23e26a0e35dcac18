/* Pools and resampling of planes, row by row.

   sizes: height, width, kernel (2), out (2), stride (2), padding (2), dilation (2). */
#ifndef GRADLAB_POOL_H
#define GRADLAB_POOL_H

#include "base.h"

typedef struct {
    int64_t h, w, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw;
} pool_sizes;

/* For each tap of the kernel and each output row: the part of the row that lies inside the plane. STRIDE is that of the
   columns: a constant where the compiler is to know it. */
#define EACH_TAP(STRIDE, ...)                                                                              \
    for (int64_t u = 0; u < s.kh; u++) {                                                                   \
        const int64_t row = i * s.sh + u * s.dh - s.ph;                                                    \
        if (row < 0 || row >= s.h) continue;                                                               \
        for (int64_t v = 0; v < s.kw; v++) {                                                               \
            const int64_t shift = v * s.dw - s.pw; /* column j * stride + shift is inside: first to end */ \
            const int64_t first = shift < 0 ? smaller((-shift + s.sw - 1) / s.sw, s.ow) : 0;               \
            const int64_t room = s.w - shift + s.sw - 1;                                                   \
            const int64_t end = room > 0 ? smaller(room / s.sw, s.ow) : 0;                                 \
            const float *from = x + row * s.w + shift;                                                     \
            for (int64_t j = first; j < end; j++) {                                                        \
                const float value = from[j * (STRIDE)];                                                    \
                __VA_ARGS__                                                                                \
            }                                                                                              \
        }                                                                                                  \
    }
/* Every `stride`-th number, a vector of them; LANES * stride numbers may be read. */
INLINE vec load_every(const float *x, int64_t stride) {
    if (stride == 1) return load(x);
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#if LANES == 16
    if (stride == 2)
        return __builtin_shufflevector(load(x), load(x + LANES), 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
                                       30);
#elif LANES == 8
    if (stride == 2) return __builtin_shufflevector(load(x), load(x + LANES), 0, 2, 4, 6, 8, 10, 12, 14);
#else
    if (stride == 2) return __builtin_shufflevector(load(x), load(x + LANES), 0, 2, 4, 6);
#endif
#endif
#endif
    vec v = {0};
    for (int l = 0; l < LANES; l++) v[l] = x[l * stride];
    return v;
}

/* A vector of outputs at a time. What lies beyond a row's end is read and not kept; where there is padding, or nothing
   beyond the end, the row is copied to where there is room around it. */
#define POOL_LINE 512
#define POOL_LINES(START, STRIDE, COMBINE)                                                                       \
    for (int64_t column = 0; column < s.ow; column += LANES) {                                                   \
        const int64_t begin = column * s.sw - s.pw, from = larger(begin, 0), to = smaller(begin + span, s.w);    \
        const int64_t count = smaller(LANES, s.ow - column), end = planes * s.h * s.w - span;                    \
        float line[POOL_LINE];                                                                                   \
        for (int64_t j = 0; j < span; j++) line[j] = (START);                                                    \
        for (int64_t p = 0; p < planes; p++)                                                                     \
            for (int64_t i = 0; i < s.oh; i++) {                                                                 \
                vec y = all_of(START);                                                                           \
                for (int64_t u = 0; u < s.kh; u++) {                                                             \
                    const int64_t row = i * s.sh + u * s.dh - s.ph, at = (p * s.h + row) * s.w;                  \
                    const float *taps = x + at + begin;                                                          \
                    if (row < 0 || row >= s.h || from >= to) continue;                                           \
                    if (s.pw || at + begin > end) {                                                              \
                        memcpy(line + from - begin, x + at + from, (size_t)(to - from) * 4);                     \
                        taps = line;                                                                             \
                    }                                                                                            \
                    for (int64_t v = 0; v < s.kw; v++) {                                                         \
                        const vec value = load_every(taps + v * s.dw, STRIDE);                                   \
                        y = COMBINE;                                                                             \
                    }                                                                                            \
                }                                                                                                \
                /* the rest of a vector falls on the next row, which is written afterwards */                    \
                const int64_t put = (p * s.oh + i) * s.ow;                                                       \
                if (count == LANES || (s.ow <= LANES && put + LANES <= planes * s.oh * s.ow))                    \
                    store(out + put + column, y);                                                                \
                else                                                                                             \
                    for (int64_t j = 0; j < count; j++) out[put + column + j] = y[j];                            \
            }                                                                                                    \
    }
#define POOL_PLANES(START, COMBINE, COMBINE_ONE)                                 \
    pool_sizes s;                                                                \
    memcpy(&s, sizes, sizeof s);                                                 \
    const int64_t span = LANES * s.sw + (s.kw - 1) * s.dw;                      \
    if (span > POOL_LINE) {                                                      \
        for (int64_t p = 0; p < planes; p++, x += s.h * s.w)                     \
            for (int64_t i = 0; i < s.oh; i++, out += s.ow) {                    \
                for (int64_t j = 0; j < s.ow; j++) out[j] = (START);             \
                float *const y = out;                                            \
                EACH_TAP(s.sw, y[j] = COMBINE_ONE;)                              \
            }                                                                    \
    } else if (s.sw == 1) POOL_LINES(START, 1, COMBINE)                          \
    else if (s.sw == 2) POOL_LINES(START, 2, COMBINE)                            \
    else POOL_LINES(START, s.sw, COMBINE)

KERNEL void max_pool(int64_t planes, const int64_t *sizes, const float *x, float *out) {
    POOL_PLANES(-INFINITY, vec_max(value, y), ((value > y[j]) | (value != value)) ? value : y[j])
}
KERNEL void window_sum(int64_t planes, const int64_t *sizes, const float *x, float *out) {
    POOL_PLANES(0, y + value, y[j] + value)
}

KERNEL void max_pool_places(int64_t planes, const int64_t *sizes, const float *x, float *out, int64_t *places) {
    pool_sizes s;
    memcpy(&s, sizes, sizeof s);
    for (int64_t p = 0; p < planes; p++, x += s.h * s.w)
        for (int64_t i = 0; i < s.oh; i++, out += s.ow, places += s.ow) {
            for (int64_t j = 0; j < s.ow; j++) out[j] = -INFINITY, places[j] = -1;
            EACH_TAP(s.sw, if (value > out[j] || (value != value && out[j] == out[j]) || places[j] < 0) out[j] = value,
                     places[j] = row * s.w + j * s.sw + shift;)
        }
}

KERNEL void adaptive_max_pool(int64_t planes, int64_t h, int64_t w, int64_t oh, int64_t ow, const float *x, float *out,
                              int64_t *places) {
    for (int64_t p = 0; p < planes; p++, x += h * w)
        for (int64_t i = 0; i < oh; i++)
            for (int64_t j = 0; j < ow; j++) {
                int64_t best = i * h / oh * w + j * w / ow;
                for (int64_t y = i * h / oh; y < ((i + 1) * h + oh - 1) / oh; y++)
                    for (int64_t c = j * w / ow; c < ((j + 1) * w + ow - 1) / ow; c++) {
                        const float value = x[y * w + c];
                        if (value > x[best] || (value != value && x[best] == x[best])) best = y * w + c;
                    }
                *out++ = x[best], *places++ = best;
            }
}

INLINE double cubic(double x) { /* Keys' kernel with -3/4 */
    x = fabs(x);
    return x <= 1 ? (1.25 * x - 2.25) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.75 : 0;
}

/* The taps of an output along an axis of n: how many there are; their places and weights. */
INLINE int64_t resample_taps(int64_t n, int64_t count, int64_t i, int mode, int align, double scale, int64_t *first,
                             int64_t at[4], double weight[4]) {
    if (mode < 2) { /* nearest; in float32, as PyTorch computes it */
        const float step = scale != 0 ? (float)(1 / scale) : (float)n / (float)count;
        at[0] = smaller((int64_t)floorf(((float)i + (mode == 1 ? 0.5f : 0.0f)) * step), n - 1), weight[0] = 1;
        return 1;
    }
    if (mode == 4) { /* the mean of a window */
        *first = i * n / count;
        return ((i + 1) * n + count - 1) / count - *first;
    }
    double step = scale != 0 ? 1 / scale : (double)n / (double)count;
    if (align) step = count > 1 ? (double)(n - 1) / (double)(count - 1) : 0;
    double x = align ? step * (double)i : step * ((double)i + 0.5) - 0.5;
    if (mode == 2) {
        x = x < 0 ? 0 : x;
        at[0] = smaller((int64_t)x, n - 1), at[1] = smaller(at[0] + 1, n - 1);
        const double part = x - (double)at[0];
        weight[1] = part > 1 ? 1 : part, weight[0] = 1 - weight[1];
        return 2;
    }
    for (int k = 0; k < 4; k++) {
        const double place = floor(x) + k - 1;
        at[k] = larger(0, smaller((int64_t)place, n - 1)), weight[k] = cubic(x - place);
    }
    return 4;
}

/* Other sizes along one axis. mode: nearest, nearest-exact, linear, cubic, area. */
KERNEL void resample(int64_t outer, int64_t n, int64_t count, int64_t inner, int mode, int align, double scale,
                     const float *restrict x, float *restrict out) {
    for (int64_t o = 0; o < outer; o++, x += n * inner)
        for (int64_t i = 0; i < count; i++, out += inner) {
            int64_t at[4] = {0}, first = 0;
            double weight[4] = {0};
            const int64_t taps = resample_taps(n, count, i, mode, align, scale, &first, at, weight);
            for (int64_t j = 0; j < inner; j++) out[j] = 0;
            for (int64_t k = 0; k < taps; k++) {
                const float *from = x + (mode == 4 ? first + k : at[k]) * inner;
                const float w = mode == 4 ? 1 / (float)taps : (float)weight[k];
                for (int64_t j = 0; j < inner; j++) out[j] += w * from[j];
            }
        }
}

/* Columns (kernel, windows) added back to the planes they came from. */
KERNEL void col2im(int64_t planes, const int64_t *sizes, const float *columns, float *out) {
    pool_sizes s;
    memcpy(&s, sizes, sizeof s);
    memset(out, 0, (size_t)(planes * s.h * s.w) * sizeof(float));
    for (int64_t p = 0; p < planes; p++, out += s.h * s.w)
        for (int64_t u = 0; u < s.kh; u++)
            for (int64_t v = 0; v < s.kw; v++)
                for (int64_t i = 0; i < s.oh; i++, columns += s.ow) {
                    const int64_t row = i * s.sh + u * s.dh - s.ph, column = v * s.dw - s.pw;
                    if (row < 0 || row >= s.h) continue;
                    for (int64_t j = 0; j < s.ow; j++)
                        if (column + j * s.sw >= 0 && column + j * s.sw < s.w)
                            out[row * s.w + column + j * s.sw] += columns[j];
                }
}

#endif
