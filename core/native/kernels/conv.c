/* Convolutions of any stride, dilation and padding in up to three dimensions, and their transposes.

   An implicit product of matrices: weights (outputs, terms) by windows (terms, pixels), of which only a few
   panels of PANEL pixels by DEPTH terms exist at a time, copied from planes (conv.h) in pieces of a vector. The
   sums of eight outputs by a panel are made in registers (conv_tile.h) and written to y at once where its pixels
   lie side by side. The cut of the terms into depths depends on nothing but their number, so that the bits do
   not depend on the threads; each depth is summed from zero and then added, which keeps the error that of a short sum.
   Transposed, the weights are first packed by pass.

   Floating-point operations: 2 batch outputs pixels terms. Source: Chellapilla, Puri, Simard, "High performance
   convolutional neural networks" (2006); the blocking is Goto's and van de Geijn's (tile.h). */
#ifndef REAL
#include "kernels/conv.h"

#include "runtime/memory.h"
#include "runtime/paths.h"
#include "kernels/real.h"
#include "kernels/tiling.h"
#include "kernels/winograd.h"

enum { PANELS = 4, DEPTH = 640, ROWS = 256, PLACES = 64, SORTED_TAPS = 64, SOON = 8, AHEAD = 36 };

/* A panel's columns: the runs of neighbours of a plane that they are copied from, and those of the output that their
   sums go to. A vector is put together from a load for each run in it, shifted so that its items come to their
   place: unaligned loads are cheap, and unaligned stores are not (measured on a Zen 5: ten cycles and more). */
typedef struct {
    int runs, parts;
    int column[PLACES], length[PLACES]; /* of a run */
    ptrdiff_t from[PLACES];
    int loads;                 /* for each of the two vectors, the last ones repeated */
    ptrdiff_t load[2][PLACES]; /* where the vector begins whose items from `since` on count */
    int since[2][PLACES];
    int part[PLACES], count[PLACES]; /* the first column of neighbours of the output, and how many */
    ptrdiff_t out[PLACES];
    int exact; /* a load of whole vectors would read beyond the source */
} columns;

/* Eights of rows whose weights are packed together: in every channel at least some lines of the cache. */
INLINE ptrdiff_t eights_at_once(ptrdiff_t kernel) { return kernel < 8 ? 8 / kernel : 1; }

#define KERNEL_FILE "conv.c"
#include "kernels/each_real.h"
#else
#include "kernels/conv_planes.h"
#include "kernels/conv_tile.h"

typedef struct {
    const conv_shape *s;
    const conv_plan *plan;
    const REAL *planes, *weights, *bias; /* weights by pass: (groups, rows, terms), packed (groups, eights, terms, 8) */
    REAL *y;
    ptrdiff_t first, count, inside, panels_at_once, row_blocks, limit;
    const conv_pass *pass;
    int paired, failed; /* paired: the next pass goes with it, and its outputs lie between those of this one */
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
    to->runs = to->parts = 0;
    ptrdiff_t least = 0, farthest = 0;
    for (ptrdiff_t j = 0; j < NAME(PANEL) && begin + j < all;) {
        const ptrdiff_t n = (begin + j) / pass->pixels, p = (begin + j) % pass->pixels;
        const ptrdiff_t x = p % width, y = p / width % height, z = p / width / height;
        ptrdiff_t run = flat ? pass->pixels - p : width - x;
        if (run > NAME(PANEL) - j) run = NAME(PANEL) - j;
        const ptrdiff_t from = n * s->channels * plan->channel + (z * plan->extent[1] + y) * row_of_planes + x;
        to->column[to->runs] = (int)j, to->length[to->runs] = (int)run, to->from[to->runs++] = from;
        if (from - j < least) least = from - j;
        if (from + NAME(PANEL) > farthest) farthest = from + NAME(PANEL);
        const ptrdiff_t out = (c->first + n) * s->groups * s->rows * places + pass->origin +
                              (z * pass->step[0] * s->out[1] + y * pass->step[1]) * s->out[2] + x * pass->step[2];
        if (dense && to->parts && to->out[to->parts - 1] + to->count[to->parts - 1] == out)
            to->count[to->parts - 1] += (int)run;
        else to->part[to->parts] = (int)j, to->count[to->parts] = (int)run, to->out[to->parts++] = out;
        j += run;
    }
    to->exact = c->limit < PTRDIFF_MAX &&
                (least < 0 || farthest + (s->channels - 1) * plan->channel + plan->farthest > c->limit);
    int loads[2] = {0, 0};
    for (int v = 0; v < 2; v++) {
        const int low = v * NAME(LANES);
        for (int q = 0; q < to->runs; q++) {
            if (to->column[q] >= low + NAME(LANES) || to->column[q] + to->length[q] <= low) continue;
            to->load[v][loads[v]] = to->from[q] + low - to->column[q];
            to->since[v][loads[v]++] = to->column[q] > low ? to->column[q] - low : 0;
        }
        if (!loads[v]) to->load[v][0] = to->load[0][0], to->since[v][0] = 0, loads[v] = 1; /* columns that are none */
    }
    to->loads = loads[0] > loads[1] ? loads[0] : loads[1];
    for (int v = 0; v < 2; v++)
        for (; loads[v] < to->loads; loads[v]++) {
            to->load[v][loads[v]] = to->load[v][loads[v] - 1];
            to->since[v][loads[v]] = to->since[v][loads[v] - 1];
        }
}

