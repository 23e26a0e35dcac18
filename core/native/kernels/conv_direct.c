/* Convolutions with one or two outputs a group, depthwise ones above all: sums straight from the planes.

   The planes of a group's channels are laid out (conv.h) in memory of the thread's own, which stays in L1 or L2.
   Forward, eight vectors of neighbouring outputs go through all taps in registers; for the weights' gradient a
   vector of partial sums for each tap goes through all outputs. An item is a group of a sample, or a channel of a
   group through all samples: no sum is divided among threads.

   Floating-point operations: 2 batch outputs pixels terms, at one load each: these are bound by loads. */
#ifndef REAL
#include "kernels/conv.h"

#include "runtime/memory.h"
#include "kernels/real.h"
#include "kernels/tiling.h"

/* Up to a vector of neighbouring outputs: where it begins in the planes and in the output of a channel. */
typedef struct {
    ptrdiff_t from, out;
    int length;
} span;

enum { SPANS = 8 };

#define KERNEL_FILE "conv_direct.c"
#include "kernels/each_real.h"
#else
#include "kernels/conv_planes.h"

typedef struct {
    const conv_shape *s;
    const conv_plan *plan;
    const REAL *x, *weights, *bias, *g;
    REAL *y;
    ptrdiff_t places, inside, beyond, count; /* beyond: items of g; count: spans of the first pass */
    span *spans;                             /* of all passes, the last of each repeated to fill up fours */
    ptrdiff_t *first_span;                   /* (passes + 1,) */
    int failed;
} NAME(direct);

static void NAME(list_spans)(NAME(direct) * c) {
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < c->plan->passes; i++) {
        const conv_pass *p = c->plan->pass + i;
        const ptrdiff_t *extent = c->plan->extent, *out = c->s->out;
        c->first_span[i] = count;
        for (ptrdiff_t z = 0; z < p->n[0]; z++)
            for (ptrdiff_t y = 0; y < p->n[1]; y++)
                for (ptrdiff_t x = 0; x < p->n[2]; x += NAME(LANES), count++) {
                    const ptrdiff_t rest = p->n[2] - x;
                    c->spans[count].from = (z * extent[1] + y) * extent[2] + x;
                    c->spans[count].out =
                        p->origin + (z * p->step[0] * out[1] + y * p->step[1]) * out[2] + x * p->step[2];
                    c->spans[count].length = (int)(rest < NAME(LANES) ? rest : NAME(LANES));
                }
        if (i == 0) c->count = count;
        for (; (count - c->first_span[i]) % 4; count++) c->spans[count] = c->spans[count - 1];
    }
    c->first_span[c->plan->passes] = count;
}

/* Memory for the lists and, for `most` more items, for one thread. */
static REAL *NAME(own)(const NAME(direct) * c, ptrdiff_t most, size_t *capacity) {
    const size_t size = sizeof(REAL) * (size_t)(c->inside * c->plan->channel + NAME(LANES) + most);
    return memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, capacity);
}

static int NAME(begin)(NAME(direct) * c) {
    ptrdiff_t most = 0;
    for (ptrdiff_t i = 0; i < c->plan->passes; i++) {
        const conv_pass *p = c->plan->pass + i;
        most += p->n[0] * p->n[1] * pieces_of(p->n[2], NAME(LANES)) + 3;
    }
    c->spans = malloc(sizeof(span) * (size_t)(most + 1));
    c->first_span = malloc(sizeof(ptrdiff_t) * (size_t)(c->plan->passes + 1));
    if (c->spans && c->first_span) NAME(list_spans)(c);
    else c->failed = 1;
    return !c->failed;
}

static int NAME(end)(NAME(direct) * c) {
    free(c->spans);
    free(c->first_span);
    return !c->failed;
}

INLINE void NAME(lay_one)(const NAME(direct) * c, ptrdiff_t n, ptrdiff_t channel, REAL *to) {
    const ptrdiff_t at = n * c->s->x_stride[0] + channel * c->s->x_stride[1];
    NAME(lay_channel)(c->s, c->plan, c->x + at, c->plan->reach - at, to);
}

/* --- forward --- */

INLINE void NAME(spans_of_row)(const int count, const NAME(direct) * c, const conv_pass *pass, const span *spans,
                               const REAL *planes, const REAL *w, REAL bias, REAL *y) {
    NAME(wide) sums[SPANS];
    _Pragma("GCC unroll 8") for (int q = 0; q < count; q++) sums[q] = (NAME(wide)){0} + bias;
    for (ptrdiff_t k = 0; k < c->inside; k++, planes += c->plan->channel)
        for (ptrdiff_t t = 0; t < pass->taps; t++, w++) {
            const REAL *from = planes + c->plan->offset[pass->first + t];
            _Pragma("GCC unroll 8") for (int q = 0; q < count; q++) sums[q] +=
                *w * *(const NAME(wide) *)(from + spans[q].from);
        }
    for (int q = 0; q < count; q++) {
        REAL *to = y + spans[q].out;
        if (spans[q].length == NAME(LANES) && pass->step[2] == 1) *(NAME(wide) *)to = sums[q];
        else
            for (int j = 0; j < spans[q].length; j++) to[j * pass->step[2]] = sums[q][j];
    }
}

