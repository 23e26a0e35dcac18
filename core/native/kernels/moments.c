/* Variance, norms, the logarithm of a sum of exponentials and products over n in (outer, n, inner), and the way back.

   A row is cut into pieces of fixed length, which are summed in lanes and added in double in their order: the bits depend
   on the shape alone. A variance takes the mean first and then the squares of what is off it, so that nothing cancels. */
#ifndef REAL
#include "runtime/paths.h"
#include "kernels/real.h"

/* PIECE: items of a row at a time; GROUP: rows that are added in REAL before they are in double; TILE: columns of a
   thread; FEW: numbers that lie on the stack. */
enum { PIECE = 4096, GROUP = 32, TILE = 64, FEW = 256 };
enum { STEP_SQUARES, STEP_ABS, STEP_EXP, STEP_PRODUCT };

static int step_of(int kind) {
    return kind == MOMENT_ABS ? STEP_ABS : kind == MOMENT_LOGSUMEXP ? STEP_EXP : kind == MOMENT_PROD ? STEP_PRODUCT : STEP_SQUARES;
}

#define KERNEL_FILE "moments.c"
#include "kernels/each_real.h"
#else
#include "kernels/lines.h"
#include "kernels/rows.h"

typedef struct {
    const REAL *x, *shift; /* shift (outer, inner): what is taken off, or NULL for 0 */
    double *parts;         /* (outer, pieces) */
    REAL *y;               /* (outer, inner) */
    ptrdiff_t n, inner, pieces;
    int kind, step;
    double free;
} NAME(moment);

/* What a number becomes at the end. `top` is what a logarithm's exponentials were divided by. */
INLINE REAL NAME(moment_end)(int kind, double total, double free, REAL top) {
    switch (kind) {
    case MOMENT_VAR: return (REAL)(total / free);
    case MOMENT_STD: return NAME(sm_sqrt)((REAL)(total / free));
    case MOMENT_NORM: return NAME(sm_sqrt)((REAL)total);
    case MOMENT_LOGSUMEXP: return NAME(sm_log)((REAL)total) + top;
    default: return (REAL)total;
    }
}

INLINE REAL NAME(product_line)(const REAL *x, ptrdiff_t n) {
    NAME(lanes) a;
    ptrdiff_t i = 0;
    REAL rest = 1;
    if (n >= 16) {
        a = NAME(lanes_at)(x);
        for (i = 16; i + 16 <= n; i += 16) a *= NAME(lanes_at)(x + i);
        for (int k = 0; k < 16; k++) rest *= a[k];
    }
    for (; i < n; i++) rest *= x[i];
    return rest;
}

INLINE REAL NAME(magnitude_line)(const REAL *x, ptrdiff_t n) {
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t i = 0; i < n; i++) sum += NAME(sm_abs)(x[i]);
    return sum;
}

INLINE double NAME(piece_of)(int step, const REAL *x, REAL shift, ptrdiff_t n) {
    if (step == STEP_SQUARES) return NAME(squares_line)(x, shift, n);
    if (step == STEP_ABS) return NAME(magnitude_line)(x, n);
    if (step == STEP_PRODUCT) return NAME(product_line)(x, n);
    return NAME(row_exp_sum)(x, shift, n);
}

VECTOR static void NAME(moment_pieces)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(moment) *c = context;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t row = item / c->pieces, from = item % c->pieces * PIECE;
        const ptrdiff_t count = c->n - from < PIECE ? c->n - from : PIECE;
        const REAL *x = c->x + row * c->n + from, shift = c->shift ? c->shift[row] : 0;
        const double part = NAME(piece_of)(c->step, x, shift, count);
        if (c->pieces > 1) c->parts[item] = part;
        else c->y[row] = NAME(moment_end)(c->kind, part, c->free, shift);
    }
}

/* Columns side by side. */
VECTOR static void NAME(moment_columns)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(moment) *c = context;
    const ptrdiff_t tiles = (c->inner + TILE - 1) / TILE;
    const int product = c->step == STEP_PRODUCT;
    double total[TILE];
    REAL part[TILE], shift[TILE];
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t outer = item / tiles, from = item % tiles * TILE;
        const ptrdiff_t width = c->inner - from < TILE ? c->inner - from : TILE;
        const REAL *x = c->x + outer * c->n * c->inner + from;
        for (ptrdiff_t j = 0; j < width; j++) {
            total[j] = product;
            shift[j] = c->shift ? c->shift[outer * c->inner + from + j] : 0;
        }
        for (ptrdiff_t first = 0; first < c->n; first += GROUP) {
            const ptrdiff_t last = first + GROUP < c->n ? first + GROUP : c->n;
            for (ptrdiff_t j = 0; j < width; j++) part[j] = (REAL)product;
            for (ptrdiff_t row = first; row < last; row++) {
                const REAL *at = x + row * c->inner;
                if (c->step == STEP_SQUARES) {
                    INDEPENDENT
                    for (ptrdiff_t j = 0; j < width; j++) part[j] += (at[j] - shift[j]) * (at[j] - shift[j]);
                } else if (c->step == STEP_ABS) {
                    INDEPENDENT
                    for (ptrdiff_t j = 0; j < width; j++) part[j] += NAME(sm_abs)(at[j]);
                } else if (product) {
                    INDEPENDENT
                    for (ptrdiff_t j = 0; j < width; j++) part[j] *= at[j];
                } else {
                    INDEPENDENT
                    for (ptrdiff_t j = 0; j < width; j++) part[j] += NAME(sm_exp_falling)(at[j] - shift[j]);
                }
            }
            for (ptrdiff_t j = 0; j < width; j++) total[j] = product ? total[j] * part[j] : total[j] + part[j];
        }
        REAL *y = c->y + outer * c->inner + from;
        for (ptrdiff_t j = 0; j < width; j++) y[j] = NAME(moment_end)(c->kind, total[j], c->free, shift[j]);
    }
}

