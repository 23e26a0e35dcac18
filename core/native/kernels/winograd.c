/* 3 x 3 convolutions of stride 1 in float32 by Winograd's minimal filtering.

   A tile of M x M outputs, M 2 or 4, sees T x T inputs, T = M + 2. Tile and kernel are transformed to T x T points, at each
   of which the convolution is a product: y = A^T [(G w G^T) (B^T x B)] A, with a sum over the channels in between. That sum
   is a product of matrices for each point, made by conv_tile.h: (9 M M) / (T T) times fewer multiplications than the direct
   sum, 2.25 for M 2 and 4 for M 4. The gradient of the input is the same of the incoming gradient with the kernel turned.
   That of the weights is gw = G^T [sum over tiles (A g A^T) (B^T x B)] G.

   Forward, the lanes of a vector are tiles: PANEL tiles are transformed (point, channel, tile), multiplied eight outputs at a
   time, and the eights' sums (T T x 8 x PANEL, 36 KB) transformed back while they lie in L1. For the weights the lanes are
   channels, whose pixels are turned to lie side by side first.

   Error: of M 2 that of the direct sum. M 4 takes the points 0, +-5/8, +-3/2 and infinity: half the error of the usual 0,
   +-1, +-2, the best of six pairs tried. Sums run over at most DEPTH terms from zero and are then added. With both its rms
   error is 6e-7 to 8e-7 of the rms result, whatever the number of channels; the direct sum's is 3e-7 to 4e-7.

   M 4 mixes the pixels of a tile: what lies beside a pixel a million times as large is off by a fraction of that. M 2 mixes
   none: by its matrices each input reaches the outputs of the direct sum alone. So M 4 is taken of inputs whose largest is
   at most 2^WIDE times the typical one; where one is not finite, or products could leave the range of a float, the direct sum is.
   All of this, and every cut of a sum, depends on shapes and values alone: the bits do not depend on the threads.

   Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, arXiv:1509.09308; the points by measurement. */
#include "kernels/winograd.h"

#include "kernels/conv.h"
#include "kernels/real.h"
#include "kernels/tiling.h"
#include "runtime/memory.h"
#include "runtime/paths.h"

static int method_set = CONVOLUTION_CHOSEN;
int convolution_get_method(void) { return __atomic_load_n(&method_set, __ATOMIC_RELAXED); }
void convolution_set_method(int method) { __atomic_store_n(&method_set, method, __ATOMIC_RELAXED); }

#ifdef GRADLAB_SHUFFLES
#define REAL float
#define NAME(stem) stem##_f32
#include "kernels/conv_planes.h"
#include "kernels/conv_tile.h"

enum {
    LANES = 16, PANEL = 32, DEPTH = 32, /* PANEL and LANES as conv_planes.h has them */
    FEWEST = 16,                        /* channels and outputs, below which the transforms cost what they save */
    FEW_TILES = 16,                     /* below which a panel of tiles is too empty: smaller ones, or the direct sum; */
    FEW_TILES_OF_WEIGHTS = 8,           /* of the weights' gradient, which sums over tiles */
    WIDE = 10,                          /* log2 of the largest over the typical */
    BLOCK_TILES = 256,                  /* of the weights' gradient: their points stay in L2 */
    ROWS_OF_TILES = 4,                  /* turned together */
    SPARE = 24,                         /* columns of a band that whole vectors may read beyond the last tile */
    APART = 16,                         /* points lie more than a power of two apart: else T T stores share one set of L1 */
    PIECE = 1 << 14
};

typedef eight_f32 v8;
typedef wide_f32 v16;

/* --- what the numbers are like --- */

typedef struct {
    const float *x;
    ptrdiff_t inner, height, width, stride[3]; /* of sample, channel, row; items of a row lie side by side */
    struct found {
        int64_t exponents, count; /* of items that are not 0, without subnormal ones */
        int32_t largest;          /* the bits of it */
    } *found;
} ranging;

VECTOR static void range_items(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const ranging *c = context;
    for (ptrdiff_t item = begin; item < end; item++) {
        const float *plane = c->x + item / c->inner * c->stride[0] + item % c->inner * c->stride[1];
        struct found all = {0};
        for (ptrdiff_t y = 0; y < c->height; y++) {
            const int32_t *row = (const int32_t *)(plane + y * c->stride[2]);
            for (ptrdiff_t from = 0; from < c->width; from += PIECE) { /* sums of exponents stay in 32 bits */
                const ptrdiff_t to = c->width - from < PIECE ? c->width : from + PIECE;
                int32_t exponents = 0, count = 0, largest = all.largest;
                for (ptrdiff_t i = from; i < to; i++) {
                    const int32_t bits = row[i] & 0x7fffffff, exponent = bits >> 23;
                    exponents += exponent, count += exponent != 0;
                    largest = bits > largest ? bits : largest;
                }
                all.exponents += exponents, all.count += count, all.largest = largest;
            }
        }
        c->found[item] = all;
    }
}

