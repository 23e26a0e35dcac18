/* Convolutions of 8-bit numbers, as products of the weight and of what each place of the output sees.

   A sample is quantised, and laid with the channels of a pixel side by side and the padding around it: what a place sees
   is then a few long pieces, which are gathered for as many places as a panel of int8_product.c has. The weight, in the
   same order, is what is multiplied by. A group of one channel has sums too short for that: its rows are added place by
   place, as they lie.

   Bytes: x, w and y, and a quarter of x three times. Operations: 2 a place of the output, channel and place of the
   kernel. Source: Chellapilla, Puri and Simard, High Performance Convolutional Neural Networks (2006). */
#include "kernels/int8.h"

#include <string.h>

#include "kernels/kernel.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"
#include "runtime/paths.h"

static const double COST = 0.3; /* of one of the direct way's multiplications, in additions of adjacent floats */

typedef struct {
    const int8_conv_shape *s;
    const float *x;
    const int8_t *q;     /* the sample as it was: (channels, height, width) */
    int8_t *image;       /* with its padding: (height, width, channels), or of the direct way (channels, height, width) */
    ptrdiff_t high, wide; /* the image's size */
    ptrdiff_t group;
    const float *scale, *sample_scale, *bias;
    const int8_t *w;
    ptrdiff_t scales;
    int zero, activation;
    float *y;
} conv_call;

/* Lines of what the places column.. see, in the order (kernel's row, its column, channel). */
static void see(const void *from, ptrdiff_t column, ptrdiff_t count, int8_t *to) {
    const conv_call *c = from;
    const int8_conv_shape *s = c->s;
    const ptrdiff_t each = s->channels / s->groups, across = s->kernel[1], step = s->dilation[1] * s->channels;
    const int joined = s->groups == 1 && (s->dilation[1] == 1 || across == 1);
    for (ptrdiff_t j = column; j < column + count; j++) {
        const ptrdiff_t row = j / s->out[1] * s->stride[0], place = j % s->out[1] * s->stride[1];
        for (ptrdiff_t i = 0; i < s->kernel[0]; i++) {
            const int8_t *at = c->image + ((row + i * s->dilation[0]) * c->wide + place) * s->channels + c->group * each;
            if (joined) {
                memcpy(to, at, (size_t)(across * each));
                to += across * each;
            } else
                for (ptrdiff_t p = 0; p < across; p++, at += step, to += each) memcpy(to, at, (size_t)each);
        }
    }
}

/* Rows begin..end-1 of the sample into the image. */
static void lay_rows(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const conv_call *c = context;
    const int8_conv_shape *s = c->s;
    const ptrdiff_t plane = s->size[0] * s->size[1], width = s->size[1], channels = s->channels;
    for (ptrdiff_t row = begin; row < end; row++) {
        int8_t *to = c->image + ((row + s->padding[0]) * c->wide + s->padding[1]) * channels;
        const int8_t *from = c->q + row * width;
        ptrdiff_t k = 0;
        for (; k + 8 <= channels; k += 8) {
            ptrdiff_t i = 0;
            for (; i + 8 <= width; i += 8) { /* eight by eight bytes, turned in three rounds of swapping */
                uint64_t a[8];
                for (int r = 0; r < 8; r++) memcpy(a + r, from + (k + r) * plane + i, 8);
#define SWAP(x, y, shift, mask)                                 \
    {                                                           \
        const uint64_t t = ((x) >> (shift) ^ (y)) & (mask);     \
        (y) ^= t;                                               \
        (x) ^= t << (shift);                                    \
    }
                for (int r = 0; r < 4; r++) SWAP(a[r], a[r + 4], 32, 0x00000000ffffffffu)
                for (int r = 0; r < 8; r += r % 4 == 1 ? 3 : 1) SWAP(a[r], a[r + 2], 16, 0x0000ffff0000ffffu)
                for (int r = 0; r < 8; r += 2) SWAP(a[r], a[r + 1], 8, 0x00ff00ff00ff00ffu)
#undef SWAP
                for (int r = 0; r < 8; r++) memcpy(to + (i + r) * channels + k, a + r, 8);
            }
            for (; i < width; i++)
                for (int r = 0; r < 8; r++) to[i * channels + k + r] = from[(k + r) * plane + i];
        }
        for (; k < channels; k++)
            for (ptrdiff_t i = 0; i < width; i++) to[i * channels + k] = from[k * plane + i];
    }
}

