/* Items of one type as those of another, and how many are not 0. */
#include "kernels/convert.h"

#include "kernels/kernel.h"

/* The loops from one type: `item` is x[i], or whether it is not 0. */
#define TO(letter, T, item)                                        \
    case letter: {                                                 \
        T *restrict y = out;                                       \
        for (ptrdiff_t i = 0; i < n; i++) y[i] = (T)(item);        \
        return 1;                                                  \
    }
#define FROM(name, S, item)                                                                             \
    VECTOR static int from_##name(char to, const S *restrict x, void *restrict out, ptrdiff_t n) {             \
        switch (to) {                                                                                   \
            TO('?', uint8_t, x[i] != 0)                                                                 \
            TO('i', int32_t, item)                                                                      \
            TO('l', int64_t, item)                                                                      \
            TO('f', float, item)                                                                        \
            TO('d', double, item)                                                                       \
            default: return 0;                                                                          \
        }                                                                                               \
    }
FROM(bool, uint8_t, x[i] != 0)
FROM(uint8, uint8_t, x[i])
FROM(int32, int32_t, x[i])
FROM(int64, int64_t, x[i])
FROM(float, float, x[i])
FROM(double, double, x[i])

int convert(char from, char to, const void *x, void *y, ptrdiff_t n) {
    switch (from) {
        case '?': return from_bool(to, x, y, n);
        case 'B': return from_uint8(to, x, y, n);
        case 'i': return from_int32(to, x, y, n);
        case 'l': return from_int64(to, x, y, n);
        case 'f': return from_float(to, x, y, n);
        case 'd': return from_double(to, x, y, n);
        default: return 0;
    }
}

#define COUNT(letter, S)                                                                          \
    case letter:                                                                                  \
        for (ptrdiff_t k = 0; k < n; k++) found += ((const S *)x)[first + k * inner] != 0;        \
        break;

/* How many of n items, `inner` apart, are not 0. */
static ptrdiff_t count_true(char type, const void *x, ptrdiff_t first, ptrdiff_t n, ptrdiff_t inner) {
    ptrdiff_t found = 0;
    switch (type) {
        COUNT('?', uint8_t)
        COUNT('B', uint8_t)
        COUNT('i', int32_t)
        COUNT('l', int64_t)
        COUNT('f', float)
        COUNT('d', double)
    }
    return found;
}

#define TRUTH(name, T, result)                                                                                 \
    void truth_##name(char type, const void *x, T *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner) {         \
        for (ptrdiff_t o = 0; o < outer; o++)                                                                  \
            for (ptrdiff_t i = 0; i < inner; i++) {                                                            \
                const ptrdiff_t found = count_true(type, x, o * n * inner + i, n, inner);                      \
                *y++ = (T)(result);                                                                            \
            }                                                                                                  \
    }
TRUTH(all, char, found == n)
TRUTH(any, char, found > 0)
TRUTH(count_nonzero, int64_t, found)

/* 0 times what is not finite is NaN, as the vjp has it. */
#define SHARE(T, S)                                                                                                          \
    void share_##S(const T *g, const T *x, const T *y, T *gx, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner) {               \
        for (ptrdiff_t o = 0, p = 0; o < outer; o++)                                                                         \
            for (ptrdiff_t i = 0; i < inner; i++, p++) {                                                                     \
                const T *from = x + o * n * inner + i;                                                                       \
                T *to = gx + o * n * inner + i, same = 0;                                                                    \
                for (ptrdiff_t k = 0; k < n; k++) same += from[k * inner] == y[p];                                           \
                const T part = g[p] / same;                                                                                  \
                for (ptrdiff_t k = 0; k < n; k++) to[k * inner] = (T)(from[k * inner] == y[p]) * part;                       \
            }                                                                                                                \
    }
SHARE(float, f32)
SHARE(double, f64)
