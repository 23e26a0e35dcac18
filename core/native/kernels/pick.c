/* Items picked, put and moved by index, for whole arrays in row-major order. */
#include "kernels/pick.h"

#include <string.h>

#include "kernels/copy.h"

enum { FEW_ROWS = 16 };
static const ptrdiff_t MOST = (ptrdiff_t)1 << 40; /* so that sums of sizes fit */

/* -- by index arrays ------------------------------------------------------------------------------------------------ */

int index_planned(index_plan *p, const ptrdiff_t *shape, int ndim, const char *where, int where_count,
                  const int64_t *const *index, const ptrdiff_t *index_shape, int index_ndim) {
    p->lead = p->count = p->ndim = p->strides_there = 0;
    if (where_count > ndim) return 0;
    for (int k = 0; k < where_count; k++) {
        if (!where[k] && p->count) return 0;
        if (where[k]) p->count++;
        else p->lead++;
    }
    if (!p->count || p->count > INDICES || ndim - p->count + index_ndim > PICK_AXES) return 0;
    p->many = sizes_multiplied(index_shape, index_ndim);
    for (int k = 0; k < INDICES; k++) {
        if ((k < p->count) != (index[k] != NULL)) return 0;
        if (k >= p->count) continue;
        p->index[k] = index[k];
        p->sizes[k] = shape[p->lead + k];
        if (!indices_within(index[k], p->many, -p->sizes[k], p->sizes[k])) return 0;
    }
    p->outer = sizes_multiplied(shape, p->lead);
    p->size = sizes_multiplied(shape + p->lead, p->count);
    p->inner = sizes_multiplied(shape + p->lead + p->count, ndim - p->lead - p->count);
    for (int k = 0; k < p->lead; k++) p->shape[p->ndim++] = shape[k];
    for (int k = 0; k < index_ndim; k++) p->shape[p->ndim++] = index_shape[k];
    for (int k = p->lead + p->count; k < ndim; k++) p->shape[p->ndim++] = shape[k];
    return 1;
}

/* One index into all indexed axes at once. */
static const int64_t *joined(const index_plan *p, int64_t *own) {
    if (p->count == 1) return p->index[0];
    for (ptrdiff_t i = 0; i < p->many; i++) {
        ptrdiff_t at = 0;
        for (int k = 0; k < p->count; k++) {
            const int64_t j = p->index[k][i], n = p->sizes[k];
            at = at * n + j + (j < 0 ? n : 0);
        }
        own[i] = at;
    }
    return own;
}

static ptrdiff_t row_at(const index_plan *p, const int64_t *index, ptrdiff_t k) {
    const int64_t j = index[k % p->many];
    return k / p->many * p->size + j + (j < 0 ? p->size : 0);
}

void index_pick(const index_plan *p, const char *x, char *y, int64_t *own, ptrdiff_t item) {
    const int64_t *index = joined(p, own);
    const ptrdiff_t rows = p->outer * p->many, inner = p->inner * item;
    if (rows > FEW_ROWS) return pick_rows(x, index, y, p->outer, p->many, p->size, inner);
    for (ptrdiff_t k = 0; k < rows; k++) memcpy(y + k * inner, x + row_at(p, index, k) * inner, (size_t)inner);
}

/* y at the index = values, or 0 */
static void put_rows(const index_plan *p, const int64_t *index, char *y, const char *values, ptrdiff_t inner) {
    for (ptrdiff_t k = 0; k < p->outer * p->many; k++) {
        char *to = y + row_at(p, index, k) * inner;
        if (values) memcpy(to, values + k * inner, (size_t)inner);
        else memset(to, 0, (size_t)inner);
    }
}

/* y at the index = one item */
static void put_item(const index_plan *p, const int64_t *index, char *y, const char *one, ptrdiff_t item) {
    for (ptrdiff_t k = 0; k < p->outer * p->many; k++)
        fill_axes(y + row_at(p, index, k) * p->inner * item, 1, &p->inner, &item, one, item);
}

