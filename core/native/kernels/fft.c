/* Fourier transforms: as many rows at once as a vector has lanes, a row a lane, so that no pass shuffles anything. Passes of
   radix 4, 2 and small primes go from one block of memory to another and leave the numbers in order (Stockham's form; Van Loan,
   Computational Frameworks for the Fast Fourier Transform, 1992, 1.7); real rows are transformed as half as many complex
   numbers (4.3). Roots of unity are computed in double precision, once for a length, and kept. */
#ifndef REAL
#include "kernels/fft.h"

#include "kernels/copy.h"
#include "kernels/real.h"

#define PI 3.14159265358979323846

enum { BYTES = 64 /* of the lanes */, MOST_RADIX = 13 };

/* The radix of the next pass over n points; 0: none of ours. */
static ptrdiff_t radix_of(ptrdiff_t n) {
    static const char radices[] = {4, 2, 3, 5, 7, 11, MOST_RADIX};
    for (size_t k = 0; k < sizeof radices; k++)
        if (n % radices[k] == 0) return radices[k];
    return 0;
}

int fft_takes(ptrdiff_t n) {
    if (n < 1 || n > FFT_MOST) return 0;
    while (n > 1) {
        const ptrdiff_t r = radix_of(n);
        if (!r) return 0;
        n /= r;
    }
    return 1;
}

/* exp(-2 pi i k / n), exact where it is of the axes: by its place in the first eighth of the circle. */
static void root_of(ptrdiff_t k, ptrdiff_t n, double *re, double *im) {
    ptrdiff_t at = 8 * k;
    const int below = at > 4 * n;
    if (below) at = 8 * n - at;
    const int left = at > 2 * n;
    if (left) at = 4 * n - at;
    const int steep = at > n;
    if (steep) at = 2 * n - at;
    const double angle = PI / 4 * (double)at / (double)n, c = cos(angle), s = sin(angle);
    *re = left ? -(steep ? s : c) : steep ? s : c;
    *im = below ? (steep ? c : s) : -(steep ? c : s);
}

static double scale_of(ptrdiff_t n, int inverse, const char *norm) {
    if (*norm == 'o') return 1 / sqrt((double)n);
    return (*norm == 'f') == !inverse ? 1 / (double)n : 1;
}

#define KERNEL_FILE "fft.c"
#include "kernels/each_real.h"
#else

enum { NAME(LANES) = BYTES / sizeof(REAL) };
typedef REAL NAME(lanes) __attribute__((vector_size(BYTES), may_alias));
typedef struct {
    NAME(lanes) part[2]; /* the real parts of a number of each row, the imaginary ones */
} NAME(number);

