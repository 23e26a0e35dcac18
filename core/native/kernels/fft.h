/* Fourier transforms of rows of few and composite lengths (fft.c). */
#ifndef GRADLAB_FFT_H
#define GRADLAB_FFT_H

#include <stddef.h>

enum { FFT_MOST = 4096 /* points */ };

/* Whether transforms of n points are made here: n is a product of primes up to 13. */
int fft_takes(ptrdiff_t n);

/* What stands for the n numbers whose transform is real, or of a transform of real ones: the first n / 2 + 1 of them, these
   as a gradient, all of them as a gradient. */
enum { FFT_HALF, FFT_HALF_BACK, FFT_ALL };

/* Where the adjoint has its scale. */
static inline const char *fft_other(const char *norm) { return *norm == 'o' ? norm : *norm == 'f' ? "backward" : "forward"; }

/* `norm`: where the scale stands, "backward" in the inverse, "forward" in the transform, or "ortho"; complex numbers are
   pairs. 0 without memory. */
#define DECLARE_FFT(T, S)                                                                                                \
    /* x, y (outer, n, inner), complex */                                                                                \
    int fft_c2c_##S(const T *x, T *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner, int inverse, const char *norm);     \
    /* x (rows, n), real; y (rows, n / 2 + 1) or all n of them, complex */                                               \
    int fft_r2c_##S(const T *x, T *y, ptrdiff_t rows, ptrdiff_t n, int kind, int inverse, const char *norm);             \
    /* x complex, as `kind` says; y (rows, n) the real part of the transform of all */                                   \
    int fft_c2r_##S(const T *x, T *y, ptrdiff_t rows, ptrdiff_t n, int kind, int inverse, const char *norm);
DECLARE_FFT(float, f32)
DECLARE_FFT(double, f64)
#undef DECLARE_FFT

#endif
