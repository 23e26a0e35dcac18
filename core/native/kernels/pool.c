/* The greatest of each window of planes, where it stood, and the way back.

   A row of the result is taken tap by tap, so that its items are one loop with selects. Of equal ones the first stands; a
   NaN is greater than all. The way back adds a plane's gradients in their order, so that the bits depend on nothing. */
#ifndef REAL
#include "runtime/paths.h"
#include "kernels/real.h"
#include "kernels/window_plan.h"

/* Items of a row at a time; rows so short go item by item; items of which a loop of known length is made. */
enum { STRETCH = 256, SHORT_ROW = 24, AT_ONCE = 16 };

/* The first place of a window that lies in the plane, of taps that are `dilation` apart. */
static ptrdiff_t first_inside(ptrdiff_t start, ptrdiff_t dilation, ptrdiff_t size) {
    const ptrdiff_t at = start < 0 ? (dilation - -start % dilation) % dilation : start;
    return at < size ? at : size - 1;
}

#define KERNEL_FILE "pool.c"
#include "kernels/each_real.h"
#else

typedef struct {
    const REAL *x;
    REAL *y;
    int64_t *places;
    const pool_window *window;
    ptrdiff_t items; /* of x */
} NAME(pooling);

/* best, where (count,) = the greater of themselves and a tap: x (count,) `stride` apart, its places from `place` on. */
INLINE void NAME(take_tap)(REAL *best, int32_t *where, const REAL *x, ptrdiff_t stride, int32_t place, ptrdiff_t count) {
    INDEPENDENT
    for (ptrdiff_t j = 0; j < count; j++) {
        const REAL v = x[j * stride];
        const int newer = (v > best[j]) | ((v != v) & (best[j] == best[j]));
        best[j] = newer ? v : best[j];
        where[j] = newer ? place + (int32_t)(j * stride) : where[j];
    }
}

/* A short row of the result whose windows lie in the plane: item by item, for which no loop over items would pay. x is the
   plane, `start` the place of the first window. */
INLINE void NAME(short_row)(const REAL *x, ptrdiff_t start, ptrdiff_t width, const pool_window *w, ptrdiff_t high,
                            ptrdiff_t wide, REAL *y, int64_t *places) {
    for (ptrdiff_t j = 0; j < w->out[1]; j++) {
        ptrdiff_t at = start + j * w->stride[1], found = at;
        REAL best = x[at];
        for (ptrdiff_t a = 0; a < high; a++, at += w->dilation[0] * width)
            for (ptrdiff_t b = 0; b < wide; b++) {
                const REAL v = x[at + b * w->dilation[1]];
                const int newer = (v > best) | ((v != v) & (best == best));
                best = newer ? v : best;
                found = newer ? at + b * w->dilation[1] : found;
            }
        y[j] = best;
        places[j] = found;
    }
}

/* Windows of two by two that lie side by side, the commonest: AT_ONCE of a row, from two rows of x. Without a branch, for
   which of four is the greatest no processor foresees (twenty times slower on noise). The pragmas keep gcc from unrolling
   loops of sixteen turns before it could make vectors of them. */
INLINE void NAME(four_of_each)(const REAL *top, const REAL *low, int32_t place, int32_t width, REAL *best,
                               int32_t *where) {
    REAL taps[4][AT_ONCE];
#pragma omp simd
    for (int j = 0; j < AT_ONCE; j++) taps[0][j] = top[2 * j], taps[1][j] = top[2 * j + 1];
#pragma omp simd
    for (int j = 0; j < AT_ONCE; j++) taps[2][j] = low[2 * j], taps[3][j] = low[2 * j + 1];
#pragma omp simd
    for (int j = 0; j < AT_ONCE; j++) best[j] = taps[0][j], where[j] = place + 2 * j;
    for (int t = 1; t < 4; t++) {
        const int32_t at = place + (t & 2 ? width : 0) + (t & 1);
#pragma omp simd
        for (int j = 0; j < AT_ONCE; j++) {
            const REAL v = taps[t][j];
            const int newer = (v > best[j]) | ((v != v) & (best[j] == best[j]));
            best[j] = newer ? v : best[j];
            where[j] = newer ? at + 2 * j : where[j];
        }
    }
}

