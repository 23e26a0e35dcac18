/* The gradient of a convolution's weights: for every tap the sum over all pixels of what it saw and what came back.

   A product whose inner dimension is the pixels. Its left rows are the planes of a channel as a tap sees them (conv.h),
   read where they lie; its right factor, the incoming gradient, is packed once for all taps into panels of PANEL
   outputs, a chunk of samples at a time. Each sum runs over blocks of at most PIXELS pixels in their order, one
   thread makes it from the first to the last, and no cut depends on the number of threads: neither do the bits.

   Floating-point operations: 2 batch outputs pixels terms. Source: as conv.c. */
#ifndef REAL
#include "kernels/conv.h"

#include "runtime/memory.h"
#include "runtime/paths.h"
#include "kernels/real.h"
#include "kernels/tiling.h"
#include "kernels/winograd.h"

enum { PIXELS = 320, MOST_TILES = 72 };
static const size_t CHUNK_BYTES = (size_t)4 << 20;

#define KERNEL_FILE "conv_weight.c"
#include "kernels/each_real.h"
#else
#include "kernels/conv_planes.h"
#include "kernels/conv_tile.h"

typedef struct {
    const conv_shape *s;
    const conv_plan *plan;
    const REAL *planes, *g;
    REAL *gw, *panels, *sums; /* (group, panel, pixel of the chunk, PANEL), (group, panel, tile, 8, PANEL) */
    ptrdiff_t first, count, chunks, places, inside, terms; /* terms: channels of a group by taps */
    ptrdiff_t across, tiles, tiles_at_once;                /* panels of a group's outputs, eights of terms */
    ptrdiff_t size[4], apart[4], parts[3], part[3];        /* pixels by loop, innermost first, and its blocks */
    const ptrdiff_t *place;                                /* of each term in the planes, the last repeated */
    int failed;
} NAME(by_weight);

/* The incoming gradient of a sample's panel of outputs, turned. An item is one of those. */
VECTOR static void NAME(pack_gradients)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(by_weight) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t W = NAME(PANEL);
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t n = item % c->count, panel = item / c->count % c->across, group = item / c->count / c->across;
        const ptrdiff_t width = s->rows - panel * W < W ? s->rows - panel * W : W;
        const REAL *from = c->g + (((c->first + n) * s->groups + group) * s->rows + panel * W) * c->places;
        REAL *to = c->panels + ((group * c->across + panel) * c->count + n) * c->places * W;
        for (ptrdiff_t p = 0; p < c->places; p += 16) { /* a few lines of each row at a time */
            const ptrdiff_t high = c->places - p < 16 ? c->places - p : 16;
            NAME(turn)(from + p, c->places, width, high, to + p * W, W);
            for (ptrdiff_t i = p; i < p + high && width < W; i++)
                for (ptrdiff_t j = width; j < W; j++) to[i * W + j] = 0;
        }
    }
}

/* How the pixels of the chunk are cut: loops that follow one another in memory are one. */
static void NAME(cut_pixels)(NAME(by_weight) * c) {
    const conv_shape *s = c->s;
    const conv_plan *p = c->plan;
    const ptrdiff_t size[4] = {s->out[2], s->out[1], s->out[0], c->count};
    const ptrdiff_t apart[4] = {1, p->extent[2], p->extent[1] * p->extent[2], s->channels * p->channel};
    int loops = 0;
    for (int d = 0; d < 4; d++) {
        if (size[d] == 1) continue;
        if (loops && c->size[loops - 1] * c->apart[loops - 1] == apart[d]) c->size[loops - 1] *= size[d];
        else if (!loops && apart[d] != 1)
            c->size[0] = c->apart[0] = 1, c->size[1] = size[d], c->apart[1] = apart[d], loops = 2;
        else c->size[loops] = size[d], c->apart[loops++] = apart[d];
    }
    for (; loops < 4; loops++)
        c->size[loops] = 1, c->apart[loops] = loops ? c->size[loops - 1] * c->apart[loops - 1] : 1;
    ptrdiff_t room = PIXELS;
    for (int d = 0; d < 3; d++) {
        const ptrdiff_t most = room < 1 ? 1 : room;
        c->parts[d] = pieces_of(c->size[d], most), c->part[d] = pieces_of(c->size[d], c->parts[d]);
        c->parts[d] = pieces_of(c->size[d], c->part[d]);
        room = c->parts[d] > 1 ? 1 : room / c->size[d];
    }
}

