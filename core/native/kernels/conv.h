/* What the files of convolution share: a plan says where each output's sum finds its terms.

   The source is laid out as planes, one for every channel and, where windows are `stride` apart, one for every
   remainder of a division by the stride: zeros around it, and what a stride skips left out. In planes, windows
   of neighbouring outputs are neighbours: tap t of output j lies at place(j) + offset[t] for every stride,
   dilation and padding. A convolution has one pass over all outputs. Its transpose has a pass for every
   remainder of an output's index, with the taps that fall on it. Dimensions are depth, height, width. */
#ifndef GRADLAB_CONV_H
#define GRADLAB_CONV_H

#include "kernels/kernel.h"
#include "kernels/kernels.h"

typedef struct {
    ptrdiff_t taps, first;        /* how many, and the first in offset and tap */
    ptrdiff_t n[3], step[3], origin; /* outputs along each dimension, how far apart in the output, and the first */
    ptrdiff_t pixels;             /* the product of n */
} conv_pass;

typedef struct {
    ptrdiff_t lead[3], step[3], slots[3], extent[3]; /* index m of a plane is m step + phase - lead of the source */
    ptrdiff_t *phase[3];                             /* (slots,) */
    ptrdiff_t plane, channel;                        /* items of a plane, of all planes of a channel */
    int as_it_lies;                                  /* the source is its own planes */
    ptrdiff_t passes, total;                         /* total taps of all passes */
    conv_pass *pass;
    ptrdiff_t *offset, *tap; /* where a tap lies in the planes of a channel, and its index in the kernel */
    ptrdiff_t farthest;      /* the largest offset */
    ptrdiff_t reach;         /* items of the source from its first to its last; 0 where it runs backwards */
    ptrdiff_t chunk;         /* samples whose planes are laid out together */
} conv_plan;

/* false without memory; conv_plan_drop either way */
int conv_plan_make(conv_plan *plan, const conv_shape *shape, size_t item_bytes);
void conv_plan_drop(conv_plan *plan);

/* Groups of one or two outputs, depthwise layers above all, are summed straight from the planes (conv_direct.c). */
INLINE int conv_is_direct(const conv_shape *s, const conv_plan *p) {
    return s->rows <= 2 && s->channels / s->groups * p->channel <= 65536;
}

#define DECLARE(T, S)                                                                                                \
    int conv_direct_##S(const conv_shape *s, const conv_plan *plan, const T *x, const T *weights, const T *bias,      \
                        T *y);                                                                                      \
    int conv_direct_weight_##S(const conv_shape *s, const conv_plan *plan, const T *x, const T *g, T *gw);            \
    int conv_is_flat_##S(const conv_shape *s); /* depthwise layers of 3 x 3 (conv_flat.c) */                         \
    int conv_flat_##S(const conv_shape *s, const T *x, const T *weights, const T *bias, T *y);                      \
    int conv_flat_weight_##S(const conv_shape *s, const T *x, const T *g, T *gw);
DECLARE(float, f32)
DECLARE(double, f64)
#undef DECLARE

/* to (8, 8) = from (8, 8) turned; rows are ldt and ldf apart. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define GRADLAB_SHUFFLES
#endif
#endif
INLINE void turn_8_f32(const float *from, ptrdiff_t ldf, float *to, ptrdiff_t ldt) {
#ifdef GRADLAB_SHUFFLES
    typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
    eight r[8], s[8];
    for (int i = 0; i < 8; i++) r[i] = *(const eight *)(from + i * ldf);
    for (int i = 0; i < 8; i += 2) { /* pairs of rows, then of pairs, then halves */
        s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        r[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        *(eight *)(to + i * ldt) = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(eight *)(to + (i + 4) * ldt) = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
#else
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 8; i++) to[j * ldt + i] = from[i * ldf + j];
#endif
}
INLINE void turn_8_f64(const double *from, ptrdiff_t ldf, double *to, ptrdiff_t ldt) {
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 8; i++) to[j * ldt + i] = from[i * ldf + j];
}

INLINE ptrdiff_t pieces_of(ptrdiff_t n, ptrdiff_t size) { return (n + size - 1) / size; }

#endif
