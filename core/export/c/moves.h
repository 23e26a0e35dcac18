/* Elements that move: picked and put by indices, put in order, added up on the way. */
#ifndef GRADLAB_MOVES_H
#define GRADLAB_MOVES_H

#include "base.h"

#define BAD_INDEX 2

/* places (+)= index * step, with indices below 0 counted from the end. */
KERNEL int add_places(int64_t count, const int64_t *index, int64_t n, int64_t step, int first, int64_t *places) {
    for (int64_t k = 0; k < count; k++) {
        const int64_t at = index[k] < 0 ? index[k] + n : index[k];
        if (at < 0 || at >= n) return BAD_INDEX;
        places[k] = (first ? 0 : places[k]) + at * step;
    }
    return 0;
}
/* Rows of `run` elements: from x + o * stride + places[k] to out, one after the other. */
KERNEL void take(int64_t bytes, int64_t outer, int64_t stride, int64_t count, const int64_t *places, int64_t run,
                 const void *x, void *out) {
    char *to = out;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < count; k++, to += run * bytes)
            memcpy(to, (const char *)x + (o * stride + places[k]) * bytes, (size_t)(run * bytes));
}
KERNEL void put_rows(int64_t bytes, int64_t outer, int64_t stride, int64_t count, const int64_t *places, int64_t run,
                     const void *values, void *out) {
    const char *from = values;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < count; k++, from += run * bytes)
            memcpy((char *)out + (o * stride + places[k]) * bytes, from, (size_t)(run * bytes));
}
KERNEL int embed(int64_t bytes, int64_t count, int64_t n, int64_t run, const void *weight, const int64_t *index,
                 void *out) {
    for (int64_t k = 0; k < count; k++) {
        if (index[k] < 0 || index[k] >= n) return BAD_INDEX;
        memcpy((char *)out + k * run * bytes, (const char *)weight + index[k] * run * bytes, (size_t)(run * bytes));
    }
    return 0;
}

/* The next index of an array of any rank: the offsets of two arrays go along. Returns 0 after the last. */
INLINE int next_index(int64_t rank, const int64_t *shape, int64_t *at, const int64_t *s, int64_t *x, const int64_t *t,
                      int64_t *y) {
    for (int64_t d = rank - 1; d >= 0; d--) {
        *x += s[d], *y += t[d];
        if (++at[d] < shape[d]) return 1;
        *x -= shape[d] * s[d], *y -= shape[d] * t[d], at[d] = 0;
    }
    return 0;
}
#define MOST_AXES 16

/* out[i, j, ...] = x[index[i, j, ...], j, ...] for dim 0, and so on; out is dense. */
KERNEL int gather(int64_t bytes, int64_t rank, const int64_t *shape, int64_t dim, int64_t n, const void *x,
                  const int64_t *x_strides, const int64_t *index, const int64_t *index_strides, void *out) {
    int64_t at[MOST_AXES] = {0}, steps[MOST_AXES], from = 0, place = 0, k = 0;
    for (int64_t d = 0; d < rank; d++) {
        steps[d] = d == dim ? 0 : x_strides[d];
        if (shape[d] == 0) return 0;
    }
    do {
        const int64_t i = index[place];
        if (i < 0 || i >= n) return BAD_INDEX;
        memcpy((char *)out + k++ * bytes, (const char *)x + (from + i * x_strides[dim]) * bytes, (size_t)bytes);
    } while (next_index(rank, shape, at, steps, &from, index_strides, &place));
    return 0;
}

enum { SCATTER_PUT, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };

#define MOVES(T, S, ADD, MUL)                                                                                         \
    KERNEL void add_rows_##S(int64_t outer, int64_t stride, int64_t count, const int64_t *places, int64_t run,        \
                             const T *values, T *out) {                                                               \
        for (int64_t o = 0; o < outer; o++)                                                                           \
            for (int64_t k = 0; k < count; k++, values += run) {                                                      \
                T *to = out + o * stride + places[k];                                                                 \
                for (int64_t j = 0; j < run; j++) to[j] = ADD(to[j], values[j]);                                      \
            }                                                                                                         \
    }                                                                                                                 \
    KERNEL int scatter_##S(int kind, int64_t rank, const int64_t *shape, int64_t dim, int64_t n, T *out,              \
                           const int64_t *out_strides, const int64_t *index, const int64_t *index_strides,            \
                           const T *src, const int64_t *src_strides) {                                                \
        int64_t at[MOST_AXES] = {0}, steps[MOST_AXES], to = 0, place = 0, at_src[MOST_AXES] = {0}, from = 0, none = 0; \
        for (int64_t d = 0; d < rank; d++) {                                                                          \
            steps[d] = d == dim ? 0 : out_strides[d];                                                                 \
            if (shape[d] == 0) return 0;                                                                              \
        }                                                                                                             \
        do {                                                                                                          \
            const int64_t i = index[place];                                                                           \
            if (i < 0 || i >= n) return BAD_INDEX;                                                                    \
            T *y = out + to + i * out_strides[dim];                                                                   \
            const T x = src[from];                                                                                    \
            *y = kind == SCATTER_PUT ? x : kind == SCATTER_ADD ? ADD(*y, x) : kind == SCATTER_MUL ? MUL(*y, x)        \
                 : kind == SCATTER_MAX ? (x > *y || x != x ? x : *y) : (x < *y || x != x ? x : *y);                   \
            next_index(rank, shape, at_src, src_strides, &from, src_strides, &none);                                  \
        } while (next_index(rank, shape, at, steps, &to, index_strides, &place));                                     \
        return 0;                                                                                                     \
    }                                                                                                                 \
    /* Whether a comes before b: NaN is greater than all. */                                                          \
    INLINE int before_##S(T a, T b, int down) {                                                                       \
        const int a_nan = a != a, b_nan = b != b;                                                                     \
        if (a_nan || b_nan) return down ? a_nan && !b_nan : b_nan && !a_nan;                                          \
        return down ? a > b : a < b;                                                                                  \
    }                                                                                                                 \
    /* The first `kept` of each row in order, by merging runs: equal ones stay in order. */                           \
    KERNEL void sort_rows_##S(int64_t outer, int64_t n, int64_t kept, int down, const T *x, T *values,                \
                              int64_t *places, int64_t *scratch) {                                                    \
        for (int64_t o = 0; o < outer; o++, x += n, values += kept, places += kept) {                                 \
            int64_t *from = scratch, *to = scratch + n;                                                               \
            for (int64_t j = 0; j < n; j++) from[j] = j;                                                              \
            for (int64_t run = 1; run < n; run *= 2) {                                                                \
                for (int64_t start = 0; start < n; start += 2 * run) {                                                \
                    const int64_t middle = smaller(start + run, n), end = smaller(start + 2 * run, n);                \
                    int64_t a = start, b = middle;                                                                    \
                    for (int64_t j = start; j < end; j++)                                                             \
                        to[j] = b < end && (a >= middle || before_##S(x[from[b]], x[from[a]], down)) ? from[b++]      \
                                                                                                     : from[a++];     \
                }                                                                                                     \
                int64_t *const swap = from;                                                                           \
                from = to, to = swap;                                                                                 \
            }                                                                                                         \
            for (int64_t j = 0; j < kept; j++) values[j] = x[from[j]], places[j] = from[j];                           \
        }                                                                                                             \
    }                                                                                                                 \
    KERNEL void extremes_##S(int64_t outer, int64_t n, int largest, const T *x, T *values, int64_t *places) {         \
        for (int64_t o = 0; o < outer; o++, x += n) {                                                                 \
            int64_t best = 0;                                                                                         \
            for (int64_t j = 1; j < n; j++)                                                                           \
                if (x[best] == x[best] && ((largest ? x[j] > x[best] : x[j] < x[best]) || x[j] != x[j])) best = j;    \
            values[o] = x[best], places[o] = best;                                                                    \
        }                                                                                                             \
    }                                                                                                                 \
    KERNEL void running_sum_##S(int64_t outer, int64_t n, int reverse, const T *x, T *out) {                          \
        for (int64_t o = 0; o < outer; o++, x += n, out += n) {                                                       \
            T total = 0;                                                                                              \
            for (int64_t j = 0; j < n; j++) {                                                                         \
                const int64_t at = reverse ? n - 1 - j : j;                                                           \
                out[at] = total = ADD(total, x[at]);                                                                  \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    KERNEL void running_product_##S(int64_t outer, int64_t n, int reverse, const T *x, T *out) {                      \
        for (int64_t o = 0; o < outer; o++, x += n, out += n) {                                                       \
            T total = 1;                                                                                              \
            for (int64_t j = 0; j < n; j++) {                                                                         \
                const int64_t at = reverse ? n - 1 - j : j;                                                           \
                out[at] = total = MUL(total, x[at]);                                                                  \
            }                                                                                                         \
        }                                                                                                             \
    }
#define ADD_f32(a, b) ((a) + (b))
#define MUL_f32(a, b) ((a) * (b))
MOVES(float, f32, ADD_f32, MUL_f32)
MOVES(int64_t, i64, add_i64, mul_i64)

#endif