VECTOR static void NAME(direct_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(direct) *c = context;
    const conv_shape *s = c->s;
    size_t capacity;
    REAL *planes = NAME(own)(c, 0, &capacity);
    if (!planes) {
        c->failed = 1;
        return;
    }
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t n = item / s->groups, group = item % s->groups;
        for (ptrdiff_t k = 0; k < c->inside; k++)
            NAME(lay_one)(c, n, group * c->inside + k, planes + k * c->plan->channel);
        for (ptrdiff_t row = 0; row < s->rows; row++) {
            const ptrdiff_t channel = group * s->rows + row;
            REAL *y = c->y + (n * s->groups * s->rows + channel) * c->places;
            const REAL bias = c->bias ? c->bias[channel] : 0;
            for (ptrdiff_t i = 0; i < c->plan->passes; i++) {
                const conv_pass *pass = c->plan->pass + i;
                const REAL *w = c->weights + pass->first * s->groups * s->rows * c->inside +
                                channel * c->inside * pass->taps;
                const span *at = c->spans + c->first_span[i], *last = c->spans + c->first_span[i + 1];
                for (; last - at >= SPANS; at += SPANS)
                    NAME(spans_of_row)(SPANS, c, pass, at, planes, w, bias, y);
                for (; last > at; at += 4) NAME(spans_of_row)(4, c, pass, at, planes, w, bias, y);
            }
        }
    }
    memory_give(planes, capacity);
}

int NAME(conv_direct)(const conv_shape *s, const conv_plan *plan, const REAL *x, const REAL *weights, const REAL *bias,
                      REAL *y) {
    NAME(direct) c = {.s = s, .plan = plan, .x = x, .weights = weights, .bias = bias, .y = y,
                      .places = s->out[0] * s->out[1] * s->out[2], .inside = s->channels / s->groups};
    const double taps = (double)(s->kernel[0] * s->kernel[1] * s->kernel[2]);
    if (NAME(begin)(&c))
        parallel_for(s->batch * s->groups,
                     (double)(s->batch * s->groups * c.places) * (2 + (double)(s->rows * c.inside) * taps / 3),
                     NAME(direct_items), &c);
    return NAME(end)(&c);
}

/* --- the gradient of the weights --- */

#define MASKED(from, mask) ((NAME(wide))((NAME(mask))*(const NAME(wide) *)(from) & mask))

INLINE void NAME(taps_of_spans)(const int taps, const NAME(direct) * c, ptrdiff_t count, const REAL *planes,
                                const ptrdiff_t *offset, const REAL *g, NAME(wide) * sums) {
    NAME(wide) s[SPANS];
    _Pragma("GCC unroll 8") for (int t = 0; t < taps; t++) s[t] = sums[t];
    for (const span *at = c->spans; at < c->spans + count; at++) {
        const REAL *from = planes + at->from, *given = g + at->out;
        if (at->length == NAME(LANES)) {
            const NAME(wide) right = *(const NAME(wide) *)given;
            _Pragma("GCC unroll 8") for (int t = 0; t < taps; t++) s[t] +=
                right * *(const NAME(wide) *)(from + offset[t]);
            continue;
        }
        NAME(mask) mask;
        NAME(items_before)(at->length, &mask);
        NAME(wide) right = {0};
        if (c->beyond - (given - c->g) >= NAME(LANES)) right = MASKED(given, mask);
        else memcpy(&right, given, sizeof(REAL) * (size_t)at->length); /* the end of g */
        _Pragma("GCC unroll 8") for (int t = 0; t < taps; t++) s[t] += right * MASKED(from + offset[t], mask);
    }
    _Pragma("GCC unroll 8") for (int t = 0; t < taps; t++) sums[t] = s[t];
}
#undef MASKED

VECTOR static void NAME(direct_weight_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(direct) *c = context;
    const conv_shape *s = c->s;
    const conv_plan *plan = c->plan;
    const ptrdiff_t taps = plan->pass[0].taps, all = s->rows * taps, count = c->count;
    size_t capacity;
    REAL *planes = NAME(own)(c, all * NAME(LANES), &capacity);
    if (!planes) {
        c->failed = 1;
        return;
    }
    NAME(wide) *sums = (NAME(wide) *)(planes + plan->channel + NAME(LANES));
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t group = item / c->inside, k = item % c->inside;
        memset(sums, 0, sizeof(REAL) * (size_t)(all * NAME(LANES)));
        for (ptrdiff_t n = 0; n < s->batch; n++) {
            NAME(lay_one)(c, n, item, planes);
            for (ptrdiff_t row = 0; row < s->rows; row++) {
                const REAL *g = c->g + ((n * s->groups + group) * s->rows + row) * c->places;
                NAME(wide) *to = sums + row * taps;
                ptrdiff_t t = 0;
                for (; taps - t >= SPANS; t += SPANS)
                    NAME(taps_of_spans)(SPANS, c, count, planes, plan->offset + t, g, to + t);
                for (; taps - t >= 3; t += 3) NAME(taps_of_spans)(3, c, count, planes, plan->offset + t, g, to + t);
                for (; t < taps; t++) NAME(taps_of_spans)(1, c, count, planes, plan->offset + t, g, to + t);
            }
        }
        for (ptrdiff_t row = 0; row < s->rows; row++)
            for (ptrdiff_t t = 0; t < taps; t++) {
                REAL total = 0;
                for (int j = 0; j < NAME(LANES); j++) total += sums[row * taps + t][j];
                c->y[((group * s->rows + row) * c->inside + k) * taps + t] = total;
            }
    }
    memory_give(planes, capacity);
}

int NAME(conv_direct_weight)(const conv_shape *s, const conv_plan *plan, const REAL *x, const REAL *g, REAL *gw) {
    NAME(direct) c = {.s = s, .plan = plan, .x = x, .g = g, .y = gw, .places = s->out[0] * s->out[1] * s->out[2],
                      .inside = s->channels / s->groups};
    c.beyond = s->batch * s->groups * s->rows * c.places;
    const double taps = (double)plan->pass[0].taps;
    if (NAME(begin)(&c))
        parallel_for(s->channels, (double)(s->batch * s->channels * c.places) * (2 + (double)s->rows * taps / 3),
                     NAME(direct_weight_items), &c);
    return NAME(end)(&c);
}

#endif