/* Rows of them; `left` items of x from the first row on. What a row of the result does not fill is written over by the
   next one, and not written at all beyond the last. */
INLINE void NAME(pairs_row)(const REAL *x, ptrdiff_t start, ptrdiff_t width, ptrdiff_t wide, ptrdiff_t left, int is_last,
                            REAL *y, int64_t *places) {
    REAL rows[2][2 * AT_ONCE];
    REAL best[AT_ONCE];
    int32_t where[AT_ONCE];
    for (ptrdiff_t j = 0; j < wide; j += AT_ONCE) {
        const ptrdiff_t count = wide - j < AT_ONCE ? wide - j : AT_ONCE, at = start + 2 * j;
        const REAL *top = x + at, *low = top + width;
        if (left - 2 * j - width < 2 * AT_ONCE) {
            memset(rows, 0, sizeof rows);
            memcpy(rows[0], top, sizeof(REAL) * (size_t)(2 * count));
            memcpy(rows[1], low, sizeof(REAL) * (size_t)(2 * count));
            top = rows[0], low = rows[1];
        }
        NAME(four_of_each)(top, low, (int32_t)at, (int32_t)width, best, where);
        if (count == AT_ONCE || !is_last) {
            memcpy(y + j, best, sizeof best);
#pragma omp simd
            for (int k = 0; k < AT_ONCE; k++) places[j + k] = where[k];
        } else {
            memcpy(y + j, best, sizeof(REAL) * (size_t)count);
            for (ptrdiff_t k = 0; k < count; k++) places[j + k] = where[k];
        }
    }
}

/* Rows of the result begin..end-1 over all planes. */
VECTOR static void NAME(pool_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(pooling) *c = context;
    const pool_window *w = c->window;
    const ptrdiff_t height = w->size[0], width = w->size[1], wide = w->out[1], step = w->stride[1], apart = w->dilation[1];
    REAL best[STRETCH];
    int32_t where[STRETCH];
    int inside = 1, pairs = 1;
    for (int k = 0; k < 2; k++) {
        inside &= !w->padding[k] && (w->out[k] - 1) * w->stride[k] + (w->kernel[k] - 1) * w->dilation[k] < w->size[k];
        pairs &= w->kernel[k] == 2 && w->stride[k] == 2 && w->dilation[k] == 1;
    }
    pairs &= inside, inside &= wide < SHORT_ROW;
    if (pairs) took(PATH_pool_pairs);
    else if (inside) took(PATH_pool_short_row);
    else if (wide > STRETCH) took(PATH_pool_stretches);
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *x = c->x + row / w->out[0] * height * width;
        const ptrdiff_t top = row % w->out[0] * w->stride[0] - w->padding[0];
        if (pairs) {
            const ptrdiff_t left = c->items - (row / w->out[0] * height + top) * width, over = AT_ONCE / wide + 1;
            NAME(pairs_row)(x, top * width, width, wide, left, end - row <= over, c->y + row * wide,
                            c->places + row * wide);
            continue;
        }
        if (inside) {
            REAL *y = c->y + row * wide;
            int64_t *places = c->places + row * wide;
            if (w->kernel[0] == 3 && w->kernel[1] == 3) NAME(short_row)(x, top * width, width, w, 3, 3, y, places);
            else NAME(short_row)(x, top * width, width, w, w->kernel[0], w->kernel[1], y, places);
            continue;
        }
        const ptrdiff_t first_row = first_inside(top, w->dilation[0], height);
        for (ptrdiff_t from = 0; from < wide; from += STRETCH) {
            const ptrdiff_t count = wide - from < STRETCH ? wide - from : STRETCH;
            for (ptrdiff_t j = 0; j < count; j++) {
                best[j] = -INFINITY;
                where[j] = (int32_t)(first_row * width + first_inside((from + j) * step - w->padding[1], apart, width));
            }
            for (ptrdiff_t a = 0; a < w->kernel[0]; a++) {
                const ptrdiff_t i = top + a * w->dilation[0];
                if (i < 0 || i >= height) continue;
                for (ptrdiff_t b = 0; b < w->kernel[1]; b++) {
                    /* the items whose tap lies in the plane: 0 <= left + j * step < width */
                    const ptrdiff_t left = from * step - w->padding[1] + b * apart;
                    const ptrdiff_t low = left < 0 ? (-left + step - 1) / step : 0;
                    const ptrdiff_t high = left >= width ? 0 : (width - 1 - left) / step + 1;
                    const ptrdiff_t last = high < count ? high : count;
                    if (low >= last) continue;
                    const ptrdiff_t place = i * width + left + low * step;
                    if (step == 1) NAME(take_tap)(best + low, where + low, x + place, 1, (int32_t)place, last - low);
                    else if (step == 2) NAME(take_tap)(best + low, where + low, x + place, 2, (int32_t)place, last - low);
                    else NAME(take_tap)(best + low, where + low, x + place, step, (int32_t)place, last - low);
                }
            }
            memcpy(c->y + row * wide + from, best, sizeof(REAL) * (size_t)count);
            for (ptrdiff_t j = 0; j < count; j++) c->places[row * wide + from + j] = where[j];
        }
    }
}

