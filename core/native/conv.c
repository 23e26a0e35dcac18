/* Convolutions of any stride, dilation and padding in up to three dimensions, and their transposes.

   An implicit product of matrices: weights (outputs, terms) by windows (terms, pixels), of which only a few
   panels of PANEL pixels by DEPTH terms exist at a time, copied from planes (conv.h) in pieces of a vector. The
   sums of eight outputs by a panel are made in registers (conv_tile.h) and written to y at once where its pixels
   lie side by side. The cut of the terms into depths depends on nothing but their number, so that the bits do
   not depend on the threads. Transposed, the weights are first sorted by pass.

   Floating-point operations: 2 batch outputs pixels terms. Source: Chellapilla, Puri, Simard, "High performance
   convolutional neural networks" (2006); the blocking is Goto's and van de Geijn's (tile.h). */
#ifndef REAL
#include "conv.h"

#include "memory.h"
#include "real.h"
#include "tiling.h"

enum { PANELS = 4, DEPTH = 384, ROWS = 256, PLACES = 64 };

/* A panel's columns: what to copy of each term's plane, and where its sums go. */
typedef struct {
    int copies, parts;
    int to[PLACES], length[PLACES]; /* of a copy, the first column and how many count */
    ptrdiff_t from[PLACES];
    int part[PLACES], count[PLACES]; /* the first column of neighbours of the output, and how many */
    ptrdiff_t out[PLACES];
    int exact; /* a copy of whole vectors would read beyond the source */
} columns;

#define KERNEL_FILE "conv.c"
#include "each_real.h"
#else
#include "conv_tile.h"

typedef struct {
    const conv_shape *s;
    const conv_plan *plan;
    const REAL *planes, *weights, *bias; /* weights by pass: (groups, rows, channels of the group, taps) */
    REAL *y;
    ptrdiff_t first, count, inside, panels_at_once, row_blocks, limit;
    const conv_pass *pass;
    ptrdiff_t pass_weights; /* where those of the pass begin */
    int failed;
} NAME(conv);

/* The columns of PANEL pixels from `begin` on, of all of this chunk's. */
INLINE void NAME(conv_columns)(const NAME(conv) * c, ptrdiff_t begin, columns *to) {
    const conv_plan *plan = c->plan;
    const conv_pass *pass = c->pass;
    const conv_shape *s = c->s;
    const ptrdiff_t width = pass->n[2], height = pass->n[1], all = c->count * pass->pixels;
    const ptrdiff_t places = s->out[0] * s->out[1] * s->out[2], row_of_planes = plan->extent[2];
    const int dense = pass->step[2] == 1 && pass->pixels == places;
    /* rows of the output that follow one another in the planes are one row */
    const int flat = dense && row_of_planes == width && (pass->n[0] == 1 || plan->extent[1] == height);
    to->copies = to->parts = 0;
    ptrdiff_t farthest = 0;
    for (ptrdiff_t j = 0; j < NAME(PANEL) && begin + j < all;) {
        const ptrdiff_t n = (begin + j) / pass->pixels, p = (begin + j) % pass->pixels;
        const ptrdiff_t x = p % width, y = p / width % height, z = p / width / height;
        ptrdiff_t run = flat ? pass->pixels - p : width - x;
        if (run > NAME(PANEL) - j) run = NAME(PANEL) - j;
        const ptrdiff_t from = n * s->channels * plan->channel + (z * plan->extent[1] + y) * row_of_planes + x;
        for (ptrdiff_t k = 0; k < run; k += NAME(LANES)) {
            to->to[to->copies] = (int)(j + k), to->from[to->copies] = from + k;
            to->length[to->copies++] = (int)(run - k < NAME(LANES) ? run - k : NAME(LANES));
        }
        if (from + run > farthest) farthest = from + run;
        const ptrdiff_t out = (c->first + n) * s->groups * s->rows * places + pass->origin +
                              (z * pass->step[0] * s->out[1] + y * pass->step[1]) * s->out[2] + x * pass->step[2];
        if (dense && to->parts && to->out[to->parts - 1] + to->count[to->parts - 1] == out)
            to->count[to->parts - 1] += (int)run;
        else to->part[to->parts] = (int)j, to->count[to->parts] = (int)run, to->out[to->parts++] = out;
        j += run;
    }
    to->exact = farthest + NAME(LANES) + (s->channels - 1) * plan->channel + plan->farthest > c->limit;
}

INLINE void NAME(pack_terms)(const int copies, const columns *at, const REAL *planes, const ptrdiff_t *offset,
                             ptrdiff_t taps, ptrdiff_t channel, ptrdiff_t term, ptrdiff_t terms, REAL *to) {
    ptrdiff_t t = term % taps;
    planes += term / taps * channel;
    for (ptrdiff_t i = 0; i < terms; i++, to += NAME(PANEL)) {
        const REAL *from = planes + offset[t];
        _Pragma("GCC unroll 8") for (int q = 0; q < copies; q++) *(NAME(wide) *)(to + at->to[q]) =
            *(const NAME(wide) *)(from + at->from[q]);
        if (++t == taps) t = 0, planes += channel;
    }
}