static void copied(const char *x, char *y, ptrdiff_t size, ptrdiff_t item) {
    if (size * item < SMALL_BYTES) memcpy(y, x, (size_t)(size * item));
    else copy_array(y, x, 1, &size, &item, item);
}

void index_put(const index_plan *p, int kind, const char *x, char *y, ptrdiff_t size, const char *values, int64_t *own,
               ptrdiff_t item) {
    copied(x, y, size, item);
    if (p->outer * p->many * p->inner == 0) return;
    const int64_t *index = joined(p, own);
    if (kind == ADDS_FLOAT) add_rows_f32((const float *)values, index, (float *)y, p->outer, p->many, p->size, p->inner);
    else if (kind == ADDS_DOUBLE) add_rows_f64((const double *)values, index, (double *)y, p->outer, p->many, p->size, p->inner);
    else if (kind == PUTS_ONE) put_item(p, index, y, values, item);
    else put_rows(p, index, y, values, p->inner * item);
}

void index_put_back(const index_plan *p, const char *g, char *gx, ptrdiff_t size, char *gv, int64_t *own, ptrdiff_t item) {
    const int64_t *index = joined(p, own);
    const ptrdiff_t inner = p->inner * item;
    if (gx) {
        copied(g, gx, size, item);
        if (inner) put_rows(p, index, gx, NULL, inner);
    }
    if (gv && p->outer * p->many * inner > 0) pick_rows(g, index, gv, p->outer, p->many, p->size, inner);
}

/* -- an index an item ----------------------------------------------------------------------------------------------- */

int along_planned(pick_shape *s, const ptrdiff_t *shape, int ndim, const strided *index, ptrdiff_t dim) {
    ptrdiff_t step = 1;
    if (dim < 0 || dim >= ndim || ndim > PICK_AXES || index->ndim != ndim) return 0;
    s->ndim = ndim;
    s->dim = (int)dim;
    for (int k = ndim; k-- > 0; step *= shape[k]) {
        s->shape[k] = index->shape[k];
        s->step[k] = step;
        if (k != dim && s->shape[k] > shape[k]) return 0;
    }
    return indices_within((const int64_t *)index->data, sizes_multiplied(index->shape, ndim), 0, shape[dim]);
}

static int there(const pick_shape *s) { return sizes_multiplied(s->shape, s->ndim) > 0; }

void put_copied(const pick_shape *s, const int64_t *index, const char *x, char *y, ptrdiff_t size, const char *src,
                ptrdiff_t item) {
    copied(x, y, size, item);
    if (there(s)) put_along(s, index, y, src, item);
}

void put_back(const pick_shape *s, const int64_t *index, const char *g, char *gx, ptrdiff_t size, char *gs, ptrdiff_t item) {
    if (gx) put_copied(s, index, g, gx, size, NULL, item);
    if (gs && there(s)) pick_along(s, index, g, gs, item);
}

#define PICKED(T, S)                                                                                                    \
    void index_back_##S(const index_plan *p, const T *g, T *gx, int64_t *own) {                                         \
        memset(gx, 0, sizeof(T) * (size_t)(p->outer * p->size * p->inner));                                             \
        if (p->outer * p->many * p->inner > 0)                                                                          \
            add_rows_##S(g, joined(p, own), gx, p->outer, p->many, p->size, p->inner);                                  \
    }                                                                                                                   \
    void add_copied_##S(const pick_shape *s, const int64_t *index, const T *x, T *y, ptrdiff_t size, const T *src) {    \
        if (x) copied((const char *)x, (char *)y, size, sizeof(T));                                                     \
        else memset(y, 0, sizeof(T) * (size_t)size);                                                                    \
        if (there(s)) add_along_##S(s, index, y, src);                                                                  \
    }                                                                                                                   \
    int reduce_copied_##S(const pick_shape *s, const int64_t *index, const T *x, T *y, ptrdiff_t size, const T *src,    \
                          const char *how) {                                                                            \
        copied((const char *)x, (char *)y, size, sizeof(T));                                                            \
        return there(s) ? reduce_along_##S(s, index, y, src, how) : 1;                                                  \
    }
