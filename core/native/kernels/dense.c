/* Decompositions of small matrices: Cholesky, QR by Householder's reflections, eigenvalues by tridiagonal form and the QL
   algorithm, singular values by one-sided Jacobi rotations. All but the triangular solve compute in double precision.

   Of sixteen rows LAPACK's calls take longer to begin than to compute. Sources: Golub and Van Loan, Matrix Computations, 4.2,
   5.2, 8.6; tred2 and tql2 of EISPACK (Bowdler, Martin, Reinsch and Wilkinson, 1968). */
#ifndef REAL
#include "kernels/dense.h"

#include "kernels/real.h"

#define LEAST_SQUARES 0x1p-900 /* sums of squares below it have lost digits */

/* The sum of products of two rows. */
INLINE double row_product(const double *a, const double *b, ptrdiff_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

/* to += factor * row */
INLINE void add_row(double *restrict to, const double *restrict row, double factor, ptrdiff_t n) {
    for (ptrdiff_t k = 0; k < n; k++) to[k] += factor * row[k];
}

/* (a, b) = (c a - s b, s a + c b) */
INLINE void turn_rows(double *restrict a, double *restrict b, double c, double s, ptrdiff_t n) {
    for (ptrdiff_t k = 0; k < n; k++) {
        const double x = a[k], y = b[k];
        a[k] = c * x - s * y;
        b[k] = s * x + c * y;
    }
}

INLINE int all_are_finite(const double *a, ptrdiff_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < n; k++) sum += a[k] - a[k];
    return sum == 0;
}

/* The lower factor in place of a symmetric matrix, whose lower triangle is read; 0 where it has none. */
VECTOR static int cholesky_of(double *a, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        double *const row = a + i * n;
        for (ptrdiff_t j = 0; j < i; j++) row[j] = (row[j] - row_product(row, a + j * n, j)) / a[j * n + j];
        const double left = row[i] - row_product(row, row, i);
        if (!(left > 0 && left < INFINITY)) return 0;
        row[i] = sqrt(left);
        for (ptrdiff_t j = i + 1; j < n; j++) row[j] = 0;
    }
    return 1;
}

/* a, a column a row, becomes the reflections below the diagonal and R above; tau their factors, as LAPACK's geqr2. 0 where
   numbers are so small that their squares are none, which is LAPACK's. */
VECTOR static int reflect_columns(double *a, double *tau, ptrdiff_t m, ptrdiff_t n) {
    for (ptrdiff_t k = 0; k < n; k++) {
        double *const v = a + k * m + k;
        const ptrdiff_t below = m - k - 1;
        const double squares = row_product(v + 1, v + 1, below), rest = sqrt(squares);
        tau[k] = 0;
        for (ptrdiff_t i = 1; squares < LEAST_SQUARES && i <= below; i++)
            if (v[i] != 0) return 0;
        if (rest == 0) continue;
        const double all = -copysign(sqrt(v[0] * v[0] + rest * rest), v[0]);
        tau[k] = (all - v[0]) / all;
        const double scale = 1 / (v[0] - all);
        for (ptrdiff_t i = 1; i <= below; i++) v[i] *= scale;
        v[0] = all;
        for (ptrdiff_t j = k + 1; j < n; j++) {
            double *const to = a + j * m + k, s = tau[k] * (to[0] + row_product(v + 1, to + 1, below));
            to[0] -= s;
            add_row(to + 1, v + 1, -s, below);
        }
    }
    return 1;
}

/* q, a column a row, of the reflections. */
VECTOR static void gather_reflections(const double *a, const double *tau, double *q, ptrdiff_t m, ptrdiff_t n) {
    memset(q, 0, sizeof(double) * (size_t)(m * n));
    for (ptrdiff_t k = n - 1; k >= 0; k--) {
        const double *const v = a + k * m + k;
        const ptrdiff_t below = m - k - 1;
        q[k * m + k] = 1;
        for (ptrdiff_t j = k; j < n; j++) {
            double *const to = q + j * m + k;
            const double s = tau[k] * (to[0] + row_product(v + 1, to + 1, below));
            to[0] -= s;
            add_row(to + 1, v + 1, -s, below);
        }
    }
}

