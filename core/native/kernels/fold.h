/* Windows of images as columns, and columns added back to an image (fold.c). */
#ifndef GRADLAB_FOLD_H
#define GRADLAB_FOLD_H

#include <stddef.h>

/* Images of `planes` (batch and channels) of size[0] by size[1], whose windows are out[0] by out[1]; and the shape of the
   result: of columns (batch, channels * kernel, windows), else of images. */
typedef struct {
    int ndim, strides_there;
    ptrdiff_t shape[4], strides[1], planes, size[2], out[2], kernel[2], dilation[2], padding[2], stride[2];
} fold_plan;
typedef struct {
    int counts[4];
    const ptrdiff_t *kernel, *dilation, *padding, *stride;
} fold_settings;

/* Of images of that shape, or of columns, which are to become images of `sizes`; 0 where they do not fit. */
int unfold_planned(fold_plan *plan, const ptrdiff_t *shape, int ndim, const fold_settings *settings);
int fold_planned(fold_plan *plan, const ptrdiff_t *shape, int ndim, const ptrdiff_t *sizes, int count, const fold_settings *settings);

#define DECLARE_FOLD(T, S)                                              \
    void unfold_##S(const fold_plan *plan, const T *x, T *columns);     \
    void fold_##S(const fold_plan *plan, const T *columns, T *y);
DECLARE_FOLD(float, f32)
DECLARE_FOLD(double, f64)
#undef DECLARE_FOLD

#endif