/* Outputs begin..end-1, row by row: the sums of a row are added up as the kernel passes over it. */
VECTOR static void run_direct(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const conv_call *c = context;
    const int8_conv_shape *s = c->s;
    const ptrdiff_t each = s->channels / s->groups, of_group = s->outputs / s->groups, step = s->stride[1];
    enum { SPAN = 256 };
    int32_t sums[SPAN];
    for (ptrdiff_t o = begin; o < end; o++) {
        const int8_t *w = c->w + o * each * s->kernel[0] * s->kernel[1];
        const float scale = *c->sample_scale * c->scale[c->scales > 1 ? o : 0];
        float *y = c->y + o * s->out[0] * s->out[1];
        for (ptrdiff_t row = 0; row < s->out[0]; row++, y += s->out[1])
            for (ptrdiff_t at = 0; at < s->out[1]; at += SPAN) {
                const ptrdiff_t count = s->out[1] - at < SPAN ? s->out[1] - at : SPAN;
                memset(sums, 0, sizeof *sums * (size_t)count);
                const int8_t *weight = w;
                for (ptrdiff_t k = 0; k < each; k++)
                    for (ptrdiff_t i = 0; i < s->kernel[0]; i++)
                        for (ptrdiff_t p = 0; p < s->kernel[1]; p++, weight++) {
                            const int8_t *q = c->image + ((o / of_group * each + k) * c->high + row * s->stride[0] +
                                                          i * s->dilation[0]) * c->wide + at * step + p * s->dilation[1];
                            const int32_t factor = *weight, zero = c->zero;
                            if (step == 1)
                                for (ptrdiff_t j = 0; j < count; j++) sums[j] += factor * (q[j] - zero);
                            else
                                for (ptrdiff_t j = 0; j < count; j++) sums[j] += factor * (q[j * step] - zero);
                        }
                /* two loops, so that no product is joined with the addition behind it */
                for (ptrdiff_t j = 0; j < count; j++) {
                    float value = (float)sums[j] * scale;
                    memcpy(sums + j, &value, 4);
                }
                __asm__ volatile("" : : : "memory");
                for (ptrdiff_t j = 0; j < count; j++) {
                    float value;
                    memcpy(&value, sums + j, 4);
                    y[at + j] = c->bias ? value + c->bias[o] : value;
                }
                int8_activate(y + at, count, c->activation);
            }
    }
}

/* to (outputs, depth) of w in the order (kernel's row, its column, channel), and the sums of its rows */
static void lay_weight(const int8_conv_shape *s, const int8_t *w, ptrdiff_t depth, int8_t *to, int32_t *sums) {
    const ptrdiff_t each = s->channels / s->groups, places = s->kernel[0] * s->kernel[1];
    for (ptrdiff_t o = 0; o < s->outputs; o++, w += each * places, to += depth) {
        int32_t sum = 0;
        for (ptrdiff_t k = 0; k < each; k++)
            for (ptrdiff_t p = 0; p < places; p++) {
                const int8_t item = w[k * places + p];
                to[p * each + k] = item;
                sum += item;
            }
        memset(to + each * places, 0, (size_t)(depth - each * places));
        sums[o] = sum;
    }
}

int int8_conv(const int8_conv_shape *s, const float *x, const int8_t *w, const float *scale, ptrdiff_t scales,
              const float *bias, const float *given, int zero, int activation, float *y) {
    const ptrdiff_t each = s->channels / s->groups, terms = each * s->kernel[0] * s->kernel[1];
    const ptrdiff_t sample = s->channels * s->size[0] * s->size[1], places = s->out[0] * s->out[1];
    const ptrdiff_t of_group = s->outputs / s->groups, depth = int8_depth(terms), of_q = int8_depth(sample);
    const ptrdiff_t high = s->size[0] + 2 * s->padding[0], wide = s->size[1] + 2 * s->padding[1];
    const ptrdiff_t of_image = (high * wide * s->channels + 63) & ~(ptrdiff_t)63;
    const int direct = each == 1 || of_group == 1;
    const size_t floats = (size_t)(of_q + of_image + s->outputs * depth), size = floats + 8 * (size_t)s->outputs + 64;
    if (s->batch == 0 || places == 0 || s->outputs == 0) return 1;
    size_t capacity;
    int8_t *q = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!q) return 0;
    int8_t *image = q + of_q, *weight = image + of_image;
    int32_t *sums = (int32_t *)(weight + s->outputs * depth), ignored;
    float *row_scales = (float *)(sums + s->outputs), sample_scale;
    conv_call call = {.s = s, .q = q, .image = image, .high = high, .wide = wide, .scale = scale, .bias = bias, .w = w,
                      .sample_scale = &sample_scale, .scales = scales, .zero = given ? zero : 0, .activation = activation};
    if (direct) took(PATH_int8_conv_direct);
    else lay_weight(s, w, depth, weight, sums);
    for (ptrdiff_t o = 0; o < s->outputs; o++) row_scales[o] = scale[scales > 1 ? o : 0];
    memset(image, call.zero, (size_t)of_image);
    int done = 1;
    for (ptrdiff_t b = 0; b < s->batch && done; b++) {
        const int8_rows row = {x + b * sample, sample, sample, of_q, given, zero, q, &ignored, &sample_scale};
        int8_quantise(&row, 0, 1);
        call.y = y + b * s->outputs * places;
        if (direct) {
            for (ptrdiff_t k = 0; k < s->channels; k++)
                for (ptrdiff_t i = 0; i < s->size[0]; i++)
                    memcpy(image + (k * high + i + s->padding[0]) * wide + s->padding[1],
                           q + (k * s->size[0] + i) * s->size[1], (size_t)s->size[1]);
            parallel_for(s->outputs, COST * (double)s->outputs * (double)places * (double)terms, run_direct, &call);
            continue;
        }
        parallel_for(s->size[0], (double)sample, lay_rows, &call);
        for (call.group = 0; call.group < s->groups && done; call.group++) {
            const ptrdiff_t first = call.group * of_group;
            const int8_product product = {
                .q = weight + first * depth, .sums = sums + first, .scales = row_scales + first, .scale_rows = 1,
                .depth = depth, .scale = &sample_scale, .scale_step = 0, .bias = bias ? bias + first : NULL,
                .y = call.y + first * places, .y_row = places, .m = of_group, .n = places, .k = terms,
                .activation = activation, .w_zero = call.zero, .bias_rows = 1, .lines = see, .from = &call};
            done = int8_multiply(&product);
        }
    }
    memory_give(q, capacity);
    return done;
}