PICKED(float, f32)
PICKED(double, f64)

/* -- copies in another order ---------------------------------------------------------------------------------------- */

int flip_planned(flip_plan *p, const strided *x, const ptrdiff_t *axes, int count) {
    int turned[PICK_AXES] = {0};
    if (x->ndim > PICK_AXES) return 0;
    for (int k = 0; k < count; k++) {
        if (axes[k] < 0 || axes[k] >= x->ndim || turned[axes[k]]) return 0;
        turned[axes[k]] = 1;
    }
    p->start = x->data;
    for (int k = 0; k < x->ndim; k++) {
        p->steps[k] = turned[k] ? -x->strides[k] : x->strides[k];
        if (turned[k]) p->start += (x->shape[k] - 1) * x->strides[k];
    }
    return 1;
}

void roll_rows(const char *x, char *y, ptrdiff_t outer, ptrdiff_t size, ptrdiff_t shift) {
    shift %= size;
    if (shift < 0) shift += size;
    for (ptrdiff_t k = 0; k < outer; k++, x += size, y += size) {
        memcpy(y + shift, x, (size_t)(size - shift));
        memcpy(y, x + size - shift, (size_t)shift);
    }
}

int pad_planned(pad_plan *p, const strided *x, const ptrdiff_t *border, int pairs, int sign) {
    if (pairs != x->ndim || x->ndim > PICK_AXES) return 0;
    p->ndim = x->ndim;
    p->strides_there = p->whole = 0;
    p->from = p->to = 0;
    ptrdiff_t at[PICK_AXES], step = x->item;
    for (int k = 0; k < x->ndim; k++) {
        for (int i = 0; i < 2; i++)
            if (border[2 * k + i] > MOST || border[2 * k + i] < -MOST) return 0;
        const ptrdiff_t before = sign * border[2 * k], behind = sign * border[2 * k + 1], n = x->shape[k];
        p->shape[k] = n + before + behind;
        p->box[k] = n - (before < 0 ? -before : 0) - (behind < 0 ? -behind : 0);
        if (p->shape[k] < 0 || p->box[k] < 0) return 0;
        p->from += (before < 0 ? -before : 0) * x->strides[k];
        at[k] = before > 0 ? before : 0;
        p->whole |= p->box[k] != p->shape[k];
    }
    for (int k = x->ndim; k-- > 0; step *= p->shape[k]) p->to += at[k] * step;
    return 1;
}

static void copy_box(char *to, const ptrdiff_t *to_step, const char *from, const ptrdiff_t *from_step, const ptrdiff_t *shape,
                     int ndim, ptrdiff_t item) {
    if (!ndim) return (void)memcpy(to, from, (size_t)item);
    if (ndim == 1) return (void)memcpy(to, from, (size_t)(shape[0] * item)); /* both lie in rows */
    for (ptrdiff_t k = 0; k < shape[0]; k++)
        copy_box(to + k * to_step[0], to_step + 1, from + k * from_step[0], from_step + 1, shape + 1, ndim - 1, item);
}

void pad_copied(const pad_plan *p, const strided *x, char *y, const char *value) {
    ptrdiff_t steps[PICK_AXES], step = x->item;
    for (int k = p->ndim; k-- > 0; step *= p->shape[k]) steps[k] = step;
    const ptrdiff_t all = sizes_multiplied(p->shape, p->ndim);
    if (p->whole && value) fill_items(y, all, value, x->item);
    else if (p->whole) memset(y, 0, (size_t)(all * x->item));
    if (sizes_multiplied(p->box, p->ndim)) copy_box(y + p->to, steps, x->data + p->from, x->strides, p->box, p->ndim, x->item);
}
