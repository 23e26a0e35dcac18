/* Decompositions of small matrices, each of a stack by itself. What gives an int gives 0 for what LAPACK is to do instead, or
   to refuse: matrices that are not positive-definite, not finite, or of a rank that is not full. */
#ifndef GRADLAB_DENSE_H
#define GRADLAB_DENSE_H

#include <stddef.h>

enum { DENSE_MOST = 64 /* rows and columns; above, LAPACK's blocks are quicker */, JACOBI_MOST = 32, TRIANGLE_MOST = 128 };

/* The smaller of the rows and the columns. */
static inline ptrdiff_t dense_few(ptrdiff_t m, ptrdiff_t n) { return m < n ? m : n; }

/* `mirror`: which triangle of a symmetric matrix counts, "L", "U", or the mean of "both". */
#define DECLARE_DENSE(T, S)                                                                                          \
    /* y (n, n), the lower one, with y @ y.T = x */                                                                  \
    int dense_cholesky_##S(const T *x, T *y, ptrdiff_t batch, ptrdiff_t n, const char *mirror);                      \
    /* y (n, k) with a @ y = b, a (n, n) a triangle, whose diagonal is all ones where `unit` */                      \
    void dense_triangular_##S(const T *a, const T *b, T *y, ptrdiff_t batch, ptrdiff_t n, ptrdiff_t k, int upper,    \
                              int unit);                                                                             \
    /* q (m, n), r (n, n) of x (m, n), m >= n, as LAPACK has their signs; only of mode "reduced" */                  \
    int dense_qr_##S(const T *x, T *q, T *r, ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n, const char *mode);           \
    /* y (n, k) of least |x @ y - b|, x (m, n) with m >= n and surely of full rank, b (m, k) */                       \
    int dense_lstsq_##S(const T *x, const T *b, T *y, ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k);       \
    /* values (n,), rising, and vectors (n, n), a column each */                                                     \
    int dense_eigh_##S(const T *x, T *values, T *vectors, ptrdiff_t batch, ptrdiff_t n, const char *mirror);         \
    /* u (m, k), s (k,), falling, v (k, n) of x (m, n), k the smaller of the two */                                  \
    int dense_svd_##S(const T *x, T *u, T *s, T *v, ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n);                      \
    /* y (n, m), the pseudo-inverse of x (m, n) */                                                                   \
    int dense_pinv_##S(const T *x, T *y, ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n);
DECLARE_DENSE(float, f32)
DECLARE_DENSE(double, f64)
#undef DECLARE_DENSE

#endif