/* The panel of terms term.. of the columns; writes a vector's length beyond it. */
INLINE void NAME(conv_pack)(const NAME(conv) * c, const columns *at, ptrdiff_t group, ptrdiff_t term, ptrdiff_t terms,
                            REAL *to) {
    const conv_plan *plan = c->plan;
    const ptrdiff_t *offset = plan->offset + c->pass->first, taps = c->pass->taps, channel = plan->channel;
    const REAL *planes = c->planes + group * c->inside * channel;
    if (at->exact) {
        for (ptrdiff_t i = 0; i < terms; i++, to += NAME(PANEL))
            for (int q = 0; q < at->copies; q++)
                memcpy(to + at->to[q], planes + (term + i) / taps * channel + offset[(term + i) % taps] + at->from[q],
                       sizeof(REAL) * (size_t)at->length[q]);
        return;
    }
    switch (at->copies) {
#define CASE(n)                                                                          \
    case n:                                                                              \
        NAME(pack_terms)(n, at, planes, offset, taps, channel, term, terms, to);         \
        return;
        CASE(1)
        CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
    }
    NAME(pack_terms)(at->copies, at, planes, offset, taps, channel, term, terms, to);
}

/* The sums (rows, PANEL) of a panel go to their places in y. */
INLINE void NAME(conv_store)(const NAME(conv) * c, const columns *at, ptrdiff_t row, int rows, const REAL *sums) {
    const ptrdiff_t places = c->s->out[0] * c->s->out[1] * c->s->out[2], step = c->pass->step[2];
    for (int r = 0; r < rows; r++)
        for (int q = 0; q < at->parts; q++) {
            REAL *y = c->y + at->out[q] + (row + r) * places;
            const REAL *from = sums + r * NAME(PANEL) + at->part[q];
            if (step == 1)
                for (int j = 0; j < at->count[q]; j++) y[j] = from[j];
            else
                for (int j = 0; j < at->count[q]; j++) y[j * step] = from[j];
        }
}

/* An item: some panels of pixels by a block of rows of a group. */
VECTOR static void NAME(conv_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(conv) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t W = NAME(PANEL), terms = c->inside * c->pass->taps;
    const ptrdiff_t depths = pieces_of(terms, DEPTH), depth = depths ? pieces_of(terms, depths) : 0;
    const ptrdiff_t all = pieces_of(c->count * c->pass->pixels, W), places = s->out[0] * s->out[1] * s->out[2];
    const ptrdiff_t rows_at_once = pieces_of(pieces_of(s->rows, c->row_blocks), 8) * 8;
    const ptrdiff_t of_panel = depth * W, of_sums = rows_at_once * W;
    columns *at = malloc(sizeof(columns) * PANELS);
    size_t capacity, size = sizeof(REAL) * (size_t)(PANELS * (of_panel + of_sums) + NAME(LANES));
    REAL *panels = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!at || !panels) {
        c->failed = 1;
        if (panels) memory_give(panels, capacity);
        free(at);
        return;
    }
    REAL *sums = panels + PANELS * of_panel + NAME(LANES);
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t block = item % c->row_blocks, group = item / c->row_blocks % s->groups;
        const ptrdiff_t panel = item / c->row_blocks / s->groups * c->panels_at_once;
        const ptrdiff_t high = block * rows_at_once + rows_at_once, last = high < s->rows ? high : s->rows;
        const int count = (int)(all - panel < c->panels_at_once ? all - panel : c->panels_at_once);
        const REAL *weights = c->weights + c->pass_weights + group * s->rows * terms;
        for (int q = 0; q < count; q++) NAME(conv_columns)(c, (panel + q) * W, at + q);
        for (ptrdiff_t d = 0; d < (depths ? depths : 1); d++) {
            const ptrdiff_t term = d * depth, here = terms - term < depth ? terms - term : depth;
            const NAME(strip) strip = {here, 0, 1, 0, 1};
            for (int q = 0; q < count && here; q++)
                NAME(conv_pack)(c, at + q, group, term, here, panels + q * of_panel);
            for (ptrdiff_t row = block * rows_at_once; row < last; row += 8) {
                const int rows = last - row < 8 ? (int)(last - row) : 8;
                const REAL *a[8];
                REAL bias[8];
                for (int r = 0; r < 8; r++) {
                    const ptrdiff_t of = row + (r < rows ? r : rows - 1); /* rows that are none are given and dropped */
                    a[r] = weights + of * terms + term;
                    bias[r] = c->bias ? c->bias[group * s->rows + of] : 0;
                }
                for (int q = 0; q < count; q++) {
                    const int whole = rows == 8 && at[q].parts == 1 && at[q].count[0] == W && c->pass->step[2] == 1;
                    REAL *out = whole ? c->y + at[q].out[0] + (group * s->rows + row) * places
                                      : sums + q * of_sums + (row - block * rows_at_once) * W;
                    const int start = d ? NAME(ADDED) : NAME(BIASED);
                    const ptrdiff_t columns_here = at[q].part[at[q].parts - 1] + at[q].count[at[q].parts - 1];
                    NAME(eight_rows)(rows, whole ? W : columns_here, &strip, a, panels + q * of_panel, out,
                                     whole ? places : W, bias, start);
                    if (!whole && d >= depths - 1) NAME(conv_store)(c, at + q, group * s->rows + row, rows, out);
                }
            }
        }
    }
    memory_give(panels, capacity);
    free(at);
}

