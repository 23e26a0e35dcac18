/* The k-th least item of each row, and the median, of rows of any length: by digits of eleven bits from the highest on, of
   which all items but those of one value are left behind (a radix selection, about 2.5 passes over the row).

   Items become whole numbers of the same order: NaN the greatest, -0 as 0. */
#include "kernels/order.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/simd_bits.h"
#include "runtime/parallel.h"
#include "runtime/paths.h"

enum { DIGIT = 11, VALUES = 1 << DIGIT, FEW = 24 };

INLINE uint32_t key_f32(float x) {
    const uint32_t bits = sm_bits_f32(x + 0.0f), sign = (uint32_t)-(int32_t)(bits >> 31);
    return x != x ? UINT32_MAX : bits ^ (sign | 0x80000000u);
}
INLINE uint64_t key_f64(double x) {
    const uint64_t bits = sm_bits_f64(x + 0.0), sign = (uint64_t)-(int64_t)(bits >> 63);
    return x != x ? UINT64_MAX : bits ^ (sign | 0x8000000000000000u);
}
INLINE uint64_t key_i64(int64_t x) { return (uint64_t)x ^ 0x8000000000000000u; }

typedef struct {
    const void *x;
    void *y;
    int64_t *at;
    ptrdiff_t k, n, inner;
    int what, flag;
    int failed;
} selection;

#define SELECT(T, S, K, BITS)                                                                                     \
    /* The key of rank `rank` among n, which are moved about; *equal: how many of its like come before it. */     \
    static K ranked_##S(K *a, ptrdiff_t n, ptrdiff_t rank, ptrdiff_t *equal) {                                    \
        for (int shift = BITS - DIGIT, width = DIGIT; n > FEW; shift -= width) {                                  \
            int32_t counts[VALUES] = {0};                                                                         \
            const K most = ((K)1 << width) - 1;                                                                   \
            for (ptrdiff_t i = 0; i < n; i++) counts[a[i] >> shift & most]++;                                     \
            K digit = 0;                                                                                          \
            for (; rank >= counts[digit]; digit++) rank -= counts[digit];                                         \
            ptrdiff_t kept = 0;                                                                                   \
            for (ptrdiff_t i = 0; i < n; i++) {                                                                   \
                const K key = a[i];                                                                               \
                a[kept] = key;                                                                                    \
                kept += (key >> shift & most) == digit;                                                           \
            }                                                                                                     \
            n = kept;                                                                                             \
            if (!shift) {                                                                                         \
                *equal = rank;                                                                                    \
                return a[0];                                                                                      \
            }                                                                                                     \
            if (shift < width) width = shift;                                                                     \
        }                                                                                                         \
        for (ptrdiff_t i = 1; i < n; i++) {                                                                       \
            const K key = a[i];                                                                                   \
            ptrdiff_t j = i;                                                                                      \
            for (; j > 0 && a[j - 1] > key; j--) a[j] = a[j - 1];                                                 \
            a[j] = key;                                                                                           \
        }                                                                                                         \
        for (*equal = 0; *equal < rank && a[rank - *equal - 1] == a[rank];) ++*equal;                             \
        return a[rank];                                                                                           \
    }                                                                                                             \
    VECTOR static ptrdiff_t keys_##S(const T *x, ptrdiff_t step, ptrdiff_t n, K *a) {                             \
        ptrdiff_t absent = 0;                                                                                     \
        if (step == 1)                                                                                            \
            for (ptrdiff_t i = 0; i < n; i++) a[i] = key_##S(x[i]), absent += x[i] != x[i];                       \
        else                                                                                                      \
            for (ptrdiff_t i = 0; i < n; i++) a[i] = key_##S(x[i * step]), absent += x[i * step] != x[i * step];  \
        return absent;                                                                                            \
    }                                                                                                             \
    static void select_some_##S(void *context, ptrdiff_t begin, ptrdiff_t end) {                                  \
        selection *c = context;                                                                                   \
        const ptrdiff_t n = c->n, inner = c->inner;                                                               \
        K *keys = malloc(sizeof(K) * (size_t)n);                                                                  \
        if (!keys) return (void)__atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);                                \
        for (ptrdiff_t row = begin; row < end; row++) {                                                           \
            const T *x = (const T *)c->x + row / inner * n * inner + row % inner;                                 \
            const ptrdiff_t absent = keys_##S(x, inner, n, keys), present = n - absent;                           \
            ptrdiff_t rank = c->k - 1, equal, at = 0;                                                             \
            if (c->what == ORDER_MEDIAN) rank = absent && !c->flag ? present : present ? (present - 1) / 2 : 0;   \
            const K found = ranked_##S(keys, n, rank, &equal);                                                    \
            for (;; at++)                                                                                         \
                if (key_##S(x[at * inner]) == found && !equal--) break;                                           \
            ((T *)c->y)[row] = x[at * inner];                                                                     \
            c->at[row] = at;                                                                                      \
        }                                                                                                         \
        free(keys);                                                                                               \
    }                                                                                                             \
    int selected_rows_##S(int what, int flag, ptrdiff_t k, const T *x, T *y, int64_t *at, ptrdiff_t outer,        \
                          ptrdiff_t n, ptrdiff_t inner) {                                                         \
        if (n <= ORDER_MOST) {                                                                                    \
            order_rows_##S(what, flag, k, x, y, at, outer, n, inner);                                             \
            return 1;                                                                                             \
        }                                                                                                         \
        took(PATH_rows_selected);                                                                                 \
        selection c = {x, y, at, k, n, inner, what, flag, 0};                                                     \
        parallel_for(outer * inner, 16.0 * (double)(outer * inner) * (double)n, select_some_##S, &c);             \
        return !c.failed;                                                                                         \
    }
SELECT(float, f32, uint32_t, 32)
SELECT(double, f64, uint64_t, 64)
SELECT(int64_t, i64, uint64_t, 64)