/* An item: some tiles of terms by a panel of outputs. */
VECTOR static void NAME(weight_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(by_weight) *c = context;
    const conv_shape *s = c->s;
    const conv_plan *plan = c->plan;
    const ptrdiff_t W = NAME(PANEL), ranges = pieces_of(c->tiles, c->tiles_at_once);
    const ptrdiff_t last = c->first + c->count == s->batch;
    size_t capacity = 0, size = sizeof(REAL) * (size_t)(c->tiles_at_once * 8 * W);
    REAL *own = NULL;
    if (c->chunks == 1) own = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (c->chunks == 1 && !own) {
        c->failed = 1;
        return;
    }
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t tile = item % ranges * c->tiles_at_once, panel = item / ranges % c->across;
        const ptrdiff_t group = item / ranges / c->across, rest = c->tiles - tile;
        const ptrdiff_t count = rest < c->tiles_at_once ? rest : c->tiles_at_once;
        const ptrdiff_t columns = s->rows - panel * W < W ? s->rows - panel * W : W;
        REAL *sums = own ? own : c->sums + ((group * c->across + panel) * c->tiles + tile) * 8 * W;
        const REAL *right = c->panels + (group * c->across + panel) * c->count * c->places * W;
        const REAL *planes = c->planes + group * c->inside * plan->channel;
        REAL *gw = c->gw + (group * s->rows + panel * W) * c->terms + tile * 8;
        int start = c->first ? NAME(ADDED) : NAME(FRESH);
        for (ptrdiff_t i3 = 0; i3 < c->size[3]; i3++)
            for (ptrdiff_t i2 = 0; i2 < c->size[2]; i2 += c->part[2])
                for (ptrdiff_t i1 = 0; i1 < c->size[1]; i1 += c->part[1])
                    for (ptrdiff_t i0 = 0; i0 < c->size[0]; i0 += c->part[0], start = NAME(ADDED)) {
                        const ptrdiff_t at[3] = {i0, i1, i2};
                        ptrdiff_t n[3];
                        for (int d = 0; d < 3; d++)
                            n[d] = c->size[d] - at[d] < c->part[d] ? c->size[d] - at[d] : c->part[d];
                        const NAME(strip) strip = {n[0], c->apart[1] - n[0], n[1], c->apart[2] - n[1] * c->apart[1],
                                                   n[2]};
                        const REAL *base = planes + i0 + i1 * c->apart[1] + i2 * c->apart[2] + i3 * c->apart[3];
                        for (ptrdiff_t t = 0; t < count; t++) {
                            const REAL *a[8];
                            for (int r = 0; r < 8; r++) a[r] = base + c->place[(tile + t) * 8 + r];
                            NAME(eight_rows)(NAME(APART), 8, columns, &strip, a, right, sums + t * 8 * W, W, NULL, start);
                        }
                        right += n[0] * n[1] * n[2] * W;
                    }
        if (!last) continue;
        /* eight rows of gw at a time, each from its first term on: with the tiles outside, 32 rows that lie a multiple of
           4096 bytes apart drove one another's half-written lines from L1 */
        for (ptrdiff_t j = 0; j < columns; j += 8)
            for (ptrdiff_t t = 0; t < count; t++) {
                const ptrdiff_t term = (tile + t) * 8, rows = c->terms - term < 8 ? c->terms - term : 8;
                NAME(turn)(sums + t * 8 * W + j, W, rows, columns - j < 8 ? columns - j : 8,
                           gw + j * c->terms + t * 8, c->terms);
            }
    }
    if (own) memory_give(own, capacity);
}

