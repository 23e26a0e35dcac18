/* Sums along a row, for kernel files inside each_real.h.

   Sixteen sums stand side by side on any processor, whatever its vectors hold and whether the compiler makes vectors of
   the loop: the order of the additions is the same, and the error grows with a sixteenth of the row's length or less.
   A plain loop with one sum, which `omp simd` is where the compiler cannot obey it, lost three digits of float32 in the
   gradient of a layer norm over 3000 items. */

typedef REAL NAME(lanes) __attribute__((vector_size(16 * sizeof(REAL))));
typedef REAL NAME(lanes_8) __attribute__((vector_size(8 * sizeof(REAL))));
typedef REAL NAME(lanes_4) __attribute__((vector_size(4 * sizeof(REAL))));

/* The sum of sixteen, by halves. */
INLINE REAL NAME(lanes_total)(const NAME(lanes) * a) {
    NAME(lanes_8) eight[2];
    NAME(lanes_4) four[2];
    memcpy(eight, a, sizeof eight);
    eight[0] += eight[1];
    memcpy(four, eight, sizeof four);
    four[0] += four[1];
    return (four[0][0] + four[0][2]) + (four[0][1] + four[0][3]);
}

/* Sixteen items as they lie: copied into an array of lanes they went over the stack, three times slower. */
typedef REAL NAME(lanes_in) __attribute__((vector_size(16 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
INLINE NAME(lanes) NAME(lanes_at)(const REAL *x) { return *(const NAME(lanes_in) *)x; }

INLINE REAL NAME(sum_line)(const REAL *x, ptrdiff_t n) {
    NAME(lanes) a = {0}, b = {0}, c = {0}, d = {0};
    ptrdiff_t i = 0;
    for (; i + 64 <= n; i += 64) {
        a += NAME(lanes_at)(x + i);
        b += NAME(lanes_at)(x + i + 16);
        c += NAME(lanes_at)(x + i + 32);
        d += NAME(lanes_at)(x + i + 48);
    }
    for (; i + 16 <= n; i += 16) a += NAME(lanes_at)(x + i);
    a = (a + b) + (c + d);
    REAL rest = 0;
    for (; i < n; i++) rest += x[i];
    return NAME(lanes_total)(&a) + rest;
}

/* sum of (x - mean)^2 */
INLINE REAL NAME(squares_line)(const REAL *x, REAL mean, ptrdiff_t n) {
    NAME(lanes) a = {0}, b = {0}, c = {0}, d = {0};
    ptrdiff_t i = 0;
    for (; i + 64 <= n; i += 64) {
        const NAME(lanes) p = NAME(lanes_at)(x + i) - mean, q = NAME(lanes_at)(x + i + 16) - mean;
        const NAME(lanes) r = NAME(lanes_at)(x + i + 32) - mean, s = NAME(lanes_at)(x + i + 48) - mean;
        a += p * p;
        b += q * q;
        c += r * r;
        d += s * s;
    }
    for (; i + 16 <= n; i += 16) {
        const NAME(lanes) p = NAME(lanes_at)(x + i) - mean;
        a += p * p;
    }
    a = (a + b) + (c + d);
    REAL rest = 0;
    for (; i < n; i++) rest += (x[i] - mean) * (x[i] - mean);
    return NAME(lanes_total)(&a) + rest;
}

/* sum of x y */
INLINE REAL NAME(dot_line)(const REAL *x, const REAL *y, ptrdiff_t n) {
    NAME(lanes) a = {0}, b = {0}, c = {0}, d = {0};
    ptrdiff_t i = 0;
    for (; i + 64 <= n; i += 64) {
        a += NAME(lanes_at)(x + i) * NAME(lanes_at)(y + i);
        b += NAME(lanes_at)(x + i + 16) * NAME(lanes_at)(y + i + 16);
        c += NAME(lanes_at)(x + i + 32) * NAME(lanes_at)(y + i + 32);
        d += NAME(lanes_at)(x + i + 48) * NAME(lanes_at)(y + i + 48);
    }
    for (; i + 16 <= n; i += 16) a += NAME(lanes_at)(x + i) * NAME(lanes_at)(y + i);
    a = (a + b) + (c + d);
    REAL rest = 0;
    for (; i < n; i++) rest += x[i] * y[i];
    return NAME(lanes_total)(&a) + rest;
}

/* sum of g, and in *product that of g (x - mean) */
INLINE REAL NAME(sum_and_product)(const REAL *g, const REAL *x, REAL mean, ptrdiff_t n, REAL *product) {
    NAME(lanes) a = {0}, b = {0}, c = {0}, d = {0};
    ptrdiff_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const NAME(lanes) p = NAME(lanes_at)(g + i), q = NAME(lanes_at)(g + i + 16);
        a += p;
        b += q;
        c += p * (NAME(lanes_at)(x + i) - mean);
        d += q * (NAME(lanes_at)(x + i + 16) - mean);
    }
    a += b;
    c += d;
    if (i + 16 <= n) {
        const NAME(lanes) p = NAME(lanes_at)(g + i);
        a += p;
        c += p * (NAME(lanes_at)(x + i) - mean);
        i += 16;
    }
    REAL rest = 0, rest_product = 0;
    for (; i < n; i++) {
        rest += g[i];
        rest_product += g[i] * (x[i] - mean);
    }
    *product = NAME(lanes_total)(&c) + rest_product;
    return NAME(lanes_total)(&a) + rest;
}
