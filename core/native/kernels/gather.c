/* Items and rows by index and by mask, running sums, triangles. Where items meet in one place they are added in the order
   of the index, by one thread: the result is the same for any number of them. */
#ifndef REAL
#include "kernels/gather.h"
#include "runtime/paths.h"

#include <string.h>

#include "kernels/kernel.h"
#include "kernels/simd_bits.h"
#include "runtime/parallel.h"

typedef uint8_t item_1 __attribute__((may_alias));
typedef uint32_t item_4 __attribute__((may_alias));
typedef uint64_t item_8 __attribute__((may_alias));

/* -- masks ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    char *to;
    const char *truths;
    char item[8];
    ptrdiff_t size;
} masked;

/* Every item is written, itself or the new one: without a branch the loop is one of vectors. The pointers are read once,
   since for all that C knows they might be what is written. */
VECTOR static void fill_masked(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const masked *c = context;
    const char *truths = c->truths;
#define ITEMS(TYPE)                                                                  \
    do {                                                                             \
        TYPE item, *to = (TYPE *)c->to;                                              \
        memcpy(&item, c->item, sizeof item);                                         \
        INDEPENDENT                                                                  \
        for (ptrdiff_t k = begin; k < end; k++) to[k] = truths[k] ? item : to[k];    \
    } while (0)
    if (c->size == 4) ITEMS(item_4);
    else ITEMS(item_8);
#undef ITEMS
}

void mask_fill(char *to, const char *truths, ptrdiff_t n, const char *item, ptrdiff_t size) {
    masked context = {.to = to, .truths = truths, .size = size};
    memcpy(context.item, item, (size_t)size);
    parallel_for(n, 2.0 * (double)n, fill_masked, &context);
}

/* -- indices -------------------------------------------------------------------------------------------------------- */

VECTOR int indices_within(const int64_t *index, ptrdiff_t n, int64_t low, int64_t high) {
    uint64_t outside = 0; /* one subtraction and one comparison tell both ends */
    const uint64_t span = (uint64_t)high - (uint64_t)low;
    for (ptrdiff_t k = 0; k < n; k++) outside |= (uint64_t)index[k] - (uint64_t)low >= span;
    return !outside;
}

/* Counted from the front. */
INLINE ptrdiff_t placed(int64_t index, ptrdiff_t size) { return (ptrdiff_t)(index + (index < 0 ? size : 0)); }

typedef struct {
    const char *table;
    const int64_t *index;
    char *y;
    ptrdiff_t count, size, inner;
} picked;

enum { FEW_PLACES = 1024 };

static void pick_some(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const picked *c = context;
    const ptrdiff_t inner = c->inner, size = c->size, count = c->count; /* what is written might be them, for all C knows */
    const ptrdiff_t plane = begin / count;
    const char *table = c->table + plane * size * inner;
    const int64_t *const all = c->index;
    char *const y = c->y;
    ptrdiff_t row = begin, first = plane * count; /* of the plane */
    int64_t own[FEW_PLACES];
    const int again = count <= FEW_PLACES && end - begin > count && (inner == 4 || inner == 8);
#define ROWS(COPY, PLACED, FROM)                                                               \
    for (; row < end; first += count, table += size * inner) {                                 \
        const ptrdiff_t past = first + count < end ? first + count : end;                      \
        const int64_t *const index = (FROM) - first;                                           \
        for (; row < past; row++) COPY(y + row * inner, table + PLACED(index[row], size) * inner); \
    }
#define COPY_4(to, from) memcpy(to, from, 4)
#define COPY_8(to, from) memcpy(to, from, 8)
#define COPY_ALL(to, from) memcpy(to, from, (size_t)inner)
#define THERE(index, size) (index)
    for (ptrdiff_t k = 0; again && k < count; k++) own[k] = placed(all[k], size); /* once for all planes */
    if (again && inner == 4) ROWS(COPY_4, THERE, own)
    else if (again) ROWS(COPY_8, THERE, own)
    else if (inner == 4) ROWS(COPY_4, placed, all)
    else if (inner == 8) ROWS(COPY_8, placed, all)
    else ROWS(COPY_ALL, placed, all)
#undef ROWS
}

void pick_rows(const char *table, const int64_t *index, char *y, ptrdiff_t outer, ptrdiff_t count, ptrdiff_t size,
               ptrdiff_t inner) {
    picked context = {table, index, y, count, size, inner};
    parallel_for(outer * count, (double)(outer * count) * (0.5 * (double)inner + 16), pick_some, &context);
}

