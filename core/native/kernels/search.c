/* Where values stand in a sorted sequence, and cross products. */
#include "kernels/search.h"

#include "kernels/kernel.h"
#include "runtime/parallel.h"

enum { BLOCK = 64 };

typedef struct {
    const void *sequence, *values;
    int64_t *at;
    ptrdiff_t n;
    int right;
} search;

/* NaN is the greatest of all. */
#define LESS(a, b) (((a) < (b)) | (((b) != (b)) & ((a) == (a))))

/* A binary search without a branch, by a block of values at once: each step is a loop of gathers. */
#define SEARCH(T, S)                                                                                             \
    VECTOR static void search_some_##S(void *context, ptrdiff_t begin, ptrdiff_t end) {                          \
        const search *c = context;                                                                               \
        const T *sequence = c->sequence;                                                                         \
        for (ptrdiff_t first = begin; first < end; first += BLOCK) {                                             \
            const T *v = (const T *)c->values + first;                                                           \
            int64_t *to = c->at + first;                                                                         \
            const int count = (int)(end - first < BLOCK ? end - first : BLOCK);                                  \
            int32_t at[BLOCK] = {0};                                                                             \
            for (int32_t left = (int32_t)c->n, half; left > 0; left -= half) {                                   \
                half = left / 2 + (left == 1);                                                                   \
                if (c->right) {                                                                                  \
                    INDEPENDENT                                                                                  \
                    for (int k = 0; k < count; k++) at[k] += LESS(v[k], sequence[at[k] + half - 1]) ? 0 : half;  \
                } else {                                                                                         \
                    INDEPENDENT                                                                                  \
                    for (int k = 0; k < count; k++) at[k] += LESS(sequence[at[k] + half - 1], v[k]) ? half : 0;  \
                }                                                                                                \
            }                                                                                                    \
            for (int k = 0; k < count; k++) to[k] = at[k];                                                       \
        }                                                                                                        \
    }                                                                                                            \
    void search_##S(const T *sequence, ptrdiff_t n, const T *values, int64_t *at, ptrdiff_t count, int right) {  \
        search c = {sequence, values, at, n, right};                                                             \
        parallel_for(count, 32.0 * (double)count, search_some_##S, &c);                                          \
    }
SEARCH(float, f32)
SEARCH(double, f64)
SEARCH(int64_t, i64)

typedef struct {
    const void *a, *b;
    void *y;
    ptrdiff_t inner;
} crossing;

/* Both products are rounded before they are subtracted: a vector times itself gives exactly 0. */

#define CROSS(T, S)                                                                                              \
    PRODUCTS_APART VECTOR static void cross_some_##S(void *context, ptrdiff_t begin, ptrdiff_t end) {                     \
        const crossing *c = context;                                                                             \
        const ptrdiff_t n = c->inner;                                                                            \
        for (ptrdiff_t outer = begin; outer < end; outer++) {                                                    \
            const T *a = (const T *)c->a + 3 * n * outer, *b = (const T *)c->b + 3 * n * outer;                  \
            T *y = (T *)c->y + 3 * n * outer;                                                                    \
            INDEPENDENT                                                                                          \
            for (ptrdiff_t i = 0; i < n; i++) {                                                                  \
                y[i] = a[n + i] * b[2 * n + i] - a[2 * n + i] * b[n + i];                                        \
                y[n + i] = a[2 * n + i] * b[i] - a[i] * b[2 * n + i];                                            \
                y[2 * n + i] = a[i] * b[n + i] - a[n + i] * b[i];                                                \
            }                                                                                                    \
        }                                                                                                        \
    }                                                                                                            \
    void cross_##S(const T *a, const T *b, T *y, ptrdiff_t outer, ptrdiff_t inner) {                             \
        crossing c = {a, b, y, inner};                                                                           \
        parallel_for(outer, 6.0 * (double)(outer * inner), cross_some_##S, &c);                                  \
    }
CROSS(float, f32)
CROSS(double, f64)
