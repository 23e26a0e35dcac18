/* Images read at places between their pixels: of a block of places first the four pixels and their weights, then channel after
   channel. Products are rounded before they are added, as the ops round them of which Python composes it. */
#ifndef REAL
#include "kernels/grid.h"

#include "kernels/real.h"

enum { PLACES = 256 };

#define KERNEL_FILE "grid.c"
#include "kernels/each_real.h"
#else

typedef struct {
    int32_t at[4][PLACES], inside[4][PLACES];
    REAL weight[4][PLACES];
} NAME(corners);

PRODUCTS_APART VECTOR static int NAME(corners_of)(const grid_shape *s, const REAL *grid, ptrdiff_t n, NAME(corners) *c) {
    const REAL high = (REAL)s->size[0], wide = (REAL)s->size[1];
    int far = 0;
    for (ptrdiff_t p = 0; p < n; p++) {
        const REAL gx = grid[2 * p] + 1, gy = grid[2 * p + 1] + 1;
        const REAL x = s->align ? gx / 2 * (wide - 1) : (gx * wide - 1) / 2, y = s->align ? gy / 2 * (high - 1) : (gy * high - 1) / 2;
        const REAL left = (REAL)floor((double)x), top = (REAL)floor((double)y), tx = x - left, ty = y - top;
        const int known = x > -1e6 && x < 1e6 && y > -1e6 && y < 1e6;
        const int32_t i = known ? (int32_t)top : 0, j = known ? (int32_t)left : 0;
        far |= !known;
        for (int k = 0; k < 4; k++) {
            const int32_t row = i + (k >> 1), column = j + (k & 1), inside = row >= 0 && row < s->size[0] && column >= 0 && column < s->size[1];
            c->inside[k][p] = inside;
            c->at[k][p] = inside ? row * (int32_t)s->size[1] + column : 0;
            c->weight[k][p] = (k >> 1 ? ty : 1 - ty) * (k & 1 ? tx : 1 - tx);
        }
    }
    return !far;
}

PRODUCTS_APART VECTOR static void NAME(read_corners)(const NAME(corners) *c, const REAL *x, REAL *y, ptrdiff_t n) {
    for (ptrdiff_t p = 0; p < n; p++) {
        const REAL a = x[c->at[0][p]], b = x[c->at[1][p]], d = x[c->at[2][p]], e = x[c->at[3][p]];
        REAL sum = (c->inside[0][p] ? a : 0) * c->weight[0][p];
        sum += (c->inside[1][p] ? b : 0) * c->weight[1][p];
        sum += (c->inside[2][p] ? d : 0) * c->weight[2][p];
        y[p] = sum + (c->inside[3][p] ? e : 0) * c->weight[3][p];
    }
}

int NAME(grid_read)(const grid_shape *s, const REAL *x, const REAL *grid, REAL *y) {
    const ptrdiff_t size = s->size[0] * s->size[1];
    for (ptrdiff_t k = 0; k < s->batch; k++, x += s->channels * size, grid += 2 * s->places, y += s->channels * s->places)
        for (ptrdiff_t from = 0; from < s->places; from += PLACES) {
            const ptrdiff_t n = s->places - from < PLACES ? s->places - from : PLACES;
            NAME(corners) corners;
            if (!NAME(corners_of)(s, grid + 2 * from, n, &corners)) return 0;
            for (ptrdiff_t c = 0; c < s->channels; c++) NAME(read_corners)(&corners, x + c * size, y + c * s->places + from, n);
        }
    return 1;
}

#endif
