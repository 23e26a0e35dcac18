/* Depthwise convolutions of 3 x 3 with padding 1 and stride 1 or 2, straight from planes as they lie.

   A plane is copied between margins of zeros, rows behind rows, so that what lies above and below an item is a row's width
   away, and every vector is full, whatever that width: in planes with a border of their own (conv.h) a row of 8 items used
   half of a vector. What lies beside an item is in the row before or behind where the row ends, and is masked there. With a
   stride of 2 every other row is summed, and every other item of it kept; the gradients of the input and of the weights go
   over the incoming gradient with zeros between its items.

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

/* A row with zeros between its items: `wide` of them in `to`. */
INLINE void NAME(lay_apart)(const REAL *from, ptrdiff_t count, ptrdiff_t wide, REAL *to) {
    ptrdiff_t x = 0;
#ifdef GRADLAB_SHUFFLES
    for (; x + 8 <= count && 2 * x + 16 <= wide; x += 8) {
        const NAME(eight) items = *(const NAME(eight) *)(from + x), none = {0};
        *(NAME(eight) *)(to + 2 * x) = __builtin_shufflevector(items, none, 0, 8, 1, 9, 2, 10, 3, 11);
        *(NAME(eight) *)(to + 2 * x + 8) = __builtin_shufflevector(items, none, 4, 12, 5, 13, 6, 14, 7, 15);
    }
#endif
    for (ptrdiff_t m = 2 * x; m < wide; m++) to[m] = m % 2 ? 0 : from[m / 2];
}

/* A plane between margins; the gradient of a stride of 2 with zeros between its items. */
INLINE void NAME(lay_flat)(const NAME(flat) * c, const REAL *from, ptrdiff_t high, ptrdiff_t wide, REAL *to) {
    if (wide == c->wide && high == c->high) {
        memcpy(to, from, sizeof(REAL) * (size_t)(high * wide));
        return;
    }
    for (ptrdiff_t y = 0; y < c->high; y++, to += c->wide) {
        if (y % 2) memset(to, 0, sizeof(REAL) * (size_t)c->wide);
        else NAME(lay_apart)(from + y / 2 * wide, wide, c->wide, to);
    }
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
    const ptrdiff_t both = 2 * NAME(LANES), high = s->out[1], wide = s->out[2], places = high * wide;
    const int twos = s->stride[1] == 2 && !s->transposed;
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
        NAME(lay_flat)(c, c->x + n * s->x_stride[0] + channel * s->x_stride[1], s->size[1], s->size[2], plane);
        if (!twos) {
            ptrdiff_t p = 0;
            for (; p + both <= places; p += both) NAME(flat_sums)(c, plane, p, w, bias, y + p);
            if (p == places) continue;
            NAME(flat_sums)(c, plane, p, w, bias, sums);
            memcpy(y + p, sums, sizeof(REAL) * (size_t)(places - p));
            continue;
        }
        for (ptrdiff_t row = 0; row < high; row++, y += wide)
            for (ptrdiff_t x = 0; x < wide; x += NAME(LANES)) {
                const ptrdiff_t here = wide - x < NAME(LANES) ? wide - x : NAME(LANES);
                NAME(flat_sums)(c, plane, 2 * row * c->wide + 2 * x, w, bias, sums);
                for (ptrdiff_t i = 0; i < here; i++) y[x + i] = sums[2 * i];
            }
    }
    memory_give(room, capacity);
}

/* Adds to the sums of a vector's lanes, (9,), what some items of g make with what lies around them. */
INLINE void NAME(flat_products)(const NAME(flat) * c, const REAL *plane, const REAL *g, ptrdiff_t begin, ptrdiff_t end,
                                NAME(wide) * sums) {
    for (ptrdiff_t p = begin; p < end; p += NAME(LANES)) {
        const NAME(mask) left = *(const NAME(mask_at) *)(c->edges + p);
        const NAME(mask) right = *(const NAME(mask_at) *)(c->edges + c->count + 2 * NAME(LANES) + p);
        const NAME(wide) given = AT(g + p - begin);
        _Pragma("GCC unroll 3") for (int k = 0; k < 3; k++) {
            const REAL *row = plane + p + (k - 1) * c->wide;
            sums[k * 3] += given * BESIDE(row - 1, left);
            sums[k * 3 + 1] += given * AT(row);
            sums[k * 3 + 2] += given * BESIDE(row + 1, right);
        }
    }
}

/* An item is a channel. */
VECTOR static void NAME(flat_weight_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(flat) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t places = s->out[1] * s->out[2], whole = places / NAME(LANES) * NAME(LANES);
    const int twos = s->stride[1] == 2;
    size_t capacity;
    REAL *room = NAME(flat_room)(c, 2, &capacity);
    if (!room) {
        c->failed = 1;
        return;
    }
    REAL *plane = room + c->margin, *apart = plane + c->count + 2 * c->margin;
    for (ptrdiff_t channel = begin; channel < end; channel++) {
        NAME(wide) sums[9];
        _Pragma("GCC unroll 9") for (int t = 0; t < 9; t++) sums[t] = (NAME(wide)){0};
        for (ptrdiff_t n = 0; n < s->batch; n++) {
            const REAL *g = c->g + (n * s->channels + channel) * places;
            NAME(lay_flat)(c, c->x + n * s->x_stride[0] + channel * s->x_stride[1], s->size[1], s->size[2], plane);
            if (twos) {
                NAME(lay_flat)(c, g, s->out[1], s->out[2], apart);
                NAME(flat_products)(c, plane, apart, 0, c->count, sums);
                continue;
            }
            NAME(flat_products)(c, plane, g, 0, whole, sums);
            if (whole == places) continue;
            REAL rest[NAME(LANES)] = {0}; /* beyond the plane lies another one, or nothing */
            memcpy(rest, g + whole, sizeof(REAL) * (size_t)(places - whole));
            NAME(flat_products)(c, plane, rest, whole, places, sums);
        }
        for (int t = 0; t < 9; t++) {
            REAL total = 0;
            for (int j = 0; j < NAME(LANES); j++) total += sums[t][j];
            c->y[channel * 9 + t] = total;
        }
    }
    memory_give(room, capacity);
}
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
    const ptrdiff_t *size = s->transposed ? s->out : s->size;
    size_t capacity;
    REAL *edges = NAME(edges_of)(&c, size[1], size[2], &capacity);
    took(PATH_conv_flat);
    if (!edges) return 0;
    parallel_for(s->batch * s->channels, 5.0 * (double)(s->batch * s->channels * c.count), NAME(flat_items), &c);
    memory_give(edges, capacity);
    return !c.failed;
}

int NAME(conv_flat_weight)(const conv_shape *s, const REAL *x, const REAL *g, REAL *gw) {
    NAME(flat) c = {.s = s, .x = x, .g = g, .y = gw};
    size_t capacity;
    REAL *edges = NAME(edges_of)(&c, s->size[1], s->size[2], &capacity);
    took(PATH_conv_flat);
    if (!edges) return 0;
    parallel_for(s->channels, 6.0 * (double)(s->batch * s->channels * c.count), NAME(flat_weight_items), &c);
    memory_give(edges, capacity);
    return !c.failed;
}

#endif
