/* Running sums, products and extremes along an axis of x[outer, n, inner].

   Along the last axis each item waits for the one before it, four cycles or more; so eight rows go side by side. The order
   of the operations is the sequence's. */
#include "kernels/running.h"

#include <string.h>

#include "kernels/kernel.h"
#include "runtime/parallel.h"

enum { ROWS = 8 };

typedef struct {
    const void *x;
    void *y;
    int64_t *at;
    ptrdiff_t outer, n, inner;
    int kind; /* RUN_SUM or RUN_PRODUCT; of extremes whether it is the largest */
    int reverse;
} running_job;

/* U: what T is computed in, for whole numbers wrap around */
#define JOINED(T, U, a, b) (kind == RUN_SUM ? (T)((U)(a) + (U)(b)) : (T)((U)(a) * (U)(b)))
#define BEYOND(a, b) ((largest ? (a) >= (b) : (a) <= (b)) | ((a) != (a)))

#define RUNNING(T, U, S)                                                                                            \
    /* One row or eight of them; a plane is a row of `inner` items to each of n. */                                 \
    INLINE void row_##S(const running_job *j, ptrdiff_t first, const int rows, const int kind) {                    \
        const ptrdiff_t n = j->n, way = j->reverse ? -1 : 1, start = first * n + (j->reverse ? n - 1 : 0);          \
        const T *x = (const T *)j->x + start;                                                                       \
        T *y = (T *)j->y + start, so_far[ROWS];                                                                     \
        for (int r = 0; r < rows; r++) y[r * n] = so_far[r] = x[r * n];                                             \
        for (ptrdiff_t k = 1; k < n; k++) {                                                                         \
            x += way, y += way;                                                                                     \
            for (int r = 0; r < rows; r++) y[r * n] = so_far[r] = JOINED(T, U, so_far[r], x[r * n]);                \
        }                                                                                                           \
    }                                                                                                               \
    static void rows_##S(void *context, ptrdiff_t begin, ptrdiff_t end) {                                           \
        const running_job *j = context;                                                                             \
        const ptrdiff_t past = end * ROWS < j->outer ? end * ROWS : j->outer;                                       \
        ptrdiff_t row = begin * ROWS;                                                                               \
        for (; row + ROWS <= past; row += ROWS)                                                                     \
            if (j->kind == RUN_SUM) row_##S(j, row, ROWS, RUN_SUM);                                                 \
            else row_##S(j, row, ROWS, RUN_PRODUCT);                                                                \
        for (; row < past; row++)                                                                                   \
            if (j->kind == RUN_SUM) row_##S(j, row, 1, RUN_SUM);                                                    \
            else row_##S(j, row, 1, RUN_PRODUCT);                                                                   \
    }                                                                                                               \
    VECTOR static void planes_##S(void *context, ptrdiff_t begin, ptrdiff_t end) {                                  \
        const running_job *j = context;                                                                             \
        const ptrdiff_t n = j->n, inner = j->inner, way = j->reverse ? -inner : inner;                              \
        for (ptrdiff_t plane = begin; plane < end; plane++) {                                                       \
            const T *x = (const T *)j->x + plane * n * inner + (j->reverse ? (n - 1) * inner : 0);                  \
            T *y = (T *)j->y + (x - (const T *)j->x);                                                               \
            memcpy(y, x, sizeof(T) * (size_t)inner);                                                                \
            for (ptrdiff_t k = 1; k < n; k++) {                                                                     \
                x += way, y += way;                                                                                 \
                if (j->kind == RUN_SUM) {                                                                           \
                    INDEPENDENT                                                                                     \
                    for (ptrdiff_t i = 0; i < inner; i++) y[i] = (T)((U)y[i - way] + (U)x[i]);                      \
                } else {                                                                                            \
                    INDEPENDENT                                                                                     \
                    for (ptrdiff_t i = 0; i < inner; i++) y[i] = (T)((U)y[i - way] * (U)x[i]);                      \
                }                                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
    }                                                                                                               \
    void running_##S(int kind, const T *x, T *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner, int reverse) {      \
        running_job j = {x, y, NULL, outer, n, inner, kind, reverse};                                               \
        const double work = (double)(outer * n) * (double)inner;                                                    \
        if (!n || !inner) return;                                                                                   \
        if (inner == 1) parallel_for((outer + ROWS - 1) / ROWS, 4 * work, rows_##S, &j);                            \
        else parallel_for(outer, 2 * work, planes_##S, &j);                                                         \
    }                                                                                                               \
    /* Of equals the last one counts, and NaN beyond all. */                                                        \
    INLINE void extreme_row_##S(const running_job *j, ptrdiff_t first, const int rows, const int largest) {         \
        const ptrdiff_t n = j->n;                                                                                   \
        const T *x = (const T *)j->x + first * n;                                                                   \
        T *y = (T *)j->y + first * n, best[ROWS];                                                                   \
        int64_t *at = j->at + first * n, where[ROWS] = {0};                                                         \
        for (int r = 0; r < rows; r++) best[r] = x[r * n];                                                          \
        for (ptrdiff_t k = 0; k < n; k++)                                                                           \
            for (int r = 0; r < rows; r++) {                                                                        \
                const T item = x[r * n + k];                                                                        \
                const int beyond = BEYOND(item, best[r]);                                                           \
                y[r * n + k] = best[r] = beyond ? item : best[r];                                                   \
                at[r * n + k] = where[r] = beyond ? k : where[r];                                                   \
            }                                                                                                       \
    }                                                                                                               \
    static void extreme_rows_##S(void *context, ptrdiff_t begin, ptrdiff_t end) {                                   \
        const running_job *j = context;                                                                             \
        const ptrdiff_t past = end * ROWS < j->outer ? end * ROWS : j->outer;                                       \
        ptrdiff_t row = begin * ROWS;                                                                               \
        for (; row + ROWS <= past; row += ROWS)                                                                     \
            if (j->kind) extreme_row_##S(j, row, ROWS, 1);                                                          \
            else extreme_row_##S(j, row, ROWS, 0);                                                                  \
        for (; row < past; row++)                                                                                   \
            if (j->kind) extreme_row_##S(j, row, 1, 1);                                                             \
            else extreme_row_##S(j, row, 1, 0);                                                                     \
    }                                                                                                               \
    VECTOR static void extreme_planes_##S(void *context, ptrdiff_t begin, ptrdiff_t end) {                          \
        const running_job *j = context;                                                                             \
        const ptrdiff_t n = j->n, inner = j->inner;                                                                 \
        const int largest = j->kind;                                                                                \
        for (ptrdiff_t plane = begin; plane < end; plane++) {                                                       \
            const T *x = (const T *)j->x + plane * n * inner;                                                       \
            T *y = (T *)j->y + plane * n * inner;                                                                   \
            int64_t *at = j->at + plane * n * inner;                                                                \
            memcpy(y, x, sizeof(T) * (size_t)inner);                                                                \
            memset(at, 0, sizeof(int64_t) * (size_t)inner);                                                         \
            for (ptrdiff_t k = 1; k < n; k++) {                                                                     \
                x += inner, y += inner, at += inner;                                                                \
                INDEPENDENT                                                                                         \
                for (ptrdiff_t i = 0; i < inner; i++) {                                                             \
                    const T best = y[i - inner];                                                                    \
                    const int beyond = BEYOND(x[i], best);                                                          \
                    y[i] = beyond ? x[i] : best;                                                                    \
                    at[i] = beyond ? k : at[i - inner];                                                             \
                }                                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
    }                                                                                                               \
    void running_extreme_##S(int largest, const T *x, T *y, int64_t *at, ptrdiff_t outer, ptrdiff_t n,              \
                             ptrdiff_t inner) {                                                                     \
        running_job j = {x, y, at, outer, n, inner, largest, 0};                                                    \
        const double work = (double)(outer * n) * (double)inner;                                                    \
        if (!n || !inner) return;                                                                                   \
        if (inner == 1) parallel_for((outer + ROWS - 1) / ROWS, 4 * work, extreme_rows_##S, &j);                    \
        else parallel_for(outer, 4 * work, extreme_planes_##S, &j);                                                 \
    }

RUNNING(float, float, f32)
RUNNING(double, double, f64)
RUNNING(int64_t, uint64_t, i64)
