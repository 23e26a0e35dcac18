/* Items picked, put and moved by index: what gather.h does to rows, for whole arrays in row-major order (pick.c). */
#ifndef GRADLAB_PICK_H
#define GRADLAB_PICK_H

#include "kernels/gather.h"
#include "kernels/strided.h"

enum { INDICES = 8 /* index arrays in one bracket */ };

/* How index arrays of one shape stand in x's: after `lead` axes, for `count` axes. Then the shape of x[index]. */
typedef struct {
    int ndim, strides_there, lead, count;
    ptrdiff_t shape[3 * PICK_AXES], strides[1];
    ptrdiff_t outer, many, size, inner; /* size: of the indexed axes together; inner: items */
    ptrdiff_t sizes[INDICES];           /* of the indexed axes */
    const int64_t *index[INDICES];
} index_plan;

/* 0 where one is out of range, or they do not stand side by side; where[k]: whether axis k is indexed. */
int index_planned(index_plan *plan, const ptrdiff_t *shape, int ndim, const char *where, int where_count,
                  const int64_t *const *index, const ptrdiff_t *index_shape, int index_ndim);

/* y = x[index], of items of so many bytes; `own` has room for an index, or is NULL where there is one array. */
void index_pick(const index_plan *plan, const char *x, char *y, int64_t *own, ptrdiff_t item);

/* y = x, then y[index] = values, or one value, or += values. Of equal places the last stays. */
enum { PUTS, PUTS_ONE, ADDS_FLOAT, ADDS_DOUBLE };
void index_put(const index_plan *plan, int kind, const char *x, char *y, ptrdiff_t size, const char *values, int64_t *own,
               ptrdiff_t item);

/* gx, if any: g, then 0 at the index; gv, if any: g[index] */
void index_put_back(const index_plan *plan, const char *g, char *gx, ptrdiff_t size, char *gv, int64_t *own, ptrdiff_t item);

/* How an index of gather and its like stands to an array of that shape; 0 where it does not plainly fit. */
int along_planned(pick_shape *s, const ptrdiff_t *shape, int ndim, const strided *index, ptrdiff_t dim);

/* y = x (size items), then y at the index = src, or 0 where src is NULL */
void put_copied(const pick_shape *s, const int64_t *index, const char *x, char *y, ptrdiff_t size, const char *src,
                ptrdiff_t item);

/* What comes back from scatter: gx, if any, as put_copied with nothing; gs, if any, g at the index. */
void put_back(const pick_shape *s, const int64_t *index, const char *g, char *gx, ptrdiff_t size, char *gs, ptrdiff_t item);

#define DECLARE_PICKED(T, S)                                                                                         \
    /* gx (outer, size, inner) = 0, then gx[index] += g */                                                           \
    void index_back_##S(const index_plan *plan, const T *g, T *gx, int64_t *own);                                    \
    /* y = x, or 0 where x is NULL, then y at the index += src */                                                    \
    void add_copied_##S(const pick_shape *s, const int64_t *index, const T *x, T *y, ptrdiff_t size, const T *src);     \
    /* y = x with src reduced into it; 0 for a word that is no way to reduce */                                         \
    int reduce_copied_##S(const pick_shape *s, const int64_t *index, const T *x, T *y, ptrdiff_t size, const T *src,    \
                          const char *how);
DECLARE_PICKED(float, f32)
DECLARE_PICKED(double, f64)

/* -- copies in another order ---------------------------------------------------------------------------------------- */

/* The items of x from behind along some axes: where they begin, and the steps. */
typedef struct {
    const char *start;
    ptrdiff_t steps[PICK_AXES];
} flip_plan;
int flip_planned(flip_plan *plan, const strided *x, const ptrdiff_t *axes, int count);

/* y (outer, size bytes) = x, each row shifted by so many bytes, from the end to the front */
void roll_rows(const char *x, char *y, ptrdiff_t outer, ptrdiff_t size, ptrdiff_t shift);

/* x with so many items more, or fewer, before and behind each axis. */
typedef struct {
    int ndim, strides_there, whole;
    ptrdiff_t shape[PICK_AXES], strides[1], box[PICK_AXES], from, to;
} pad_plan;
int pad_planned(pad_plan *plan, const strided *x, const ptrdiff_t *border, int pairs, int sign);
void pad_copied(const pad_plan *plan, const strided *x, char *y, const char *value); /* value: NULL for zeros */

#endif
