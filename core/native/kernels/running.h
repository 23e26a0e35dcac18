/* Running sums, products and extremes. */
#ifndef GRADLAB_RUNNING_H
#define GRADLAB_RUNNING_H

#include <stddef.h>
#include <stdint.h>

enum { RUN_SUM, RUN_PRODUCT };

/* x, y (outer, n, inner): along n, from the end on where `reverse`; `at`: where the extreme is */
#define DECLARE_RUNNING(T, S)                                                                                      \
    void running_##S(int kind, const T *x, T *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner, int reverse);      \
    void running_extreme_##S(int largest, const T *x, T *y, int64_t *at, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);
DECLARE_RUNNING(float, f32)
DECLARE_RUNNING(double, f64)
DECLARE_RUNNING(int64_t, i64)

/* The logarithm of the sum of exponentials up to each item (running_log.c). */
void running_log_f32(const float *x, float *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);
void running_log_f64(const double *x, double *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);

#endif
