/* Rows by their classes (classes.c). Each touches one item a row, so there is nothing to make vectors of. */
#ifndef GRADLAB_CLASSES_H
#define GRADLAB_CLASSES_H

#include <stddef.h>
#include <stdint.h>

/* x, gx (rows, classes); target, y, g (rows,); weight (classes,) or NULL. 0, nothing being written, where a target is neither
   a class nor `ignored`. */
#define DECLARE(T, S)                                                                                                   \
    int nll_loss_##S(const T *x, const int64_t *target, const T *weight, T *y, ptrdiff_t rows, ptrdiff_t classes,       \
                     int64_t ignored);                                                                                  \
    int nll_loss_backward_##S(const T *g, const int64_t *target, const T *weight, T *gx, ptrdiff_t rows,                \
                              ptrdiff_t classes, int64_t ignored);
DECLARE(float, f32)
DECLARE(double, f64)
#undef DECLARE

/* y (rows, classes) of index (rows,): an index that is no class leaves a row of zeros, as where it is compared with each. */
void one_hot(const int64_t *index, int64_t *y, ptrdiff_t rows, ptrdiff_t classes);

#endif
