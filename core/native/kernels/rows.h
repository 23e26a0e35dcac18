/* Short rows at full vector width, for kernel files inside each_real.h.

   A row of ten classes is shorter than a vector, and a loop over it would take the exponential one item
   at a time, ten times slower. Such a row is copied into a buffer that is filled up with -infinity, which
   changes neither the largest item nor the sum of exponentials. */

#include "runtime/paths.h"

enum { NAME(PAD) = 64 };

/* The row itself, or its padded copy; *count is the length to work on. */
static inline __attribute__((always_inline)) const REAL *NAME(pad_row)(const REAL *x, ptrdiff_t n, REAL *buffer,
                                                                       ptrdiff_t *count) {
    *count = n;
    if (n > NAME(PAD) || n % 16 == 0) return x;
    *count = (n + 15) / 16 * 16;
    for (ptrdiff_t i = 0; i < *count; i++) buffer[i] = -INFINITY;
    for (ptrdiff_t i = 0; i < n; i++) buffer[i] = x[i];
    return buffer;
}

/* A long row in four parts, whose comparisons need not wait for one another. */
INLINE REAL NAME(row_max)(const REAL *x, ptrdiff_t n) {
    const ptrdiff_t part = n < 256 ? 0 : n / 64 * 16;
    REAL first = -INFINITY, second = first, third = first, fourth = first;
#pragma omp simd reduction(max : first, second, third, fourth)
    for (ptrdiff_t i = 0; i < part; i++) {
        first = x[i] > first ? x[i] : first;
        second = x[part + i] > second ? x[part + i] : second;
        third = x[2 * part + i] > third ? x[2 * part + i] : third;
        fourth = x[3 * part + i] > fourth ? x[3 * part + i] : fourth;
    }
    first = second > first ? second : first;
    third = fourth > third ? fourth : third;
    first = third > first ? third : first;
#pragma omp simd reduction(max : first)
    for (ptrdiff_t i = 4 * part; i < n; i++) first = x[i] > first ? x[i] : first;
    return first;
}

/* sum of e^(x - largest) */
static inline __attribute__((always_inline)) REAL NAME(row_exp_sum)(const REAL *x, REAL largest, ptrdiff_t n) {
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t i = 0; i < n; i++) sum += NAME(sm_exp_falling)(x[i] - largest);
    return sum;
}

/* Rows of up to sixteen items, sixteen rows at once and each in a lane of its own: by itself such a row waits for its
   largest item and then for its sum, 40 ns for one of eight; sixteen take 70 together. */
enum { NAME(SIDE) = 16, NAME(FEW_ROWS) = 4 };

typedef struct {
    REAL e[NAME(SIDE)][NAME(SIDE)], largest[NAME(SIDE)], sum[NAME(SIDE)]; /* e: item, row; of rows that are not there 1 */
} NAME(side_rows);

/* It is asked of all rows, not of a thread's: the bits must not change with the number of threads. */
INLINE int NAME(are_short)(ptrdiff_t rows, ptrdiff_t n) {
    if (n > NAME(SIDE) || rows < NAME(FEW_ROWS)) return 0;
    took(PATH_rows_side_by_side);
    return 1;
}

/* e^(x - largest) of `count` rows, and what they sum to. */
static inline __attribute__((always_inline)) void NAME(side_by_side)(NAME(side_rows) *s, const REAL *x, ptrdiff_t count,
                                                                     ptrdiff_t n) {
    if (count < NAME(SIDE)) memset(s->e, 0, sizeof s->e[0] * (size_t)n);
    for (ptrdiff_t k = 0; k < count; k++)
        for (ptrdiff_t i = 0; i < n; i++) s->e[i][k] = x[k * n + i];
    for (int k = 0; k < NAME(SIDE); k++) s->largest[k] = -INFINITY, s->sum[k] = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        for (int k = 0; k < NAME(SIDE); k++) s->largest[k] = s->e[i][k] > s->largest[k] ? s->e[i][k] : s->largest[k];
    for (ptrdiff_t i = 0; i < n; i++)
        for (int k = 0; k < NAME(SIDE); k++) {
            s->e[i][k] = NAME(sm_exp_falling)(s->e[i][k] - s->largest[k]);
            s->sum[k] += s->e[i][k];
        }
}