INLINE ptrdiff_t NAME(columns_of)(const columns *at) { return at->part[at->parts - 1] + at->count[at->parts - 1]; }

/* Whether so few columns that vectors of terms or of rows are quicker than one of columns; packed, they fit a panel. */
INLINE int NAME(are_few)(const NAME(conv) * c, const columns *at) {
    return NAME(columns_of)(at) <= (c->s->transposed ? NAME(PANEL) / 8 : 8) && tile_is_wide();
}

INLINE void NAME(pack_terms)(const int loads, const columns *at, const REAL *planes, const ptrdiff_t *offset,
                             ptrdiff_t taps, ptrdiff_t channel, ptrdiff_t term, ptrdiff_t terms, REAL *to) {
    NAME(mask) since[2][4];
    ptrdiff_t load[2][4];
    _Pragma("GCC unroll 4") for (int q = 0; q < loads; q++) _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) {
        NAME(items_before)(at->since[v][q], &since[v][q]);
        since[v][q] = ~since[v][q];
        load[v][q] = at->load[v][q];
    }
    ptrdiff_t t = term % taps;
    planes += term / taps * channel;
    const ptrdiff_t ahead = (AHEAD / taps + 1) * channel; /* too far apart for the processor to foresee */
    for (ptrdiff_t i = 0; i < terms; i++, to += NAME(PANEL)) {
        const REAL *from = planes + offset[t];
        _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++)
            _Pragma("GCC unroll 4") for (int q = 0; q < loads; q++) __builtin_prefetch(from + ahead + load[v][q]);
        _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) {
            NAME(mask) items = (NAME(mask))*(const NAME(wide) *)(from + load[v][0]);
            _Pragma("GCC unroll 4") for (int q = 1; q < loads; q++) {
                const NAME(mask) more = (NAME(mask))*(const NAME(wide) *)(from + load[v][q]);
                items = (items & ~since[v][q]) | (more & since[v][q]);
            }
            *(NAME(wide) *)(to + v * NAME(LANES)) = (NAME(wide))items;
        }
        if (++t == taps) t = 0, planes += channel;
    }
}

#define PACK(n)                                                                                                       \
    VECTOR static __attribute__((noinline)) void NAME(pack_##n)(const columns *at, const REAL *planes,               \
                                                                const ptrdiff_t *offset, ptrdiff_t taps,             \
                                                                ptrdiff_t channel, ptrdiff_t term, ptrdiff_t terms,  \
                                                                REAL *to) {                                          \
        NAME(pack_terms)(n, at, planes, offset, taps, channel, term, terms, to);                                      \
    }
PACK(1)
PACK(2)
PACK(3)
PACK(4)
#undef PACK

