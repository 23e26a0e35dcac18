/* A gradient times a factor, in place, and whether all of it was finite: one pass over the memory. */
#ifndef REAL
#include "kernels/half.h"
#include "kernels/real.h"

typedef struct {
    void *x;
    double factor;
    int finite; /* set to 0 by whichever thread finds otherwise; the same value from all */
} unscale_call;

#define KERNEL_FILE "unscale.c"
#include "kernels/each_real.h"
#else

VECTOR static void NAME(unscale_piece)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    unscale_call *call = context;
    REAL *x = call->x;
    const REAL factor = (REAL)call->factor;
    REAL sum = 0; /* of x * 0: NaN as soon as one item is infinite or NaN */
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t i = begin; i < end; i++) {
        sum += x[i] * 0;
        x[i] *= factor;
    }
    if (sum != 0) __atomic_store_n(&call->finite, 0, __ATOMIC_RELAXED);
}

int NAME(unscale)(REAL *x, ptrdiff_t n, double factor) {
    unscale_call call = {x, factor, 1};
    parallel_for(n, 2.0 * (double)n, NAME(unscale_piece), &call);
    return call.finite;
}

#endif
