/* Softmax and its logarithm over the last axis, forward and backward.

   Forward: y = e^(x - max x) / sum; three passes over a row that stays in cache, one read and one write
   of memory. Backward: gx = y (g - sum(g y)); for the logarithm gx = g - e^y sum(g). */
#ifndef REAL
#include "kernels/real.h"

#define KERNEL_FILE "softmax.c"
#include "kernels/each_real.h"
#else
#include "kernels/lines.h"
#include "kernels/streaming_stores.h"
#include "kernels/rows.h"

typedef struct {
    const REAL *x, *y;
    REAL *out;
    ptrdiff_t n;
    int past; /* whether rows are made in a line and written by streaming stores */
} NAME(rows);

INLINE void NAME(row_done)(const NAME(rows) * c, ptrdiff_t row, const REAL *line) {
    if (c->past) NAME(line_to)(c->out + row * c->n, line, c->n);
}

VECTOR static void NAME(softmax_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    REAL in[NAME(PAD)], out[NAME(PAD)];
    _Alignas(64) REAL line[NAME(LINE)];
    for (ptrdiff_t row = begin; row < end; row++) {
        ptrdiff_t count;
        const REAL *x = NAME(pad_row)(c->x + row * c->n, c->n, in, &count);
        REAL *y = c->past ? line : c->out + row * c->n, *e = x == in ? out : y, sum = 0;
        const REAL largest = NAME(row_max)(x, count);
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = 0; i < count; i++) {
            e[i] = NAME(sm_exp_falling)(x[i] - largest);
            sum += e[i];
        }
        const REAL scale = 1 / sum;
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) y[i] = e[i] * scale;
        NAME(row_done)(c, row, line);
    }
    if (c->past) past_cache_done();
}

VECTOR static void NAME(softmax_short_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    const ptrdiff_t n = c->n;
    NAME(side_rows) s;
    for (ptrdiff_t row = begin; row < end; row += NAME(SIDE)) {
        const ptrdiff_t count = end - row < NAME(SIDE) ? end - row : NAME(SIDE);
        REAL *y = c->out + row * n;
        NAME(side_by_side)(&s, c->x + row * n, count, n);
        for (int k = 0; k < NAME(SIDE); k++) s.sum[k] = 1 / s.sum[k];
        for (ptrdiff_t i = 0; i < n; i++)
            for (int k = 0; k < NAME(SIDE); k++) s.e[i][k] *= s.sum[k];
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0; i < n; i++) y[k * n + i] = s.e[i][k];
    }
}

VECTOR static void NAME(log_softmax_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    REAL in[NAME(PAD)];
    _Alignas(64) REAL line[NAME(LINE)];
    for (ptrdiff_t row = begin; row < end; row++) {
        ptrdiff_t count;
        const REAL *x = NAME(pad_row)(c->x + row * c->n, c->n, in, &count);
        REAL *y = c->past ? line : c->out + row * c->n;
        const REAL largest = NAME(row_max)(x, count), log_sum = NAME(sm_log)(NAME(row_exp_sum)(x, largest, count));
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) y[i] = (x[i] - largest) - log_sum;
        NAME(row_done)(c, row, line);
    }
    if (c->past) past_cache_done();
}

VECTOR static void NAME(softmax_back_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    _Alignas(64) REAL line[NAME(LINE)];
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *g = c->x + row * c->n, *y = c->y + row * c->n;
        REAL *gx = c->past ? line : c->out + row * c->n;
        const REAL dot = NAME(dot_line)(g, y, c->n);
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) gx[i] = y[i] * (g[i] - dot);
        NAME(row_done)(c, row, line);
    }
    if (c->past) past_cache_done();
}

VECTOR static void NAME(log_softmax_back_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    REAL in[NAME(PAD)];
    _Alignas(64) REAL line[NAME(LINE)];
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *g = c->x + row * c->n, *y = c->y + row * c->n;
        REAL *gx = c->past ? line : c->out + row * c->n;
        const REAL sum = NAME(sum_line)(g, c->n);
        ptrdiff_t count;
        y = NAME(pad_row)(y, c->n, in, &count);
        REAL *p = y == in ? in : gx;
        INDEPENDENT
        for (ptrdiff_t i = 0; i < count; i++) p[i] = NAME(sm_exp_falling)(y[i]);
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) gx[i] = g[i] - p[i] * sum;
        NAME(row_done)(c, row, line);
    }
    if (c->past) past_cache_done();
}

void NAME(softmax_forward)(const REAL *x, REAL *y, ptrdiff_t rows, ptrdiff_t n) {
    NAME(rows) context = {x, NULL, y, n, NAME(goes_past)(rows, n)};
    parallel_for_as(choice_for(CHOOSE_SOFTMAX, sizeof(REAL), rows, n, 1, 1), rows, 8 * (double)(rows * n),
                    NAME(are_short)(rows, n) ? NAME(softmax_short_rows) : NAME(softmax_rows), &context);
}

void NAME(log_softmax_forward)(const REAL *x, REAL *y, ptrdiff_t rows, ptrdiff_t n) {
    NAME(rows) context = {x, NULL, y, n, NAME(goes_past)(rows, n)};
    parallel_for_as(choice_for(CHOOSE_SOFTMAX, sizeof(REAL), rows, n, 1, 1), rows, 8 * (double)(rows * n),
                    NAME(log_softmax_rows), &context);
}

void NAME(softmax_backward)(const REAL *g, const REAL *y, REAL *gx, ptrdiff_t rows, ptrdiff_t n) {
    NAME(rows) context = {g, y, gx, n, gx != g && gx != y && NAME(goes_past)(rows, n)};
    parallel_for_as(choice_for(CHOOSE_SOFTMAX_BACKWARD, sizeof(REAL), rows, n, 1, 1), rows, 4 * (double)(rows * n),
                    NAME(softmax_back_rows), &context);
}

void NAME(log_softmax_backward)(const REAL *g, const REAL *y, REAL *gx, ptrdiff_t rows, ptrdiff_t n) {
    NAME(rows) context = {g, y, gx, n, gx != g && gx != y && NAME(goes_past)(rows, n)};
    parallel_for_as(choice_for(CHOOSE_SOFTMAX_BACKWARD, sizeof(REAL), rows, n, 1, 1), rows, 8 * (double)(rows * n),
                    NAME(log_softmax_back_rows), &context);
}

#endif
