/* Windows of images as columns, and columns added back to an image. */
#ifndef REAL
#include "kernels/fold.h"

#include "kernels/real.h"

/* The settings, and how many windows there are; 0 where they do not fit. */
static int settled(fold_plan *plan, ptrdiff_t height, ptrdiff_t width, const fold_settings *s) {
    plan->size[0] = height, plan->size[1] = width;
    plan->strides_there = 0;
    for (int k = 0; k < 4; k++)
        if (s->counts[k] != 2) return 0;
    for (int d = 0; d < 2; d++) {
        plan->kernel[d] = s->kernel[d], plan->dilation[d] = s->dilation[d];
        plan->padding[d] = s->padding[d], plan->stride[d] = s->stride[d];
        for (int k = 0; k < 4; k++)
            if ((k == 0 ? s->kernel : k == 1 ? s->dilation : k == 2 ? s->padding : s->stride)[d] > INT32_MAX) return 0;
        if (s->kernel[d] < 1 || s->dilation[d] < 1 || s->padding[d] < 0 || s->stride[d] < 1) return 0;
        const ptrdiff_t left = plan->size[d] + 2 * s->padding[d] - s->dilation[d] * (s->kernel[d] - 1) - 1;
        if (left < 0) return 0;
        plan->out[d] = left / s->stride[d] + 1;
    }
    return 1;
}

int unfold_planned(fold_plan *plan, const ptrdiff_t *shape, int ndim, const fold_settings *s) {
    if (ndim != 4 || !settled(plan, shape[2], shape[3], s)) return 0;
    plan->planes = shape[0] * shape[1];
    plan->ndim = 3;
    plan->shape[0] = shape[0];
    plan->shape[1] = shape[1] * plan->kernel[0] * plan->kernel[1];
    plan->shape[2] = plan->out[0] * plan->out[1];
    return 1;
}

int fold_planned(fold_plan *plan, const ptrdiff_t *shape, int ndim, const ptrdiff_t *sizes, int count, const fold_settings *s) {
    if (ndim != 3 || count != 2 || !settled(plan, sizes[0], sizes[1], s)) return 0;
    const ptrdiff_t window = plan->kernel[0] * plan->kernel[1];
    if (shape[1] % window || shape[2] != plan->out[0] * plan->out[1]) return 0;
    plan->planes = shape[0] * (shape[1] / window);
    plan->ndim = 4;
    plan->shape[0] = shape[0], plan->shape[1] = shape[1] / window;
    plan->shape[2] = sizes[0], plan->shape[3] = sizes[1];
    return 1;
}

/* The windows whose place `at` of the kernel lies in an axis: first..last-1. */
static void windows_inside(const fold_plan *p, int axis, ptrdiff_t at, ptrdiff_t *first, ptrdiff_t *last) {
    const ptrdiff_t begins = at * p->dilation[axis] - p->padding[axis], step = p->stride[axis], left = p->size[axis] - begins;
    *first = begins < 0 ? (-begins + step - 1) / step : 0;
    const ptrdiff_t end = left > 0 ? (left - 1) / step + 1 : 0;
    *last = end < p->out[axis] ? end : p->out[axis];
    if (*first > *last) *first = *last;
}

#define KERNEL_FILE "fold.c"
#include "kernels/each_real.h"
#else

VECTOR void NAME(unfold)(const fold_plan *p, const REAL *x, REAL *columns) {
    const ptrdiff_t wide = p->out[1], step = p->stride[1];
    for (ptrdiff_t plane = 0; plane < p->planes; plane++, x += p->size[0] * p->size[1])
        for (ptrdiff_t a = 0; a < p->kernel[0]; a++)
            for (ptrdiff_t b = 0; b < p->kernel[1]; b++) {
                ptrdiff_t top, low, left, right;
                windows_inside(p, 0, a, &top, &low);
                windows_inside(p, 1, b, &left, &right);
                for (ptrdiff_t i = 0; i < p->out[0]; i++, columns += wide) {
                    const ptrdiff_t row = i * p->stride[0] + a * p->dilation[0] - p->padding[0];
                    const REAL *from = x + row * p->size[1] + b * p->dilation[1] - p->padding[1];
                    const ptrdiff_t first = i < top || i >= low ? wide : left, last = first == wide ? wide : right;
                    for (ptrdiff_t j = 0; j < first; j++) columns[j] = 0;
                    if (step == 1)
                        for (ptrdiff_t j = first; j < last; j++) columns[j] = from[j];
                    else
                        for (ptrdiff_t j = first; j < last; j++) columns[j] = from[j * step];
                    for (ptrdiff_t j = last; j < wide; j++) columns[j] = 0;
                }
            }
}

VECTOR void NAME(fold)(const fold_plan *p, const REAL *columns, REAL *y) {
    const ptrdiff_t wide = p->out[1], step = p->stride[1];
    memset(y, 0, sizeof(REAL) * (size_t)(p->planes * p->size[0] * p->size[1]));
    for (ptrdiff_t plane = 0; plane < p->planes; plane++, y += p->size[0] * p->size[1])
        for (ptrdiff_t a = 0; a < p->kernel[0]; a++)
            for (ptrdiff_t b = 0; b < p->kernel[1]; b++, columns += p->out[0] * wide) {
                ptrdiff_t top, low, left, right;
                windows_inside(p, 0, a, &top, &low);
                windows_inside(p, 1, b, &left, &right);
                for (ptrdiff_t i = top; i < low; i++) {
                    const ptrdiff_t row = i * p->stride[0] + a * p->dilation[0] - p->padding[0];
                    const REAL *from = columns + i * wide;
                    REAL *to = y + row * p->size[1] + b * p->dilation[1] - p->padding[1];
                    INDEPENDENT
                    for (ptrdiff_t j = left; j < right; j++) to[j * step] += from[j];
                }
            }
}

#endif
