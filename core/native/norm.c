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
#include "lines.h"

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
        REAL *y = c->y + row * c->n;
        const REAL mean = NAME(sum_line)(x, c->n) / (REAL)c->n;
        const REAL rstd = 1 / NAME(sm_sqrt)(NAME(squares_line)(x, mean, c->n) / (REAL)c->n + c->eps);
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

/* The means of h and of h xhat over a row, h = g w or g. */
INLINE void NAME(norm_back_means)(const REAL *g, const REAL *x, const REAL *w, REAL mean, REAL rstd, ptrdiff_t n,
                                  REAL *sum, REAL *dot) {
    NAME(lanes) sums[2] = {{0}, {0}}, dots[2] = {{0}, {0}}, h[2], xhat[2], scale;
    ptrdiff_t i = 0;
    for (; i + 32 <= n; i += 32) {
        memcpy(h, g + i, sizeof h);
        memcpy(xhat, x + i, sizeof xhat);
        for (int k = 0; k < 2; k++) {
            if (w) {
                memcpy(&scale, w + i + 16 * k, sizeof scale);
                h[k] *= scale;
            }
            sums[k] += h[k];
            dots[k] += h[k] * ((xhat[k] - mean) * rstd);
        }
    }
    sums[0] += sums[1];
    dots[0] += dots[1];
    REAL rest = 0, rest_dot = 0;
    for (; i < n; i++) {
        const REAL last = w ? g[i] * w[i] : g[i];
        rest += last;
        rest_dot += last * ((x[i] - mean) * rstd);
    }
    *sum = (NAME(lanes_total)(&sums[0]) + rest) / (REAL)n;
    *dot = (NAME(lanes_total)(&dots[0]) + rest_dot) / (REAL)n;
}

VECTOR static void NAME(norm_back_blocks)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(norm_back) *c = context;
    const ptrdiff_t n = c->n;
    for (ptrdiff_t block = begin; block < end; block++) {
        REAL *gw = c->sums + block * 2 * n, *gb = gw + n;
        const ptrdiff_t first = block * c->block, last = first + c->block < c->rows ? first + c->block : c->rows;
        memset(gw, 0, sizeof(REAL) * 2 * (size_t)n);
        for (ptrdiff_t row = first; row < last; row++) {
            const REAL *g = c->g + row * n, *x = c->x + row * n, *w = c->w;
            REAL *gx = c->gx + row * n, sum, dot;
            const REAL mean = c->mean[row], rstd = c->rstd[row];
            INDEPENDENT
            for (ptrdiff_t i = 0; i < n; i++) {
                gw[i] += g[i] * ((x[i] - mean) * rstd);
                gb[i] += g[i];
            }
            if (w) {
                NAME(norm_back_means)(g, x, w, mean, rstd, n, &sum, &dot);
                INDEPENDENT
                for (ptrdiff_t i = 0; i < n; i++) gx[i] = (g[i] * w[i] - sum - (x[i] - mean) * rstd * dot) * rstd;
            } else {
                NAME(norm_back_means)(g, x, NULL, mean, rstd, n, &sum, &dot);
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