/* y (n,) = the least-squares solution, by reflections and R, for y (m,), whose first n items it takes the place of. */
VECTOR static void solve_reflected(const double *a, const double *tau, double *y, ptrdiff_t m, ptrdiff_t n) {
    for (ptrdiff_t k = 0; k < n; k++) {
        const double *const v = a + k * m + k;
        const double s = tau[k] * (y[k] + row_product(v + 1, y + k + 1, m - k - 1));
        y[k] -= s;
        add_row(y + k + 1, v + 1, -s, m - k - 1);
    }
    for (ptrdiff_t k = n - 1; k >= 0; k--) {
        y[k] /= a[k * m + k];
        add_row(y, a + k * m, -y[k], k);
    }
}

/* An upper bound of the condition: the product of the norms of R and of its inverse. */
VECTOR static double condition_of(const double *a, double *inverse, ptrdiff_t m, ptrdiff_t n) {
    double squares = 0, inverted = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        memset(inverse, 0, sizeof(double) * (size_t)n);
        inverse[j] = 1;
        for (ptrdiff_t k = j; k >= 0; k--) {
            inverse[k] /= a[k * m + k];
            add_row(inverse, a + k * m, -inverse[k], k);
        }
        squares += row_product(a + j * m, a + j * m, j + 1);
        inverted += row_product(inverse, inverse, j + 1);
    }
    return sqrt(squares) * sqrt(inverted);
}

/* A symmetric matrix w (n, n) becomes tridiagonal: d its diagonal, e from its second item on what stands beside it, and w the
   turning there, a column a row. */
VECTOR static void tridiagonal_of(double *w, double *d, double *e, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; j++) d[j] = w[j * n + n - 1];
    for (ptrdiff_t i = n - 1; i > 0; i--) {
        double scale = 0, h = 0;
        for (ptrdiff_t k = 0; k < i; k++) scale += fabs(d[k]);
        if (scale == 0) {
            e[i] = d[i - 1];
            for (ptrdiff_t j = 0; j < i; j++) {
                d[j] = w[j * n + i - 1];
                w[j * n + i] = w[i * n + j] = 0;
            }
            d[i] = 0;
            continue;
        }
        for (ptrdiff_t k = 0; k < i; k++) d[k] /= scale;
        h = row_product(d, d, i);
        const double last = d[i - 1], g = last > 0 ? -sqrt(h) : sqrt(h);
        e[i] = scale * g;
        h -= last * g;
        d[i - 1] = last - g;
        for (ptrdiff_t j = 0; j < i; j++) e[j] = 0;
        for (ptrdiff_t j = 0; j < i; j++) {
            const double *const column = w + j * n;
            const double f = w[i * n + j] = d[j];
            e[j] += column[j] * f + row_product(column + j + 1, d + j + 1, i - j - 1);
            add_row(e + j + 1, column + j + 1, f, i - j - 1);
        }
        for (ptrdiff_t j = 0; j < i; j++) e[j] /= h;
        add_row(e, d, -row_product(e, d, i) / (h + h), i);
        for (ptrdiff_t j = 0; j < i; j++) {
            double *const column = w + j * n;
            const double f = d[j], beside = e[j];
            for (ptrdiff_t k = j; k < i; k++) column[k] -= f * e[k] + beside * d[k];
            d[j] = column[i - 1];
            column[i] = 0;
        }
        d[i] = h;
    }
    for (ptrdiff_t i = 0; i < n - 1; i++) {
        double *const next = w + (i + 1) * n;
        w[i * n + n - 1] = w[i * n + i];
        w[i * n + i] = 1;
        if (d[i + 1] != 0) {
            const double h = d[i + 1];
            for (ptrdiff_t k = 0; k <= i; k++) d[k] = next[k] / h;
            for (ptrdiff_t j = 0; j <= i; j++) add_row(w + j * n, d, -row_product(next, w + j * n, i + 1), i + 1);
        }
        for (ptrdiff_t k = 0; k <= i; k++) next[k] = 0;
    }
    for (ptrdiff_t j = 0; j < n; j++) {
        d[j] = w[j * n + n - 1];
        w[j * n + n - 1] = 0;
    }
    w[n * n - 1] = 1;
    e[0] = 0;
}