/* The panel of terms term.. of the columns. */
INLINE void NAME(conv_pack)(const NAME(conv) * c, const conv_pass *pass, const columns *at, ptrdiff_t group,
                            ptrdiff_t term, ptrdiff_t terms, REAL *to) {
    const conv_plan *plan = c->plan;
    const ptrdiff_t *offset = plan->offset + pass->first, taps = pass->taps, channel = plan->channel;
    const REAL *planes = c->planes + group * c->inside * channel;
    if (!at->exact && at->loads <= 4) {
        switch (at->loads) {
#define CASE(n)                                                            \
    case n:                                                                \
        NAME(pack_##n)(at, planes, offset, taps, channel, term, terms, to); \
        return;
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
#undef CASE
        }
    }
    took(PATH_conv_by_item);
    for (ptrdiff_t i = 0; i < terms; i++, to += NAME(PANEL)) {
        const REAL *from = planes + (term + i) / taps * channel + offset[(term + i) % taps];
        for (int q = 0; q < at->runs; q++)
            for (int j = 0; j < at->length[q]; j++) to[at->column[q] + j] = from[at->from[q] + j];
    }
}

/* A few columns one after the other, each term `times`. */
INLINE void NAME(conv_pack_few)(const NAME(conv) * c, const conv_pass *pass, const columns *at, ptrdiff_t group,
                                ptrdiff_t term, ptrdiff_t terms, ptrdiff_t times, REAL *to) {
    const ptrdiff_t *offset = c->plan->offset + pass->first, taps = pass->taps, channel = c->plan->channel;
    took(PATH_conv_few_columns);
    for (int q = 0; q < at->runs; q++)
        for (int j = 0; j < at->length[q]; j++) {
            const REAL *from = c->planes + (group * c->inside + term / taps) * channel + at->from[q] + j;
            ptrdiff_t t = term % taps;
            for (ptrdiff_t i = 0; i < terms; i++, to += times) {
                for (ptrdiff_t k = 0; k < times; k++) to[k] = from[offset[t]];
                if (++t == taps) t = 0, from += channel;
            }
        }
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

/* The same of two passes whose outputs alternate. */
INLINE void NAME(conv_store_both)(const NAME(conv) * c, const columns *at, ptrdiff_t row, ptrdiff_t rows,
                                  const REAL *even, const REAL *odd) {
    const ptrdiff_t places = c->s->out[0] * c->s->out[1] * c->s->out[2];
    for (ptrdiff_t r = 0; r < rows; r++, even += NAME(PANEL), odd += NAME(PANEL))
        for (int q = 0; q < at->parts; q++) {
            REAL *y = c->y + at->out[q] + (row + r) * places;
            const REAL *left = even + at->part[q], *right = odd + at->part[q];
            int j = 0;
#ifdef GRADLAB_SHUFFLES
            for (; j + 8 <= at->count[q]; j += 8) {
                const NAME(eight) l = *(const NAME(eight) *)(left + j), r = *(const NAME(eight) *)(right + j);
                *(NAME(eight) *)(y + 2 * j) = __builtin_shufflevector(l, r, 0, 8, 1, 9, 2, 10, 3, 11);
                *(NAME(eight) *)(y + 2 * j + 8) = __builtin_shufflevector(l, r, 4, 12, 5, 13, 6, 14, 7, 15);
            }
            for (; j + 4 <= at->count[q]; j += 4) {
                const NAME(four) l = *(const NAME(four) *)(left + j), r = *(const NAME(four) *)(right + j);
                *(NAME(eight) *)(y + 2 * j) = __builtin_shufflevector(l, r, 0, 4, 1, 5, 2, 6, 3, 7);
            }
#endif
            for (; j < at->count[q]; j++) y[2 * j] = left[j], y[2 * j + 1] = right[j];
        }
}

/* What an item is made of: panels of columns, and rows of a group. */
typedef struct {
    const columns *at;
    int count;
    ptrdiff_t group, row, last, of_panel, of_sums;
    REAL *panels;
} NAME(part);

/* The sums of a pass, to y, or to `sums` alone where another pass goes with it. */
INLINE void NAME(conv_part)(const NAME(conv) * c, const conv_pass *pass, const NAME(part) * p, REAL *sums) {
    const conv_shape *s = c->s;
    const ptrdiff_t W = NAME(PANEL), terms = c->inside * pass->taps, places = s->out[0] * s->out[1] * s->out[2];
    const ptrdiff_t depths = terms ? pieces_of(terms, DEPTH) : 1, depth = pieces_of(terms, depths);
    if (depths > 1) took(PATH_conv_depths);
    const ptrdiff_t rows_of_all = s->transposed ? pieces_of(s->rows, 8) * 8 : s->rows;
    const REAL *weights = c->weights + (pass->first * c->inside * s->groups + p->group * terms) * rows_of_all;
    for (ptrdiff_t d = 0; d < depths; d++) {
        const ptrdiff_t term = d * depth, here = terms - term < depth ? terms - term : depth;
        const NAME(strip) strip = {here, 0, 1, 0, 1};
        for (int q = 0; q < p->count && here; q++) {
            REAL *panel = p->panels + q * p->of_panel;
            if (!NAME(are_few)(c, p->at + q)) NAME(conv_pack)(c, pass, p->at + q, p->group, term, here, panel);
            else if (s->transposed) NAME(conv_pack_few)(c, pass, p->at + q, p->group, term, here, 8, panel);
            else NAME(conv_pack_few)(c, pass, p->at + q, p->group, term, here, 1, panel);
        }
        for (ptrdiff_t row = p->row; row < p->last; row += 8) {
            const int rows = p->last - row < 8 ? (int)(p->last - row) : 8;
            const REAL *a[8];
            REAL bias[8];
            for (int r = 0; r < 8; r++) {
                const ptrdiff_t of = row + (r < rows ? r : rows - 1); /* rows that are none are given and dropped */
                a[r] = weights + (s->transposed ? row * terms + term * 8 : of * terms + term);
                bias[r] = c->bias ? c->bias[p->group * s->rows + of] : 0;
            }
            for (int q = 0; q < p->count; q++) {
                const columns *at = p->at + q;
                const int whole = rows == 8 && at->parts == 1 && at->count[0] == W && pass->step[2] == 1;
                REAL *out = whole ? c->y + at->out[0] + (p->group * s->rows + row) * places
                                  : sums + q * p->of_sums + (row - p->row) * W;
                const ptrdiff_t columns = NAME(columns_of)(at), ldo = whole ? places : W;
                const REAL *panel = p->panels + q * p->of_panel;
                const int start = d ? NAME(ADDED) : NAME(BIASED);
                if (NAME(are_few)(c, at) && s->transposed)
                    NAME(few_columns)(NAME(SIDE_BY_SIDE), columns, here, a, panel, out, ldo, bias, start);
                else if (NAME(are_few)(c, at))
                    NAME(few_columns)(NAME(APART), columns, here, a, panel, out, ldo, bias, start);
                else if (s->transposed)
                    NAME(eight_rows)(NAME(SIDE_BY_SIDE), rows, columns, &strip, a, panel, out, ldo, bias, start);
                else NAME(eight_rows)(NAME(APART), rows, columns, &strip, a, panel, out, ldo, bias, start);
                if (!whole && d == depths - 1 && !c->paired)
                    NAME(conv_store)(c, at, p->group * s->rows + row, rows, out);
            }
        }
    }
}

/* An item: some panels of pixels by a block of rows of a group. */
VECTOR static void NAME(conv_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(conv) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t W = NAME(PANEL), most = c->pass[c->paired].taps > c->pass->taps ? c->pass[1].taps : c->pass->taps;
    const ptrdiff_t all = pieces_of(c->count * c->pass->pixels, W);
    const ptrdiff_t rows_at_once = pieces_of(pieces_of(s->rows, c->row_blocks), 8) * 8, terms = c->inside * most;
    NAME(part) part = {.of_panel = (terms < DEPTH ? terms : DEPTH) * W, .of_sums = rows_at_once * W};
    columns *at = malloc(sizeof(columns) * PANELS);
    size_t capacity, size = sizeof(REAL) * (size_t)(PANELS * (part.of_panel + (1 + c->paired) * part.of_sums));
    part.panels = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!at || !part.panels) {
        c->failed = 1;
        if (part.panels) memory_give(part.panels, capacity);
        free(at);
        return;
    }
    REAL *sums = part.panels + PANELS * part.of_panel, *others = sums + PANELS * part.of_sums;
    part.at = at;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t block = item % c->row_blocks, panel = item / c->row_blocks / s->groups * c->panels_at_once;
        part.group = item / c->row_blocks % s->groups, part.row = block * rows_at_once;
        part.last = part.row + rows_at_once < s->rows ? part.row + rows_at_once : s->rows;
        part.count = (int)(all - panel < c->panels_at_once ? all - panel : c->panels_at_once);
        for (int q = 0; q < part.count; q++) NAME(conv_columns)(c, (panel + q) * W, at + q);
        NAME(conv_part)(c, c->pass, &part, sums);
        if (!c->paired) continue;
        NAME(conv_part)(c, c->pass + 1, &part, others);
        for (int q = 0; q < part.count; q++)
            NAME(conv_store_both)(c, at + q, part.group * s->rows + part.row, part.last - part.row,
                                  sums + q * part.of_sums, others + q * part.of_sums);
    }
    memory_give(part.panels, capacity);
    free(at);
}