/* -- an index an item ----------------------------------------------------------------------------------------------- */

typedef struct {
    const pick_shape *s;
    const int64_t *index;
    char *x, *y;
    ptrdiff_t item, rows; /* bytes; rows of the index that one piece of work has */
} along;

/* Where a row of the index (all axes but the last) lies in x, but for what the index itself says. */
static ptrdiff_t row_in_x(const pick_shape *s, ptrdiff_t row) {
    ptrdiff_t at = 0;
    for (int axis = s->ndim - 2; axis >= 0; axis--) {
        if (axis != s->dim) at += row % s->shape[axis] * s->step[axis];
        row /= s->shape[axis];
    }
    return at;
}

/* BODY(x, y, at, k): of a row of the index, items begin at x and y. Along the last axis a row is its own table. */
#define EACH_ROW(TYPE, BODY)                                                                      \
    const pick_shape *const s = c->s;                                                             \
    const ptrdiff_t n = s->shape[s->ndim - 1], step = s->step[s->dim], last = end * c->rows;      \
    const int64_t *const all = c->index;                                                          \
    char *const x_ = c->x, *const y_ = c->y;                                                      \
    for (ptrdiff_t row = begin * c->rows; row < last; row++) {                                    \
        const int64_t *const index = all + row * n;                                               \
        TYPE *const x = (TYPE *)x_ + row_in_x(s, row), *const y = (TYPE *)y_ + (y_ ? row * n : 0); \
        (void)y;                                                                                  \
        if (s->dim == s->ndim - 1)                                                                \
            for (ptrdiff_t k = 0; k < n; k++) { BODY(x, y, (ptrdiff_t)index[k], k); }             \
        else                                                                                      \
            for (ptrdiff_t k = 0; k < n; k++) { BODY(x, y, (ptrdiff_t)index[k] * step + k, k); }  \
    }
#define EACH_ITEM(BODY)                            \
    if (c->item == 4) BODY(item_4)                 \
    else if (c->item == 8) BODY(item_8)            \
    else BODY(item_1)

static void pick_items(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const along *c = context;
#define PICKED(x, y, at, k) y[k] = x[at]
#define PICK(TYPE) { EACH_ROW(TYPE, PICKED) }
    EACH_ITEM(PICK)
}

static void put_items(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const along *c = context;
#define WRITTEN(x, y, at, k) x[at] = y[k]
#define EMPTIED(x, y, at, k) x[at] = 0
#define PUT(TYPE) { EACH_ROW(TYPE, WRITTEN) }
#define EMPTY(TYPE) { EACH_ROW(TYPE, EMPTIED) }
    if (c->y) {
        EACH_ITEM(PUT)
    } else {
        EACH_ITEM(EMPTY)
    }
}

static ptrdiff_t product(const ptrdiff_t *shape, int from, int to) {
    ptrdiff_t n = 1;
    for (int axis = from; axis < to; axis++) n *= shape[axis];
    return n;
}

/* Runs over the rows; those that may meet in one place of x, if any may, are one piece of work. */
static void run_along(along *c, parallel_body body, int meet) {
    const pick_shape *s = c->s;
    const ptrdiff_t rows = product(s->shape, 0, s->ndim - 1);
    const int together = meet && s->dim < s->ndim - 1;
    c->rows = together ? product(s->shape, s->dim, s->ndim - 1) : 1;
    if (!rows || !s->shape[s->ndim - 1]) return;
    parallel_for(rows / c->rows, 8.0 * (double)(rows * s->shape[s->ndim - 1]) + 16.0 * (double)rows, body, c);
}

void pick_along(const pick_shape *s, const int64_t *index, const char *x, char *y, ptrdiff_t item) {
    along context = {s, index, (char *)x, y, item, 1};
    run_along(&context, pick_items, 0);
}

void put_along(const pick_shape *s, const int64_t *index, char *x, const char *y, ptrdiff_t item) {
    along context = {s, index, x, (char *)y, item, 1};
    run_along(&context, put_items, 1);
}

/* -- triangles ------------------------------------------------------------------------------------------------------ */

typedef struct {
    const char *x;
    char *y;
    ptrdiff_t rows, columns, diagonal, item;
    int upper;
} corner;

static void triangle_rows(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const corner *c = context;
    const ptrdiff_t n = c->columns, item = c->item;
    for (ptrdiff_t row = begin; row < end; row++) {
        ptrdiff_t edge = row % c->rows + c->diagonal + !c->upper; /* the first column on the other side */
        edge = edge < 0 ? 0 : edge > n ? n : edge;
        const ptrdiff_t first = c->upper ? edge : 0, count = c->upper ? n - edge : edge;
        char *y = c->y + row * n * item;
        memset(y + (c->upper ? 0 : edge) * item, 0, (size_t)((n - count) * item));
        memcpy(y + first * item, c->x + (row * n + first) * item, (size_t)(count * item));
    }
}