typedef struct {
    int finite, wide;
    int exponent; /* of the largest */
} range;

/* 0 without memory */
static int range_of(ranging *c, ptrdiff_t planes, range *to) {
    struct found all = {0};
    if (c->stride[2] == c->width) c->width *= c->height, c->height = 1;
    c->found = malloc(sizeof *c->found * (size_t)planes);
    if (!c->found) return 0;
    parallel_for(planes, 2.0 * (double)(planes * c->height * c->width), range_items, c);
    for (ptrdiff_t i = 0; i < planes; i++) {
        all.exponents += c->found[i].exponents, all.count += c->found[i].count;
        if (c->found[i].largest > all.largest) all.largest = c->found[i].largest;
    }
    free(c->found);
    to->finite = all.largest < 0x7f800000;
    to->exponent = (all.largest >> 23) - 127;
    to->wide = all.count && to->exponent + 127 - all.exponents / all.count > WIDE;
    return 1;
}

/* Whether products of so many terms, and all that the transforms make of them, stay within a float's range. */
static int products_fit(const range *a, const range *b, ptrdiff_t terms) {
    int bits = 0;
    while ((ptrdiff_t)1 << bits < terms) bits++;
    return a->finite && b->finite && a->exponent < 120 && b->exponent < 120 && a->exponent + b->exponent + bits < 110 &&
           a->exponent + b->exponent > -100;
}

/* --- vectors of eight tiles --- */

