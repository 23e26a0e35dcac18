/* The hand-written kernels. Shapes stand beside the pointers; all arrays are contiguous. Every name
   exists for float (_f32) and double (_f64). */
#ifndef GRADLAB_KERNELS_H
#define GRADLAB_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/behind.h"

enum { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN };
enum { MOMENT_VAR, MOMENT_STD, MOMENT_NORM, MOMENT_ABS, MOMENT_LOGSUMEXP, MOMENT_PROD };
enum { HISTOGRAM_BINS = 64, HISTOGRAM_LOW = -40 };

/* Over the finite items; min > max when there is none. */
typedef struct {
    double min, max, mean, deviations; /* deviations: the sum of (x - mean)^2 */
    int64_t count, zeros, nonfinite, nan;
    int64_t histogram[HISTOGRAM_BINS]; /* of floor(log2 |x|) from -40 on, zeros left out, the ends open; above
                                          16384 items estimated from evenly spaced ones */
} value_stats;

/* What cross entropy takes beside its arrays. */
typedef struct {
    int64_t ignore_index;
    double smoothing;
} loss_options;

/* The windows of pooling over planes of size[0] by size[1]. */
typedef struct {
    ptrdiff_t size[2], kernel[2], stride[2], padding[2], dilation[2], out[2];
} pool_window;

/* How n items become `out`: the places (out, taps) of those that each is a weighted sum of. */
typedef struct {
    const int64_t *at;
    const double *weights;
    ptrdiff_t n, out, taps;
} resample_table;

/* What batch norm goes over: (samples, channels, size). */
typedef struct {
    ptrdiff_t samples, channels, size;
} batch_shape;

/* Whether the forward kernel pays: channels of neighbours, or single items, many channels at a time. */
static inline int batch_norm_takes(const batch_shape *s) { return s->size >= 16 || s->size == 1; }

/* What group norm goes over: (samples, groups, inside, size), `inside` the channels of a group. */
typedef struct {
    ptrdiff_t samples, groups, inside, size;
} group_shape;

enum { RNN_LSTM, RNN_GRU, RNN_TANH, RNN_RELU };

/* A recurrent layer. Row starts[t] + b * stride holds step t of sequence b, which has that step when
   b < sizes[t]; the sizes never grow. */
typedef struct {
    int kind, reverse;
    ptrdiff_t steps, batch, rows, inputs, hidden, stride;
    const int64_t *starts, *sizes; /* (steps,) */
} rnn_shape;

/* gates is 4 for LSTM, 3 for GRU, else 1; what may be NULL stands so. */
typedef struct {
    const void *x, *w_ih, *w_hh; /* (rows, inputs), (gates * hidden, inputs), (gates * hidden, hidden) */
    const void *b_ih, *b_hh;     /* (gates * hidden,) or NULL */
    const void *h0, *c0;         /* (batch, hidden) or NULL for zeros */
    void *y, *hn, *cn;           /* (rows, hidden), (batch, hidden), (batch, hidden) of LSTM */
    void *gates, *cells;         /* (rows, 4 * hidden) of LSTM and GRU, (rows, hidden) of LSTM: for the backward */
    const void *gy, *ghn, *gcn;  /* the incoming gradients; gcn of LSTM */
    void *gx, *gh0, *gc0;        /* gx NULL where nobody asks */
    void *gw_ih, *gw_hh, *gb_ih, *gb_hh;
} rnn_arrays;

/* Strides in items: batch, head, row, item. */
typedef struct {
    const void *data;
    ptrdiff_t stride[4];
} attention_array;

enum { ATTENTION_ADDED = 1, ATTENTION_ALLOWED = 2 }; /* kinds of mask: of REAL, of bytes */

typedef struct {
    ptrdiff_t outer, heads, l, s, d, dv;
    double scale;
    int causal, mask;
} attention_shape;

