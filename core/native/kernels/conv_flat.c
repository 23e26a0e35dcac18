/* Depthwise convolutions of 3 x 3 with padding 1 and stride 1 or 2, straight from planes as they lie.

   A plane is copied between margins of zeros, rows behind rows, so that what lies above and below an item is a row's width
   away, and every vector is full, whatever that width: in planes with a border of their own (conv.h) a row of 8 items used
   half of a vector. What lies beside an item is in the row before or behind where the row ends, and is masked there.

   With a stride of 2 a plane is parted into four of half the size, of its even and odd rows and columns: in each of them what
   neighbouring outputs see are neighbours, and no product is made that is not needed. The gradient of the input is made as
   four such planes, whose items are then put between one another.

   An item is a plane, or a channel of all samples: no sum is divided among threads. */
#ifndef REAL
#include "kernels/conv.h"

#include "runtime/memory.h"
#include "runtime/paths.h"
#include "kernels/real.h"
#include "kernels/tiling.h"

#define KERNEL_FILE "conv_flat.c"
#include "kernels/each_real.h"
#else
#include "kernels/conv_planes.h"

typedef NAME(mask) NAME(mask_at) __attribute__((aligned(sizeof(REAL)), may_alias));

typedef struct {
    const conv_shape *s;
    const REAL *x, *weights, *bias, *g;
    REAL *y;
    const REAL *edges; /* masks of what has a left neighbour, (count,), and of what has a right one, behind it */
    ptrdiff_t high, wide, count, margin; /* count: items of a plane, in whole vectors */
    int failed;
} NAME(flat);

int NAME(conv_is_flat)(const conv_shape *s) {
    const ptrdiff_t stride = s->stride[1];
    for (int d = 1; d < 3; d++)
        if (s->kernel[d] != 3 || s->padding[d] != 1 || s->dilation[d] != 1 || s->stride[d] != stride) return 0;
    return s->kernel[0] == 1 && s->size[0] == 1 && s->out[0] == 1 && s->padding[0] == 0 && s->rows == 1 &&
           s->groups == s->channels && (stride == 1 || stride == 2) && s->x_stride[4] == 1 &&
           (s->size[1] == 1 || s->x_stride[3] == s->size[2]);
}

#define AT(from) (*(const NAME(wide) *)(from))
#define BESIDE(from, there) ((NAME(wide))((NAME(mask))AT(from) & (there)))

/* Sums of two vectors of neighbours from `at` on. */
INLINE void NAME(flat_sums)(const NAME(flat) * c, const REAL *plane, ptrdiff_t at, const REAL *w, REAL bias, REAL *to) {
    NAME(wide) sums[2][3];
    _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) {
        const ptrdiff_t p = at + v * NAME(LANES);
        const NAME(mask) left = *(const NAME(mask_at) *)(c->edges + p);
        const NAME(mask) right = *(const NAME(mask_at) *)(c->edges + c->count + 2 * NAME(LANES) + p);
        sums[v][0] = (NAME(wide)){0} + bias, sums[v][1] = sums[v][2] = (NAME(wide)){0};
        _Pragma("GCC unroll 3") for (int k = 0; k < 3; k++) {
            const REAL *row = plane + p + (k - 1) * c->wide;
            sums[v][0] += w[k * 3 + 1] * AT(row);
            sums[v][1] += w[k * 3] * BESIDE(row - 1, left);
            sums[v][2] += w[k * 3 + 2] * BESIDE(row + 1, right);
        }
    }
    _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) *(NAME(wide) *)(to + v * NAME(LANES)) =
        sums[v][0] + (sums[v][1] + sums[v][2]);
}

static REAL *NAME(flat_room)(const NAME(flat) * c, int planes, size_t *capacity) {
    const ptrdiff_t one = c->count + 2 * c->margin;
    const size_t size = sizeof(REAL) * (size_t)(planes * one + 2 * NAME(LANES));
    REAL *room = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, capacity);
    if (room) memset(room, 0, sizeof(REAL) * (size_t)(planes * one));
    return room;
}

VECTOR static void NAME(flat_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(flat) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t both = 2 * NAME(LANES), places = s->out[1] * s->out[2];
    size_t capacity;
    REAL *room = NAME(flat_room)(c, 1, &capacity);
    if (!room) {
        c->failed = 1;
        return;
    }
    REAL *plane = room + c->margin;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t n = item / s->channels, channel = item % s->channels;
        const REAL bias = c->bias ? c->bias[channel] : 0;
        REAL w[9], sums[2 * NAME(LANES)], *y = c->y + item * places;
        for (int t = 0; t < 9; t++) w[t] = c->weights[channel * 9 + (s->transposed ? 8 - t : t)];
        memcpy(plane, c->x + n * s->x_stride[0] + channel * s->x_stride[1], sizeof(REAL) * (size_t)places);
        ptrdiff_t p = 0;
        for (; p + both <= places; p += both) NAME(flat_sums)(c, plane, p, w, bias, y + p);
        if (p == places) continue;
        NAME(flat_sums)(c, plane, p, w, bias, sums);
        memcpy(y + p, sums, sizeof(REAL) * (size_t)(places - p));
    }
    memory_give(room, capacity);
}

