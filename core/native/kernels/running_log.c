/* Running logarithms of sums of exponentials. Each item waits for the one before it, a whole exponential and logarithm; so as
   many rows as a vector has lanes go side by side, turned in blocks of columns. */
#ifndef REAL
#include "kernels/copy.h"
#include "kernels/real.h"
#include "kernels/running.h"

enum { LANES = 16, COLUMNS = 128 };
#define LOG_2 0.693147180559945309417

#define KERNEL_FILE "running_log.c"
#include "kernels/each_real.h"
#else

typedef struct {
    const REAL *x;
    REAL *y;
    ptrdiff_t outer, n, inner;
} NAME(log_job);

/* log(e^a + e^b); of equals, infinite ones too, without a difference. */
INLINE REAL NAME(log_joined)(REAL a, REAL b) {
    const REAL top = a > b ? a : b, low = a > b ? b : a;
    return top == low ? top + (REAL)LOG_2 : top + NAME(sm_log1p)(NAME(sm_exp)(low - top));
}

VECTOR static void NAME(log_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(log_job) *j = context;
    const ptrdiff_t n = j->n, item = sizeof(REAL), row = n * item;
    REAL turned[COLUMNS * LANES], last[LANES];
    for (ptrdiff_t block = begin; block < end; block++) {
        const ptrdiff_t first = block * LANES, left = j->outer - first, rows = left < LANES ? left : LANES;
        memset(turned, 0, sizeof turned);
        for (ptrdiff_t from = 0; from < n; from += COLUMNS) {
            const ptrdiff_t columns = n - from < COLUMNS ? n - from : COLUMNS, start = first * n + from;
            exchange_items((char *)turned, LANES * item, (const char *)(j->x + start), row, rows, columns, item);
            for (ptrdiff_t k = 0; k < columns; k++) {
                REAL *const now = turned + k * LANES;
                if (from + k)
                    for (int r = 0; r < LANES; r++) now[r] = NAME(log_joined)(last[r], now[r]);
                for (int r = 0; r < LANES; r++) last[r] = now[r];
            }
            exchange_items((char *)(j->y + start), row, (const char *)turned, LANES * item, columns, rows, item);
        }
    }
}

VECTOR static void NAME(log_planes)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(log_job) *j = context;
    const ptrdiff_t inner = j->inner;
    for (ptrdiff_t plane = begin; plane < end; plane++) {
        const REAL *x = j->x + plane * j->n * inner;
        REAL *y = j->y + plane * j->n * inner;
        memcpy(y, x, sizeof(REAL) * (size_t)inner);
        for (ptrdiff_t k = 1; k < j->n; k++) {
            x += inner, y += inner;
            INDEPENDENT
            for (ptrdiff_t i = 0; i < inner; i++) y[i] = NAME(log_joined)(y[i - inner], x[i]);
        }
    }
}

void NAME(running_log)(const REAL *x, REAL *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner) {
    NAME(log_job) job = {x, y, outer, n, inner};
    const double work = 20.0 * (double)(outer * n) * (double)inner;
    if (inner == 1) parallel_for((outer + LANES - 1) / LANES, work, NAME(log_rows), &job);
    else parallel_for(outer, work, NAME(log_planes), &job);
}

#endif
