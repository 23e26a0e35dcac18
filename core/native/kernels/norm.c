/* Layer norm over the last axis, forward and backward.

   Forward: y = (x - mean) rstd w + b with rstd = 1 / sqrt(variance + eps); the variance from a second
   pass over the row, which is in cache, so that nothing cancels. Backward, with xhat = (x - mean) rstd
   and h = g w: gx = rstd (h - mean(h) - xhat mean(h xhat)), gw = sum(g xhat), gb = sum(g); the sums over
   rows are taken in blocks whose number depends on the shape alone.
   Source: Ba, Kiros, Hinton, Layer Normalization, arXiv:1607.06450. */
#ifndef REAL
#include "runtime/paths.h"
#include "kernels/real.h"

#define KERNEL_FILE "norm.c"
#include "kernels/each_real.h"
#else
#include "kernels/lines.h"
#include "kernels/streaming_stores.h"

typedef struct {
    const REAL *x, *w, *b;
    REAL *y, *mean, *rstd;
    ptrdiff_t n;
    REAL eps;
    int past; /* whether rows are made in a line and written by streaming stores */
} NAME(norm);

/* The rows' sums are made one after another, then their squares', so that no row waits for its own. */
INLINE void NAME(norm_some)(const NAME(norm) * c, ptrdiff_t row, const int count, REAL *line) {
    const ptrdiff_t n = c->n;
    const REAL *x = c->x + row * n, *w = c->w, *b = c->b;
    REAL *mean = c->mean + row, *rstd = c->rstd + row;
    for (int r = 0; r < count; r++) mean[r] = NAME(sum_line)(x + r * n, n) / (REAL)n;
    for (int r = 0; r < count; r++) rstd[r] = NAME(squares_line)(x + r * n, mean[r], n) / (REAL)n;
    for (int r = 0; r < count; r++) rstd[r] = 1 / NAME(sm_sqrt)(rstd[r] + c->eps);
    for (int r = 0; r < count; r++) {
        const REAL *from = x + r * n, away = mean[r], scale = rstd[r];
        REAL *y = c->past ? line : c->y + (row + r) * n;
        if (w && b) {
            INDEPENDENT
            for (ptrdiff_t i = 0; i < n; i++) y[i] = (from[i] - away) * scale * w[i] + b[i];
        } else {
            for (ptrdiff_t i = 0; i < n; i++) y[i] = (from[i] - away) * scale * (w ? w[i] : 1) + (b ? b[i] : 0);
        }
        if (c->past) NAME(line_to)(c->y + (row + r) * n, line, n);
    }
}

VECTOR static void NAME(norm_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(norm) *c = context;
    ptrdiff_t row = begin;
    _Alignas(64) REAL line[NAME(LINE)];
    for (; row + 4 <= end; row += 4) NAME(norm_some)(c, row, 4, line);
    for (; row < end; row++) NAME(norm_some)(c, row, 1, line);
    if (c->past) past_cache_done();
}

void NAME(layer_norm_forward)(const REAL *x, const REAL *w, const REAL *b, REAL *y, REAL *mean, REAL *rstd,
                              ptrdiff_t rows, ptrdiff_t n, double eps) {
    NAME(norm) context = {x, w, b, y, mean, rstd, n, (REAL)eps, NAME(goes_past)(rows, n)};
    parallel_for_as(choice_for(CHOOSE_LAYER_NORM, sizeof(REAL), rows, n, 1, 1), rows, 6 * (double)(rows * n),
                    NAME(norm_rows), &context);
}

typedef struct {
    const REAL *g, *x, *mean, *rstd, *w;
    REAL *gx, *sums; /* sums (blocks, 2, n): gw and gb of each block of rows */
    ptrdiff_t rows, n, block;
    int past;
} NAME(norm_back);

