/* Convolutions without columns: a tile's row of the second matrix is 64 numbers of the padded image, wherever the tap
   of the kernel begins. Output rows are computed as wide as the padded image; what is beyond their end is left out.

   With stride s the padded image is taken apart into s x s images of every s-th row and column, so that the numbers of
   a tap lie one after the other there too.

   sizes: images, channels, height, width, outputs, then height and width of kernel, output, stride, padding, dilation,
   and groups. */
#ifndef GRADLAB_CONV_H
#define GRADLAB_CONV_H

#include "tile.h"

typedef struct {
    int64_t n, c, h, w, o, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups;
} conv_sizes;

/* Whether a tap of the kernel falls on this phase of the stride. */
INLINE int has_phase(int64_t phase, int64_t kernel, int64_t dilation, int64_t stride) {
    for (int64_t k = 0; k < kernel; k++)
        if (k * dilation % stride == phase) return 1;
    return 0;
}

/* Copy one channel into its padded phases, `hq` by `wq` each. */
INLINE void pad_channel(const conv_sizes *s, const float *x, int64_t hq, int64_t wq, float *to) {
    for (int64_t a = 0; a < s->sh; a++)
        for (int64_t b = 0; b < s->sw; b++, to += hq * wq) {
            if (!has_phase(a, s->kh, s->dh, s->sh) || !has_phase(b, s->kw, s->dw, s->sw)) continue;
            for (int64_t i = 0; i < hq; i++) {
                float *row = to + i * wq;
                const int64_t y = i * s->sh + a - s->ph;
                if (y < 0 || y >= s->h) {
                    memset(row, 0, (size_t)wq * sizeof(float));
                    continue;
                }
                /* the columns j with 0 <= j * sw + b - pw < w */
                const int64_t before = s->pw - b, first = before > 0 ? smaller((before + s->sw - 1) / s->sw, wq) : 0;
                const int64_t end = larger(first, smaller((s->w + before + s->sw - 1) / s->sw, wq));
                const float *from = x + y * s->w - before;
                for (int64_t j = 0; j < first; j++) row[j] = 0;
                if (s->sw == 1) memcpy(row + first, from + first, (size_t)(end - first) * sizeof(float));
                else if (s->sw == 2)
                    for (int64_t j = first; j < end; j++) row[j] = from[j * 2];
                else
                    for (int64_t j = first; j < end; j++) row[j] = from[j * s->sw];
                for (int64_t j = end; j < wq; j++) row[j] = 0;
            }
        }
}

/* Put the rows of a tile that starts at `start` of an output of width `wq` into one of width `ow`. */
INLINE void put_tile(int64_t rows, int64_t start, int64_t count, int64_t wq, int64_t oh, int64_t ow, const float *sums,
                     float *out) {
    int64_t y = start / wq, x = start - y * wq;
    for (int64_t p = 0; p < count; y++) {
        const int64_t run = smaller(wq - x, count - p), kept = smaller(ow - x, run);
        if (kept > 0)
            for (int64_t i = 0; i < rows; i++)
                memcpy(out + i * oh * ow + y * ow + x, sums + i * TILE_COLUMNS + p, (size_t)kept * sizeof(float));
        p += run, x = 0;
    }
}

