/* Whether the settings of windows and layers fit their arrays, and what the kernels then go over. */
#include "kernels/window_plan.h"

/* One or two whole numbers, the first of two `alone` where there is one. */
static int numbers(const ptrdiff_t *given, int count, ptrdiff_t least, ptrdiff_t alone, ptrdiff_t *to) {
    to[0] = alone;
    for (int k = 0; k < count; k++) {
        if (given[k] < least || given[k] > INT32_MAX) return 0;
        to[k + 2 - count] = given[k];
    }
    return 1;
}

int window_planned(window_plan *plan, const ptrdiff_t *shape, int ndim, const window_settings *s, int spreads) {
    pool_window *w = &plan->window, *d = &plan->depth;
    const int n = s->count, deep = n == 3, flat = n - deep;
    ptrdiff_t *mine = spreads ? w->out : w->size, *made = spreads ? w->size : w->out;
    if (n < 1 || n > 3 || ndim < n || ndim > WINDOW_AXES) return 0;
    for (int k = 0; k < 4; k++)
        if (s->counts[k] != n) return 0;
    if (!numbers(s->kernel + deep, flat, 1, 1, w->kernel) || !numbers(s->stride + deep, flat, 1, 1, w->stride) ||
        !numbers(s->padding + deep, flat, 0, 0, w->padding) || !numbers(s->made + deep, flat, 1, 1, made) ||
        (s->dilation && !numbers(s->dilation + deep, flat, 1, 1, w->dilation)))
        return 0;
    mine[0] = n > 1 ? shape[ndim - 2] : 1;
    mine[1] = shape[ndim - 1];
    *d = (pool_window){.size = {0}};
    if (deep) {
        const ptrdiff_t items = made[0] * made[1], own = shape[ndim - 3];
        if (s->made[0] < 1) return 0;
        *d = (pool_window){.size = {spreads ? s->made[0] : own, items}, .kernel = {s->kernel[0], 1}, .stride = {s->stride[0], 1},
                           .padding = {s->padding[0], 0}, .dilation = {s->dilation ? s->dilation[0] : 1, 1},
                           .out = {spreads ? own : s->made[0], items}};
        for (int k = 0; k < 2; k++)
            if (d->kernel[k] < 1 || d->stride[k] < 1 || d->padding[k] < 0 || d->dilation[k] < 1 || d->size[k] > INT32_MAX) return 0;
    }
    plan->planes = sizes_multiplied(shape, ndim - flat);
    plan->ndim = ndim;
    plan->strides_there = 0;
    for (int k = 0; k < ndim; k++) plan->shape[k] = shape[k];
    for (int k = 0; k < flat; k++) plan->shape[ndim - 1 - k] = made[1 - k];
    if (deep) plan->shape[ndim - 3] = s->made[0];
    return 1;
}

/* The last of three dimensions; those before are 1. */
static int last_of_three(const ptrdiff_t *given, int count, int needed, ptrdiff_t least, ptrdiff_t *to) {
    if (count != needed) return 0;
    for (int i = 0; i < count; i++) {
        if (given[i] < least) return 0;
        to[3 - count + i] = given[i];
    }
    return 1;
}

static int source(conv_shape *s, const strided *x, const conv_settings *settings) {
    const int n = x->ndim - 2;
    if (n < 1 || n > 3 || !sizes_multiplied(x->shape, x->ndim)) return 0;
    *s = (conv_shape){.batch = x->shape[0], .channels = x->shape[1], .groups = settings->groups};
    for (int d = 0; d < 3; d++) s->size[d] = s->out[d] = s->kernel[d] = s->stride[d] = s->dilation[d] = 1;
    if (!last_of_three(settings->stride, settings->counts[0], n, 1, s->stride) ||
        !last_of_three(settings->padding, settings->counts[1], n, PTRDIFF_MIN, s->padding) ||
        !last_of_three(settings->dilation, settings->counts[2], n, 1, s->dilation) ||
        !last_of_three(settings->out, settings->counts[3], n, 1, s->out))
        return 0;
    ptrdiff_t dense = 1;
    for (int d = n + 1; d >= 0; d--) { /* the step along an axis of one item says nothing */
        const int at = d < 2 ? d : d + 3 - n;
        s->x_stride[at] = x->shape[d] == 1 ? dense : x->strides[d] / x->item;
        dense *= x->shape[d];
        if (d > 1) s->size[at - 2] = x->shape[d];
        if (d == 2)
            for (int k = 2; k < 5 - n; k++) s->x_stride[k] = dense;
    }
    return s->groups > 0 && s->channels % s->groups == 0;
}

int conv_planned(conv_plan *plan, const strided *x, const ptrdiff_t *weight, int weight_ndim, const conv_settings *settings,
                 int transposed) {
    conv_shape *s = &plan->conv;
    const int n = x->ndim - 2;
    if (weight_ndim != x->ndim || !sizes_multiplied(weight, weight_ndim) || !source(s, x, settings)) return 0;
    s->transposed = transposed;
    for (int d = 0; d < n; d++) s->kernel[3 - n + d] = weight[d + 2];
    s->rows = transposed ? weight[1] : weight[0] / s->groups;
    if (weight[transposed ? 0 : 1] != s->channels / (transposed ? 1 : s->groups)) return 0;
    if (!transposed && weight[0] % s->groups) return 0;
    plan->ndim = x->ndim;
    plan->strides_there = 0;
    plan->shape[0] = s->batch;
    plan->shape[1] = s->groups * s->rows;
    for (int d = 0; d < n; d++) plan->shape[d + 2] = s->out[3 - n + d];
    return 1;
}

int conv_weight_planned(conv_plan *plan, const strided *x, const ptrdiff_t *g, int g_ndim, const ptrdiff_t *kernel,
                        int kernel_count, const conv_settings *settings) {
    conv_shape *s = &plan->conv;
    const int n = x->ndim - 2;
    if (g_ndim != x->ndim || !source(s, x, settings) || !last_of_three(kernel, kernel_count, n, 1, s->kernel)) return 0;
    s->rows = g[1] / s->groups;
    if (g[0] != s->batch || g[1] % s->groups || !s->rows) return 0;
    plan->ndim = x->ndim;
    plan->strides_there = 0;
    plan->shape[0] = s->groups * s->rows;
    plan->shape[1] = s->channels / s->groups;
    for (int d = 0; d < n; d++) plan->shape[d + 2] = s->kernel[3 - n + d];
    return 1;
}

int rnn_steps_fit(const int64_t *starts, const int64_t *sizes, ptrdiff_t steps, ptrdiff_t batch, ptrdiff_t stride,
                  ptrdiff_t rows) {
    int64_t most = batch, all = 0;
    if (batch < 1 || stride < 1) return 0;
    for (ptrdiff_t t = 0; t < steps; most = sizes[t++]) {
        all += sizes[t];
        if (sizes[t] < 0 || sizes[t] > most || starts[t] < 0 || (sizes[t] && starts[t] + (sizes[t] - 1) * stride >= rows))
            return 0;
    }
    return steps > 0 && all == rows;
}
