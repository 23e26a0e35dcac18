/* Sums of windows of planes, and each item added to all places of its window: the mean's pooling and its way back.

   Rows first, then columns, each in their order: as many additions as a window is high and wide, not as it has items. */
#ifndef REAL
#include "runtime/paths.h"
#include "kernels/real.h"
#include "kernels/window_plan.h"

enum { SPAN = 2048 }; /* items of a row at a time */

#define KERNEL_FILE "windows.c"
#include "kernels/each_real.h"
#else

typedef struct {
    const REAL *x;
    REAL *y;
    const pool_window *window;
} NAME(windows);

/* to (count,) = the rows of `x` that are `width` apart, added. */
INLINE void NAME(rows_added)(const REAL *x, ptrdiff_t width, ptrdiff_t rows, REAL *to, ptrdiff_t count) {
    if (!rows) memset(to, 0, sizeof(REAL) * (size_t)count);
    else memcpy(to, x, sizeof(REAL) * (size_t)count);
    for (ptrdiff_t a = 1; a < rows; a++) {
        const REAL *row = x + a * width;
        INDEPENDENT
        for (ptrdiff_t i = 0; i < count; i++) to[i] += row[i];
    }
}

/* Rows of y, over all planes. */
VECTOR static void NAME(sum_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(windows) *c = context;
    const pool_window *w = c->window;
    const ptrdiff_t height = w->size[0], width = w->size[1], wide = w->out[1], step = w->stride[1], taps = w->kernel[1];
    const ptrdiff_t at_once = (SPAN - taps) / step + 1;
    if (wide > at_once) took(PATH_window_spans);
    REAL line[SPAN];
    for (ptrdiff_t row = begin; row < end; row++) {
        const ptrdiff_t top = row % w->out[0] * w->stride[0] - w->padding[0], low = top + w->kernel[0];
        const ptrdiff_t first = top < 0 ? 0 : top, last = low < height ? low : height;
        const REAL *x = c->x + (row / w->out[0] * height + first) * width;
        for (ptrdiff_t from = 0; from < wide; from += at_once) {
            const ptrdiff_t count = wide - from < at_once ? wide - from : at_once;
            const ptrdiff_t left = from * step - w->padding[1], span = (count - 1) * step + taps;
            const ptrdiff_t begins = left < 0 ? 0 : left, ends = left + span < width ? left + span : width;
            REAL *y = c->y + row * wide + from;
            if (begins > left || ends < left + span) memset(line, 0, sizeof(REAL) * (size_t)span);
            if (ends > begins) NAME(rows_added)(x + begins, width, last > first ? last - first : 0, line + (begins - left), ends - begins);
            for (ptrdiff_t j = 0; j < count; j++) y[j] = line[j * step];
            for (ptrdiff_t b = 1; b < taps; b++) {
                INDEPENDENT
                for (ptrdiff_t j = 0; j < count; j++) y[j] += line[j * step + b];
            }
        }
    }
}

void NAME(window_sum)(const REAL *x, REAL *y, ptrdiff_t planes, const pool_window *w) {
    NAME(windows) c = {x, y, w};
    const ptrdiff_t rows = planes * w->out[0];
    parallel_for(rows, 2.0 * (double)rows * (double)(w->size[1] * w->kernel[0] + w->out[1] * w->kernel[1]), NAME(sum_rows), &c);
}

/* Rows of the result (planes, size), from x (planes, out). */
VECTOR static void NAME(spread_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(windows) *c = context;
    const pool_window *w = c->window;
    const ptrdiff_t high = w->out[0], wide = w->out[1], width = w->size[1], step = w->stride[1];
    if (wide > SPAN) took(PATH_window_spread_spans);
    REAL line[SPAN];
    for (ptrdiff_t row = begin; row < end; row++) {
        /* the windows that have this row: top <= row < top + kernel, top = i * stride - padding */
        const ptrdiff_t at = row % w->size[0] + w->padding[0], past = at - w->kernel[0];
        const ptrdiff_t first = past < 0 ? 0 : past / w->stride[0] + 1;
        const ptrdiff_t last = at / w->stride[0] + 1 < high ? at / w->stride[0] + 1 : high;
        REAL *y = c->y + row * width;
        memset(y, 0, sizeof(REAL) * (size_t)width);
        if (first >= last) continue;
        const REAL *x = c->x + (row / w->size[0] * high + first) * wide;
        for (ptrdiff_t from = 0; from < wide; from += SPAN) {
            const ptrdiff_t count = wide - from < SPAN ? wide - from : SPAN;
            NAME(rows_added)(x + from, wide, last - first, line, count);
            for (ptrdiff_t b = 0; b < w->kernel[1]; b++) {
                const ptrdiff_t left = from * step - w->padding[1] + b; /* 0 <= left + j * step < width */
                const ptrdiff_t low = left < 0 ? (-left + step - 1) / step : 0;
                const ptrdiff_t most = left >= width ? 0 : (width - 1 - left) / step + 1;
                const ptrdiff_t ends = most < count ? most : count;
                INDEPENDENT
                for (ptrdiff_t j = low; j < ends; j++) y[left + j * step] += line[j];
            }
        }
    }
}

void NAME(window_spread)(const REAL *x, REAL *y, ptrdiff_t planes, const pool_window *w) {
    NAME(windows) c = {x, y, w};
    const ptrdiff_t rows = planes * w->size[0], taps = w->kernel[0] / w->stride[0] + 1;
    parallel_for(rows, 2.0 * (double)rows * (double)(w->out[1] * (taps + w->kernel[1])), NAME(spread_rows), &c);
}

/* Over the planes, then over the rows that their results make, where there are three dimensions. */
#define PLANNED(name, items_of_plane)                                                              \
    int NAME(name##_planned)(const window_plan *plan, const REAL *x, REAL *y) {                    \
        const pool_window *w = &plan->window, *d = &plan->depth;                                   \
        if (!d->size[0]) return NAME(name)(x, y, plan->planes, w), 1;                              \
        REAL *flat = malloc(sizeof(REAL) * (size_t)(plan->planes * d->size[1]));                   \
        if (!flat) return 0;                                                                       \
        NAME(name)(x, flat, plan->planes, w);                                                      \
        NAME(name)(flat, y, plan->planes / items_of_plane, d);                                     \
        free(flat);                                                                                \
        return 1;                                                                                  \
    }
PLANNED(window_sum, d->size[0])
PLANNED(window_spread, d->out[0])
#undef PLANNED

#endif
