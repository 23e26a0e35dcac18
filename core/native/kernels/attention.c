/* Scaled dot product attention, head by head: y = softmax(q k^T scale + mask) v, and its gradients.

   A head's keys and values are packed into panels, which stay in L2. Forward, eight queries at a time: their
   scores (sums.h), the softmax while they are in L1, their share of the values. Only the logarithm of each
   row's sum is kept: the backward pass makes the weights again from it, sixty-four queries at a time, so that
   memory grows with the length and not with its square. A causal row ends at the diagonal, and tiles beyond
   it are never made. Heads are divided among the threads; no head's result depends on how.

   Floating-point operations: 2 l s (d + dv) forward, 4 l s (d + dv) + 2 l s d backward; half of that when causal.
   Source: Dao, Fu, Ermon, Rudra, Re, arXiv 2205.14135 (the logarithms kept, the weights made again). */
#ifndef REAL
#include "runtime/paths.h"
#include "kernels/real.h"
#include "kernels/tiling.h"

enum { ROWS = 64 }; /* queries whose gradients are added up together, if the tuner has chosen nothing else */

#define KERNEL_FILE "attention.c"
#include "kernels/each_real.h"
#else
#include "kernels/rows.h"
#include "kernels/sums.h"

typedef struct {
    const attention_shape *s;
    const attention_arrays *a;
    ptrdiff_t keys, width, value_width; /* s, d and dv filled up to whole panels */
    ptrdiff_t rows;                     /* of a block in the backward pass */
    int failed;
} NAME(attention);

INLINE ptrdiff_t NAME(padded)(ptrdiff_t n) { return (n + NAME(PANEL) - 1) / NAME(PANEL) * NAME(PANEL); }

/* The items of one head. */
#define HEAD(x) ((REAL *)(x).data + b * (x).stride[0] + h * (x).stride[1])

/* panels (columns / PANEL, rows, PANEL) of w, whose rows are `stride` apart */
VECTOR static void NAME(pack)(const REAL *w, ptrdiff_t stride, ptrdiff_t rows, ptrdiff_t columns, REAL *panels) {
    for (ptrdiff_t j = 0; j < columns; j += NAME(PANEL)) {
        const ptrdiff_t width = columns - j < NAME(PANEL) ? columns - j : NAME(PANEL);
        for (ptrdiff_t i = 0; i < rows; i++, panels += NAME(PANEL)) {
            memcpy(panels, w + i * stride + j, sizeof(REAL) * (size_t)width);
            for (ptrdiff_t k = width; k < NAME(PANEL); k++) panels[k] = 0;
        }
    }
}

/* panels (rows / PANEL, columns, PANEL) of the transpose of w */
VECTOR static void NAME(pack_turned)(const REAL *w, ptrdiff_t stride, ptrdiff_t rows, ptrdiff_t columns,
                                     REAL *panels) {
    for (ptrdiff_t j = 0; j < rows; j += NAME(PANEL), panels += columns * NAME(PANEL)) {
        const ptrdiff_t width = rows - j < NAME(PANEL) ? rows - j : NAME(PANEL);
        if (width < NAME(PANEL)) memset(panels, 0, sizeof(REAL) * (size_t)(columns * NAME(PANEL)));
        for (ptrdiff_t i = 0; i < columns; i += 16) {
            const ptrdiff_t last = i + 16 < columns ? i + 16 : columns;
            for (ptrdiff_t r = 0; r < width; r++)
                for (ptrdiff_t k = i; k < last; k++) panels[k * NAME(PANEL) + r] = w[(j + r) * stride + k];
        }
    }
}

/* How many keys the queries before `end` may see. */
INLINE ptrdiff_t NAME(seen)(const attention_shape *s, ptrdiff_t end) { return s->causal && end < s->s ? end : s->s; }

/* Scores of row i of head (b, h): scaled, masked, -infinity from where it sees nothing to `padded`. */
VECTOR static void NAME(mask_row)(const NAME(attention) * c, ptrdiff_t b, ptrdiff_t h, ptrdiff_t i, REAL *x,
                                  ptrdiff_t padded) {
    const attention_shape *s = c->s;
    const ptrdiff_t n = NAME(seen)(s, i + 1), *at = c->a->mask.stride, step = at[3];
    const REAL scale = (REAL)s->scale;
    if (s->mask == ATTENTION_ADDED) {
        const REAL *m = (const REAL *)c->a->mask.data + b * at[0] + h * at[1] + i * at[2];
        for (ptrdiff_t j = 0; j < n; j++) x[j] = x[j] * scale + m[j * step];
    } else if (s->mask == ATTENTION_ALLOWED) {
        const char *m = (const char *)c->a->mask.data + b * at[0] + h * at[1] + i * at[2];
        for (ptrdiff_t j = 0; j < n; j++) x[j] = m[j * step] ? x[j] * scale : -(REAL)INFINITY;
    } else {
        INDEPENDENT
        for (ptrdiff_t j = 0; j < n; j++) x[j] *= scale;
    }
    for (ptrdiff_t j = n; j < padded; j++) x[j] = -(REAL)INFINITY;
}

