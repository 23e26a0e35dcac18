/* Group norm, forward and backward: a group of a sample at a time, whose channels lie side by side and stay in the cache.

   Forward: y = (x - mean) rstd w + b; the variance from a second pass, so that nothing cancels. Backward, with off = x - mean,
   n items a group, and the sums of g and of g off for each channel: gx = g w rstd - rstd (S + off rstd^2 P) / n, where S and P
   are those sums over the group, each channel's times its weight; gw = sum(g off) rstd and gb = sum(g) over the samples.
   Sums go in pieces that are added in double in their order: nothing depends on the threads.

   Bytes: x three times and y once, forward; g and x twice and gx once, backward; all but the first times from the cache.
   Source: Wu and He, Group Normalization, arXiv:1803.08494. */
#ifndef REAL
#include "runtime/paths.h"
#include "kernels/real.h"

enum { PIECE = 1024 };

#define KERNEL_FILE "group_norm.c"
#include "kernels/each_real.h"
#else
#include "kernels/lines.h"

typedef struct {
    const group_shape *s;
    const REAL *x, *w, *b, *g;
    REAL *y, *mean, *rstd, *sums, *products; /* y or gx; sums, products (samples, channels) */
    REAL eps;
    const behind_norm *behind;
} NAME(grouped);

VECTOR static void NAME(group_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(grouped) *c = context;
    const ptrdiff_t size = c->s->size, inside = c->s->inside, n = inside * size;
    for (ptrdiff_t item = begin; item < end; item++) {
        const REAL *x = c->x + item * n;
        REAL *y = c->y + item * n;
        double total = 0, squares = 0;
        for (ptrdiff_t i = 0; i < n; i += PIECE) total += (double)NAME(sum_line)(x + i, n - i < PIECE ? n - i : PIECE);
        const REAL mean = (REAL)(total / (double)n);
        for (ptrdiff_t i = 0; i < n; i += PIECE)
            squares += (double)NAME(squares_line)(x + i, mean, n - i < PIECE ? n - i : PIECE);
        const REAL rstd = 1 / NAME(sm_sqrt)((REAL)(squares / (double)n) + c->eps);
        const ptrdiff_t first = item % c->s->groups * inside;
        for (ptrdiff_t k = 0; k < inside; k++, x += size, y += size) {
            const REAL scale = c->w ? rstd * c->w[first + k] : rstd, shift = c->b ? c->b[first + k] : 0;
            INDEPENDENT
            for (ptrdiff_t i = 0; i < size; i++) y[i] = (x[i] - mean) * scale + shift;
        }
        c->mean[item] = mean, c->rstd[item] = rstd;
    }
}

void NAME(group_norm_forward)(const group_shape *s, const REAL *x, const REAL *w, const REAL *b, REAL *y, REAL *mean,
                              REAL *rstd, double eps) {
    NAME(grouped) c = {.s = s, .x = x, .w = w, .b = b, .y = y, .mean = mean, .rstd = rstd, .eps = (REAL)eps};
    parallel_for(s->samples * s->groups, 4.0 * (double)(s->samples * s->groups * s->inside * s->size),
                 NAME(group_items), &c);
}

VECTOR static void NAME(group_back_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(grouped) *c = context;
    const ptrdiff_t size = c->s->size, inside = c->s->inside, n = inside * size;
    REAL line[PIECE];
    for (ptrdiff_t item = begin; item < end; item++) {
        const REAL *x = c->x + item * n, mean = c->mean[item], rstd = c->rstd[item];
        const ptrdiff_t first = item % c->s->groups * inside;
        double total = 0, with_off = 0;
        for (ptrdiff_t k = 0; k < inside; k++) {
            double sums = 0, products = 0;
            for (ptrdiff_t i = 0; i < size; i += PIECE) {
                const ptrdiff_t at = k * size + i, count = size - i < PIECE ? size - i : PIECE;
                REAL product, *to = c->y ? c->y + item * n + at : line;
                const REAL *g = given_behind(c->behind, c->g, item * n + at, count, sizeof(REAL), to);
                sums += (double)NAME(sum_and_product)(g, x + at, mean, count, &product);
                products += (double)product;
            }
            const double weight = c->w ? (double)c->w[first + k] : 1;
            total += weight * sums, with_off += weight * products;
            c->sums[item * inside + k] = (REAL)sums, c->products[item * inside + k] = (REAL)products;
        }
        if (!c->y) continue;
        REAL *to = c->y + item * n;
        const REAL *g = c->behind ? to : c->g + item * n;
        const REAL of_off = (REAL)(-with_off / (double)n) * rstd * rstd * rstd;
        const REAL shift = (REAL)(-total / (double)n) * rstd;
        for (ptrdiff_t k = 0; k < inside; k++, x += size, g += size, to += size) {
            const REAL scale = c->w ? rstd * c->w[first + k] : rstd;
            INDEPENDENT
            for (ptrdiff_t i = 0; i < size; i++) to[i] = g[i] * scale + ((x[i] - mean) * of_off + shift);
        }
    }
}

void NAME(group_norm_backward)(const group_shape *s, const REAL *g, const behind_norm *behind, const REAL *x,
                               const REAL *w, const REAL *mean, const REAL *rstd, REAL *gx, REAL *gw, REAL *gb,
                               REAL *sums, REAL *products) {
    NAME(grouped) c = {.s = s, .x = x, .w = w, .g = g, .y = gx, .mean = (REAL *)mean, .rstd = (REAL *)rstd, .sums = sums,
                       .products = products, .behind = behind};
    if (behind) took(PATH_norm_behind);
    const ptrdiff_t channels = s->groups * s->inside;
    parallel_for(s->samples * s->groups, 5.0 * (double)(s->samples * channels * s->size), NAME(group_back_items), &c);
    for (ptrdiff_t k = 0; k < channels; k++) {
        double of_w = 0, of_b = 0;
        for (ptrdiff_t n = 0; n < s->samples; n++) {
            of_w += (double)(products[n * channels + k] * rstd[n * s->groups + k / s->inside]);
            of_b += (double)sums[n * channels + k];
        }
        gw[k] = (REAL)of_w, gb[k] = (REAL)of_b;
    }
}

#endif