void NAME(max_pool)(const REAL *x, REAL *y, int64_t *places, ptrdiff_t planes, const pool_window *w) {
    NAME(pooling) context = {x, y, places, w, planes * w->size[0] * w->size[1]};
    const ptrdiff_t rows = planes * w->out[0];
    parallel_for(rows, 4.0 * (double)(rows * w->out[1] * w->kernel[0] * w->kernel[1]), NAME(pool_rows), &context);
}

int NAME(max_pool_planned)(const window_plan *plan, const REAL *x, REAL *y, int64_t *places) {
    const pool_window *w = &plan->window, *d = &plan->depth;
    if (!d->size[0]) return NAME(max_pool)(x, y, places, plan->planes, w), 1;
    const ptrdiff_t items = d->size[1], outer = plan->planes / d->size[0], all = plan->planes * items;
    REAL *flat = malloc(sizeof(REAL) * (size_t)all);
    int64_t *of_planes = malloc(sizeof(int64_t) * (size_t)all);
    const int there = flat && of_planes;
    if (there) {
        NAME(max_pool)(x, flat, of_planes, plan->planes, w);
        NAME(max_pool)(flat, y, places, outer, d);
        const ptrdiff_t each = d->out[0] * items, size = w->size[0] * w->size[1];
        for (ptrdiff_t o = 0; o < outer; o++)
            for (ptrdiff_t k = o * each; k < (o + 1) * each; k++)
                places[k] = of_planes[o * d->size[0] * items + places[k]] + places[k] / items * size;
    }
    free(flat);
    free(of_planes);
    return there;
}

typedef struct {
    const REAL *g;
    const int64_t *places;
    REAL *out;
    ptrdiff_t count, size;
} NAME(scattering);

static void NAME(scatter_planes)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(scattering) *c = context;
    memset(c->out + begin * c->size, 0, sizeof(REAL) * (size_t)((end - begin) * c->size));
    for (ptrdiff_t plane = begin; plane < end; plane++)
        for (ptrdiff_t k = plane * c->count; k < (plane + 1) * c->count; k++)
            c->out[plane * c->size + c->places[k]] += c->g[k];
}

void NAME(scatter_add)(const REAL *g, const int64_t *places, REAL *out, ptrdiff_t planes, ptrdiff_t count, ptrdiff_t size) {
    NAME(scattering) context = {g, places, out, count, size};
    parallel_for(planes, (double)planes * (double)(20 * count + size), NAME(scatter_planes), &context);
}

#endif
