/* How pooling, convolution, attention and recurrent layers stand to the arrays that they are given (window_plan.c). What
   does not fit together is 0. */
#ifndef GRADLAB_WINDOW_PLAN_H
#define GRADLAB_WINDOW_PLAN_H

#include "kernels/kernels.h"
#include "kernels/strided.h"

enum { WINDOW_AXES = 16 };

/* Windows over the last one or two axes, and the shape of the result. Of three axes `window` is over the planes of each
   volume, and `depth` over the planes' items, one row of them behind another; else depth.size[0] is 0. */
typedef struct {
    int ndim, strides_there;
    ptrdiff_t shape[WINDOW_AXES], strides[1], planes;
    pool_window window, depth;
} window_plan;

/* Settings of `count` dimensions. made: the sizes of the result; with `spreads` those of the planes that it is. */
typedef struct {
    int count, counts[4];
    const ptrdiff_t *kernel, *stride, *padding, *dilation, *made; /* dilation may be NULL */
} window_settings;
int window_planned(window_plan *plan, const ptrdiff_t *shape, int ndim, const window_settings *settings, int spreads);

/* Pooling as it is planned (pool.c, windows.c); 0 without memory. */
#define DECLARE_PLANNED(T, S)                                                                    \
    int max_pool_planned_##S(const window_plan *plan, const T *x, T *y, int64_t *places);        \
    int window_sum_planned_##S(const window_plan *plan, const T *x, T *y);                       \
    int window_spread_planned_##S(const window_plan *plan, const T *x, T *y);
DECLARE_PLANNED(float, f32)
DECLARE_PLANNED(double, f64)
#undef DECLARE_PLANNED

/* A convolution of x, or its transpose, and the shape of its result; the gradient of its weight. */
typedef struct {
    int ndim, strides_there;
    ptrdiff_t shape[5], strides[1];
    conv_shape conv;
} conv_plan;
typedef struct {
    int counts[4];
    const ptrdiff_t *stride, *padding, *dilation, *out;
    ptrdiff_t groups;
} conv_settings;
int conv_planned(conv_plan *plan, const strided *x, const ptrdiff_t *weight, int weight_ndim, const conv_settings *settings,
                 int transposed);
int conv_weight_planned(conv_plan *plan, const strided *x, const ptrdiff_t *g, int g_ndim, const ptrdiff_t *kernel,
                        int kernel_count, const conv_settings *settings);

/* Whether the steps of a recurrent layer cover its rows, and nothing beside them; and how many gates it has. */
int rnn_steps_fit(const int64_t *starts, const int64_t *sizes, ptrdiff_t steps, ptrdiff_t batch, ptrdiff_t stride,
                  ptrdiff_t rows);
static inline int rnn_gates(ptrdiff_t kind) { return kind == RNN_LSTM ? 4 : kind == RNN_GRU ? 3 : 1; }

/* An array of four axes; none of what is not there. */
static inline attention_array attention_of(const strided *x) {
    attention_array a = {x->data, {0}};
    for (int k = 0; x->data && k < 4; k++) a.stride[k] = x->strides[k] / x->item;
    return a;
}

#endif