/* The weights (channels, rows, kernel) of a transpose, by pass and group as (eights of rows, channels of the group,
   taps, 8): written in order, and read in order by the tiles. Sorted as (rows, channels, taps) 32 rows that lie a
   multiple of 4096 bytes apart drove one another from L1: 256 to 512 channels with stride 2 took a fifth longer.
   An item is some eights, which lie side by side in every channel. */
VECTOR static void NAME(conv_sort)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(conv) *c = context;
    const conv_shape *s = c->s;
    const conv_plan *plan = c->plan;
    const ptrdiff_t kernel = s->kernel[0] * s->kernel[1] * s->kernel[2], eights = pieces_of(s->rows, 8);
    const ptrdiff_t at_once = eights_at_once(kernel), items = pieces_of(eights, at_once);
    const ptrdiff_t ahead = SOON * s->rows * kernel, of_pass = s->groups * eights * c->inside * 8;
    REAL turned[SORTED_TAPS * 8];
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t group = item / items, first = item % items * at_once;
        const ptrdiff_t last = first + at_once < eights ? first + at_once : eights;
        for (ptrdiff_t k = 0; k < c->inside; k++)
            for (ptrdiff_t eight = first; eight < last; eight++) {
                const REAL *from = c->weights + ((group * c->inside + k) * s->rows + eight * 8) * kernel;
                const ptrdiff_t place = ((group * eights + eight) * c->inside + k) * 8, rows = s->rows - eight * 8;
                const int whole = rows >= 8 && kernel <= SORTED_TAPS;
                for (ptrdiff_t i = 0; i < 8 * kernel; i += NAME(LANES)) /* too far apart for the processor to foresee */
                    __builtin_prefetch(from + ahead + i);
                if (whole && kernel == 1 && plan->total == 1) {
                    memcpy(c->y + place, from, sizeof(REAL) * 8);
                    continue;
                }
                const int as_one = plan->passes == 1 && plan->total == kernel;
                if (whole) NAME(turn)(from, kernel, 8, kernel, as_one ? c->y + place * kernel : turned, 8);
                if (whole && as_one) continue;
                const conv_pass *pass = plan->pass;
                for (ptrdiff_t i = 0; i < plan->total; i++) {
                    while (i == pass->first + pass->taps) pass++;
                    REAL *to = c->y + pass->first * of_pass + place * pass->taps + (i - pass->first) * 8;
                    if (whole) memcpy(to, turned + plan->tap[i] * 8, sizeof(REAL) * 8);
                    else
                        for (ptrdiff_t r = 0; r < 8; r++) to[r] = r < rows ? from[r * kernel + plan->tap[i]] : 0;
                }
            }
    }
}