/* Adds to the sums of a vector's lanes, (9,), what a vector of g makes with what lies around its items. */
INLINE void NAME(flat_products)(const NAME(flat) * c, const REAL *plane, ptrdiff_t p, NAME(wide) given,
                                NAME(wide) * sums) {
    const NAME(mask) left = *(const NAME(mask_at) *)(c->edges + p);
    const NAME(mask) right = *(const NAME(mask_at) *)(c->edges + c->count + 2 * NAME(LANES) + p);
    _Pragma("GCC unroll 3") for (int k = 0; k < 3; k++) {
        const REAL *row = plane + p + (k - 1) * c->wide;
        sums[k * 3] += given * BESIDE(row - 1, left);
        sums[k * 3 + 1] += given * AT(row);
        sums[k * 3 + 2] += given * BESIDE(row + 1, right);
    }
}

/* The last items of a plane of g, and zeros: beyond it lies another one, or nothing. */
INLINE NAME(wide) NAME(last_items)(const REAL *g, ptrdiff_t count) {
    REAL rest[NAME(LANES)] = {0};
    memcpy(rest, g, sizeof(REAL) * (size_t)count);
    return AT(rest);
}

INLINE void NAME(sums_to)(const NAME(wide) * sums, REAL *gw) {
    for (int t = 0; t < 9; t++) {
        REAL total = 0;
        for (int j = 0; j < NAME(LANES); j++) total += sums[t][j];
        gw[t] = total;
    }
}

/* An item is a channel. */
VECTOR static void NAME(flat_weight_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(flat) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t places = s->out[1] * s->out[2];
    size_t capacity;
    REAL *room = NAME(flat_room)(c, 1, &capacity);
    if (!room) {
        c->failed = 1;
        return;
    }
    REAL *plane = room + c->margin;
    for (ptrdiff_t channel = begin; channel < end; channel++) {
        NAME(wide) sums[9];
        _Pragma("GCC unroll 9") for (int t = 0; t < 9; t++) sums[t] = (NAME(wide)){0};
        for (ptrdiff_t n = 0; n < s->batch; n++) {
            memcpy(plane, c->x + n * s->x_stride[0] + channel * s->x_stride[1], sizeof(REAL) * (size_t)places);
            const REAL *g = c->g + (n * s->channels + channel) * places;
            ptrdiff_t p = 0;
            for (; p + NAME(LANES) <= places; p += NAME(LANES)) NAME(flat_products)(c, plane, p, AT(g + p), sums);
            if (p < places) NAME(flat_products)(c, plane, p, NAME(last_items)(g + p, places - p), sums);
        }
        NAME(sums_to)(sums, c->y + channel * 9);
    }
    memory_give(room, capacity);
}

/* --- a stride of 2 --- */

/* Where one of the four planes begins: of odd rows or even ones, of odd columns or even ones. */
#define PART(plane, row, column) ((plane) + (2 * (row) + (column)) * (c->count + 2 * c->margin))

/* A plane (high, wide) parted into four; where there are fewer odd rows or columns than even ones, zeros stay. */
INLINE void NAME(lay_parted)(const NAME(flat) * c, const REAL *from, ptrdiff_t high, ptrdiff_t wide, REAL *plane) {
    for (ptrdiff_t y = 0; y < high; y++, from += wide) {
        REAL *even = PART(plane, y % 2, 0) + y / 2 * c->wide, *odd = PART(plane, y % 2, 1) + y / 2 * c->wide;
        ptrdiff_t x = 0;
#ifdef GRADLAB_SHUFFLES
        for (; 2 * x + 16 <= wide; x += 8) {
            const NAME(eight) one = *(const NAME(eight) *)(from + 2 * x), two = *(const NAME(eight) *)(from + 2 * x + 8);
            *(NAME(eight) *)(even + x) = __builtin_shufflevector(one, two, 0, 2, 4, 6, 8, 10, 12, 14);
            *(NAME(eight) *)(odd + x) = __builtin_shufflevector(one, two, 1, 3, 5, 7, 9, 11, 13, 15);
        }
#endif
        for (; 2 * x + 1 < wide; x++) even[x] = from[2 * x], odd[x] = from[2 * x + 1];
        if (2 * x < wide) even[x] = from[2 * x];
    }
}

