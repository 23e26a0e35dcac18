/* Layers of small numbers: the input rounded to 8 bits and multiplied in whole numbers, or weights of 8 and 4 bits that
   are widened as they are read.

   What is quantised stands as 16 bits, its zero point taken off, so that two products fit a pair of lanes; sums are of
   32 bits, and exact. The bias and the activation follow in loops of the model's own: a product that stands in memory
   cannot be contracted with the sum that follows, so that the bits are those of eager core. */
#ifndef GRADLAB_QUANTISED_H
#define GRADLAB_QUANTISED_H

#include "base.h"

#define BAD_ROW 2

/* The whole numbers of one piece of n, with its own scale: to_one / largest, halves to even. Returns the scale. */
INLINE float own_steps(int64_t n, const float *x, int16_t *q) {
    float most = 0;
    int wrong = 0;
    for (int64_t j = 0; j < n; j++) {
        const float a = fabsf(x[j]);
        most = a > most ? a : most;
        wrong |= a != a;
    }
    const float inverse = 127 / most;
    if (wrong || !(inverse <= 3.40282347e38f) || !(most <= 3.40282347e38f)) {
        for (int64_t j = 0; j < n; j++) q[j] = 0;
        return wrong || most > 3.40282347e38f ? NAN : most / 127;
    }
    for (int64_t j = 0; j < n; j++) q[j] = (int16_t)(int32_t)rintf(x[j] * inverse);
    return most / 127;
}

/* The same with a scale that is given, -128 to 127 with the zero point. */
INLINE float given_steps(int64_t n, const float *x, float scale, float zero, int16_t *q) {
    int wrong = 0;
    for (int64_t j = 0; j < n; j++) {
        const float steps = rintf(x[j] / scale) + zero;
        const float least = steps > -128 ? steps : -128, kept = least < 127 ? least : 127;
        wrong |= x[j] != x[j];
        q[j] = (int16_t)(int32_t)(kept - zero);
    }
    return wrong ? NAN : scale;
}

/* Pieces of n numbers, each with its scale; `scale` is NULL where each has its own. */
KERNEL void quantise(int64_t count, int64_t n, const float *x, const float *scale, int64_t zero, int16_t *q,
                     float *scales) {
    for (int64_t i = 0; i < count; i++)
        scales[i] = scale ? given_steps(n, x + i * n, *scale, (float)zero, q + i * n)
                          : own_steps(n, x + i * n, q + i * n);
}

INLINE int32_t dot_i16(int64_t n, const int16_t *x, const int8_t *w) {
    int32_t sum = 0;
    for (int64_t k = 0; k < n; k++) sum += (int32_t)x[k] * (int16_t)w[k];
    return sum;
}

/* out (rows, outputs) = sums * (scale of the row * scale of the output), with `one` scale for all outputs or not. */
KERNEL void int8_product(int64_t rows, int64_t outputs, int64_t n, const int16_t *q, const float *scales,
                         const int8_t *weight, const float *of_outputs, int one, float *out) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t o = 0; o < outputs; o++)
            out[i * outputs + o] =
                (float)dot_i16(n, q + i * n, weight + o * n) * (scales[i] * of_outputs[one ? 0 : o]);
}

typedef struct {
    int64_t n, c, h, w, o, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups;
} int8_sizes;

/* The windows of one group of an image as rows, (oh * ow, channels * kh * kw); beyond the border stands 0. */
INLINE void windows_i16(const int8_sizes *s, const int16_t *image, int16_t *rows) {
    for (int64_t i = 0; i < s->oh; i++)
        for (int64_t j = 0; j < s->ow; j++)
            for (int64_t c = 0; c < s->c / s->groups; c++)
                for (int64_t u = 0; u < s->kh; u++) {
                    const int64_t y = i * s->sh + u * s->dh - s->ph;
                    const int16_t *const row = image + (c * s->h + y) * s->w;
                    for (int64_t v = 0; v < s->kw; v++) {
                        const int64_t x = j * s->sw + v * s->dw - s->pw;
                        *rows++ = y >= 0 && y < s->h && x >= 0 && x < s->w ? row[x] : (int16_t)0;
                    }
                }
}

