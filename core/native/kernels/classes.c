/* Rows by their classes: the negative log likelihood and its gradient, and rows with a single 1. */
#include "kernels/classes.h"

#include <string.h>

static int all_classes(const int64_t *target, ptrdiff_t rows, ptrdiff_t classes, int64_t ignored) {
    for (ptrdiff_t k = 0; k < rows; k++)
        if ((target[k] < 0 || target[k] >= classes) && target[k] != ignored) return 0;
    return 1;
}

#define LOSS(T, S)                                                                                                      \
    int nll_loss_##S(const T *x, const int64_t *target, const T *weight, T *y, ptrdiff_t rows, ptrdiff_t classes,       \
                     int64_t ignored) {                                                                                 \
        if (!all_classes(target, rows, classes, ignored)) return 0;                                                     \
        for (ptrdiff_t k = 0; k < rows; k++) {                                                                          \
            const int64_t t = target[k];                                                                                \
            y[k] = t == ignored ? 0 : (T)(-(double)x[k * classes + t] * (weight ? (double)weight[t] : 1));              \
        }                                                                                                               \
        return 1;                                                                                                       \
    }                                                                                                                   \
    int nll_loss_backward_##S(const T *g, const int64_t *target, const T *weight, T *gx, ptrdiff_t rows,                \
                              ptrdiff_t classes, int64_t ignored) {                                                     \
        if (!all_classes(target, rows, classes, ignored)) return 0;                                                     \
        memset(gx, 0, sizeof(T) * (size_t)(rows * classes));                                                            \
        for (ptrdiff_t k = 0; k < rows; k++) {                                                                          \
            const int64_t t = target[k];                                                                                \
            if (t != ignored) gx[k * classes + t] = (T)(-(double)g[k] * (weight ? (double)weight[t] : 1));              \
        }                                                                                                               \
        return 1;                                                                                                       \
    }
LOSS(float, f32)
LOSS(double, f64)

void one_hot(const int64_t *index, int64_t *y, ptrdiff_t rows, ptrdiff_t classes) {
    memset(y, 0, sizeof(int64_t) * (size_t)(rows * classes));
    for (ptrdiff_t k = 0; k < rows; k++)
        if (index[k] >= 0 && index[k] < classes) y[k * classes + index[k]] = 1;
}