/* Sixteen short rows of a logarithm at once (rows.h). */
VECTOR static void NAME(moment_short_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(moment) *c = context;
    NAME(side_rows) s;
    for (ptrdiff_t row = begin; row < end; row += NAME(SIDE)) {
        const ptrdiff_t count = end - row < NAME(SIDE) ? end - row : NAME(SIDE);
        NAME(side_by_side)(&s, c->x + row * c->n, count, c->n);
        for (int k = 0; k < NAME(SIDE); k++) s.sum[k] = NAME(sm_log)(s.sum[k]) + s.largest[k];
        for (ptrdiff_t k = 0; k < count; k++) c->y[row + k] = s.sum[k];
    }
}

/* Where the largest is infinite: it is the answer, unless there is a NaN. */
static void NAME(logs_at_infinity)(const NAME(moment) * c, const REAL *top, ptrdiff_t outer) {
    for (ptrdiff_t at = 0; at < outer * c->inner; at++) {
        if (top ? NAME(sm_abs)(top[at]) != (REAL)INFINITY : c->y[at] == c->y[at]) continue;
        const REAL *x = c->x + at / c->inner * c->n * c->inner + at % c->inner;
        REAL largest = -INFINITY;
        for (ptrdiff_t i = 0; i < c->n && largest == largest; i++)
            largest = x[i * c->inner] > largest || x[i * c->inner] != x[i * c->inner] ? x[i * c->inner] : largest;
        c->y[at] = largest;
    }
}

int NAME(moment_forward)(int kind, const REAL *x, REAL *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner, double free_) {
    const ptrdiff_t pieces = (n + PIECE - 1) / PIECE, numbers = outer * inner;
    const double work = (kind == MOMENT_LOGSUMEXP ? 8.0 : 2.0) * (double)(numbers * n);
    const int shifted = kind == MOMENT_VAR || kind == MOMENT_STD || kind == MOMENT_LOGSUMEXP;
    NAME(moment) c = {.x = x, .y = y, .n = n, .inner = inner, .pieces = pieces, .kind = kind, .step = step_of(kind), .free = free_};
    if (kind == MOMENT_LOGSUMEXP && inner == 1 && NAME(are_short)(outer, n)) {
        parallel_for(outer, work, NAME(moment_short_rows), &c);
        NAME(logs_at_infinity)(&c, NULL, outer);
        return 1;
    }
    REAL few[FEW], *shift = few;
    double parts[FEW];
    c.parts = parts;
    int done = 0;
    if (shifted && numbers > FEW) took(PATH_moment_shift_heap);
    if (inner == 1 && pieces > 1 && outer * pieces > FEW) took(PATH_moment_parts_heap);
    if (shifted && numbers > FEW && !(shift = malloc(sizeof(REAL) * (size_t)numbers))) return 0;
    if (inner == 1 && pieces > 1 && outer * pieces > FEW && !(c.parts = malloc(sizeof(double) * (size_t)(outer * pieces))))
        goto done;
    if (shifted) {
        if (!NAME(reduce)(kind == MOMENT_LOGSUMEXP ? REDUCE_MAX : REDUCE_SUM, x, shift, outer, n, inner)) goto done;
        if (kind != MOMENT_LOGSUMEXP)
            for (ptrdiff_t k = 0; k < numbers; k++) shift[k] /= (REAL)n;
        c.shift = shift;
    }
    if (inner > 1) {
        took(PATH_moment_columns);
        parallel_for(outer * ((inner + TILE - 1) / TILE), work, NAME(moment_columns), &c);
    } else {
        if (pieces > 1) took(PATH_moment_pieces);
        parallel_for(outer * pieces, work, NAME(moment_pieces), &c);
        for (ptrdiff_t row = 0; pieces > 1 && row < outer; row++) {
            double total = c.step == STEP_PRODUCT;
            for (ptrdiff_t k = 0; k < pieces; k++)
                total = c.step == STEP_PRODUCT ? total * c.parts[row * pieces + k] : total + c.parts[row * pieces + k];
            y[row] = NAME(moment_end)(kind, total, free_, c.shift ? shift[row] : 0);
        }
    }
    if (kind == MOMENT_LOGSUMEXP) NAME(logs_at_infinity)(&c, shift, outer);
    done = 1;
done:
    if (c.parts != parts) free(c.parts);
    if (shift != few) free(shift);
    return done;
}

