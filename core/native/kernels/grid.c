/* Images read at places between their pixels: of a block of places first the four pixels and their weights, then channel after
   channel, or, of many channels, place after place. Products are rounded before they are added, as the ops round them of which Python composes it. */
#ifndef REAL
#include "kernels/grid.h"

#include "kernels/copy.h"
#include "kernels/real.h"

enum { PLACES = 256 };

#define KERNEL_FILE "grid.c"
#include "kernels/each_real.h"
#else

typedef struct {
    int32_t at[4][PLACES], inside[4][PLACES];
    REAL weight[4][PLACES], part[2][PLACES]; /* part: how far to the right and down of the first pixel */
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
        c->part[0][p] = tx, c->part[1][p] = ty;
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

/* -- many channels: of each pixel they lie side by side ------------------------------------------------------------- */

/* The channels of the pixel at corner k of place p, zeros outside. */
INLINE const REAL *NAME(pixel)(const NAME(corners) *c, int k, ptrdiff_t p, const REAL *x, ptrdiff_t channels, const REAL *zeros) {
    return c->inside[k][p] ? x + c->at[k][p] * channels : zeros;
}

PRODUCTS_APART VECTOR static void NAME(read_pixels)(const NAME(corners) *corners, const REAL *x, const REAL *zeros, REAL *y,
                                                    ptrdiff_t n, ptrdiff_t channels) {
    for (ptrdiff_t p = 0; p < n; p++, y += channels) {
        const REAL *const a = NAME(pixel)(corners, 0, p, x, channels, zeros), *const b = NAME(pixel)(corners, 1, p, x, channels, zeros);
        const REAL *const d = NAME(pixel)(corners, 2, p, x, channels, zeros), *const e = NAME(pixel)(corners, 3, p, x, channels, zeros);
        const REAL wa = corners->weight[0][p], wb = corners->weight[1][p], wd = corners->weight[2][p], we = corners->weight[3][p];
        INDEPENDENT
        for (ptrdiff_t c = 0; c < channels; c++) {
            REAL sum = a[c] * wa;
            sum += b[c] * wb;
            sum += d[c] * wd;
            y[c] = sum + e[c] * we;
        }
    }
}

VECTOR static void NAME(add_pixels)(const NAME(corners) *corners, const REAL *g, REAL *gx, ptrdiff_t n, ptrdiff_t channels) {
    for (ptrdiff_t p = 0; p < n; p++, g += channels)
        for (int k = 0; k < 4; k++) {
            if (!corners->inside[k][p]) continue;
            REAL *const to = gx + corners->at[k][p] * channels;
            const REAL w = corners->weight[k][p];
            INDEPENDENT
            for (ptrdiff_t c = 0; c < channels; c++) to[c] += g[c] * w;
        }
}

/* What comes back to the places: the slopes of the sum along both axes. */
VECTOR static void NAME(slopes)(const grid_shape *s, const NAME(corners) *corners, const REAL *x, const REAL *zeros, const REAL *g,
                                REAL *ggrid, ptrdiff_t n) {
    const ptrdiff_t channels = s->channels;
    const REAL high = (REAL)(s->size[0] - s->align) / 2, wide = (REAL)(s->size[1] - s->align) / 2;
    for (ptrdiff_t p = 0; p < n; p++, g += channels) {
        const REAL *const a = NAME(pixel)(corners, 0, p, x, channels, zeros), *const b = NAME(pixel)(corners, 1, p, x, channels, zeros);
        const REAL *const d = NAME(pixel)(corners, 2, p, x, channels, zeros), *const e = NAME(pixel)(corners, 3, p, x, channels, zeros);
        const REAL tx = corners->part[0][p], ty = corners->part[1][p];
        REAL along = 0, down = 0;
#pragma omp simd reduction(+ : along, down)
        for (ptrdiff_t c = 0; c < channels; c++) {
            along += g[c] * ((1 - ty) * (b[c] - a[c]) + ty * (e[c] - d[c]));
            down += g[c] * ((1 - tx) * (d[c] - a[c]) + tx * (e[c] - b[c]));
        }
        ggrid[2 * p] = wide * along;
        ggrid[2 * p + 1] = high * down;
    }
}

enum { NAME(FEW) = 4 /* channels that are read one after another */ };

/* -- whole images --------------------------------------------------------------------------------------------------- */

typedef struct {
    const grid_shape *s;
    const REAL *x, *grid, *g;
    REAL *y, *gx, *ggrid;
    int failed;
} NAME(job);

static ptrdiff_t NAME(block)(const grid_shape *s, ptrdiff_t from) { return s->places - from < PLACES ? s->places - from : PLACES; }

/* Rows of one side as columns of the other. */
static void NAME(exchanged)(REAL *to, ptrdiff_t to_row, const REAL *from, ptrdiff_t from_row, ptrdiff_t rows, ptrdiff_t columns) {
    const ptrdiff_t item = sizeof(REAL);
    exchange_items((char *)to, to_row * item, (const char *)from, from_row * item, rows, columns, item);
}

static void NAME(read_image)(NAME(job) *j, const REAL *x, const REAL *grid, REAL *y, REAL *own) {
    const grid_shape *const s = j->s;
    const ptrdiff_t size = s->size[0] * s->size[1], channels = s->channels;
    REAL *const zeros = own, *const pixels = zeros + channels, *const found = pixels + size * channels;
    NAME(corners) corners;
    if (own) {
        memset(zeros, 0, sizeof(REAL) * (size_t)channels);
        NAME(exchanged)(pixels, channels, x, size, channels, size);
    }
    for (ptrdiff_t from = 0; from < s->places; from += PLACES) {
        const ptrdiff_t n = NAME(block)(s, from);
        if (!NAME(corners_of)(s, grid + 2 * from, n, &corners)) return (void)(j->failed = 1);
        if (own) {
            NAME(read_pixels)(&corners, pixels, zeros, found, n, channels);
            NAME(exchanged)(y + from, s->places, found, channels, n, channels);
        } else {
            for (ptrdiff_t c = 0; c < channels; c++) NAME(read_corners)(&corners, x + c * size, y + c * s->places + from, n);
        }
    }
}

static void NAME(image_back)(NAME(job) *j, ptrdiff_t k, REAL *own) {
    const grid_shape *const s = j->s;
    const ptrdiff_t size = s->size[0] * s->size[1], channels = s->channels;
    REAL *const zeros = own, *const pixels = zeros + channels, *const given = pixels + size * channels;
    const REAL *const grid = j->grid + 2 * k * s->places, *const g = j->g + k * channels * s->places;
    NAME(corners) corners;
    memset(zeros, 0, sizeof(REAL) * (size_t)channels);
    for (int pass = 0; pass < 2; pass++) { /* pixels are first those that were read, then their gradients */
        if (!(pass ? j->gx : j->ggrid)) continue;
        if (pass) memset(pixels, 0, sizeof(REAL) * (size_t)(size * channels));
        else NAME(exchanged)(pixels, channels, j->x + k * channels * size, size, channels, size);
        for (ptrdiff_t from = 0; from < s->places; from += PLACES) {
            const ptrdiff_t n = NAME(block)(s, from);
            if (!NAME(corners_of)(s, grid + 2 * from, n, &corners)) return (void)(j->failed = 1);
            NAME(exchanged)(given, channels, g + from, s->places, channels, n);
            if (pass) NAME(add_pixels)(&corners, given, pixels, n, channels);
            else NAME(slopes)(s, &corners, pixels, zeros, given, j->ggrid + 2 * (k * s->places + from), n);
        }
        if (pass) NAME(exchanged)(j->gx + k * channels * size, size, pixels, channels, size, channels);
    }
}

/* Room for zeros, an image and a block of places, channels side by side. */
static REAL *NAME(room)(const grid_shape *s) {
    return malloc(sizeof(REAL) * (size_t)(s->channels * (1 + s->size[0] * s->size[1] + PLACES)));
}

static void NAME(read_images)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(job) *const j = context;
    const grid_shape *const s = j->s;
    const ptrdiff_t size = s->size[0] * s->size[1];
    const int apart = s->channels < NAME(FEW) || s->places < size / 4;
    REAL *const own = apart ? NULL : NAME(room)(s);
    for (ptrdiff_t k = begin; k < end && !j->failed; k++)
        NAME(read_image)(j, j->x + k * s->channels * size, j->grid + 2 * k * s->places, j->y + k * s->channels * s->places, own);
    free(own);
}

static void NAME(images_back)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(job) *const j = context;
    REAL *const own = NAME(room)(j->s);
    if (!own) j->failed = 1;
    for (ptrdiff_t k = begin; k < end && !j->failed; k++) NAME(image_back)(j, k, own);
    free(own);
}

static double NAME(work)(const grid_shape *s) {
    return 8.0 * (double)s->batch * (double)s->channels * (double)(s->places + s->size[0] * s->size[1]);
}

int NAME(grid_read)(const grid_shape *s, const REAL *x, const REAL *grid, REAL *y) {
    NAME(job) job = {.s = s, .x = x, .grid = grid, .y = y};
    parallel_for(s->batch, NAME(work)(s), NAME(read_images), &job);
    return !job.failed;
}

int NAME(grid_back)(const grid_shape *s, const REAL *g, const REAL *x, const REAL *grid, REAL *gx, REAL *ggrid) {
    NAME(job) job = {.s = s, .x = x, .grid = grid, .g = g, .gx = gx, .ggrid = ggrid};
    parallel_for(s->batch, 3 * NAME(work)(s), NAME(images_back), &job);
    return !job.failed;
}

#endif