/* The eigenvalues in d, and in w the vectors, a row each; 0 where it takes too long. The matrix is one of items up to 1. */
VECTOR static int diagonal_of(double *w, double *d, double *e, ptrdiff_t n) {
    double f = 0, largest = 0;
    for (ptrdiff_t i = 1; i < n; i++) e[i - 1] = e[i];
    e[n - 1] = 0;
    for (ptrdiff_t l = 0; l < n; l++) {
        const double here = fabs(d[l]) + fabs(e[l]);
        largest = here > largest ? here : largest;
        ptrdiff_t m = l;
        while (fabs(e[m]) > 0x1p-52 * largest) m++;
        for (int turns = 0; m > l && fabs(e[l]) > 0x1p-52 * largest; turns++) {
            if (turns > 60) return 0;
            const double g = d[l], shift = (d[l + 1] - g) / (2 * e[l]), root = copysign(sqrt(shift * shift + 1), shift);
            d[l] = e[l] / (shift + root);
            d[l + 1] = e[l] * (shift + root);
            const double beside = d[l + 1], h = g - d[l], after = e[l + 1];
            for (ptrdiff_t i = l + 2; i < n; i++) d[i] -= h;
            f += h;
            double p = d[m], c = 1, c2 = 1, c3 = 1, s = 0, s2 = 0;
            for (ptrdiff_t i = m - 1; i >= l; i--) {
                const double squares = p * p + e[i] * e[i], r = squares > 0x1p-1000 ? sqrt(squares) : hypot(p, e[i]);
                const double ce = c * e[i], cp = c * p;
                if (!(r > 0)) return 0;
                c3 = c2, c2 = c, s2 = s;
                e[i + 1] = s * r;
                s = e[i] / r;
                c = p / r;
                p = c * d[i] - s * ce;
                d[i + 1] = cp + s * (c * ce + s * d[i]);
                turn_rows(w + i * n, w + (i + 1) * n, c, s, n);
            }
            p = -s * s2 * c3 * after * e[l] / beside;
            e[l] = s * p;
            d[l] = c * p;
        }
        d[l] += f;
        e[l] = 0;
    }
    return 1;
}

/* b (n, m), rows that become orthogonal by turning pairs of them, v (n, n) the turning, both sorted by length, s (n,); `close`
   is how small a cosine is none. 0 where it takes too long. */
VECTOR static int orthogonal_rows(double *b, double *v, double *s, ptrdiff_t n, ptrdiff_t m, double close) {
    memset(v, 0, sizeof(double) * (size_t)(n * n));
    for (ptrdiff_t k = 0; k < n; k++) v[k * n + k] = 1;
    for (int sweep = 0, turned = 1; turned; sweep++) {
        if (sweep > 40) return 0;
        turned = 0;
        for (ptrdiff_t k = 0; k < n; k++) s[k] = row_product(b + k * m, b + k * m, m);
        for (ptrdiff_t p = 0; p < n - 1; p++)
            for (ptrdiff_t q = p + 1; q < n; q++) {
                const double both = row_product(b + p * m, b + q * m, m);
                if (!(both * both > close * close * (s[p] * s[q]))) continue;
                turned = 1;
                const double zeta = (s[q] - s[p]) / (2 * both);
                const double t = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta)), c = 1 / sqrt(1 + t * t);
                turn_rows(b + p * m, b + q * m, c, c * t, m);
                turn_rows(v + p * n, v + q * n, c, c * t, n);
                s[p] -= t * both;
                s[q] += t * both;
            }
    }
    for (ptrdiff_t k = 0; k < n; k++) s[k] = sqrt(row_product(b + k * m, b + k * m, m));
    return 1;
}

/* The places of n numbers in falling order. */
static void order_falling(const double *s, int *order, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        ptrdiff_t j = i;
        for (; j > 0 && s[order[j - 1]] < s[i]; j--) order[j] = order[j - 1];
        order[j] = (int)i;
    }
}

#define KERNEL_FILE "dense.c"
#include "kernels/each_real.h"
#else

/* A symmetric matrix as `mirror` says; the largest of its items. */
static double NAME(symmetric_of)(const REAL *x, double *a, ptrdiff_t n, const char *mirror) {
    double largest = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j <= i; j++) {
            const double low = x[i * n + j], high = x[j * n + i];
            const double item = mirror[0] == 'L' ? low : mirror[0] == 'U' ? high : (low + high) / 2;
            a[i * n + j] = a[j * n + i] = item;
            largest = fabs(item) > largest ? fabs(item) : largest;
        }
    return largest;
}

int NAME(dense_cholesky)(const REAL *x, REAL *y, ptrdiff_t batch, ptrdiff_t n, const char *mirror) {
    double a[DENSE_MOST * DENSE_MOST];
    for (ptrdiff_t at = 0; at < batch; at++, x += n * n, y += n * n) {
        NAME(symmetric_of)(x, a, n, mirror);
        if (!cholesky_of(a, n)) return 0;
        for (ptrdiff_t k = 0; k < n * n; k++) y[k] = (REAL)a[k];
    }
    return 1;
}

