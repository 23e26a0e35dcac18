/* Connectionist temporal classification: the chance of all alignments of a sequence that read as its labels, by a pass over
   them forwards and, for the gradient, one backwards (Graves et al., ICML 2006, 4.1). The places of an alignment are the labels
   with a blank before, between and behind; chances stay logarithms, since products of so many would vanish. */
#ifndef REAL
#include "kernels/ctc.h"

#include "kernels/real.h"

static int in_range(const ctc_shape *s) {
    if (s->blank < 0 || s->blank >= s->classes || s->times < 1) return 0;
    for (ptrdiff_t k = 0; k < s->count; k++) {
        if (s->steps[k] < 1 || s->steps[k] > s->times || s->lengths[k] < 0 || s->lengths[k] > s->most) return 0;
        for (ptrdiff_t i = 0; i < s->lengths[k]; i++)
            if (s->labels[k * s->most + i] < 0 || s->labels[k * s->most + i] >= s->classes) return 0;
    }
    return 1;
}

#define KERNEL_FILE "ctc.c"
#include "kernels/each_real.h"
#else

typedef struct {
    const ctc_shape *s;
    const REAL *x, *g;
    REAL *y;
    int failed;
} NAME(job);

/* One sequence: its class at each place, whether the place before the last one may be left out, and where its rows are. */
typedef struct {
    const REAL *x;
    ptrdiff_t row, times, places;
    ptrdiff_t *path;
    char *skips;
} NAME(sequence);

/* log(e^a + e^b) */
INLINE REAL NAME(joined)(REAL a, REAL b) {
    const REAL top = a > b ? a : b, low = a > b ? b : a;
    return low == -(REAL)INFINITY ? top : top + NAME(sm_log1p)(NAME(sm_exp)(low - top));
}

static NAME(sequence) NAME(sequence_of)(const NAME(job) *j, ptrdiff_t k, ptrdiff_t *path, char *skips) {
    const ctc_shape *const s = j->s;
    NAME(sequence) q = {j->x + k * s->classes, s->count * s->classes, s->steps[k], 2 * s->lengths[k] + 1, path, skips};
    for (ptrdiff_t i = 0; i < q.places; i++) {
        path[i] = i & 1 ? (ptrdiff_t)s->labels[k * s->most + i / 2] : s->blank;
        skips[i] = i > 1 && path[i] != s->blank && path[i] != path[i - 2];
    }
    return q;
}

/* alpha (times, places): of all alignments up to a step that end at a place. The loss. */
static REAL NAME(forwards)(const NAME(sequence) *q, REAL *alpha) {
    const ptrdiff_t n = q->places;
    for (ptrdiff_t i = 0; i < n; i++) alpha[i] = i < 2 ? q->x[q->path[i]] : -(REAL)INFINITY;
    for (ptrdiff_t t = 1; t < q->times; t++) {
        const REAL *const x = q->x + t * q->row, *const before = alpha + (t - 1) * n;
        REAL *const now = alpha + t * n;
        for (ptrdiff_t i = 0; i < n; i++) {
            REAL ways = i ? NAME(joined)(before[i], before[i - 1]) : before[i];
            if (q->skips[i]) ways = NAME(joined)(ways, before[i - 2]);
            now[i] = ways + x[q->path[i]];
        }
    }
    const REAL *const last = alpha + (q->times - 1) * n;
    return -(n > 1 ? NAME(joined)(last[n - 1], last[n - 2]) : last[0]);
}

/* gx of the sequence += -factor times the share that each place has of all alignments, by beta, two rows of places: of all
   alignments from a step on that begin at a place, but for that step. */
static void NAME(backwards)(const NAME(sequence) *q, const REAL *alpha, REAL *beta, REAL loss, REAL factor, REAL *gx) {
    const ptrdiff_t n = q->places;
    REAL *now = beta, *after = beta + n;
    for (ptrdiff_t i = 0; i < n; i++) now[i] = i < n - 2 ? -(REAL)INFINITY : 0;
    for (ptrdiff_t t = q->times - 1;; t--) {
        REAL *const to = gx + t * q->row;
        for (ptrdiff_t i = 0; i < n; i++) to[q->path[i]] -= factor * NAME(sm_exp)(alpha[t * n + i] + now[i] + loss);
        if (!t) return;
        const REAL *const x = q->x + t * q->row;
        for (ptrdiff_t i = 0; i < n; i++) after[i] = now[i] + x[q->path[i]];
        for (ptrdiff_t i = 0; i < n; i++) {
            now[i] = i + 1 < n ? NAME(joined)(after[i], after[i + 1]) : after[i];
            if (i + 2 < n && q->skips[i + 2]) now[i] = NAME(joined)(now[i], after[i + 2]);
        }
    }
}

/* to = factor * e^x */
VECTOR static void NAME(chances)(const REAL *x, REAL *to, ptrdiff_t n, REAL factor) {
    for (ptrdiff_t c = 0; c < n; c++) to[c] = factor * NAME(sm_exp)(x[c]);
}

static void NAME(sequences)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(job) *const j = context;
    const ctc_shape *const s = j->s;
    const size_t places = (size_t)(2 * s->most + 1), steps = (size_t)s->times + 2;
    char *const memory = malloc(places * (steps * sizeof(REAL) + sizeof(ptrdiff_t) + 1));
    if (!memory) return (void)(j->failed = 1);
    ptrdiff_t *const path = (ptrdiff_t *)memory;
    REAL *const alpha = (REAL *)(path + places), *const beta = alpha + places * (steps - 2);
    char *const skips = (char *)(beta + 2 * places);
    for (ptrdiff_t k = begin; k < end; k++) {
        const NAME(sequence) q = NAME(sequence_of)(j, k, path, skips);
        const REAL loss = NAME(forwards)(&q, alpha), share = s->average && s->lengths[k] > 1 ? 1 / (REAL)s->lengths[k] : 1;
        const int impossible = loss == (REAL)INFINITY;
        if (!j->g) {
            j->y[k] = impossible && s->zero_infinity ? 0 : loss * share;
            continue;
        }
        REAL *const gx = j->y + k * s->classes;
        const REAL factor = j->g[k] * share;
        for (ptrdiff_t t = 0; t < s->times; t++) {
            if (t < q.times && !impossible) NAME(chances)(q.x + t * q.row, gx + t * q.row, s->classes, factor);
            else memset(gx + t * q.row, 0, sizeof(REAL) * (size_t)s->classes);
        }
        if (!impossible) NAME(backwards)(&q, alpha, beta, loss, factor, gx);
    }
    free(memory);
}

static int NAME(all_sequences)(NAME(job) *j) {
    const ctc_shape *const s = j->s;
    if (!in_range(s)) return 0;
    const double each = 200.0 * (double)s->times * (double)(2 * s->most + 1) + (j->g ? 8.0 * (double)s->times * (double)s->classes : 0);
    parallel_for(s->count, (double)s->count * each, NAME(sequences), j);
    return !j->failed;
}

int NAME(ctc)(const ctc_shape *s, const REAL *x, REAL *losses) {
    NAME(job) job = {.s = s, .x = x, .y = losses};
    return NAME(all_sequences)(&job);
}

int NAME(ctc_back)(const ctc_shape *s, const REAL *g, const REAL *x, REAL *gx) {
    NAME(job) job = {.s = s, .x = x, .g = g, .y = gx};
    return NAME(all_sequences)(&job);
}

#endif