/* x becomes e^(x - its largest); the sum, and that largest number in *top. A row of -infinity becomes 0. */
VECTOR static REAL NAME(exponentials)(REAL *x, ptrdiff_t n, REAL *top) {
    REAL largest = NAME(row_max)(x, n), sum = 0;
    if (largest == -(REAL)INFINITY) {
        int numbers = 1;
        for (ptrdiff_t j = 0; j < n; j++) numbers &= x[j] == x[j];
        if (numbers) {
            memset(x, 0, sizeof(REAL) * (size_t)n);
            *top = (REAL)INFINITY; /* e^(score - it) is 0 in the backward pass too */
            return 1;
        }
        largest = 0;
    }
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t j = 0; j < n; j++) {
        x[j] = NAME(sm_exp_falling)(x[j] - largest);
        sum += x[j];
    }
    *top = largest;
    return sum;
}

/* `tile` for all panels of the right factor. */
INLINE void NAME(products)(int rows, ptrdiff_t n, const REAL *a, ptrdiff_t lda, const REAL *panels, ptrdiff_t count,
                           REAL *out, ptrdiff_t ldo) {
    for (ptrdiff_t p = 0; p < count; p++)
        NAME(tile)(rows, n, a, lda, panels + p * n * NAME(PANEL), out + p * NAME(PANEL), ldo, 0);
}

/* out (rows, count panels) has the product of turned a (n, rows) and the panels added to it. */
INLINE void NAME(add_products)(ptrdiff_t rows, ptrdiff_t n, const REAL *a, ptrdiff_t lda, const REAL *panels,
                               ptrdiff_t count, REAL *out, ptrdiff_t ldo) {
    for (ptrdiff_t j = 0; j < rows; j += TILE)
        for (ptrdiff_t p = 0; p < count; p++)
            NAME(tile_turned)((int)(rows - j < TILE ? rows - j : TILE), n, a + j, lda, panels + p * n * NAME(PANEL),
                              out + j * ldo + p * NAME(PANEL), ldo, 1);
}

/* --- forward --- */

VECTOR static void NAME(attention_heads)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(attention) *c = context;
    const attention_shape *s = c->s;
    const attention_arrays *a = c->a;
    const ptrdiff_t W = NAME(PANEL), parts = c->keys * (s->d + TILE) + s->s * c->value_width + TILE * c->value_width;
    REAL *turned = malloc(sizeof(REAL) * (size_t)parts);
    if (!turned) {
        c->failed = 1;
        return;
    }
    REAL *values = turned + c->keys * s->d, *x = values + s->s * c->value_width, *out = x + TILE * c->keys;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t b = item / s->heads, h = item % s->heads;
        const REAL *q = HEAD(a->q);
        REAL *y = HEAD(a->y), *logs = HEAD(a->logs);
        NAME(pack_turned)(HEAD(a->k), a->k.stride[2], s->s, s->d, turned);
        NAME(pack)(HEAD(a->v), a->v.stride[2], s->s, s->dv, values);
        for (ptrdiff_t i = 0; i < s->l; i += TILE) {
            const ptrdiff_t rows = s->l - i < TILE ? s->l - i : TILE, seen = NAME(seen)(s, i + rows);
            const ptrdiff_t panels = (seen + W - 1) / W;
            NAME(products)((int)rows, s->d, q + i * a->q.stride[2], a->q.stride[2], turned, panels, x, c->keys);
            REAL scales[TILE];
            for (ptrdiff_t r = 0; r < rows; r++) {
                REAL top;
                NAME(mask_row)(c, b, h, i + r, x + r * c->keys, panels * W);
                const REAL sum = NAME(exponentials)(x + r * c->keys, panels * W, &top);
                scales[r] = 1 / sum;
                logs[i + r] = top + NAME(sm_log)(sum);
            }
            for (ptrdiff_t p = 0; p * W < s->dv; p++) {
                const ptrdiff_t width = s->dv - p * W < W ? s->dv - p * W : W;
                NAME(tile)((int)rows, seen, x, c->keys, values + p * s->s * W, out, W, 0);
                for (ptrdiff_t r = 0; r < rows; r++) {
                    REAL *to = y + (i + r) * a->y.stride[2] + p * W;
                    for (ptrdiff_t j = 0; j < width; j++) to[j] = out[r * W + j] * scales[r];
                }
            }
        }
    }
    free(turned);
}

/* --- backward --- */

/* x (the scores) becomes the weights, g (the gradients of the weights) those of the products q k. */
VECTOR static void NAME(gradient_row)(REAL *x, REAL *g, ptrdiff_t n, REAL log_sum, REAL scale) {
    REAL dot = 0;
#pragma omp simd reduction(+ : dot)
    for (ptrdiff_t j = 0; j < n; j++) {
        x[j] = NAME(sm_exp_falling)(x[j] - log_sum);
        dot += x[j] * g[j];
    }
    INDEPENDENT
    for (ptrdiff_t j = 0; j < n; j++) g[j] = x[j] * (g[j] - dot) * scale;
}

