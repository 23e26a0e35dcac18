/* Items and rows by index and by mask (gather.c). */
#ifndef GRADLAB_GATHER_H
#define GRADLAB_GATHER_H

#include <stddef.h>
#include <stdint.h>

enum { PICK_AXES = 16 };

/* to[k] = item where truths[k], for k < n; items of 4 or 8 bytes. */
void mask_fill(char *to, const char *truths, ptrdiff_t n, const char *item, ptrdiff_t size);

/* Whether all of n indices lie in low..high-1. */
int indices_within(const int64_t *index, ptrdiff_t n, int64_t low, int64_t high);

/* y (outer, count, inner bytes) = table (outer, size, inner bytes)[:, index]; below 0 an index counts from the end. */
void pick_rows(const char *table, const int64_t *index, char *y, ptrdiff_t outer, ptrdiff_t count, ptrdiff_t size,
               ptrdiff_t inner);

/* An index an item: place (i, j, k) of the index, for dim 1, means x[i, index[i, j, k], k]. */
typedef struct {
    int ndim, dim;
    ptrdiff_t shape[PICK_AXES]; /* of the index */
    ptrdiff_t step[PICK_AXES];  /* of x, in items; x is in row-major order */
} pick_shape;

/* y (as the index) = x at it; x at it = y, or 0 where y is NULL; of equal places the last stays. `item` bytes an item:
   1, 4 or 8. */
void pick_along(const pick_shape *s, const int64_t *index, const char *x, char *y, ptrdiff_t item);
void put_along(const pick_shape *s, const int64_t *index, char *x, const char *y, ptrdiff_t item);

/* y (rows, columns) of each plane = x on and below the diagonal (above it where `upper`), else 0. */
void triangle(const char *x, char *y, ptrdiff_t planes, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t diagonal, int upper,
              ptrdiff_t item);

#define DECLARE_PICK(T, S)                                                                                              \
    /* y (outer, size, inner) at index += g (outer, count, inner), equal places in their order */                       \
    void add_rows_##S(const T *g, const int64_t *index, T *y, ptrdiff_t outer, ptrdiff_t count, ptrdiff_t size,         \
                      ptrdiff_t inner);                                                                                 \
    /* x at the index += y, equal places in their order */                                                              \
    void add_along_##S(const pick_shape *s, const int64_t *index, T *x, const T *y);                                    \
    /* the same by "amax", "amin", "prod" or "sum"; 0 for another word */                                               \
    int reduce_along_##S(const pick_shape *s, const int64_t *index, T *x, const T *y, const char *how);
DECLARE_PICK(float, f32)
DECLARE_PICK(double, f64)

#endif