/* The weights (channels, rows, kernel) of a transpose, by pass and group as (rows, channels of the group, taps). An
   item is a row of a group. */
VECTOR static void NAME(conv_sort)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(conv) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t kernel = s->kernel[0] * s->kernel[1] * s->kernel[2], per_group = s->rows * c->inside;
    REAL *sorted = c->y;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t group = item / s->rows, row = item % s->rows;
        for (ptrdiff_t i = 0; i < c->plan->passes; i++) {
            const conv_pass *pass = c->plan->pass + i;
            const ptrdiff_t *tap = c->plan->tap + pass->first, taps = pass->taps;
            REAL *to = sorted + pass->first * per_group * s->groups + item * c->inside * taps;
            const REAL *from = c->weights + (group * c->inside * s->rows + row) * kernel;
            for (ptrdiff_t k = 0; k < c->inside; k++, from += s->rows * kernel)
                for (ptrdiff_t t = 0; t < taps; t++) *to++ = from[tap[t]];
        }
    }
}

static void NAME(conv_chunk)(NAME(conv) * c, REAL *planes, const REAL *x) {
    const conv_shape *s = c->s;
    const ptrdiff_t threads = parallel_get_threads();
    c->planes = NAME(planes_of)(s, c->plan, x, c->first, c->count, planes);
    for (ptrdiff_t i = 0; i < c->plan->passes; i++) {
        c->pass = c->plan->pass + i;
        c->pass_weights = c->pass->first * s->rows * c->inside * s->groups;
        const ptrdiff_t panels = pieces_of(c->count * c->pass->pixels, NAME(PANEL));
        c->panels_at_once = PANELS, c->row_blocks = pieces_of(s->rows, ROWS);
        while (c->panels_at_once > 1 && pieces_of(panels, c->panels_at_once) * s->groups * c->row_blocks < 8 * threads)
            c->panels_at_once--;
        while (pieces_of(panels, c->panels_at_once) * s->groups * c->row_blocks < threads &&
               c->row_blocks * 16 < s->rows)
            c->row_blocks++;
        const double products = (double)(c->count * c->pass->pixels) * (double)(s->groups * s->rows) *
                                (double)(c->inside * c->pass->taps + 8);
        parallel_for(pieces_of(panels, c->panels_at_once) * s->groups * c->row_blocks, products / 6, NAME(conv_items),
                     c);
    }
}

int NAME(conv_forward)(const conv_shape *s, const void *x, const void *weights, const void *bias, void *y) {
    conv_plan plan;
    const ptrdiff_t inside = s->channels / s->groups, kernel = s->kernel[0] * s->kernel[1] * s->kernel[2];
    const ptrdiff_t of_weights = s->transposed ? s->groups * s->rows * inside * kernel : 0;
    NAME(conv) c = {.s = s, .plan = &plan, .weights = weights, .bias = bias, .inside = inside};
    REAL *scratch = NULL;
    size_t capacity = 0;
    if (!conv_plan_make(&plan, s, sizeof(REAL))) goto done;
    const ptrdiff_t of_planes = plan.as_it_lies ? 0 : plan.chunk * s->channels * plan.channel + NAME(LANES);
    const size_t size = sizeof(REAL) * (size_t)(of_weights + of_planes);
    scratch = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!scratch) goto done;
    if (s->transposed) {
        c.y = scratch; /* what is written */
        parallel_for(s->groups * s->rows, 10 * (double)of_weights, NAME(conv_sort), &c);
        c.weights = scratch;
    }
    c.y = y;
    if (conv_is_direct(s, &plan)) {
        c.failed = !NAME(conv_direct)(s, &plan, x, c.weights, bias, y);
        goto done;
    }
    c.limit = plan.as_it_lies ? s->batch * s->channels * plan.channel : PTRDIFF_MAX;
    for (; c.first < s->batch; c.first += plan.chunk) {
        c.count = s->batch - c.first < plan.chunk ? s->batch - c.first : plan.chunk;
        NAME(conv_chunk)(&c, scratch + of_weights, x);
    }
done:
    if (scratch) memory_give(scratch, capacity);
    else c.failed = 1;
    conv_plan_drop(&plan);
    return !c.failed;
}

#endif