/* -- back ----------------------------------------------------------------------------------------------------------- */

typedef struct {
    const REAL *x, *shift, *scale; /* shift, scale (outer, inner) */
    REAL *gx;
    ptrdiff_t n, inner, pieces;
    int kind;
} NAME(moment_back);

/* gx[j] of x[j], with shift[j * each] and scale[j * each]. */
INLINE void NAME(back_line)(int kind, const REAL *x, const REAL *shift, const REAL *scale, const int each, REAL *gx, ptrdiff_t n) {
    if (kind == MOMENT_VAR) {
        INDEPENDENT
        for (ptrdiff_t j = 0; j < n; j++) gx[j] = (x[j] - shift[j * each]) * scale[j * each];
    } else if (kind == MOMENT_NORM) {
        INDEPENDENT
        for (ptrdiff_t j = 0; j < n; j++) gx[j] = x[j] * scale[j * each];
    } else if (kind == MOMENT_ABS) {
        INDEPENDENT
        for (ptrdiff_t j = 0; j < n; j++) gx[j] = ((REAL)(x[j] > 0) - (REAL)(x[j] < 0)) * scale[j * each]; /* of NaN 0 */
    } else if (kind == MOMENT_PROD) {
        INDEPENDENT
        for (ptrdiff_t j = 0; j < n; j++) gx[j] = scale[j * each] / x[j];
    } else {
        INDEPENDENT
        for (ptrdiff_t j = 0; j < n; j++) gx[j] = NAME(sm_exp_falling)(x[j] - shift[j * each]) * scale[j * each];
    }
}

VECTOR static void NAME(back_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(moment_back) *c = context;
    const int kind = c->kind == MOMENT_STD ? MOMENT_VAR : c->kind;
    for (ptrdiff_t item = begin; item < end; item++) {
        if (c->inner == 1) {
            const ptrdiff_t row = item / c->pieces, from = item % c->pieces * PIECE, at = row * c->n + from;
            NAME(back_line)(kind, c->x + at, c->shift + row, c->scale + row, 0, c->gx + at, c->n - from < PIECE ? c->n - from : PIECE);
        } else {
            const ptrdiff_t at = item * c->inner, of = item / c->n * c->inner;
            NAME(back_line)(kind, c->x + at, c->shift + of, c->scale + of, 1, c->gx + at, c->inner);
        }
    }
}

int NAME(moment_backward)(int kind, const REAL *g, const REAL *x, const REAL *y, REAL *gx, ptrdiff_t outer, ptrdiff_t n,
                          ptrdiff_t inner, double free_) {
    const ptrdiff_t numbers = outer * inner;
    REAL few[2 * FEW], *shift = few;
    if (numbers > FEW) took(PATH_moment_back_heap);
    if (numbers > FEW && !(shift = malloc(2 * sizeof(REAL) * (size_t)numbers))) return 0;
    REAL *scale = shift + numbers;
    int done = 1;
    if (kind == MOMENT_VAR || kind == MOMENT_STD) {
        done = NAME(reduce)(REDUCE_SUM, x, shift, outer, n, inner);
        const REAL slope = free_ > 0 ? (REAL)(2 / free_) : (REAL)INFINITY;
        for (ptrdiff_t k = 0; done && k < numbers; k++) {
            shift[k] /= (REAL)n;
            /* where all are equal a deviation's slope is taken as 0 */
            scale[k] = (kind == MOMENT_VAR ? g[k] : y[k] == 0 ? 0 : g[k] / (2 * y[k])) * slope;
        }
    } else {
        for (ptrdiff_t k = 0; k < numbers; k++) {
            shift[k] = kind == MOMENT_LOGSUMEXP && y[k] != -(REAL)INFINITY ? y[k] : 0;
            scale[k] = kind == MOMENT_NORM ? (y[k] == 0 ? 0 : g[k] / y[k]) : kind == MOMENT_PROD ? g[k] * y[k] : g[k];
        }
    }
    const ptrdiff_t pieces = (n + PIECE - 1) / PIECE;
    NAME(moment_back) c = {x, shift, scale, gx, n, inner, pieces, kind};
    if (done)
        parallel_for(inner == 1 ? outer * pieces : outer * n, (kind == MOMENT_LOGSUMEXP ? 8.0 : 2.0) * (double)(numbers * n),
                     NAME(back_rows), &c);
    if (shift != few) free(shift);
    return done;
}


int NAME(has_no_zero)(const REAL *x, ptrdiff_t n) {
    int zero = 0;
    for (ptrdiff_t i = 0; i < n; i++) zero |= x[i] == 0;
    return !zero;
}
#endif
