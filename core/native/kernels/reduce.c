/* Sums and extremes over n in (outer, n, inner), and the place of an extreme.

   n is cut into blocks of fixed length, every block into fixed parts, and the blocks' results are
   reduced again in the same way: a tree that depends on the shape alone, so that a sum has the same bits
   for any number of threads and on any processor, and its error grows with the tree's depth, not with n. */
#ifndef REAL
#include "runtime/paths.h"
#include "kernels/real.h"

/* LINE: items of a block where they are adjacent; ROWS: rows of a block elsewhere, cut into GROUPs; TILE:
   columns that one thread reduces together, small enough for the first-level cache, if the tuner has chosen
   nothing else, which is at most MOST. */
enum { LINE = 4096, ROWS = 256, GROUP = 32, TILE = 512, MOST = 2048 };

#define KERNEL_FILE "reduce.c"
#include "kernels/each_real.h"
#else
#include "kernels/lines.h"

static inline __attribute__((always_inline)) REAL NAME(combine)(int kind, REAL a, REAL b) {
    return kind == REDUCE_SUM ? a + b : kind == REDUCE_MAX ? NAME(sm_maximum)(a, b) : NAME(sm_minimum)(a, b);
}

static inline __attribute__((always_inline)) REAL NAME(extreme_line)(int kind, const REAL *x, ptrdiff_t n) {
    /* `max` of a vector drops NaN, so it is looked for beside it */
    REAL extreme = x[0];
    int nan = 0;
    if (kind == REDUCE_MAX) {
#pragma omp simd reduction(max : extreme) reduction(| : nan)
        for (ptrdiff_t i = 0; i < n; i++) {
            extreme = x[i] > extreme ? x[i] : extreme;
            nan |= x[i] != x[i];
        }
    } else {
#pragma omp simd reduction(min : extreme) reduction(| : nan)
        for (ptrdiff_t i = 0; i < n; i++) {
            extreme = x[i] < extreme ? x[i] : extreme;
            nan |= x[i] != x[i];
        }
    }
    return nan ? NAN : extreme;
}

/* y[0..columns-1] = reduction over `rows` rows that lie `inner` apart. */
static inline __attribute__((always_inline)) void NAME(reduce_tile)(int kind, const REAL *x, REAL *y, ptrdiff_t rows,
                                                                    ptrdiff_t inner, ptrdiff_t columns) {
    REAL part[MOST];
    for (ptrdiff_t first = 0; first < rows; first += GROUP) {
        const ptrdiff_t count = rows - first < GROUP ? rows - first : GROUP;
        const REAL *at = x + first * inner;
        ptrdiff_t row = 1;
        memcpy(part, at, sizeof(REAL) * (size_t)columns);
        for (; kind == REDUCE_SUM && row + 3 < count; row += 4) {
            const REAL *a = at + row * inner, *b = a + inner, *c = b + inner, *d = c + inner;
            INDEPENDENT
            for (ptrdiff_t i = 0; i < columns; i++) part[i] += (a[i] + b[i]) + (c[i] + d[i]);
        }
        for (; row < count; row++) {
            const REAL *a = at + row * inner;
            INDEPENDENT
            for (ptrdiff_t i = 0; i < columns; i++) part[i] = NAME(combine)(kind, part[i], a[i]);
        }
        INDEPENDENT
        for (ptrdiff_t i = 0; i < columns; i++) y[i] = first ? NAME(combine)(kind, y[i], part[i]) : part[i];
    }
}

typedef struct {
    const REAL *x;
    REAL *y; /* y (outer, blocks, inner) */
    ptrdiff_t n, inner, block, blocks, tiles, tile;
    int kind;
} NAME(reduction);

static inline __attribute__((always_inline)) void NAME(reduce_items)(int kind, const NAME(reduction) * c,
                                                                     ptrdiff_t begin, ptrdiff_t end) {
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t tile = item % c->tiles, block = item / c->tiles % c->blocks,
                        outer = item / c->tiles / c->blocks;
        const ptrdiff_t first = block * c->block, rows = c->n - first < c->block ? c->n - first : c->block;
        const REAL *x = c->x + (outer * c->n + first) * c->inner + tile * c->tile;
        REAL *y = c->y + (outer * c->blocks + block) * c->inner + tile * c->tile;
        if (c->inner == 1) {
            *y = kind == REDUCE_SUM ? NAME(sum_line)(x, rows) : NAME(extreme_line)(kind, x, rows);
        } else {
            const ptrdiff_t left = c->inner - tile * c->tile;
            NAME(reduce_tile)(kind, x, y, rows, c->inner, left < c->tile ? left : c->tile);
        }
    }
}