/* The way back. */
INLINE void NAME(join_parts)(const NAME(flat) * c, const REAL *plane, ptrdiff_t high, ptrdiff_t wide, REAL *to) {
    for (ptrdiff_t y = 0; y < high; y++, to += wide) {
        const REAL *even = PART(plane, y % 2, 0) + y / 2 * c->wide, *odd = PART(plane, y % 2, 1) + y / 2 * c->wide;
        ptrdiff_t x = 0;
#ifdef GRADLAB_SHUFFLES
        for (; 2 * x + 16 <= wide; x += 8) {
            const NAME(eight) l = *(const NAME(eight) *)(even + x), r = *(const NAME(eight) *)(odd + x);
            *(NAME(eight) *)(to + 2 * x) = __builtin_shufflevector(l, r, 0, 8, 1, 9, 2, 10, 3, 11);
            *(NAME(eight) *)(to + 2 * x + 8) = __builtin_shufflevector(l, r, 4, 12, 5, 13, 6, 14, 7, 15);
        }
#endif
        for (; 2 * x + 1 < wide; x++) to[2 * x] = even[x], to[2 * x + 1] = odd[x];
        if (2 * x < wide) to[2 * x] = even[x];
    }
}

/* What one of nine taps sees from `at` on: of the row before for k 0, of the column before for j 0. */
INLINE NAME(wide) NAME(seen)(const NAME(flat) * c, const REAL *plane, ptrdiff_t at, const int k, const int j) {
    const REAL *from = PART(plane, k != 1, j != 1) + at - (k ? 0 : c->wide);
    return j ? AT(from) : BESIDE(from - 1, *(const NAME(mask_at) *)(c->edges + at));
}

VECTOR static void NAME(twos_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(flat) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t both = 2 * NAME(LANES), places = c->high * c->wide;
    size_t capacity;
    REAL *room = NAME(flat_room)(c, 4, &capacity);
    if (!room) {
        c->failed = 1;
        return;
    }
    REAL *plane = room + c->margin;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t n = item / s->channels, channel = item % s->channels;
        const REAL bias = c->bias ? c->bias[channel] : 0, *w = c->weights + channel * 9;
        REAL rest[2 * NAME(LANES)], *y = c->y + item * places;
        NAME(lay_parted)(c, c->x + n * s->x_stride[0] + channel * s->x_stride[1], s->size[1], s->size[2], plane);
        for (ptrdiff_t p = 0; p < places; p += both) {
            NAME(wide) sums[2][3];
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) {
                sums[v][0] = sums[v][2] = (NAME(wide)){0}, sums[v][1] = (NAME(wide)){0} + bias;
                _Pragma("GCC unroll 3") for (int k = 0; k < 3; k++) _Pragma("GCC unroll 3") for (int j = 0; j < 3; j++)
                    sums[v][j] += w[k * 3 + j] * NAME(seen)(c, plane, p + v * NAME(LANES), k, j);
            }
            REAL *to = p + both <= places ? y + p : rest;
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) *(NAME(wide) *)(to + v * NAME(LANES)) =
                sums[v][1] + (sums[v][0] + sums[v][2]);
            if (to == rest) memcpy(y + p, rest, sizeof(REAL) * (size_t)(places - p));
        }
    }
    memory_give(room, capacity);
}

/* The transpose: x, of half the size, is what comes back; y (2 high or one less, 2 wide or one less). */
VECTOR static void NAME(twos_back_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(flat) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t places = c->high * c->wide;
    size_t capacity;
    REAL *room = NAME(flat_room)(c, 5, &capacity);
    if (!room) {
        c->failed = 1;
        return;
    }
    REAL *plane = room + c->margin, *given = PART(plane, 2, 0);
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t n = item / s->channels, channel = item % s->channels;
        const REAL bias = c->bias ? c->bias[channel] : 0, *w = c->weights + channel * 9;
        memcpy(given, c->x + n * s->x_stride[0] + channel * s->x_stride[1], sizeof(REAL) * (size_t)places);
        for (ptrdiff_t p = 0; p < places; p += NAME(LANES)) {
            const NAME(mask) right = *(const NAME(mask_at) *)(c->edges + c->count + 2 * NAME(LANES) + p);
            const REAL *g = given + p;
            const NAME(wide) here = AT(g), beside = BESIDE(g + 1, right);
            const NAME(wide) below = AT(g + c->wide), across = BESIDE(g + c->wide + 1, right);
            *(NAME(wide) *)(PART(plane, 0, 0) + p) = w[4] * here + bias;
            *(NAME(wide) *)(PART(plane, 0, 1) + p) = w[5] * here + w[3] * beside + bias;
            *(NAME(wide) *)(PART(plane, 1, 0) + p) = w[7] * here + w[1] * below + bias;
            *(NAME(wide) *)(PART(plane, 1, 1) + p) =
                (w[8] * here + w[6] * beside) + (w[2] * below + w[0] * across) + bias;
        }
        NAME(join_parts)(c, plane, s->out[1], s->out[2], c->y + item * s->out[1] * s->out[2]);
    }
    memory_give(room, capacity);
}