/* The n roots; NULL without memory. */
static const REAL *NAME(roots_of)(ptrdiff_t n) {
    static REAL *known[FFT_MOST + 1];
    REAL *roots = __atomic_load_n(&known[n], __ATOMIC_ACQUIRE), *none = NULL;
    if (roots || !(roots = malloc(sizeof(REAL) * 2 * (size_t)n))) return roots;
    for (ptrdiff_t k = 0; k < n; k++) {
        double re, im;
        root_of(k, n, &re, &im);
        roots[2 * k] = (REAL)re, roots[2 * k + 1] = (REAL)im;
    }
    if (__atomic_compare_exchange_n(&known[n], &none, roots, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return roots;
    free(roots);
    return none;
}

/* -- passes --------------------------------------------------------------------------------------------------------- */

/* Numbers of which `re` is the real part: the other way round, a transform is the inverse one. */
typedef struct {
    NAME(number) *x, *y;
    const REAL *w; /* a root to the powers 0..r-1 */
    ptrdiff_t s, step;
    int re;
} NAME(pass);

INLINE void NAME(put)(NAME(number) *to, int re, NAME(lanes) a, NAME(lanes) b, const REAL *w) {
    to->part[re] = a * w[0] - b * w[1];
    to->part[!re] = a * w[1] + b * w[0];
}

INLINE void NAME(radix_2)(const NAME(pass) *p) {
    const int re = p->re, im = !re;
    for (ptrdiff_t q = 0; q < p->s; q++) {
        const NAME(number) *const a = p->x + q, *const b = a + p->step;
        NAME(number) *const to = p->y + q;
        to[0].part[re] = a->part[re] + b->part[re], to[0].part[im] = a->part[im] + b->part[im];
        NAME(put)(to + p->s, re, a->part[re] - b->part[re], a->part[im] - b->part[im], p->w + 2);
    }
}

INLINE void NAME(radix_4)(const NAME(pass) *p) {
    const int re = p->re, im = !re;
    for (ptrdiff_t q = 0; q < p->s; q++) {
        const NAME(number) *const a = p->x + q, *const b = a + p->step, *const c = b + p->step, *const d = c + p->step;
        NAME(number) *const to = p->y + q;
        const NAME(lanes) even_re = a->part[re] + c->part[re], even_im = a->part[im] + c->part[im];
        const NAME(lanes) odd_re = b->part[re] + d->part[re], odd_im = b->part[im] + d->part[im];
        const NAME(lanes) far_re = a->part[re] - c->part[re], far_im = a->part[im] - c->part[im];
        const NAME(lanes) turned_re = b->part[im] - d->part[im], turned_im = d->part[re] - b->part[re]; /* -i (b - d) */
        to[0].part[re] = even_re + odd_re, to[0].part[im] = even_im + odd_im;
        NAME(put)(to + p->s, re, far_re + turned_re, far_im + turned_im, p->w + 2);
        NAME(put)(to + 2 * p->s, re, even_re - odd_re, even_im - odd_im, p->w + 4);
        NAME(put)(to + 3 * p->s, re, far_re - turned_re, far_im - turned_im, p->w + 6);
    }
}

/* A prime; turns: its own roots. */
INLINE void NAME(radix_odd)(const NAME(pass) *p, ptrdiff_t r, const REAL *turns) {
    const int re = p->re, im = !re;
    for (ptrdiff_t q = 0; q < p->s; q++)
        for (ptrdiff_t k = 0; k < r; k++) {
            NAME(lanes) sum_re = p->x[q].part[re], sum_im = p->x[q].part[im];
            for (ptrdiff_t j = 1, at = k; j < r; j++, at = (at + k) % r) {
                const NAME(number) *const a = p->x + q + j * p->step;
                const REAL c = turns[2 * at], s = turns[2 * at + 1];
                sum_re += a->part[re] * c - a->part[im] * s;
                sum_im += a->part[re] * s + a->part[im] * c;
            }
            NAME(put)(p->y + q + k * p->s, re, sum_re, sum_im, p->w + 2 * k);
        }
}

/* The transform of n numbers by the roots of n * every, in one of the two blocks. */
INLINE NAME(number) *NAME(transform)(NAME(number) *x, NAME(number) *y, ptrdiff_t n, const REAL *roots, ptrdiff_t every, int re) {
    for (ptrdiff_t left = n, s = 1; left > 1;) {
        const ptrdiff_t r = radix_of(left), m = left / r;
        REAL w[2 * MOST_RADIX], turns[2 * MOST_RADIX];
        for (ptrdiff_t k = 0; k < r; k++) turns[2 * k] = roots[2 * (k * (n / r) * every)], turns[2 * k + 1] = roots[2 * (k * (n / r) * every) + 1];
        for (ptrdiff_t p = 0; p < m; p++) {
            for (ptrdiff_t k = 0; k < r; k++) w[2 * k] = roots[2 * (p * k * s * every)], w[2 * k + 1] = roots[2 * (p * k * s * every) + 1];
            const NAME(pass) pass = {x + s * p, y + s * r * p, w, s, s * m, re};
            if (r == 4) NAME(radix_4)(&pass);
            else if (r == 2) NAME(radix_2)(&pass);
            else NAME(radix_odd)(&pass, r, turns);
        }
        NAME(number) *const other = x;
        x = y, y = other;
        left = m, s *= r;
    }
    return x;
}

/* -- rows of real numbers ------------------------------------------------------------------------------------------- */

/* The transform of n real numbers from that of n / 2 complex ones, z, times a scale: the first n / 2 + 1. */
INLINE void NAME(halves_joined)(const NAME(number) *z, NAME(number) *y, ptrdiff_t n, const REAL *roots, REAL scale, REAL sign) {
    const ptrdiff_t h = n / 2;
    for (ptrdiff_t k = 0; k <= h; k++) {
        const NAME(number) *const a = z + (k < h ? k : 0), *const b = z + (k ? h - k : 0);
        const NAME(lanes) even_re = a->part[0] + b->part[0], even_im = a->part[1] - b->part[1];
        const NAME(lanes) odd_re = a->part[1] + b->part[1], odd_im = b->part[0] - a->part[0];
        const REAL c = roots[2 * k], s = roots[2 * k + 1], half = scale / 2;
        y[k].part[0] = half * (even_re + (odd_re * c - odd_im * s));
        y[k].part[1] = half * sign * (even_im + (odd_re * s + odd_im * c));
    }
}

/* The way back: from n / 2 + 1 numbers x the n / 2 whose inverse transform is the real row. */
INLINE void NAME(halves_parted)(const NAME(number) *x, NAME(number) *z, ptrdiff_t n, const REAL *roots) {
    const ptrdiff_t h = n / 2;
    for (ptrdiff_t k = 0; k < h; k++) {
        const NAME(number) *const a = x + k, *const b = x + h - k;
        const NAME(lanes) even_re = a->part[0] + b->part[0], even_im = a->part[1] - b->part[1];
        const NAME(lanes) apart_re = a->part[0] - b->part[0], apart_im = a->part[1] + b->part[1];
        const REAL c = roots[2 * k], s = -roots[2 * k + 1];
        z[k].part[0] = even_re - (apart_re * s + apart_im * c);
        z[k].part[1] = even_im + (apart_re * c - apart_im * s);
    }
}

/* In place of x, as `kind` says it, the first n / 2 + 1 numbers of which the transform is real, times a scale. */
INLINE void NAME(made_half)(NAME(number) *x, ptrdiff_t n, int kind, REAL scale, REAL sign) {
    const NAME(lanes) zero = {0};
    for (ptrdiff_t k = 0; k <= n / 2; k++) {
        NAME(number) *const a = x + k, *const b = x + (k ? n - k : 0);
        const int alone = k == 0 || 2 * k == n;
        const REAL share = kind == FFT_HALF || alone ? scale : scale / 2;
        if (kind == FFT_ALL && !alone) {
            a->part[0] = share * (a->part[0] + b->part[0]);
            a->part[1] = share * sign * (a->part[1] - b->part[1]);
        } else {
            a->part[0] = share * a->part[0];
            if (alone) a->part[1] = zero;
            else a->part[1] = share * sign * a->part[1];
        }
    }
}

/* -- all rows ------------------------------------------------------------------------------------------------------- */

typedef struct {
    const REAL *x, *roots;
    REAL *y, scale;
    ptrdiff_t rows, n, inner, from, to; /* from, to: items of a row of x and y */
    int kind, inverse, failed;
} NAME(job);

/* Rows of so many items as columns of LANES, and back. */
INLINE void NAME(rows_in)(NAME(number) *to, const REAL *from, ptrdiff_t count, ptrdiff_t items) {
    if (count < NAME(LANES)) memset(to, 0, (size_t)items * BYTES);
    exchange_items((char *)to, BYTES, (const char *)from, items * (ptrdiff_t)sizeof(REAL), count, items, sizeof(REAL));
}
INLINE void NAME(rows_out)(REAL *to, const NAME(number) *from, ptrdiff_t count, ptrdiff_t items) {
    exchange_items((char *)to, items * (ptrdiff_t)sizeof(REAL), (const char *)from, BYTES, items, count, sizeof(REAL));
}

/* Complex numbers that stand side by side, in lanes; and back, times a scale. */
INLINE void NAME(parted)(NAME(number) *to, const REAL *from, ptrdiff_t count) {
    REAL *const re = (REAL *)&to->part[0], *const im = (REAL *)&to->part[1];
    for (ptrdiff_t k = 0; k < count; k++) re[k] = from[2 * k], im[k] = from[2 * k + 1];
    for (ptrdiff_t k = count; k < NAME(LANES); k++) re[k] = im[k] = 0;
}
INLINE void NAME(paired)(REAL *to, const NAME(number) *from, ptrdiff_t count, REAL scale) {
    const REAL *const re = (const REAL *)&from->part[0], *const im = (const REAL *)&from->part[1];
    for (ptrdiff_t k = 0; k < count; k++) to[2 * k] = scale * re[k], to[2 * k + 1] = scale * im[k];
}

/* Of blocks of LANES columns each, counted over all matrices (n, inner) of complex numbers. */
VECTOR static void NAME(columns_turned)(const NAME(job) *j, ptrdiff_t item, NAME(number) *a, NAME(number) *b) {
    const ptrdiff_t blocks = (j->inner + NAME(LANES) - 1) / NAME(LANES), first = item % blocks * NAME(LANES);
    const ptrdiff_t left = j->inner - first, count = left < NAME(LANES) ? left : NAME(LANES), n = j->n;
    const ptrdiff_t begin = 2 * (item / blocks * n * j->inner + first);
    for (ptrdiff_t k = 0; k < n; k++) NAME(parted)(a + k, j->x + begin + 2 * k * j->inner, count);
    const NAME(number) *const found = NAME(transform)(a, b, n, j->roots, 1, j->inverse);
    for (ptrdiff_t k = 0; k < n; k++) NAME(paired)(j->y + begin + 2 * k * j->inner, found + k, count, j->scale);
}

VECTOR static void NAME(rows_turned)(const NAME(job) *j, const REAL *x, REAL *y, ptrdiff_t count, NAME(number) *a, NAME(number) *b) {
    const ptrdiff_t n = j->n;
    NAME(rows_in)(a, x, count, 2 * n);
    NAME(number) *const found = NAME(transform)(a, b, n, j->roots, 1, j->inverse);
    for (ptrdiff_t k = 0; j->scale != 1 && k < n; k++) found[k].part[0] *= j->scale, found[k].part[1] *= j->scale;
    NAME(rows_out)(y, found, count, 2 * n);
}

VECTOR static void NAME(real_turned)(const NAME(job) *j, const REAL *x, REAL *y, ptrdiff_t count, NAME(number) *a, NAME(number) *b) {
    const ptrdiff_t n = j->n, half = n / 2;
    const REAL sign = j->inverse ? -1 : 1;
    const NAME(lanes) zero = {0};
    NAME(number) *found;
    if (n % 2 == 0) {
        NAME(rows_in)(a, x, count, n);
        NAME(number) *const z = NAME(transform)(a, b, half, j->roots, 2, 0);
        found = z == a ? b : a;
        NAME(halves_joined)(z, found, n, j->roots, j->scale, sign);
    } else {
        NAME(rows_in)(b, x, count, n);
        for (ptrdiff_t k = 0; k < n; k++) a[k].part[0] = ((const NAME(lanes) *)b)[k], a[k].part[1] = zero;
        found = NAME(transform)(a, b, n, j->roots, 1, 0);
        for (ptrdiff_t k = 0; k <= half; k++) found[k].part[0] *= j->scale, found[k].part[1] *= sign * j->scale;
    }
    for (ptrdiff_t k = 1; j->kind == FFT_ALL && 2 * k < n; k++) found[n - k].part[0] = found[k].part[0], found[n - k].part[1] = -found[k].part[1];
    NAME(rows_out)(y, found, count, j->to);
}

VECTOR static void NAME(turned_real)(const NAME(job) *j, const REAL *x, REAL *y, ptrdiff_t count, NAME(number) *a, NAME(number) *b) {
    const ptrdiff_t n = j->n, half = n / 2;
    NAME(rows_in)(a, x, count, j->from);
    NAME(made_half)(a, n, j->kind, j->scale, j->inverse ? 1 : -1);
    if (n % 2 == 0) {
        NAME(halves_parted)(a, b, n, j->roots);
        NAME(rows_out)(y, NAME(transform)(b, a, half, j->roots, 2, 1), count, n);
    } else {
        for (ptrdiff_t k = 1; k <= half; k++) a[n - k].part[0] = a[k].part[0], a[n - k].part[1] = -a[k].part[1];
        NAME(number) *const found = NAME(transform)(a, b, n, j->roots, 1, 1), *const other = found == a ? b : a;
        for (ptrdiff_t k = 0; k < n; k++) ((NAME(lanes) *)other)[k] = found[k].part[0];
        NAME(rows_out)(y, other, count, n);
    }
}

enum { NAME(C2C), NAME(R2C), NAME(C2R) };

static void NAME(run)(NAME(job) *j, int what, ptrdiff_t begin, ptrdiff_t end) {
    const size_t each = sizeof(NAME(number)) * ((size_t)j->n + 1);
    char *const memory = malloc(2 * each + BYTES);
    if (!memory) return (void)(j->failed = 1);
    NAME(number) *const a = (void *)(((uintptr_t)memory + BYTES - 1) & ~(uintptr_t)(BYTES - 1)), *const b = a + j->n + 1;
    for (ptrdiff_t item = begin; item < end; item++) {
        if (what == NAME(C2C) && j->inner > 1) {
            NAME(columns_turned)(j, item, a, b);
            continue;
        }
        const ptrdiff_t row = item * NAME(LANES), count = j->rows - row < NAME(LANES) ? j->rows - row : NAME(LANES);
        const REAL *const x = j->x + row * j->from;
        REAL *const y = j->y + row * j->to;
        if (what == NAME(C2C)) NAME(rows_turned)(j, x, y, count, a, b);
        else if (what == NAME(R2C)) NAME(real_turned)(j, x, y, count, a, b);
        else NAME(turned_real)(j, x, y, count, a, b);
    }
    free(memory);
}

static void NAME(run_c2c)(void *job, ptrdiff_t begin, ptrdiff_t end) { NAME(run)(job, NAME(C2C), begin, end); }
static void NAME(run_r2c)(void *job, ptrdiff_t begin, ptrdiff_t end) { NAME(run)(job, NAME(R2C), begin, end); }
static void NAME(run_c2r)(void *job, ptrdiff_t begin, ptrdiff_t end) { NAME(run)(job, NAME(C2R), begin, end); }

static int NAME(run_all)(NAME(job) *j, ptrdiff_t blocks, parallel_body body) {
    if (!(j->roots = NAME(roots_of)(j->n))) return 0;
    parallel_for(blocks, 16.0 * (double)(blocks * NAME(LANES)) * (double)j->n, body, j);
    return !j->failed;
}

int NAME(fft_c2c)(const REAL *x, REAL *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner, int inverse, const char *norm) {
    NAME(job) job = {.x = x, .y = y, .scale = (REAL)scale_of(n, inverse, norm), .rows = outer, .n = n, .inner = inner,
                     .from = 2 * n, .to = 2 * n, .inverse = inverse};
    const ptrdiff_t lanes = inner > 1 ? inner : outer, blocks = (lanes + NAME(LANES) - 1) / NAME(LANES);
    return NAME(run_all)(&job, inner > 1 ? outer * blocks : blocks, NAME(run_c2c));
}

int NAME(fft_r2c)(const REAL *x, REAL *y, ptrdiff_t rows, ptrdiff_t n, int kind, int inverse, const char *norm) {
    NAME(job) job = {.x = x, .y = y, .scale = (REAL)scale_of(n, inverse, norm), .rows = rows, .n = n, .from = n,
                     .to = kind == FFT_ALL ? 2 * n : n / 2 * 2 + 2, .kind = kind, .inverse = inverse};
    return NAME(run_all)(&job, (rows + NAME(LANES) - 1) / NAME(LANES), NAME(run_r2c));
}

int NAME(fft_c2r)(const REAL *x, REAL *y, ptrdiff_t rows, ptrdiff_t n, int kind, int inverse, const char *norm) {
    NAME(job) job = {.x = x, .y = y, .scale = (REAL)scale_of(n, inverse, norm), .rows = rows, .n = n,
                     .from = kind == FFT_ALL ? 2 * n : n / 2 * 2 + 2, .to = n, .kind = kind, .inverse = inverse};
    return NAME(run_all)(&job, (rows + NAME(LANES) - 1) / NAME(LANES), NAME(run_c2r));
}

#endif
