/* Convolutions of 8-bit numbers, as products of the weight and of what each place of the output sees.

   A sample is quantised, and laid with the channels of a pixel side by side and the padding around it: what a place sees
   is then a few long pieces, which are gathered for as many places as a panel of int8_product.c has. The weight, in the
   same order (as layers keep it; else it is turned), is what is multiplied by. Samples of few places are joined, since
   a product reads the weight once; of very few, their lines are gathered and the weight is read as it lies. A group of
   one output would read all that for a single row: its rows are added up place by place of the kernel, as they lie,
   where int8_conv_taps.c is not for them.

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

/* Places that samples are joined up to for one product; so few that the weight is read as it lies, and by how many of
   them at once: what int8_multiply takes for few rows. */
enum { JOINED = 512, FEW_PLACES = 30, FEW_LINES = 10 };

typedef struct {
    const int8_conv_call *given;
    const int8_conv_shape *s;
    ptrdiff_t each, terms, of_group, places; /* channels and outputs of a group, terms of a sum, places of an output */
    ptrdiff_t high, wide;                    /* the image's size */
    ptrdiff_t first, samples;                /* those that are computed together */
    ptrdiff_t of_q, of_image, depth;         /* bytes of a sample, and of a line of the weight */
    int8_t *q;      /* the samples as they were: (samples, channels, height, width) */
    int8_t *image;  /* with their padding: (samples, height, width, channels) */
    int16_t *planes; /* of the direct way, without the zero point: (channels, height, width) */
    int8_t *weight; /* (outputs, depth), in the order (kernel's row, its column, channel) */
    int32_t *sums, *ignored;
    float *row_scales, *sample_scales;
    ptrdiff_t group;
    int few; /* so few places that they are the rows of the product, and the weight's lines its columns */
    float *y;
} conv_call;

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLES
typedef int8_t sixteen __attribute__((vector_size(16)));

/* Sixteen vectors turned: four times the first half is shuffled with the second, as one shuffles cards. */
INLINE void turn16(sixteen *a) {
    for (int times = 0; times < 4; times++) {
        sixteen b[16];
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            b[2 * i + 1] =
                __builtin_shufflevector(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(a, b, sizeof b);
    }
}
#endif
#endif

/* to (columns, rows) = from (rows, columns) turned; what lies before `end` may be read. */
VECTOR static void turn(const int8_t *from, ptrdiff_t of_row, ptrdiff_t rows, ptrdiff_t columns, int8_t *to,
                        const int8_t *end) {
    ptrdiff_t k = 0;
#ifdef SHUFFLES
    for (; rows >= 8 && k < rows; k += 16) {
        if (k && rows - k < 16) k = rows - 16;
        for (ptrdiff_t i = 0; i < columns; i += 16) {
            const int there = rows < 16 ? (int)rows : 16, wide = columns - i < 16 ? (int)(columns - i) : 16;
            const int8_t *at = from + k * of_row + i;
            const int within = end - at >= (there - 1) * of_row + 16;
            sixteen a[16] = {{0}};
            if (within && there == 16)
                _Pragma("GCC unroll 16") for (int r = 0; r < 16; r++) memcpy(a + r, at + r * of_row, 16);
            else
                for (int r = 0; r < there; r++) memcpy(a + r, at + r * of_row, within ? 16 : (size_t)wide);
            turn16(a);
            for (int j = 0; j < wide; j++) {
                int8_t *line = to + (i + j) * rows + k;
                if (there == 16) memcpy(line, a + j, 16);
                else memcpy(line, a + j, 8), memcpy(line + there - 8, (int8_t *)(a + j) + there - 8, 8);
            }
        }
    }
#endif
    for (; k < rows; k++)
        for (ptrdiff_t i = 0; i < columns; i++) to[i * rows + k] = from[k * of_row + i];
}

/* Lines of what the places column.. of all samples see, in the order (kernel's row, its column, channel). */
static void see(const void *from, ptrdiff_t column, ptrdiff_t count, int8_t *to) {
    const conv_call *c = from;
    const int8_conv_shape *s = c->s;
    const ptrdiff_t each = c->each, across = s->kernel[1], step = s->dilation[1] * s->channels;
    const int joined = s->groups == 1 && (s->dilation[1] == 1 || across == 1);
    const ptrdiff_t piece = joined ? across * each : each, next_row = s->dilation[0] * c->wide * s->channels;
    ptrdiff_t sample = column / c->places, row = column % c->places / s->out[1], place = column % s->out[1];
    for (ptrdiff_t j = 0; j < count; j++) {
        const int8_t *line = c->image + sample * c->of_image + c->group * each +
                             (row * s->stride[0] * c->wide + place * s->stride[1]) * s->channels;
        for (ptrdiff_t i = 0; i < s->kernel[0]; i++, line += next_row) {
            const int8_t *at = line;
            for (ptrdiff_t p = 0; p < (joined ? 1 : across); p++, at += step, to += piece) {
                if (piece <= SLACK) memcpy(to, at, SLACK); /* what is too much the next piece covers */
                else memcpy(to, at, (size_t)piece);
            }
        }
        if (++place == s->out[1]) place = 0, row++;
        if (row == s->out[0]) row = 0, sample++;
    }
}

/* Rows begin..end-1 of all samples into their images. */
static void lay_rows(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const conv_call *c = context;
    const int8_conv_shape *s = c->s;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t sample = item / s->size[0], row = item % s->size[0];
        turn(c->q + sample * c->of_q + row * s->size[1], s->size[0] * s->size[1], s->channels, s->size[1],
             c->image + sample * c->of_image + ((row + s->padding[0]) * c->wide + s->padding[1]) * s->channels,
             c->image);
    }
}

