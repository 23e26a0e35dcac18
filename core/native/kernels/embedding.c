/* Rows of a table by index, and the gradient of the table.

   The gradient is cut by columns, never by rows: every thread adds the rows in their order, so equal
   indices always add up in the same order, without locks. */
#ifndef REAL
#include "runtime/paths.h"
#include "kernels/real.h"

typedef struct {
    const char *table;
    const int64_t *index;
    char *y;
    ptrdiff_t size;
} lookup;

static void lookup_rows(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const lookup *c = context;
    for (ptrdiff_t row = begin; row < end; row++)
        memcpy(c->y + row * c->size, c->table + c->index[row] * c->size, (size_t)c->size);
}

void embedding_forward(const char *table, const int64_t *index, char *y, ptrdiff_t rows, ptrdiff_t size) {
    lookup context = {table, index, y, size};
    parallel_for(rows, 0.5 * (double)(rows * size), lookup_rows, &context);
}

ptrdiff_t index_check(const int64_t *index, ptrdiff_t n, int64_t count) {
    for (ptrdiff_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= count) return i;
    return -1;
}

enum { SPAN = 32 };

#define KERNEL_FILE "embedding.c"
#include "kernels/each_real.h"
#else

typedef struct {
    const REAL *g;
    const int64_t *index;
    REAL *gtable;
    ptrdiff_t rows, count, n;
    int64_t padding;
} NAME(scatter);

/* Items are groups of SPAN columns: two threads do not write to one cache line. */
VECTOR static void NAME(scatter_columns)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(scatter) *c = context;
    const ptrdiff_t first = begin * SPAN, last = end * SPAN < c->n ? end * SPAN : c->n;
    for (ptrdiff_t k = 0; k < c->count; k++)
        memset(c->gtable + k * c->n + first, 0, sizeof(REAL) * (size_t)(last - first));
    for (ptrdiff_t row = 0; row < c->rows; row++) {
        if (c->index[row] == c->padding) continue;
        const REAL *g = c->g + row * c->n;
        REAL *to = c->gtable + c->index[row] * c->n;
        INDEPENDENT
        for (ptrdiff_t i = first; i < last; i++) to[i] += g[i];
    }
}

void NAME(embedding_backward)(const REAL *g, const int64_t *index, REAL *gtable, ptrdiff_t rows, ptrdiff_t count,
                              ptrdiff_t n, int64_t padding) {
    NAME(scatter) context = {g, index, gtable, rows, count, n, padding};
    if (n > SPAN) took(PATH_embedding_spans);
    parallel_for((n + SPAN - 1) / SPAN, (double)n * (double)(4 * rows + count), NAME(scatter_columns), &context);
}

#endif
