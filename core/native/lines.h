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

INLINE REAL NAME(sum_line)(const REAL *x, ptrdiff_t n) {
    NAME(lanes) a = {0}, b = {0}, c = {0}, d = {0}, part[4];
    ptrdiff_t i = 0;
    for (; i + 64 <= n; i += 64) {
        memcpy(part, x + i, sizeof part);
        a += part[0];
        b += part[1];
        c += part[2];
        d += part[3];
    }
    for (; i + 16 <= n; i += 16) {
        memcpy(part, x + i, sizeof part[0]);
        a += part[0];
    }
    a = (a + b) + (c + d);
    REAL rest = 0;
    for (; i < n; i++) rest += x[i];
    return NAME(lanes_total)(&a) + rest;
}

/* sum of (x - mean)^2 */
INLINE REAL NAME(squares_line)(const REAL *x, REAL mean, ptrdiff_t n) {
    NAME(lanes) a = {0}, b = {0}, part[2];
    ptrdiff_t i = 0;
    for (; i + 32 <= n; i += 32) {
        memcpy(part, x + i, sizeof part);
        part[0] -= mean;
        part[1] -= mean;
        a += part[0] * part[0];
        b += part[1] * part[1];
    }
    for (; i + 16 <= n; i += 16) {
        memcpy(part, x + i, sizeof part[0]);
        part[0] -= mean;
        a += part[0] * part[0];
    }
    a += b;
    REAL rest = 0;
    for (; i < n; i++) rest += (x[i] - mean) * (x[i] - mean);
    return NAME(lanes_total)(&a) + rest;
}