/* Where the terms lie: two divisions for each of them took a seventh of the time where there are few pixels. */
static ptrdiff_t *NAME(places_of_terms)(const NAME(by_weight) * c) {
    const ptrdiff_t taps = c->plan->pass[0].taps;
    ptrdiff_t *place = malloc(sizeof *place * (size_t)(c->tiles * 8));
    for (ptrdiff_t i = 0; place && i < c->tiles * 8; i++) {
        const ptrdiff_t term = i < c->terms ? i : c->terms - 1; /* those beyond are given and dropped */
        place[i] = term / taps * c->plan->channel + c->plan->offset[term % taps];
    }
    return place;
}

int NAME(conv_weight)(const conv_shape *s, const void *x, const void *g, void *gw) {
    conv_plan plan;
    if (NAME(conv_is_flat)(s)) return NAME(conv_flat_weight)(s, x, g, gw);
    if (sizeof(REAL) == 4) {
        const int done = winograd_weight(s, x, g, gw);
        if (done != WINOGRAD_DECLINED) return done == WINOGRAD_DONE;
    }
    const ptrdiff_t W = NAME(PANEL), threads = parallel_get_threads();
    NAME(by_weight) c = {.s = s, .plan = &plan, .g = g, .gw = gw, .inside = s->channels / s->groups};
    REAL *scratch = NULL;
    ptrdiff_t *place = NULL;
    size_t capacity = 0;
    if (!conv_plan_make(&plan, s, sizeof(REAL))) goto done;
    if (conv_is_direct(s, &plan)) {
        const int done = NAME(conv_direct_weight)(s, &plan, x, g, gw);
        conv_plan_drop(&plan);
        return done;
    }
    c.places = s->out[0] * s->out[1] * s->out[2], c.terms = c.inside * plan.pass[0].taps;
    c.across = pieces_of(s->rows, W), c.tiles = pieces_of(c.terms, 8);
    const ptrdiff_t one = s->groups * c.across * c.places * W, fit = (ptrdiff_t)(CHUNK_BYTES / sizeof(REAL)) / one;
    ptrdiff_t chunk = plan.chunk < fit ? plan.chunk : fit;
    if (chunk < 1) chunk = 1;
    c.chunks = pieces_of(s->batch, chunk);
    if (c.chunks > 1) took(PATH_conv_weight_chunks);
    const ptrdiff_t of_planes = plan.as_it_lies ? 0 : chunk * s->channels * plan.channel + NAME(LANES);
    const ptrdiff_t of_sums = c.chunks > 1 ? s->groups * c.across * c.tiles * 8 * W : 0;
    const size_t size = sizeof(REAL) * (size_t)(of_planes + chunk * one + of_sums);
    scratch = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    c.place = place = NAME(places_of_terms)(&c);
    if (!scratch || !place) goto done;
    c.panels = scratch + of_planes, c.sums = c.panels + chunk * one;
    c.tiles_at_once = c.tiles < MOST_TILES ? c.tiles : MOST_TILES;
    while (c.tiles_at_once > 4 && pieces_of(c.tiles, c.tiles_at_once) * c.across * s->groups < 8 * threads)
        c.tiles_at_once = (c.tiles_at_once + 1) / 2;
    kernel_choice finer = choice_default;
    finer.chunks = 16;
    for (; c.first < s->batch; c.first += chunk) {
        c.count = s->batch - c.first < chunk ? s->batch - c.first : chunk;
        c.planes = NAME(planes_of)(s, &plan, x, c.first, c.count, scratch);
        NAME(cut_pixels)(&c);
        const double pixels = (double)(c.count * c.places);
        parallel_for(c.count * c.across * s->groups, 8 * pixels * (double)(c.across * s->groups * W),
                     NAME(pack_gradients), &c);
        parallel_for_as(&finer, pieces_of(c.tiles, c.tiles_at_once) * c.across * s->groups,
                        pixels * (double)(s->rows * s->groups) * (double)(c.terms + 8) / 6, NAME(weight_items), &c);
    }
done:
    if (scratch) memory_give(scratch, capacity);
    if (!scratch || !place) c.failed = 1;
    free(place);
    conv_plan_drop(&plan);
    return !c.failed;
}

#endif