/* The same as (rows, channels of the group, taps), for conv_direct.c: few rows. */
static void NAME(conv_sort_few)(const NAME(conv) * c, REAL *to) {
    const conv_shape *s = c->s;
    const ptrdiff_t kernel = s->kernel[0] * s->kernel[1] * s->kernel[2];
    for (const conv_pass *pass = c->plan->pass; pass < c->plan->pass + c->plan->passes; pass++)
        for (ptrdiff_t row = 0; row < s->groups * s->rows; row++)
            for (ptrdiff_t k = 0; k < c->inside; k++)
                for (ptrdiff_t t = 0; t < pass->taps; t++)
                    *to++ = c->weights[((row / s->rows * c->inside + k) * s->rows + row % s->rows) * kernel +
                                       c->plan->tap[pass->first + t]];
}

static void NAME(conv_chunk)(NAME(conv) * c, REAL *planes, const REAL *x) {
    const conv_shape *s = c->s;
    const ptrdiff_t taps = s->kernel[0] * s->kernel[1] * s->kernel[2], places = s->out[0] * s->out[1] * s->out[2];
    const kernel_choice *as = choice_for(CHOOSE_CONVOLUTION, sizeof(REAL), s->batch, c->inside * taps,
                                         s->groups * s->rows, places);
    const ptrdiff_t all = parallel_get_threads(), threads = as->threads && as->threads < all ? as->threads : all;
    kernel_choice finer = *as; /* one thread that is held up keeps the other waiting for a piece */
    if (as == &choice_default) finer.chunks = 16;
    c->planes = NAME(planes_of)(s, c->plan, x, c->first, c->count, planes);
    const int paired = s->transposed && s->stride[2] == 2 && s->out[2] % 2 == 0;
    if (paired) took(PATH_conv_paired);
    for (ptrdiff_t i = 0; i < c->plan->passes; i += 1 + paired) {
        c->pass = c->plan->pass + i, c->paired = paired;
        const ptrdiff_t panels = pieces_of(c->count * c->pass->pixels, NAME(PANEL));
        c->panels_at_once = as->block && as->block < PANELS ? as->block : PANELS;
        c->row_blocks = pieces_of(s->rows, as->rows ? as->rows : ROWS);
        while (threads > 1 && c->panels_at_once > 1 &&
               pieces_of(panels, c->panels_at_once) * s->groups * c->row_blocks < 16 * threads)
            c->panels_at_once--;
        while (pieces_of(panels, c->panels_at_once) * s->groups * c->row_blocks < threads &&
               c->row_blocks * 16 < s->rows)
            c->row_blocks++;
        const double products = (double)(c->count * c->pass->pixels) * (double)(s->groups * s->rows) *
                                (double)(c->inside * (c->pass->taps + c->pass[paired].taps) / 2 * (1 + paired) + 8);
        parallel_for_as(&finer, pieces_of(panels, c->panels_at_once) * s->groups * c->row_blocks, products / 6,
                        NAME(conv_items), c);
    }
}