VECTOR void NAME(dense_triangular)(const REAL *a, const REAL *b, REAL *y, ptrdiff_t batch, ptrdiff_t n, ptrdiff_t k, int upper,
                                   int unit) {
    memcpy(y, b, sizeof(REAL) * (size_t)(batch * n * k));
    for (ptrdiff_t at = 0; at < batch; at++, a += n * n, y += n * k)
        for (ptrdiff_t done = 0; done < n; done++) {
            const ptrdiff_t i = upper ? n - 1 - done : done, first = upper ? 0 : i + 1, last = upper ? i : n;
            REAL *const row = y + i * k;
            for (ptrdiff_t j = 0; !unit && j < k; j++) row[j] /= a[i * n + i];
            for (ptrdiff_t r = first; r < last; r++) {
                const REAL factor = a[r * n + i];
                REAL *restrict to = y + r * k;
                for (ptrdiff_t j = 0; j < k; j++) to[j] -= factor * row[j];
            }
        }
}

int NAME(dense_qr)(const REAL *x, REAL *q, REAL *r, ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n, const char *mode) {
    double a[DENSE_MOST * DENSE_MOST], made[DENSE_MOST * DENSE_MOST], tau[DENSE_MOST];
    if (strcmp(mode, "reduced")) return 0;
    for (ptrdiff_t at = 0; at < batch; at++, x += m * n, q += m * n, r += n * n) {
        for (ptrdiff_t j = 0; j < n; j++)
            for (ptrdiff_t i = 0; i < m; i++) a[j * m + i] = x[i * n + j];
        if (!reflect_columns(a, tau, m, n) || !all_are_finite(a, m * n)) return 0;
        gather_reflections(a, tau, made, m, n);
        for (ptrdiff_t i = 0; i < m; i++)
            for (ptrdiff_t j = 0; j < n; j++) q[i * n + j] = (REAL)made[j * m + i];
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t j = 0; j < n; j++) r[i * n + j] = (REAL)(j < i ? 0 : a[j * m + i]);
    }
    return 1;
}

int NAME(dense_lstsq)(const REAL *x, const REAL *b, REAL *y, ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k) {
    double a[DENSE_MOST * DENSE_MOST], tau[DENSE_MOST], side[DENSE_MOST];
    const double most = 0.25 / ((double)m * (sizeof(REAL) == 4 ? 0x1p-23 : 0x1p-52));
    for (ptrdiff_t at = 0; at < batch; at++, x += m * n, b += m * k, y += n * k) {
        for (ptrdiff_t j = 0; j < n; j++)
            for (ptrdiff_t i = 0; i < m; i++) a[j * m + i] = x[i * n + j];
        if (!reflect_columns(a, tau, m, n) || !all_are_finite(a, m * n) || !(condition_of(a, side, m, n) < most)) return 0;
        for (ptrdiff_t c = 0; c < k; c++) {
            for (ptrdiff_t i = 0; i < m; i++) side[i] = b[i * k + c];
            if (!all_are_finite(side, m)) return 0;
            solve_reflected(a, tau, side, m, n);
            for (ptrdiff_t i = 0; i < n; i++) y[i * k + c] = (REAL)side[i];
        }
    }
    return 1;
}

int NAME(dense_eigh)(const REAL *x, REAL *values, REAL *vectors, ptrdiff_t batch, ptrdiff_t n, const char *mirror) {
    double a[DENSE_MOST * DENSE_MOST], d[DENSE_MOST], e[DENSE_MOST];
    int order[DENSE_MOST];
    for (ptrdiff_t at = 0; at < batch; at++, x += n * n, values += n, vectors += n * n) {
        const double largest = NAME(symmetric_of)(x, a, n, mirror), scale = largest > 0 ? largest : 1;
        if (!(largest < INFINITY) || !all_are_finite(a, n * n)) return 0;
        for (ptrdiff_t k = 0; k < n * n; k++) a[k] /= scale;
        tridiagonal_of(a, d, e, n);
        if (!diagonal_of(a, d, e, n) || !all_are_finite(d, n)) return 0;
        order_falling(d, order, n);
        for (ptrdiff_t j = 0; j < n; j++) {
            const int from = order[n - 1 - j];
            values[j] = (REAL)(d[from] * scale);
            for (ptrdiff_t i = 0; i < n; i++) vectors[i * n + j] = (REAL)a[from * n + i];
        }
    }
    return 1;
}