VECTOR static void NAME(reduce_body)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(reduction) *c = context;
    if (c->kind == REDUCE_SUM) NAME(reduce_items)(REDUCE_SUM, c, begin, end);
    else if (c->kind == REDUCE_MAX) NAME(reduce_items)(REDUCE_MAX, c, begin, end);
    else NAME(reduce_items)(REDUCE_MIN, c, begin, end);
}

int NAME(reduce)(int kind, const REAL *x, REAL *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner) {
    if (outer == 0 || inner == 0) return 1;
    if (n == 0) { /* of a sum; the caller refuses an extreme of nothing */
        memset(y, 0, sizeof(REAL) * (size_t)(outer * inner));
        return 1;
    }
    const kernel_choice *as = choice_for(CHOOSE_REDUCE, sizeof(REAL), outer, n, inner, 1);
    const ptrdiff_t tile = as->rows ? as->rows : TILE;
    const ptrdiff_t block = inner == 1 ? LINE : ROWS, blocks = (n + block - 1) / block,
                    tiles = (inner + tile - 1) / tile;
    REAL *partial = y;
    if (blocks > 1) {
        took(PATH_reduce_blocks);
        partial = malloc(sizeof(REAL) * (size_t)(outer * blocks * inner));
        if (!partial) return 0;
    }
    NAME(reduction) context = {x, partial, n, inner, block, blocks, tiles, tile, kind};
    parallel_for_as(as, outer * blocks * tiles, (double)outer * (double)(n * inner), NAME(reduce_body), &context);
    int done = 1;
    if (blocks > 1) {
        done = NAME(reduce)(kind, partial, y, outer, blocks, inner);
        free(partial);
    }
    return done;
}

/* Where `value`, which may be NaN, stands first. */
static inline __attribute__((always_inline)) ptrdiff_t NAME(first_of)(const REAL *x, REAL value, ptrdiff_t n) {
    ptrdiff_t at = 0;
    int found = 0;
    for (; at + GROUP <= n && !found; at += GROUP) {
        if (value == value)
            for (int i = 0; i < GROUP; i++) found |= x[at + i] == value;
        else
            for (int i = 0; i < GROUP; i++) found |= x[at + i] != x[at + i];
    }
    if (found) at -= GROUP;
    while (x[at] != value && (value == value || x[at] == x[at])) at++;
    return at;
}

typedef struct {
    const REAL *x;
    int64_t *index;
    ptrdiff_t n, inner, tiles;
    REAL sign; /* -1 turns the smallest into the largest */
} NAME(argument);

VECTOR static void NAME(argument_body)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(argument) *c = context;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t tile = item % c->tiles, outer = item / c->tiles, left = c->inner - tile * TILE;
        const ptrdiff_t columns = left < TILE ? left : TILE;
        const REAL *x = c->x + outer * c->n * c->inner + tile * TILE;
        int64_t *index = c->index + outer * c->inner + tile * TILE;
        if (c->inner == 1) {
            const REAL extreme = NAME(extreme_line)(c->sign > 0 ? REDUCE_MAX : REDUCE_MIN, x, c->n);
            *index = NAME(first_of)(x, extreme, c->n);
            continue;
        }
        REAL best[TILE];
        int64_t found[TILE];
        for (ptrdiff_t i = 0; i < columns; i++) {
            best[i] = c->sign * x[i];
            found[i] = 0;
        }
        for (ptrdiff_t row = 1; row < c->n; row++) {
            const REAL *a = x + row * c->inner;
            INDEPENDENT
            for (ptrdiff_t i = 0; i < columns; i++) {
                const REAL value = c->sign * a[i];
                /* the first NaN stays */
                const int better = (value > best[i]) | ((value != value) & (best[i] == best[i]));
                found[i] = better ? row : found[i];
                best[i] = better ? value : best[i];
            }
        }
        memcpy(index, found, sizeof(int64_t) * (size_t)columns);
    }
}

void NAME(argreduce)(int kind, const REAL *x, int64_t *index, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner) {
    const ptrdiff_t tiles = (inner + TILE - 1) / TILE;
    if (tiles > 1) took(PATH_argreduce_tiles);
    NAME(argument) context = {x, index, n, inner, tiles, kind == REDUCE_MAX ? 1 : -1};
    parallel_for(outer * tiles, 2 * (double)outer * (double)(n * inner), NAME(argument_body), &context);
}

#endif
