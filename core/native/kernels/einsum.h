/* einsum of two operands that is a product of matrices, or of stacks of them, and its gradients. */
#ifndef GRADLAB_EINSUM_H
#define GRADLAB_EINSUM_H

#include "kernels/gemm_stack.h"

enum { MOST_LETTERS = 8 };

/* The result's shape, and the product that gives its items. */
typedef struct {
    int ndim, strides_there;
    ptrdiff_t shape[MOST_LETTERS], strides[1];
    gemm_plan product;
} einsum_plan;
typedef struct {
    einsum_plan of[2];
} einsum_plans;

/* 0 for what is no such product. The equation is as the op gets it: no blanks, no letter twice in a term. */
int einsum_is_product(const char *equation, const strided *a, const strided *b);
int einsum_planned(einsum_plan *plan, const char *equation, const strided *a, const strided *b);

/* The same of each operand that is wanted, with g in its place. */
int einsum_backward_planned(einsum_plan plans[2], const char *equation, const strided *g, const strided *a, const strided *b,
                            int wants_a, int wants_b);
int einsum_backward_f32(const einsum_plan plans[2], float *ga, float *gb);
int einsum_backward_f64(const einsum_plan plans[2], double *ga, double *gb);

#endif
