/* Products of rows of 8-bit numbers, exact in 32 bits, and the float rows that become such. */
#ifndef GRADLAB_INT8_H
#define GRADLAB_INT8_H

#include <stddef.h>
#include <stdint.h>

/* Ways to multiply, the best last. All give the same bits. */
enum { INT8_PLAIN, INT8_AVX2, INT8_AVX_VNNI, INT8_AVX512VL, INT8_AVX512, INT8_WAYS };

/* The way that is taken: this processor's best, or the one that was chosen. */
int int8_way(void);
int int8_has_way(int way);
void int8_choose_way(int way); /* one that is there; -1: the best */

enum { INT8_NOTHING, INT8_RELU, INT8_GELU, INT8_SILU, INT8_ACTIVATIONS };

/* What INT8_NOTHING... are called; -1 for another name. */
int int8_activation(const char *name);

/* y (n,) through an activation, in place */
void int8_activate(float *y, ptrdiff_t n, int activation);

/* The distance in bytes at which rows of k numbers are laid: whole vectors, and not a multiple of 512. */
ptrdiff_t int8_depth(ptrdiff_t k);

/* Rows of float32 as 8-bit numbers. With `given` all are divided by it, moved by `zero` and cut to -128..127; without,
   each by its greatest magnitude / 127. scales[row] is NaN where the row holds one; q is 0 behind k. */
typedef struct {
    const float *x; /* (rows, k), x_row items apart */
    ptrdiff_t x_row, k, depth;
    const float *given;
    int zero;
    int8_t *q; /* (rows, depth) */
    int32_t *sums; /* of each row of q */
    float *scales;
} int8_rows;
void int8_quantise(const int8_rows *r, ptrdiff_t begin, ptrdiff_t end);

enum { INT8_SLACK = 16 };

/* y[i * y_row + j] = activation((sum_k (q[i, k] - zero) w[j, k]) * (scales[i] * scale[j]) + bias[j]); one
   of y_row and y_column is 1. */
typedef struct {
    const int8_t *q; /* (m, depth), 0 behind k */
    const int32_t *sums;
    const float *scales;
    ptrdiff_t scale_rows; /* rows that share a scale: scales[i / scale_rows] */
    ptrdiff_t depth;
    const int8_t *w; /* (n, k) */
    const float *scale, *bias; /* bias may be NULL */
    ptrdiff_t scale_step;      /* 0: one for all */
    float *y;
    ptrdiff_t y_row;
    ptrdiff_t m, n, k;
    int zero, activation;
    /* Of a convolution, whose q is the weight: it is w that is moved by a zero point, and bias has an item a row. lines:
       instead of w, gives `count` of its lines from `column` on, and may write INT8_SLACK bytes behind them. */
    int w_zero, bias_rows;
    void (*lines)(const void *from, ptrdiff_t column, ptrdiff_t count, int8_t *to);
    const void *from;
    int32_t *totals; /* instead of y: (m, n), the sums themselves; or NULL */
    ptrdiff_t off;   /* of one row: how far every line of w lies behind a multiple of 64, as q does, with zeros around it */
} int8_product;
int int8_multiply(const int8_product *p); /* 0 without memory */

/* y (m, n) = activation(quantised(x) w^T * scales + bias), the whole layer; 0 without memory */
int int8_linear(const float *x, const int8_t *w, const float *scale, ptrdiff_t scales, const float *bias,
                const float *given, int zero, int activation, float *y, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k);

/* y (m, n) = x (m, k) (w scale)^T + bias in float32, w of 8 bits; 0 without memory */
int weight_int8_linear(const float *x, const int8_t *w, const float *scale, const float *bias, float *y, ptrdiff_t m,
                       ptrdiff_t n, ptrdiff_t k);

/* The same of weights of 4 bits, two a byte, the first in its low half: ((q - zero) scale), a scale and a zero for each
   of the `groups` that the k of a line are divided into. */
int weight_int4_linear(const float *x, const uint8_t *w, const float *scale, const float *zero, const float *bias, float *y,
                       ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, ptrdiff_t groups);

/* y (rows, width) of the lines of w that index names */
void int8_embedding(const int8_t *w, const int64_t *index, const float *scale, ptrdiff_t scales, float *y, ptrdiff_t rows,
                    ptrdiff_t width);
void int4_embedding(const uint8_t *w, const int64_t *index, const float *scale, const float *zero, float *y, ptrdiff_t rows,
                    ptrdiff_t width, ptrdiff_t groups);

/* A convolution of x (batch, channels, height, width) with w (outputs, channels / groups, kernel). */
typedef struct {
    ptrdiff_t batch, channels, outputs, groups, size[2], kernel[2], out[2], stride[2], padding[2], dilation[2];
} int8_conv_shape;

/* y (batch, outputs, out) = activation(conv(quantised(x), w) * scales + bias), a scale a sample, or `given`; `last`: w
   lies as (outputs, kernel, channels / groups). */
typedef struct {
    const int8_conv_shape *s;
    const float *x;
    const int8_t *w;
    int last;
    const float *scale;
    ptrdiff_t scales;
    const float *bias, *given;
    int zero, activation;
    float *y;
} int8_conv_call;
int int8_conv(const int8_conv_call *c); /* 0 without memory */

#endif