KERNEL void conv(const int64_t *sizes, const float *x, const float *weight, const float *bias, float *out,
                 float *scratch, int64_t *taps) {
    conv_sizes s;
    memcpy(&s, sizes, sizeof s);
    const int64_t inside = s.c / s.groups, outside = s.o / s.groups, K = inside * s.kh * s.kw;
    const int64_t hq = s.oh + (s.kh - 1) * s.dh / s.sh, wq = s.ow + (s.kw - 1) * s.dw / s.sw;
    const int64_t length = (s.oh - 1) * wq + s.ow; /* of an output, its rows as wide as the padded image */
    const int direct = s.sh == 1 && s.sw == 1 && s.ph == 0 && s.pw == 0 && length >= TILE_COLUMNS;
    const int64_t channel = s.sh * s.sw * hq * wq;
    int64_t *tap = taps;
    for (int64_t c = 0; c < inside; c++)
        for (int64_t u = 0; u < s.kh; u++)
            for (int64_t v = 0; v < s.kw; v++)
                *tap++ = c * channel + (u * s.dh % s.sh * s.sw + v * s.dw % s.sw) * hq * wq + u * s.dh / s.sh * wq +
                         v * s.dw / s.sw;
    memset(scratch + inside * channel, 0, 64 * sizeof(float)); /* what a last tile reads beyond the end */
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t g = 0; g < s.groups; g++) {
            const float *image = x + (n * s.c + g * inside) * s.h * s.w;
            const float *w = weight + g * outside * K;
            float *to = out + (n * s.o + g * outside) * s.oh * s.ow;
            if (!direct) {
                for (int64_t c = 0; c < inside; c++)
                    pad_channel(&s, image + c * s.h * s.w, hq, wq, scratch + c * channel);
                image = scratch;
            }
            for (int64_t p = 0; p < length; p += TILE_COLUMNS) {
                /* the last tile is moved back: what both have is computed twice */
                const int vectors = tile_vectors(smaller(TILE_COLUMNS, length - p));
                const int64_t columns = vectors * LANES, start = larger(0, smaller(p, length - columns));
                const int64_t count = smaller(columns, length - start);
                for (int64_t o = 0, rows; o < outside; o += rows) {
                    rows = tile_rows(outside - o);
                    const float *first = bias ? bias + g * outside + o : NULL;
                    if (wq == s.ow) {
                        tile_placed(rows, vectors, K, w + o * K, K, 1, image + start, PANEL, taps, first,
                                    to + o * s.oh * s.ow + start, s.oh * s.ow, count);
                        continue;
                    }
                    float sums[TILE_ROWS * TILE_COLUMNS];
                    tile_placed(rows, vectors, K, w + o * K, K, 1, image + start, PANEL, taps, first, sums, TILE_COLUMNS,
                                columns);
                    put_tile(rows, start, count, wq, s.oh, s.ow, sums, to + o * s.oh * s.ow);
                }
            }
        }
}

/* Transposed: a product with the weights (groups, outputs x kernel, inputs), whose rows are added where they belong. */
KERNEL void conv_transpose(const int64_t *sizes, const float *x, const float *weight, const float *bias, float *out,
                           float *scratch) {
    conv_sizes s;
    memcpy(&s, sizes, sizeof s);
    const int64_t inside = s.c / s.groups, outside = s.o / s.groups, plane = s.h * s.w, rows = outside * s.kh * s.kw;
    float *const panels = scratch + rows * plane;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t g = 0; g < s.groups; g++) {
            pack(inside, plane, x + (n * s.c + g * inside) * plane, plane, 1, panels);
            product(rows, plane, inside, weight + g * rows * inside, inside, 1, panels, NULL, scratch, plane);
            const float *from = scratch;
            for (int64_t o = 0; o < outside; o++) {
                float *to = out + (n * s.o + g * outside + o) * s.oh * s.ow;
                const float start = bias ? bias[g * outside + o] : 0;
                for (int64_t j = 0; j < s.oh * s.ow; j++) to[j] = start;
                for (int64_t u = 0; u < s.kh; u++)
                    for (int64_t v = 0; v < s.kw; v++, from += plane)
                        for (int64_t i = 0; i < s.h; i++) {
                            const int64_t y = i * s.sh + u * s.dh - s.ph, shift = v * s.dw - s.pw;
                            if (y < 0 || y >= s.oh) continue;
                            for (int64_t j = 0; j < s.w; j++) {
                                const int64_t at = j * s.sw + shift;
                                if (at >= 0 && at < s.ow) to[y * s.ow + at] += from[i * s.w + j];
                            }
                        }
            }
        }
}

#endif
