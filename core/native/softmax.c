/* Softmax and its logarithm over the last axis, forward and backward.

   Forward: y = e^(x - max x) / sum; three passes over a row that stays in cache, one read and one write
   of memory. Backward: gx = y (g - sum(g y)); for the logarithm gx = g - e^y sum(g). */
#ifndef REAL
#include "real.h"

#define KERNEL_FILE "softmax.c"
#include "each_real.h"
#else

typedef struct {
    const REAL *x, *y;
    REAL *out;
    ptrdiff_t n;
} NAME(rows);

static inline __attribute__((always_inline)) REAL NAME(largest)(const REAL *x, ptrdiff_t n) {
    REAL largest = -INFINITY;
#pragma omp simd reduction(max : largest)
    for (ptrdiff_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

VECTOR static void NAME(softmax_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *x = c->x + row * c->n;
        REAL *y = c->out + row * c->n;
        const REAL largest = NAME(largest)(x, c->n);
        REAL sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = 0; i < c->n; i++) {
            const REAL e = NAME(sm_exp)(x[i] - largest);
            y[i] = e;
            sum += e;
        }
        const REAL scale = 1 / sum;
        for (ptrdiff_t i = 0; i < c->n; i++) y[i] *= scale;
    }
}

VECTOR static void NAME(log_softmax_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *x = c->x + row * c->n;
        REAL *y = c->out + row * c->n;
        const REAL largest = NAME(largest)(x, c->n);
        REAL sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = 0; i < c->n; i++) sum += NAME(sm_exp)(x[i] - largest);
        const REAL log_sum = NAME(sm_log)(sum);
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) y[i] = (x[i] - largest) - log_sum;
    }
}

VECTOR static void NAME(softmax_back_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *g = c->x + row * c->n, *y = c->y + row * c->n;
        REAL *gx = c->out + row * c->n, dot = 0;
#pragma omp simd reduction(+ : dot)
        for (ptrdiff_t i = 0; i < c->n; i++) dot += g[i] * y[i];
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) gx[i] = y[i] * (g[i] - dot);
    }
}

VECTOR static void NAME(log_softmax_back_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *g = c->x + row * c->n, *y = c->y + row * c->n;
        REAL *gx = c->out + row * c->n, sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = 0; i < c->n; i++) sum += g[i];
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) gx[i] = g[i] - NAME(sm_exp)(y[i]) * sum;
    }
}

void NAME(softmax_forward)(const REAL *x, REAL *y, ptrdiff_t rows, ptrdiff_t n) {
    NAME(rows) context = {x, NULL, y, n};
    parallel_for(rows, 8 * (double)(rows * n), NAME(softmax_rows), &context);
}

void NAME(log_softmax_forward)(const REAL *x, REAL *y, ptrdiff_t rows, ptrdiff_t n) {
    NAME(rows) context = {x, NULL, y, n};
    parallel_for(rows, 8 * (double)(rows * n), NAME(log_softmax_rows), &context);
}

void NAME(softmax_backward)(const REAL *g, const REAL *y, REAL *gx, ptrdiff_t rows, ptrdiff_t n) {
    NAME(rows) context = {g, y, gx, n};
    parallel_for(rows, 4 * (double)(rows * n), NAME(softmax_back_rows), &context);
}

void NAME(log_softmax_backward)(const REAL *g, const REAL *y, REAL *gx, ptrdiff_t rows, ptrdiff_t n) {
    NAME(rows) context = {g, y, gx, n};
    parallel_for(rows, 8 * (double)(rows * n), NAME(log_softmax_back_rows), &context);
}

#endif
