/* Softmax and its logarithm over an axis, forward and backward.

   Forward: y = e^(x - max x) / sum; three passes over a row that stays in cache, one read and one write
   of memory. Backward: gx = y (g - sum(g y)); for the logarithm gx = g - e^y sum(g). Over an axis that is
   not the last, a strip of neighbouring columns is worked on, each in a lane of its own. */
#ifndef REAL
#include "kernels/real.h"

#define KERNEL_FILE "softmax.c"
#include "kernels/each_real.h"
#else
#include "kernels/lines.h"
#include "kernels/streaming_stores.h"
#include "kernels/rows.h"

typedef struct {
    const REAL *x, *y;
    REAL *out;
    ptrdiff_t n;
    int past; /* whether rows are made in a line and written by streaming stores */
} NAME(rows);

INLINE void NAME(row_done)(const NAME(rows) * c, ptrdiff_t row, const REAL *line) {
    if (c->past) NAME(line_to)(c->out + row * c->n, line, c->n);
}

VECTOR static void NAME(softmax_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    REAL in[NAME(PAD)], out[NAME(PAD)];
    _Alignas(64) REAL line[NAME(LINE)];
    for (ptrdiff_t row = begin; row < end; row++) {
        ptrdiff_t count;
        const REAL *x = NAME(pad_row)(c->x + row * c->n, c->n, in, &count);
        REAL *y = c->past ? line : c->out + row * c->n, *e = x == in ? out : y, sum = 0;
        const REAL largest = NAME(row_max)(x, count);
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = 0; i < count; i++) {
            e[i] = NAME(sm_exp_falling)(x[i] - largest);
            sum += e[i];
        }
        const REAL scale = 1 / sum;
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) y[i] = e[i] * scale;
        NAME(row_done)(c, row, line);
    }
    if (c->past) past_cache_done();
}

VECTOR static void NAME(softmax_short_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    const ptrdiff_t n = c->n;
    NAME(side_rows) s;
    for (ptrdiff_t row = begin; row < end; row += NAME(SIDE)) {
        const ptrdiff_t count = end - row < NAME(SIDE) ? end - row : NAME(SIDE);
        REAL *y = c->out + row * n;
        NAME(side_by_side)(&s, c->x + row * n, count, n);
        for (int k = 0; k < NAME(SIDE); k++) s.sum[k] = 1 / s.sum[k];
        for (ptrdiff_t i = 0; i < n; i++)
            for (int k = 0; k < NAME(SIDE); k++) s.e[i][k] *= s.sum[k];
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0; i < n; i++) y[k * n + i] = s.e[i][k];
    }
}

VECTOR static void NAME(log_softmax_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    REAL in[NAME(PAD)];
    _Alignas(64) REAL line[NAME(LINE)];
    for (ptrdiff_t row = begin; row < end; row++) {
        ptrdiff_t count;
        const REAL *x = NAME(pad_row)(c->x + row * c->n, c->n, in, &count);
        REAL *y = c->past ? line : c->out + row * c->n;
        const REAL largest = NAME(row_max)(x, count), log_sum = NAME(sm_log)(NAME(row_exp_sum)(x, largest, count));
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) y[i] = (x[i] - largest) - log_sum;
        NAME(row_done)(c, row, line);
    }
    if (c->past) past_cache_done();
}

VECTOR static void NAME(softmax_back_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    _Alignas(64) REAL line[NAME(LINE)];
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *g = c->x + row * c->n, *y = c->y + row * c->n;
        REAL *gx = c->past ? line : c->out + row * c->n;
        const REAL dot = NAME(dot_line)(g, y, c->n);
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) gx[i] = y[i] * (g[i] - dot);
        NAME(row_done)(c, row, line);
    }
    if (c->past) past_cache_done();
}

VECTOR static void NAME(log_softmax_back_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rows) *c = context;
    REAL in[NAME(PAD)];
    _Alignas(64) REAL line[NAME(LINE)];
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *g = c->x + row * c->n, *y = c->y + row * c->n;
        REAL *gx = c->past ? line : c->out + row * c->n;
        const REAL sum = NAME(sum_line)(g, c->n);
        ptrdiff_t count;
        y = NAME(pad_row)(y, c->n, in, &count);
        REAL *p = y == in ? in : gx;
        INDEPENDENT
        for (ptrdiff_t i = 0; i < count; i++) p[i] = NAME(sm_exp_falling)(y[i]);
        INDEPENDENT
        for (ptrdiff_t i = 0; i < c->n; i++) gx[i] = g[i] - p[i] * sum;
        NAME(row_done)(c, row, line);
    }
    if (c->past) past_cache_done();
}

/* -- columns: x[outer, n, inner] over n ------------------------------------------------------------------------------- */

enum { NAME(STRIP) = 128, NAME(RUN) = 64 }; /* columns at a time; items that are summed before the sum is added on */

typedef struct {
    const REAL *x, *y;
    REAL *out;
    ptrdiff_t n, inner, strips;
    int log;
} NAME(columns);

/* Adds up `item` of row i and column k, in runs, so that the error grows with a run's length and the runs' number. */
#define SUM_COLUMNS(item)                                                                  \
    for (ptrdiff_t first = 0; first < n; first += NAME(RUN)) {                             \
        const ptrdiff_t past = n - first < NAME(RUN) ? n : first + NAME(RUN);              \
        REAL part[NAME(STRIP)] = {0};                                                      \
        for (ptrdiff_t i = first; i < past; i++) {                                         \
            const ptrdiff_t at = i * inner;                                                \
            INDEPENDENT                                                                    \
            for (ptrdiff_t k = 0; k < width; k++) part[k] += item;                         \
        }                                                                                  \
        for (ptrdiff_t k = 0; k < width; k++) sum[k] += part[k];                           \
    }
