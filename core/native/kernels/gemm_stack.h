/* Products of matrices and of stacks of them, lying anyhow, by the kernel of gemm.h; those of linear layers back. */
#ifndef GRADLAB_GEMM_STACK_H
#define GRADLAB_GEMM_STACK_H

#include "kernels/strided.h"

enum { GEMM_AXES = 66 };

/* c = a b of stacks that broadcast: the shape of c, and how each factor is gone through, in items. */
typedef struct {
    int ndim, strides_there, axes; /* axes: of the stack */
    ptrdiff_t shape[GEMM_AXES], strides[1], stack, m, n, k;
    double work; /* multiplications */
    struct {
        const char *data;
        ptrdiff_t steps[GEMM_AXES], row, column;
    } factors[2];
} gemm_plan;

/* The matrices of a factor that is `turned` are transposed. 0 where sizes do not fit. */
int gemm_planned(gemm_plan *plan, const strided *a, int turn_a, const strided *b, int turn_b);

/* bias (n,) or NULL, for each row; 0 without memory */
int gemm_stack_f32(const gemm_plan *plan, const float *bias, float *c);
int gemm_stack_f64(const gemm_plan *plan, const double *bias, double *c);

/* The gradients of a b, and of x weight^T + bias whose g and x may have any leading axes (in rows below one another); a
   result that is NULL is not wanted. */
#define DECLARE(T, S)                                                                                                    \
    int matmul_backward_##S(const strided *g, const strided *a, const strided *b, T *ga, T *gb);                         \
    int linear_backward_##S(const strided *g, const strided *weight, const strided *x, T *gx, T *gw, T *gb);
DECLARE(float, f32)
DECLARE(double, f64)
#undef DECLARE

#endif
