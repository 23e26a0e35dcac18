/* Layer norm over the last axis, forward and backward.

   Forward: y = (x - mean) rstd w + b with rstd = 1 / sqrt(variance + eps); the variance from a second
   pass over the row, which is in cache, so that nothing cancels. Backward, with xhat = (x - mean) rstd
   and h = g w: gx = rstd (h - mean(h) - xhat mean(h xhat)), gw = sum(g xhat), gb = sum(g); the sums over
   rows are taken in blocks whose number depends on the shape alone.
   Source: Ba, Kiros, Hinton, Layer Normalization, arXiv:1607.06450. */
#ifndef REAL
#include "real.h"

#define KERNEL_FILE "norm.c"
#include "each_real.h"
#else

typedef struct {
    const REAL *x, *w, *b;
    REAL *y, *mean, *rstd;
    ptrdiff_t n;
    REAL eps;
} NAME(norm);

VECTOR static void NAME(norm_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(norm) *c = context;
    const REAL *w = c->w, *b = c->b;
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *x = c->x + row * c->n;
        REAL *y = c->y + row * c->n, sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = 0; i < c->n; i++) sum += x[i];
        const REAL mean = sum / (REAL)c->n;
#pragma omp simd reduction(+ : squares)
        for (ptrdiff_t i = 0; i < c->n; i++) squares += (x[i] - mean) * (x[i] - mean);
        const REAL rstd = 1 / NAME(sm_sqrt)(squares / (REAL)c->n + c->eps);
        if (w && b) {
            INDEPENDENT
            for (ptrdiff_t i = 0; i < c->n; i++) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
        } else {
            for (ptrdiff_t i = 0; i < c->n; i++) y[i] = (x[i] - mean) * rstd * (w ? w[i] : 1) + (b ? b[i] : 0);
        }
        c->mean[row] = mean;
        c->rstd[row] = rstd;
    }
}

void NAME(layer_norm_forward)(const REAL *x, const REAL *w, const REAL *b, REAL *y, REAL *mean, REAL *rstd,
                              ptrdiff_t rows, ptrdiff_t n, double eps) {
    NAME(norm) context = {x, w, b, y, mean, rstd, n, (REAL)eps};
    parallel_for_as(choice_for(CHOOSE_LAYER_NORM, sizeof(REAL), rows, n, 1, 1), rows, 6 * (double)(rows * n),
                    NAME(norm_rows), &context);
}

typedef struct {
    const REAL *g, *x, *mean, *rstd, *w;
    REAL *gx, *sums; /* sums (blocks, 2, n): gw and gb of each block of rows */
    ptrdiff_t rows, n, block;
} NAME(norm_back);

VECTOR static void NAME(norm_back_blocks)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(norm_back) *c = context;
    const ptrdiff_t n = c->n;
    for (ptrdiff_t block = begin; block < end; block++) {
        REAL *gw = c->sums + block * 2 * n, *gb = gw + n;
        const ptrdiff_t first = block * c->block, last = first + c->block < c->rows ? first + c->block : c->rows;
        memset(gw, 0, sizeof(REAL) * 2 * (size_t)n);
        for (ptrdiff_t row = first; row < last; row++) {
            const REAL *g = c->g + row * n, *x = c->x + row * n, *w = c->w;
            REAL *gx = c->gx + row * n, sum = 0, dot = 0;
            const REAL mean = c->mean[row], rstd = c->rstd[row];
            INDEPENDENT
            for (ptrdiff_t i = 0; i < n; i++) {
                gw[i] += g[i] * ((x[i] - mean) * rstd);
                gb[i] += g[i];
            }
            if (w) {
#pragma omp simd reduction(+ : sum, dot)
                for (ptrdiff_t i = 0; i < n; i++) {
                    sum += g[i] * w[i];
                    dot += g[i] * w[i] * ((x[i] - mean) * rstd);
                }
                sum /= (REAL)n;
                dot /= (REAL)n;
                INDEPENDENT
                for (ptrdiff_t i = 0; i < n; i++) gx[i] = (g[i] * w[i] - sum - (x[i] - mean) * rstd * dot) * rstd;
            } else {
#pragma omp simd reduction(+ : sum, dot)
                for (ptrdiff_t i = 0; i < n; i++) {
                    sum += g[i];
                    dot += g[i] * ((x[i] - mean) * rstd);
                }
                sum /= (REAL)n;
                dot /= (REAL)n;
                INDEPENDENT
                for (ptrdiff_t i = 0; i < n; i++) gx[i] = (g[i] - sum - (x[i] - mean) * rstd * dot) * rstd;
            }
        }
    }
}

int NAME(layer_norm_backward)(const REAL *g, const REAL *x, const REAL *mean, const REAL *rstd, const REAL *w, REAL *gx,
                              REAL *gw, REAL *gb, ptrdiff_t rows, ptrdiff_t n) {
    memset(gw, 0, sizeof(REAL) * (size_t)n);
    memset(gb, 0, sizeof(REAL) * (size_t)n);
    if (rows == 0 || n == 0) return 1;
    /* at most 64 blocks, each worth a thread's while */
    const ptrdiff_t wanted = (rows + 63) / 64, least = n < 8192 ? 8192 / n : 1, block = wanted > least ? wanted : least;
    const ptrdiff_t blocks = (rows + block - 1) / block;
    REAL *sums = malloc(sizeof(REAL) * 2 * (size_t)(blocks * n));
    if (!sums) return 0;
    NAME(norm_back) context = {g, x, mean, rstd, w, gx, sums, rows, n, block};
    parallel_for(blocks, 10 * (double)(rows * n), NAME(norm_back_blocks), &context);
    for (ptrdiff_t k = 0; k < blocks; k++) {
        const REAL *block_gw = sums + k * 2 * n, *block_gb = block_gw + n;
        for (ptrdiff_t i = 0; i < n; i++) gw[i] += block_gw[i];
        for (ptrdiff_t i = 0; i < n; i++) gb[i] += block_gb[i];
    }
    free(sums);
    return 1;
}

#endif