#define EACH_COLUMN(statement)                                                             \
    for (ptrdiff_t i = 0; i < n; i++) {                                                    \
        const ptrdiff_t at = i * inner;                                                    \
        INDEPENDENT                                                                        \
        for (ptrdiff_t k = 0; k < width; k++) statement;                                   \
    }
#define STRIP_OF(c, unit)                                                                  \
    const ptrdiff_t n = (c)->n, inner = (c)->inner, from = (unit) % (c)->strips * NAME(STRIP); \
    const ptrdiff_t width = inner - from < NAME(STRIP) ? inner - from : NAME(STRIP);       \
    const ptrdiff_t start = (unit) / (c)->strips * n * inner + from;                       \
    REAL sum[NAME(STRIP)] = {0};

VECTOR static void NAME(softmax_strips)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(columns) *c = context;
    for (ptrdiff_t unit = begin; unit < end; unit++) {
        STRIP_OF(c, unit)
        const REAL *x = c->x + start;
        REAL *y = c->out + start, largest[NAME(STRIP)];
        for (ptrdiff_t k = 0; k < width; k++) largest[k] = -INFINITY;
        EACH_COLUMN(largest[k] = x[at + k] > largest[k] ? x[at + k] : largest[k])
        if (c->log) {
            SUM_COLUMNS(NAME(sm_exp_falling)(x[at + k] - largest[k]))
            for (ptrdiff_t k = 0; k < width; k++) sum[k] = NAME(sm_log)(sum[k]);
            EACH_COLUMN(y[at + k] = (x[at + k] - largest[k]) - sum[k])
        } else {
            EACH_COLUMN(y[at + k] = NAME(sm_exp_falling)(x[at + k] - largest[k]))
            SUM_COLUMNS(y[at + k])
            for (ptrdiff_t k = 0; k < width; k++) sum[k] = 1 / sum[k];
            EACH_COLUMN(y[at + k] *= sum[k])
        }
    }
}

VECTOR static void NAME(softmax_back_strips)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(columns) *c = context;
    for (ptrdiff_t unit = begin; unit < end; unit++) {
        STRIP_OF(c, unit)
        const REAL *g = c->x + start, *y = c->y + start;
        REAL *gx = c->out + start;
        if (c->log) {
            SUM_COLUMNS(g[at + k])
            EACH_COLUMN(gx[at + k] = g[at + k] - NAME(sm_exp_falling)(y[at + k]) * sum[k])
        } else {
            SUM_COLUMNS(g[at + k] * y[at + k])
            EACH_COLUMN(gx[at + k] = y[at + k] * (g[at + k] - sum[k]))
        }
    }
}

static void NAME(in_strips)(parallel_body body, const REAL *x, const REAL *y, REAL *out, ptrdiff_t outer, ptrdiff_t n,
                            ptrdiff_t inner, int log) {
    took(PATH_softmax_strips);
    const ptrdiff_t strips = (inner + NAME(STRIP) - 1) / NAME(STRIP);
    NAME(columns) context = {x, y, out, n, inner, strips, log};
    parallel_for(outer * strips, 8 * (double)(outer * n) * (double)inner, body, &context);
}

/* -- either ------------------------------------------------------------------------------------------------------------ */

#define FORWARD(NAME_, LOG, ROWS)                                                                                     \
    void NAME(NAME_)(const REAL *x, REAL *y, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t inner) {                          \
        if (inner != 1) return NAME(in_strips)(NAME(softmax_strips), x, NULL, y, rows, n, inner, LOG);                \
        NAME(rows) context = {x, NULL, y, n, NAME(goes_past)(rows, n)};                                               \
        parallel_for_as(choice_for(CHOOSE_SOFTMAX, sizeof(REAL), rows, n, 1, 1), rows, 8 * (double)(rows * n), ROWS,  \
                        &context);                                                                                    \
    }
FORWARD(softmax_forward, 0, NAME(are_short)(rows, n) ? NAME(softmax_short_rows) : NAME(softmax_rows))
FORWARD(log_softmax_forward, 1, NAME(log_softmax_rows))

#define BACKWARD(NAME_, LOG, ROWS, COST)                                                                              \
    void NAME(NAME_)(const REAL *g, const REAL *y, REAL *gx, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t inner) {          \
        if (inner != 1) return NAME(in_strips)(NAME(softmax_back_strips), g, y, gx, rows, n, inner, LOG);             \
        NAME(rows) context = {g, y, gx, n, gx != g && gx != y && NAME(goes_past)(rows, n)};                           \
        parallel_for_as(choice_for(CHOOSE_SOFTMAX_BACKWARD, sizeof(REAL), rows, n, 1, 1), rows,                       \
                        COST * (double)(rows * n), NAME(ROWS), &context);                                             \
    }
BACKWARD(softmax_backward, 0, softmax_back_rows, 4)
BACKWARD(log_softmax_backward, 1, log_softmax_back_rows, 8)

#undef SUM_COLUMNS
#undef EACH_COLUMN
#undef STRIP_OF
#undef FORWARD
#undef BACKWARD
#endif