INLINE void NAME(copy_rows)(const REAL *from, ptrdiff_t ldf, ptrdiff_t rows, ptrdiff_t columns, REAL *to,
                            ptrdiff_t ldt) {
    for (ptrdiff_t r = 0; r < rows; r++) memcpy(to + r * ldt, from + r * ldf, sizeof(REAL) * (size_t)columns);
}

VECTOR static void NAME(attention_gradients)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(attention) *c = context;
    const attention_shape *s = c->s;
    const attention_arrays *a = c->a;
    const ptrdiff_t W = NAME(PANEL), S = c->keys, D = c->width, V = c->value_width, B = c->rows;
    const ptrdiff_t parts = S * (s->d + s->dv) + s->s * D + 2 * B * S + (B + s->s + TILE) * (D + V) + TILE * D;
    REAL *turned = malloc(sizeof(REAL) * (size_t)parts);
    if (!turned) {
        c->failed = 1;
        return;
    }
    REAL *turned_values = turned + S * s->d, *keys = turned_values + S * s->dv, *x = keys + s->s * D;
    REAL *gx = x + B * S, *queries = gx + B * S, *given = queries + B * D;
    REAL *gk = given + B * V, *gv = gk + (s->s + TILE) * D, *out = gv + (s->s + TILE) * V;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t b = item / s->heads, h = item % s->heads;
        const REAL *q = HEAD(a->q), *k = HEAD(a->k), *v = HEAD(a->v), *g = HEAD(a->g), *logs = HEAD(a->logs);
        NAME(pack_turned)(k, a->k.stride[2], s->s, s->d, turned);
        NAME(pack_turned)(v, a->v.stride[2], s->s, s->dv, turned_values);
        NAME(pack)(k, a->k.stride[2], s->s, s->d, keys);
        memset(gk, 0, sizeof(REAL) * (size_t)((s->s + TILE) * (D + V)));
        for (ptrdiff_t block = 0; block < s->l; block += B) {
            const ptrdiff_t count = s->l - block < B ? s->l - block : B, seen = NAME(seen)(s, block + count);
            const ptrdiff_t panels = (seen + W - 1) / W;
            for (ptrdiff_t i = 0; i < count; i += TILE) {
                const ptrdiff_t rows = count - i < TILE ? count - i : TILE, row = block + i;
                NAME(products)((int)rows, s->d, q + row * a->q.stride[2], a->q.stride[2], turned, panels, x + i * S, S);
                NAME(products)((int)rows, s->dv, g + row * a->g.stride[2], a->g.stride[2], turned_values, panels,
                               gx + i * S, S);
                for (ptrdiff_t r = i; r < i + rows; r++) {
                    NAME(mask_row)(c, b, h, block + r, x + r * S, panels * W);
                    NAME(gradient_row)(x + r * S, gx + r * S, panels * W, logs[block + r], (REAL)s->scale);
                }
                for (ptrdiff_t p = 0; p * W < s->d; p++) {
                    NAME(tile)((int)rows, seen, gx + i * S, S, keys + p * s->s * W, out, W, 0);
                    NAME(copy_rows)(out, W, rows, s->d - p * W < W ? s->d - p * W : W,
                                    HEAD(a->gq) + row * a->gq.stride[2] + p * W, a->gq.stride[2]);
                }
            }
            NAME(pack)(q + block * a->q.stride[2], a->q.stride[2], count, s->d, queries);
            NAME(pack)(g + block * a->g.stride[2], a->g.stride[2], count, s->dv, given);
            NAME(add_products)(seen, count, gx, S, queries, D / W, gk, D);
            NAME(add_products)(seen, count, x, S, given, V / W, gv, V);
        }
        NAME(copy_rows)(gk, D, s->s, s->d, HEAD(a->gk), a->gk.stride[2]);
        NAME(copy_rows)(gv, V, s->s, s->dv, HEAD(a->gv), a->gv.stride[2]);
    }
    free(turned);
}

static int NAME(over_heads)(int kernel, const attention_shape *s, const attention_arrays *a, parallel_body body,
                            double factor) {
    const kernel_choice *as = choice_for(kernel, sizeof(REAL), s->outer * s->heads, s->l, s->s, s->d);
    NAME(attention)
    c = {s, a, NAME(padded)(s->s), NAME(padded)(s->d), NAME(padded)(s->dv), as->rows ? as->rows : ROWS, 0};
    if (kernel == CHOOSE_ATTENTION_BACKWARD && s->l > c.rows) took(PATH_attention_row_blocks);
    const double pairs = (double)s->outer * (double)s->heads * (double)s->l * (double)s->s * (s->causal ? 0.5 : 1);
    parallel_for_as(as, s->outer * s->heads, factor * pairs * (20 + 0.15 * (double)(s->d + s->dv)), body, &c);
    return !c.failed;
}

int NAME(attention_forward)(const attention_shape *s, const attention_arrays *a) {
    return NAME(over_heads)(CHOOSE_ATTENTION, s, a, NAME(attention_heads), 1);
}

int NAME(attention_backward)(const attention_shape *s, const attention_arrays *a) {
    return NAME(over_heads)(CHOOSE_ATTENTION_BACKWARD, s, a, NAME(attention_gradients), 2.5);
}

#endif