int NAME(conv_forward)(const conv_shape *s, const void *x, const void *weights, const void *bias, void *y) {
    conv_plan plan;
    if (NAME(conv_is_flat)(s)) return NAME(conv_flat)(s, x, weights, bias, y);
    if (sizeof(REAL) == 4) {
        const int done = winograd_forward(s, x, weights, bias, y);
        if (done != WINOGRAD_DECLINED) return done == WINOGRAD_DONE;
    }
    const ptrdiff_t inside = s->channels / s->groups, kernel = s->kernel[0] * s->kernel[1] * s->kernel[2];
    const ptrdiff_t of_weights = s->transposed ? s->groups * pieces_of(s->rows, 8) * 8 * inside * kernel : 0;
    NAME(conv) c = {.s = s, .plan = &plan, .weights = weights, .bias = bias, .inside = inside};
    REAL *scratch = NULL;
    size_t capacity = 0;
    if (!conv_plan_make(&plan, s, sizeof(REAL))) goto done;
    const ptrdiff_t of_planes = plan.as_it_lies ? 0 : plan.chunk * s->channels * plan.channel + 2 * NAME(PANEL);
    const size_t size = sizeof(REAL) * (size_t)(of_weights + of_planes);
    scratch = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!scratch) goto done;
    if (s->transposed) {
        c.y = scratch; /* what is written */
        if (conv_is_direct(s, &plan)) NAME(conv_sort_few)(&c, scratch);
        else parallel_for(s->groups * pieces_of(pieces_of(s->rows, 8), eights_at_once(kernel)), 10 * (double)of_weights,
                          NAME(conv_sort), &c);
        c.weights = scratch;
    }
    c.y = y;
    if (conv_is_direct(s, &plan)) {
        took(PATH_conv_direct);
        c.failed = !NAME(conv_direct)(s, &plan, x, c.weights, bias, y);
        goto done;
    }
    if (!plan.as_it_lies) took(PATH_conv_planes);
    if (s->batch > plan.chunk) took(PATH_conv_chunks);
    c.limit = plan.as_it_lies ? s->batch * s->channels * plan.channel : PTRDIFF_MAX;
    for (; c.first < s->batch; c.first += plan.chunk) {
        c.count = s->batch - c.first < plan.chunk ? s->batch - c.first : plan.chunk;
        NAME(conv_chunk)(&c, scratch + of_weights + NAME(PANEL), x);
    }
done:
    if (scratch) memory_give(scratch, capacity);
    else c.failed = 1;
    conv_plan_drop(&plan);
    return !c.failed;
}

#endif