/* Planes begin..end-1 of the sample into those with their padding. */
VECTOR static void lay_planes(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const conv_call *c = context;
    const int8_conv_shape *s = c->s;
    const ptrdiff_t width = s->size[1];
    const int16_t zero = (int16_t)c->given->zero;
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
    const ptrdiff_t each = c->each, step = s->stride[1];
    const int8_t *weight = c->given->w + o * c->terms;
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
    const ptrdiff_t wide = c->wide, across = s->out[1];
    const int joined = s->stride[0] == 1 && s->stride[1] == 1;
    const ptrdiff_t lines = joined ? 1 : s->out[0], length = joined ? (s->out[0] - 1) * wide + across : across;
    enum { SPAN = 2048 };
    int32_t sums[SPAN];
    for (ptrdiff_t o = begin; o < end; o++) {
        const float scale = *c->sample_scales * c->row_scales[o];
        const int16_t *plane = c->planes + o * c->each * c->high * wide; /* a group has one output */
        float *y = c->given->y + (c->first * s->outputs + o) * c->places;
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
        if (c->given->bias) shift_places(y, c->places, c->given->bias[o]);
        int8_activate(y, c->places, c->given->activation);
    }
}

VECTOR static int32_t sum_of(const int8_t *line, ptrdiff_t count) {
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < count; i++) sum += line[i];
    return sum;
}

/* The lines begin..end-1 of the weight, of depth bytes, and their sums. */
static void lay_weight(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const conv_call *c = context;
    const ptrdiff_t places = c->terms / c->each;
    for (ptrdiff_t o = begin; o < end; o++) {
        const int8_t *from = c->given->w + o * c->terms;
        int8_t *to = c->weight + o * c->depth;
        if (to != from) {
            if (c->given->last) memcpy(to, from, (size_t)c->terms);
            else turn(from, places, c->each, places, to, c->given->w + c->s->outputs * c->terms);
            memset(to + c->terms, 0, (size_t)(c->depth - c->terms));
        }
        if (!c->few) c->sums[o] = sum_of(from, c->terms);
    }
}

static void quantise_some(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const conv_call *c = context;
    const int8_conv_call *g = c->given;
    const ptrdiff_t sample = c->s->channels * c->s->size[0] * c->s->size[1];
    const int8_rows rows = {g->x + c->first * sample, sample, sample, c->of_q, g->given, g->zero, c->q, c->ignored,
                            c->sample_scales};
    int8_quantise(&rows, begin, end);
}

/* A group's product: of its weight by all places; or where these are few, the other way round. What it gives lies in
   y, or in `c->y` for many samples (outputs, places) and for few places (places, outputs). */
static int multiply(const conv_call *c, int8_t *lines) {
    const int8_conv_call *g = c->given;
    const ptrdiff_t first = c->group * c->of_group, n = c->samples * c->places;
    const float *bias = g->bias ? g->bias + first : NULL;
    float *column_scales = c->sample_scales + c->samples;
    for (ptrdiff_t j = 0; (c->few || c->samples > 1) && j < n; j++) column_scales[j] = c->sample_scales[j / c->places];
    if (c->few) {
        const ptrdiff_t times = (n + FEW_LINES - 1) / FEW_LINES, rows = (n + times - 1) / times;
        int done = 1;
        for (ptrdiff_t j = 0; j < n; j++) {
            int8_t *line = lines + j * c->depth;
            see(c, j, 1, line);
            memset(line + c->terms, 0, (size_t)(c->depth - c->terms));
            c->ignored[j] = sum_of(line, c->terms);
        }
        for (ptrdiff_t j = 0; j < n && done; j += rows) {
            const int8_product product = {
                .q = lines + j * c->depth, .sums = c->ignored + j, .scales = column_scales + j, .scale_rows = 1,
                .depth = c->depth, .w = c->weight + first * c->terms, .scale = c->row_scales + first, .scale_step = 1,
                .bias = bias, .y = c->y + j * c->of_group, .y_row = c->of_group, .m = rows < n - j ? rows : n - j,
                .n = c->of_group, .k = c->terms, .zero = g->zero, .activation = g->activation};
            done = int8_multiply(&product);
        }
        return done;
    }
    const int8_product product = {
        .q = c->weight + first * c->depth, .sums = c->sums + first, .scales = c->row_scales + first, .scale_rows = 1,
        .depth = c->depth, .scale = c->samples > 1 ? column_scales : c->sample_scales, .scale_step = c->samples > 1,
        .bias = bias, .y = c->samples > 1 ? c->y : g->y + (c->first * c->s->outputs + first) * c->places, .y_row = n,
        .m = c->of_group, .n = n, .k = c->terms, .activation = g->activation, .w_zero = g->zero, .bias_rows = 1,
        .lines = see, .from = c};
    return int8_multiply(&product);
}

