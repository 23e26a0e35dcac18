/* Arrays with a border of their own items: reflected, repeated or from the other side. */
#ifndef REAL
#include "kernels/border.h"

#include "kernels/real.h"

enum { REFLECTED, REPLICATED, CIRCULAR };

/* The item that place `at` of an axis of n shows. */
static ptrdiff_t shown_at(int mode, ptrdiff_t at, ptrdiff_t n) {
    if (at >= 0 && at < n) return at;
    if (mode == REPLICATED) return at < 0 ? 0 : n - 1;
    if (mode == REFLECTED) return at < 0 ? -at : 2 * (n - 1) - at;
    return at < 0 ? at + n : at - n;
}

int border_planned(border_plan *p, const ptrdiff_t *shape, int ndim, const ptrdiff_t *border, int pairs, const char *mode, int back) {
    const int how = !strcmp(mode, "reflect") ? REFLECTED : !strcmp(mode, "replicate") ? REPLICATED : !strcmp(mode, "circular") ? CIRCULAR : -1;
    if (how < 0 || pairs != ndim || ndim < 1 || ndim > BORDER_ALL) return 0;
    p->ndim = ndim;
    p->strides_there = 0;
    p->outer = 1;
    for (int d = 0; d < BORDER_AXES; d++) p->size[d] = p->wide[d] = 1, p->before[d] = 0, p->at[d][0] = 0;
    for (int k = 0; k < ndim; k++) {
        const int d = ndim - 1 - k;
        const ptrdiff_t n = shape[k], before = border[2 * k], after = border[2 * k + 1];
        p->shape[k] = n;
        if (d >= BORDER_AXES) {
            if (before || after) return 0;
            p->outer *= n;
            continue;
        }
        const ptrdiff_t most = how == REFLECTED ? n - 1 : how == CIRCULAR ? n : BORDER_MOST;
        if (n < 1 || n > BORDER_MOST || before < 0 || after < 0 || before > most || after > most || n + before + after > BORDER_MOST) return 0;
        p->size[d] = n, p->wide[d] = n + before + after, p->before[d] = before;
        if (!back) p->shape[k] = p->wide[d];
        for (ptrdiff_t i = 0; i < p->wide[d]; i++) p->at[d][i] = (int32_t)shown_at(how, i - before, n);
    }
    return 1;
}

#define BORDER_ROW(T)                                                                                                 \
    do {                                                                                                              \
        for (ptrdiff_t k = 0; k < before; k++) ((T *)to)[k] = ((const T *)from)[p->at[0][k]];                         \
        for (ptrdiff_t k = before + p->size[0]; k < p->wide[0]; k++) ((T *)to)[k] = ((const T *)from)[p->at[0][k]];   \
    } while (0)

static void border_row(const border_plan *p, char *to, const char *from, ptrdiff_t item) {
    const ptrdiff_t before = p->before[0];
    memcpy(to + before * item, from, (size_t)(p->size[0] * item));
    if (item == 4) BORDER_ROW(uint32_t);
    else if (item == 8) BORDER_ROW(uint64_t);
    else BORDER_ROW(uint8_t);
}

typedef struct {
    const border_plan *p;
    const char *x;
    char *y;
    ptrdiff_t item;
} border_job;

/* Arrays of three axes begin..end-1. */
static void copy_bordered(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const border_job *j = context;
    const border_plan *p = j->p;
    const ptrdiff_t item = j->item, all = p->size[0] * p->size[1] * p->size[2] * item, row = p->wide[0] * item;
    char *to = j->y + begin * p->wide[2] * p->wide[1] * row;
    for (ptrdiff_t o = begin; o < end; o++)
        for (ptrdiff_t i = 0; i < p->wide[2]; i++)
            for (ptrdiff_t k = 0; k < p->wide[1]; k++, to += row)
                border_row(p, to, j->x + o * all + (p->at[2][i] * p->size[1] + p->at[1][k]) * p->size[0] * item, item);
}

void border_copied(const border_plan *p, const char *x, char *y, ptrdiff_t item) {
    border_job job = {p, x, y, item};
    parallel_for(p->outer, 0.5 * (double)(p->outer * p->wide[0] * p->wide[1] * p->wide[2] * item), copy_bordered, &job);
}

#define KERNEL_FILE "border.c"
#include "kernels/each_real.h"
#else

typedef struct {
    const border_plan *p;
    const REAL *g;
    REAL *gx;
} NAME(border_job);

VECTOR static void NAME(sum_bordered)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(border_job) *j = context;
    const border_plan *p = j->p;
    const ptrdiff_t n = p->size[0], all = n * p->size[1] * p->size[2], before = p->before[0], wide = p->wide[0];
    const REAL *g = j->g + begin * p->wide[2] * p->wide[1] * wide;
    memset(j->gx + begin * all, 0, sizeof(REAL) * (size_t)((end - begin) * all));
    for (ptrdiff_t o = begin; o < end; o++)
        for (ptrdiff_t i = 0; i < p->wide[2]; i++)
            for (ptrdiff_t k = 0; k < p->wide[1]; k++, g += wide) {
                REAL *const to = j->gx + o * all + (p->at[2][i] * p->size[1] + p->at[1][k]) * n;
                const REAL *const inside = g + before;
                INDEPENDENT
                for (ptrdiff_t c = 0; c < n; c++) to[c] += inside[c];
                for (ptrdiff_t c = 0; c < before; c++) to[p->at[0][c]] += g[c];
                for (ptrdiff_t c = before + n; c < wide; c++) to[p->at[0][c]] += g[c];
            }
}

void NAME(border_summed)(const border_plan *p, const REAL *g, REAL *gx) {
    NAME(border_job) job = {p, g, gx};
    parallel_for(p->outer, 2.0 * (double)(p->outer * p->wide[0] * p->wide[1] * p->wide[2]), NAME(sum_bordered), &job);
}

#endif
