/* Reductions over any axes of an array without gaps, one group of axes that lie side by side after the other, and back. */
#include "kernels/axes.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/copy.h"
#include "kernels/kernel.h"
#include "kernels/kernels.h"

int memory_order(const strided *a, int *order) {
    const ptrdiff_t *shape = a->shape, *strides = a->strides;
    int at = 0;
    for (int axis = 0; axis < a->ndim; axis++) /* the stride of an axis of one item says nothing */
        if (shape[axis] == 1) order[at++] = axis;
    for (int axis = 0, first = at; axis < a->ndim; axis++) {
        if (shape[axis] == 1) continue;
        int to = at++;
        for (; to > first && strides[order[to - 1]] < strides[axis]; to--) order[to] = order[to - 1];
        order[to] = axis;
    }
    ptrdiff_t expected = a->item;
    for (int i = a->ndim - 1; i >= 0; i--) {
        if (shape[order[i]] == 1) continue;
        if (strides[order[i]] != expected) return 0;
        expected *= shape[order[i]];
    }
    return 1;
}

int are_neighbours(const ptrdiff_t *axes, int count) {
    ptrdiff_t least = count ? axes[0] : 0, greatest = least;
    for (int k = 1; k < count; k++) {
        least = axes[k] < least ? axes[k] : least;
        greatest = axes[k] > greatest ? axes[k] : greatest;
    }
    return greatest - least < (count ? count : 1);
}

/* Marks the axes, which may count from the end; 0 for one that is not there. */
static int mark(char *marks, int ndim, const ptrdiff_t *axes, int count) {
    memset(marks, 0, (size_t)ndim);
    for (int k = 0; k < count; k++) {
        const ptrdiff_t axis = axes[k] < 0 ? axes[k] + ndim : axes[k];
        if (axis < 0 || axis >= ndim) return 0;
        marks[axis] = 1;
    }
    return 1;
}

int reduce_planned(reduce_plan *plan, const strided *x, const ptrdiff_t *axes, int count, int keepdim) {
    char reduced[AXES];
    int order[AXES], place[AXES], inner = x->ndim, plain = 1;
    if (!mark(reduced, x->ndim, axes, count)) return 0;
    memory_order(x, order);
    plan->ndim = plan->count = 0;
    plan->reduced = 1;
    for (int i = 0; i < x->ndim; i++) {
        const ptrdiff_t size = x->shape[order[i]];
        const int gone = reduced[order[i]];
        if (gone) plan->reduced *= size;
        if (size == 1) continue;
        if (plan->count && plan->groups[plan->count - 1].reduced == gone) {
            plan->groups[plan->count - 1].size *= size;
        } else {
            plan->groups[plan->count].size = size;
            plan->groups[plan->count++].reduced = gone;
        }
    }
    for (int axis = 0; axis < x->ndim; axis++) {
        if (reduced[axis] && !keepdim) continue;
        place[axis] = plan->ndim;
        plan->shape[plan->ndim++] = reduced[axis] ? 1 : x->shape[axis];
    }
    ptrdiff_t stride = x->item;
    for (int i = x->ndim - 1; i >= 0; i--) {
        const int axis = order[i];
        if (reduced[axis] && !keepdim) continue;
        const ptrdiff_t size = plan->shape[place[axis]];
        plan->strides[place[axis]] = stride;
        stride *= size > 0 ? size : 1;
        if (x->shape[axis] == 1 || reduced[axis]) continue;
        plain &= axis < inner;
        inner = axis;
    }
    plan->strides_there = !plain;
    return 1;
}

