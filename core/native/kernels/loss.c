/* Cross entropy of class indices, forward and backward.

   With p = e^(x - lse), weight w and smoothing s over C classes:
   loss = (1 - s) w[t] (lse - x[t]) + s/C sum_c w[c] (lse - x[c]);
   gx[c] = g (p[c] ((1 - s) w[t] + s/C sum w) - (1 - s) w[t] [c = t] - s/C w[c]).
   The forward reads x twice from cache and writes one number a row; p is made anew in the backward. */
#ifndef REAL
#include "kernels/real.h"

static ptrdiff_t bad_target(const int64_t *target, ptrdiff_t rows, ptrdiff_t classes, int64_t ignore_index) {
    for (ptrdiff_t row = 0; row < rows; row++)
        if ((target[row] < 0 || target[row] >= classes) && target[row] != ignore_index) return row;
    return -1;
}

#define KERNEL_FILE "loss.c"
#include "kernels/each_real.h"
#else
#include "kernels/rows.h"

typedef struct {
    const REAL *g, *x, *weight, *lse_in;
    const int64_t *target;
    REAL *loss, *lse, *gx;
    ptrdiff_t classes;
    int64_t ignore_index;
    REAL smoothing, weight_sum;
} NAME(loss);

static inline __attribute__((always_inline)) void NAME(loss_of)(const NAME(loss) * c, ptrdiff_t row, REAL largest,
                                                                REAL log_sum) {
    const REAL *x = c->x + row * c->classes;
    c->lse[row] = largest + log_sum;
    if (c->target[row] == c->ignore_index) {
        c->loss[row] = 0;
        return;
    }
    const ptrdiff_t t = (ptrdiff_t)c->target[row];
    /* (largest - x) + log_sum keeps digits that lse - x would lose */
    REAL loss = ((largest - x[t]) + log_sum) * (c->weight ? c->weight[t] : 1) * (1 - c->smoothing);
    if (c->smoothing > 0) {
        REAL smooth = 0;
        if (c->weight) {
#pragma omp simd reduction(+ : smooth)
            for (ptrdiff_t i = 0; i < c->classes; i++) smooth += c->weight[i] * ((largest - x[i]) + log_sum);
        } else {
#pragma omp simd reduction(+ : smooth)
            for (ptrdiff_t i = 0; i < c->classes; i++) smooth += (largest - x[i]) + log_sum;
        }
        loss += smooth * c->smoothing / (REAL)c->classes;
    }
    c->loss[row] = loss;
}

VECTOR static void NAME(loss_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(loss) *c = context;
    REAL in[NAME(PAD)];
    for (ptrdiff_t row = begin; row < end; row++) {
        ptrdiff_t count;
        const REAL *x = NAME(pad_row)(c->x + row * c->classes, c->classes, in, &count);
        const REAL largest = NAME(row_max)(x, count);
        NAME(loss_of)(c, row, largest, NAME(sm_log)(NAME(row_exp_sum)(x, largest, count)));
    }
}

VECTOR static void NAME(loss_short_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(loss) *c = context;
    NAME(side_rows) s;
    for (ptrdiff_t row = begin; row < end; row += NAME(SIDE)) {
        const ptrdiff_t count = end - row < NAME(SIDE) ? end - row : NAME(SIDE);
        NAME(side_by_side)(&s, c->x + row * c->classes, count, c->classes);
        for (int k = 0; k < NAME(SIDE); k++) s.sum[k] = NAME(sm_log)(s.sum[k]);
        for (ptrdiff_t k = 0; k < count; k++) NAME(loss_of)(c, row + k, s.largest[k], s.sum[k]);
    }
}

VECTOR static void NAME(loss_back_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(loss) *c = context;
    REAL in[NAME(PAD)];
    for (ptrdiff_t row = begin; row < end; row++) {
        ptrdiff_t count;
        const REAL *x = NAME(pad_row)(c->x + row * c->classes, c->classes, in, &count);
        REAL *gx = c->gx + row * c->classes, *p = x == in ? in : gx;
        if (c->target[row] == c->ignore_index) {
            memset(gx, 0, sizeof(REAL) * (size_t)c->classes);
            continue;
        }
        const ptrdiff_t t = (ptrdiff_t)c->target[row];
        const REAL g = c->g[row], lse = c->lse_in[row], share = c->smoothing / (REAL)c->classes;
        const REAL own = (1 - c->smoothing) * (c->weight ? c->weight[t] : 1);
        const REAL scale = g * (own + share * c->weight_sum), even = g * share;
        INDEPENDENT
        for (ptrdiff_t i = 0; i < count; i++) p[i] = NAME(sm_exp_falling)(x[i] - lse);
        if (c->weight) {
            INDEPENDENT
            for (ptrdiff_t i = 0; i < c->classes; i++) gx[i] = p[i] * scale - even * c->weight[i];
        } else {
            INDEPENDENT
            for (ptrdiff_t i = 0; i < c->classes; i++) gx[i] = p[i] * scale - even;
        }
        gx[t] -= g * own;
    }
}

ptrdiff_t NAME(cross_entropy_forward)(const REAL *x, const int64_t *target, const REAL *weight, REAL *loss, REAL *lse,
                                      ptrdiff_t rows, ptrdiff_t classes, loss_options options) {
    const ptrdiff_t bad = bad_target(target, rows, classes, options.ignore_index);
    if (bad >= 0) return bad;
    NAME(loss)
    context = {.x = x,
               .weight = weight,
               .target = target,
               .loss = loss,
               .lse = lse,
               .classes = classes,
               .ignore_index = options.ignore_index,
               .smoothing = (REAL)options.smoothing};
    parallel_for(rows, 8 * (double)(rows * classes),
                 NAME(are_short)(rows, classes) ? NAME(loss_short_rows) : NAME(loss_rows), &context);
    return -1;
}

ptrdiff_t NAME(cross_entropy_backward)(const REAL *g, const REAL *x, const REAL *lse, const int64_t *target,
                                       const REAL *weight, REAL *gx, ptrdiff_t rows, ptrdiff_t classes,
                                       loss_options options) {
    const ptrdiff_t bad = bad_target(target, rows, classes, options.ignore_index);
    if (bad >= 0) return bad;
    REAL weight_sum = (REAL)classes;
    if (weight) {
        weight_sum = 0;
        for (ptrdiff_t i = 0; i < classes; i++) weight_sum += weight[i];
    }
    NAME(loss)
    context = {.g = g,
               .x = x,
               .weight = weight,
               .lse_in = lse,
               .target = target,
               .gx = gx,
               .classes = classes,
               .ignore_index = options.ignore_index,
               .smoothing = (REAL)options.smoothing,
               .weight_sum = weight_sum};
    parallel_for(rows, 8 * (double)(rows * classes), NAME(loss_back_rows), &context);
    return -1;
}

#endif