/* The columns of x (m, n), or with m < n its rows, divided by a power of two and turned until they are orthogonal. That power
   of two, by which the largest number is about 1; 0 where it is LAPACK's. */
static double NAME(turned_of)(const REAL *x, double *b, double *v, double *s, int *order, ptrdiff_t m, ptrdiff_t n) {
    const ptrdiff_t few = m < n ? m : n, many = m < n ? n : m;
    double largest = 0;
    for (ptrdiff_t k = 0; k < m * n; k++) largest = fabs((double)x[k]) > largest ? fabs((double)x[k]) : largest;
    int power = 0;
    frexp(largest, &power);
    if (!(largest < INFINITY) || power < -1000 || power > 1000) return 0;
    const double scale = ldexp(1, power), to_one = ldexp(1, -power);
    for (ptrdiff_t j = 0; j < few; j++)
        for (ptrdiff_t i = 0; i < many; i++) b[j * many + i] = to_one * (m < n ? x[j * n + i] : x[i * n + j]);
    if (!all_are_finite(b, m * n) || !orthogonal_rows(b, v, s, few, many, sizeof(REAL) == 4 ? 1e-10 : 4e-16)) return 0;
    order_falling(s, order, few);
    return all_are_finite(s, few) ? scale : 0;
}

int NAME(dense_svd)(const REAL *x, REAL *u, REAL *s, REAL *vh, ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n) {
    double b[JACOBI_MOST * DENSE_MOST], v[JACOBI_MOST * JACOBI_MOST], length[JACOBI_MOST];
    int order[JACOBI_MOST];
    const ptrdiff_t few = m < n ? m : n, many = m < n ? n : m;
    for (ptrdiff_t at = 0; at < batch; at++, x += m * n, u += m * few, s += few, vh += few * n) {
        const double scale = NAME(turned_of)(x, b, v, length, order, m, n);
        if (scale == 0) return 0;
        if (!(length[order[few - 1]] > 1e-14 * length[order[0]])) return 0; /* the rows of nothing have no direction */
        for (ptrdiff_t k = 0; k < few; k++) {
            const double *const row = b + order[k] * many, *const turn = v + order[k] * few, size = length[order[k]];
            s[k] = (REAL)(size * scale);
            for (ptrdiff_t i = 0; i < m; i++) u[i * few + k] = (REAL)(m < n ? turn[i] : row[i] / size);
            for (ptrdiff_t j = 0; j < n; j++) vh[k * n + j] = (REAL)(m < n ? row[j] / size : turn[j]);
        }
    }
    return 1;
}

VECTOR static void NAME(add_products)(double *y, const double *a, const double *b, ptrdiff_t n, ptrdiff_t m) {
    for (ptrdiff_t i = 0; i < n; i++) add_row(y + i * m, b, a[i], m);
}

int NAME(dense_pinv)(const REAL *x, REAL *y, ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n) {
    double b[JACOBI_MOST * DENSE_MOST], v[JACOBI_MOST * JACOBI_MOST], length[JACOBI_MOST], sum[JACOBI_MOST * DENSE_MOST];
    int order[JACOBI_MOST];
    const ptrdiff_t few = m < n ? m : n, many = m < n ? n : m;
    const double least = (double)many * (sizeof(REAL) == 4 ? 0x1p-23 : 0x1p-52);
    for (ptrdiff_t at = 0; at < batch; at++, x += m * n, y += n * m) {
        const double scale = NAME(turned_of)(x, b, v, length, order, m, n);
        if (scale == 0) return 0;
        memset(sum, 0, sizeof(double) * (size_t)(n * m));
        for (ptrdiff_t k = 0; k < few; k++) {
            double *const turn = v + k * few, size = length[k];
            if (!(size > least * length[order[0]])) continue;
            for (ptrdiff_t i = 0; i < few; i++) turn[i] /= size * size;
            if (m < n) NAME(add_products)(sum, b + k * many, turn, n, m);
            else NAME(add_products)(sum, turn, b + k * many, n, m);
        }
        for (ptrdiff_t k = 0; k < n * m; k++) y[k] = (REAL)(sum[k] / scale);
    }
    return 1;
}

#endif
