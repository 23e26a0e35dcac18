/* Changing resolution along one axis: each output a weighted sum of few inputs, by tables of places and weights. */
#ifndef REAL
#include "kernels/real.h"
#define KERNEL_FILE "resample.c"
#include "kernels/each_real.h"
#else

typedef struct {
    const REAL *x;
    REAL *y;
    const resample_table *table;
    ptrdiff_t inner;
} NAME(resampling);

/* Rows (outer, out) of y; each is `inner` items, or of adjacent outputs one where inner is 1. */
VECTOR static void NAME(resample_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(resampling) *c = context;
    const resample_table *t = c->table;
    const ptrdiff_t taps = t->taps, inner = c->inner;
    for (ptrdiff_t row = begin; row < end; row++) {
        const int64_t *at = t->at + row % t->out * taps;
        const double *weights = t->weights + row % t->out * taps;
        const REAL *x = c->x + row / t->out * t->n * inner;
        REAL *y = c->y + row * inner;
        for (ptrdiff_t k = 0; k < taps; k++) {
            const REAL *from = x + at[k] * inner, weight = (REAL)weights[k];
            if (k) {
                INDEPENDENT
                for (ptrdiff_t j = 0; j < inner; j++) y[j] += from[j] * weight;
            } else {
                INDEPENDENT
                for (ptrdiff_t j = 0; j < inner; j++) y[j] = from[j] * weight;
            }
        }
        if (!taps) memset(y, 0, sizeof(REAL) * (size_t)inner);
    }
}

/* Lines of adjacent items: outputs one after the other. */
VECTOR static void NAME(resample_lines)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(resampling) *c = context;
    const resample_table *t = c->table;
    const ptrdiff_t taps = t->taps;
    for (ptrdiff_t line = begin; line < end; line++) {
        const REAL *x = c->x + line * t->n;
        REAL *y = c->y + line * t->out;
        for (ptrdiff_t i = 0; i < t->out; i++) {
            const int64_t *at = t->at + i * taps;
            const double *weights = t->weights + i * taps;
            REAL sum = taps ? x[at[0]] * (REAL)weights[0] : 0;
            for (ptrdiff_t k = 1; k < taps; k++) sum += x[at[k]] * (REAL)weights[k];
            y[i] = sum;
        }
    }
}

void NAME(resample)(const REAL *x, REAL *y, ptrdiff_t outer, ptrdiff_t inner, const resample_table *table) {
    NAME(resampling) c = {x, y, table, inner};
    const double work = 2.0 * (double)(outer * inner) * (double)(table->out * (table->taps + 1));
    if (inner == 1) parallel_for(outer, 4 * work, NAME(resample_lines), &c);
    else parallel_for(outer * table->out, work, NAME(resample_rows), &c);
}

#endif
