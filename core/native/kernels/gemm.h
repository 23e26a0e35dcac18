/* Products of matrices of float32 and float64 with any strides. */
#ifndef GRADLAB_GEMM_H
#define GRADLAB_GEMM_H

#include <stddef.h>

/* c (m, n) = a (m, k) b (k, n) + bias (n): a[i * a_row + p * a_step], b[p * b_step + j * b_column], c's rows without
   gaps; m, n and k are at least 1. `bias` may be NULL. With `line`, b is not read: line(from, column, first, steps, to)
   gives `steps` items of a column from `first` on, a multiple of 256; and `panel`, if not NULL, of `count` columns at once,
   (steps, 32) of float32 or (steps, 16) of float64, where columns beyond them are 0. */
#define DECLARE(S, REAL)                                                                                            \
    typedef struct {                                                                                                \
        const REAL *a, *b, *bias;                                                                                   \
        REAL *c;                                                                                                    \
        ptrdiff_t m, n, k, a_row, a_step, b_step, b_column;                                                         \
        void (*line)(const void *from, ptrdiff_t column, ptrdiff_t first, ptrdiff_t steps, REAL *to);               \
        void (*panel)(const void *from, ptrdiff_t column, ptrdiff_t count, ptrdiff_t first, ptrdiff_t steps,        \
                      REAL *to);                                                                                    \
        const void *from;                                                                                           \
    } product_##S;                                                                                                  \
    int gemm_##S(const product_##S *products, ptrdiff_t count); /* of one shape; 0: no memory */
DECLARE(f32, float)
DECLARE(f64, double)
#undef DECLARE

#endif