void triangle(const char *x, char *y, ptrdiff_t planes, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t diagonal, int upper,
              ptrdiff_t item) {
    corner context = {x, y, rows, columns, diagonal, item, upper};
    parallel_for(planes * rows, 0.4 * (double)(planes * rows) * (double)(columns * item), triangle_rows, &context);
}

enum { SPAN = 32 };

#define KERNEL_FILE "gather.c"
#include "kernels/each_real.h"
#else

static void NAME(add_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const along *c = context;
#define ADDED(x, y, at, k) x[at] += y[k]
    EACH_ROW(REAL, ADDED)
#undef ADDED
}

void NAME(add_along)(const pick_shape *s, const int64_t *index, REAL *x, const REAL *y) {
    along context = {s, index, (char *)x, (char *)y, sizeof(REAL), 1};
    run_along(&context, NAME(add_items), 1);
}

/* As amax, amin and the product of all that meets in a place; NaN is greater and less than all. */
#define JOIN_greatest(x, y, at, k) NAME(greatest)(x + at, y[k])
#define JOIN_least(x, y, at, k) NAME(least)(x + at, y[k])
#define JOIN_multiplied(x, y, at, k) NAME(multiplied)(x + at, y[k])
#define MEETING(name, JOINED)                                                                            \
    INLINE void NAME(name)(REAL *a, REAL b) { *a = JOINED; }                                             \
    static void NAME(name##_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {                      \
        const along *c = context;                                                                        \
        EACH_ROW(REAL, JOIN_##name)                                                                      \
    }
MEETING(greatest, NAME(sm_maximum)(*a, b))
MEETING(least, NAME(sm_minimum)(*a, b))
MEETING(multiplied, *a * b)
#undef MEETING
#undef JOIN_greatest
#undef JOIN_least
#undef JOIN_multiplied

int NAME(reduce_along)(const pick_shape *s, const int64_t *index, REAL *x, const REAL *y, const char *how) {
    const parallel_body body = !strcmp(how, "amax")   ? NAME(greatest_items)
                               : !strcmp(how, "amin") ? NAME(least_items)
                               : !strcmp(how, "prod") ? NAME(multiplied_items)
                               : !strcmp(how, "sum")  ? NAME(add_items)
                                                      : NULL;
    along context = {s, index, (char *)x, (char *)y, sizeof(REAL), 1};
    if (body) run_along(&context, body, 1);
    return body != NULL;
}

typedef struct {
    const REAL *g;
    const int64_t *index;
    REAL *y;
    ptrdiff_t count, size, inner, spans;
} NAME(added);

/* Items are groups of SPAN columns of a plane: two threads do not write to one cache line. One thread's go together. */
VECTOR static void NAME(add_columns)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(added) *c = context;
    const ptrdiff_t n = c->inner, count = c->count, size = c->size, spans = c->spans;
    const int64_t *const index = c->index;
    for (ptrdiff_t item = begin, here; item < end; item += here) {
        const ptrdiff_t plane = item / spans, from = item % spans, first = from * SPAN;
        here = end - item < spans - from ? end - item : spans - from;
        const ptrdiff_t last = first + here * SPAN < n ? first + here * SPAN : n;
        const REAL *g = c->g + plane * count * n;
        REAL *const y = c->y + plane * size * n;
        if (n == 1) {
            for (ptrdiff_t k = 0; k < count; k++) y[placed(index[k], size)] += g[k];
            continue;
        }
        for (ptrdiff_t k = 0; k < count; k++, g += n) {
            REAL *const to = y + placed(index[k], size) * n;
            INDEPENDENT
            for (ptrdiff_t i = first; i < last; i++) to[i] += g[i];
        }
    }
}

void NAME(add_rows)(const REAL *g, const int64_t *index, REAL *y, ptrdiff_t outer, ptrdiff_t count, ptrdiff_t size,
                    ptrdiff_t inner) {
    if (inner > SPAN) took(PATH_gather_add_spans);
    NAME(added) context = {g, index, y, count, size, inner, (inner + SPAN - 1) / SPAN};
    parallel_for(outer * context.spans, 4.0 * (double)(outer * count) * (double)inner, NAME(add_columns), &context);
}

#endif
