/* Items of each row by their order, with the indices they had: short rows, by insertion. */
#include "kernels/order.h"

#include <string.h>

#include "kernels/kernels.h"
#include "runtime/parallel.h"

typedef struct {
    const void *x;
    void *y;
    int64_t *at;
    ptrdiff_t k, n, inner;
    int flag;
} rows_in_order;

/* The place of the first greatest or least item of each row. */
static void argreduce_i64(int kind, const int64_t *x, int64_t *at, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner) {
    for (ptrdiff_t o = 0; o < outer; o++)
        for (ptrdiff_t i = 0; i < inner; i++) {
            const int64_t *row = x + o * n * inner + i;
            ptrdiff_t best = 0;
            for (ptrdiff_t k = 1; k < n; k++)
                if (kind == REDUCE_MAX ? row[k * inner] > row[best * inner] : row[k * inner] < row[best * inner]) best = k;
            *at++ = best;
        }
}

/* Of n items the first k by `descending`, in order; which one of a row in order is picked; all rows. */
#define ORDER(S, name)                                                                                                   \
    static int less_##name(S a, S b) { return a < b || (b != b && a == a); }                                             \
    static void order_##name(const S *x, ptrdiff_t step, ptrdiff_t n, ptrdiff_t k, int descending, S *v, int64_t *at) {  \
        ptrdiff_t have = 0;                                                                                              \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                              \
            const S new = x[i * step];                                                                                   \
            ptrdiff_t j = have;                                                                                          \
            while (j > 0 && (descending ? less_##name(v[j - 1], new) : less_##name(new, v[j - 1]))) j--;                 \
            if (j == k) continue;                                                                                        \
            if (have < k) have++;                                                                                        \
            for (ptrdiff_t q = have - 1; q > j; q--) v[q] = v[q - 1], at[q] = at[q - 1];                                 \
            v[j] = new, at[j] = i;                                                                                       \
        }                                                                                                                \
    }                                                                                                                    \
    static ptrdiff_t picked_##name(int what, int flag, ptrdiff_t k, const S *v, ptrdiff_t n) {                           \
        if (what == ORDER_KTH) return k - 1;                                                                             \
        if (what == ORDER_MEDIAN) {                                                                                      \
            ptrdiff_t present = n;                                                                                       \
            while (present > 0 && v[present - 1] != v[present - 1]) present--;                                           \
            return present < n && !flag ? present : present ? (present - 1) / 2 : 0;                                     \
        }                                                                                                                \
        ptrdiff_t best = 0, longest = 0;                                                                                 \
        for (ptrdiff_t i = 0, run = 0; i < n; i++) {                                                                     \
            run = i && v[i] == v[i - 1] ? run + 1 : 1;                                                                   \
            if (run > longest) longest = run, best = i;                                                                  \
        }                                                                                                                \
        return best;                                                                                                     \
    }                                                                                                                    \
    void order_rows_##name(int what, int flag, ptrdiff_t k, const S *x, S *y, int64_t *to, ptrdiff_t outer, ptrdiff_t n, \
                           ptrdiff_t inner) {                                                                            \
        S v[ORDER_MOST];                                                                                                 \
        int64_t at[ORDER_MOST];                                                                                          \
        const int many = what == ORDER_SORTED || what == ORDER_TOP;                                                      \
        const ptrdiff_t first_of = what == ORDER_TOP ? k : n, kept = many ? first_of : 1;                                \
        for (ptrdiff_t o = 0; o < outer; o++)                                                                            \
            for (ptrdiff_t i = 0; i < inner; i++) {                                                                      \
                order_##name(x + o * n * inner + i, inner, n, first_of, many && flag, v, at);                            \
                const ptrdiff_t first = many ? 0 : picked_##name(what, flag, k, v, n);                                   \
                for (ptrdiff_t q = 0; q < kept; q++) {                                                                   \
                    y[(o * kept + q) * inner + i] = v[first + q];                                                        \
                    to[(o * kept + q) * inner + i] = at[first + q];                                                      \
                }                                                                                                        \
            }                                                                                                            \
    }                                                                                                                    \
    static void first_some_##name(void *context, ptrdiff_t begin, ptrdiff_t end) {                                       \
        const rows_in_order *c = context;                                                                                \
        const ptrdiff_t size = c->n * c->inner, kept = c->k * c->inner;                                                  \
        order_rows_##name(ORDER_TOP, c->flag, c->k, (const S *)c->x + begin * size, (S *)c->y + begin * kept,            \
                          c->at + begin * kept, end - begin, c->n, c->inner);                                            \
    }                                                                                                                    \
    void first_rows_##name(int what, int flag, ptrdiff_t k, const S *x, S *y, int64_t *at, ptrdiff_t outer, ptrdiff_t n, \
                           ptrdiff_t inner) {                                                                            \
        (void)what;                                                                                                      \
        rows_in_order c = {x, y, at, k, n, inner, flag};                                                                 \
        parallel_for(outer, 8.0 * (double)(outer * n) * (double)inner, first_some_##name, &c);                           \
    }                                                                                                                    \
    void extreme_rows_##name(int kind, const S *x, S *y, int64_t *at, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner) {   \
        argreduce_##name(kind, x, at, outer, n, inner);                                                                  \
        for (ptrdiff_t o = 0, q = 0; o < outer; o++)                                                                     \
            for (ptrdiff_t i = 0; i < inner; i++, q++) y[q] = x[(o * n + at[q]) * inner + i];                            \
    }                                                                                                                    \
    void order_back_##name(const S *g, const int64_t *at, S *gx, ptrdiff_t outer, ptrdiff_t count, ptrdiff_t n,          \
                           ptrdiff_t inner) {                                                                            \
        memset(gx, 0, sizeof(S) * (size_t)(outer * n * inner));                                                          \
        for (ptrdiff_t o = 0, p = 0; o < outer; o++)                                                                     \
            for (ptrdiff_t k = 0; k < count; k++)                                                                        \
                for (ptrdiff_t i = 0; i < inner; i++, p++) gx[(o * n + at[p]) * inner + i] = g[p];                       \
    }
ORDER(float, f32)
ORDER(double, f64)
ORDER(int64_t, i64)