INLINE void eight_turned(const float *const *from, v8 *to) {
    v8 r[8], s[8];
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) r[i] = *(const v8 *)from[i];
    _Pragma("GCC unroll 4") for (int i = 0; i < 8; i += 2) {
        s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    _Pragma("GCC unroll 2") for (int i = 0; i < 8; i += 4) {
        r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        r[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        to[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        to[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* to[k] lane t = from[t m + k]: the first columns of eight tiles side by side, 6 for m 4 and 4 for m 2. */
INLINE void eight_across(const float *from, const int m, v8 *to) {
    if (m == 2) {
        const v8 a = *(const v8 *)from, b = *(const v8 *)(from + 8), c = *(const v8 *)(from + 2),
                 d = *(const v8 *)(from + 10);
        to[0] = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
        to[1] = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
        to[2] = __builtin_shufflevector(c, d, 0, 2, 4, 6, 8, 10, 12, 14);
        to[3] = __builtin_shufflevector(c, d, 1, 3, 5, 7, 9, 11, 13, 15);
        return;
    }
    const v16 a = *(const v16 *)from, b = *(const v16 *)(from + 16), c = *(const v16 *)(from + 4),
              d = *(const v16 *)(from + 20);
    to[0] = __builtin_shufflevector(a, b, 0, 4, 8, 12, 16, 20, 24, 28);
    to[1] = __builtin_shufflevector(a, b, 1, 5, 9, 13, 17, 21, 25, 29);
    to[2] = __builtin_shufflevector(a, b, 2, 6, 10, 14, 18, 22, 26, 30);
    to[3] = __builtin_shufflevector(a, b, 3, 7, 11, 15, 19, 23, 27, 31);
    to[4] = __builtin_shufflevector(c, d, 0, 4, 8, 12, 16, 20, 24, 28);
    to[5] = __builtin_shufflevector(c, d, 1, 5, 9, 13, 17, 21, 25, 29);
}

/* to[t m + k] = from[k] lane t */
INLINE void eight_beside(const v8 *from, const int m, float *to) {
    if (m == 2) {
        *(v8 *)to = __builtin_shufflevector(from[0], from[1], 0, 8, 1, 9, 2, 10, 3, 11);
        *(v8 *)(to + 8) = __builtin_shufflevector(from[0], from[1], 4, 12, 5, 13, 6, 14, 7, 15);
        return;
    }
    v8 s[4], r[4];
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++) {
        s[2 * i] = __builtin_shufflevector(from[2 * i], from[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[2 * i + 1] = __builtin_shufflevector(from[2 * i], from[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++) {
        r[2 * i] = __builtin_shufflevector(s[i], s[2 + i], 0, 1, 8, 9, 4, 5, 12, 13);
        r[2 * i + 1] = __builtin_shufflevector(s[i], s[2 + i], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    *(v8 *)to = __builtin_shufflevector(r[0], r[1], 0, 1, 2, 3, 8, 9, 10, 11);
    *(v8 *)(to + 8) = __builtin_shufflevector(r[2], r[3], 0, 1, 2, 3, 8, 9, 10, 11);
    *(v8 *)(to + 16) = __builtin_shufflevector(r[0], r[1], 4, 5, 6, 7, 12, 13, 14, 15);
    *(v8 *)(to + 24) = __builtin_shufflevector(r[2], r[3], 4, 5, 6, 7, 12, 13, 14, 15);
}

/* out (8, PANEL) = u (n, 8) by v (n, PANEL), or added to it; of a panel's columns so many, where there are fewer. */
INLINE void summed(const float *u, const float *v, ptrdiff_t n, ptrdiff_t columns, float *out, int add) {
    const ptrdiff_t depths = pieces_of(n, DEPTH), depth = pieces_of(n, depths);
    columns = columns < PANEL ? columns : PANEL;
    for (ptrdiff_t i = 0; i < n; i += depth, add = 1) {
        const strip_f32 strip = {n - i < depth ? n - i : depth, 0, 1, 0, 1};
        const float *at = u + i * 8;
        eight_rows_f32(SIDE_BY_SIDE_f32, 8, columns, &strip, &at, v + i * PANEL, out, PANEL, NULL,
                       add ? ADDED_f32 : FRESH_f32);
    }
}

#define M 2
#include "kernels/winograd_tiles.h"
#undef M
#define M 4
#include "kernels/winograd_tiles.h"
#undef M

/* --- which --- */

static int is_such(const conv_shape *s) {
    for (int d = 1; d < 3; d++)
        if (s->kernel[d] != 3 || s->stride[d] != 1 || s->dilation[d] != 1 || s->padding[d] > 2) return 0;
    return s->kernel[0] == 1 && s->size[0] == 1 && s->out[0] == 1 && s->padding[0] == 0 && s->groups == 1 &&
           s->channels >= FEWEST && s->rows >= FEWEST && s->x_stride[4] == 1;
}

static ptrdiff_t tiles_of(const conv_shape *s, int m) {
    return s->batch * pieces_of(s->out[1], m) * pieces_of(s->out[2], m);
}

/* 2, 4, or 0: the direct sum; -1 without memory. b (planes, items) is what x is multiplied with. */
static int tile_for(const conv_shape *s, const float *x, const float *b, ptrdiff_t planes, ptrdiff_t items,
                    ptrdiff_t terms, ptrdiff_t few) {
    const int method = convolution_get_method();
    if (method == CONVOLUTION_DIRECT || !is_such(s) || (method == CONVOLUTION_CHOSEN && tiles_of(s, 2) < few)) return 0;
    range of[2];
    ranging first = {x, s->channels, s->size[1], s->size[2], {s->x_stride[0], s->x_stride[1], s->x_stride[3]}, NULL};
    ranging second = {b, 1, 1, items, {items, 0, items}, NULL};
    if (!range_of(&first, s->batch * s->channels, of) || !range_of(&second, planes, of + 1)) return -1;
    if (!products_fit(of, of + 1, terms)) return 0;
    if (method != CONVOLUTION_CHOSEN) return method == CONVOLUTION_F2 ? 2 : 4;
    return of->wide || of[1].wide || tiles_of(s, 4) < few ? 2 : 4;
}

int winograd_forward(const conv_shape *s, const float *x, const float *weights, const float *bias, float *y) {
    switch (tile_for(s, x, weights, s->channels, s->rows * 9, s->channels * 9, FEW_TILES)) {
    case 2: return took(PATH_conv_winograd_2), forward_2(s, x, weights, bias, y);
    case 4: return took(PATH_conv_winograd_4), forward_4(s, x, weights, bias, y);
    case 0: return WINOGRAD_DECLINED;
    default: return WINOGRAD_NO_MEMORY;
    }
}

int winograd_weight(const conv_shape *s, const float *x, const float *g, float *gw) {
    const ptrdiff_t places = s->out[1] * s->out[2];
    switch (tile_for(s, x, g, s->batch * s->rows, places, s->batch * places, FEW_TILES_OF_WEIGHTS)) {
    case 2: return took(PATH_conv_winograd_2), weight_2(s, x, g, gw);
    case 4: return took(PATH_conv_winograd_4), weight_4(s, x, g, gw);
    case 0: return WINOGRAD_DECLINED;
    default: return WINOGRAD_NO_MEMORY;
    }
}

#else
int winograd_forward(const conv_shape *s, const float *x, const float *weights, const float *bias, float *y) {
    (void)s, (void)x, (void)weights, (void)bias, (void)y;
    return WINOGRAD_DECLINED;
}

int winograd_weight(const conv_shape *s, const float *x, const float *g, float *gw) {
    (void)s, (void)x, (void)g, (void)gw;
    return WINOGRAD_DECLINED;
}
#endif