KERNEL void int8_conv(const int64_t *sizes, const int16_t *q, const float *scales, const int8_t *weight,
                      const float *of_outputs, int one, float *out, int16_t *rows) {
    int8_sizes s;
    memcpy(&s, sizes, sizeof s);
    const int64_t inside = s.c / s.groups, each = s.o / s.groups, n = inside * s.kh * s.kw, places = s.oh * s.ow;
    for (int64_t b = 0; b < s.n; b++)
        for (int64_t g = 0; g < s.groups; g++) {
            windows_i16(&s, q + (b * s.c + g * inside) * s.h * s.w, rows);
            for (int64_t o = g * each; o < (g + 1) * each; o++) {
                const float by = scales[b] * of_outputs[one ? 0 : o];
                float *const to = out + (b * s.o + o) * places;
                for (int64_t p = 0; p < places; p++) to[p] = (float)dot_i16(n, rows + p * n, weight + o * n) * by;
            }
        }
}

/* -- weights alone: a row is widened once, and multiplied with every row of the input -- */

INLINE float dot_wide(int64_t n, const float *x, const float *w) {
    vec s[4] = {{0}};
    int64_t k = 0;
    for (; k + 4 * LANES <= n; k += 4 * LANES)
        for (int v = 0; v < 4; v++) s[v] += load(x + k + v * LANES) * load(w + k + v * LANES);
    for (; k + LANES <= n; k += LANES) s[0] += load(x + k) * load(w + k);
    const vec all = (s[0] + s[1]) + (s[2] + s[3]);
    float sum = 0;
    for (int l = 0; l < LANES; l++) sum += all[l];
    for (; k < n; k++) sum += x[k] * w[k];
    return sum;
}

INLINE void widen_int8(int64_t n, const int8_t *weight, float *wide) {
    for (int64_t k = 0; k < n; k++) wide[k] = (float)weight[k];
}

/* Two numbers of 4 bits a byte, the low half first; each of the groups has its scale and its zero. */
INLINE void widen_int4(int64_t n, int64_t groups, const uint8_t *weight, const float *scale, const float *zero,
                       float *wide) {
    const int64_t each = n / groups;
    for (int64_t k = 0; k < n / 2; k++) {
        wide[2 * k] = (float)(weight[k] & 15);
        wide[2 * k + 1] = (float)(weight[k] >> 4);
    }
    for (int64_t g = 0; g < groups; g++)
        for (int64_t k = g * each; k < (g + 1) * each; k++) wide[k] = (wide[k] - zero[g]) * scale[g];
}

KERNEL void weight_int8_product(int64_t rows, int64_t outputs, int64_t n, const float *x, const int8_t *weight,
                                const float *scale, float *out, float *wide) {
    for (int64_t o = 0; o < outputs; o++) {
        widen_int8(n, weight + o * n, wide);
        for (int64_t i = 0; i < rows; i++) out[i * outputs + o] = dot_wide(n, x + i * n, wide) * scale[o];
    }
}

KERNEL void weight_int4_product(int64_t rows, int64_t outputs, int64_t n, int64_t groups, const float *x,
                                const uint8_t *weight, const float *scale, const float *zero, float *out,
                                float *wide) {
    for (int64_t o = 0; o < outputs; o++) {
        widen_int4(n, groups, weight + o * (n / 2), scale + o * groups, zero + o * groups, wide);
        for (int64_t i = 0; i < rows; i++) out[i * outputs + o] = dot_wide(n, x + i * n, wide);
    }
}

KERNEL int embed_int8(int64_t count, int64_t n, int64_t width, const int8_t *weight, const int64_t *index,
                      const float *scale, int one, float *out) {
    for (int64_t i = 0; i < count; i++) {
        if (index[i] < 0 || index[i] >= n) return BAD_ROW;
        const float by = scale[one ? 0 : index[i]];
        for (int64_t k = 0; k < width; k++) out[i * width + k] = (float)weight[index[i] * width + k] * by;
    }
    return 0;
}

KERNEL int embed_int4(int64_t count, int64_t n, int64_t width, int64_t groups, const uint8_t *weight,
                      const int64_t *index, const float *scale, const float *zero, float *out) {
    for (int64_t i = 0; i < count; i++) {
        if (index[i] < 0 || index[i] >= n) return BAD_ROW;
        widen_int4(width, groups, weight + index[i] * (width / 2), scale + index[i] * groups, zero + index[i] * groups,
                   out + i * width);
    }
    return 0;
}

#endif