/* Reduces the innermost of the marked groups, then the next, until none is left. */
#define REDUCE_AXES(T, S)                                                                                     \
    int reduce_axes_##S(int kind, int mean, const reduce_plan *plan, const T *x, T *y) {                      \
        reduce_plan left = *plan;                                                                             \
        T *temporary = NULL;                                                                                  \
        ptrdiff_t items = sizes_multiplied(plan->shape, plan->ndim);                                          \
        int done = 1, many = 0;                                                                               \
        for (int i = 0; i < left.count; i++) many += left.groups[i].reduced;                                  \
        if (plan->reduced == 0 || items == 0) {                                                               \
            memset(y, 0, sizeof(T) * (size_t)items);                                                          \
            many = 0;                                                                                         \
        } else if (many == 0) {                                                                               \
            memcpy(y, x, sizeof(T) * (size_t)items);                                                          \
        }                                                                                                     \
        for (; many > 0 && done; many--) {                                                                    \
            ptrdiff_t outer = 1, inner = 1;                                                                   \
            int at = left.count - 1;                                                                          \
            while (!left.groups[at].reduced) inner *= left.groups[at--].size;                                 \
            for (int i = 0; i < at; i++) outer *= left.groups[i].size;                                        \
            T *to = many > 1 ? malloc(sizeof(T) * (size_t)(outer * inner)) : y;                               \
            done = to && reduce_##S(kind, x, to, outer, left.groups[at].size, inner);                         \
            free(temporary);                                                                                  \
            temporary = many > 1 ? to : NULL;                                                                 \
            x = to;                                                                                           \
            left.groups[at].size = 1;                                                                         \
            left.groups[at].reduced = 0;                                                                      \
        }                                                                                                     \
        free(temporary);                                                                                      \
        for (ptrdiff_t i = 0; mean && done && i < items; i++) y[i] /= (T)plan->reduced;                       \
        return done;                                                                                          \
    }
REDUCE_AXES(float, f32)
REDUCE_AXES(double, f64)

/* Sums wrap around, as NumPy's do. */
VECTOR static int reduce_i64(int kind, const int64_t *x, int64_t *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner) {
    for (ptrdiff_t o = 0; kind == REDUCE_SUM && inner == 1 && o < outer; o++) {
        uint64_t sum = 0;
        for (ptrdiff_t k = 0; k < n; k++) sum += (uint64_t)x[o * n + k];
        y[o] = (int64_t)sum;
    }
    if (kind == REDUCE_SUM && inner == 1) return 1;
    for (ptrdiff_t o = 0; o < outer; o++)
        for (ptrdiff_t i = 0; i < inner; i++) {
            const int64_t *row = x + o * n * inner + i;
            uint64_t sum = (uint64_t)row[0];
            int64_t best = row[0];
            for (ptrdiff_t k = 1; k < n; k++) {
                const int64_t v = row[k * inner];
                sum += (uint64_t)v;
                if (kind == REDUCE_MAX ? v > best : v < best) best = v;
            }
            *y++ = kind == REDUCE_SUM ? (int64_t)sum : best;
        }
    return 1;
}
REDUCE_AXES(int64_t, i64)

int spread_planned(spread_plan *plan, const strided *g, const ptrdiff_t *shape, int ndim, const ptrdiff_t *axes, int count,
                   int keepdim) {
    char reduced[AXES];
    int own = 0;
    if (!mark(reduced, ndim, axes, count)) return 0;
    plan->count = 1;
    for (int k = 0; k < ndim; k++) {
        plan->steps[k] = 0;
        if (reduced[k]) plan->count *= shape[k];
        if (reduced[k] && !keepdim) continue;
        if (own >= g->ndim || g->shape[own] != (reduced[k] ? 1 : shape[k])) return 0;
        if (!reduced[k]) plan->steps[k] = g->strides[own];
        own++;
    }
    return own == g->ndim;
}

#define SPREAD(T, S)                                                                                                   \
    void spread_##S(const spread_plan *plan, int mean, const void *g, T *y, const ptrdiff_t *shape, int ndim) {        \
        copy_array((char *)y, g, ndim, shape, plan->steps, sizeof(T));                                                 \
        const T factor = (T)(1.0 / (double)plan->count);                                                               \
        const ptrdiff_t size = mean ? sizes_multiplied(shape, ndim) : 0;                                               \
        for (ptrdiff_t i = 0; i < size; i++) y[i] *= factor;                                                           \
    }
SPREAD(float, f32)
SPREAD(double, f64)