/* From c->y, as `multiply` left it, to the outputs of the group in y. */
VECTOR static void spread(const conv_call *c) {
    const ptrdiff_t first = c->group * c->of_group, n = c->samples * c->places, outputs = c->of_group;
    for (ptrdiff_t sample = 0; sample < c->samples; sample++)
        for (ptrdiff_t o = 0; o < outputs; o++) {
            float *to = c->given->y + ((c->first + sample) * c->s->outputs + first + o) * c->places;
            const float *from = c->y + (c->few ? sample * c->places * outputs + o : o * n + sample * c->places);
            if (c->few)
                for (ptrdiff_t j = 0; j < c->places; j++) to[j] = from[j * outputs];
            else
                for (ptrdiff_t j = 0; j < c->places; j++) to[j] = from[j];
        }
}

static ptrdiff_t whole(ptrdiff_t bytes) { return (bytes + 63) & ~(ptrdiff_t)63; }

int int8_conv(const int8_conv_call *given) {
    const int8_conv_shape *s = given->s;
    const ptrdiff_t sample = s->channels * s->size[0] * s->size[1];
    conv_call c = {.given = given, .s = s, .each = s->channels / s->groups, .of_group = s->outputs / s->groups,
                   .places = s->out[0] * s->out[1], .high = s->size[0] + 2 * s->padding[0],
                   .wide = s->size[1] + 2 * s->padding[1], .of_q = int8_depth(sample), .samples = 1};
    c.terms = c.each * s->kernel[0] * s->kernel[1];
    if (s->batch == 0 || c.places == 0 || s->outputs == 0) return 1;
    if (!given->last && int8_conv_has_taps(s)) return int8_conv_taps(given);
    const int direct = !given->last && c.of_group == 1;
    if (!direct && c.places < JOINED) c.samples = JOINED / c.places < s->batch ? JOINED / c.places : s->batch;
    const ptrdiff_t n = c.samples * c.places;
    c.few = !direct && n <= FEW_PLACES;
    const int as_it_lies = given->last && (c.few || c.terms % 64 == 0);
    c.depth = c.few || as_it_lies ? c.terms : int8_depth(c.terms);
    c.of_image = whole((direct ? 2 : 1) * c.high * c.wide * s->channels + SLACK);
    const ptrdiff_t of_weight = direct || as_it_lies ? 0 : whole(s->outputs * c.depth);
    const ptrdiff_t line = int8_depth(c.terms), of_lines = c.few ? n * line + 64 : 0;
    const ptrdiff_t of_y = c.few || c.samples > 1 ? whole(4 * c.of_group * n) : 0;
    const size_t bytes = (size_t)(c.samples * (c.of_q + c.of_image) + of_weight + of_lines + of_y);
    const size_t size = bytes + 4 * (size_t)(2 * s->outputs + 2 * n + 2 * c.samples);
    size_t capacity;
    int8_t *block = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!block) return 0;
    c.q = block, c.image = c.q + c.samples * c.of_q, c.planes = (int16_t *)c.image;
    c.weight = as_it_lies ? (int8_t *)given->w : c.image + c.samples * c.of_image;
    int8_t *lines = c.image + c.samples * c.of_image + of_weight;
    c.y = (float *)(lines + of_lines), c.sums = (int32_t *)(block + bytes), c.ignored = c.sums + s->outputs;
    c.row_scales = (float *)(c.ignored + n + c.samples), c.sample_scales = c.row_scales + s->outputs;
    for (ptrdiff_t o = 0; o < s->outputs; o++) c.row_scales[o] = given->scale[given->scales > 1 ? o : 0];
    memset(c.image, direct ? 0 : given->zero, (size_t)(c.samples * c.of_image));
    if (direct) took(PATH_int8_conv_direct);
    else if (!c.few || !as_it_lies) parallel_for(s->outputs, 4.0 * (double)(s->outputs * c.terms), lay_weight, &c);
    if (c.samples > 1) took(PATH_int8_conv_joined);
    if (c.few) took(PATH_int8_conv_few), c.depth = line;
    int done = 1;
    for (; c.first < s->batch && done; c.first += c.samples) {
        if (c.first + c.samples > s->batch) c.samples = s->batch - c.first;
        parallel_for(c.samples, 1.5 * (double)(c.samples * sample), quantise_some, &c);
        if (direct) {
            parallel_for(s->channels, (double)sample, lay_planes, &c);
            parallel_for(s->outputs, COST * (double)(s->outputs * c.places * c.terms), run_direct, &c);
            continue;
        }
        parallel_for(c.samples * s->size[0], (double)(c.samples * sample), lay_rows, &c);
        for (c.group = 0; c.group < s->groups && done; c.group++) {
            done = multiply(&c, lines);
            if (done && (c.few || c.samples > 1)) spread(&c);
        }
    }
    memory_give(block, capacity);
    return done;
}