INLINE void NAME(twos_products)(const NAME(flat) * c, const REAL *plane, ptrdiff_t p, NAME(wide) given,
                                NAME(wide) * sums) {
    _Pragma("GCC unroll 3") for (int k = 0; k < 3; k++) _Pragma("GCC unroll 3") for (int j = 0; j < 3; j++)
        sums[k * 3 + j] += given * NAME(seen)(c, plane, p, k, j);
}

/* An item is a channel. */
VECTOR static void NAME(twos_weight_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(flat) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t places = c->high * c->wide;
    size_t capacity;
    REAL *room = NAME(flat_room)(c, 4, &capacity);
    if (!room) {
        c->failed = 1;
        return;
    }
    REAL *plane = room + c->margin;
    for (ptrdiff_t channel = begin; channel < end; channel++) {
        NAME(wide) sums[9];
        _Pragma("GCC unroll 9") for (int t = 0; t < 9; t++) sums[t] = (NAME(wide)){0};
        for (ptrdiff_t n = 0; n < s->batch; n++) {
            NAME(lay_parted)(c, c->x + n * s->x_stride[0] + channel * s->x_stride[1], s->size[1], s->size[2], plane);
            const REAL *g = c->g + (n * s->channels + channel) * places;
            ptrdiff_t p = 0;
            for (; p + NAME(LANES) <= places; p += NAME(LANES)) NAME(twos_products)(c, plane, p, AT(g + p), sums);
            if (p < places) NAME(twos_products)(c, plane, p, NAME(last_items)(g + p, places - p), sums);
        }
        NAME(sums_to)(sums, c->y + channel * 9);
    }
    memory_give(room, capacity);
}
#undef PART
#undef AT
#undef BESIDE

/* The masks of a plane's edges, all bits or none. */
static REAL *NAME(edges_of)(NAME(flat) * c, ptrdiff_t high, ptrdiff_t wide, size_t *capacity) {
    c->high = high, c->wide = wide, c->count = pieces_of(high * wide, NAME(LANES)) * NAME(LANES);
    c->margin = wide + 1 + 2 * NAME(LANES);
    const size_t size = sizeof(REAL) * (size_t)(2 * c->count + 4 * NAME(LANES));
    REAL *edges = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, capacity);
    if (!edges) return NULL;
    memset(edges, 0xff, size);
    REAL *right = edges + c->count + 2 * NAME(LANES);
    for (ptrdiff_t y = 0; y < high; y++) {
        memset(edges + y * wide, 0, sizeof(REAL));
        memset(right + (y + 1) * wide - 1, 0, sizeof(REAL));
    }
    c->edges = edges;
    return edges;
}

int NAME(conv_flat)(const conv_shape *s, const REAL *x, const REAL *weights, const REAL *bias, REAL *y) {
    NAME(flat) c = {.s = s, .x = x, .weights = weights, .bias = bias, .y = y};
    const int twos = s->stride[1] == 2;
    const ptrdiff_t *size = s->transposed ? s->size : s->out; /* the smaller one of a stride of 2 */
    size_t capacity;
    REAL *edges = NAME(edges_of)(&c, size[1], size[2], &capacity);
    took(PATH_conv_flat);
    if (!edges) return 0;
    parallel_for(s->batch * s->channels, 5.0 * (double)(s->batch * s->channels * c.count) * (1 + twos),
                 !twos ? NAME(flat_items) : s->transposed ? NAME(twos_back_items) : NAME(twos_items), &c);
    memory_give(edges, capacity);
    return !c.failed;
}

int NAME(conv_flat_weight)(const conv_shape *s, const REAL *x, const REAL *g, REAL *gw) {
    NAME(flat) c = {.s = s, .x = x, .g = g, .y = gw};
    const int twos = s->stride[1] == 2;
    size_t capacity;
    REAL *edges = NAME(edges_of)(&c, s->out[1], s->out[2], &capacity);
    took(PATH_conv_flat);
    if (!edges) return 0;
    parallel_for(s->channels, 6.0 * (double)(s->batch * s->channels * c.count) * (1 + twos),
                 twos ? NAME(twos_weight_items) : NAME(flat_weight_items), &c);
    memory_give(edges, capacity);
    return !c.failed;
}

#endif
