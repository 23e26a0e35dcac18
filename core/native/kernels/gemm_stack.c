/* Products of matrices and of stacks of them, lying anyhow. */
#include "kernels/gemm_stack.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/axes.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"

/* The shape of the stack of both, and each factor's steps in it (0 where it repeats); 0 where they do not fit. */
static int broadcast(gemm_plan *plan, const strided *const *sides) {
    const int na = sides[0]->ndim - 2, nb = sides[1]->ndim - 2, n = na > nb ? na : nb;
    plan->stack = 1;
    plan->axes = n;
    for (int i = 0; i < n; i++) {
        plan->shape[i] = 1;
        for (int k = 0; k < 2; k++) {
            const int axis = i - (n - (k ? nb : na));
            const ptrdiff_t d = axis < 0 ? 1 : sides[k]->shape[axis];
            plan->factors[k].steps[i] = d == 1 ? 0 : sides[k]->strides[axis] / sides[k]->item;
            if (d != 1 && plan->shape[i] != 1 && plan->shape[i] != d) return 0;
            if (d != 1) plan->shape[i] = d;
        }
        plan->stack *= plan->shape[i];
    }
    return 1;
}

/* Whether the stack's matrices of a lie below one another and b is one matrix: then it is one product. */
static int is_tall(const gemm_plan *plan) {
    ptrdiff_t step = plan->factors[0].row * plan->m;
    for (int i = plan->axes - 1; i >= 0; step *= plan->shape[i], i--)
        if (plan->factors[1].steps[i] || (plan->shape[i] != 1 && plan->factors[0].steps[i] != step)) return 0;
    return 1;
}

int gemm_planned(gemm_plan *plan, const strided *a, int turn_a, const strided *b, int turn_b) {
    const strided *sides[2] = {a, b};
    const int turned[2] = {turn_a, turn_b};
    ptrdiff_t sizes[2][2];
    if (a->ndim < 2 || b->ndim < 2) return 0;
    for (int k = 0; k < 2; k++) {
        const int down = sides[k]->ndim - 2 + turned[k], across = sides[k]->ndim - 1 - turned[k];
        plan->factors[k].data = sides[k]->data;
        plan->factors[k].row = sides[k]->strides[down] / sides[k]->item;
        plan->factors[k].column = sides[k]->strides[across] / sides[k]->item;
        sizes[k][0] = sides[k]->shape[down];
        sizes[k][1] = sides[k]->shape[across];
    }
    if (sizes[0][1] != sizes[1][0] || !broadcast(plan, sides)) return 0;
    plan->m = sizes[0][0];
    plan->k = sizes[0][1];
    plan->n = sizes[1][1];
    plan->shape[plan->axes] = plan->m;
    plan->shape[plan->axes + 1] = plan->n;
    plan->ndim = plan->axes + 2;
    plan->strides_there = 0;
    plan->work = (double)plan->m * (double)plan->n * (double)plan->k * (double)plan->stack;
    if (plan->stack > 1 && is_tall(plan)) {
        plan->m *= plan->stack;
        plan->stack = 1;
        plan->axes = 0;
    }
    return 1;
}

/* An array as a matrix of rows: one of two axes as it lies, of any other number its rows below one another. */
static strided as_matrix(const strided *a, ptrdiff_t *shape, ptrdiff_t *strides) {
    if (a->ndim == 2) return *a;
    shape[1] = a->shape[a->ndim - 1];
    shape[0] = sizes_multiplied(a->shape, a->ndim - 1);
    strides[1] = a->item;
    strides[0] = a->item * shape[1];
    return (strided){a->data, 2, shape, strides, a->item};
}

#define PRODUCTS(T, S)                                                                                                   \
    int gemm_stack_##S(const gemm_plan *p, const T *bias, T *c) {                                                        \
        const ptrdiff_t m = p->m, n = p->n;                                                                              \
        if (p->stack * m * n == 0) return 1;                                                                             \
        for (ptrdiff_t i = 0; p->k == 0 && i < p->stack * m * n; i++) c[i] = bias ? bias[i % n] : 0;                     \
        if (p->k == 0) return 1; /* the sum of nothing */                                                                \
        product_##S one, *products = p->stack == 1 ? &one : malloc(sizeof *products * (size_t)p->stack);                 \
        if (!products) return 0;                                                                                         \
        for (ptrdiff_t s = 0; s < p->stack; s++) {                                                                       \
            ptrdiff_t at[2] = {0, 0}, rest = s;                                                                          \
            for (int i = p->axes - 1; i >= 0; rest /= p->shape[i], i--)                                                  \
                for (int j = 0; j < 2; j++) at[j] += rest % p->shape[i] * p->factors[j].steps[i];                        \
            products[s] = (product_##S){(const T *)p->factors[0].data + at[0], (const T *)p->factors[1].data + at[1],    \
                                        bias, c + s * m * n, m, n, p->k, p->factors[0].row, p->factors[0].column,        \
                                        p->factors[1].row, p->factors[1].column};                                        \
        }                                                                                                                \
        const int done = gemm_##S(products, p->stack);                                                                   \
        if (products != &one) free(products);                                                                            \
        return done;                                                                                                     \
    }                                                                                                                    \
    static int product_of_##S(const strided *a, int turn_a, const strided *b, int turn_b, T *c) {                        \
        gemm_plan plan;                                                                                                  \
        return !c || (gemm_planned(&plan, a, turn_a, b, turn_b) && gemm_stack_##S(&plan, NULL, c));                      \
    }                                                                                                                    \
    int matmul_backward_##S(const strided *g, const strided *a, const strided *b, T *ga, T *gb) {                        \
        return product_of_##S(g, 0, b, 1, ga) && product_of_##S(a, 1, g, 0, gb);                                         \
    }                                                                                                                    \
    int linear_backward_##S(const strided *g, const strided *weight, const strided *x, T *gx, T *gw, T *gb) {            \
        ptrdiff_t shapes[4][2];                                                                                          \
        const ptrdiff_t down = 0;                                                                                        \
        reduce_plan plan;                                                                                                \
        const strided rows = as_matrix(g, shapes[0], shapes[1]);                                                         \
        const strided inputs = gw ? as_matrix(x, shapes[2], shapes[3]) : rows;                                           \
        return product_of_##S(&rows, 0, weight, 0, gx) && product_of_##S(&rows, 1, &inputs, 0, gw) &&                    \
               (!gb || (reduce_planned(&plan, &rows, &down, 1, 0) &&                                                     \
                        reduce_axes_##S(REDUCE_SUM, 0, &plan, (const T *)rows.data, gb)));                               \
    }
PRODUCTS(float, f32)
PRODUCTS(double, f64)
