/* Items of each row by their order, with the indices they had (order.c). NaN is the greatest; of equals the first. */
#ifndef GRADLAB_ORDER_H
#define GRADLAB_ORDER_H

#include <stddef.h>
#include <stdint.h>

enum { ORDER_SORTED, ORDER_TOP, ORDER_KTH, ORDER_MEDIAN, ORDER_MODE };
enum { ORDER_MOST = 64 /* items in a row that are put in order */, ORDER_FIRST = 16 /* of a longer one */ };

#define DECLARE(T, S)                                                                                                      \
    /* y, at (outer, k or n or 1, inner) of x (outer, n, inner): sorted, the first k, the k-th, the median, the mode; `flag`: \
       descending, the greatest, or that NaN is left out */                                                                \
    void order_rows_##S(int what, int flag, ptrdiff_t k, const T *x, T *y, int64_t *at, ptrdiff_t outer, ptrdiff_t n,      \
                        ptrdiff_t inner);                                                                                  \
    /* the same of the first k of long rows; of the k-th item and the median, whatever the row's length: 0 without memory */ \
    void first_rows_##S(int what, int flag, ptrdiff_t k, const T *x, T *y, int64_t *at, ptrdiff_t outer, ptrdiff_t n,      \
                        ptrdiff_t inner);                                                                                  \
    int selected_rows_##S(int what, int flag, ptrdiff_t k, const T *x, T *y, int64_t *at, ptrdiff_t outer, ptrdiff_t n,    \
                          ptrdiff_t inner);                                                                                \
    /* the greatest or least item of each row (`kind` as in kernels.h), and its place */                                   \
    void extreme_rows_##S(int kind, const T *x, T *y, int64_t *at, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);         \
    /* gx (outer, n, inner) = 0, but g (outer, count, inner) in the places `at` that its items came from */                \
    void order_back_##S(const T *g, const int64_t *at, T *gx, ptrdiff_t outer, ptrdiff_t count, ptrdiff_t n, ptrdiff_t inner);
DECLARE(float, f32)
DECLARE(double, f64)
DECLARE(int64_t, i64)
#undef DECLARE

#endif
