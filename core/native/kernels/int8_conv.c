/* Convolutions of 8-bit numbers, as products of the weight and of what each place of the output sees.

   A sample is quantised, and laid with the channels of a pixel side by side and the padding around it: what a place sees
   is then a few long pieces, which are gathered for as many places as a panel of int8_product.c has. The weight, in the
   same order, is what is multiplied by. A group of one output would read all that for a single row: its rows are added
   up place by place of the kernel, as they lie.

   Bytes: x, w and y, and a quarter of x three times. Operations: 2 a place of the output, channel and place of the
   kernel. Source: Chellapilla, Puri and Simard, High Performance Convolutional Neural Networks (2006). */
#include "kernels/int8_conv.h"

#include <string.h>

#include "kernels/kernel.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"
#include "runtime/paths.h"

static const double COST = 0.3; /* of one of the direct way's multiplications, in additions of adjacent floats */

enum { SLACK = INT8_SLACK };

typedef struct {
    const int8_conv_shape *s;
    const float *x;
    const int8_t *q;     /* the sample as it was: (channels, height, width) */
    int8_t *image;       /* with its padding: (height, width, channels) */
    int16_t *planes;     /* of the direct way, without the zero point: (channels, height, width) */
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
    const ptrdiff_t piece = joined ? across * each : each;
    for (ptrdiff_t j = column; j < column + count; j++) {
        const ptrdiff_t row = j / s->out[1] * s->stride[0], place = j % s->out[1] * s->stride[1];
        for (ptrdiff_t i = 0; i < s->kernel[0]; i++) {
            const int8_t *at = c->image + ((row + i * s->dilation[0]) * c->wide + place) * s->channels + c->group * each;
            for (ptrdiff_t p = 0; p < (joined ? 1 : across); p++, at += step, to += piece) {
                if (piece <= SLACK) memcpy(to, at, SLACK); /* what is too much the next piece covers */
                else memcpy(to, at, (size_t)piece);
            }
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

/* Planes begin..end-1 of the sample into those with their padding. */
VECTOR static void lay_planes(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const conv_call *c = context;
    const int8_conv_shape *s = c->s;
    const ptrdiff_t width = s->size[1];
    const int16_t zero = (int16_t)c->zero;
    for (ptrdiff_t k = begin; k < end; k++)
        for (ptrdiff_t row = 0; row < s->size[0]; row++) {
            int16_t *to = c->planes + (k * c->high + row + s->padding[0]) * c->wide + s->padding[1];
            const int8_t *from = c->q + (k * s->size[0] + row) * width;
            for (ptrdiff_t i = 0; i < width; i++) to[i] = (int16_t)(from[i] - zero);
        }
}

/* sums (count,) of what the kernel sees from the item `at` of a plane on, in steps */
VECTOR static void add_places(const conv_call *c, ptrdiff_t o, const int16_t *at, ptrdiff_t count, int32_t *sums) {
    const int8_conv_shape *s = c->s;
    const ptrdiff_t each = s->channels / s->groups, step = s->stride[1];
    const int8_t *weight = c->w + o * each * s->kernel[0] * s->kernel[1];
    memset(sums, 0, sizeof *sums * (size_t)count);
    for (ptrdiff_t k = 0; k < each; k++)
        for (ptrdiff_t i = 0; i < s->kernel[0]; i++)
            for (ptrdiff_t p = 0; p < s->kernel[1]; p++, weight++) {
                const int16_t *q = at + (k * c->high + i * s->dilation[0]) * c->wide + p * s->dilation[1];
                const int16_t factor = *weight; /* times at most 255: it fits 16 bits */
                INDEPENDENT
                for (ptrdiff_t j = 0; step == 1 && j < count; j++) sums[j] += (int16_t)(factor * q[j]);
                for (ptrdiff_t j = 0; step != 1 && j < count; j++) sums[j] += (int16_t)(factor * q[j * step]);
            }
}

VECTOR static void finish_places(const int32_t *sums, ptrdiff_t count, float scale, float *y) {
    INDEPENDENT
    for (ptrdiff_t j = 0; j < count; j++) y[j] = (float)sums[j] * scale;
}

/* A function of its own, so that no product is joined with the addition. */
VECTOR static __attribute__((noinline)) void shift_places(float *y, ptrdiff_t count, float bias) {
    INDEPENDENT
    for (ptrdiff_t j = 0; j < count; j++) y[j] += bias;
}

/* Outputs begin..end-1. With steps of 1 all rows are one line, in which the padding between them is summed too. */
static void run_direct(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const conv_call *c = context;
    const int8_conv_shape *s = c->s;
    const ptrdiff_t each = s->channels / s->groups, wide = c->wide, across = s->out[1], places = s->out[0] * across;
    const int joined = s->stride[0] == 1 && s->stride[1] == 1;
    const ptrdiff_t lines = joined ? 1 : s->out[0], length = joined ? (s->out[0] - 1) * wide + across : across;
    enum { SPAN = 2048 };
    int32_t sums[SPAN];
    for (ptrdiff_t o = begin; o < end; o++) {
        const float scale = *c->sample_scale * c->scale[c->scales > 1 ? o : 0];
        const int16_t *plane = c->planes + o * each * c->high * wide; /* a group has one output */
        float *y = c->y + o * places;
        for (ptrdiff_t line = 0; line < lines; line++)
            for (ptrdiff_t at = 0; at < length; at += SPAN) {
                const ptrdiff_t count = length - at < SPAN ? length - at : SPAN;
                add_places(c, o, plane + line * s->stride[0] * wide + at * s->stride[1], count, sums);
                if (!joined) {
                    finish_places(sums, count, scale, y + line * across + at);
                    continue;
                }
                for (ptrdiff_t j = 0; j < count;) {
                    const ptrdiff_t row = (at + j) / wide, place = (at + j) % wide, left = count - j;
                    const ptrdiff_t here = wide - place < left ? wide - place : left, there = across - place;
                    if (there > 0) finish_places(sums + j, here < there ? here : there, scale, y + row * across + place);
                    j += here;
                }
            }
        if (c->bias) shift_places(y, places, c->bias[o]);
        int8_activate(y, places, c->activation);
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
    const int direct = of_group == 1;
    const ptrdiff_t of_image = ((direct ? 2 : 1) * high * wide * s->channels + SLACK + 63) & ~(ptrdiff_t)63;
    const size_t floats = (size_t)(of_q + of_image + s->outputs * depth), size = floats + 8 * (size_t)s->outputs + 64;
    if (s->batch == 0 || places == 0 || s->outputs == 0) return 1;
    if (int8_conv_has_taps(s)) {
        const int8_conv_call taps = {s, x, w, scale, scales, bias, given, given ? zero : 0, activation, y};
        return int8_conv_taps(&taps);
    }
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
    call.planes = (int16_t *)image;
    memset(image, direct ? 0 : call.zero, (size_t)of_image);
    int done = 1;
    for (ptrdiff_t b = 0; b < s->batch && done; b++) {
        const int8_rows row = {x + b * sample, sample, sample, of_q, given, zero, q, &ignored, &sample_scale};
        int8_quantise(&row, 0, 1);
        call.y = y + b * s->outputs * places;
        if (direct) {
            parallel_for(s->channels, (double)sample, lay_planes, &call);
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
