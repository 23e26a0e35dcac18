/* out = e^(x - max x) / sum over each of `rows` rows of n.

   PASSES 3: the largest item, then exponentials that are kept in out and summed, then they are scaled. PASSES 2: the
   largest and the sum in one walk, which scales the sum where the largest grows, then exponentials once more.
   UNROLL vectors of VECTOR bytes go side by side. A row's last items that fill no vector go one by one.
   Returns 0. Macros: REAL (float or double), PASSES, IS_DOUBLE, PASSES, UNROLL, VECTOR, DIVIDE, CHUNK,
   THREADS.
   The exponential: 2^n by the exponent's bits times a polynomial on |r| <= ln(2) / 2, Taylor's, short of half a unit
   in the last place of float32 with seven terms, of float64 with thirteen.
   Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = VECTOR / sizeof(REAL), STEP = UNROLL * LANES, DOUBLE = sizeof(REAL) == 8 };
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(GCC unroll n)
typedef REAL vec __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));
#if IS_DOUBLE
typedef int64_t bits __attribute__((vector_size(VECTOR), may_alias));
#define LOW -708.0
#define MAGIC 0x1.8p52
#define MANTISSA 52
#define BIAS 1023
#else
typedef int32_t bits __attribute__((vector_size(VECTOR), may_alias));
#define LOW -87.0f
#define MAGIC 0x1.8p23f
#define MANTISSA 23
#define BIAS 127
#endif

static const double TERMS[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                               1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};

/* a where the mask is set, else b: C has no ?: of vectors */
static inline vec either(bits mask, vec a, vec b) { return (vec)((mask & (bits)a) | (~mask & (bits)b)); }

/* e^x for x <= 0, and 0 below LOW; NaN stays NaN. */
static inline vec exponential(vec x) {
    const vec low = (vec){0} + (REAL)LOW;
    const bits under = x < low;
    x = either(under, low, x);
    const vec t = x * (REAL)0x1.71547652b82fep+0 + (REAL)MAGIC, n = t - (REAL)MAGIC;
    const vec r = (x - n * (REAL)0x1.62e4p-1) - n * (REAL)0x1.7f7d1cf79abcap-20;
    vec p = (vec){0} + (REAL)TERMS[DOUBLE ? 0 : 6];
    UNROLLED(16) for (int k = DOUBLE ? 1 : 7; k < 14; k++) p = p * r + (REAL)TERMS[k];
    const bits scale = (__builtin_convertvector(n, bits) + BIAS) << MANTISSA;
    return either(under, (vec){0}, p * (vec)scale);
}

static inline REAL largest_of(const REAL *x, ptrdiff_t n) {
    REAL top = -INFINITY;
    vec high[UNROLL];
    ptrdiff_t i = 0;
    for (int u = 0; u < UNROLL; u++) high[u] = (vec){0} + top;
    for (; i + STEP <= n; i += STEP)
        UNROLLED(8) for (int u = 0; u < UNROLL; u++) {
            const vec v = *(const vec *)(x + i + u * LANES);
            high[u] = either(v > high[u], v, high[u]);
        }
    for (int u = 0; u < UNROLL; u++)
        for (int k = 0; k < (int)LANES; k++) top = high[u][k] > top ? high[u][k] : top;
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

/* The sum of e^(x - top), which are kept in e unless it is NULL. */
static inline REAL sum_of(const REAL *x, REAL top, REAL *e, ptrdiff_t n) {
    REAL total = 0;
    vec sum[UNROLL];
    ptrdiff_t i = 0;
    for (int u = 0; u < UNROLL; u++) sum[u] = (vec){0};
    for (; i + STEP <= n; i += STEP)
        UNROLLED(8) for (int u = 0; u < UNROLL; u++) {
            const vec y = exponential(*(const vec *)(x + i + u * LANES) - top);
            if (e) *(vec *)(e + i + u * LANES) = y;
            sum[u] += y;
        }
    for (int u = 0; u < UNROLL; u++)
        for (int k = 0; k < (int)LANES; k++) total += sum[u][k];
    for (; i < n; i++) {
        const REAL y = exponential((vec){0} + (x[i] - top))[0];
        if (e) e[i] = y;
        total += y;
    }
    return total;
}

static inline void finish(const REAL *x, REAL top, REAL total, REAL *y, ptrdiff_t n) {
    const REAL scale = 1 / total;
    ptrdiff_t i = 0;
    for (; i + STEP <= n; i += STEP)
        UNROLLED(8) for (int u = 0; u < UNROLL; u++) {
            vec v = *(const vec *)(x + i + u * LANES);
            if (PASSES == 2) v = exponential(v - top);
            *(vec *)(y + i + u * LANES) = DIVIDE ? v / total : v * scale;
        }
    for (; i < n; i++) {
        const REAL v = PASSES == 2 ? exponential((vec){0} + (x[i] - top))[0] : x[i];
        y[i] = DIVIDE ? v / total : v * scale;
    }
}

/* Largest and sum in one walk. */
static inline REAL both_of(const REAL *x, REAL *top, ptrdiff_t n) {
    enum { PIECE = 512 }; /* items between two looks at the largest; they stay in the first-level cache */
    REAL total = 0, high = -INFINITY;
    for (ptrdiff_t i = 0; i < n; i += PIECE) {
        const ptrdiff_t count = n - i < PIECE ? n - i : PIECE;
        const REAL here = largest_of(x + i, count);
        if (here > high) {
            total *= exponential((vec){0} + (high - here))[0];
            high = here;
        }
        total += sum_of(x + i, high, NULL, count);
    }
    *top = high;
    return total;
}

int softmax(const REAL *x, REAL *out, int64_t rows, int64_t n) {
#if THREADS > 1
#pragma omp parallel for num_threads(THREADS) schedule(static, CHUNK)
#endif
    for (ptrdiff_t row = 0; row < rows; row++) {
        const REAL *from = x + row * n;
        REAL *to = out + row * n, top;
        if (PASSES == 2) {
            const REAL total = both_of(from, &top, n);
            finish(from, top, total, to, n);
        } else {
            top = largest_of(from, n);
            finish(to, top, sum_of(from, top, to, n), to, n);
        }
    }
    return 0;
}
