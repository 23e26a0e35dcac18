/* Conversions between the half-precision types and float32, and gradients out of a scaled loss. */
#ifndef GRADLAB_HALF_H
#define GRADLAB_HALF_H

#include <stddef.h>
#include <stdint.h>

/* y (n,) float32 of x (n,) bfloat16, or float16 */
void half_widen(const uint16_t *x, float *y, ptrdiff_t n, int bfloat);

/* y (n,) bfloat16, or float16, of x (n,) float32: rounded once, to nearest, ties to even */
void half_narrow(const float *x, uint16_t *y, ptrdiff_t n, int bfloat);

/* The same on this thread, as a part of other work. */
void half_widen_here(const uint16_t *x, float *y, ptrdiff_t n, int bfloat);
void half_narrow_here(const float *x, uint16_t *y, ptrdiff_t n, int bfloat);

/* One product c (m, n) = a (m, k) b (k, n) + bias (n,) of bfloat16; steps in items, c contiguous, bias float32 or NULL. */
typedef struct {
    const uint16_t *a, *b;
    const float *bias;
    uint16_t *c;
    ptrdiff_t m, n, k, a_row, a_column, b_row, b_column;
} bf16_product;

/* Whether the processor multiplies bfloat16. */
int gemm_bf16_there(void);

/* `count` products of one shape; false without memory. */
int gemm_bf16(const bf16_product *products, ptrdiff_t count);

/* x (n,) *= factor, in place; whether all of it was finite */
int unscale_f32(float *x, ptrdiff_t n, double factor);
int unscale_f64(double *x, ptrdiff_t n, double factor);

#endif
