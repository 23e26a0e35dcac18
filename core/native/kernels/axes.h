/* Reductions over any axes of an array without gaps, and back (axes.c). */
#ifndef GRADLAB_AXES_H
#define GRADLAB_AXES_H

#include <stdint.h>

#include "kernels/strided.h"

enum { AXES = 64 };

/* The axes from the outermost in memory to the innermost; 1 when they fill memory without a gap. */
int memory_order(const strided *a, int *order);

/* Whether axes stand side by side, in whatever order. */
int are_neighbours(const ptrdiff_t *axes, int count);

/* A reduction that is to be made: the result's shape and strides (where it is not in row-major order), and the axes of x as
   they lie in memory, those that are reduced or kept together being one. */
typedef struct {
    int ndim, strides_there, count;
    ptrdiff_t shape[AXES], strides[AXES], reduced; /* reduced: items that become one */
    struct {
        ptrdiff_t size;
        int reduced;
    } groups[AXES + 1];
} reduce_plan;

/* 0 for axes that x does not have. x is without gaps. */
int reduce_planned(reduce_plan *plan, const strided *x, const ptrdiff_t *axes, int count, int keepdim);

/* false without memory; where x has no items, zeros */
int reduce_axes_f32(int kind, int mean, const reduce_plan *plan, const float *x, float *y);
int reduce_axes_f64(int kind, int mean, const reduce_plan *plan, const double *x, double *y);
int reduce_axes_i64(int kind, int mean, const reduce_plan *plan, const int64_t *x, int64_t *y);

/* What comes back from a sum: g repeated along the axes of `shape` that were reduced; `count` of its items came of one. */
typedef struct {
    ptrdiff_t steps[AXES], count;
} spread_plan;
int spread_planned(spread_plan *plan, const strided *g, const ptrdiff_t *shape, int ndim, const ptrdiff_t *axes, int count,
                   int keepdim);
void spread_f32(const spread_plan *plan, int mean, const void *g, float *y, const ptrdiff_t *shape, int ndim);
void spread_f64(const spread_plan *plan, int mean, const void *g, double *y, const ptrdiff_t *shape, int ndim);

#endif