typedef struct {
    attention_array q, k, v, mask, y, logs, g, gq, gk, gv;
} attention_arrays;

/* A convolution of x (batch, channels, size) with groups of `rows` outputs, or its transpose. Dimensions are depth,
   height and width; strides of x in items. */
typedef struct {
    ptrdiff_t batch, channels, groups, rows;
    ptrdiff_t size[3], out[3], kernel[3], stride[3], padding[3], dilation[3], x_stride[5];
    int transposed;
} conv_shape;

#define DECLARE(T, S)                                                                                                  \
    /* y (outer, inner) = sum, largest or smallest of x (outer, n, inner) over n; false without memory */              \
    int reduce_##S(int kind, const T *x, T *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);                         \
    /* index (outer, inner) of the first largest (or smallest) item; NaN counts as beyond all others */                \
    void argreduce_##S(int kind, const T *x, int64_t *index, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);           \
    /* y (outer, inner) of x (outer, n, inner), none of them 0; free: what a sum of squares is divided by. The      \
       products' way back is for items that are not 0. false without memory */                                        \
    int moment_forward_##S(int kind, const T *x, T *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner, double free);    \
    int moment_backward_##S(int kind, const T *g, const T *x, const T *y, T *gx, ptrdiff_t outer, ptrdiff_t n,         \
                            ptrdiff_t inner, double free);                                                             \
    int has_no_zero_##S(const T *x, ptrdiff_t n);                                                                      \
    int value_stats_##S(const T *x, ptrdiff_t n, value_stats *stats);                                                  \
    int all_finite_##S(const T *x, ptrdiff_t n);                                                                       \
    /* sums[0] of (after - before)^2, sums[1] of before^2 */                                                           \
    void change_##S(const T *after, const T *before, ptrdiff_t n, double *sums);                                       \
    /* whether any is not finite (1 or 0, in nonfinite), the range of all and the rest of evenly spaced items */       \
    int value_glance_##S(const T *x, ptrdiff_t n, value_stats *stats);                                                 \
    /* x, y, g, gx (rows, n) */                                                                                        \
    void softmax_forward_##S(const T *x, T *y, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t inner);                          \
    void softmax_backward_##S(const T *g, const T *y, T *gx, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t inner);            \
    void log_softmax_forward_##S(const T *x, T *y, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t inner);                      \
    void log_softmax_backward_##S(const T *g, const T *y, T *gx, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t inner);        \
    /* x, y, g, gx (rows, n); w, b, gw, gb (n,), w and b may be NULL; mean, rstd (rows,) */                            \
    void layer_norm_forward_##S(const T *x, const T *w, const T *b, T *y, T *mean, T *rstd, ptrdiff_t rows,            \
                                ptrdiff_t n, double eps);                                                              \
    int layer_norm_backward_##S(const T *g, const T *x, const T *mean, const T *rstd, const T *w, T *gx, T *gw, T *gb, \
                                ptrdiff_t rows, ptrdiff_t n);                                                          \
    /* x, y, g, gx (samples, channels, size); all others (channels,); w, b, gx may be NULL */                          \
    void batch_norm_forward_##S(const batch_shape *s, const T *x, const T *w, const T *b, T *y, T *mean, T *var,       \
                                double eps);                                                                           \
    void batch_norm_eval_##S(const batch_shape *s, const T *x, const T *mean, const T *var, const T *w, const T *b,    \
                             T *scale, T *y, double eps); /* scale (channels,) is scratch */                           \
    void batch_norm_backward_##S(const batch_shape *s, const T *g, const behind_norm *behind, const T *gmean,          \
                                 const T *gvar, const T *x, const T *w, const T *mean, const T *var, T *gx, T *gw,     \
                                 T *gb, double eps);                                                                   \
    /* x, y, g, gx (samples, groups, inside, size); w, b, gw, gb (groups, inside); mean, rstd (samples, groups); sums and  \
       products (samples, groups, inside) are scratch; w, b, gx may be NULL */                                       \
    void group_norm_forward_##S(const group_shape *s, const T *x, const T *w, const T *b, T *y, T *mean, T *rstd,       \
                                double eps);                                                                         \
    void group_norm_backward_##S(const group_shape *s, const T *g, const behind_norm *behind, const T *x, const T *w,  \
                                 const T *mean, const T *rstd, T *gx, T *gw, T *gb, T *sums, T *products);           \
    /* x, gx (rows, classes); target, loss, lse, g (rows,); weight (classes,) or NULL. lse is the log of the sum   \
       of exponentials. Returns the first row whose target is out of range, or -1. */   \
    ptrdiff_t cross_entropy_forward_##S(const T *x, const int64_t *target, const T *weight, T *loss, T *lse,           \
                                        ptrdiff_t rows, ptrdiff_t classes, loss_options options);                      \
    ptrdiff_t cross_entropy_backward_##S(const T *g, const T *x, const T *lse, const int64_t *target, const T *weight, \
                                         T *gx, ptrdiff_t rows, ptrdiff_t classes, loss_options options);              \
    /* table, gtable (count, n); index (rows,); y, g (rows, n). Rows of index `padding` leave no gradient. */          \
    void embedding_backward_##S(const T *g, const int64_t *index, T *gtable, ptrdiff_t rows, ptrdiff_t count,          \
                                ptrdiff_t n, int64_t padding);                                                         \
    /* y, places (planes, out) of x (planes, size): of each window the greatest, and where in its plane it stood */    \
    void max_pool_##S(const T *x, T *y, int64_t *places, ptrdiff_t planes, const pool_window *window);                 \
    /* y (planes, out) = the sum of each window of x (planes, size); and each item of x (planes, out) added to its       \
       window in y (planes, size). Windows of up to 1024 columns that are as far apart */                              \
    void window_sum_##S(const T *x, T *y, ptrdiff_t planes, const pool_window *window);                                \
    void window_spread_##S(const T *x, T *y, ptrdiff_t planes, const pool_window *window);                             \
    /* y (outer, out, inner) of x (outer, n, inner) */                                                                 \
    void resample_##S(const T *x, T *y, ptrdiff_t outer, ptrdiff_t inner, const resample_table *table);                \
    /* out (planes, size) = 0, and g (planes, count) added at its places */                                            \
    void scatter_add_##S(const T *g, const int64_t *places, T *out, ptrdiff_t planes, ptrdiff_t count, ptrdiff_t size); \
    int rnn_forward_##S(const rnn_shape *shape, const rnn_arrays *arrays); /* false without memory */                  \
    int rnn_backward_##S(const rnn_shape *shape, const rnn_arrays *arrays);                                            \
    int attention_forward_##S(const attention_shape *shape, const attention_arrays *arrays); /* as rnn_forward */      \
    int attention_backward_##S(const attention_shape *shape, const attention_arrays *arrays);                          \
    /* y (batch, groups * rows, out) = bias (groups * rows,) or NULL, and x by weights: (groups * rows,                \
       channels / groups, kernel), of a transpose (channels, rows, kernel) */                                          \
    int conv_forward_##S(const conv_shape *shape, const void *x, const void *weights, const void *bias, void *y);      \
    /* gw (groups * rows, channels / groups, kernel) of g (batch, groups * rows, out) */                               \
    int conv_weight_##S(const conv_shape *shape, const void *x, const void *g, void *gw);
DECLARE(float, f32)
DECLARE(double, f64)
#undef DECLARE

/* The first of n indices outside 0..count-1, or -1. */
ptrdiff_t index_check(const int64_t *index, ptrdiff_t n, int64_t count);
/* y (rows, size) = table (count, size)[index], in bytes. */
void embedding_forward(const char *table, const int64_t *index, char *y, ptrdiff_t rows, ptrdiff_t size);

#endif