/* `count` rows side by side: their sums wait for one another less, and gw and gb are read and written once for all. */
INLINE void NAME(norm_back_rows)(const NAME(norm_back) * c, ptrdiff_t row, const int count, REAL *gw, REAL *gb,
                                 REAL *line) {
    enum { MOST = 4 };
    const ptrdiff_t n = c->n;
    const REAL *g = c->g + row * n, *x = c->x + row * n, *mean = c->mean + row, *rstd = c->rstd + row, *w = c->w;
    NAME(lanes) sums[MOST], dots[MOST];
    REAL rest[MOST] = {0}, rest_dot[MOST] = {0}; /* of h and of h xhat, h = g w or g */
    memset(sums, 0, sizeof sums);
    memset(dots, 0, sizeof dots);
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16) {
        NAME(lanes) in_gw = NAME(lanes_at)(gw + i), in_gb = NAME(lanes_at)(gb + i);
        _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) {
            const NAME(lanes) own = NAME(lanes_at)(g + r * n + i);
            const NAME(lanes) xhat = (NAME(lanes_at)(x + r * n + i) - mean[r]) * rstd[r];
            const NAME(lanes) h = w ? own * NAME(lanes_at)(w + i) : own;
            in_gw += own * xhat;
            in_gb += own;
            sums[r] += h;
            dots[r] += h * xhat;
        }
        memcpy(gw + i, &in_gw, sizeof in_gw);
        memcpy(gb + i, &in_gb, sizeof in_gb);
    }
    for (int r = 0; r < count && i < n; r++) {
        const REAL *gr = g + r * n, *xr = x + r * n, mean_r = mean[r], rstd_r = rstd[r];
        INDEPENDENT
        for (ptrdiff_t k = i; k < n; k++) {
            gw[k] += gr[k] * ((xr[k] - mean_r) * rstd_r);
            gb[k] += gr[k];
        }
        for (ptrdiff_t k = i; k < n; k++) {
            const REAL h = w ? gr[k] * w[k] : gr[k];
            rest[r] += h;
            rest_dot[r] += h * ((xr[k] - mean_r) * rstd_r);
        }
    }
    for (int r = 0; r < count; r++) {
        const REAL sum = (NAME(lanes_total)(&sums[r]) + rest[r]) / (REAL)n;
        const REAL dot = (NAME(lanes_total)(&dots[r]) + rest_dot[r]) / (REAL)n;
        const REAL *gr = g + r * n, *xr = x + r * n, mean_r = mean[r], rstd_r = rstd[r], across = rstd_r * dot;
        REAL *gx = c->past ? line : c->gx + (row + r) * n;
        if (w) {
            INDEPENDENT
            for (i = 0; i < n; i++) gx[i] = (gr[i] * w[i] - sum - (xr[i] - mean_r) * across) * rstd_r;
        } else {
            INDEPENDENT
            for (i = 0; i < n; i++) gx[i] = (gr[i] - sum - (xr[i] - mean_r) * across) * rstd_r;
        }
        if (c->past) NAME(line_to)(c->gx + (row + r) * n, line, n);
    }
}

VECTOR static void NAME(norm_back_blocks)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(norm_back) *c = context;
    const ptrdiff_t n = c->n;
    _Alignas(64) REAL line[NAME(LINE)];
    for (ptrdiff_t block = begin; block < end; block++) {
        REAL *gw = c->sums + block * 2 * n, *gb = gw + n;
        const ptrdiff_t last = (block + 1) * c->block < c->rows ? (block + 1) * c->block : c->rows;
        ptrdiff_t row = block * c->block;
        memset(gw, 0, sizeof(REAL) * 2 * (size_t)n);
        for (; row + 4 <= last; row += 4) NAME(norm_back_rows)(c, row, 4, gw, gb, line);
        for (; row < last; row++) NAME(norm_back_rows)(c, row, 1, gw, gb, line);
    }
    if (c->past) past_cache_done();
}

int NAME(layer_norm_backward)(const REAL *g, const REAL *x, const REAL *mean, const REAL *rstd, const REAL *w, REAL *gx,
                              REAL *gw, REAL *gb, ptrdiff_t rows, ptrdiff_t n) {
    memset(gw, 0, sizeof(REAL) * (size_t)n);
    memset(gb, 0, sizeof(REAL) * (size_t)n);
    if (rows == 0 || n == 0) return 1;
    /* at most 64 blocks, each worth a thread's while */
    const ptrdiff_t wanted = (rows + 63) / 64, least = n < 8192 ? 8192 / n : 1, block = wanted > least ? wanted : least;
    const ptrdiff_t blocks = (rows + block - 1) / block;
    if (blocks > 1) took(PATH_norm_back_blocks);
    REAL *sums = malloc(sizeof(REAL) * 2 * (size_t)(blocks * n));
    if (!sums) return 0;
    NAME(norm_back) context = {g, x, mean, rstd, w, gx, sums, rows, n, block, gx != g && gx != x && NAME(goes_past)(rows, n)};
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
